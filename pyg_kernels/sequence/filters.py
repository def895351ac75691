"""Filters over n-grams: dense ones, and Morlet wavelets."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Sequence
from numbers import Integral
from typing import Any, cast

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.nn import Module, Parameter, ParameterList
from torch.nn.parameter import UninitializedParameter, is_lazy

from pyg_kernels.checks import checked_count
from pyg_kernels.nn.arguments import checked_lazy_count
from pyg_kernels.ops.ragged import Layout
from pyg_kernels.sequence.precision import place

# Wide windows of few features are convolved: a convolution need not write the windows out.
_WIDE = 8
_FEW_FEATURES = 32


class Filters(Module, ABC):
    """Filters of one or more widths, whose outputs lie side by side.

    Args:
        input_size: The number of features F of a token; -1 until :meth:`take_size` sets it.
        hidden_size: The number of filters H.
        widths: The window widths n_b in tokens. The H filters are divided among them as evenly as
            possible; the first widths get the filters that are left over.
        device: The device of the parameters.
        dtype: The data type of the parameters.
    """

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        widths: Sequence[int] = (1,),
        *,
        device: torch.device | str | int | None = None,
        dtype: torch.dtype | None = None,
    ) -> None:
        super().__init__()
        self.input_size = checked_lazy_count(input_size, "input_size")
        self.hidden_size = checked_count(hidden_size, "hidden_size")
        self.widths = checked_widths(list(widths), hidden_size)
        share, over = divmod(hidden_size, len(self.widths))
        self.blocks = [share + (b < over) for b in range(len(self.widths))]
        if input_size == -1:
            self.register_load_state_dict_pre_hook(_take_size_of)
        self._build()
        self.reset_parameters()
        place(self, device, dtype)

    @abstractmethod
    def _build(self) -> None:
        """Registers the parameters."""

    @abstractmethod
    def _shapes(self) -> dict[str, tuple[int, ...]]:
        """The shapes of the parameters that depend on the number of features."""

    def take_size(self, input_size: int) -> None:
        """Draws lazy filters for tokens of this many features; does nothing to other filters."""
        if self.input_size != -1:
            return
        self.input_size = input_size
        for name, shape in self._shapes().items():
            cast(UninitializedParameter, self.get_parameter(name)).materialize(shape)
        self.reset_parameters()

    @abstractmethod
    def reset_parameters(self) -> None:
        """Draws the parameters anew."""

    @abstractmethod
    def forward(self) -> list[Tensor]:
        """The filters of each width, :obj:`(H_b, F, n_b)`, the oldest token first."""

    def extra_repr(self) -> str:
        widths = self.widths[0] if len(self.widths) == 1 else list(self.widths)
        return f"{self.input_size}, {self.hidden_size}, ngram={widths}"


class DenseFilters(Filters):
    r"""Filters with one weight per feature and token, drawn from :math:`\mathcal{U}(\pm\sqrt{3 /
    (n F)})`.

    .. math::
        y_t = \sum_{i=0}^{n-1} W_{\cdot \cdot i} \, x_{t - (n - 1 - i) d}

    ``weights[b]`` has the shape of a :class:`torch.nn.Conv1d` weight. With a single width,
    :obj:`weight` is that tensor. The arguments are those of :class:`Filters`.

    Shapes:
        - **output:** the filters of each width :math:`n_b`, :math:`(H_b, F, n_b)`.

    Example:
        >>> from pyg_kernels.sequence import DenseFilters
        >>> [tuple(weight.shape) for weight in DenseFilters(4, 6, widths=(1, 3))()]
        [(3, 4, 1), (3, 4, 3)]

    See Also:
        :class:`SyncNetFilters`; :class:`RKM`, which applies the filters to n-grams.
    """

    def _build(self) -> None:
        self.weights = ParameterList(map(_parameter, self._shapes().values()))

    def _shapes(self) -> dict[str, tuple[int, ...]]:
        blocks = enumerate(zip(self.blocks, self.widths, strict=True))
        return {f"weights.{b}": (count, self.input_size, width) for b, (count, width) in blocks}

    def reset_parameters(self) -> None:
        for weight in self.weights if self.input_size != -1 else ():
            bound = math.sqrt(3.0 / (weight.size(1) * weight.size(2)))
            torch.nn.init.uniform_(weight, -bound, bound)

    @property
    def weight(self) -> Parameter:
        """The filters, if they have a single width: :obj:`(H, F, n)`."""
        if len(self.widths) != 1:
            raise AttributeError
        return self.weights[0]

    def __getattr__(self, name: str) -> Any:
        # If a property of a module raises AttributeError, Python reports the error raised here.
        if name == "weight":
            raise AttributeError(
                f"weight: there are {len(self.widths)} widths, expected weights[b]"
            )
        return super().__getattr__(name)

    def forward(self) -> list[Tensor]:
        return list(self.weights)


class SyncNetFilters(Filters):
    r"""Morlet wavelets: Liang et al. (2019), eq. 21, after SyncNet (Li et al. 2017).

    .. math::
        W_{kci} = \alpha_{kc} \cos(\omega_k t_i + \phi_{kc}) \exp(-\beta_k t_i^2), \qquad
        t_i = i - \tfrac{n-1}{2}, \quad i = 0, \ldots, n - 1

    Here t is in samples, the oldest first. :math:`\omega` is in radians per sample: a filter's
    frequency is :math:`\omega / 2 \pi` times the sampling rate. :math:`\beta \ge 0` is in
    samples\ :sup:`-2`. Filter k reads one frequency from all channels c, with an amplitude and a
    phase for each channel. It has 2 (F + 1) parameters, whatever its width.

    The initial frequencies are spread evenly on a logarithmic scale, from half a period per window
    to half a period per sample. Windows start with ends at a tenth of their height, phases are
    random, and amplitudes preserve the variance of inputs. Arguments: see :class:`Filters`.

    Shapes:
        - **output:** the filters of each width :math:`n_b`, :math:`(H_b, F, n_b)`.

    Example:
        >>> from pyg_kernels.sequence import SyncNetFilters
        >>> filters = SyncNetFilters(4, 6, widths=(40,))
        >>> [tuple(weight.shape) for weight in filters()]
        [(6, 4, 40)]
        >>> sum(parameter.numel() for parameter in filters.parameters()) == 6 * 2 * (4 + 1)
        True

    See Also:
        :class:`DenseFilters`; :class:`RKM`, which applies the filters to n-grams.
    """

    def _build(self) -> None:
        if max(self.widths) == 1:
            raise ValueError(
                "ngram=1 with filters='syncnet': a wavelet needs a window of at least 2 samples"
            )
        shapes = self._shapes()
        self.alpha = _parameter(shapes["alpha"])
        self.omega = _parameter((self.hidden_size,))
        self.phi = _parameter(shapes["phi"])
        self.raw_beta = _parameter((self.hidden_size,))

    def _shapes(self) -> dict[str, tuple[int, ...]]:
        return dict.fromkeys(("alpha", "phi"), (self.hidden_size, self.input_size))

    @property
    def beta(self) -> Tensor:
        r"""The windows' decay :math:`\beta`, :obj:`(H,)`, the softplus of a learned parameter."""
        return F.softplus(self.raw_beta)

    def reset_parameters(self) -> None:
        if self.input_size == -1:
            return
        with torch.no_grad():
            self.phi.uniform_(-math.pi, math.pi)
            self.alpha.fill_(1.0)
            start = 0
            for count, width in zip(self.blocks, self.widths, strict=True):
                block = slice(start, start + count)
                spread = (torch.rand(count) + torch.arange(count)) / count
                low = math.pi / width
                self.omega[block] = low * (math.pi / low) ** spread
                beta = math.log(10.0) / max((width - 1) / 2, 0.5) ** 2
                self.raw_beta[block] = math.log(math.expm1(beta))
                start += count
            norms = [weight.square().sum((1, 2)).clamp_min(1e-6) for weight in self()]
            bound = (3.0 / torch.cat(norms)).sqrt().unsqueeze(1)
            self.alpha.uniform_(-1.0, 1.0).mul_(bound)

    def forward(self) -> list[Tensor]:
        # Half precision does not suffice for the angles, nor for the squares of t in wide windows.
        result = self.omega.dtype
        dtype = torch.promote_types(result, torch.float32)
        parts = (self.alpha, self.omega, self.phi, self.raw_beta)
        blocks = zip(*(part.to(dtype).split(self.blocks) for part in parts), strict=True)
        return [
            wavelets(alpha, omega, phi, F.softplus(raw_beta), width).to(result)
            for (alpha, omega, phi, raw_beta), width in zip(blocks, self.widths, strict=True)
        ]


class _LazyParameter(UninitializedParameter):
    """A lazy parameter that `state_dict` takes as it is, like those of lazy layers."""

    def detach(self) -> Tensor:
        return self


def _parameter(shape: tuple[int, ...]) -> Parameter:
    """A parameter; a lazy one where a size is -1."""
    if -1 in shape:
        return cast(Parameter, _LazyParameter())
    return Parameter(torch.empty(shape))


def _take_size_of(module: Module, state_dict: dict[str, Tensor], prefix: str, *_: Any) -> None:
    """Gives lazy filters the size of the weights that are loaded into them."""
    filters = cast(Filters, module)
    for name in filters._shapes():
        weight = state_dict.get(prefix + name)
        if weight is not None and not is_lazy(weight):
            filters.take_size(weight.size(1))


def filtered(
    layout: Layout, x: Tensor, history: Tensor, filters: Sequence[Sequence[Tensor]], dilation: int
) -> Tensor:
    """The outputs of k filters on the windows of all tokens, side by side, :obj:`(N, k * H)`.

    Args:
        layout: The texts.
        x: The tokens, :obj:`(N, F)`.
        history: The tokens before each text, :obj:`(steps, B, F)`, as many as windows reach back.
        filters: The weights that each of the k :class:`Filters` returned.
        dilation: The spacing of the tokens in a window.
    """
    parts = []
    for weights in zip(*filters, strict=True):
        weight = torch.cat(weights) if len(weights) > 1 else weights[0]
        _, features, width = weight.shape
        few = width >= _WIDE and features <= _FEW_FEATURES
        if width > 1 and layout.full and layout.num_steps and (few or x.device.type != "cpu"):
            found = layout.convolve(x, history, weight, dilation)
        else:
            windows = layout.windows(x, history, width, dilation)
            found = F.linear(windows, weight.transpose(1, 2).flatten(1))
        parts.append(found.unflatten(1, (len(filters), -1)))
    return (torch.cat(parts, 2) if len(parts) > 1 else parts[0]).flatten(1)


def wavelets(alpha: Tensor, omega: Tensor, phi: Tensor, beta: Tensor, width: int) -> Tensor:
    r"""Eq. 21: the filters of one width, :obj:`(H, F, n)`.

    Args:
        alpha: Amplitudes, :obj:`(H, F)`.
        omega: Angular frequencies in radians per sample, :obj:`(H,)`.
        phi: Phases in radians, :obj:`(H, F)`.
        beta: Decays of the window in samples\ :sup:`-2`, :obj:`(H,)`.
        width: The number of samples n.
    """
    t = torch.arange(width, dtype=omega.dtype, device=omega.device) - (width - 1) / 2
    # cos(a + b) from separate cosines of frequencies and phases: H (n + F) cosines, not H n F.
    angle = torch.outer(omega, t)
    window = torch.exp(-torch.outer(beta, t.square()))
    even, odd = torch.cos(angle) * window, torch.sin(angle) * window
    cosine, sine = alpha * torch.cos(phi), alpha * torch.sin(phi)
    return cosine.unsqueeze(2) * even.unsqueeze(1) - sine.unsqueeze(2) * odd.unsqueeze(1)


def checked_widths(ngram: int | Sequence[int], hidden_size: int) -> tuple[int, ...]:
    """The widths of windows, one or several."""
    if isinstance(ngram, (str, bytes)) or not isinstance(ngram, (Integral, Sequence)):
        raise ValueError(
            f"ngram={ngram!r}: expected a whole number of at least 1, or a list of them"
        )
    widths = list(ngram) if isinstance(ngram, Sequence) else [ngram]
    if not 0 < len(widths) <= hidden_size:
        raise ValueError(
            f"ngram={widths}: expected at least one width, and no more than "
            f"hidden_size={hidden_size}"
        )
    return tuple(checked_count(width, "ngram") for width in widths)
