"""String kernels of string kernels: what stacked string-kernel layers compute in."""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor

from pyg_kernels.kernels.activations import ActivationKernel, activation_kernel
from pyg_kernels.kernels.arguments import checked_choice, checked_count, checked_decay
from pyg_kernels.kernels.pair_scan import decayed_sums, end_at
from pyg_kernels.kernels.string import TextKernel
from pyg_kernels.kernels.texts import PaddedTexts, Texts


@dataclass(eq=False, repr=False)
class DeepStringKernel(TextKernel):
    r"""The deep string kernel of L layers.

    .. math::
        K^{(l)}(x, y) = \sum_{i_1 < \cdots < i_n} \sum_{k_1 < \cdots < k_n}
        \lambda^{|x| - i_1 - n + 1} \lambda^{|y| - k_1 - n + 1}
        \prod_{m=1}^n K_\sigma^{(l-1)}(x_{1:i_m}, y_{1:k_m})

    with the base kernel of two tokens in place of :math:`K_\sigma^{(0)}`, and
    :math:`K_\sigma^{(l)} = K_\sigma(K^{(l)})` (Lei et al. 2017, section 2.2 and theorem 2):
    :math:`K^{(L)}` is the kernel of the states :math:`c_n^{(L)}` of a stack of L unnormalised
    string-kernel layers, :math:`K_\sigma^{(L)}` that of their outputs :math:`h^{(L)}`.
    :math:`O(L n |x| |y|)`.

    Args:
        num_layers: L.
        order: n, the number of tokens in an n-gram.
        decay: :math:`\lambda` in [0, 1].
        activation: The kernel of the activation; None: :func:`inverse_polynomial`.
        post: Whether the last layer's activation is applied: :math:`K_\sigma^{(L)}` in place of
            :math:`K^{(L)}`.
        normalize: Whether to divide as by ``'cosine'`` of :class:`StringKernel`.

    Texts, errors and all other arguments are as of :class:`StringKernel`; an empty text has the
    kernel 0.
    """

    num_layers: int = 2
    order: int = 2
    decay: float = 0.5
    activation: ActivationKernel | None = None
    post: bool = False
    normalize: bool = False

    def _check(self) -> None:
        super()._check()
        checked_count(self.num_layers, "num_layers")
        checked_count(self.order, "order")
        checked_decay(self.decay, most=1.0)
        activation_kernel(self.activation)
        checked_choice(self.post, "post", (False, True))

    def _prepare(self, part: Texts) -> _Prepared:
        texts = part.padded()
        diagonals: list[Tensor] = []
        within = texts.self_pairs()
        present = texts.present().to(texts.dtype)
        for layer in range(self.num_layers):
            within = self._layer(within)
            diagonals.append(within.diagonal().t())
            if self._is_activated(layer):
                d = diagonals[-1]
                within = activation_kernel(self.activation)(within, d[:, None], d[None])
                within = within * (present[:, None] * present)  # padding stays 0
        return _Prepared(texts, diagonals, within.diagonal().t())

    def _prefix_values(self, a: _Prepared, b: _Prepared) -> Tensor:
        values = a.texts.pairs(b.texts)
        for layer in range(self.num_layers):
            values = self._layer(values)
            if self._is_activated(layer):
                first, second = a.diagonals[layer], b.diagonals[layer]
                values = activation_kernel(self.activation)(
                    values, first[:, None, :, None], second[None, :, None, :]
                )
        return values

    def _with_itself(self, prepared: _Prepared) -> Tensor:
        return prepared.last

    def _is_activated(self, layer: int) -> bool:
        return self.post or layer < self.num_layers - 1

    def _layer(self, base: Tensor) -> Tensor:
        return decayed_sums(end_at(base, self.order, self.decay, None), self.decay)


@dataclass
class _Prepared:
    """Texts; the kernel of each prefix with itself before each activation and at last (S, n)."""

    texts: PaddedTexts
    diagonals: list[Tensor]
    last: Tensor

    @property
    def lengths(self) -> Tensor:
        return self.texts.lengths
