"""What is asked for; nothing here imports torch."""

from dataclasses import dataclass
from typing import Literal, get_args

from benchmarks.harness.errors import InputError
from benchmarks.harness.options import LARGEST_WIDTH, Training, setting

CellName = Literal[
    "lstm", "rkm-lstm", "rkm-cifg", "linear-gated", "linear", "gated-cnn", "cnn", "ran"
]
CELLS: tuple[CellName, ...] = get_args(CellName)
QUICK_FOLDS = 2


@dataclass(frozen=True, kw_only=True)
class Network(Training):
    """The networks.

    Args:
        models: cells
        filters: wavelets of a learned frequency with an amplitude and a phase a channel, or a
            weight a channel and sample
        ngram: samples that a filter reads
        hidden: filters
        pooling: of a filter's output over time, logarithm of the mean square, or maximum of the
            positive part
        layer_norm: normalise the memory over filters where the output reads it
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
        data: your own, an .npz with x, y and subject; otherwise they are made
        rate: samples a second of --data
        subjects: made subjects
        trials: made trials of each state and subject
        amplitude: of the planted oscillations, relative to the noise
        folds: leave out the first N subjects in turn, 0 for all (2; all with --data)
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
