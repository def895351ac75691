"""The kernel over all n-grams of two texts, consecutive or not."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import KW_ONLY, dataclass
from typing import Any

import torch
from torch import Tensor

from pyg_kernels.kernels.activations import inverse_root
from pyg_kernels.kernels.arguments import checked_choice, checked_count, checked_decay
from pyg_kernels.kernels.blocks import BlockKernel
from pyg_kernels.kernels.pair_scan import decayed_sums, end_at, weight_sums
from pyg_kernels.kernels.texts import PaddedTexts, Texts, checked_analyzer, read_texts


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
        analyze = checked_analyzer(self.analyzer, self.tokenizer)
        return read_texts(items, self.dtype, like, analyze)

    def _prepare(self, part: Texts) -> Any:
        return part.padded()

    def _values(self, a: Any, b: Any) -> Tensor:
        return _at_ends(self._prefix_values(a, b), a.lengths, b.lengths)

    def _self_values(self, part: Texts) -> Tensor:
        prepared = self._prepare(part)
        values, ends = self._with_itself(prepared), prepared.lengths
        if not len(values):
            return values.new_zeros(len(ends))
        texts = torch.arange(len(ends), device=ends.device)
        return values[ends - 1, texts].masked_fill(ends == 0, 0)

    def _prefix_scale(self, prepared: Any) -> Tensor | None:
        """The factor of each prefix of the only text of a part, (S,), or None."""
        return inverse_root(self._with_itself(prepared)[:, 0]) if self._is_cosine() else None

    @abstractmethod
    def _prefix_values(self, a: Any, b: Any) -> Tensor:
        """The kernel of all prefixes of all pairs of texts of two prepared parts, (S, T, n, m)."""

    @abstractmethod
    def _with_itself(self, prepared: Any) -> Tensor:
        """The kernel of each prefix of a prepared part with itself, (S, n)."""


def _at_ends(values: Tensor, a: Tensor, b: Tensor) -> Tensor:
    """The values (S, T, n, m) where texts of these lengths end, (n, m); 0 for empty texts."""
    if not values.size(0) or not values.size(1):
        return values.new_zeros(len(a), len(b))
    rows, columns = (torch.arange(len(lengths), device=a.device) for lengths in (a, b))
    picked = values[(a - 1)[:, None], b - 1, rows[:, None], columns]  # of empty texts anything
    return picked.masked_fill((a == 0)[:, None] | (b == 0), 0)


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
        analyzer: The tokens of strings: ``'char'``: characters; ``'word'``: the words that
            scikit-learn's ``CountVectorizer`` finds, which are of two letters or more, in lower
            case; or a function that gives the tokens of a text of any form.
        tokenizer: With ``analyzer='word'``, a function that splits a string in lower case.
        dtype, max_memory, verbose: See :class:`Kernel`.

    Texts are ``(L, F)`` tensors of vectors, compared by their inner product, or sequences of tokens
    (numbers, words, or strings, which are split into tokens), compared by exact match. A text
    shorter than n tokens has the kernel 0.

    Raises:
        ValueError: On an argument out of range; on no texts, texts of several kinds or sizes, NaN.
        TypeError: On items that are no texts.

    Example:
        >>> StringKernel(order=2, decay=0.5, weighting="span")(["cat", "car", "bar"])
        tensor([[2.2500, 1.0000, 0.0000],
                [1.0000, 2.2500, 1.0000],
                [0.0000, 1.0000, 2.2500]], dtype=torch.float64)
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

    def _is_cosine(self) -> bool:
        return self.normalize == "cosine"

    def _prefix_values(self, a: PaddedTexts, b: PaddedTexts) -> Tensor:
        return self._sums(a.pairs(b))

    def _with_itself(self, prepared: PaddedTexts) -> Tensor:
        return self._sums(prepared.self_pairs()).diagonal().t()

    def _prefix_scale(self, prepared: PaddedTexts) -> Tensor | None:
        if self.normalize == "weights":
            return self._inverse_weights(torch.arange(1, len(prepared.values) + 1), prepared)
        return super()._prefix_scale(prepared)

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
