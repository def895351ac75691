"""Which recordings, which subjects are left out, and the batches that Lightning reads."""

from collections.abc import Iterator, Sequence

import torch
from torch import Tensor

from benchmarks.corpora.recordings import PlantedRecordings, Recordings, read_recordings
from benchmarks.harness.errors import InputError, as_input_error
from benchmarks.harness.task import PARTS
from benchmarks.papers.lfp.options import Lfp

VALID_SHARE = 5  # one trial in so many is validated on, where two subjects are all there are


def load_recordings(options: Lfp) -> Recordings:
    """Reads recordings or makes them."""
    with as_input_error():
        if options.data is not None:
            return read_recordings(options.data, options.rate)
        sizes = {name: getattr(options, name) for name in ("trials", "rate", "amplitude")}
        return PlantedRecordings(num_subjects=options.subjects, seed=0, **sizes)


def leave_one_out(recordings: Recordings) -> list[tuple[str, str, dict[str, Tensor]]]:
    """Each subject, who is tested, validated and trained on in words, and the trials of each part:
    it is tested, the next one validated on, the others trained on.

    After the last subject comes the first. Of two subjects, every fifth trial of each class of the
    other one is validated on.
    """
    folds = []
    names = recordings.subjects
    for held, name in enumerate(names):
        test = recordings.subject == held
        if len(names) > 2:
            valid = recordings.subject == (held + 1) % len(names)
            validated = names[(held + 1) % len(names)]
        else:
            valid = torch.zeros_like(test)
            for k in range(len(recordings.classes)):
                members = (~test & (recordings.y == k)).nonzero().flatten()
                valid[members[VALID_SHARE - 1 :: VALID_SHARE]] = True
            validated = "a fifth of the other's trials"
        masks = {"train": ~(test | valid), "valid": valid, "test": test}
        parts = {part: masks[part].nonzero().flatten() for part in PARTS}
        split = f"{name} left out, {validated} validated on"
        trained = set(recordings.y[parts["train"]].tolist())
        for k, kind in enumerate(recordings.classes):
            if k not in trained:
                raise InputError(f"with {split}, no trial of class {kind!r} is left to train on")
        if not len(parts["valid"]):
            raise InputError(f"with {split}, there is none: 5 trials of a class are needed")
        folds.append((name, split, parts))
    return folds


class TrialLoader:
    """Goes through the trials at some places in batches, samples (B, T, C) and classes (B,).

    With a seed each epoch has an order of its own; without, trials come in theirs. A last batch of
    one trial cannot be batch-normalised: shuffled, that trial, another one each epoch, is left out.
    """

    def __init__(
        self, x: Tensor, y: Tensor, places: Tensor, batch_size: int, seed: int | None = None
    ) -> None:
        self.x, self.y, self.places, self.batch_size = x, y, places, batch_size
        self.seed, self.epoch = seed, 0

    def set_epoch(self, epoch: int) -> None:
        """Makes the next pass the one with this number."""
        self.epoch = epoch

    def __len__(self) -> int:
        return len(self._batches())

    def __iter__(self) -> Iterator[tuple[Tensor, Tensor]]:
        return ((self.x[some], self.y[some]) for some in self._batches())

    def _batches(self) -> Sequence[Tensor]:
        if self.seed is None:
            return self.places.split(self.batch_size)
        generator = torch.Generator().manual_seed(10_000 * self.seed + self.epoch)
        order = self.places[torch.randperm(len(self.places), generator=generator)]
        return order[: len(order) - (len(order) % self.batch_size == 1)].split(self.batch_size)
