"""Kernel-based networks: the activation's part in the steps, and initial values."""

from __future__ import annotations

import copy
from typing import Any

import pytest
import torch
from torch import Tensor

from pyg_kernels.nn import KernelActivation
from pyg_kernels.sequence import KBRN, KBRNCell
from tests.nn.activation_equations import GREENS
from tests.sequence.kbrn import (
    EVERY,
    HIDDEN,
    assert_equations,
    build,
    random_kbrn,
    read_texts,
)
from tests.sequence.texts import SIZE, assert_close, close, random_text, texts

each_green = pytest.mark.parametrize("green", GREENS)
piecewise = pytest.mark.parametrize("green", ["relu", "abs"])

# The activation's part in the steps: centres anywhere, and kinks


@each_green
def test_coincident_centers_and_inputs_outside_of_all(green: str) -> None:
    for value, normalize in [(0.2, False), (50.0, False), (-50.0, False), (0.2, True)]:
        options = {"green": green, "normalize": normalize, "affine": True}
        kbrn = random_kbrn(SIZE, HIDDEN, **options)
        with torch.no_grad():
            kbrn.cells[0].activation.centers[:, 1:6] = value
        assert_equations(kbrn, options, texts(4, 6, 0))


@piecewise
def test_centers_that_are_far_from_even(green: str) -> None:
    """All at one place; most of them close together and a few far away; in no order."""
    for spread in [0, 9]:
        options = {"green": green, "affine": spread > 0, "shared": spread == 0}
        kbrn = random_kbrn(SIZE, HIDDEN, scale=0.2, num_centers=60, **options)
        with torch.no_grad():
            centers = kbrn.cells[0].activation.centers.pow_(spread)
            centers.mul_(3.0 / centers.abs().max())
        for training in (False, True):
            assert_equations(kbrn.train(training), options, texts(6, 4, 0, 6, 2))


@pytest.mark.parametrize("shared", [False, True], ids=["own", "shared"])
@piecewise
def test_inputs_at_the_kinks(green: str, shared: bool) -> None:
    """Eighths are exact, and often a centre: derivatives are those from the left."""
    options = {"green": green, "normalize": False, "affine": True, "shared": shared}
    kbrn = random_kbrn(SIZE, HIDDEN, **options)
    generator = torch.Generator().manual_seed(0)

    def eighths(*shape: int) -> Tensor:
        return torch.randint(-2, 3, shape, generator=generator).double() * 0.5

    with torch.no_grad():
        for parameter in kbrn.parameters():
            parameter.copy_(eighths(*parameter.shape))
    pieces = [eighths(n, SIZE) for n in [3, 0, 2, 3]]
    (rows,) = read_texts(kbrn, options, pieces).rows
    assert (rows.unsqueeze(-1) == kbrn.cells[0].activation.centers).any()
    assert_equations(kbrn, options, pieces, from_state=False)


@pytest.mark.parametrize("name", ["relu", "gaussian", "norm-abs"])
def test_a_gradient_of_one_everywhere(name: str) -> None:
    """As sums have it, in memory of a single number."""
    kbrn, pieces = build(EVERY[name]), [p.requires_grad_() for p in texts(5, 5)]
    inputs = [*pieces, *kbrn.parameters()]
    expected = torch.cat(read_texts(kbrn, EVERY[name], pieces).outputs).sum()
    found = kbrn(torch.stack(pieces, dim=1))[0].sum()
    slopes = [list(torch.autograd.grad(total, inputs)) for total in (found, expected)]
    assert_close(*slopes, [str(i) for i in range(len(inputs))])


def test_l1() -> None:
    """The sum over cells of what each activation gives."""
    kbrn = build(EVERY["both-ways-norm"])
    of_cells = [cell.activation.coefficients.abs().sum() for cell in kbrn.cells]
    close([kbrn.l1(), *(cell.l1() for cell in kbrn.cells)], [sum(of_cells), *of_cells])


# Initial values of the networks


@pytest.mark.parametrize("made", [KBRN, KBRNCell])
def test_options_reach_the_activation(made: Any) -> None:
    """The initial function is that of a KernelActivation with the same options."""
    a = torch.linspace(-4, 4, 33).unsqueeze(1).expand(-1, 4)
    for options in [
        {"init": "tanh", "affine": True},
        {"init": "tanh", "green": "abs", "init_range": (-1, 3)},
        {"init": "relu", "num_centers": 5},
        {"init": "tanh", "green": "gaussian", "bandwidth": 0.2, "num_centers": 30},
        {"init": "identity", "green": "gaussian", "shared": True, "affine": True},
    ]:
        made_of = made(3, 4, normalize=False, **options)
        cell = made_of.cells[0] if made is KBRN else made_of
        close(cell.activation(a), KernelActivation(4, **options)(a), rtol=1e-5, atol=1e-5)


@piecewise
def test_float32_where_states_explode(green: str) -> None:
    """Of positive numbers alone, so that no digit is lost: to 1e15 and beyond, as in float64."""
    kbrn = build({"green": green, "normalize": False})
    with torch.no_grad():
        for name, parameter in kbrn.named_parameters():
            (parameter.neg_ if name.endswith("centers") else parameter.abs_)()
        kbrn.cells[0].activation.centers.sub_(3.0)
        kbrn.float().double()
    results = []
    for layer in (kbrn, copy.deepcopy(kbrn).float()):
        x = random_text(30, 3, SIZE).abs().float().to(layer.cells[0].lin_input.weight.dtype)
        x.requires_grad_()
        output, _ = layer(x)
        results.append([output, *torch.autograd.grad(output[-1].sum(), [x, *layer.parameters()])])
    assert results[0][0].max() > 1e10
    for expected, found in zip(*results, strict=True):
        close(found.double(), expected, rtol=1e-3, atol=1e-4 * expected.abs().max().item())


def test_other_activations() -> None:
    """One of other units is refused; one that cannot be reset is left as it is."""
    for other in (KernelActivation(3), KernelActivation(9, shared=True)):
        cell = KBRNCell(3, 6, normalize=False)
        cell.activation = other
        with pytest.raises(ValueError, match="num_units"):
            cell(torch.randn(4, 3))
    cell.activation = torch.nn.Tanh()
    before = cell.lin_recurrent.weight.detach().clone()
    cell.reset_parameters()
    assert not torch.equal(cell.lin_recurrent.weight, before)


def test_a_text_alone_gives_the_shift_exactly() -> None:
    """In single precision too, however large what it reads."""
    kbrn = KBRN(3, 6, init="tanh", affine=True)
    x = 1e4 * torch.randn(7, 3)
    output, _ = kbrn(x, ptr=torch.tensor([0, 5, 7]))
    expected = kbrn.cells[0].activation.eval()
    expected.norm = None
    bias = torch.zeros(1, 6)
    torch.testing.assert_close(output[2:5], expected(bias).expand(3, -1), rtol=0, atol=1e-6)


@each_green
def test_saved_memory_does_not_grow_with_the_centers(green: str) -> None:
    sizes: list[int] = []

    def count_saved(t: Tensor) -> Tensor:
        sizes[-1] += t.numel()
        return t

    for count in (10, 300):
        sizes.append(0)
        kbrn = KBRN(4, 8, num_centers=count, green=green, normalize=False)
        with torch.autograd.graph.saved_tensors_hooks(count_saved, lambda t: t):
            kbrn(torch.randn(20, 30, 4))
    tables = 20 * 4 * 8 * 300 if green == "gaussian" else 7 * 8 * 300  # by step, or once
    assert sizes[1] - sizes[0] <= tables


@pytest.mark.parametrize("name", ["norm-gaussian", "norm-stack"])
def test_running_sets_change_after_an_evaluation_that_is_differentiated(name: str) -> None:
    """Gradients are those of the numbers that were used."""
    kbrn, x = build(EVERY[name]), random_text(5, 3, SIZE).requires_grad_()
    inputs = [x, *kbrn.parameters()]
    expected = torch.autograd.grad(kbrn(x)[0].square().sum(), inputs)
    output, _ = kbrn(x)
    kbrn.train()(x)
    try:
        found = torch.autograd.grad(output.square().sum(), inputs)
    except RuntimeError:  # autograd's refusal of what changed in place, as BatchNorm1d's own
        return
    close(found, expected)
