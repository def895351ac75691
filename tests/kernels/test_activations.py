"""Activation kernels at the ends of their range; kernels that have them hold the definitions."""

import math
from typing import Any

import numpy as np
import pytest
import torch
from scipy.integrate import quad

from pyg_kernels.kernels import arc_cosine, inverse_polynomial, polynomial
from tests.kernels.cases import F64, close, vectors

# Each with what it gives at t = 1 and -1, for inner products 1, 4, -1, -4, and at zero diagonals.
ACTIVATIONS: dict[str, tuple[Any, list[float], float]] = {
    "inverse-polynomial": (inverse_polynomial(), [1, 1, 1 / 3, 1 / 3], 0.5),
    "polynomial": (polynomial((0.5, 0.0, 0.25, 2.0)), [2.75, 132.5, -1.25, -123.5], 0.5),
    "arc-cosine-0": (arc_cosine(0), [1, 1, 0, 0], 0.0),
    "arc-cosine-1": (arc_cosine(1), [1, 4, 0, 0], 0.0),
}


@pytest.mark.parametrize("name", ACTIVATIONS)
def test_by_hand(name: str) -> None:
    """t = 1 and t = -1 without rounding; zero diagonals give no NaN; |t| a little above 1."""
    activation, ends, none = ACTIVATIONS[name]
    known, zero = torch.tensor([1.0, 4.0, -1.0, -4.0], dtype=F64), torch.zeros(3, dtype=F64)
    close(activation(known, known.abs(), known.abs()), torch.tensor(ends, dtype=F64))
    for k_xx, k_yy in [(zero, zero), (zero, zero + 1), (zero + 1, zero)]:
        close(activation(zero, k_xx, k_yy), torch.full_like(zero, none))
    for dtype in (torch.float32, F64):
        squares = torch.linspace(0.1, 7, 1000, dtype=dtype)
        for k_xy in (squares, -squares):
            values = activation(k_xy * (1 + 4 * torch.finfo(dtype).eps), squares, squares)
            assert values.dtype == dtype and values.isfinite().all()
    rows = ([0.3, -0.5], [1.0, 0.5], [0.8, 0.9])
    inner = [torch.tensor(row, dtype=F64, requires_grad=True) for row in rows]
    assert torch.autograd.gradcheck(activation, inner)
    inputs = [known.requires_grad_(), *(known.abs().detach().requires_grad_() for _ in range(2))]
    slopes = torch.autograd.grad(activation(*inputs).sum(), inputs, materialize_grads=True)
    assert all(slope.isfinite().all() for slope in slopes)
    if name.startswith("arc-cosine"):  # where an angle is the root of a rounding error
        one, eps = torch.ones((), dtype=F64), torch.finfo(F64).eps
        assert activation(one - 4 * eps, one, one) == 1 != activation(one - 64 * eps, one, one)


@pytest.mark.parametrize("degree", [0, 1])
def test_arc_cosine_is_an_integral_over_random_units(degree: int) -> None:
    """Cho and Saul 2009, eq. 1: 2 E[step(w x) step(w y) (w x)^n (w y)^n], w standard normal.

    With w = r (cos a, sin a) the radius integrates to 2^n n!, and of the angles those count where
    both inner products are positive.
    """
    x, y = 1.3, 0.4  # norms
    for angle in (0.0, 0.3, math.pi / 2, 3.1):
        ends, exact = (angle - math.pi / 2, math.pi / 2), {"epsabs": 1e-13, "epsrel": 1e-13}
        value, _ = quad(
            lambda a, b: (math.cos(a) * math.cos(a - b)) ** degree, *ends, angle, **exact
        )
        expected = 2**degree * math.factorial(degree) / math.pi * (x * y) ** degree * value
        numbers = (x * y * math.cos(angle), x * x, y * y)
        found = arc_cosine(degree)(*(torch.tensor([value], dtype=F64) for value in numbers))
        tolerance = 1e-7 if degree == 0 and angle == 0 else 1e-10
        assert found.item() == pytest.approx(expected, rel=tolerance, abs=tolerance)


def test_arguments() -> None:
    numbers = [vectors(4)[:, k] for k in range(3)]
    for given in [(1, 0, 2), [1.0, 0.0, 2.0], np.array([1.0, 0.0, 2.0])]:
        close(polynomial(given)(*numbers), 1 + 2 * numbers[0] ** 2)
    close(polynomial((3.0,))(*numbers), torch.full((4,), 3.0, dtype=F64))
    for coefficients in ((1.0, -0.5), (), (0.0,), (math.nan,), (1.0, math.inf), 5):
        with pytest.raises(ValueError, match="coefficient"):
            polynomial(coefficients)  # type: ignore[arg-type]
    for degree in (2, -1, 0.5, None):
        with pytest.raises(ValueError, match="degree"):
            arc_cosine(degree)  # type: ignore[arg-type]
    activation, below = inverse_polynomial(normalize=False), torch.tensor([1.999], dtype=F64)
    close(activation(below, below, below), torch.tensor([1000.0], dtype=F64), rtol=1e-9)
    for diagonals in [(2 + 0 * below, below), (below, 2 + 0 * below), (1.5 * below, below)]:
        with pytest.raises(ValueError, match="2"):
            activation(0 * below, *diagonals)
