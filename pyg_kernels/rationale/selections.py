"""Distributions over the selections of all tokens of a batch."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn import Linear, Module

from pyg_kernels.checks import checked_count
from pyg_kernels.ops.ragged import Layout
from pyg_kernels.rationale.choices import BernoulliChoice, Choice
from pyg_kernels.rationale.selection_cell import SelectionCell
from pyg_kernels.rationale.structures import checked_selection
from pyg_kernels.sequence.texts import read_texts


class Draw(NamedTuple):
    """Drawn selections, and the numbers of each token from which they were drawn.

    Attributes:
        z: The selections, :obj:`(S, N)`.
        logit: The logits, :obj:`(S, N)` or :obj:`(1, N)`.
        spread: The spreads, or None.
    """

    z: Tensor
    logit: Tensor
    spread: Tensor | None


class TokenNumber(Module):
    r"""One number per token, :math:`w^\top h_t + v^\top s_{t-1} + b`.

    Initially v = 0, so that the number depends on the token alone. If selections followed each
    other blindly, all tokens or none would be selected.

    Args:
        channels: The size of a token's state h.
        hidden_size: The size of the state s of earlier selections; None if there is no such state.
        start: The initial value of b.
    """

    def __init__(self, channels: int, hidden_size: int | None, start: float = 0.0) -> None:
        super().__init__()
        self.start = start
        self.of_token = Linear(channels, 1)
        self.of_selected = None if hidden_size is None else Linear(hidden_size, 1, bias=False)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        self.of_token.reset_parameters()
        torch.nn.init.constant_(self.of_token.bias, self.start)
        if self.of_selected is not None:
            torch.nn.init.zeros_(self.of_selected.weight)

    def forward(self, states: Tensor) -> Tensor:
        """The part that depends on the token alone, (N,), in single precision or better."""
        number = self.of_token(states).squeeze(1)
        return number.to(torch.promote_types(number.dtype, torch.float32))

    def after(self, selected: Tensor) -> Tensor:
        """The part that depends on earlier selections, (N,)."""
        assert self.of_selected is not None
        return self.of_selected(selected).squeeze(1)


class Selections(ABC):
    """The distribution of the selections of N tokens or atoms."""

    @abstractmethod
    def draw(self, choice: Choice, num_samples: int) -> Draw:
        """Draws S selections; differentiable if the choice is relaxed."""

    def sample(self, num_samples: int = 1) -> Tensor:
        """Selections of 0 and 1 drawn from the distribution, :obj:`(S, N)`, bool."""
        with torch.no_grad():
            drawn = self.draw(BernoulliChoice(), checked_count(num_samples, "num_samples"))
        return drawn.z > 0.5

    @abstractmethod
    def most_probable(self) -> Tensor:
        """Whether each token, given those before, has probability 1/2 or more, (N,), bool."""

    @abstractmethod
    def log_prob(self, selection: Tensor) -> Tensor:
        """The log-probability of each token's part in selections :obj:`(S, N)`, in that shape
        (:obj:`(N,)` is one selection).

        If selections are dependent, each is conditional on the tokens before it. The sum over a
        text is the log-probability of its selection.

        Raises:
            ValueError: For selections of another shape, or numbers other than 0 and 1.
        """


class IndependentSelections(Selections):
    """Selections that are independent of each other.

    Args:
        states: The tokens' states, :obj:`(N, channels)`.
        logit: The map to the logits.
        spread: The map to the spreads, or None.
    """

    def __init__(self, states: Tensor, logit: TokenNumber, spread: TokenNumber | None) -> None:
        self.logit = logit(states).unsqueeze(0)
        self.spread = None if spread is None else spread(states).unsqueeze(0)

    def draw(self, choice: Choice, num_samples: int) -> Draw:
        uniform = torch.rand_like(self.logit.expand(num_samples, -1))
        return Draw(choice.draw(self.logit, self.spread, uniform), self.logit, self.spread)

    def most_probable(self) -> Tensor:
        return self.logit.squeeze(0) >= 0

    def log_prob(self, selection: Tensor) -> Tensor:
        z = checked_selection(selection, self.logit.size(1))
        return BernoulliChoice().log_prob(self.logit, z.to(self.logit.dtype))


class DependentSelections(Selections):
    r"""Selections of which each depends on those before it in its text.

    .. math::
        \ell_t = w^\top h_t + v^\top s_{t-1} + b, \qquad s_t = f(s_{t-1}, [h_t, z_t])

    Args:
        states: The tokens' states h, :obj:`(N, channels)`.
        ptr: Where each text begins.
        cell: The step f.
        logit: The map to the logits.
        spread: The map to the spreads, or None.
    """

    def __init__(
        self,
        states: Tensor,
        ptr: Tensor,
        cell: SelectionCell,
        logit: TokenNumber,
        spread: TokenNumber | None,
    ) -> None:
        self.texts, self.cell = read_texts(states, ptr=ptr), cell
        self.maps = [logit] if spread is None else [logit, spread]
        self.of_tokens = [number(self.texts.rows) for number in self.maps]
        self.prepared = cell.prepared(self.texts.rows)

    def draw(self, choice: Choice, num_samples: int) -> Draw:
        uniform = torch.rand_like(self._repeated(self.of_tokens[0], num_samples)).unsqueeze(1)
        layout = self._layout(num_samples)

        def choose(step: int, numbers: list[Tensor]) -> Tensor:
            drawn = layout.rows_at(uniform, step).squeeze(1)
            return choice.draw(numbers[0], _second(numbers), drawn)

        z, *numbers = self._step_by_step(num_samples, choose)
        return Draw(z, numbers[0], _second(numbers))

    def most_probable(self) -> Tensor:
        def choose(step: int, numbers: list[Tensor]) -> Tensor:
            return (numbers[0] >= 0).to(numbers[0].dtype)

        return self._step_by_step(1, choose)[0].squeeze(0) > 0.5

    def log_prob(self, selection: Tensor) -> Tensor:
        z = checked_selection(selection, self.of_tokens[0].numel())
        num_samples, layout = z.size(0), self._layout(z.size(0))
        given = z.reshape(-1).to(self.of_tokens[0].dtype)
        rows = self._repeated(self.prepared, num_samples)
        start = self.cell.start(layout.num_texts, self.texts.rows)
        out, _ = self.cell.read_chosen(rows, given, layout, start)
        before = layout.before(out, start[0])
        logit = self._repeated(self.of_tokens[0], num_samples) + self.maps[0].after(before)
        return BernoulliChoice().log_prob(logit, given).view_as(z)

    def _step_by_step(
        self, num_samples: int, choose: Callable[[int, list[Tensor]], Tensor]
    ) -> list[Tensor]:
        """Selections and numbers, each (S, N): all texts and samples together, token by token."""
        layout = self._layout(num_samples)
        rows = self._repeated(self.prepared, num_samples)
        parts = [self._repeated(part, num_samples).unsqueeze(1) for part in self.of_tokens]
        state = self.cell.start(layout.num_texts, self.texts.rows)
        one = Layout.of_grid(1, layout.num_texts, rows.device)
        found: list[list[Tensor]] = [[] for _ in range(1 + len(parts))]
        for step in range(layout.num_steps):
            numbers = [
                layout.rows_at(part, step).squeeze(1) + number.after(state[0])
                for part, number in zip(parts, self.maps, strict=True)
            ]
            z = choose(step, numbers)
            # Texts that have ended still take steps, whose results are not collected.
            _, state = self.cell.read_chosen(layout.rows_at(rows, step), z, one, state)
            for kept, tensor in zip(found, (z, *numbers), strict=True):
                kept.append(tensor.unsqueeze(1))
        like = self.of_tokens[0]
        columns = [layout.collect(kept) if kept else like.new_zeros(0, 1) for kept in found]
        return [column.view(num_samples, like.numel()) for column in columns]

    def _layout(self, num_samples: int) -> Layout:
        """The layout of S copies of all texts, one copy for each sample."""
        given = self.texts.layout
        first = torch.arange(num_samples + 1, device=given.start.device) * given.num_rows
        ptr = torch.cat(((first[:-1].unsqueeze(1) + given.start).flatten(), first[-1:]))
        return Layout.of_ptr(ptr, given.num_steps, num_samples * given.num_rows)

    def _repeated(self, rows: Tensor, num_samples: int) -> Tensor:
        return rows if num_samples == 1 else rows.repeat(num_samples, *[1] * (rows.dim() - 1))


def _second(numbers: list[Tensor]) -> Tensor | None:
    return numbers[1] if len(numbers) == 2 else None
