"""Recordings with one subject left out: the batches, what Lightning trains, and the task it is."""

from collections.abc import Sequence
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from torch.utils.data import TensorDataset

from benchmarks.corpora.recordings import PlantedRecordings, Recordings, read_recordings
from benchmarks.harness.checkpoint import load_finished
from benchmarks.harness.classification import ClassificationTask, Classifier
from benchmarks.harness.errors import InputError, as_input_error
from benchmarks.harness.learner import OptimizerConfig
from benchmarks.harness.sizes import check_parameters, count_parameters
from benchmarks.harness.task import PARTS, Batches
from benchmarks.papers.lfp.networks import FilterBank, RecordingModelConfig, RecordingNet, found
from benchmarks.papers.lfp.options import Lfp
from pyg_kernels.datasets.loaders import EpochLoader

VALID_SHARE = 5  # one trial in so many is validated on, where two subjects are all there are
NETWORK = ("filters", "ngram", "hidden", "pooling", "layer_norm")  # options of the network
Batch = tuple[Tensor, Tensor]  # standardised trials (B, T, C) and their classes (B,)
Fold = tuple[str, str, dict[str, Tensor]]  # who is left out, the split in words, its parts


def load_recordings(options: Lfp) -> Recordings:
    """Reads recordings or makes them."""
    with as_input_error():
        if options.data is not None:
            return read_recordings(options.data, options.rate)
        sizes = {name: getattr(options, name) for name in ("trials", "rate", "amplitude")}
        return PlantedRecordings(num_subjects=options.subjects, seed=0, **sizes)


def leave_one_out(recordings: Recordings) -> list[Fold]:
    """For each subject the fold that tests it, validates on the next one, after the last the first,
    and trains on the others.

    Of two subjects, every fifth trial of each class of the other one is validated on.
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
        parts = {part: mask.nonzero().flatten() for part, mask in masks.items()}
        split = f"{name} left out, {validated} validated on"
        trained = set(recordings.y[parts["train"]].tolist())
        for k, kind in enumerate(recordings.classes):
            if k not in trained:
                raise InputError(f"with {split}, no trial of class {kind!r} is left to train on")
        if not len(parts["valid"]):
            raise InputError(f"with {split}, there is none: 5 trials of a class are needed")
        folds.append((name, split, parts))
    return folds


class TrialLoader(EpochLoader[Batch]):
    """Goes through trials in batches.

    A last batch of one trial cannot be batch-normalised: shuffled, that trial, another one each
    epoch, is left out.
    """

    items = "trials"

    def __len__(self) -> int:
        alone = self.shuffle and len(self.indices) % self.batch_size == 1
        return super().__len__() - alone

    def assemble(self, indices: Tensor) -> Batch:
        batch: Batch = self.dataset[indices]
        return batch


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
        self.filters_at_start = self.filters()

    def filters(self) -> FilterBank:
        """The filters as they are now; ``filters_at_start`` are those of the fresh network."""
        return FilterBank.of(self.net, self.hparams["rate"])

    def scores(self, batch: Batch) -> Batch:
        x, y = batch
        return self.net(x), y


def load_classifier(path: Path, seed: int) -> RecordingClassifier:
    """The classifier of a run's checkpoint, with the filters that it started from."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return load_finished(path, RecordingClassifier)


class RecordingTask(ClassificationTask):
    """Classification of recordings, measured by the accuracy in percent."""

    def __init__(self, recordings: Recordings, x: Tensor, fold: Fold) -> None:
        self.recordings, self.trials = recordings, TensorDataset(x, recordings.y)
        self.subject, self.split, self.parts = fold
        self.dataset = "planted" if isinstance(recordings, PlantedRecordings) else "npz"
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
        classes, rate = list(self.recordings.classes), self.recordings.rate
        return RecordingClassifier(asdict(model), classes, rate, asdict(optimizer))

    def batches(self, learner: RecordingClassifier, batch_size: int, seed: int) -> Batches:
        """Standardised trials, those to train on in an order of each epoch."""
        every = {
            part: TrialLoader(self.trials, self.parts[part], batch_size, shuffle=False, seed=0)
            for part in PARTS
        }
        train = self.parts["train"]
        return Batches(TrialLoader(self.trials, train, batch_size, True, 10_000 * seed), every)

    def columns(self, places: Sequence[int]) -> dict[str, Any]:
        """Of whom trials are."""
        data = self.recordings
        return {"subject": [data.subjects[data.subject[i]] for i in places]}

    def details(self, model: RecordingModelConfig, learner: RecordingClassifier) -> dict[str, Any]:
        """Who was left out, and what the filters have become.

        ``center_hz`` are the centre frequencies of the fewest filters with half of the influence,
        the largest first; ``planted``, for made recordings, is
        :func:`~benchmarks.papers.lfp.networks.found`.
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
    return {fold_name(recordings, fold[0]): RecordingTask(recordings, x, fold) for fold in folds}


def fold_name(recordings: Recordings, subject: str) -> str:
    """The name of the fold that leaves out a subject."""
    digits = max(2, len(str(len(recordings.subjects))))
    return f"fold{recordings.subjects.index(subject) + 1:0{digits}d}"


def model_configs(options: Lfp, recordings: Recordings) -> list[RecordingModelConfig]:
    """A network for each cell."""
    sizes = {name: getattr(options, name) for name in NETWORK}
    channels, classes = recordings.x.size(1), len(recordings.classes)
    models = [RecordingModelConfig(name, channels, classes, **sizes) for name in options.models]
    with as_input_error():
        for model in models:
            number = count_parameters(partial(RecordingNet, model))
            check_parameters(model.name, model.hidden, number, "--hidden, --filters, --ngram")
    return models
