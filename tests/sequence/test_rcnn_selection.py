"""Tokens that count in part: the stated recurrence, and the text without the unselected."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor

from pyg_kernels.sequence import RCNN
from tests.sequence.equations import read_in_form
from tests.sequence.rcnn import BOTH_WAYS, SUM, layer_equations, random_rcnn
from tests.sequence.texts import F64, SIZE, close, gradients, joined, pointers, texts

LENGTHS = (5, 0, 1, 8, 5)
UNNORMALIZED: dict[str, Any] = {
    "additive": {"combine": "add", "normalize": False, "order": 3},
    "additive-sum": {"combine": "add", "normalize": False, "readout": "sum", "decay": "input"},
    "whole": {"normalize": False, "decay": 1.0, "order": 3},
    "additive-recurrent": {"combine": "add", "normalize": False, "decay": "recurrent"},
}
EQUATIONS = {**{k: v for k, v in SUM.items() if "num_layers" not in v}, **UNNORMALIZED}
VARIANTS = {**SUM, **{k: v for k, v in BOTH_WAYS.items() if "pooling" not in v}, **UNNORMALIZED}


def weights(*lengths: int) -> list[Tensor]:
    generator = torch.Generator().manual_seed(0)
    return [torch.rand(length, generator=generator, dtype=F64) for length in lengths]


@pytest.mark.parametrize("options", EQUATIONS.values(), ids=EQUATIONS)
def test_equations(options: dict[str, Any]) -> None:
    """And their gradients; some tokens of a text count in part, some wholly, some not at all."""
    rcnn, pieces, lengths = random_rcnn(SIZE, SIZE, **options), texts(*LENGTHS), [*LENGTHS]
    selection = torch.cat(weights(*LENGTHS))
    selection[6:9], selection[9:11], selection[14:] = 1.0, 0.0, 1.0
    inputs = [joined(pieces).requires_grad_(), selection.requires_grad_(), *rcnn.parameters()]
    out, (h, c) = rcnn(inputs[0], ptr=pointers(pieces), selection=selection)
    expected = [
        layer_equations(rcnn.cells[0], x, selection=s, **options)
        for x, s in zip(inputs[0].split(lengths), selection.split(lengths), strict=True)
    ]
    outputs, *ends = zip(*expected, strict=True)
    wanted = [torch.cat(outputs), *(torch.stack(end)[None] for end in ends)]
    close([out, h, c], wanted)
    close(gradients([out, h, c], inputs), gradients(wanted, inputs), atol=1e-10)


@pytest.mark.parametrize("options", VARIANTS.values(), ids=VARIANTS)
def test_choices_equal_the_text_without_the_others(options: dict[str, Any]) -> None:
    """Outputs at selected tokens, the state, and all gradients; the others leave no trace."""
    rcnn, pieces = random_rcnn(SIZE, SIZE, **options), texts(*LENGTHS)
    chosen = [(w < 0.5) & (i != 3) for i, w in enumerate(weights(*LENGTHS))]
    x, kept, ptr = joined(pieces).requires_grad_(), torch.cat(chosen), pointers(pieces)
    out, state = rcnn(x, ptr=ptr, selection=kept)
    found = gradients([out[kept], *state], [x, *rcnn.parameters()])
    shorter = [p[s] for p, s in zip(pieces, chosen, strict=True)]
    y = joined(shorter).requires_grad_()
    expected_out, expected_state = rcnn(y, ptr=pointers(shorter))
    expected = gradients([expected_out, *expected_state], [y, *rcnn.parameters()])
    assert (found[0][~kept] == 0).all()
    close(
        [out[kept], *state, found[0][kept], *found[1:]],
        [expected_out, *expected_state, *expected],
        atol=1e-10,
    )
    other = torch.where(kept.unsqueeze(1), x, 7 - 3 * x)
    again, state_again = rcnn(other, ptr=ptr, selection=kept)
    assert all(map(torch.equal, (out, *state), (again, *state_again)))


@pytest.mark.parametrize("options", [{"bidirectional": True}, {"num_layers": 2}], ids=str)
def test_forms_of_texts(options: dict[str, Any]) -> None:
    """Padded, packed and as graphs; and a text alone in two pieces."""
    rcnn = random_rcnn(SIZE, SIZE, decay="recurrent", **options)
    pieces, selection = texts(5, 1, 8, 5), weights(5, 1, 8, 5)
    expected, state = read_in_form(rcnn, pieces, selection=selection)
    for form in ("right", "left", "holes", "left first", "holes first", "packed", "paths"):
        found, end = read_in_form(rcnn, pieces, form=form, selection=selection)
        close([found, *end], [expected, *state])
    if not rcnn.bidirectional:
        (text, weight), both = (pieces[2], selection[2]), []
        after = None
        for part in (slice(3), slice(3, 8)):
            output, after = rcnn(text[part], after, selection=weight[part])
            both.append(output)
        close([torch.cat(both), after.h], [expected[6:14], state.h[:, 2]])


def test_bad_selections() -> None:
    rcnn, (x,) = random_rcnn(SIZE, SIZE), texts(6)
    shapes = [torch.ones(5), torch.ones(6, 1), [1.0] * 6]
    for selection in [*shapes, *(torch.full((6,), v) for v in (1.5, -0.1, float("nan")))]:
        with pytest.raises(ValueError, match="selection"):
            rcnn(x, ptr=torch.tensor([0, 2, 6]), selection=selection)
    for combine in ("mul", "add"):
        rcnn = RCNN(SIZE, SIZE, pooling="max", combine=combine)
        with pytest.raises(ValueError, match="pooling='max'"):
            rcnn(torch.zeros(3, SIZE), selection=torch.ones(3))


@pytest.mark.parametrize(
    ("dtype", "atol"), [(torch.float16, 5e-3), (torch.bfloat16, 5e-2)], ids=str
)
@pytest.mark.parametrize(
    "options",
    [{}, {"decay": "input"}, {"decay": "recurrent"}, {"output_map": True}, {"highway": True}],
    ids=str,
)
def test_selections_of_half_precision(
    options: dict[str, Any], dtype: torch.dtype, atol: float
) -> None:
    """They are computed in single precision, as the tokens are."""
    torch.manual_seed(0)
    layer, x, chosen = RCNN(6, 6, **options), torch.randn(5, 3, 6), torch.rand(5, 3)
    wanted, _ = layer(x, selection=chosen)
    found, _ = layer.to(dtype)(x.to(dtype), selection=chosen.to(dtype))
    torch.testing.assert_close(found.float(), wanted, rtol=0, atol=atol)


@pytest.mark.parametrize("decay", ["input", "recurrent"])
def test_outputs_can_be_changed_in_place(decay: str) -> None:
    layer, x = RCNN(6, 6, decay=decay), torch.randn(5, 3, 6)
    chosen = torch.rand(5, 3)
    for given in ({}, {"selection": chosen}):
        output, _ = layer(x, **given)
        assert torch.equal(output.detach().clone() * 2, output.mul_(2).detach())
