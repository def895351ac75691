"""The options of the command; nothing here imports torch."""

from dataclasses import dataclass
from typing import Literal

from benchmarks.harness.errors import InputError
from benchmarks.harness.options import LARGEST_WIDTH, Training, setting
from benchmarks.harness.text.options import CellName

QUICK_FOLDS = 2


@dataclass(frozen=True, kw_only=True)
class Network(Training):
    """The networks.

    Args:
        models: cells of the networks to compare
        filters: kind of filters: wavelets with a learned frequency, and an amplitude and a phase
            per channel (syncnet), or a weight per channel and sample (dense)
        ngram: number of samples that a filter reads
        hidden: number of filters
        pooling: how a filter's output is pooled over time: logarithm of the mean square (power), or
            maximum of the positive part (max)
        layer_norm: normalise the memory over the filters where the output reads it
    """

    models: tuple[CellName, ...] = setting(("rkm-lstm", "gated-cnn", "cnn"), "model", free=True)
    filters: Literal["syncnet", "dense"] = setting("syncnet")
    ngram: int = setting(40, least=1, most=LARGEST_WIDTH)
    hidden: int = setting(30, least=1, most=LARGEST_WIDTH)
    pooling: Literal["power", "max"] = setting("power")
    layer_norm: bool = setting(True)
    epochs: int = setting(10, least=1)
    batch_size: int = setting(32, least=2)
    lr: float = setting(0.02, above=0)


@dataclass(frozen=True, kw_only=True)
class Lfp(Network):
    """Recordings.

    Args:
        data: your own recordings, an .npz with x, y and subject; without it, they are made
        rate: samples per second of --data
        subjects: number of subjects in made recordings
        trials: number of made trials for each state and subject
        amplitude: amplitude of the oscillations in made recordings, relative to the noise
        folds: leave out each of the first N subjects in turn; 0: every subject (2; all with --data)
    """

    data: str | None = setting(None, free=True)
    rate: float = setting(1000.0, above=0)
    subjects: int = setting(6, least=2, most=1000)
    trials: int = setting(40, least=1, most=100_000)
    amplitude: float = setting(0.08, least=0)
    folds: int | None = setting(None, least=0, free=True)

    def check(self) -> None:
        super().check()
        if self.data is None and self.rate != 1000:
            raise InputError("--rate goes with --data; made recordings have 1000 Hz")
        for name in ("subjects", "trials", "amplitude"):
            if self.data is not None and getattr(self, name) != getattr(Lfp, name):
                raise InputError(f"--{name} goes with made recordings, not --data")

    def number_of_folds(self, subjects: int) -> int:
        if self.folds is None:
            return subjects if self.data is not None else min(QUICK_FOLDS, subjects)
        if self.folds > subjects:
            raise InputError(f"--folds {self.folds}: there are {subjects} subjects")
        return self.folds or subjects
