"""Learned activations: each unit's function is a kernel expansion."""

from __future__ import annotations

import math
from collections.abc import Iterable
from itertools import chain
from numbers import Real
from typing import Any, Literal, get_args

import numpy as np
import torch
from torch import Tensor
from torch.nn import BatchNorm1d, Module, Parameter

from pyg_kernels.nn.arguments import checked_count
from pyg_kernels.nn.linear import Hookable
from pyg_kernels.ops.dtypes import common_dtype
from pyg_kernels.ops.expansion import GREENS, Green, kernel_expansion
from pyg_kernels.ops.expansion.fitting import Array, Basis, Function, fitted, random_scale

Init = Literal["random", "identity", "tanh", "relu"]
_INITS: tuple[Init, ...] = get_args(Init)
#: Functions to begin near, and their derivatives.
_TARGETS: dict[str, tuple[Function, Function]] = {
    "identity": (lambda t: t, np.ones_like),
    "tanh": (np.tanh, lambda t: 1.0 - np.tanh(t) ** 2),
    "relu": (lambda t: np.maximum(t, 0.0), lambda t: np.heaviside(t, 0.0)),
}


class KernelActivation(Hookable):
    r"""An activation that is learned: "Learning Neuron Non-Linearities with Kernel-Based Deep
    Neural Networks" (2018), eqs. 4 and 6.

    .. math::
        f_i(a) = \sum_{k=1}^{d} \chi_{ik} \, g(a - c_{ik}) \; [\, + \, m_i a + q_i \,]

    for unit i, with the Green function :math:`g(z) = \max(z, 0)`, :math:`|z|` or
    :math:`\exp(-z^2 / (2 b^2))` (the paper's sum has the opposite sign); centres c and
    coefficients :math:`\chi` are both learned. It takes the place of any activation,
    ``torch.nn.ReLU()`` for example, on units in the last dimension.

    For the piecewise-linear Green functions the centres are sorted and their prefix sums taken, so
    that N inputs a unit cost :math:`\mathcal{O}(N \log d + d \log d)` and
    :math:`\mathcal{O}(N + d)` memory, forward and backward. The Gaussian costs
    :math:`\mathcal{O}(N d)`, in blocks whose memory does not grow with d; under ``torch.compile``,
    in second derivatives and in ``torch.func`` it is the direct sum, whose memory does.

    Gradients are exact. At an input that equals a centre they are those from the left, of which
    the rectifier's is 0 and the absolute value's -1.

    Args:
        num_units: The number of units U.
        num_centers: The number of centres d of each unit.
        green: The Green function g: ``'relu'``, ``'abs'`` or ``'gaussian'``.
        init: ``'random'``: normal coefficients, of such a size that over inputs spread on the range
            of the centres f and its slope have a mean square of at most 1. ``'identity'``,
            ``'tanh'``, ``'relu'``: coefficients with which f is near that function on the range:
            piecewise-linear expansions meet it at the centres and go on along its tangents at the
            ends of the range, Gaussian ones are its least-squares fit.
        init_range: Where the centres are spread evenly at the start; one centre is in its middle.
        affine: Whether a line :math:`m_i a + q_i` is added, m and q learned; 0 at the start, but
            where :obj:`init` needs it.
        shared: Whether all units share one function.
        normalize: Whether inputs are normalised first, by the mean and variance of the batch and
            with a learned scale and shift, as :class:`torch.nn.BatchNorm1d`; section 3.
        bandwidth: The standard deviation b of the Gaussian; None for the spacing of the centres at
            the start (for one centre, the width of the range).

    Attributes:
        centers: c, of shape :math:`(U, d)`, shared :math:`(1, d)`.
        coefficients: :math:`\chi`, of the same shape.
        slope: m, of shape :math:`(U)`, shared :math:`(1)`; None without :obj:`affine`.
        intercept: q, likewise.
        norm: The normalisation, or None.

    Shapes:
        - **input:** :math:`(*, U)`.
        - **output:** :math:`(*, U)`, in the common precision of input and parameters; under
          autocast at least float32. Where the input is NaN, NaN.

    Raises:
        ValueError: For numbers below 1, unknown names, a range that does not grow, a bandwidth that
            is not positive or not for a Gaussian; for a function to begin near that the expansion
            cannot be: rectifiers without :obj:`affine` are 0 left of their first centre, and one
            absolute value without it is even; for an input whose last dimension is not U or that
            is no floating point tensor; for one row in training with :obj:`normalize`.
    """

    def __init__(
        self,
        num_units: int,
        num_centers: int = 100,
        green: Green = "relu",
        init: Init = "random",
        init_range: tuple[float, float] = (-2, 2),
        affine: bool = False,
        shared: bool = False,
        normalize: bool = False,
        bandwidth: float | None = None,
    ) -> None:
        super().__init__()
        self.num_units = checked_count(num_units, "num_units")
        self.num_centers = checked_count(num_centers, "num_centers")
        self.green: Green = _checked_choice(green, GREENS, "green")
        self.init: Init = _checked_choice(init, _INITS, "init")
        self.init_range = _checked_range(init_range)
        self.affine, self.shared = affine, shared
        self._given_bandwidth = _checked_bandwidth(bandwidth, green)
        self._check_init()
        rows = 1 if shared else num_units
        self.centers = Parameter(torch.empty(rows, num_centers))
        self.coefficients = Parameter(torch.empty(rows, num_centers))
        self.slope = Parameter(torch.empty(rows)) if affine else None
        self.intercept = Parameter(torch.empty(rows)) if affine else None
        self.norm = BatchNorm1d(num_units) if normalize else None
        self.reset_parameters()

    def reset_parameters(self) -> None:
        basis = Basis(self.num_centers, self.init_range, self.green, self.bandwidth)
        with torch.no_grad():
            self._fill(self.centers, basis.centers)
            if self.init == "random":
                self.coefficients.normal_(std=random_scale(basis))
                self._fill_line(0.0, 0.0)
            else:
                self._start_near(*_TARGETS[self.init], basis)
        if self.norm is not None:
            self.norm.reset_parameters()

    @property
    def bandwidth(self) -> float | None:
        """The standard deviation b of the Gaussian, None for other Green functions."""
        if self.green != "gaussian" or self._given_bandwidth is not None:
            return self._given_bandwidth
        low, high = self.init_range
        return (high - low) / max(self.num_centers - 1, 1)

    def l1(self) -> Tensor:
        r"""The regulariser :math:`\sum_{ik} |\chi_{ik}|` of section 3."""
        return self.coefficients.abs().sum()

    def forward(self, a: Tensor) -> Tensor:
        if not isinstance(a, Tensor):
            raise ValueError(f"the input is a {type(a).__name__}: expected a tensor")
        if a.dim() == 0 or a.size(-1) != self.num_units:
            raise ValueError(
                f"the input has shape {tuple(a.shape)}: expected (*, num_units={self.num_units})"
            )
        if not a.is_floating_point():
            raise ValueError(f"the input has dtype {a.dtype}: expected floating point numbers")
        rows = a.reshape(-1, self.num_units)
        if self.norm is not None and rows.size(0):
            rows = self._normalised(rows)
        parts = self.centers, self.coefficients, self.green, self.bandwidth
        out = kernel_expansion(rows, *parts, self.slope, self.intercept)
        return out.reshape(a.shape)

    def _normalised(self, rows: Tensor) -> Tensor:
        """The inputs normalised, in the parameters' precision."""
        norm: Any = self.norm
        out: Tensor = norm(rows.to(precision_of(norm, rows)))
        return out.to(common_dtype(rows, self.centers))

    def _check_init(self) -> None:
        name, low = self.init, self.init_range[0]
        if name == "random" or self.affine:
            return
        if self.green == "relu" and (name != "relu" or low > 0):
            raise ValueError(
                f"init={name!r} with green='relu', affine=False and init_range={self.init_range}: "
                "rectifiers are 0 left of their first centre, expected affine=True"
            )
        if self.green == "abs" and self.num_centers == 1:
            raise ValueError(
                f"init={name!r} with green='abs', num_centers=1 and affine=False: one absolute "
                "value is even, expected affine=True or more centres"
            )

    def _start_near(self, function: Function, derivative: Function, basis: Basis) -> None:
        fit = fitted(function, derivative, basis, self.affine)
        self._fill(self.coefficients, fit.coefficients)
        self._fill_line(fit.slope, fit.intercept)

    def _fill_line(self, slope: float, intercept: float) -> None:
        if self.slope is not None and self.intercept is not None:
            self.slope.fill_(slope)
            self.intercept.fill_(intercept)

    @staticmethod
    def _fill(parameter: Tensor, row: Array) -> None:
        parameter.copy_(parameter.new_tensor(row.tolist()))

    def _words(self) -> list[str]:
        """The arguments of the functions, those that are the default left out."""
        words = [f"num_centers={self.num_centers}", f"green={self.green!r}"]
        if self.init != "random":
            words.append(f"init={self.init!r}")
        if self.init_range != (-2, 2):
            words.append(f"init_range={self.init_range}")
        words += [f"{name}=True" for name in ("affine", "shared") if getattr(self, name)]
        if self._given_bandwidth is not None:
            words.append(f"bandwidth={self._given_bandwidth}")
        return words

    def __repr__(self) -> str:
        words = [str(self.num_units), *self._words()]
        if self.norm is not None:
            words.append("normalize=True")
        return f"{self.__class__.__name__}({', '.join(words)})"


def _checked_choice(value: Any, choices: tuple[Any, ...], name: str) -> Any:
    if not isinstance(value, str) or value not in choices:
        raise ValueError(f"{name}={value!r}: expected one of {', '.join(map(repr, choices))}")
    return value


def _checked_range(init_range: tuple[float, float]) -> tuple[float, float]:
    numbers = list(init_range) if isinstance(init_range, Iterable) else []
    known = len(numbers) == 2 and all(map(_is_number, numbers))
    low, high = map(float, numbers) if known else (math.nan, math.nan)
    largest = max(abs(low), abs(high))
    # Centres and squares of their distances are to be numbers of single precision.
    if not (largest <= 1e15 and high - low >= max(1e-12, 1e-5 * largest)):
        raise ValueError(
            f"init_range={init_range!r}: expected two numbers, the first one smaller, that single "
            "precision tells apart"
        )
    return low, high


def _checked_bandwidth(bandwidth: float | None, green: str) -> float | None:
    if bandwidth is None:
        return None
    if green != "gaussian":
        raise ValueError(f"bandwidth={bandwidth!r} with green={green!r}: only Gaussians have one")
    # Its square is to be a number of single precision.
    if not (_is_number(bandwidth) and 1e-15 <= bandwidth <= 1e15):
        raise ValueError(f"bandwidth={bandwidth!r}: expected a positive number (1e-15 to 1e15)")
    return float(bandwidth)


def _is_number(value: Any) -> bool:
    return isinstance(value, Real) and not isinstance(value, bool)


def precision_of(module: Module, like: Tensor) -> torch.dtype:
    """The precision of a module's tensors; that of :obj:`like` where it has none."""
    tensors = chain(module.parameters(), module.buffers())
    return next((t.dtype for t in tensors if t.is_floating_point()), like.dtype)
