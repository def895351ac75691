"""Collections of texts: sequences of vectors, or of tokens that match exactly."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from numbers import Integral
from typing import Any

import numpy as np
import torch
from torch import Tensor

from pyg_kernels.kernels.arguments import checked_collection
from pyg_kernels.kernels.hashing import token_hash
from pyg_kernels.segments import segments


@dataclass
class Texts:
    """Texts one after the other.

    Args:
        values: Vectors of all tokens, (T, F), or their numbers, int64 of shape (T,).
        ptr: Where each text begins, and the end, (n + 1,), on the CPU.
        dtype: In which kernels of them are computed.
        kind: What the values are: ``'vectors'``, ``'numbers of tokens'`` or ``'strings as tokens'``
            (as hashes); None: nothing, texts without tokens.
    """

    values: Tensor
    ptr: Tensor
    dtype: torch.dtype
    kind: str | None
    order: Tensor = field(init=False)

    def __post_init__(self) -> None:
        # Texts of similar length share a block, which keeps padding small.
        self.order = self.sizes.argsort(stable=True)

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
        lengths = self.sizes
        longest, number = int(lengths.max()), len(self)
        owner = torch.arange(number).repeat_interleave(lengths, output_size=len(self.values))
        row = torch.arange(len(self.values)) - self.ptr.index_select(0, owner)
        place = (row * number + owner).to(self.device)
        shape = (longest * number, *self.values.shape[1:])
        padded = self.values.new_zeros(shape).index_copy(0, place, self.values)
        return PaddedTexts(
            padded.view(longest, number, *self.values.shape[1:]),
            lengths.to(self.device),
            self.dtype,
        )

    def runs(self, limit: int) -> Iterator[Tensor]:
        lengths = self.sizes.index_select(0, self.order).clamp(min=1).tolist()
        start = 0
        for stop in range(1, len(lengths) + 1):
            if stop == len(lengths) or lengths[stop] * (stop + 1 - start) > limit:
                yield self.order[start:stop]
                start = stop


@dataclass
class PaddedTexts:
    """Texts side by side from their first tokens on.

    Args:
        values: Vectors, (S, n, F), zeros behind each text; or numbers of tokens, (S, n).
        lengths: Of the texts, (n,).
        dtype: In which kernels of them are computed.
    """

    values: Tensor
    lengths: Tensor
    dtype: torch.dtype

    def pairs(self, other: PaddedTexts) -> Tensor:
        """The base kernel of all tokens of all pairs of texts, (S, T, n, m).

        Padding may match padding: no sum over prefixes reads what lies behind them.
        """
        if self.values.dim() == 2:
            left, right = self.values[:, None, :, None], other.values[None, :, None, :]
            return (left == right).to(self.dtype)
        s, n, features = self.values.shape
        t, m = other.values.shape[:2]
        rows, columns = self.values.reshape(s * n, features), other.values.reshape(t * m, features)
        products = rows @ columns.t()
        return products.view(s, n, t, m).transpose(1, 2).contiguous()

    def self_pairs(self) -> Tensor:
        """The base kernel of all pairs of tokens within each text, (S, S, n), 0 at padding.

        Its sums are the diagonals that activations are given of every prefix.
        """
        if self.values.dim() == 2:
            present = self.present()
            both = present[:, None] & present
            return ((self.values[:, None] == self.values[None]) & both).to(self.dtype)
        by_text = self.values.transpose(0, 1)
        return (by_text @ by_text.transpose(1, 2)).permute(1, 2, 0).contiguous()

    def present(self) -> Tensor:
        """Whether there is a token, (S, n)."""
        steps = torch.arange(len(self.values), device=self.lengths.device)
        return steps[:, None] < self.lengths

    def norms(self) -> Tensor:
        """The base kernel of each token with itself, (S, n)."""
        if self.values.dim() == 2:
            return torch.ones_like(self.values, dtype=self.dtype)
        return self.values.square().sum(dim=-1)


def read_texts(items: Any, dtype: torch.dtype | None, like: Texts | None = None) -> Texts:
    """Reads a collection of texts.

    Args:
        items: A list or an array of objects, or a Series, of texts, each a (L, F) tensor or array
            of floating numbers, or a sequence of tokens: a list or a 1-dimensional integer tensor
            or array of numbers, a string, a list of strings.
        dtype: As of :class:`~pyg_kernels.kernels.blocks.BlockKernel`.
        like: A collection with which this one will be compared.

    Raises:
        TypeError: If they are no texts.
        ValueError: If there are none, they do not go together, or a number is not finite.
    """
    items = checked_collection(items, "texts")
    if isinstance(items, (Tensor, np.ndarray)) and items.ndim < 2 and not _is_column(items):
        raise TypeError(
            f"expected a collection of texts, not one text of shape {tuple(items.shape)}"
        )
    if len(items) == 0:
        raise ValueError("expected at least one text, got none")
    texts = [_Text.read(item, i) for i, item in enumerate(items)]
    kinds = {text.kind: i for i, text in reversed(list(enumerate(texts))) if text.kind is not None}
    before = None if like is None else like.kind
    if before is not None:
        for kind, i in kinds.items():
            if kind != before:
                raise ValueError(
                    f"text {i} has {kind}, but the texts to compare with have {before}"
                )
    elif len(kinds) > 1:
        (first, i), (second, j) = sorted(kinds.items(), key=lambda found: found[1])[:2]
        raise ValueError(f"text {j} has {second}, but text {i} has {first}")
    kind = before or next(iter(kinds), "numbers of tokens")
    if kind == "vectors" and before is None and like is not None:
        raise ValueError(
            "the texts to compare with are empty lists: give empty texts of shape (0, F)"
        )
    if kind == "vectors":
        return _read_vectors(texts, dtype, like)
    return _read_tokens(texts, kind, dtype, like)


def _is_column(items: Any) -> bool:
    """Whether an array has an object or a string, a text, in each place."""
    return isinstance(items, np.ndarray) and items.ndim == 1 and items.dtype.kind in "OUT"


@dataclass
class _Text:
    """One text: its values, and what they are (None for an empty list)."""

    values: Any
    kind: str | None

    @classmethod
    def read(cls, item: Any, i: int) -> _Text:
        if isinstance(item, np.ndarray) and item.dtype.kind in "fiu":
            item = torch.as_tensor(item if item.flags.writeable else item.copy())
        if isinstance(item, Tensor):
            if item.dim() == 2 and item.is_floating_point():
                return cls(item, "vectors")
            if item.dim() == 1 and not item.is_floating_point() and not item.is_complex():
                return cls(item.long(), "numbers of tokens" if len(item) else None)
            raise ValueError(
                f"text {i} is a tensor of shape {tuple(item.shape)} and {item.dtype}: expected "
                "vectors (L, F) of floating numbers, or numbers of tokens (L,)"
            )
        if isinstance(item, str) or (
            isinstance(item, (Sequence, np.ndarray)) and not isinstance(item, bytes)
        ):
            return cls(item, _kind_of_tokens(item, i))
        raise TypeError(
            f"text {i} is a {type(item).__name__}: expected a tensor or a list of tokens"
        )


def _kind_of_tokens(item: Any, i: int) -> str | None:
    if len(item) == 0:
        return None
    if all(isinstance(token, Integral) and not isinstance(token, bool) for token in item):
        return "numbers of tokens"
    if all(isinstance(token, str) for token in item):
        return "strings as tokens"
    kinds = ", ".join(sorted({type(token).__name__ for token in item}))
    raise ValueError(
        f"text {i} has tokens of type {kinds}: expected integers or strings (vectors as a tensor)"
    )


def _read_vectors(texts: list[_Text], dtype: torch.dtype | None, like: Texts | None) -> Texts:
    if like is None:
        first = next(i for i, text in enumerate(texts) if text.kind)
        size, device = texts[first].values.size(1), texts[first].values.device
        before = f"text {first} has {size}"
    else:
        size, device = like.values.size(1), like.device
        before = f"the texts to compare with have {size}"
    for i, text in enumerate(texts):
        if text.kind is None:
            text.values = torch.zeros(0, size, device=device)
        elif text.values.size(1) != size:
            raise ValueError(
                f"text {i} has vectors of {text.values.size(1)} features, but {before}"
            )
        elif text.values.device != device:
            raise ValueError(f"text {i} is on {text.values.device}, expected {device}")
    values = torch.cat([text.values for text in texts])
    if dtype is None:
        kinds = [text.values.dtype for text in texts if text.kind]
        dtype = kinds[0] if like is None else like.dtype
        for kind in kinds[1:] if like is None else []:
            dtype = torch.promote_types(dtype, kind)
    ptr = _pointers([len(text.values) for text in texts])
    values = values.to(dtype)
    if not bool(values.isfinite().all()):
        token = int((~values.isfinite()).any(dim=1).nonzero()[0])
        i = int(torch.searchsorted(ptr, token, right=True)) - 1
        raise ValueError(f"text {i} has NaN or infinite features at token {token - int(ptr[i])}")
    return Texts(values, ptr, dtype, "vectors")


def _read_tokens(
    texts: list[_Text], kind: str, dtype: torch.dtype | None, like: Texts | None
) -> Texts:
    dtype = (torch.float64 if like is None else like.dtype) if dtype is None else dtype
    ptr = _pointers([len(text.values) for text in texts])
    if kind == "strings as tokens":
        tokens = [str(token) for text in texts for token in text.values]
        hashes = {token: token_hash(token) for token in set(tokens)}
        numbers = torch.tensor([hashes[token] for token in tokens], dtype=torch.long)
        return Texts(numbers, ptr, dtype, kind)
    devices = {text.values.device for text in texts if isinstance(text.values, Tensor)}
    if len(devices) > 1:
        raise ValueError(f"the texts are on several devices: {', '.join(map(str, devices))}")
    device = next(iter(devices), torch.device("cpu") if like is None else like.device)
    if like is not None and device != like.device:
        raise ValueError(f"the texts are on {device}, those to compare with on {like.device}")
    values = [
        text.values
        if isinstance(text.values, Tensor)
        else torch.tensor(list(map(int, text.values)), dtype=torch.long, device=device)
        for text in texts
    ]
    joined = torch.cat(values)
    return Texts(joined, ptr, dtype, kind if len(joined) else None)


def _pointers(lengths: list[int]) -> Tensor:
    return torch.tensor([0, *lengths]).cumsum(0)
