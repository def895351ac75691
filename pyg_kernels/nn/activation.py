"""Learned activations: each unit's function is a kernel expansion."""

from __future__ import annotations

import math
from collections.abc import Iterable
from itertools import chain
from numbers import Integral
from typing import TYPE_CHECKING, Any, Literal, get_args

import numpy as np
import torch
from torch import Tensor
from torch.nn import BatchNorm1d, Module, Parameter

from pyg_kernels.checks import check_flags, checked_choice, checked_count, is_number
from pyg_kernels.nn.arguments import differing
from pyg_kernels.nn.fitting import Array, Basis, Function, fitted, random_scale
from pyg_kernels.nn.linear import Hookable
from pyg_kernels.ops.dtypes import common_dtype
from pyg_kernels.ops.expansion import GREENS, Green, kernel_expansion

if TYPE_CHECKING:
    from matplotlib.axes import Axes

Init = Literal["random", "identity", "tanh", "relu"]
_POINTS = 1001  # points at which plot() evaluates a function
_NAMED = 10  # most functions for which plot() has a legend
#: The functions of `init` and their derivatives.
_TARGETS: dict[str, tuple[Function, Function]] = {
    "identity": (lambda t: t, np.ones_like),
    "tanh": (np.tanh, lambda t: 1.0 - np.tanh(t) ** 2),
    "relu": (lambda t: np.maximum(t, 0.0), lambda t: np.heaviside(t, 0.0)),
}


class InputNorm(Hookable, BatchNorm1d):
    """The normalization of the inputs."""


class KernelActivation(Hookable):
    r"""An activation that is learned: "Learning Neuron Non-Linearities with Kernel-Based Deep
    Neural Networks" (2018), eqs. 4 and 6.

    .. math::
        f_i(a) = \sum_{k=1}^{d} \chi_{ik} \, g(a - c_{ik}) \; [\, + \, m_i a + q_i \,]

    for unit i, with the Green function :math:`g(z) = \max(z, 0)`, :math:`|z|` or
    :math:`\exp(-z^2 / (2 b^2))` (the paper's sum has the opposite sign). The centres c and the
    coefficients :math:`\chi` are both learned. The module replaces any activation, such as
    ``torch.nn.ReLU()``, on inputs with the units in the last dimension; after a convolution the
    units are the channels, ``dim=1``.

    For the piecewise-linear Green functions, the centres are sorted and prefix sums over them are
    taken: N inputs per unit take :math:`\mathcal{O}(N \log d + d \log d)` time and
    :math:`\mathcal{O}(N + d)` memory, forward and backward. The Gaussian takes
    :math:`\mathcal{O}(N d)` time, in blocks whose memory does not grow with d. The direct sum,
    whose memory does, is used in second derivatives, in ``torch.func``, in ONNX and without
    compiled kernels. On CUDA all Green functions take :math:`\mathcal{O}(N d)` time.

    Gradients are exact. At an input that equals a centre they are the derivatives from the left: 0
    for the rectifier and -1 for the absolute value.

    Args:
        num_units: The number of units U.
        num_centers: The number of centres d of each unit.
        green: The Green function g: ``'relu'``, ``'abs'`` or ``'gaussian'``.
        init: ``'random'``: normally distributed coefficients, scaled so that f and its slope have a
            mean square of at most 1 over inputs spread on the range of the centres. ``'identity'``,
            ``'tanh'``, ``'relu'``: coefficients with which f approximates that function on the
            range. Piecewise-linear expansions meet it at the centres, and beyond the range they
            continue along its tangents at the ends (absolute values without a line cannot: their
            slopes at the two ends are opposite). Gaussian expansions are its least-squares fit.
        init_range: The range of the centres at the start: spread evenly, or one in the middle.
        affine: Whether to add a line :math:`m_i a + q_i` with learned m and q, which are 0 at the
            start unless :obj:`init` needs other values.
        shared: Whether all units share one function.
        normalize: Whether to normalise inputs first, by the mean and variance of the batch and with
            a learned scale and shift, as :class:`torch.nn.BatchNorm1d` does (section 3).
        bandwidth: The standard deviation b of the Gaussian; None for the spacing of the centres at
            the start (for one centre, the width of the range).
        dim: The dimension of the units: -1 where they are the last one, 1 for the channels of
            :class:`torch.nn.Conv1d` and :class:`torch.nn.Conv2d`.

    Attributes:
        centers: c, of shape :math:`(U, d)`, shared :math:`(1, d)`.
        coefficients: :math:`\chi`, of the same shape.
        slope: m, of shape :math:`(U)`, shared :math:`(1)`; None without :obj:`affine`.
        intercept: q, likewise.
        norm: The normalisation, or None.

    ``state_dict()`` also holds the Green function and the bandwidth, as one tensor. Loading a state
    restores its bandwidth; a state of another Green function is refused.

    Shapes:
        - **input:** :math:`(*, U)`; with :obj:`dim`, U in that dimension.
        - **output:** that of the input, in the common precision of input and parameters; under
          autocast at least float32. The output is NaN where the input is NaN.

    Raises:
        ValueError: For numbers below 1, unknown names, a range that does not grow, and a bandwidth
            that is not positive or not for a Gaussian; for an :obj:`init` that the expansion cannot
            approximate (without :obj:`affine`, rectifiers are 0 left of their first centre, and a
            single absolute value is even); for an input that is no floating point tensor or whose
            size in :obj:`dim` is not U; for a single row in training with :obj:`normalize`; for a
            state of another Green function.

    Example:
        >>> import torch
        >>> from pyg_kernels.nn import KernelActivation
        >>> act = KernelActivation(16, init="tanh", affine=True)  # learns from there on
        >>> a = torch.linspace(-2, 2, 64).view(4, 16)
        >>> torch.allclose(act(a), a.tanh(), atol=1e-3)
        True
        >>> act.coefficients.shape
        torch.Size([16, 100])

    See Also:
        :class:`~pyg_kernels.sequence.KBRN`, a recurrent network of them;
        :func:`~pyg_kernels.ops.expansion.kernel_expansion`, the sum over centres.
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
        dim: int = -1,
    ) -> None:
        super().__init__()
        self.num_units = checked_count(num_units, "num_units")
        self.num_centers = checked_count(num_centers, "num_centers")
        self.green: Green = checked_choice(green, "green", GREENS)
        self.init: Init = checked_choice(init, "init", get_args(Init))
        self.init_range = _checked_range(init_range)
        check_flags(affine=affine, shared=shared, normalize=normalize)
        self.affine, self.shared = affine, shared
        self._given_bandwidth = _checked_bandwidth(bandwidth, green)
        self.dim = _checked_dim(dim)
        self._check_init()
        rows = 1 if shared else num_units
        self.centers = Parameter(torch.empty(rows, num_centers))
        self.coefficients = Parameter(torch.empty(rows, num_centers))
        self.slope = Parameter(torch.empty(rows)) if affine else None
        self.intercept = Parameter(torch.empty(rows)) if affine else None
        self.norm = InputNorm(num_units) if normalize else None
        self.reset_parameters()

    def reset_parameters(self) -> None:
        basis = Basis(self.num_centers, self.init_range, self.green, self.bandwidth)
        with torch.no_grad():
            self._fill(self.centers, basis.centers)
            if self.init == "random":
                self.coefficients.normal_(std=random_scale(basis))
                self._fill_line(0.0, 0.0)
            else:
                fit = fitted(*_TARGETS[self.init], basis, self.affine)
                self._fill(self.coefficients, fit.coefficients)
                self._fill_line(fit.slope, fit.intercept)
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
        self._check_input(a)
        is_last = self.dim in (-1, a.dim() - 1)
        by_unit = a if is_last else a.movedim(self.dim, -1)
        rows = by_unit.reshape(-1, self.num_units)
        if self.norm is not None and rows.size(0):
            rows = self._normalized(rows)
        out = self._functions(rows).reshape(by_unit.shape)
        return out if is_last else out.movedim(-1, self.dim).contiguous()

    def get_extra_state(self) -> Tensor:
        """The number of the Green function, and the bandwidth (0 where there is none).

        It is a tensor, as all values of a state are: callers copy, move and average them.
        """
        state = [GREENS.index(self.green), self.bandwidth or 0.0]
        return torch.tensor(state, dtype=torch.float64, device="cpu")

    def set_extra_state(self, state: Tensor) -> None:
        if state.is_meta:
            return
        number, bandwidth = state.tolist()
        green = GREENS[round(number)]
        if green != self.green:
            raise ValueError(
                f"the state has green={green!r}, the module green={self.green!r}: expected a "
                f"KernelActivation built with green={green!r}"
            )
        if self.green == "gaussian" and bandwidth != self.bandwidth:
            self._given_bandwidth = bandwidth

    @torch.no_grad()
    def plot(self, channels: int | Iterable[int] | None = None, *, ax: Axes | None = None) -> Axes:
        """Draws the functions over a range that covers the initial and the learned centres.

        Args:
            channels: The units whose functions are drawn; None for all, a shared function once.
            ax: Where to draw; None for the axes of a new figure.

        Returns:
            The axes, with one line per function.

        Raises:
            ImportError: Without matplotlib.
            ValueError: For channels that are not among the units.
        """
        try:
            from matplotlib import pyplot
        except ImportError as error:
            raise ImportError("plot needs matplotlib: pip install matplotlib") from error
        units = self._checked_channels(channels)
        low, high = self.init_range
        low = min(low, float(self.centers.min()))
        high = max(high, float(self.centers.max()))
        points = torch.linspace(low, high, _POINTS, device=self.centers.device)
        values = self._functions(points.unsqueeze(1).expand(-1, self.num_units)).float()
        if ax is None:
            ax = pyplot.subplots()[1]
        for unit in units:
            ax.plot(points.numpy(force=True), values[:, unit].numpy(force=True), label=str(unit))
        ax.set_xlabel("normalised input" if self.norm is not None else "input")
        ax.set_ylabel("activation")
        if 1 < len(units) <= _NAMED:
            ax.legend(title="unit")
        return ax

    def _functions(self, rows: Tensor) -> Tensor:
        parts = self.centers, self.coefficients, self.green, self.bandwidth
        return kernel_expansion(rows, *parts, self.slope, self.intercept)

    def _check_input(self, a: Tensor) -> None:
        if not isinstance(a, Tensor):
            raise ValueError(f"the input is a {type(a).__name__}: expected a tensor")
        if not -a.dim() <= self.dim < a.dim() or a.size(self.dim) != self.num_units:
            hint = "; channels of a convolution are in dim=1" if self.dim == -1 else ""
            raise ValueError(
                f"the input has shape {tuple(a.shape)}: expected num_units={self.num_units} in "
                f"dim={self.dim}{hint}"
            )
        if not a.is_floating_point():
            raise ValueError(f"the input has dtype {a.dtype}: expected floating point numbers")

    def _checked_channels(self, channels: int | Iterable[int] | None) -> list[int]:
        if channels is None:
            return [0] if self.shared else list(range(self.num_units))
        units = list(channels) if isinstance(channels, Iterable) else [channels]
        for unit in units:
            known = isinstance(unit, Integral) and not isinstance(unit, bool)
            if not (known and 0 <= unit < self.num_units):
                raise ValueError(
                    f"channels={channels!r}: expected numbers of units, 0 to {self.num_units - 1}"
                )
        return units

    def _normalized(self, rows: Tensor) -> Tensor:
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

    def _fill_line(self, slope: float, intercept: float) -> None:
        if self.slope is not None and self.intercept is not None:
            self.slope.fill_(slope)
            self.intercept.fill_(intercept)

    @staticmethod
    def _fill(parameter: Tensor, row: Array) -> None:
        parameter.copy_(parameter.new_tensor(row.tolist()))

    def _words(self) -> list[str]:
        """The arguments of the functions, most of them only where they are not the default."""
        return [
            f"num_centers={self.num_centers}, green={self.green!r}",
            *differing(
                init=(self.init, "random"),
                init_range=(self.init_range, (-2, 2)),
                affine=(self.affine, False),
                shared=(self.shared, False),
                bandwidth=(self._given_bandwidth, None),
                dim=(self.dim, -1),
            ),
        ]

    def __repr__(self) -> str:
        words = [str(self.num_units), *self._words()]
        words += differing(normalize=(self.norm is not None, False))
        return f"{self.__class__.__name__}({', '.join(words)})"


def _checked_dim(dim: int) -> int:
    if isinstance(dim, bool) or not isinstance(dim, Integral):
        raise ValueError(f"dim={dim!r}: expected the number of a dimension, -1 for the last one")
    return int(dim)


def _checked_range(init_range: tuple[float, float]) -> tuple[float, float]:
    numbers = list(init_range) if isinstance(init_range, Iterable) else []
    known = len(numbers) == 2 and all(map(is_number, numbers))
    low, high = map(float, numbers) if known else (math.nan, math.nan)
    largest = max(abs(low), abs(high))
    # Centres, and squares of distances between them, have to fit in single precision.
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
    # Its square has to fit in single precision.
    if not (is_number(bandwidth) and 1e-15 <= bandwidth <= 1e15):
        raise ValueError(f"bandwidth={bandwidth!r}: expected a positive number (1e-15 to 1e15)")
    return float(bandwidth)


def precision_of(module: Module, like: Tensor) -> torch.dtype:
    """The precision of a module's tensors; that of :obj:`like` where it has none."""
    tensors = chain(module.parameters(), module.buffers())
    return next((t.dtype for t in tensors if t.is_floating_point()), like.dtype)
