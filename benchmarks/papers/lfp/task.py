"""What Lightning trains on recordings, and the task that it is: one subject left out."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import pandas
import torch
from torch import Tensor

from benchmarks.corpora.recordings import PlantedRecordings, Recordings
from benchmarks.harness.checkpoint import UNREADABLE
from benchmarks.harness.devices import check_devices
from benchmarks.harness.error_rate import ErrorRate
from benchmarks.harness.errors import InputError, as_input_error
from benchmarks.harness.files import write_text
from benchmarks.harness.learner import Learner, OptimizerConfig, mean_cross_entropy
from benchmarks.harness.sizes import check_parameters
from benchmarks.harness.task import PARTS, Measure, Task
from benchmarks.harness.training import LAST, PREDICTIONS, TrainingConfig, predictions_text, train
from benchmarks.papers.lfp.data import Fold, RecordingBatches
from benchmarks.papers.lfp.filters import FilterBank, found
from benchmarks.papers.lfp.models import RecordingModelConfig, RecordingNet, count_parameters
from benchmarks.papers.lfp.options import CELLS, Lfp

Batch = tuple[Tensor, Tensor]


class RecordingClassifier(Learner):
    """A network on batches of standardised trials, trained on the cross-entropy of their classes.

    All arguments are plain values, so that a checkpoint alone rebuilds the classifier.

    Args:
        model (dict): The fields of a :class:`RecordingModelConfig`.
        classes (list of str): Names of the classes.
        rate (float): Samples a second, in Hz.
        optimizer (dict): The fields of an :class:`OptimizerConfig`.
    """

    def __init__(
        self,
        model: dict[str, Any],
        classes: list[str],
        rate: float,
        optimizer: dict[str, Any] | None = None,
    ) -> None:
        optimizer = optimizer or asdict(OptimizerConfig())
        super().__init__(OptimizerConfig(**optimizer))
        self.save_hyperparameters(
            {"model": model, "classes": classes, "rate": rate, "optimizer": optimizer}
        )
        self.net: RecordingNet = RecordingNet(RecordingModelConfig(**model))
        self.filters_at_start = FilterBank.of(self.net, rate)
        self.train_error: ErrorRate = ErrorRate()
        self.valid_error: ErrorRate = ErrorRate()

    def filters(self) -> FilterBank:
        """The filters as they are now; ``filters_at_start`` are those of the fresh network."""
        return FilterBank.of(self.net, self.hparams["rate"])

    def forward(self, batch: Batch) -> Tensor:
        """The most probable class of each trial, ``(B,)``, on the CPU."""
        return self.net(batch[0]).argmax(dim=1).cpu()

    def epoch_measures(self) -> dict[str, float]:
        """Accuracy in percent of training and validation so far."""
        errors = {"train": self.train_error, "valid": self.valid_error}
        return {
            f"{part}_accuracy": 100 * (1 - error.compute().item()) for part, error in errors.items()
        }

    def training_step(self, batch: Batch, batch_idx: int) -> Tensor:
        """The loss of a batch."""
        x, y = batch
        scores = self.net(x).float()
        self.train_error.update(scores.detach(), y)
        return mean_cross_entropy(scores, y)

    def validation_step(self, batch: Batch, batch_idx: int) -> None:
        """Adds a batch to the validation error."""
        x, y = batch
        self.valid_error.update(self.net(x), y)

    def predict_step(self, batch: Batch, batch_idx: int, dataloader_idx: int = 0) -> Tensor:
        """The most probable class of each trial of a batch, ``(B,)``."""
        return self(batch)


def load_classifier(path: Path, seed: int) -> RecordingClassifier:
    """The classifier of a run's checkpoint, with the filters that it started from.

    Args:
        path (Path): Its ``best.ckpt``.
        seed (int): Of the run.

    Raises:
        InputError: If it is missing, damaged or of something else.
    """
    try:
        checkpoint = torch.load(path, map_location="cpu", weights_only=True)
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            classifier = RecordingClassifier(**checkpoint["hyper_parameters"])
        classifier.load_state_dict(checkpoint["state_dict"])
    except UNREADABLE as e:
        raise InputError(f"{path} is missing or damaged; remove its folder to train again") from e
    return classifier.eval()


class RecordingTask(Task):
    """Classification of recordings, measured by the accuracy in percent.

    Args:
        recordings: All of them.
        x: Their standardised samples, (M, T, C).
        fold: Who is left out.
    """

    items = "recordings"
    measure = Measure("accuracy", "accuracy", ".2f")

    def __init__(self, recordings: Recordings, x: Tensor, fold: Fold) -> None:
        self.recordings, self.x, self.fold = recordings, x, fold
        self.dataset = "planted" if isinstance(recordings, PlantedRecordings) else "npz"
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
        :func:`~benchmarks.papers.lfp.filters.found`.
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


@dataclass(frozen=True)
class Cell:
    """One network on one fold with one seed.

    Args:
        fold (str): The name of the fold, by number.
        task: Who is left out.
        model: The network.
        seed (int): Of the run.
        training: How it is trained.
    """

    fold: str
    task: RecordingTask
    model: RecordingModelConfig
    seed: int
    training: TrainingConfig

    @property
    def name(self) -> str:
        """The name of its folder."""
        return f"{self.fold}-{self.model.name}-seed{self.seed}"

    @property
    def title(self) -> str:
        """What is shown of it."""
        return self.task.run_name(self.model.name, self.seed)


def recording_tasks(recordings: Recordings, folds: Iterable[Fold]) -> dict[str, RecordingTask]:
    """A task for each subject left out; their names begin those of the runs' folders."""
    x = recordings.standardized().transpose(1, 2).contiguous()
    return {
        fold_name(recordings, fold.subject): RecordingTask(recordings, x, fold) for fold in folds
    }


def fold_name(recordings: Recordings, subject: str) -> str:
    """The name of the fold that leaves out a subject."""
    digits = max(2, len(str(len(recordings.subjects))))
    return f"fold{recordings.subjects.index(subject) + 1:0{digits}d}"


def cells(options: Lfp, tasks: Sequence[tuple[str, RecordingTask]]) -> list[Cell]:
    """Every fold, cell and seed.

    Raises:
        InputError: If the device is not there, or a network cannot be made or is too large.
    """
    check_devices(options.device, options.batch_size)
    recordings = tasks[0][1].recordings
    models = []
    for name in options.models:
        model = RecordingModelConfig(
            name=name,
            num_channels=recordings.x.size(1),
            num_classes=len(recordings.classes),
            hidden=options.hidden,
            filters=options.filters,
            ngram=options.ngram,
            pooling=options.pooling,
            layer_norm=options.layer_norm,
        )
        with as_input_error():
            number = count_parameters(model)
            check_parameters(name, options.hidden, number, "--hidden, --filters, --ngram")
        models.append(model)
    training = TrainingConfig(
        epochs=options.epochs,
        batch_size=options.batch_size,
        patience=max(10, options.epochs // 3),
        clip=5.0,
        optimizer=OptimizerConfig(learning_rate=options.lr, factor=1.0),
        device=options.device,
        show=options.show(),
    )
    return [
        Cell(fold, task, model, seed, training)
        for fold, task in tasks
        for model in models
        for seed in options.seeds
    ]


def trained(cell: Cell, folder: Path) -> dict[str, Any] | None:
    """The record of a cell; leaves its best checkpoint and its predictions."""
    run = train(cell.task, cell.model, cell.seed, cell.training, folder)
    if run is None:  # another process than the first
        return None
    write_text(folder / PREDICTIONS, predictions_text(run.predictions))
    (folder / LAST).unlink(missing_ok=True)
    return {**run.record, "history": run.history}
