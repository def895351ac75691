"""Every cell, layer and equations side by side: outputs, states and the gradient of everything."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.nn import Module

from pyg_kernels.sequence import RKMCell, RKMState, RKMWindowState
from tests.sequence.rkm_equations import (
    CELLS,
    GATES,
    NEVER_FED_BACK,
    Q,
    biased,
    blocks,
    random_rkm,
    readers,
    rkm_equations,
)
from tests.sequence.rkm_variants import (
    HIDDEN,
    ONE_WAY,
    assert_equations,
    build,
    options_of,
    reach_of,
)
from tests.sequence.texts import SIZE, assert_close, close, gradients, random_text, texts

FEEDBACK = [
    (cell, f) for cell in CELLS for f in (True, False) if not f or cell not in NEVER_FED_BACK
]
WINDOWS: dict[str, dict[str, Any]] = {
    "1-gram": {"ngram": 1},
    "3-gram": {"ngram": 3},
    "3-gram-dilated": {"ngram": 3, "dilation": 2},
    "widths": {"ngram": [1, 2, 4]},
    "widths-dilated": {"ngram": [1, 2, 4], "dilation": 2},
}
of_cells = pytest.mark.parametrize(
    ("cell", "feedback"),
    FEEDBACK,
    ids=[f"{cell}-{'fed-back' if f else 'no-feedback'}" for cell, f in FEEDBACK],
)
of_windows = pytest.mark.parametrize("window", WINDOWS)


def options_for(cell: str, feedback: bool | None = None, **more: Any) -> dict[str, Any]:
    return {
        "cell": cell,
        "feedback": feedback,
        **({"q": "tanh"} if cell == "general" else {}),
        **more,
    }


@of_cells
@of_windows
def test_every_combination(cell: str, feedback: bool, window: str) -> None:
    """Ragged texts, one of them empty, that begin from a state."""
    for layer_norm in [False, True]:  # with a bias or without, by turns
        bias = layer_norm == (list(WINDOWS).index(window) % 2 == 0)
        options = options_for(cell, feedback, layer_norm=layer_norm, bias=bias, **WINDOWS[window])
        rkm = random_rkm(SIZE, 7, **options)
        assert_equations(rkm, options, texts(6, 0, 3, 1))


@of_cells
@of_windows
def test_from_nothing(cell: str, feedback: bool, window: str) -> None:
    """Texts of one length, and ragged ones, that begin with zeros."""
    options = options_for(cell, feedback, **WINDOWS[window])
    rkm = random_rkm(SIZE, 7, **options)
    assert_equations(rkm, options, texts(5, 5), from_state=False)
    assert_equations(rkm, options, texts(2, 6, 0), from_state=False)


class Scaled(Module):
    """A pointwise function with a parameter of its own."""

    def __init__(self) -> None:
        super().__init__()
        self.scale = torch.nn.Parameter(torch.tensor(0.7))

    def forward(self, t: Tensor) -> Tensor:
        return torch.sin(self.scale * t)


def softsign(t: Tensor) -> Tensor:
    return t / (1 + t.abs())


Q_OF_ALL_KINDS = [*Q, torch.tanh, softsign, torch.nn.ReLU(), torch.nn.Softplus(), Scaled()]


@pytest.mark.parametrize("feedback", [True, False], ids=["eq. 8", "eq. 6"])
@pytest.mark.parametrize("layer_norm", [False, True], ids=["plain", "layer-norm"])
@pytest.mark.parametrize("q", Q_OF_ALL_KINDS, ids=lambda q: getattr(q, "__name__", str(q)))
def test_q(q: Any, layer_norm: bool, feedback: bool) -> None:
    options = {"cell": "general", "q": q, "feedback": feedback, "layer_norm": layer_norm}
    for window in [{"ngram": 1}, {"ngram": [1, 3], "dilation": 2}]:
        rkm = random_rkm(SIZE, HIDDEN, **options, **window)
        assert_equations(rkm, {**options, **window}, texts(6, 0, 3, 1))


def test_a_q_with_parameters_is_trained_in_each_layer() -> None:
    rkm = random_rkm(SIZE, HIDDEN, cell="general", q=Scaled(), num_layers=2)
    scales = [p for name, p in rkm.named_parameters() if name.endswith("scale")]
    assert len(scales) == 2
    rkm(random_text(5, 2, SIZE))[0].square().sum().backward()
    assert all(p.grad is not None and p.grad != 0 for p in scales)


STATIC: dict[str, dict[str, Any]] = {
    f"{cell}-{kind}": {"cell": cell, **options}
    for cell, kind, options in [
        ("linear", "fixed", {"static": (0.3, 0.8)}),
        ("linear", "learned", {"learn_static": True}),
        ("linear", "learned-from", {"learn_static": True, "static": (0.3, 0.8)}),
        ("linear-gated", "fixed", {"static": (2.0, 0.1)}),
        ("linear-gated", "learned", {"learn_static": True}),
        ("cnn", "fixed", {"static": 0.3}),
        ("cnn", "learned", {"learn_static": True}),
        ("gated-cnn", "fixed", {"static": 1.5}),
        ("gated-cnn", "learned", {"learn_static": True, "static": 1.5}),
    ]
}


@pytest.mark.parametrize("feedback", [None, False], ids=["table", "no-feedback"])
@pytest.mark.parametrize("name", STATIC)
def test_static_gates(name: str, feedback: bool | None) -> None:
    for more in [{"ngram": 1}, {"ngram": 3, "layer_norm": True}]:
        options = {**STATIC[name], **more, "feedback": feedback}
        assert_equations(random_rkm(SIZE, HIDDEN, **options), options, texts(6, 0, 3, 1))


@pytest.mark.parametrize("cell", ["linear", "linear-gated", "cnn", "gated-cnn"])
def test_values_of_static_gates(cell: str) -> None:
    """The table's or those given; where learned, they begin with them."""
    memoryless = cell in NEVER_FED_BACK
    default, other = ((1.0, 0.0), (0.3, 0.0)) if memoryless else ((0.5, 0.5), (0.3, 0.8))
    for static, expected in [(None, default), (other[0] if memoryless else other, other)]:
        assert RKMCell(3, 4, cell=cell, static=static).static == expected
        part = RKMCell(3, 4, cell=cell, static=static, learn_static=True).double()
        s_i, s_f = (float(torch.as_tensor(s).detach()) for s in part.static)
        assert (s_i, s_f) == pytest.approx(expected, rel=1e-6)


@pytest.mark.parametrize("cell", ["linear", "linear-gated", "cnn", "gated-cnn"])
def test_learned_static_gates_are_an_exponential_and_a_sigmoid(cell: str) -> None:
    part = RKMCell(3, 4, cell=cell, learn_static=True).double()
    learned = [p for p in part.parameters() if p.dim() == 0]
    assert len(learned) == (1 if cell in NEVER_FED_BACK else 2)
    for p in learned:
        torch.nn.init.constant_(p, 0.4)
    s_i, s_f = part.static
    assert s_i.item() == pytest.approx(math.exp(0.4), rel=1e-12)
    if cell in NEVER_FED_BACK:
        assert s_f == 0.0
    else:
        assert s_f.item() == pytest.approx(1 / (1 + math.exp(-0.4)), rel=1e-12)


@pytest.mark.parametrize("cell", [c for c in CELLS if c not in ("linear", "linear-gated", "cnn")])
def test_cells_with_gates_have_nothing_static(cell: str) -> None:
    static = random_rkm(3, 4, **options_for(cell)).cells[0].static
    if cell == "gated-cnn":
        assert tuple(static) == (1.0, 0.0)
    else:
        assert static is None


@pytest.mark.parametrize("ngram", [4, [2, 5]], ids=str)
@of_cells
def test_wavelet_filters(cell: str, feedback: bool, ngram: int | list[int]) -> None:
    for more in [{"dilation": 1}, {"dilation": 2, "layer_norm": True}]:
        options = options_for(cell, feedback, ngram=ngram, filters="syncnet", **more)
        assert_equations(random_rkm(SIZE, HIDDEN, **options), options, texts(7, 0, 3))


ONE_LAYER = {name: o for name, o in ONE_WAY.items() if "num_layers" not in o}


@pytest.mark.parametrize("name", ONE_LAYER)
def test_the_cell_stepped_by_hand(name: str) -> None:
    options = ONE_LAYER[name]
    rkm = build(options)
    cell, reach = rkm.cells[0], reach_of(options)
    x = random_text(6, 2, SIZE).requires_grad_()
    state, outputs = None, []
    for x_t in x:
        state = cell(x_t, state)
        outputs.append(state.h)
    assert isinstance(state, RKMWindowState if reach else RKMState)
    expected = rkm_equations(cell, x, **options_of(options, cell))
    found = [torch.stack(outputs), *state]
    assert_close(found, list(expected)[: len(found)], ["output", "h", "c", "window"][: len(found)])
    inputs = {"x": x, **dict(rkm.named_parameters())}
    assert_close(
        gradients(found, list(inputs.values())),
        gradients(list(expected)[: len(found)], list(inputs.values())),
        list(inputs),
    )
    alone, outputs = None, []
    for x_t in x[:, 1]:
        alone = cell(x_t, alone)
        outputs.append(alone.h)
    close(torch.stack(outputs), expected.output[:, 1])
    close(rkm(x[:, 1])[0], expected.output[:, 1])
    _, end = rkm(x[:, 1])
    for a, b in zip(alone, end, strict=True):
        close(a, b.reshape(a.shape))


@pytest.mark.parametrize("name", ONE_LAYER)
def test_cell_and_layer_continue_each_other(name: str) -> None:
    rkm, x = build(ONE_LAYER[name]), random_text(6, 2, SIZE)
    whole, _ = rkm(x)
    _, (h, c, *window) = rkm(x[:4])
    after = rkm.cells[0](x[4], (h[0], c[0], *window))
    close(after.h, whole[4])
    close(rkm(x[5:], (after[0][None], after[1][None], *after[2:]))[0][0], whole[5])


@of_cells
@of_windows
def test_parts(cell: str, feedback: bool, window: str) -> None:
    """The filters, maps and biases of DESIGN's table, of the shapes that it gives."""
    options = options_for(cell, feedback, **WINDOWS[window])
    part = random_rkm(SIZE, 7, **options).cells[0]
    assert isinstance(part, RKMCell)
    assert set(part.filters) == {*GATES[cell], "candidate"}
    assert set(part.recurrent) == set(readers(cell, feedback))
    assert set(part.biases) == set(biased(cell))
    assert part.norm is None
    shapes = [(size, SIZE, n) for n, size in blocks(options["ngram"], 7)]
    for filters in part.filters.values():
        assert [tuple(w.shape) for w in filters.weights] == shapes
        assert [tuple(w.shape) for w in filters()] == shapes
        if len(shapes) == 1:
            assert filters.weight is filters.weights[0]
    assert all(m.weight.shape == (7, 7) for m in part.recurrent.values())
    assert all(b.shape == (7,) for b in part.biases.values())
    bare = random_rkm(SIZE, 7, **options, bias=False, layer_norm=True).cells[0]
    assert len(bare.biases) == 0
    assert isinstance(bare.norm, torch.nn.LayerNorm) and bare.norm.normalized_shape == (7,)


def test_blocks_share_the_channels_evenly() -> None:
    cell = random_rkm(3, 11, ngram=[2, 1, 5, 3], cell="cnn").cells[0]
    found = [tuple(w.shape) for w in cell.filters["candidate"].weights]
    assert found == [(3, 3, 2), (3, 3, 1), (3, 3, 5), (2, 3, 3)]


@of_cells
@pytest.mark.parametrize("layer_norm", [False, True], ids=["plain", "layer-norm"])
def test_any_one_gradient(cell: str, feedback: bool, layer_norm: bool) -> None:
    """Only what asks for a gradient gets one, and it is the same."""
    learned = {"learn_static": True} if cell in ("linear", "linear-gated") else {}
    options = options_for(cell, feedback, ngram=[1, 3], layer_norm=layer_norm, **learned)
    rkm = random_rkm(2, 3, **options)
    inputs = [
        random_text(2, 2, 2),
        *(random_text(1, 2, 3, seed=s) for s in (1, 2)),
        random_text(4, 2, 2),
    ]
    inputs += list(rkm.parameters())

    def total() -> Tensor:
        x, h, c, window = inputs[:4]
        output, state = rkm(window, (h, c, x))
        return output.square().sum() + state.c.sin().sum()

    def only(wanted: list[Tensor]) -> list[Tensor]:
        for t in inputs:
            t.requires_grad_(any(t is w for w in wanted))
        return list(torch.autograd.grad(total(), wanted, allow_unused=True, materialize_grads=True))

    expected = only(inputs)
    unread = [g for g, t in zip(expected, inputs, strict=True) if not g.any()]
    assert len(unread) == (not rkm.cells[0].recurrent) + (cell in NEVER_FED_BACK)  # h and c
    for t, gradient in zip(inputs, expected, strict=True):
        if gradient.any():
            close(only([t])[0], gradient)
    for t in inputs:
        t.requires_grad_(False)
    assert not total().requires_grad


def test_feedback_of_the_table() -> None:
    for cell in CELLS:
        part = random_rkm(3, 4, **options_for(cell)).cells[0]
        assert set(part.recurrent) == set(readers(cell))


def test_a_cell_of_its_own() -> None:
    torch.manual_seed(0)
    cell, x = RKMCell(3, SIZE, ngram=2, layer_norm=True).double(), random_text(5, 2, 3)
    state, outputs = None, []
    for x_t in x:
        state = cell(x_t, state)
        outputs.append(state.h)
    close(torch.stack(outputs), rkm_equations(cell, x, ngram=2, layer_norm=True).output)
