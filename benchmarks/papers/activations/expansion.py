"""A learned function of one unit, read from its centres and coefficients in float64."""

from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from pyg_kernels.nn import KernelActivation

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Expansion:
    """``f(a) = sum_k coefficients_k g(a - centers_k) + slope a + intercept``."""

    green: str  # g: 'relu' or 'abs', so that f is piecewise linear
    centers: Floats  # (d,)
    coefficients: Floats  # (d,)
    slope: float = 0.0  # of the affine part
    intercept: float = 0.0  # of the affine part

    def __call__(self, a: Floats) -> Floats:
        """The values at some points."""
        distance = np.asarray(a)[..., None] - self.centers
        terms = np.abs(distance) if self.green == "abs" else np.maximum(distance, 0)
        return terms @ self.coefficients + self.slope * np.asarray(a) + self.intercept

    def kinks(self) -> tuple[Floats, Floats]:
        """Where the function changes its slope, and by how much; in order."""
        places, inverse = np.unique(self.centers, return_inverse=True)
        jumps = np.zeros_like(places)
        factor = 2.0 if self.green == "abs" else 1.0
        np.add.at(jumps, inverse.reshape(-1), factor * self.coefficients)
        return places, jumps

    def slopes(self, low: float, high: float) -> tuple[Floats, Floats]:
        """The pieces of ``[low, high]`` and the slope of each."""
        places, jumps = self.kinks()
        first = self.slope - (self.coefficients.sum() if self.green == "abs" else 0.0)
        slopes = first + np.concatenate([[0.0], np.cumsum(jumps)])
        inside = (places > low) & (places < high)
        begin = int(np.searchsorted(places, low, side="right"))
        ends = np.concatenate([[low], places[inside], [high]])
        return ends, slopes[begin : begin + len(ends) - 1]

    def variation(self, low: float = -np.inf, high: float = np.inf) -> float:
        """The total variation of the slope between two points."""
        places, jumps = self.kinks()
        return float(np.abs(jumps[(places > low) & (places < high)]).sum())


def expansions(activation: KernelActivation) -> list[Expansion]:
    """The function of every unit."""
    units, d = activation.num_units, activation.num_centers

    def rows(parameter: Tensor | None, columns: int) -> Floats:
        if parameter is None:
            return np.zeros((units, columns))
        values = parameter.detach().to("cpu", torch.float64).reshape(-1, columns)
        return values.expand(units, columns).numpy()

    centers, coefficients = rows(activation.centers, d), rows(activation.coefficients, d)
    slope, intercept = rows(activation.slope, 1), rows(activation.intercept, 1)
    each = zip(centers, coefficients, slope[:, 0], intercept[:, 0], strict=True)
    return [Expansion(activation.green, *unit) for unit in each]
