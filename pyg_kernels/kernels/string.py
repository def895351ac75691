"""The kernel over all n-grams of two texts, consecutive or not."""

from __future__ import annotations

from abc import abstractmethod
from typing import Any

import torch
from torch import Tensor

from pyg_kernels.kernels.activations import inverse_root
from pyg_kernels.kernels.arguments import checked_choice, checked_count, checked_decay
from pyg_kernels.kernels.blocks import BlockKernel
from pyg_kernels.kernels.pair_scan import decayed_sums, end_at, weight_sums
from pyg_kernels.kernels.texts import PaddedTexts, Texts, read_texts


class TextKernel(BlockKernel):
    """A kernel on texts that has values on all pairs of prefixes."""

    def __sklearn_tags__(self) -> Any:
        """Says that strings are read, too."""
        tags = super().__sklearn_tags__()
        tags.input_tags.string = True
        return tags

    def prefixes(self, x: Any, y: Any = None) -> Tensor:
        r"""The kernel of all prefixes of two texts.

        Args:
            x: A text.
            y: Another one; None: x again.

        Returns:
            ``(|x|, |y|)``, with :math:`K(x_{1:s}, y_{1:t})` at ``[s - 1, t - 1]``.
        """
        self._check()
        texts = self._read([x] if y is None else [x, y])
        one = torch.tensor([0])
        first = self._prepare(texts.part(one))
        second = first if y is None else self._prepare(texts.part(one + 1))
        values = self._prefix_values(first, second)[:, :, 0, 0]
        scales = [self._prefix_scale(prepared) for prepared in (first, second)]
        if scales[0] is None or scales[1] is None:
            return values
        return values * scales[0][:, None] * scales[1]

    def _read(self, items: Any, like: Any = None) -> Texts:
        return read_texts(items, self.dtype, like)

    def _prepare(self, part: Texts) -> Any:
        return part.padded()

    @abstractmethod
    def _prefix_values(self, a: Any, b: Any) -> Tensor:
        """The kernel of all prefixes of all pairs of texts of two prepared parts, (S, T, n, m)."""

    @abstractmethod
    def _prefix_scale(self, prepared: Any) -> Tensor | None:
        """The factor of each prefix of the only text of a part that normalises, (S,), or None."""


def at_ends(values: Tensor, a: Tensor, b: Tensor) -> Tensor:
    """The values where the texts end; 0 for empty texts.

    Args:
        values: (S, T, n, m).
        a: The lengths of n texts.
        b: The lengths of m texts.
    """
    if not values.size(0) or not values.size(1):
        return values.new_zeros(len(a), len(b))
    rows, columns = (a - 1).clamp(min=0)[:, None], (b - 1).clamp(min=0)
    places = (torch.arange(len(lengths), device=a.device) for lengths in (a, b))
    i, k = next(places)[:, None], next(places)
    picked = values[rows, columns, i, k]
    return picked.masked_fill((a == 0)[:, None] | (b == 0), 0)


def last_of(values: Tensor, lengths: Tensor) -> Tensor:
    """The values ``(S, n)`` at the last token of each of n texts; 0 for empty texts."""
    if not len(values):
        return values.new_zeros(len(lengths))
    last = (lengths - 1).clamp(min=0)
    return values.gather(0, last[None])[0].masked_fill(lengths == 0, 0)


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
        dtype, max_memory, verbose: See :class:`Kernel`.

    Texts are ``(L, F)`` tensors of vectors, compared by their inner product, or sequences of tokens
    (numbers, strings, or the characters of a string), compared by exact match. A text shorter than
    n tokens has the kernel 0.

    Raises:
        ValueError: On an argument out of range; on no texts, texts of several kinds or sizes, NaN.
        TypeError: On items that are no texts.

    Example:
        >>> StringKernel(order=2, decay=0.5, weighting="span")(["cat", "car", "bar"])
        tensor([[2.2500, 1.0000, 0.0000],
                [1.0000, 2.2500, 1.0000],
                [0.0000, 1.0000, 2.2500]], dtype=torch.float64)
    """

    def __init__(
        self,
        order: int = 2,
        decay: float = 0.5,
        combine: str = "mul",
        weighting: str = "end",
        normalize: bool | str = False,
        *,
        dtype: torch.dtype | None = None,
        max_memory: int = 2**28,
        verbose: bool | int | None = None,
    ) -> None:
        self.order = order
        self.decay = decay
        self.combine = combine
        self.weighting = weighting
        self.normalize = normalize
        self.dtype = dtype
        self.max_memory = max_memory
        self.verbose = verbose

    def _check(self) -> None:
        super()._check()
        checked_count(self.order, "order")
        checked_decay(self.decay, most=1.0)
        checked_choice(self.combine, "combine", ("mul", "add"))
        checked_choice(self.weighting, "weighting", ("end", "span"))
        checked_choice(self.normalize, "normalize", (False, "weights", "cosine"))

    def _is_cosine(self) -> bool:
        return self.normalize == "cosine"

    def _values(self, a: PaddedTexts, b: PaddedTexts) -> Tensor:
        return at_ends(self._prefix_values(a, b), a.lengths, b.lengths)

    def _self_values(self, part: Texts) -> Tensor:
        padded = part.padded()
        return last_of(self._sums(padded.self_pairs()).diagonal().t(), padded.lengths)

    def _prefix_values(self, a: PaddedTexts, b: PaddedTexts) -> Tensor:
        return self._sums(a.pairs(b))

    def _prefix_scale(self, prepared: PaddedTexts) -> Tensor | None:
        if self.normalize == "weights":
            return self._inverse_weights(torch.arange(1, len(prepared.values) + 1), prepared)
        if not self._is_cosine():
            return None
        within = self._sums(prepared.self_pairs())[:, :, 0]
        return inverse_root(within.diagonal())

    def _scale(self, collection: Texts, diagonal: Tensor | None = None) -> Tensor | None:
        if self.normalize == "weights":
            return self._inverse_weights(collection.sizes, collection)
        return super()._scale(collection, diagonal)

    def _sums(self, base: Tensor) -> Tensor:
        weights = None
        if self.combine == "add" and self.order > 1:
            rows, columns = (
                weight_sums(length, self.order - 1, self.decay, "end").to(base)
                for length in base.shape[:2]
            )
            weights = rows, columns
        ending = end_at(base, self.order, self.decay, weights)
        return decayed_sums(ending, 1.0 if self.weighting == "span" else self.decay)

    def _inverse_weights(self, lengths: Tensor, like: Texts | PaddedTexts) -> Tensor:
        longest = int(lengths.max()) if len(lengths) else 0
        sums = weight_sums(longest, self.order, self.decay, self.weighting)[-1]
        sums = torch.nn.functional.pad(sums, (1, 0)).index_select(0, lengths)
        inverse = torch.where(sums > 0, 1 / sums.where(sums > 0, 1.0), 0.0)
        return inverse.to(like.values.device, like.dtype)
