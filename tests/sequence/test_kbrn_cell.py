"""The activation's part in the steps: centres anywhere, kinks, and which inputs have gradients."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from pyg_kernels.nn import KernelActivation
from pyg_kernels.sequence import KBRN, KBRNCell
from tests.sequence.kbrn_equations import GREENS, random_kbrn
from tests.sequence.kbrn_variants import EVERY, HIDDEN, assert_equations, build, read_texts
from tests.sequence.texts import SIZE, assert_close, close, random_text, texts


@pytest.mark.parametrize("green", GREENS)
def test_coincident_centers_and_inputs_outside_of_all(green: str) -> None:
    for value, normalize in [(0.2, False), (50.0, False), (-50.0, False), (0.2, True)]:
        options = {"green": green, "normalize": normalize, "affine": True}
        kbrn = random_kbrn(SIZE, HIDDEN, **options)
        with torch.no_grad():
            kbrn.cells[0].activation.centers[:, 1:6] = value
        assert_equations(kbrn, options, texts(4, 6, 0))


@pytest.mark.parametrize("training", [False, True], ids=["evaluation", "training"])
@pytest.mark.parametrize("green", ["relu", "abs"])
def test_centers_that_are_far_from_even(green: str, training: bool) -> None:
    """All at one place; most of them close together and a few far away; in no order."""
    for spread in [0, 9]:
        options = {"green": green, "affine": spread > 0, "shared": spread == 0}
        kbrn = random_kbrn(SIZE, HIDDEN, scale=0.2, num_centers=60, **options)
        with torch.no_grad():
            centers = kbrn.cells[0].activation.centers.pow_(spread)
            centers.mul_(3.0 / centers.abs().max())
        assert_equations(kbrn.train(training), options, texts(6, 4, 0, 6, 2))


def test_a_gradient_of_one_everywhere() -> None:
    """As sums have it, in memory of a single number."""
    for name in ("relu", "gaussian", "norm-abs", "both-ways-norm"):
        options = EVERY[name]
        kbrn, pieces = build(options), [p.requires_grad_() for p in texts(5, 5)]
        inputs = [*pieces, *kbrn.parameters()]
        expected = sum(text.sum() for text in read_texts(kbrn, options, pieces).outputs)
        found = kbrn(torch.stack(pieces, dim=1))[0].sum()
        assert_close(
            list(torch.autograd.grad(found, inputs)),
            list(torch.autograd.grad(expected, inputs)),
            [str(i) for i in range(len(inputs))],
        )


@pytest.mark.parametrize("shared", [False, True], ids=["own", "shared"])
@pytest.mark.parametrize("green", ["relu", "abs"])
def test_inputs_at_the_kinks(green: str, shared: bool) -> None:
    """Eighths are exact, and often a centre: derivatives are those from the left."""
    options = {"green": green, "normalize": False, "affine": True, "shared": shared}
    kbrn = random_kbrn(SIZE, HIDDEN, **options)
    generator = torch.Generator().manual_seed(0)

    def eighths(*shape: int, unit: float = 0.5) -> Tensor:
        return torch.randint(-2, 3, shape, generator=generator).double() * unit

    with torch.no_grad():
        for parameter in kbrn.parameters():
            parameter.copy_(eighths(*parameter.shape))
    pieces = [eighths(n, SIZE) for n in [3, 0, 2, 3]]
    (rows,) = read_texts(kbrn, options, pieces).rows
    assert (rows.unsqueeze(-1) == kbrn.cells[0].activation.centers).any()
    assert_equations(kbrn, options, pieces, from_state=False)


def test_parts() -> None:
    """As DESIGN names them, of its shapes."""
    kbrn = KBRN(3, 4, num_centers=9, num_layers=2, bidirectional=True, affine=True)
    assert [cell.lin_input.weight.shape for cell in kbrn.cells] == [(4, 3)] * 2 + [(4, 8)] * 2
    for cell in kbrn.cells:
        assert isinstance(cell, KBRNCell)
        assert cell.lin_input.bias.shape == (4,)
        assert cell.lin_recurrent.weight.shape == (4, 4) and cell.lin_recurrent.bias is None
        activation = cell.activation
        assert isinstance(activation, KernelActivation)
        assert activation.centers.shape == activation.coefficients.shape == (4, 9)
        assert activation.slope.shape == activation.intercept.shape == (4,)
        assert type(activation.norm) is torch.nn.BatchNorm1d
        assert activation.norm.num_features == 4
    cell = KBRNCell(3, 4, shared=True, normalize=False, bias=False)
    assert cell.lin_input.bias is None
    assert cell.activation.centers.shape == (1, 100)
    assert cell.activation.slope is None and cell.activation.norm is None


@pytest.mark.parametrize("green", GREENS)
@pytest.mark.parametrize("normalize", [False, True], ids=["plain", "norm"])
def test_any_one_gradient(green: str, normalize: bool) -> None:
    """Only what asks for a gradient gets one, and it is the same; in training as well."""
    kbrn = random_kbrn(2, 3, green=green, normalize=normalize, affine=True).train()
    inputs = [random_text(4, 2, 2), random_text(1, 2, 3, seed=1), *kbrn.parameters()]

    def total() -> Tensor:
        output, h = kbrn(inputs[0], inputs[1])
        return output.square().sum() + h.sin().sum()

    def only(wanted: list[Tensor]) -> list[Tensor]:
        for t in inputs:
            t.requires_grad_(any(t is w for w in wanted))
        return list(torch.autograd.grad(total(), wanted))

    for t, gradient in zip(inputs, only(inputs), strict=True):
        close(only([t])[0], gradient)
    for t in inputs:
        t.requires_grad_(False)
    assert not total().requires_grad


def test_l1() -> None:
    kbrn = build(EVERY["both-ways-norm"])
    expected = sum(cell.activation.coefficients.abs().sum() for cell in kbrn.cells)
    assert kbrn.l1().shape == ()
    close(kbrn.l1(), expected)
    close(sum(cell.l1() for cell in kbrn.cells), expected)
    kbrn.l1().backward()
    for cell in kbrn.cells:
        coefficients = cell.activation.coefficients
        close(coefficients.grad, coefficients.detach().sign())
