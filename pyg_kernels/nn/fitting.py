"""The initial coefficients of an expansion: random ones, or ones that fit a given function.

They are computed in NumPy, so that modules can be built on any device, even without numbers.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from pyg_kernels.ops.expansion.definition import Green

Array = NDArray[np.floating[Any]]
Function = Callable[[Array], Array]
GRID = 4  # points on the range for each centre
FEWEST, MOST = 400, 2000  # points at which the size of random functions is measured
RCOND = 1e-7


class Fit(NamedTuple):
    """One function's coefficients, :obj:`(d,)`, and the line that is added to it."""

    coefficients: Array
    slope: float = 0.0
    intercept: float = 0.0


class Basis(NamedTuple):
    """The Green functions that make up an expansion at the start.

    Attributes:
        num_centers: The number of centres d. They are spaced evenly from one end of the span to the
            other; a single centre is in the middle.
        span: The ends of the range.
        green: The Green function.
        bandwidth: The standard deviation of a Gaussian.
    """

    num_centers: int
    span: tuple[float, float]
    green: Green
    bandwidth: float | None

    @property
    def centers(self) -> Array:
        if self.num_centers == 1:
            return np.array([sum(self.span) / 2])
        return np.linspace(*self.span, self.num_centers)

    @property
    def _width(self) -> float:
        assert self.bandwidth is not None
        return self.bandwidth

    def grid(self) -> Array:
        """Points on the span."""
        return np.linspace(*self.span, GRID * self.num_centers + 1)

    def at(self, a: Array) -> Array:
        """The Green functions' values, :obj:`(len(a), d)`."""
        z = a[:, None] - self.centers
        if self.green == "gaussian":
            return np.asarray(np.exp(-0.5 * (z / self._width) ** 2))
        return np.maximum(z, 0.0) if self.green == "relu" else np.abs(z)

    def slopes_at(self, a: Array) -> Array:
        """The Green functions' derivatives, :obj:`(len(a), d)`."""
        z = a[:, None] - self.centers
        if self.green == "gaussian":
            return -z / self._width**2 * self.at(a)
        return np.heaviside(z, 0.0) if self.green == "relu" else np.sign(z)


def random_scale(basis: Basis) -> float:
    """The standard deviation of coefficients for which f and f' have mean square at most 1."""
    points = np.linspace(*basis.span, min(max(GRID * basis.num_centers, FEWEST), MOST) + 1)
    sums = np.zeros(2)
    for a in np.array_split(points, len(points) // 50):
        sums += np.square(basis.at(a)).sum(), np.square(basis.slopes_at(a)).sum()
    return float(sums.max() / len(points)) ** -0.5


def fitted(function: Function, derivative: Function, basis: Basis, affine: bool) -> Fit:
    """The expansion that approximates a function on a span.

    Args:
        function: The function.
        derivative: Its derivative, with which piecewise-linear expansions continue past the span.
        basis: The Green functions.
        affine: Whether a line is added.
    """
    if basis.green == "gaussian":
        return _least_squares(function, basis, affine)
    centers = basis.centers
    slopes = _slopes(function, derivative, basis)
    kinks, at_first = np.diff(slopes), float(function(centers[:1])[0])
    if basis.green == "relu":
        start = float(slopes[0])
        return Fit(kinks, start, at_first - start * centers[0]) if affine else Fit(kinks)
    chi = kinks / 2  # |z| has a kink of 2
    if affine:
        slope = float(slopes[0] + slopes[-1]) / 2
        rest = at_first - slope * centers[0] - float(chi @ (centers - centers[0]))
        return Fit(chi, slope, rest)
    # Without a line, the outer two coefficients are set so that f meets the function at both ends.
    chi[0] = chi[-1] = 0.0
    ends = centers[[0, -1]]
    missing = function(ends) - basis.at(ends) @ chi
    chi[-1], chi[0] = missing / (centers[-1] - centers[0])
    return Fit(chi)


def _slopes(function: Function, derivative: Function, basis: Basis) -> Array:
    """The slopes between the centres, before the first and after the last one."""
    centers, ends = basis.centers, np.array(basis.span)
    if len(centers) == 1:
        knots = np.concatenate((ends[:1], centers, ends[1:]))
        return np.asarray(np.diff(function(knots)) / np.diff(knots))
    outer = derivative(ends)
    return np.concatenate((outer[:1], np.diff(function(centers)) / np.diff(centers), outer[1:]))


def _least_squares(function: Function, basis: Basis, affine: bool) -> Fit:
    points = basis.grid()
    columns = [basis.at(points)]
    if affine:
        columns += [points[:, None], np.ones((len(points), 1))]
    # Directions that single precision cannot tell apart are left out, so coefficients stay small.
    found: Array = np.linalg.lstsq(np.hstack(columns), function(points), rcond=RCOND)[0]
    if not affine:
        return Fit(found)
    return Fit(found[:-2], float(found[-2]), float(found[-1]))
