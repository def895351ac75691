"""Long texts, which may be read in chunks: still the pieces of the whole."""

from __future__ import annotations

import torch

from tests.sequence.layers import one_way
from tests.sequence.texts import SIZE, close, pointers, random_text, texts
from tests.sequence.variants import Variant


@one_way
def test_pieces(variant: Variant) -> None:
    layer, x = variant.build(scale=0.3), random_text(140, 1, SIZE)
    whole, last = layer(x)
    outputs, state = [], None
    for piece in x.split([1, 37, 2, 100]):
        output, state = layer(piece, state)
        outputs.append(output)
    close(torch.cat(outputs), whole)
    variant.family.assert_same_states(state, last)


@one_way
def test_texts_of_very_different_lengths(variant: Variant) -> None:
    layer, pieces = variant.build(scale=0.3), texts(2, 120, 0, 33, 1)
    x = torch.cat(pieces).requires_grad_()
    parameters = [x, *layer.parameters()]
    output, state = layer(x, ptr=pointers(pieces))
    found = torch.autograd.grad(output.square().sum(), parameters)
    alone = [layer(piece) for piece in x.split([len(p) for p in pieces])]
    close(output, torch.cat([out for out, _ in alone]))
    variant.family.assert_of_texts(state, [end for _, end in alone])
    total = sum(out.square().sum() for out, _ in alone)
    for a, b in zip(found, torch.autograd.grad(total, parameters), strict=True):
        close(a, b, rtol=1e-9, atol=1e-9)
