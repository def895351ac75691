"""Where the activation is a known function, the layer is an nn.RNN."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.nn import RNN
from torch.nn.utils.rnn import PackedSequence, pack_padded_sequence, pack_sequence

from pyg_kernels.sequence import KBRN
from tests.sequence.kbrn_equations import cell_equations
from tests.sequence.texts import SIZE, assert_close, close, gradients, random_text, texts

HIDDEN = 6
STACKS: dict[str, dict[str, Any]] = {
    "no-bias": {"bias": False},
    "stack": {"num_layers": 2},
    "both-ways-stack": {"num_layers": 2, "bidirectional": True, "batch_first": True},
}


@pytest.fixture(autouse=True)
def _in_double() -> Iterator[None]:
    """So that initial functions are exact to more than float32."""
    torch.set_default_dtype(torch.float64)
    yield
    torch.set_default_dtype(torch.float32)


def names_of(rnn: RNN, number: int) -> dict[str, str]:
    layer, direction = divmod(number, 2) if rnn.bidirectional else (number, 0)
    end = f"_l{layer}" + "_reverse" * direction
    return {key: key + end for key in ("weight_ih", "weight_hh", "bias_ih", "bias_hh")}


def copied(rnn: RNN, kbrn: KBRN) -> None:
    with torch.no_grad():
        for number, cell in enumerate(kbrn.cells):
            at = names_of(rnn, number)
            cell.lin_input.weight.copy_(getattr(rnn, at["weight_ih"]))
            cell.lin_recurrent.weight.copy_(getattr(rnn, at["weight_hh"]))
            if rnn.bias:
                both = getattr(rnn, at["bias_ih"]) + getattr(rnn, at["bias_hh"])
                cell.lin_input.bias.copy_(both)


def one_relu_at_zero(kbrn: KBRN) -> None:
    with torch.no_grad():
        for cell in kbrn.cells:
            cell.activation.centers.zero_()
            cell.activation.coefficients.fill_(1.0)


def of_tanh(kbrn: KBRN) -> None:
    for cell in kbrn.cells:
        cell.activation = torch.nn.Tanh()


KINDS: dict[str, tuple[str, dict[str, Any], Callable[[KBRN], None] | None]] = {
    "one-center": ("relu", {"num_centers": 1, "shared": True}, one_relu_at_zero),
    "init": ("relu", {"green": "abs", "num_centers": 41, "init": "relu", "affine": True}, None),
    "tanh": ("tanh", {"num_centers": 5}, of_tanh),
}


def pair(kind: str, stack: dict[str, Any]) -> tuple[RNN, KBRN]:
    torch.manual_seed(0)
    nonlinearity, options, change = KINDS[kind]
    rnn = RNN(SIZE, HIDDEN, nonlinearity=nonlinearity, **stack)
    kbrn = KBRN(SIZE, HIDDEN, normalize=False, **options, **stack)
    if change is not None:
        change(kbrn)
    copied(rnn, kbrn)
    return rnn, kbrn


def assert_equal(rnn: RNN, kbrn: KBRN, x: Tensor | PackedSequence, *more: Tensor) -> None:
    """Outputs, final states and gradients of the inputs and of all weights."""
    leaf = x.data if isinstance(x, PackedSequence) else x
    leaf.requires_grad_()
    results = []
    for layer in (rnn, kbrn):
        output, h_n = layer(x, *more)
        assert isinstance(h_n, Tensor)
        if isinstance(output, PackedSequence):
            output = output.data
        results.append([output, h_n])
    assert_close(results[1], results[0], ["output", "h_n"])
    expected, found = [leaf, *more], [leaf, *more]
    for number, cell in enumerate(kbrn.cells):
        at = names_of(rnn, number)
        expected += [getattr(rnn, at["weight_ih"]), getattr(rnn, at["weight_hh"])]
        found += [cell.lin_input.weight, cell.lin_recurrent.weight]
        if rnn.bias:
            expected.append(getattr(rnn, at["bias_hh"]))
            found.append(cell.lin_input.bias)
    assert_close(
        gradients(results[1], found),
        gradients(results[0], expected),
        [f"gradient {i}" for i in range(len(found))],
    )


@pytest.mark.parametrize("stack", STACKS.values(), ids=STACKS)
@pytest.mark.parametrize("kind", KINDS)
def test_nn_rnn(kind: str, stack: dict[str, Any]) -> None:
    """Batches, one text, packed and padded ones; from nothing and from a state."""
    rnn, kbrn = pair(kind, stack)
    cells = len(kbrn.cells)
    grid = random_text(3, 5, SIZE) if rnn.batch_first else random_text(5, 3, SIZE)
    lengths = torch.tensor([5, 3, 2])
    padded = pack_padded_sequence(grid.clone(), lengths, batch_first=rnn.batch_first)
    packed = pack_sequence(texts(4, 6, 1, 6), enforce_sorted=False)
    forms: list[tuple[Any, tuple[int, ...]]] = [(grid, (3,)), (random_text(7, SIZE), ())]
    for x, count in [*forms, (packed, (4,)), (padded, (3,))]:
        assert_equal(rnn, kbrn, x)
        if not rnn.bidirectional:
            h_0 = random_text(cells, *count, HIDDEN, seed=5).requires_grad_()
            assert_equal(rnn, kbrn, x, h_0)


@pytest.mark.parametrize(
    "options",
    [
        {"init": "identity", "affine": True},
        {"init": "identity", "affine": True, "green": "abs"},
        {"init": "identity", "affine": True, "num_centers": 1},
        {"init": "identity", "affine": True, "shared": True, "init_range": (0.5, 3)},
    ],
    ids=str,
)
def test_the_identity_is_a_linear_recurrence(options: dict[str, Any]) -> None:
    torch.manual_seed(0)
    kbrn = KBRN(SIZE, HIDDEN, normalize=False, **options)
    pieces = texts(4, 0, 6)
    found, h_n = kbrn(torch.cat(pieces), ptr=torch.tensor([0, 4, 4, 10]))
    zeros = torch.zeros(3, HIDDEN)
    outputs, h, _ = cell_equations(kbrn.cells[0], pieces, zeros, lambda a: a)
    close(found, torch.cat(outputs))
    close(h_n[0], h)


def test_any_module_in_place_of_the_activation() -> None:
    """Called with the rows of each step; it may have parameters, and modes."""
    torch.manual_seed(0)
    act = torch.nn.Sequential(torch.nn.Linear(HIDDEN, HIDDEN), torch.nn.PReLU())
    for normalize in [False, True]:
        kbrn = KBRN(SIZE, HIDDEN, num_centers=5, normalize=normalize)
        kbrn.cells[0].activation = act
        x = random_text(5, 3, SIZE).requires_grad_()
        output, h_n = kbrn(x)
        outputs, h, _ = cell_equations(kbrn.cells[0], x.unbind(1), torch.zeros(3, HIDDEN), act)
        inputs = [x, *kbrn.parameters()]
        assert_close([output, h_n[0]], [torch.stack(outputs, dim=1), h], ["output", "h"])
        assert_close(
            gradients([output, h_n[0]], inputs),
            gradients([torch.stack(outputs, dim=1), h], inputs),
            [str(i) for i in range(len(inputs))],
        )


def test_a_subclass_of_the_activation_is_called() -> None:
    from pyg_kernels.nn import KernelActivation

    class Doubled(KernelActivation):
        def forward(self, a: Tensor) -> Tensor:
            return 2 * super().forward(a)

    torch.manual_seed(0)
    kbrn, x = KBRN(SIZE, HIDDEN, num_centers=5, normalize=False), random_text(5, 3, SIZE)
    plain = kbrn.cells[0].activation
    doubled = Doubled(HIDDEN, 5)
    doubled.load_state_dict(plain.state_dict())
    kbrn.cells[0].activation = doubled
    outputs, _, _ = cell_equations(
        kbrn.cells[0], list(x.unbind(1)), torch.zeros(3, HIDDEN), lambda a: 2 * plain(a)
    )
    close(kbrn(x)[0], torch.stack(outputs, dim=1))


@pytest.mark.parametrize("act", [None, torch.nn.Tanh()], ids=["linear", "pointwise"])
@pytest.mark.parametrize("part", ["lin_recurrent", "lin_input"])
def test_maps_of_ones_own_are_called(part: str, act: torch.nn.Module | None) -> None:
    """A map with a bias, and one that is no Linear."""
    torch.manual_seed(0)
    made = torch.nn.Linear(HIDDEN if part == "lin_recurrent" else SIZE, HIDDEN)
    kbrn, x = KBRN(SIZE, HIDDEN, num_centers=5, normalize=False), random_text(5, 3, SIZE)
    cell = kbrn.cells[0]
    setattr(cell, part, made if act is None else torch.nn.Sequential(made, act))
    h, outputs = torch.zeros(3, HIDDEN), []
    for x_t in x:
        h = cell.activation(cell.lin_recurrent(h) + cell.lin_input(x_t))
        outputs.append(h)
    close(kbrn(x)[0], torch.stack(outputs))
