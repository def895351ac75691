"""Batches of parallel streams of words for language models."""

from collections.abc import Iterator
from typing import NamedTuple

import torch
from torch import Tensor

IGNORED = -100  # a target that stands for none; cross-entropy leaves it out
HALVED = 0.05  # share of the batches whose mean number of steps is halved, where it is drawn
SPREAD = 5.0  # standard deviation of a drawn number of steps
FEWEST = 5


class LanguageBatch(NamedTuple):
    """The next T words of B streams."""

    ids: Tensor  # (T, B) int64, the words read
    targets: Tensor  # (T, B) int64, the word after each; -100 where a stream has ended


class LanguageLoader:
    """A stream of N words cut into B equally long ones that are read side by side.

    A batch goes on where the one before has ended, so that a state can be carried from batch to
    batch. Iterating anew starts from the beginning.

    Args:
        stream: (N,) int64, the numbers of the words.
        batch_size: B. At most as many streams as there are words to predict are made.
        steps: T; the last batch may have fewer.
        before: the word that the stream follows, from which its first word is predicted as well;
            None if that is given and not predicted.
        whole: whether every word is predicted exactly once, as an evaluation should; then streams
            that end early are filled up with targets of -100. Otherwise the last words, fewer than
            B, are left out.
        vary: whether T is drawn anew for each batch: normal with a standard deviation of 5 about
            ``steps``, or, once in 20, about half of that, and at least 5 (Merity et al. 2018). It
            differs from epoch to epoch; a learning rate should be scaled by T / ``steps``.
        seed: of these draws.
    """

    def __init__(
        self,
        stream: Tensor,
        batch_size: int,
        steps: int = 35,
        before: int | None = None,
        whole: bool = False,
        vary: bool = False,
        seed: int = 0,
    ) -> None:
        if before is not None:
            stream = torch.cat((stream.new_tensor([before]), stream))
        number = len(stream) - 1
        self.steps, self.vary, self.seed, self.epoch = steps, vary, seed, 0
        batch_size = min(batch_size, number)
        # (L, B) each: column b is the b-th segment of the stream.
        self._ids = _columns(stream[:-1], batch_size, whole, int(stream[0]))
        self._targets = _columns(stream[1:], batch_size, whole, IGNORED)

    def set_epoch(self, epoch: int) -> None:
        """Chooses the epoch, counted from 0, on which drawn numbers of steps depend."""
        self.epoch = epoch

    def __len__(self) -> int:
        return len(self._sizes())

    def __iter__(self) -> Iterator[LanguageBatch]:
        sizes = self._sizes()
        parts = zip(self._ids.split(sizes), self._targets.split(sizes), strict=True)
        return (LanguageBatch(ids, targets) for ids, targets in parts)

    def _sizes(self) -> list[int]:
        left, sizes = len(self._ids), []
        generator = torch.Generator().manual_seed((1_000_003 * self.seed + self.epoch) % 2**63)
        while left:
            steps = self._drawn(generator) if self.vary else self.steps
            sizes.append(min(steps, left))
            left -= sizes[-1]
        return sizes

    def _drawn(self, generator: torch.Generator) -> int:
        halved = float(torch.rand((), generator=generator)) < HALVED
        mean = self.steps / 2 if halved else float(self.steps)
        return max(FEWEST, int(mean + SPREAD * float(torch.randn((), generator=generator))))


def _columns(words: Tensor, batch_size: int, whole: bool, filling: int) -> Tensor:
    if whole:
        missing = -len(words) % batch_size
        words = torch.cat((words, words.new_full((missing,), filling)))
    length = len(words) // batch_size
    return words[: length * batch_size].view(batch_size, length).t().contiguous()
