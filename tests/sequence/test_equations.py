"""Layers and cells against their equations: all forms of texts, states and gradients."""

from __future__ import annotations

import copy
import itertools

import pytest
import torch
from torch import Tensor

from tests.covering import covering
from tests.nn.activation_equations import GREENS
from tests.sequence.equations import FORMS, assert_equations
from tests.sequence.layers import (
    KBRN,
    RCNN,
    RKM,
    of_every,
    of_some,
    some_one_way,
)
from tests.sequence.rkm import CELLS, NEVER_FED_BACK, QS, STATIC
from tests.sequence.texts import SIZE, assert_close, close, gradients, pointers, random_text, texts
from tests.sequence.variants import Family, Options, Variant, parts_of


@of_every
def test_every_form(variant: Variant) -> None:
    """Ragged, padded on any side with NaN, packed, as graphs; one text of length zero."""
    layer, pieces = variant.build(), texts(4, 0, 1, 4)
    forms = [form for form in FORMS[:7] if form != "packed"]
    assert_equations(variant, layer, pieces, [*forms, "left first", "lengths first"])
    assert_equations(variant, layer, texts(4, 2, 4), ["packed"])
    assert_equations(variant, layer, texts(4, 4), ["grid"])
    assert_equations(variant, layer, texts(5), ["one"])


RCNN_OPTIONS = covering(
    2,
    sums=[{"combine": c, "normalize": n} for c in ("mul", "add") for n in (False, True)],
    decay=[0.6, "learned", "input", "recurrent"],
    readout=["c", "z", "sum"],
    output_map=[False, True],
    output_gate=[False, True],
    highway=[False, True],
    order=[1, 2, 3],
    scalar_decay=[False, True],
    act=["tanh", "relu", None, torch.sin],
    bias=[False, True],
)
WINDOWS: list[Options] = [
    {"ngram": 1},
    {"ngram": 3},
    {"ngram": 3, "dilation": 2},
    {"ngram": [1, 2, 4], "dilation": 2},
    {"ngram": 4, "filters": "syncnet"},
    {"ngram": [2, 5], "filters": "syncnet", "dilation": 2},
]

RKM_CELLS: list[Options] = [{"cell": c} for c in CELLS if c != "general" and c not in STATIC]
RKM_CELLS += [{"cell": "general", "q": q} for q in QS]
RKM_CELLS += [
    {"cell": cell, "static": static, "learn_static": learn}
    for cell in STATIC
    for static in (None, 1.5 if cell in NEVER_FED_BACK else (2.0, 0.1))
    for learn in (False, True)
]
RKM_OPTIONS = covering(
    2, kind=RKM_CELLS, feedback=[None, False], layer_norm=[False, True], bias=[False, True]
)
KBRN_OPTIONS = covering(
    2,
    green=GREENS,
    num_centers=[1, 2, 13],
    affine=[False, True],
    shared=[False, True],
    normalize=[False, True],
    bias=[False, True],
    init_range=[(-2, 2), (-1, 5)],
)
ROWS = [
    *[(RCNN, {**options.pop("sums"), **options}) for options in RCNN_OPTIONS],
    *[
        (RKM, {**options.pop("kind"), **options, **window})
        for options, window in zip(RKM_OPTIONS, itertools.cycle(WINDOWS), strict=False)
    ],
    *[(KBRN, options) for options in KBRN_OPTIONS],
    (KBRN, {"green": "gaussian", "bandwidth": 0.3}),
]


@pytest.mark.parametrize(
    ("family", "options"), ROWS, ids=[f"{f.name}-{k}" for k, (f, _) in enumerate(ROWS)]
)
def test_options_that_meet(family: Family, options: Options) -> None:
    """Any two options meet (an RCNN's sums are one), on ragged texts and by steps of the cell."""
    variant = Variant(family, options)
    layer = variant.build()
    assert_equations(variant, layer, texts(5, 0, 2), ["ptr"])
    assert_equations(variant, layer, texts(4, 4), ["grid"], from_state=False)
    assert_equations(variant, layer, texts(3, 3), ["grid by steps"])
    assert_equations(variant, layer, texts(3), ["one by steps"], from_state=False)


GATED: list[tuple[Family, Options]] = [
    (RCNN, {"decay": "input", "combine": "add", "order": 3, "output_gate": True}),
    (RCNN, {"decay": "input", "scalar_decay": True, "normalize": False, "highway": True}),
    (RCNN, {"decay": "recurrent", "output_map": True, "output_gate": True}),
    (RKM, {"cell": "lstm"}),
    (RKM, {"ngram": 3, "layer_norm": True}),
    (RKM, {"cell": "rkm-cifg", "feedback": False, "ngram": [1, 3], "dilation": 2}),
    (RKM, {"cell": "ran", "feedback": False, "layer_norm": True}),
]
LONG: list[tuple[Family, Options]] = [
    *GATED,
    (RCNN, {"order": 3, "act": None}),
    (RCNN, {"decay": 1.0, "normalize": False, "combine": "add"}),
    (RCNN, {"decay": "learned", "scalar_decay": True, "readout": "z", "order": 3}),
    (RKM, {"cell": "general", "q": "tanh", "ngram": 2}),
    (RKM, {"cell": "linear-gated", "feedback": False, "learn_static": True}),
    (RKM, {"filters": "syncnet", "ngram": 20, "cell": "gated-cnn"}),
    *[(KBRN, {"green": g, "num_centers": 33, "affine": True}) for g in GREENS],
]


@pytest.mark.parametrize(("family", "options"), LONG)
def test_long_texts(family: Family, options: Options) -> None:
    scale = {"kbrn": 0.1, "rkm": 0.3, "rcnn": 0.6}[family.name]
    variant = Variant(family, options)
    assert_equations(variant, variant.build(scale=scale), texts(70, 7, 0), tolerance=10)


@pytest.mark.parametrize(("family", "options"), GATED)
def test_gates_that_are_shut_or_open(family: Family, options: Options) -> None:
    """One text contains decays of exactly 0 and of exactly 1, among others."""
    variant = Variant(family, {k: v for k, v in options.items() if k != "output_gate"})
    layer = variant.build(scale=0.4)
    (cell,), x = layer.cells, random_text(80, SIZE)
    of_cell = [cell.decay_lin.weight] if family is RCNN else cell.filters["forget"].weights
    with torch.no_grad():
        for weight in of_cell:
            weight.mul_(800.0)
    x[::3] = 0.0
    assert_equations(variant, layer, [x], tolerance=100 if family is RCNN else 1)


@some_one_way
def test_token_by_token(variant: Variant) -> None:
    """A text may be cut into any pieces, even empty ones, or long ones after short ones.

    A layer and a cell can continue from each other's states.
    """
    layer, x = variant.build(batch_first=True), random_text(3, 20, SIZE)
    whole, last = layer(x)
    inputs = [*layer.parameters()]
    wanted = torch.autograd.grad(whole.square().sum(), inputs)
    for cuts in ([1] * 20, [0, 20, 0], [1, 12, 2, 5]):
        outputs, state = [], None
        for piece in x.split(cuts, dim=1):
            output, state = layer(piece, state)
            outputs.append(output)
        found = torch.cat(outputs, dim=1)
        close(found, whole, rtol=1e-9, atol=1e-10)
        variant.family.assert_same_states(state, last, rtol=1e-9, atol=1e-10)
        slopes = torch.autograd.grad(found.square().sum(), inputs)
        names = [name for name, _ in layer.named_parameters()]
        assert_close([a / 100 for a in slopes], [b / 100 for b in wanted], names)
    if layer.num_layers == 1:
        _, state = layer(x[:, :7])
        after = layer.cells[0](x[:, 7], variant.family.of_cell(state))
        output, _ = layer(x[:, 8:], variant.family.of_layer(after))
        found = torch.cat([parts_of(after)[0].unsqueeze(1), output], dim=1)
        close(found, whole[:, 7:], rtol=1e-9, atol=1e-10)
    unbatched, state = layer(x[0, :7])
    variant.assert_shapes(state)
    close(torch.cat([unbatched, layer(x[0, 7:], state)[0]]), whole[0], rtol=1e-9, atol=1e-10)


@of_some
@pytest.mark.parametrize("training", [False, True], ids=["evaluation", "training"])
def test_no_texts_no_tokens(variant: Variant, training: bool) -> None:
    """Right shapes, zero states without tokens, finite gradients; inputs may have any strides.

    The running statistics of norms do not change without tokens.
    """
    layer = variant.build().train(training)
    for lengths in [[0, 1, 0, 2], [], [0], [0, 0, 0]]:
        x, before = random_text(sum(lengths), SIZE).requires_grad_(), copy.deepcopy(layer)
        output, state = layer(x, ptr=torch.tensor([0, *itertools.accumulate(lengths)]))
        assert output.shape == (sum(lengths), variant.width)
        variant.assert_shapes(state, len(lengths))
        assert all(g.isfinite().all() for g in gradients([output], [x, *layer.parameters()]))
        assert any(lengths) or all(map(torch.equal, layer.buffers(), before.buffers()))
    for steps, count in [(4, 0), (0, 3), (0, 0)]:
        output, state = layer(random_text(steps, count, SIZE))
        assert output.shape == (steps, count, variant.width)
        variant.assert_shapes(state, count)
        assert all((part == 0).all() and part.size(1) == count for part in parts_of(state))
    variant.assert_shapes(layer(random_text(0, SIZE))[1])
    assert parts_of(layer.cells[0](random_text(0, SIZE)))[0].shape == (0, variant.hidden)
    assert all(map(torch.equal, layer.buffers(), before.buffers()))
    x = random_text(3, 6, SIZE).transpose(0, 1)
    close(layer(x)[0], layer(x.contiguous())[0])
    one = random_text(6, 1, SIZE).expand(-1, 3, -1)
    close(layer(one)[0], layer(one.contiguous())[0])


@pytest.mark.parametrize(
    ("value", "lengths"), [(torch.nan, [5, 3, 7]), (1e308, [65, 0, 60])], ids=str
)
@of_some
def test_no_infinity_of_another_text(variant: Variant, lengths: list[int], value: float) -> None:
    """A NaN or overflow in the first text affects only that text, in outputs and in gradients."""
    layer, pieces = variant.build(scale=0.3), texts(*lengths)

    def run(batch: list[Tensor]) -> list[Tensor]:
        x = [piece.clone().requires_grad_() for piece in batch]
        output, _ = layer(torch.cat(x), ptr=pointers(batch))
        others = output.split(lengths)[1:]
        total = sum(part.sin().sum() for part in others)
        return [*others, *torch.autograd.grad(total, x[1:])]

    bad = [piece.clone() for piece in pieces]
    bad[0][lengths[0] // 2] = value
    close(run(bad), run(pieces))
