"""Collections of texts: sequences of vectors, or of tokens that match exactly."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cache
from numbers import Integral
from typing import Any

import numpy as np
import torch
from sklearn.feature_extraction.text import CountVectorizer
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence

from pyg_kernels.checks import checked_choice
from pyg_kernels.kernels.arguments import checked_collection
from pyg_kernels.kernels.hashing import token_hash
from pyg_kernels.segments import place, pointers, segments

_OF_STRINGS = {"words", "characters", "strings"}


@dataclass(frozen=True)
class Texts:
    """Texts one after the other.

    `kind` is ``'vectors of F features'``, ``'numbers of tokens'``, or, for hashes, ``'words'``,
    ``'characters'`` or, where both are the same, ``'strings'``. None: no text has a token.
    """

    values: Tensor  # vectors of all tokens, (T, F), or their numbers, int64 of shape (T,)
    ptr: Tensor  # where each text begins, and the end, (n + 1,), on the CPU
    dtype: torch.dtype  # in which kernels are computed
    kind: str | None

    def __len__(self) -> int:
        return len(self.ptr) - 1

    @property
    def sizes(self) -> Tensor:
        return self.ptr.diff()

    @property
    def device(self) -> torch.device:
        return self.values.device

    @property
    def has_labels(self) -> bool:
        """Whether tokens match exactly."""
        return self.values.dim() == 1

    @property
    def requires_grad(self) -> bool:
        return self.values.requires_grad

    def part(self, items: Tensor) -> Texts:
        places, _, ptr = segments(self.ptr, items)
        values = self.values.index_select(0, places.to(self.device))
        return Texts(values, ptr, self.dtype, self.kind)

    def padded(self) -> PaddedTexts:
        """The texts side by side."""
        texts = self.values.split(self.sizes.tolist())
        return PaddedTexts(pad_sequence(texts), self.sizes.to(self.device), self.dtype)

    def runs(self, limit: int) -> Iterator[Tensor]:
        # Texts of similar length share a block, which keeps padding small.
        order = self.sizes.argsort(stable=True)
        lengths = self.sizes[order].clamp(min=1).tolist()
        start = 0
        for stop in range(1, len(lengths) + 1):
            if stop == len(lengths) or lengths[stop] * (stop + 1 - start) > limit:
                yield order[start:stop]
                start = stop


@dataclass(frozen=True)
class PaddedTexts:
    """Texts side by side from their first tokens on, with zeros behind each."""

    values: Tensor  # vectors (S, n, F), or numbers of tokens (S, n)
    lengths: Tensor  # (n,)
    dtype: torch.dtype
    diagonals: list[Tensor] = field(default_factory=list)  # of prefixes, before each activation

    def pairs(self, other: PaddedTexts) -> Tensor:
        """The base kernel of all tokens of all pairs of texts, (S, T, n, m).

        Padding may match padding; no sum over the prefixes of a text reads its padding.
        """
        if self.values.dim() == 2:
            left, right = self.values[:, None, :, None], other.values[None, :, None, :]
            return (left == right).to(self.dtype)
        products = self.values.flatten(0, 1) @ other.values.flatten(0, 1).t()
        shape = self.values.shape[:2] + other.values.shape[:2]
        return products.view(shape).transpose(1, 2).contiguous()

    def self_pairs(self) -> Tensor:
        """The base kernel of all pairs of tokens within each text, (S, S, n), 0 at padding.

        Its sums are the kernels of every prefix with itself, which activations need.
        """
        if self.values.dim() == 2:
            present = self.present()
            both = present[:, None] & present
            return ((self.values[:, None] == self.values[None]) & both).to(self.dtype)
        by_text = self.values.transpose(0, 1)
        return (by_text @ by_text.transpose(1, 2)).permute(1, 2, 0).contiguous()

    def present(self) -> Tensor:
        """Whether there is a token, (S, n)."""
        return torch.arange(len(self.values), device=self.lengths.device)[:, None] < self.lengths


def read_texts(
    items: Any,
    dtype: torch.dtype | None,
    like: Texts | None = None,
    analyze: Callable[[Any], Any] | None = None,
) -> Texts:
    """Reads texts from a list, an array of objects or a Series; their kind must be that of `like`.

    Each text is a (L, F) tensor or array of floating numbers, or a sequence of tokens: a list or a
    1-dimensional integer tensor or array of numbers, a string, or a list of strings.
    """
    items = checked_collection(items, "texts")
    is_array = isinstance(items, (Tensor, np.ndarray))
    has_objects = isinstance(items, np.ndarray) and items.dtype.kind in "OUT"
    if is_array and items.ndim < (1 if has_objects else 2):
        raise TypeError(
            f"expected a collection of texts, not one text of shape {tuple(items.shape)}"
        )
    if has_objects and items.shape[1:] == (1,):
        raise TypeError(f"expected texts of shape (n,), not {items.shape}: give texts[:, 0]")
    if len(items) == 0:
        raise ValueError("expected at least one text, got none")
    if analyze is not None:
        items = [analyze(item) for item in items]
    texts = [_read_text(item, i) for i, item in enumerate(items)]
    where = {} if like is None or like.kind is None else {like.kind: "the texts to compare with"}
    for i, (_, own) in enumerate(texts):
        for kind, other in where.items() if own else ():
            pair = {kind, own}
            if kind != own and not ("strings" in pair and pair <= _OF_STRINGS):
                has = "has" if other.startswith("text ") else "have"
                hint = ": analyzer='word' splits strings into words" if pair <= _OF_STRINGS else ""
                raise ValueError(f"text {i} has {own}, but {other} {has} {kind}{hint}")
        if own:
            where.setdefault(own, f"text {i}")
    kind = next((k for k in where if k != "strings"), next(iter(where), "numbers of tokens"))
    given = [values for values, _ in texts if isinstance(values, Tensor)]
    devices = {t.device for t in [*given, *([] if like is None else [like.values])]}
    if len(devices) > 1:
        raise ValueError(f"texts on several devices: {', '.join(map(str, devices))}")
    if kind.startswith("vectors"):
        if like is not None and like.kind is None:
            raise ValueError(
                "the texts to compare with are empty lists: give empty texts of shape (0, F)"
            )
        first: Any = next(
            (values for values, own in texts if own), None if like is None else like.values
        )
        parts = [first[:0] if own is None else values for values, own in texts]
    else:
        hashes = cache(token_hash)
        parts = [
            torch.as_tensor(
                list(map(hashes, map(str, values))) if kind in _OF_STRINGS else values,
                dtype=torch.long,
                device=next(iter(devices), None),
            )
            for values, _ in texts
        ]
    values, ptr = torch.cat(parts), pointers([len(part) for part in parts])
    if dtype is None:
        dtype = like.dtype if like is not None else values.dtype
        dtype = dtype if dtype.is_floating_point else torch.float64
    if values.dim() == 2:
        values = values.to(dtype)
        if not bool(values.isfinite().all()):
            i, token = place(int((~values.isfinite()).nonzero()[0, 0]), ptr.tolist())
            raise ValueError(f"text {i} has NaN or infinite features at token {token}")
    return Texts(
        values, ptr, dtype, None if kind == "numbers of tokens" and not len(values) else kind
    )


def checked_analyzer(analyzer: Any, tokenizer: Any) -> Callable[[Any], Any] | None:
    """The function that splits a text into tokens (:class:`StringKernel`); None for characters."""
    if not callable(analyzer):
        checked_choice(analyzer, "analyzer", ("char", "word"))
    if tokenizer is not None and (not callable(tokenizer) or analyzer != "word"):
        raise ValueError(
            f"tokenizer={tokenizer!r}: expected None, or a function and analyzer='word'"
        )
    if analyzer != "word":
        return analyzer if callable(analyzer) else None
    words = CountVectorizer(tokenizer=tokenizer).build_analyzer()
    return lambda text: words(text) if isinstance(text, str) else text


def _read_text(item: Any, i: int) -> tuple[Any, str | None]:
    """The values of a text and their kind, which is None for an empty list."""
    if isinstance(item, np.ndarray) and item.dtype.kind in "fiu":
        item = torch.as_tensor(item.copy())  # it may be reversed or read-only
    if isinstance(item, Tensor):
        if item.dim() == 2 and item.is_floating_point():
            return item, f"vectors of {item.size(1)} features"
        if item.dim() == 1 and not item.is_floating_point() and not item.is_complex():
            return item.long(), "numbers of tokens" if len(item) else None
        raise ValueError(
            f"text {i} is a tensor of shape {tuple(item.shape)} and {item.dtype}: expected "
            "vectors (L, F) of floating numbers, or numbers of tokens (L,)"
        )
    if isinstance(item, bytes) or not isinstance(item, (Sequence, np.ndarray)):
        raise TypeError(
            f"text {i} is a {type(item).__name__}: expected a tensor or a list of tokens"
        )
    if len(item) == 0:
        return [], None
    if isinstance(item, str):
        return item, "characters"
    if all(isinstance(token, Integral) and not isinstance(token, bool) for token in item):
        return list(map(int, item)), "numbers of tokens"
    if all(isinstance(token, str) for token in item):
        return item, "words" if any(len(token) != 1 for token in item) else "strings"
    kinds = ", ".join(sorted({type(token).__name__ for token in item}))
    raise ValueError(
        f"text {i} has tokens of type {kinds}: expected integers or strings (vectors as a tensor)"
    )
