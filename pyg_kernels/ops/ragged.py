"""Defines where the tokens of several texts lie among the rows of a matrix.

Token t of text b is row ``start[b] + t * stride``. Grids in either order, padded grids and texts
one after the other all have this form, forwards and backwards, so that no rows have to be moved.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

import torch
import torch.nn.functional as F
from torch import Tensor

Form = Literal["grid", "padded", "ragged"]


@dataclass(frozen=True)
class Layout:
    """The rows of the tokens of B texts, N rows in all.

    Args:
        start: The row of the token that is read first in each text, int64 of shape :obj:`(B,)`; for
            texts without tokens, any number.
        length: The number of tokens of each text, int64 of shape :obj:`(B,)`.
        num_rows: N.
        num_steps: The number of tokens T of the longest text.
        form: ``'grid'`` if every text has T tokens; ``'padded'`` for a grid in which some rows hold
            no token; ``'ragged'`` if the tokens of each text follow those of the text before.
        steps_first: Whether the rows of a grid are ordered step by step; else text by text.
        backwards: Whether texts are read from their last token.
    """

    start: Tensor
    length: Tensor
    num_rows: int
    num_steps: int
    form: Form = "grid"
    steps_first: bool = True
    backwards: bool = False

    @classmethod
    def of_grid(
        cls, num_steps: int, num_texts: int, device: torch.device, steps_first: bool = True
    ) -> Layout:
        """A grid of :obj:`(num_steps, num_texts)` rows, or :obj:`(num_texts, num_steps)`."""
        start = torch.arange(num_texts, device=device)
        if not steps_first:
            start = start * num_steps
        length = torch.full_like(start, num_steps)
        return cls(start, length, num_steps * num_texts, num_steps, "grid", steps_first)

    @classmethod
    def of_padded_grid(cls, length: Tensor, num_steps: int, steps_first: bool = True) -> Layout:
        """A grid with padding after the tokens of each text."""
        grid = cls.of_grid(num_steps, length.size(0), length.device, steps_first)
        return replace(grid, length=length, form="padded")

    @classmethod
    def of_ptr(cls, ptr: Tensor, num_steps: int, num_rows: int) -> Layout:
        """Texts one after the other: text b has the rows ``ptr[b]:ptr[b + 1]``.

        Args:
            ptr: int64 of shape :obj:`(B + 1,)`.
            num_steps: The length of the longest text.
            num_rows: The last number of `ptr`.
        """
        return cls(ptr[:-1], ptr.diff(), num_rows, num_steps, "ragged", steps_first=False)

    @property
    def num_texts(self) -> int:
        return self.start.size(0)

    @property
    def full(self) -> bool:
        """Whether every text has a token at every step."""
        return self.form == "grid"

    @property
    def stride(self) -> int:
        """The number of rows from one token of a text to the next."""
        step = self.num_texts if self.steps_first else 1
        return -step if self.backwards else step

    @property
    def settings(self) -> tuple[int, str, bool, bool]:
        """What an op takes besides the tensors `start` and `length`."""
        return self.num_steps, self.form, self.steps_first, self.backwards

    def reversed(self) -> Layout:
        """The same texts read in the other direction."""
        last = self.start + (self.length - 1) * self.stride
        return replace(self, start=last, backwards=not self.backwards)

    def check(self) -> None:
        """Checks that every token has a row, and that every row of a ragged batch has a token.

        Raises:
            ValueError: If not: kernels would read and write beyond the rows.
        """
        if self.full:
            return
        last = self.start + (self.length - 1) * self.stride
        outside = (torch.minimum(self.start, last) < 0) | (
            torch.maximum(self.start, last) >= self.num_rows
        )
        missing = self.form == "ragged" and int(self.length.sum()) != self.num_rows
        if missing or bool(((self.length > 0) & outside).any()) or bool((self.length < 0).any()):
            raise ValueError(
                f"ptr or lengths do not fit {self.num_rows} rows: texts have "
                f"{self.length.tolist()} tokens"
            )

    def order(self) -> Tensor:
        """The texts from the longest to the shortest, :obj:`(B,)`."""
        if self.full:
            return torch.arange(self.num_texts, device=self.start.device)
        return torch.argsort(self.length, descending=True, stable=True)

    def active(self) -> list[int]:
        """The number of texts that have a token at each step."""
        if self.full:
            return [self.num_texts] * self.num_steps
        step = torch.arange(self.num_steps, device=self.length.device)
        found: list[int] = (self.length > step.unsqueeze(1)).sum(1).tolist()
        return found

    def rows_at(self, rows: Tensor, step: int | Tensor) -> Tensor:
        """The row of one token of each text, :obj:`(B, F)`; past a text's end, its last token's."""
        if self.full:
            place = self.num_steps - 1 - step if self.backwards else step
            grid = self._grid(rows)
            if isinstance(place, Tensor):
                return grid.index_select(0, place.view(1))[0]
            return grid[place]
        found = self.start + self.length.sub(1).clamp(max=step) * self.stride
        return rows.index_select(0, torch.where(self.length > 0, found, 0))

    def steps(self, rows: Tensor) -> Sequence[Tensor]:
        """Views of the rows of each step of a full grid, :obj:`(B, F)`."""
        found = self._grid(rows).unbind()
        return found[::-1] if self.backwards else found

    def has_token(self, step: int | Tensor) -> Tensor:
        """Whether each text has a token at a step, :obj:`(B, 1)`."""
        return (self.length > step).unsqueeze(1)

    def collect(self, steps: Sequence[Tensor] | Tensor) -> Tensor:
        """All rows, :obj:`(N, F)`, from the rows of the texts at each step; zero for padding."""
        grid = steps if isinstance(steps, Tensor) else torch.stack(list(steps))
        if self.full:
            grid = grid.flip(0) if self.backwards else grid
            return (grid if self.steps_first else grid.transpose(0, 1)).flatten(0, 1)
        if not self.num_steps:
            return grid.new_zeros(self.num_rows, grid.size(2))
        text, step = self.places()
        index = step.clamp(0, self.num_steps - 1) * self.num_texts + text
        return torch.where(self.is_token(), grid.flatten(0, 1).index_select(0, index), 0)

    def before(self, rows: Tensor, initial: Tensor) -> Tensor:
        """The row of the token before each token, :obj:`(N, F)`; before the first, `initial`.

        Args:
            rows: One row per token, :obj:`(N, F)`.
            initial: One row per text, :obj:`(B, F)`.
        """
        if self.full and self.num_steps:
            dim = 0 if self.steps_first else 1
            grid, first = self._own_grid(rows), initial.to(rows.dtype).unsqueeze(dim)
            if self.backwards:
                parts = (grid.narrow(dim, 1, self.num_steps - 1), first)
            else:
                parts = (first, grid.narrow(dim, 0, self.num_steps - 1))
            return torch.cat(parts, dim).flatten(0, 1)
        text, step = self.places()
        row = torch.arange(self.num_rows, device=text.device)
        index = torch.where(step > 0, row - self.stride, self.num_rows + text)
        return torch.cat((rows, initial.to(rows.dtype))).index_select(0, index)

    def last(self, rows: Tensor, initial: Tensor) -> Tensor:
        """The row of the last token of each text, :obj:`(B, F)`; `initial` where there is none."""
        if self.full and self.num_steps:
            return self.rows_at(rows, self.num_steps - 1)
        found = self.start + (self.length - 1) * self.stride
        text = torch.arange(self.num_texts, device=found.device)
        index = torch.where(self.length > 0, found, self.num_rows + text)
        return torch.cat((rows, initial.to(rows.dtype))).index_select(0, index)

    def spread(self, per_text: Tensor) -> Tensor:
        """Gives each token the row of its text, :obj:`(N, F)`, from one row per text."""
        if not self.full:
            return per_text.index_select(0, self.places()[0])
        if self.steps_first:
            return per_text.expand(self.num_steps, -1, -1).flatten(0, 1)
        return per_text.unsqueeze(1).expand(-1, self.num_steps, -1).flatten(0, 1)

    def windows(self, rows: Tensor, history: Tensor, width: int, dilation: int) -> Tensor:
        r"""The tokens :math:`t - (n-1) d, \ldots, t - d, t` of each token t, :obj:`(N, n * F)`.

        Args:
            rows: One row per token, :obj:`(N, F)`.
            history: The H tokens before the first token of each text, the oldest first,
                :obj:`(H, B, F)`; H is at least :math:`(n - 1) d`.
            width: The number of tokens n.
            dilation: The spacing d.
        """
        if width == 1:
            return rows
        back = [(width - 1 - i) * dilation for i in range(width)]
        if self.full:
            grid, dim, count = self._extended(rows, history), 1 - self.steps_first, self.num_steps
            starts = back if self.backwards else [len(history) - b for b in back]
            parts = [grid.narrow(dim, start, count) for start in starts]
            return torch.stack(parts, 2).flatten(0, 1).flatten(1)
        text, step = self.places()
        past = torch.tensor(back, device=step.device)
        row = torch.arange(self.num_rows, device=step.device).unsqueeze(1) - past * self.stride
        before = step.unsqueeze(1) - past
        place = (len(history) + before).clamp(min=0) * self.num_texts + text.unsqueeze(1)
        index = torch.where(before < 0, self.num_rows + place, row).flatten()
        found = torch.cat((rows, history.flatten(0, 1))).index_select(0, index)
        return found.view(self.num_rows, width * rows.size(1))

    def convolve(self, rows: Tensor, history: Tensor, weight: Tensor, dilation: int) -> Tensor:
        """The products, :obj:`(N, D)`, of a grid's windows with filters :obj:`(D, F, n)`."""
        unread = len(history) - (weight.size(2) - 1) * dilation
        grid = self._extended(rows, history[unread:])
        if self.backwards:
            weight = weight.flip(2)
        if self.steps_first:
            found = F.conv1d(grid.permute(1, 2, 0), weight, dilation=dilation).permute(2, 0, 1)
        else:
            found = F.conv1d(grid.transpose(1, 2), weight, dilation=dilation).transpose(1, 2)
        return found.flatten(0, 1)

    def tail(self, rows: Tensor, history: Tensor) -> Tensor:
        """The last H tokens of each text, :obj:`(H, B, F)`; shorter texts reach into `history`."""
        size = len(history)
        if self.full:
            dim, start = 1 - self.steps_first, 0 if self.backwards else self.num_steps
            found = self._extended(rows, history).narrow(dim, start, size)
            found = found if self.steps_first else found.transpose(0, 1)
            return found.flip(0) if self.backwards else found
        step = self.length + torch.arange(-size, 0, device=self.length.device).unsqueeze(1)
        text = torch.arange(self.num_texts, device=step.device)
        place = self.num_rows + (step + size).clamp(max=size - 1) * self.num_texts + text
        index = torch.where(step < 0, place, self.start + step * self.stride)
        found = torch.cat((rows, history.flatten(0, 1))).index_select(0, index.flatten())
        return found.view_as(history)

    def _own_grid(self, rows: Tensor) -> Tensor:
        """The rows as a grid, in the order of `steps_first`."""
        shape = (
            (self.num_steps, self.num_texts)
            if self.steps_first
            else (self.num_texts, self.num_steps)
        )
        return rows.flatten().view(*shape, rows.size(1))  # so export keeps both sizes dynamic

    def _grid(self, rows: Tensor) -> Tensor:
        """The rows as :obj:`(T, B, F)`."""
        grid = self._own_grid(rows)
        return grid if self.steps_first else grid.transpose(0, 1)

    def _extended(self, rows: Tensor, history: Tensor) -> Tensor:
        """The grid of `_own_grid`, joined with the tokens that came before the texts."""
        history = history.flip(0) if self.backwards else history
        history = history if self.steps_first else history.transpose(0, 1)
        parts = (self._own_grid(rows), history)
        return torch.cat(parts if self.backwards else parts[::-1], 1 - self.steps_first)

    def is_token(self) -> Tensor:
        """Whether each row holds a token, not padding, :obj:`(N, 1)`."""
        text, step = self.places()
        return ((step >= 0) & (step < self.length.index_select(0, text))).unsqueeze(1)

    def places(self) -> tuple[Tensor, Tensor]:
        """Text and step of each row, :obj:`(N,)`; the step of padding lies outside its text."""
        row = torch.arange(self.num_rows, device=self.start.device)
        text = torch.arange(self.num_texts, device=row.device)
        if self.form == "ragged":
            text = text.repeat_interleave(self.length, output_size=self.num_rows)
        elif self.steps_first:
            text = text.expand(self.num_steps, -1).flatten()
        else:
            text = text.unsqueeze(1).expand(-1, self.num_steps).flatten()
        apart = row - self.start.index_select(0, text)
        return text, torch.div(apart, self.stride, rounding_mode="floor")
