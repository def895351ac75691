"""What Lightning trains on recordings, and the task that it is: one subject left out."""

from collections.abc import Sequence
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from benchmarks.corpora.recordings import PlantedRecordings, Recordings
from benchmarks.harness.checkpoint import load_finished
from benchmarks.harness.classification import ClassificationTask, Classifier
from benchmarks.harness.errors import as_input_error
from benchmarks.harness.learner import OptimizerConfig
from benchmarks.harness.sizes import check_parameters, count_parameters
from benchmarks.harness.task import PARTS, Batches
from benchmarks.papers.lfp.data import TrialLoader, leave_one_out
from benchmarks.papers.lfp.filters import FilterBank, found
from benchmarks.papers.lfp.models import RecordingModelConfig, RecordingNet
from benchmarks.papers.lfp.options import Lfp

Batch = tuple[Tensor, Tensor]


class RecordingClassifier(Classifier):
    """A network on batches of standardised trials, trained on the cross-entropy of their classes.

    All arguments are plain values, so that a checkpoint alone rebuilds the classifier.
    """

    def __init__(
        self,
        model: dict[str, Any],
        classes: list[str],
        rate: float,
        optimizer: dict[str, Any] | None = None,
    ) -> None:
        super().__init__(optimizer)
        self.save_hyperparameters(logger=False)
        self.net: RecordingNet = RecordingNet(RecordingModelConfig(**model))
        self.filters_at_start = FilterBank.of(self.net, rate)

    def filters(self) -> FilterBank:
        """The filters as they are now; ``filters_at_start`` are those of the fresh network."""
        return FilterBank.of(self.net, self.hparams["rate"])

    def scores(self, batch: Batch) -> tuple[Tensor, Tensor]:
        """The scores of the classes of each trial, ``(B, C)``, and the classes, ``(B,)``."""
        x, y = batch
        return self.net(x), y


def load_classifier(path: Path, seed: int) -> RecordingClassifier:
    """The classifier of a run's checkpoint, with the filters that it started from."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return load_finished(path, RecordingClassifier)


class RecordingTask(ClassificationTask):
    """Classification of recordings, measured by the accuracy in percent."""

    def __init__(
        self, recordings: Recordings, x: Tensor, subject: str, split: str, parts: dict[str, Tensor]
    ) -> None:
        self.recordings, self.x, self.subject = recordings, x, subject
        self.dataset = "planted" if isinstance(recordings, PlantedRecordings) else "npz"
        self.split, self.parts = split, parts
        self.labels, self.classes = recordings.y, recordings.classes

    def identity(self) -> dict[str, Any]:
        """The number of trials and a fingerprint of samples, classes and subjects."""
        return {"number": len(self.recordings), "digest": self.recordings.digest()}

    def run_name(self, model: str, seed: int) -> str:
        """The cell, who is left out, and the seed."""
        return f"{model} without {self.subject} (seed {seed})"

    def learner(
        self, model: RecordingModelConfig, optimizer: OptimizerConfig
    ) -> RecordingClassifier:
        """An untrained classifier."""
        classes, rate = list(self.recordings.classes), self.recordings.rate
        return RecordingClassifier(asdict(model), classes, rate, asdict(optimizer))

    def batches(self, learner: RecordingClassifier, batch_size: int, seed: int) -> Batches:
        """Standardised trials, those to train on in an order of each epoch."""
        x, y, parts = self.x, self.recordings.y, self.parts
        training = TrialLoader(x, y, parts["train"], batch_size, seed)
        return Batches(training, {p: TrialLoader(x, y, parts[p], batch_size) for p in PARTS})

    def columns(self, places: Sequence[int]) -> dict[str, Any]:
        """Of whom trials are."""
        data = self.recordings
        return {"subject": [data.subjects[data.subject[i]] for i in places]}

    def details(self, model: RecordingModelConfig, learner: RecordingClassifier) -> dict[str, Any]:
        """Who was left out, and what the filters have become.

        ``center_hz`` are the centre frequencies of the fewest filters with half of the influence,
        the largest first; ``planted``, for made recordings, is
        :func:`~benchmarks.papers.lfp.filters.found`.
        """
        bank = learner.filters()
        frequencies = bank.frequency[bank.influential()].tolist()
        details: dict[str, Any] = {
            "subject": self.subject,
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

    def rows(self, part: str, predictions: Tensor) -> dict[str, Any]:
        """The same, and first who is left out."""
        return {"left_out": self.subject, **super().rows(part, predictions)}


def recording_tasks(recordings: Recordings) -> dict[str, RecordingTask]:
    """A task for each subject left out; their names begin those of the runs' folders."""
    x, folds = recordings.standardized().transpose(1, 2).contiguous(), leave_one_out(recordings)
    return {fold_name(recordings, fold[0]): RecordingTask(recordings, x, *fold) for fold in folds}


def fold_name(recordings: Recordings, subject: str) -> str:
    """The name of the fold that leaves out a subject."""
    digits = max(2, len(str(len(recordings.subjects))))
    return f"fold{recordings.subjects.index(subject) + 1:0{digits}d}"


def model_configs(options: Lfp, recordings: Recordings) -> list[RecordingModelConfig]:
    """A network for each cell."""
    names = ("hidden", "filters", "ngram", "pooling", "layer_norm")
    sizes = {name: getattr(options, name) for name in names}
    models = []
    for name in options.models:
        model = RecordingModelConfig(name, recordings.x.size(1), len(recordings.classes), **sizes)
        with as_input_error():
            number = count_parameters(partial(RecordingNet, model))
            check_parameters(name, options.hidden, number, "--hidden, --filters, --ngram")
        models.append(model)
    return models
