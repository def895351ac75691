"""The kernel of a sequence network whose decay is a gate on the input."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from pyg_kernels.kernels.activations import ActivationKernel, activation_kernel
from pyg_kernels.kernels.pair_scan import after_one
from pyg_kernels.kernels.string import TextKernel
from pyg_kernels.kernels.texts import PaddedTexts


@dataclass(eq=False, repr=False)
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
        normalize: Whether to divide as by ``'cosine'`` of :class:`StringKernel`.

    Texts, errors and all other arguments are as of :class:`StringKernel`; an empty text has the
    kernel 0.
    """

    activation: ActivationKernel | None = None
    normalize: bool = False

    def _check(self) -> None:
        super()._check()
        activation_kernel(self.activation)

    def _prefix_values(self, a: PaddedTexts, b: PaddedTexts) -> Tensor:
        norms = a.norms()[:, None, :, None], b.norms()[None, :, None, :]
        return self._sums(a.pairs(b), *norms)

    def _with_itself(self, prepared: PaddedTexts) -> Tensor:
        norms = prepared.norms()
        return self._sums(prepared.self_pairs(), norms[:, None], norms[None]).diagonal().t()

    def _sums(self, base: Tensor, norms_a: Tensor, norms_b: Tensor) -> Tensor:
        gates = activation_kernel(self.activation)(base, norms_a, norms_b)
        rows: list[Tensor] = []
        for gate, here in zip(gates, base, strict=True):
            rows.append(gate * after_one(rows[-1]) + here if rows else here)
        return torch.stack(rows) if rows else base
