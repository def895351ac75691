r"""Kernels on texts, from their values on all pairs of prefixes.

For the base kernel :math:`g[s, t]` of two tokens and an order n,

.. math::
    Z_1 = g, \qquad
    C_j[s, t] = \sum_{i \le s, k \le t} \lambda^{(s - i) + (t - k)} Z_j[i, k], \qquad
    Z_j[s, t] = g[s, t] \, C_{j-1}[s - 1, t - 1].

Then :math:`Z_n[s, t]` sums over the pairs of n-grams that end exactly at s and t, and
:math:`C_n[s, t]` over those that end at s and t or before. An n-gram has the weight :math:`\lambda`
to the number of tokens after its first that it does not pick (Lei et al. 2017, eq. 3 and supplement
B). This takes O(n |x| |y|), and is the recurrence of the layers, on pairs. The additive form
replaces the product of n base kernels by their sum:
:math:`Z_j[s, t] = C_{j-1}[s-1, t-1] + W_j[s, t] \, g[s, t]`. The weights W of these pairs come from
the recurrence of products with a base kernel of 1.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import KW_ONLY, dataclass
from itertools import pairwise
from typing import Any

import torch
from torch import Tensor

from pyg_kernels.checks import check_flags, checked_choice, checked_count
from pyg_kernels.kernels.activations import ActivationKernel, activation_kernel, inverse_root
from pyg_kernels.kernels.arguments import checked_decay
from pyg_kernels.kernels.kernel import BlockKernel
from pyg_kernels.kernels.texts import PaddedTexts, Texts, checked_analyzer, read_texts
from pyg_kernels.ops.operator import runs_compiled

Activated = Callable[[Tensor], Tensor]


def decayed_sums(values: Tensor, decay: float) -> Tensor:
    r"""The sums :math:`C[s, t]` of the values ``(S, T, ...)`` up to s and t, with decay."""
    return _DecayedSums.apply(values, decay, False)


def end_at(base: Tensor, order: int, decay: float, additive: bool = False) -> Tensor:
    r"""The sums :math:`Z_n[s, t]` over pairs of n-grams that end at s and t, (S, T, ...)."""
    ending = base
    weights = base.new_ones(base.shape[:2] + (1,) * (base.dim() - 2))  # of these pairs
    for _ in range(order - 1):
        before = shifted(decayed_sums(ending, decay))
        if additive:
            weights = shifted(decayed_sums(weights, decay))
            ending = before + base * weights
        else:
            ending = base * before
    return ending


def shifted(values: Tensor) -> Tensor:
    """The values at (s - 1, t - 1), zero where there are none."""
    no_pad = (0, 0) * (values.dim() - 2)
    if not values.size(0) or not values.size(1):
        return values
    return torch.nn.functional.pad(values[:-1, :-1], (*no_pad, 1, 0, 1, 0))


def after_one(values: Tensor) -> Tensor:
    """The values at s - 1 along the first dimension, zero where there is none."""
    return torch.cat([torch.zeros_like(values[:1]), values[:-1]])


def _scan_(values: Tensor, decay: float, backwards: bool) -> Tensor:
    """Computes the decayed sums in place, along both dimensions."""
    if runs_compiled(values):
        from pyg_kernels.kernels import cpu
        from pyg_kernels.ops.compiled import run

        flat = values.view(*values.shape[:2], values[:1, :1].numel()).numpy()
        tasks = -(-flat.shape[2] // cpu.PAIRS_AT_A_TIME)
        run(cpu.decayed_sums, tasks, flat.size, flat, decay, backwards)
        return values
    for dim in (0, 1):
        slices = values.unbind(dim)
        for before, here in pairwise(reversed(slices) if backwards else slices):
            here.add_(before, alpha=decay)
    return values


class _DecayedSums(torch.autograd.Function):
    """The scan, whose gradient is the scan from the other end."""

    @staticmethod
    def forward(values: Tensor, decay: float, backwards: bool) -> Tensor:
        return _scan_(values.clone(memory_format=torch.contiguous_format), decay, backwards)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Tensor, float, bool], output: Tensor) -> None:
        _, ctx.decay, ctx.backwards = inputs

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None, None]:
        return _DecayedSums.apply(grad, ctx.decay, not ctx.backwards), None, None


@dataclass(eq=False, repr=False)
class TextKernel(BlockKernel):
    """A kernel on texts that has values on all pairs of prefixes."""

    _: KW_ONLY
    analyzer: str | Callable[[Any], Any] = "char"
    tokenizer: Callable[[str], Sequence[str]] | None = None

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.string = True
        return tags

    def prefixes(self, x: Any, y: Any = None) -> Tensor:
        r"""The kernel of all pairs of prefixes of two texts.

        Args:
            x: A text.
            y: Another one; None: x again.

        Returns:
            ``(|x|, |y|)``, with :math:`K(x_{1:s}, y_{1:t})` at ``[s - 1, t - 1]``.
        """
        self._check()
        texts = self._read([x] if y is None else [x, y])
        parts = [texts.part(torch.tensor([number])) for number in (0, len(texts) - 1)]
        values = self._between(*map(self._prepare, parts))[:, :, 0, 0]
        rows, columns = map(self._prefix_scale, parts)
        return values if rows is None or columns is None else values * rows[:, None] * columns

    @abstractmethod
    def _prefix_values(self, base: Tensor, activated: Activated) -> Tensor:
        """The kernel of all pairs of prefixes, (S, T, ...), from the base kernel of their tokens.

        `activated` applies the kernel of the activation to such values.
        """

    def _check(self) -> None:
        super()._check()
        self._activation()

    def _activation(self) -> ActivationKernel:
        return activation_kernel(getattr(self, "activation", None))

    def _read(self, items: Any, like: Any = None) -> Texts:
        analyze = checked_analyzer(self.analyzer, self.tokenizer)
        return read_texts(items, self.dtype, like, analyze)

    def _prepare(self, part: Texts) -> PaddedTexts:
        return self._with_itself(part)[0] if hasattr(self, "activation") else part.padded()

    def _with_itself(self, part: Texts) -> tuple[PaddedTexts, Tensor]:
        """Texts with their diagonals, and the kernel of each prefix with itself, (S, n)."""
        texts = part.padded()
        present = texts.present()

        def activated(values: Tensor) -> Tensor:
            own = values.diagonal().t()
            texts.diagonals.append(own)
            found = self._activation()(values, own[:, None], own)
            return found * (present[:, None] & present)  # padding stays 0

        values = self._prefix_values(texts.self_pairs(), activated)
        return texts, values.diagonal().t()

    def _between(self, a: PaddedTexts, b: PaddedTexts) -> Tensor:
        """The kernel of all prefixes of all pairs of texts of two parts, (S, T, n, m)."""
        diagonals = zip(a.diagonals, b.diagonals, strict=True)

        def activated(values: Tensor) -> Tensor:
            first, second = next(diagonals)
            return self._activation()(values, first[:, None, :, None], second[None, :, None, :])

        return self._prefix_values(a.pairs(b), activated)

    def _values(self, a: PaddedTexts, b: PaddedTexts) -> Tensor:
        values, rows, columns = self._between(a, b), a.lengths[:, None], b.lengths
        if not values.size(0) or not values.size(1):
            return values.new_zeros(values.shape[2:])
        first, second = (torch.arange(n, device=values.device) for n in values.shape[2:])
        picked = values[rows - 1, columns - 1, first[:, None], second]  # any value for empty texts
        return picked.masked_fill((rows == 0) | (columns == 0), 0)

    def _self_values(self, part: Texts) -> Tensor:
        texts, values = self._with_itself(part)
        columns = torch.arange(len(part), device=values.device)
        return torch.nn.functional.pad(values, (0, 0, 1, 0))[texts.lengths, columns]

    def _prefix_scale(self, part: Texts) -> Tensor | None:
        """The factor of each prefix of the only text of a part, (S,), or None."""
        return inverse_root(self._with_itself(part)[1][:, 0]) if self._is_cosine() else None


@dataclass(eq=False, repr=False)
class StringKernel(TextKernel):
    r"""The string kernel of order n, over all n-grams, consecutive or not.

    .. math::
        K_n(x, y) = \langle \phi_n(x), \phi_n(y) \rangle, \qquad
        \phi_n(x) = \sum_{1 \le i_1 < \cdots < i_n \le |x|} \lambda^{|x| - i_1 - n + 1} \,
        x_{i_1} \otimes \cdots \otimes x_{i_n}

    (Lei et al. 2017, eq. 3 and supplement B), in :math:`O(n |x| |y|)`. A multiplicative
    unnormalised :class:`~pyg_kernels.sequence.RCNN` evaluates it against its reference strings
    (theorem 1).

    Args:
        order: n, the number of tokens in an n-gram.
        decay: :math:`\lambda` in [0, 1]; :math:`0^0 = 1`.
        combine: ``'mul'``: tensor products as above. ``'add'``: the concatenation
            :math:`[x_{i_1}, \ldots, x_{i_n}]` in their place, so that base kernels add up
            (supplement A, Table 5c).
        weighting: ``'end'``: :math:`\lambda` as above, from the first token of an n-gram to the end
            of the text. ``'span'``: :math:`\lambda` to the number of tokens that the n-gram skips
            (Lei 2017, thesis, eq. 2.5); the kernel of Lodhi et al. 2002 is
            :math:`\lambda^{2n}` times this one.
        normalize: ``'weights'`` divides :math:`\phi_n` by the sum of its weights (Table 5b and c),
            ``'cosine'`` the kernel by :math:`\sqrt{K(x, x) K(y, y)}`; 0 where the divisor is 0.
        analyzer: What the tokens of strings are. ``'char'``: characters. ``'word'``: the words that
            scikit-learn's ``CountVectorizer`` finds, of two letters or more, in lower case. Or a
            function that gives the tokens of a text of any form.
        tokenizer: With ``analyzer='word'``, a function that splits a string in lower case.
        dtype, max_memory, verbose: See :class:`Kernel`.

    Texts are ``(L, F)`` tensors of vectors, compared by their inner product, or sequences of tokens
    (numbers, words, or strings, which are split into tokens), compared by exact match. The kernel
    of a text with fewer than n tokens is 0.

    Raises:
        ValueError: On an argument out of range; on no texts, texts of several kinds or sizes, NaN.
        TypeError: On items that are no texts.

    Example:
        >>> from pyg_kernels.kernels import StringKernel
        >>> StringKernel(order=2, decay=0.5, weighting="span")(["cat", "car", "bar"])
        tensor([[2.2500, 1.0000, 0.0000],
                [1.0000, 2.2500, 1.0000],
                [0.0000, 1.0000, 2.2500]], dtype=torch.float64)

    See Also:
        :class:`~pyg_kernels.sequence.RCNN`, the layer;
        :class:`~pyg_kernels.features.RandomFeatures`, its features; :class:`GatedSequenceKernel`
        and :class:`DeepStringKernel`, the kernels of other layers.
    """

    _normalizations = (False, "weights", "cosine")

    order: int = 2
    decay: float = 0.5
    combine: str = "mul"
    weighting: str = "end"
    normalize: bool | str = False

    def _check(self) -> None:
        super()._check()
        checked_count(self.order, "order")
        checked_decay(self.decay, most=1.0)
        checked_choice(self.combine, "combine", ("mul", "add"))
        checked_choice(self.weighting, "weighting", ("end", "span"))

    def _prefix_values(self, base: Tensor, activated: Activated) -> Tensor:
        ending = end_at(base, self.order, self.decay, self.combine == "add")
        return decayed_sums(ending, 1.0 if self.weighting == "span" else self.decay)

    def _prefix_scale(self, part: Texts) -> Tensor | None:
        if self.normalize == "weights":
            return self._inverse_weights(torch.arange(1, len(part.values) + 1), part)
        return super()._prefix_scale(part)

    def _scale(self, collection: Texts, diagonal: Tensor | None = None) -> Tensor | None:
        if self.normalize == "weights":
            return self._inverse_weights(collection.sizes, collection)
        return super()._scale(collection, diagonal)

    def _inverse_weights(self, lengths: Tensor, like: Texts) -> Tensor:
        """1 over the sum of the weights of all n-grams of prefixes of these lengths."""
        longest = int(lengths.max()) if len(lengths) else 0
        ending = torch.ones(longest, 1, dtype=torch.float64)
        for _ in range(self.order - 1):
            ending = after_one(decayed_sums(ending, self.decay))
        sums = decayed_sums(ending, 1.0 if self.weighting == "span" else self.decay)[:, 0]
        sums = torch.nn.functional.pad(sums, (1, 0)).index_select(0, lengths)
        inverse = torch.where(sums > 0, 1 / sums.where(sums > 0, 1.0), 0.0)
        return inverse.to(like.device, like.dtype)


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
        normalize: Whether to normalise as :class:`StringKernel` does with ``'cosine'``.

    Texts, errors and all other arguments are as for :class:`StringKernel`. The kernel of an empty
    text is 0.

    Example:
        >>> from pyg_kernels.kernels import GatedSequenceKernel
        >>> GatedSequenceKernel()(["cat", "car", "bat"])  # gates: 1 for equal letters, else 1/2
        tensor([[3.0000, 1.0000, 2.0000],
                [1.0000, 3.0000, 0.5000],
                [2.0000, 0.5000, 3.0000]], dtype=torch.float64)

    See Also:
        :class:`~pyg_kernels.sequence.RCNN` with ``decay='input'``, the layer;
        :class:`StringKernel`, of a constant decay; :func:`inverse_polynomial`, :func:`polynomial`
        and :func:`arc_cosine`.
    """

    activation: ActivationKernel | None = None
    normalize: bool = False

    def _prefix_values(self, base: Tensor, activated: Activated) -> Tensor:
        rows: list[Tensor] = []
        for gate, here in zip(activated(base), base, strict=True):
            rows.append(gate * after_one(rows[-1]) + here if rows else here)
        return torch.stack(rows) if rows else base


@dataclass(eq=False, repr=False)
class DeepStringKernel(TextKernel):
    r"""The deep string kernel of L layers.

    .. math::
        K^{(l)}(x, y) = \sum_{i_1 < \cdots < i_n} \sum_{k_1 < \cdots < k_n}
        \lambda^{|x| - i_1 - n + 1} \lambda^{|y| - k_1 - n + 1}
        \prod_{m=1}^n K_\sigma^{(l-1)}(x_{1:i_m}, y_{1:k_m})

    with the base kernel of two tokens in place of :math:`K_\sigma^{(0)}`, and
    :math:`K_\sigma^{(l)} = K_\sigma(K^{(l)})` (Lei et al. 2017, section 2.2 and theorem 2).
    For a stack of L unnormalised string-kernel layers, :math:`K^{(L)}` is the kernel of the states
    :math:`c_n^{(L)}`, and :math:`K_\sigma^{(L)}` is the kernel of the outputs :math:`h^{(L)}`.
    A pair of texts takes :math:`O(L n |x| |y|)`.

    Args:
        num_layers: L.
        order: n, the number of tokens in an n-gram.
        decay: :math:`\lambda` in [0, 1].
        activation: The kernel of the activation; None: :func:`inverse_polynomial`.
        post: Whether the last layer's activation is applied: :math:`K_\sigma^{(L)}` in place of
            :math:`K^{(L)}`.
        normalize: Whether to normalise as :class:`StringKernel` does with ``'cosine'``.

    Texts, errors and other arguments are as for :class:`StringKernel`; an empty text gives 0.

    Example:
        >>> import torch
        >>> from pyg_kernels.kernels import DeepStringKernel, StringKernel
        >>> texts = ["cat", "car", "bar"]
        >>> one_layer = DeepStringKernel(num_layers=1, order=2, decay=0.5)(texts)
        >>> torch.allclose(one_layer, StringKernel(order=2, decay=0.5)(texts))
        True
        >>> DeepStringKernel(num_layers=2, order=2, decay=0.5)(texts).shape
        torch.Size([3, 3])

    See Also:
        :class:`~pyg_kernels.sequence.RCNN` of several layers; :class:`StringKernel`, of one layer;
        :func:`inverse_polynomial`, :func:`polynomial` and :func:`arc_cosine`, kernels of
        activations; :class:`DeepGraphKernel`, of graphs.
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
        check_flags(post=self.post)

    def _prefix_values(self, base: Tensor, activated: Activated) -> Tensor:
        for layer in range(self.num_layers):
            base = decayed_sums(end_at(base, self.order, self.decay), self.decay)
            if self.post or layer < self.num_layers - 1:
                base = activated(base)
        return base
