"""The layer, its cell stepped by hand and the equations written out: outputs and gradients."""

from __future__ import annotations

from collections.abc import Callable
from itertools import product
from typing import Any

import pytest
import torch
from torch import Tensor

from pyg_kernels.sequence import RCNN, RCNNCell, RCNNState
from tests.sequence.rcnn_equations import layer_equations, random_rcnn
from tests.sequence.rcnn_variants import MAX, SUM, build
from tests.sequence.texts import SIZE, close, random_text

Run = Callable[[Tensor, Tensor, Tensor], tuple[Tensor, Tensor, Tensor]]
STEPS, COUNT = 4, 2


def by_layer(rcnn: RCNN) -> Run:
    def run(x: Tensor, h: Tensor, c: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        output, state = rcnn(x, RCNNState(h[None], c[None]))
        return output, state.h[0], state.c[0]

    return run


def by_cell(cell: RCNNCell) -> Run:
    def run(x: Tensor, h: Tensor, c: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        outputs = []
        for x_t in x:
            h, c = cell(x_t, (h, c))
            outputs.append(h)
        return torch.stack(outputs), h, c

    return run


def by_equations(cell: RCNNCell, options: dict[str, Any]) -> Run:
    def run(x: Tensor, h: Tensor, c: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        return layer_equations(cell, x, h, c, **options)

    return run


def results(run: Run, inputs: tuple[Tensor, Tensor, Tensor], rcnn: RCNN) -> list[Tensor]:
    """Outputs, and the gradients of a weighted sum of them by every input and parameter."""
    inputs = tuple(t.detach().requires_grad_() for t in inputs)  # type: ignore[assignment]
    found = run(*inputs)
    total = sum((random_text(*t.shape, seed=9) * t).sum() for t in found)
    gradients = torch.autograd.grad(
        total, [*inputs, *rcnn.parameters()], allow_unused=True, materialize_grads=True
    )
    return [*found, *gradients]


def combinations() -> list[dict[str, Any]]:
    """Every combination of product and sum, normalisation, decay, readout and the three extensions.

    Order, scalar decay, activation and bias take turns: each goes with every other option.
    """
    grid = product(
        ["mul", "add"],
        [False, True],
        [0.6, "learned", "input", "recurrent"],
        ["c", "z", "sum"],
        *[[False, True]] * 3,
    )
    names = ["combine", "normalize", "decay", "readout", "output_map", "output_gate", "highway"]
    found = []
    for i, values in enumerate(grid):
        options = dict(zip(names, values, strict=True))
        options |= {
            "order": 1 + i % 3,
            "scalar_decay": i % 5 > 2 and options["decay"] != 0.6,
            "act": ["tanh", "relu", None, torch.sin][i % 7 % 4],
            "bias": i % 11 > 2,
        }
        found.append(options)
    return found


@pytest.mark.parametrize("decay", [0.6, "learned", "input", "recurrent"])
@pytest.mark.parametrize("readout", ["c", "z", "sum"])
@pytest.mark.parametrize("combine", ["mul", "add"])
@pytest.mark.parametrize("normalize", [False, True])
def test_every_combination(decay: float | str, readout: str, combine: str, normalize: bool) -> None:
    fixed = {"decay": decay, "readout": readout, "combine": combine, "normalize": normalize}
    chosen = [o for o in combinations() if all(o[k] == v for k, v in fixed.items())]
    assert len(chosen) == 8
    for options in chosen:
        rcnn = random_rcnn(SIZE, SIZE, **options)
        cell = rcnn.cells[0]
        inputs = (
            random_text(STEPS, COUNT, SIZE, seed=1),
            random_text(COUNT, SIZE, seed=2),
            random_text(COUNT, options["order"], SIZE, seed=3),
        )
        expected = results(by_equations(cell, options), inputs, rcnn)
        for run in [by_layer(rcnn), by_cell(cell)]:
            for a, b in zip(results(run, inputs, rcnn), expected, strict=True):
                close(a, b, rtol=1e-9, atol=1e-10)


@pytest.mark.parametrize("name", SUM)
def test_cell_from_nothing_and_unbatched(name: str) -> None:
    """Without a state a cell begins a text."""
    rcnn = build(SUM[name], num_layers=1)
    cell, x = rcnn.cells[0], random_text(STEPS, COUNT, SIZE)
    output, _ = rcnn(x)
    state = cell(x[0])
    assert isinstance(state, RCNNState)
    close(state.h, output[0])
    second = cell(x[1], state)
    close(second.h, output[1])
    alone = cell(x[1, 0], (state.h[0], state.c[0]))
    close(alone.h, output[1, 0])
    close(alone.c, second.c[0])
    close(cell(x[0, 0]).h, output[0, 0])


@pytest.mark.parametrize("name", MAX)
def test_cell_of_maxima(name: str) -> None:
    rcnn = build(MAX[name], num_layers=1)
    cell, x = rcnn.cells[0], random_text(STEPS, COUNT, SIZE)
    output, _ = rcnn(x)
    state = None
    for t in range(STEPS):
        state = cell(x[t], state)
        close(state[0], output[t])
    state = None
    for t in range(STEPS):
        state = cell(x[t, 0], state)
        close(state[0], output[t, 0])


def test_a_cell_of_its_own() -> None:
    torch.manual_seed(0)
    cell = RCNNCell(3, SIZE, order=3, decay="recurrent", output_gate=True).double()
    x = random_text(STEPS, COUNT, 3)
    found = by_cell(cell)(x, x.new_zeros(COUNT, SIZE), x.new_zeros(COUNT, 3, SIZE))
    options: dict[str, Any] = {"order": 3, "decay": "recurrent", "output_gate": True}
    for a, b in zip(found, layer_equations(cell, x, **options), strict=True):
        close(a, b)


@pytest.mark.parametrize("extension", ["output_map", "output_gate", "highway", "bias"])
def test_extensions_build_their_parameters_only_on_request(extension: str) -> None:
    names = {
        "output_map": ["output_lin"],
        "output_gate": ["output_gate_lin", "output_gate_bias", "output_gate_recurrent"],
        "highway": ["highway_lin", "highway_bias"],
        "bias": ["bias"],
    }[extension]
    off = random_rcnn(SIZE, SIZE, decay="recurrent", **{extension: False})
    on = random_rcnn(SIZE, SIZE, decay="recurrent", **{extension: True})
    keys = {k.removeprefix("cells.0.").removesuffix(".weight") for k in on.state_dict()}
    missing = {k.removeprefix("cells.0.").removesuffix(".weight") for k in off.state_dict()}
    assert keys - missing == set(names)


def test_output_gate_reads_the_output_only_where_the_decay_does() -> None:
    plain = random_rcnn(SIZE, SIZE, decay="input", output_gate=True).state_dict()
    assert not any("recurrent" in key for key in plain)
    recurrent = random_rcnn(SIZE, 3, decay="recurrent", output_gate=True).cells[0]
    assert recurrent.output_gate_lin.weight.shape == (3, SIZE)
    assert recurrent.output_gate_bias.shape == (3,)
    assert recurrent.output_gate_recurrent.weight.shape == (3, 3)


def test_gates_keep_their_biases_without_bias() -> None:
    """`bias` is the one before the activation alone."""
    options: dict[str, Any] = {"decay": "recurrent", "output_gate": True, "highway": True}
    keys = random_rcnn(SIZE, SIZE, bias=False, **options).state_dict()
    found = {k for k in keys if k.endswith("bias")}
    assert found == {f"cells.0.{gate}_bias" for gate in ["decay", "output_gate", "highway"]}
