"""Classification of recordings as a task of the harness: one subject left out."""

from collections.abc import Iterable, Mapping
from dataclasses import asdict
from typing import Any

import pandas
from torch import Tensor

from benchmarks.corpora.recordings import PlantedRecordings, Recordings
from benchmarks.harness.errors import as_input_error
from benchmarks.harness.learner import OptimizerConfig
from benchmarks.harness.lfp.classifier import RecordingClassifier
from benchmarks.harness.lfp.data import Fold, RecordingBatches, RecordingChoice
from benchmarks.harness.lfp.filters import found
from benchmarks.harness.lfp.models import CELLS, RecordingModelConfig, count_parameters
from benchmarks.harness.sizes import check_parameters
from benchmarks.harness.task import PARTS, Measure, Task


class RecordingTask(Task):
    """Classification of recordings, measured by the accuracy in percent.

    Args:
        choice: Where the recordings come from.
        recordings: All of them.
        x: Their standardised samples, (M, T, C).
        fold: Who is left out.
    """

    items = "recordings"
    measure = Measure("accuracy", "accuracy", ".2f")
    packages = ("torch", "torch-geometric", "lightning", "numpy")
    files = ("table.md", "accuracy_by_subject.png", "wavelets.png", "spectra.png")
    free_settings = ("data",)

    def __init__(
        self, choice: RecordingChoice, recordings: Recordings, x: Tensor, fold: Fold
    ) -> None:
        self.choice, self.recordings, self.x, self.fold = choice, recordings, x, fold
        self.dataset = "planted" if choice.data is None else "npz"
        self.split, self.parts = fold.split, fold.parts

    def identity(self) -> dict[str, Any]:
        """The number of trials and a fingerprint of samples, classes and subjects."""
        return {"number": len(self.recordings), "digest": self.recordings.digest()}

    def has_model(self, name: str) -> bool:
        """Whether it is a cell."""
        return name in CELLS

    def run_name(self, model: str, seed: int) -> str:
        """The cell, who is left out, and the seed."""
        return f"{model} without {self.fold.subject} (seed {seed})"

    def learner(
        self, model: RecordingModelConfig, optimizer: OptimizerConfig
    ) -> RecordingClassifier:
        """An untrained classifier."""
        classes, rate = list(self.recordings.classes), self.recordings.rate
        return RecordingClassifier(asdict(model), classes, rate, asdict(optimizer))

    def batches(self, learner: RecordingClassifier, batch_size: int, seed: int) -> RecordingBatches:
        """Standardised trials."""
        return RecordingBatches(self.x, self.recordings.y, self.parts, batch_size, seed)

    def scores(self, predictions: Mapping[str, Tensor]) -> dict[str, float]:
        """The accuracy of each part in percent."""
        y = self.recordings.y
        return {
            part: 100 * (predictions[part] == y[self.parts[part]]).double().mean().item()
            for part in PARTS
        }

    def details(self, model: RecordingModelConfig, learner: RecordingClassifier) -> dict[str, Any]:
        """Who was left out, and what the filters have become.

        ``center_hz`` are the centre frequencies of the fewest filters with half of the influence,
        the largest first; ``planted``, for made recordings, is
        :func:`~benchmarks.harness.lfp.filters.found`.
        """
        bank = learner.filters()
        frequencies = bank.frequency[bank.influential()].tolist()
        details: dict[str, Any] = {
            "subject": self.fold.subject,
            "filters": model.filters,
            "ngram": model.ngram,
            "hidden_size": model.hidden,
            "pooling": model.pooling,
            "layer_norm": model.layer_norm,
            "center_hz": [round(frequency, 2) for frequency in frequencies],
        }
        if isinstance(self.recordings, PlantedRecordings):
            states = self.recordings.states
            details["planted"] = found(bank, learner.filters_at_start, states)
        return details

    def prediction_table(
        self, record: Mapping[str, Any], predictions: Mapping[str, Tensor]
    ) -> pandas.DataFrame:
        """A row for each trial, with its place, its subject, its class and the predicted one."""
        data = self.recordings
        frames = []
        for part in PARTS:
            places = self.parts[part].tolist()
            frame = {
                "model": record["model"],
                "seed": record["seed"],
                "part": part,
                "left_out": self.fold.subject,
                "row": places,
                "subject": [data.subjects[data.subject[i]] for i in places],
                "label": [data.classes[data.y[i]] for i in places],
                "predicted": [data.classes[k] for k in predictions[part].tolist()],
            }
            frames.append(pandas.DataFrame(frame))
        return pandas.concat(frames, ignore_index=True)


def recording_tasks(
    choice: RecordingChoice, recordings: Recordings, folds: Iterable[Fold]
) -> dict[str, RecordingTask]:
    """A task for each subject left out; their names begin those of the runs' folders."""
    x = recordings.standardized().transpose(1, 2).contiguous()
    digits = max(2, len(str(len(recordings.subjects))))
    return {
        f"fold{number:0{digits}d}": RecordingTask(choice, recordings, x, fold)
        for number, fold in enumerate(folds, start=1)
    }


def recording_model_configs(
    names: Iterable[str],
    recordings: Recordings,
    hidden: int,
    filters: str,
    ngram: int,
    pooling: str,
    layer_norm: bool,
) -> list[RecordingModelConfig]:
    """The configurations of some cells for some recordings.

    Args:
        names: Cells.
        recordings: What they read.
        hidden (int): Filters.
        filters (str): Their kind.
        ngram (int): Samples that a filter reads.
        pooling (str): Over time.
        layer_norm (bool): Of the memory.

    Raises:
        InputError: If a network cannot be made or is too large.
    """
    configs = []
    for name in names:
        config = RecordingModelConfig(
            name=name,
            num_channels=recordings.x.size(1),
            num_classes=len(recordings.classes),
            hidden=hidden,
            filters=filters,
            ngram=ngram,
            pooling=pooling,
            layer_norm=layer_norm,
        )
        with as_input_error():
            number = count_parameters(config)
            check_parameters(name, hidden, number, "--hidden, --filters, --ngram")
        configs.append(config)
    return configs
