"""The order in which the scans hold the tokens of several texts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate

import torch
from torch import Tensor


@dataclass(frozen=True)
class Packing:
    """Tokens of several texts, time step by time step, the longest text first.

    This is the order of :class:`torch.nn.utils.rnn.PackedSequence`: no padding, and token t of
    text b is row ``offsets[t] + b``.

    Args:
        batch_sizes: How many texts have a token t, for t = 0, 1, ...: positive, never growing.
        num_texts: The number of texts; those beyond ``batch_sizes[0]`` are empty.
    """

    batch_sizes: tuple[int, ...]
    num_texts: int

    @classmethod
    def of_equal_lengths(cls, num_steps: int, num_texts: int) -> Packing:
        """The packing of a :obj:`(num_steps, num_texts)` grid without padding."""
        return cls((num_texts,) * num_steps if num_texts else (), num_texts)

    @classmethod
    def of_lengths(cls, lengths: Sequence[int]) -> Packing:
        """The packing of texts of these lengths, which must not grow."""
        sizes = []
        count = len(lengths)
        for t in range(lengths[0] if lengths else 0):
            while lengths[count - 1] <= t:
                count -= 1
            sizes.append(count)
        return cls(tuple(sizes), len(lengths))

    @cached_property
    def offsets(self) -> tuple[int, ...]:
        """The row of the first text's token t; last, the number of tokens."""
        return tuple(accumulate(self.batch_sizes, initial=0))

    @property
    def num_tokens(self) -> int:
        return self.offsets[-1]

    @property
    def num_steps(self) -> int:
        return len(self.batch_sizes)

    @cached_property
    def uniform(self) -> bool:
        """Whether every text has a token at every step, so that rows form a grid."""
        return all(size == self.num_texts for size in self.batch_sizes)

    @cached_property
    def lengths(self) -> tuple[int, ...]:
        """The number of tokens of each text."""
        lengths = [0] * self.num_texts
        steps = self.num_steps
        for t, size in enumerate(self.batch_sizes, start=1):
            until = self.batch_sizes[t] if t < steps else 0
            lengths[until:size] = [t] * (size - until)
        return tuple(lengths)

    def split(self, rows: Tensor) -> tuple[Tensor, ...]:
        """One view a time step."""
        return rows.split(self.batch_sizes) if self.batch_sizes else ()

    @cached_property
    def _device_rows(self) -> dict[torch.device, _Rows]:
        return {}

    def rows(self, device: torch.device) -> _Rows:
        """Index tensors into the rows, made once a device."""
        found = self._device_rows.get(device)
        if found is None:
            found = self._device_rows[device] = _Rows(self, device)
        return found


class _Rows:
    """Rows of a packing that other orders of its tokens need."""

    def __init__(self, packing: Packing, device: torch.device) -> None:
        lengths = torch.tensor(packing.lengths, dtype=torch.long)
        offsets = torch.tensor(packing.offsets, dtype=torch.long)
        sizes = torch.tensor(packing.batch_sizes, dtype=torch.long)
        text = torch.arange(packing.num_texts)
        ptr = torch.zeros(packing.num_texts + 1, dtype=torch.long)
        torch.cumsum(lengths, 0, out=ptr[1:])
        step = torch.arange(packing.num_tokens) - ptr[:-1].repeat_interleave(lengths)
        texts = text.repeat_interleave(lengths)
        by_text = offsets[step] + texts
        filled = text[lengths > 0]
        #: Where the texts begin in the order text by text, and where they end: (num_texts + 1,).
        self.ptr = ptr.to(device)
        #: The row of each token, text by text; and, of each row, its place in that order.
        self.by_text = by_text.to(device)
        self.place = torch.argsort(by_text).to(device)
        #: The row of the token with which each token of a row changes place in reversed texts.
        reversed_rows = torch.empty_like(by_text)
        reversed_rows[by_text] = offsets[lengths.repeat_interleave(lengths) - 1 - step] + texts
        self.reversed = reversed_rows.to(device)
        #: The row before each row from time step 2 on.
        later = torch.arange(packing.num_tokens)[sizes[:1].sum() :]
        self.before = (later - sizes[:-1].repeat_interleave(sizes[1:])).to(device)
        #: The last row of each text that is not empty.
        self.last = (offsets[lengths[filled] - 1] + filled).to(device)
