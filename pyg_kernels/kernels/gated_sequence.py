"""The kernel of a sequence network whose decay is a gate on the input."""

from __future__ import annotations

import torch
from torch import Tensor

from pyg_kernels.kernels.activations import (
    ActivationKernel,
    checked_activation,
    inverse_polynomial,
    inverse_root,
)
from pyg_kernels.kernels.arguments import checked_choice
from pyg_kernels.kernels.pair_scan import after_one
from pyg_kernels.kernels.string import TextKernel, at_ends, last_of
from pyg_kernels.kernels.texts import PaddedTexts, Texts


class GatedSequenceKernel(TextKernel):
    r"""The sequence kernel of an adaptive decay :math:`\lambda_t = \sigma(U x_t)`.

    .. math::
        K(x_{1:t}, y_{1:s}) =
        K_\sigma(x_t, y_s) \, K(x_{1:t-1}, y_{1:s-1}) + \langle x_t, y_s \rangle

    with the map :math:`\phi(x_{1:t}) = [x_t, \phi(x_{1:t-1}) \otimes \phi_\sigma(x_t)]` (Lei 2017,
    thesis, section 2.4.4): its feature space contains the states
    :math:`c_t = \lambda_t \odot c_{t-1} + W x_t`.

    Args:
        activation: The kernel :math:`K_\sigma` of the gate's activation; None:
            :func:`inverse_polynomial`, which lies in (0, 1].
        normalize: Whether to divide by :math:`\sqrt{K(x, x) K(y, y)}`; 0 where that is 0.
        dtype, max_memory, verbose: See :class:`Kernel`.

    Texts are as for :class:`StringKernel`; an empty text has the kernel 0.

    Raises:
        ValueError: On an argument out of range; on no texts, texts of several kinds or sizes, NaN.
        TypeError: On items that are no texts.
    """

    def __init__(
        self,
        activation: ActivationKernel | None = None,
        normalize: bool = False,
        *,
        dtype: torch.dtype | None = None,
        max_memory: int = 2**28,
        verbose: bool | int | None = None,
    ) -> None:
        self.activation = activation
        self.normalize = normalize
        self.dtype = dtype
        self.max_memory = max_memory
        self.verbose = verbose

    def _check(self) -> None:
        super()._check()
        checked_activation(self._activation())
        checked_choice(self.normalize, "normalize", (False, True))

    def _activation(self) -> ActivationKernel:
        return inverse_polynomial() if self.activation is None else self.activation

    def _values(self, a: PaddedTexts, b: PaddedTexts) -> Tensor:
        return at_ends(self._prefix_values(a, b), a.lengths, b.lengths)

    def _self_values(self, part: Texts) -> Tensor:
        padded = part.padded()
        return last_of(self._within(padded).diagonal().t(), padded.lengths)

    def _prefix_values(self, a: PaddedTexts, b: PaddedTexts) -> Tensor:
        norms = a.norms()[:, None, :, None], b.norms()[None, :, None, :]
        return self._sums(a.pairs(b), *norms)

    def _prefix_scale(self, prepared: PaddedTexts) -> Tensor | None:
        return inverse_root(self._within(prepared)[:, :, 0].diagonal()) if self.normalize else None

    def _within(self, part: PaddedTexts) -> Tensor:
        norms = part.norms()
        return self._sums(part.self_pairs(), norms[:, None], norms[None])

    def _sums(self, base: Tensor, norms_a: Tensor, norms_b: Tensor) -> Tensor:
        gates = self._activation()(base, norms_a, norms_b)
        rows: list[Tensor] = []
        for gate, here in zip(gates, base, strict=True):
            rows.append(gate * after_one(rows[-1]) + here if rows else here)
        return torch.stack(rows) if rows else base
