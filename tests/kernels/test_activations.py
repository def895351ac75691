"""Activation kernels against their definitions, one number at a time."""

from __future__ import annotations

import copy
import math
import pickle
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from pyg_kernels.kernels import arc_cosine, inverse_polynomial, polynomial
from tests.kernels.cases import F64, close, vectors
from tests.kernels.definitions import activated, arc_cosine_integral

ACTIVATIONS: dict[str, Any] = {
    "inverse-polynomial": inverse_polynomial(),
    "polynomial": polynomial((0.5, 0.0, 0.25, 2.0)),
    "arc-cosine-0": arc_cosine(0),
    "arc-cosine-1": arc_cosine(1),
}
of_activations = pytest.mark.parametrize("name", ACTIVATIONS)


def tables() -> tuple[Tensor, Tensor, Tensor]:
    """Inner products of random vectors, of which the first is zero on either side."""
    x, y = vectors(6), vectors(5, seed=1)
    x[0], y[0] = 0, 0
    return x @ y.t(), x.square().sum(1)[:, None], y.square().sum(1)[None, :]


def one_by_one(activation: Any, k_xy: Tensor, k_xx: Tensor, k_yy: Tensor) -> Tensor:
    whole = [part.expand_as(k_xy).flatten().tolist() for part in (k_xy, k_xx, k_yy)]
    values = [activated(activation, *numbers) for numbers in zip(*whole, strict=True)]
    return torch.tensor(values, dtype=F64).view_as(k_xy)


@of_activations
def test_values(name: str) -> None:
    """Of tables that broadcast, in either precision, of a pickle and of a copy."""
    activation, arguments = ACTIVATIONS[name], tables()
    values = activation(*arguments)
    close(values, one_by_one(activation, *arguments))
    close(activation(*(part.expand_as(values) for part in arguments)), values)
    deep = [part.expand(2, 1, *part.shape) for part in arguments]
    close(activation(*deep), values.expand(2, 1, *values.shape))
    for other in (pickle.loads(pickle.dumps(activation)), copy.deepcopy(activation)):
        assert torch.equal(other(*arguments), values)
    single = activation(*(part.float() for part in arguments))
    assert single.dtype == torch.float32
    torch.testing.assert_close(single.double(), values, rtol=1e-4, atol=1e-5)


@of_activations
def test_equal_opposite_and_orthogonal(name: str) -> None:
    squares = vectors(4).square().sum(1)
    for k_xy in (squares, -squares, torch.zeros_like(squares)):
        # an angle near 0 is known to the root of the rounding error alone
        tolerance = 1e-7 if name == "arc-cosine-0" else 1e-12
        numbers = (k_xy, squares, squares)
        activation = ACTIVATIONS[name]
        close(activation(*numbers), one_by_one(activation, *numbers), atol=tolerance)


@of_activations
def test_exact_ends(name: str) -> None:
    """t = 1 and t = -1 without rounding."""
    found = ACTIVATIONS[name]
    ends = torch.tensor([1.0, 4.0, -1.0, -4.0], dtype=F64)
    expected = {
        "inverse-polynomial": [1, 1, 1 / 3, 1 / 3],
        "polynomial": [2.75, 0.5 + 4 + 128, 0.5 + 0.25 - 2, 0.5 + 4 - 128],
        "arc-cosine-0": [1, 1, 0, 0],
        "arc-cosine-1": [1, 4, 0, 0],
    }[name]
    close(found(ends, ends.abs(), ends.abs()), torch.tensor(expected, dtype=F64))


@of_activations
def test_rounding_cannot_leave_the_domain(name: str) -> None:
    """|t| a little above 1, as products of floats make it."""
    found = ACTIVATIONS[name]
    for dtype in (torch.float32, F64):
        squares = torch.linspace(0.1, 7, 1000, dtype=dtype)
        above = squares * (1 + 4 * torch.finfo(dtype).eps)
        for k_xy in (above, -above):
            values = found(k_xy, squares, squares)
            assert values.dtype == dtype and values.isfinite().all()


@of_activations
def test_zero_diagonals(name: str) -> None:
    """Not NaN: t = 0 in the inverse polynomial, and 0 from the arc-cosine of either degree."""
    found = ACTIVATIONS[name]
    zero, one = torch.zeros(3, dtype=F64), torch.ones(3, dtype=F64)
    expected = {
        "inverse-polynomial": 0.5,
        "polynomial": 0.5,
        "arc-cosine-0": 0.0,
        "arc-cosine-1": 0.0,
    }[name]
    for k_xx, k_yy in [(zero, zero), (zero, one), (one, zero)]:
        close(found(zero, k_xx, k_yy), torch.full_like(zero, expected))


@of_activations
def test_positive_semi_definite(name: str) -> None:
    found = ACTIVATIONS[name]
    x = vectors(30, 4)
    x[:2] = 0
    squares = x.square().sum(1)
    gram = found(x @ x.t(), squares[:, None], squares[None, :])
    values = torch.linalg.eigvalsh((gram + gram.t()) / 2)
    assert values.min() > -1e-7 * values.max()  # the diagonal of arc-cosine 0 is rounded to 1e-8


@of_activations
def test_gradients(name: str) -> None:
    found = ACTIVATIONS[name]
    x, y = vectors(3).requires_grad_(), vectors(2, seed=1).requires_grad_()

    def values(x: Tensor, y: Tensor) -> Tensor:
        return found(x @ y.t(), x.square().sum(1)[:, None], y.square().sum(1)[None, :])

    assert torch.autograd.gradcheck(values, (x, y))


@of_activations
def test_gradients_are_finite(name: str) -> None:
    """At zero diagonals, and at t = 1 and -1."""
    found = ACTIVATIONS[name]
    k_xy = torch.tensor([0.0, 0.0, 2.0, -2.0], dtype=F64, requires_grad=True)
    k_xx = torch.tensor([0.0, 3.0, 2.0, 2.0], dtype=F64, requires_grad=True)
    k_yy = torch.tensor([0.0, 0.0, 2.0, 2.0], dtype=F64, requires_grad=True)
    inputs = (k_xy, k_xx, k_yy)
    gradients = torch.autograd.grad(
        found(*inputs).sum(), inputs, allow_unused=True, materialize_grads=True
    )
    for gradient in gradients:
        assert gradient.isfinite().all()


@pytest.mark.parametrize("degree", [0, 1])
@pytest.mark.parametrize("angle", [0.0, 0.3, math.pi / 2, 2.0, 3.1])
def test_arc_cosine_is_an_integral_over_random_units(degree: int, angle: float) -> None:
    """Cho and Saul 2009, eq. 1."""
    x, y = 1.3, 0.4  # norms
    numbers = (x * y * math.cos(angle), x * x, y * y)
    expected = arc_cosine_integral(degree, x, y, angle)
    found = arc_cosine(degree)(*(torch.tensor([value], dtype=F64) for value in numbers))
    tolerance = 1e-7 if degree == 0 and angle == 0 else 1e-10
    assert found.item() == pytest.approx(expected, rel=tolerance, abs=tolerance)


def test_arc_cosine_by_hand() -> None:
    """Right angles: half of the units see the one, half of these the other."""
    zero, square = torch.zeros(1, dtype=F64), torch.full((1,), 9.0, dtype=F64)
    close(arc_cosine(0)(zero, square, square), torch.tensor([0.5], dtype=F64))
    close(arc_cosine(1)(zero, square, square), torch.tensor([9 / math.pi], dtype=F64))
    close(arc_cosine(1)(square, square, square), square)


def test_inverse_polynomial_without_normalisation() -> None:
    activation = inverse_polynomial(normalize=False)
    x = vectors(4) / 4
    squares = x.square().sum(1)
    assert squares.max() < 2
    arguments = (x @ x.t(), squares[:, None], squares[None, :])
    close(activation(*arguments), one_by_one(activation, *arguments))
    two, below = torch.full((1,), 2.0, dtype=F64), torch.full((1,), 1.999, dtype=F64)
    close(activation(below, below, below), torch.tensor([1000.0], dtype=F64), rtol=1e-9)
    for diagonals in [(two, below), (below, two), (1.5 * two, below)]:
        with pytest.raises(ValueError, match="2"):
            activation(torch.zeros(1, dtype=F64), *diagonals)


def test_inverse_polynomial_is_a_power_series() -> None:
    """1 / (2 - t) = sum_k 2^-(k+1) t^k: all coefficients are positive, so it is a kernel."""
    t = torch.linspace(-1, 1, 21, dtype=F64)
    one = torch.ones(1, dtype=F64)
    series = polynomial([2.0 ** -(k + 1) for k in range(60)])
    close(series(t, one, one), inverse_polynomial()(t, one, one))


def test_polynomial_takes_any_sequence() -> None:
    arguments = tables()
    k_xy = arguments[0]
    expected = 1 + 2 * k_xy**2
    for coefficients in [(1, 0, 2), [1.0, 0.0, 2.0], np.array([1.0, 0.0, 2.0])]:
        close(polynomial(coefficients)(*arguments), expected)
    close(polynomial((3.0,))(*arguments), torch.full_like(k_xy, 3.0))


@pytest.mark.parametrize("coefficients", [(1.0, -0.5), (), (0.0,), (math.nan,), (1.0, math.inf)])
def test_coefficients(coefficients: tuple[float, ...]) -> None:
    with pytest.raises(ValueError, match="coefficient"):
        polynomial(coefficients)


@pytest.mark.parametrize("degree", [2, -1, 0.5, None])
def test_degrees(degree: Any) -> None:
    with pytest.raises(ValueError, match="degree"):
        arc_cosine(degree)
