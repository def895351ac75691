"""The layer, its cell stepped by hand and the equations written out: outputs and gradients."""

from __future__ import annotations

from collections.abc import Callable
from itertools import product
from typing import Any

import pytest
import torch
from torch import Tensor

from pyg_kernels.sequence import RCNN, RCNNCell, RCNNState
from tests.sequence.rcnn_equations import layer_equations, random_rcnn, random_text
from tests.sequence.variants import MAX, ONE_WAY, SIZE, SUM, build, close

Run = Callable[[Tensor, Tensor, Tensor], tuple[Tensor, Tensor, Tensor]]
STEPS, COUNT = 5, 2


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
    """Every combination of mapping, normalisation, decay, state and the three extensions.

    Order, scalar decay, activation and bias take turns: each goes with every other option.
    """
    grid = product(
        ["mul", "add"],
        [False, True],
        [0.6, "learned", "input", "recurrent"],
        ["c", "z", "sum"],
        *[[False, True]] * 3,
    )
    names = ["mapping", "normalize", "decay", "state", "output_map", "output_gate", "highway"]
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
@pytest.mark.parametrize("state", ["c", "z", "sum"])
@pytest.mark.parametrize("mapping", ["mul", "add"])
@pytest.mark.parametrize("normalize", [False, True])
def test_every_combination(decay: float | str, state: str, mapping: str, normalize: bool) -> None:
    fixed = {"decay": decay, "state": state, "mapping": mapping, "normalize": normalize}
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


GRADCHECK: dict[str, dict[str, Any]] = {
    "constant": {"order": 3},
    "additive": {"order": 3, "mapping": "add", "normalize": False},
    "learned": {"decay": "learned", "state": "sum"},
    "input": {"decay": "input", "state": "z", "output_gate": True},
    "scalar": {"decay": "input", "scalar_decay": True, "mapping": "add"},
    "recurrent": {"decay": "recurrent", "output_map": True},
    "recurrent-gated": {"decay": "recurrent", "output_gate": True, "state": "sum"},
    "recurrent-highway": {"decay": "recurrent", "highway": True, "mapping": "add", "state": "z"},
    "recurrent-scalar": {"decay": "recurrent", "scalar_decay": True, "normalize": False},
    "recurrent-everything": {
        "decay": "recurrent",
        "order": 1,
        "output_map": True,
        "output_gate": True,
        "highway": True,
    },
    "stack": {"num_layers": 2, "decay": "input"},
    "recurrent-both-ways": {"decay": "recurrent", "bidirectional": True},
    "max": {"pooling": "max", "order": 2, "decay": "input"},
    "max-add": {"pooling": "max", "order": 2, "mapping": "add", "decay": "learned"},
}


def of_parameters(rcnn: RCNN, *arguments: Any, **keywords: Any) -> tuple[Any, list[Tensor]]:
    """The layer as a function of its inputs and parameters."""
    names = [name for name, _ in rcnn.named_parameters()]

    def call(x: Tensor, *parameters: Tensor) -> tuple[Tensor, Tensor]:
        given = dict(zip(names, parameters, strict=True))
        output, state = torch.func.functional_call(rcnn, given, (x, *arguments), keywords)
        return output, state.h

    return call, [p.detach().clone().requires_grad_() for p in rcnn.parameters()]


@pytest.mark.parametrize("name", GRADCHECK)
def test_gradcheck(name: str) -> None:
    size = 2
    rcnn = random_rcnn(size, size, **GRADCHECK[name])
    call, parameters = of_parameters(rcnn, ptr=torch.tensor([0, 3, 3, 5]))
    x = random_text(5, size).requires_grad_()
    assert torch.autograd.gradcheck(call, (x, *parameters), fast_mode=False)


@pytest.mark.parametrize("name", GRADCHECK)
def test_second_derivatives(name: str) -> None:
    size = 2
    rcnn = random_rcnn(size, size, **GRADCHECK[name])
    call, parameters = of_parameters(rcnn, ptr=torch.tensor([0, 2, 5]))
    x = random_text(5, size).requires_grad_()
    assert torch.autograd.gradgradcheck(call, (x, *parameters), fast_mode=True)


@pytest.mark.parametrize("name", GRADCHECK)
def test_gradients_that_keep_their_graph(name: str) -> None:
    rcnn = random_rcnn(SIZE, SIZE, **GRADCHECK[name])
    x = random_text(6, 3, SIZE).requires_grad_()
    inputs = [x, *rcnn.parameters()]
    plain = torch.autograd.grad(rcnn(x)[0].square().sum(), inputs)
    kept = torch.autograd.grad(rcnn(x)[0].square().sum(), inputs, create_graph=True)
    for a, b in zip(kept, plain, strict=True):
        close(a, b)
    penalty = torch.autograd.grad(sum(g.square().sum() for g in kept), inputs)
    assert all(g.isfinite().all() for g in penalty)


def test_gradcheck_of_the_initial_state() -> None:
    for decay in [0.5, "input", "recurrent"]:
        rcnn = random_rcnn(2, 2, decay=decay, order=2, output_gate=True)
        x = random_text(4, 2, 2).requires_grad_()
        h = random_text(1, 2, 2, seed=1).requires_grad_()
        c = random_text(1, 2, 2, 2, seed=2).requires_grad_()

        def call(x: Tensor, h: Tensor, c: Tensor, rcnn: RCNN = rcnn) -> tuple[Tensor, ...]:
            output, state = rcnn(x, (h, c))
            return output, state.h, state.c

        assert torch.autograd.gradcheck(call, (x, h, c))
        assert torch.autograd.gradgradcheck(call, (x, h, c), fast_mode=True)


@pytest.mark.parametrize("name", GRADCHECK)
def test_transforms(name: str) -> None:
    """torch.func's grad, vmap, jvp and jacrev agree with plain autograd."""
    rcnn = random_rcnn(SIZE, SIZE, **GRADCHECK[name])
    x = random_text(5, 3, SIZE).requires_grad_()
    parameters = {k: v.detach() for k, v in rcnn.named_parameters()}

    def total(parameters: dict[str, Tensor], x: Tensor) -> Tensor:
        return torch.func.functional_call(rcnn, parameters, (x,))[0].square().sum()

    found = torch.func.grad(total)(parameters, x.detach())
    expected = torch.autograd.grad(rcnn(x)[0].square().sum(), [x, *rcnn.parameters()])
    for a, b in zip(found.values(), expected[1:], strict=True):
        close(a, b)
    close(torch.func.grad(total, argnums=1)(parameters, x.detach()), expected[0])
    close(torch.func.jacrev(total, argnums=1)(parameters, x.detach()), expected[0])

    several = torch.stack([x.detach(), 2 * x.detach()])
    close(
        torch.func.vmap(total, in_dims=(None, 0))(parameters, several),
        torch.stack([total(parameters, t) for t in several]),
    )
    per_sample = torch.func.vmap(torch.func.grad(total), in_dims=(None, 0))(parameters, several)
    for k, v in torch.func.grad(total)(parameters, several[1]).items():
        close(per_sample[k][1], v)
    tangent = random_text(*x.shape, seed=4)
    _, directional = torch.func.jvp(lambda t: total(parameters, t), (x.detach(),), (tangent,))
    close(directional, (expected[0] * tangent).sum())

    output, _ = rcnn(x)
    several = random_text(2, *output.shape, seed=5)
    (batched,) = torch.autograd.grad(output, x, several, retain_graph=True, is_grads_batched=True)
    for found_one, direction in zip(batched, several, strict=True):
        close(found_one, torch.autograd.grad(output, x, direction, retain_graph=True)[0])


@pytest.mark.parametrize("name", ONE_WAY)
def test_the_gradient_of_an_unused_output(name: str) -> None:
    """The state alone, or one output alone, may carry a gradient."""
    rcnn = build(ONE_WAY[name])
    x = random_text(5, 2, SIZE).requires_grad_()
    output, state = rcnn(x)
    (of_state,) = torch.autograd.grad(state.h[-1].sum(), x, retain_graph=True)
    (of_output,) = torch.autograd.grad(output[-1].sum(), x, retain_graph=True)
    close(of_state, of_output)
    (of_middle,) = torch.autograd.grad(output[2].sum(), x)
    assert (of_middle[3:] == 0).all()
