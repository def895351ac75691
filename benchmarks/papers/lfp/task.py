"""Classification of recordings with one subject left out: the batches, the module that Lightning
trains, the task, and the tables and the pictures of its runs.
"""

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Any

import matplotlib
import pandas
import torch
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from torch import Tensor
from torch.utils.data import TensorDataset

from benchmarks.corpora.recordings import PlantedRecordings, Recordings, read_recordings
from benchmarks.harness import summary
from benchmarks.harness.checkpoint import load_finished
from benchmarks.harness.classification import ClassificationTask, Classifier
from benchmarks.harness.errors import InputError, as_input_error
from benchmarks.harness.figures import panels
from benchmarks.harness.learner import OptimizerConfig
from benchmarks.harness.sizes import check_parameters, count_parameters
from benchmarks.harness.study import Report, Study
from benchmarks.harness.table import Table
from benchmarks.harness.task import PARTS, Batches
from benchmarks.harness.text.options import CELLS
from benchmarks.harness.training import BEST, Run
from benchmarks.papers.lfp.networks import (
    NEAR,
    FilterBank,
    RecordingModelConfig,
    RecordingNet,
    found,
)
from benchmarks.papers.lfp.options import Lfp
from pyg_kernels.datasets.loaders import EpochLoader

FILES = ("wavelets.png", "spectra.png")
DIGITS = ClassificationTask.measure.digits
WAVELETS = 3  # drawn for each cell
VALID_SHARE = 5  # with only two subjects, one trial in this many is for validation
NETWORK = ("filters", "ngram", "hidden", "pooling", "layer_norm")  # options of the network
Batch = tuple[Tensor, Tensor]  # standardised trials (B, T, C) and their classes (B,)


def load_recordings(options: Lfp) -> Recordings:
    """Reads recordings or makes them."""
    with as_input_error():
        if options.data is not None:
            return read_recordings(options.data, options.rate)
        sizes = {name: getattr(options, name) for name in ("trials", "rate", "amplitude")}
        return PlantedRecordings(num_subjects=options.subjects, seed=0, **sizes)


def leave_one_out(recordings: Recordings, held: int) -> tuple[str, dict[str, Tensor]]:
    """The split in words, and the parts, of the fold that tests on a subject.

    The next subject (after the last, the first) is for validation, and the others are for training.
    With only two subjects, every fifth trial of each class of the other one is for validation.
    """
    names, test = recordings.subjects, recordings.subject == held
    following = (held + 1) % len(names)
    valid, validated = recordings.subject == following, names[following]
    if len(names) == 2:
        valid, validated = torch.zeros_like(test), "a fifth of the other's trials"
        for k in range(len(recordings.classes)):
            members = (~test & (recordings.y == k)).nonzero().flatten()
            valid[members[VALID_SHARE - 1 :: VALID_SHARE]] = True
    masks = {"train": ~(test | valid), "valid": valid, "test": test}
    parts = {part: mask.nonzero().flatten() for part, mask in masks.items()}
    split = f"{names[held]} left out, {validated} validated on"
    trained = set(recordings.y[parts["train"]].tolist())
    for k, kind in enumerate(recordings.classes):
        if k not in trained:
            raise InputError(f"with {split}, no trial of class {kind!r} is left to train on")
    if not len(parts["valid"]):
        raise InputError(f"with {split}, there is none: 5 trials of a class are needed")
    return split, parts


class TrialLoader(EpochLoader[Batch]):
    """Goes through trials in batches.

    A last batch of one trial cannot be batch-normalised. When trials are shuffled, that trial is
    left out; it is a different one in each epoch.
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

    def __init__(self, recordings: Recordings, x: Tensor, held: int) -> None:
        self.recordings, self.trials = recordings, TensorDataset(x, recordings.y)
        self.subject = recordings.subjects[held]
        self.split, self.parts = leave_one_out(recordings, held)
        self.dataset = "planted" if isinstance(recordings, PlantedRecordings) else "npz"
        self.labels, self.classes = recordings.y, recordings.classes

    def identity(self) -> dict[str, Any]:
        return {"number": len(self.recordings), "digest": self.recordings.digest()}

    def run_name(self, model: str, seed: int) -> str:
        return f"{model} without {self.subject} (seed {seed})"

    def learner(
        self, model: RecordingModelConfig, optimizer: OptimizerConfig
    ) -> RecordingClassifier:
        classes, rate = list(self.recordings.classes), self.recordings.rate
        return RecordingClassifier(asdict(model), classes, rate, asdict(optimizer))

    def batches(self, learner: RecordingClassifier, batch_size: int, seed: int) -> Batches:
        every = {
            part: TrialLoader(self.trials, self.parts[part], batch_size, shuffle=False, seed=0)
            for part in PARTS
        }
        train = self.parts["train"]
        return Batches(TrialLoader(self.trials, train, batch_size, True, 10_000 * seed), every)

    def columns(self, places: Sequence[int]) -> dict[str, Any]:
        data = self.recordings
        return {"subject": [data.subjects[data.subject[i]] for i in places]}

    def details(self, model: RecordingModelConfig, learner: RecordingClassifier) -> dict[str, Any]:
        """The subject left out, the network's options, and what the filters have learned.

        ``center_hz`` has the centre frequencies of the fewest filters with half of the influence,
        the most influential first; ``planted``, for made recordings only, is
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
        return {"left_out": self.subject, **super().rows(part, predictions)}


def recording_tasks(recordings: Recordings) -> dict[str, RecordingTask]:
    """A task for each subject left out, by the name with which its runs' folders begin."""
    x = recordings.standardized().transpose(1, 2).contiguous()
    tasks = [RecordingTask(recordings, x, held) for held in range(len(recordings.subjects))]
    return {fold_name(recordings, task.subject): task for task in tasks}


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


def report(study: Study, runs: Sequence[Run], recordings: Recordings) -> Report:
    """Tables and pictures; their order of cells does not depend on the order of training."""

    def order(run: Run) -> tuple[int, int, int]:
        place = recordings.subjects.index(run.record["subject"])
        return CELLS.index(run.record["model"]), place, run.record["seed"]

    runs = sorted(runs, key=order)
    groups = summary.by_model(runs)
    records = pandas.DataFrame([run.record for run in runs])
    # Mean accuracies over seeds.
    means = records.groupby(["model", "subject"], sort=False)[list(PARTS)].mean()
    tables = [_comparison(runs, means, recordings), _by_subject(means, recordings)]
    planted: list[float] = []
    if isinstance(recordings, PlantedRecordings):
        tables.append(_planted(groups))
        planted = sorted({state.frequency for state in recordings.states})
    found = {
        group[0].record["model"]: [_classifier(study, run, recordings) for run in group]
        for group in groups
    }
    plots = zip(FILES, (wavelet_plot, spectrum_plot), strict=True)
    return Report(tables, {name: partial(draw, found, planted) for name, draw in plots})


def describe(recordings: Recordings) -> str:
    """Describes the recordings in one line."""
    trials, channels, samples = recordings.x.shape
    kind = "made recordings" if isinstance(recordings, PlantedRecordings) else "recordings"
    return (
        f"{kind}: {trials:,} trials of {channels} channels and {samples:,} samples "
        f"({samples / recordings.rate:g} s at {recordings.rate:g} Hz), "
        f"{len(recordings.classes)} classes, {len(recordings.subjects)} subjects"
    )


def _classifier(study: Study, run: Run, recordings: Recordings) -> RecordingClassifier:
    model, seed = run.record["model"], run.record["seed"]
    name = f"{fold_name(recordings, run.record['subject'])}-{model}-seed{seed}"
    return load_classifier(study.folder(name) / BEST, seed)


def wavelet_plot(
    classifiers: Mapping[str, Sequence[RecordingClassifier]], planted: Sequence[float]
) -> Figure:
    """The most influential filters of each cell's first run, and their spectra."""
    columns = WAVELETS + 1
    figure, found = panels(
        columns * len(classifiers),
        columns,
        (2.9, 2.0),
        "The most influential filters, a line a channel (first dark, last light), and their "
        "amplitude spectra; dashed: planted",
    )
    for place, (name, group) in enumerate(classifiers.items()):
        row = found[columns * place : columns * (place + 1)]
        bank = group[0].filters()
        order = bank.influence.argsort(descending=True, stable=True)[:WAVELETS].tolist()
        time = torch.arange(bank.weight.size(2)) - (bank.weight.size(2) - 1) / 2
        colors = matplotlib.colormaps["viridis"](
            torch.linspace(0, 0.95, bank.weight.size(1)).numpy()
        )
        for k, panel in zip(order, row, strict=False):
            panel.set_prop_cycle(color=colors)
            panel.plot(1000 / bank.rate * time, bank.weight[k].t(), linewidth=0.9)
            share = f"{100 * bank.influence[k]:.0f}% of influence"
            panel.set_title(f"{bank.frequency[k]:.0f} Hz, {share}", fontsize="small")
            panel.set_yticks([])
        for panel in row[len(order) : WAVELETS]:
            panel.axis("off")
        axis, amplitude = bank.spectra()
        for k in order:
            label = f"{bank.frequency[k]:.0f} Hz"
            row[-1].plot(axis, amplitude[k], linewidth=1.2, label=label)
        _frequency_axis(row[-1], bank.rate, planted)
        row[-1].legend(fontsize="x-small")
        row[0].set_ylabel(name)
    for panel in found[-columns:-1]:
        panel.set_xlabel("ms")
    return figure


def spectrum_plot(
    classifiers: Mapping[str, Sequence[RecordingClassifier]], planted: Sequence[float]
) -> Figure:
    """The filters' spectrum by influence, a mean over a cell's runs, after and before training."""
    title = "Mean amplitude spectrum of the filters, by influence; dashed: planted"
    figure, found = panels(len(classifiers), 4, (3.0, 2.4), title, share_y=True)
    for panel, (name, group) in zip(found, classifiers.items(), strict=True):
        axis = group[0].filters().spectra()[0]
        after = torch.stack([one.filters().mean_spectrum() for one in group]).mean(dim=0)
        before = torch.stack([one.filters_at_start.mean_spectrum() for one in group]).mean(dim=0)
        panel.plot(axis, after, linewidth=1.4, label="trained")
        panel.plot(axis, before, linewidth=1.0, linestyle=":", label="start")
        _frequency_axis(panel, group[0].filters().rate, planted)
        panel.set_title(name, fontsize="small")
    found[0].legend(fontsize="x-small")
    return figure


def _comparison(runs: Sequence[Run], means: pandas.DataFrame, recordings: Recordings) -> Table:
    record, seeds = runs[0].record, sorted({run.record["seed"] for run in runs})
    averaged = f"mean over seeds {', '.join(map(str, seeds))}, as far as there are runs"
    largest = int(recordings.y.bincount().max()) / len(recordings)
    caption = (
        f"{describe(recordings)}\n"
        f"{record['hidden_size']} {record['filters']} filters of {record['ngram']} samples; "
        "accuracy in percent, mean ± standard deviation over the subjects left out, "
        f"{averaged if len(seeds) > 1 else 'one seed'}; the largest class has {100 * largest:.2f}"
    )

    def spread_of(part: str) -> summary.Column:
        return lambda group: summary.spread(means.xs(group[0].record["model"])[part], DIGITS)

    columns: dict[str, summary.Column] = {
        "subjects": lambda group: len(means.xs(group[0].record["model"])),
        **{part: spread_of(part) for part in PARTS},
        "s/epoch": lambda group: f"{summary.mean_seconds(group):.2f}",
    }
    drawn = "the subjects left out and seeds"
    return summary.model_table(caption, runs, columns, _of_subject, DIGITS, drawn)


def _by_subject(means: pandas.DataFrame, recordings: Recordings) -> Table:
    cells = means["test"].map(f"{{:{DIGITS}}}".format).unstack("model", fill_value="")
    cells = cells.loc[[name for name in recordings.subjects if name in cells.index]]
    cells = cells[means.index.unique("model")].reset_index()
    header = ("left out", *cells.columns[1:])
    return Table("Test accuracy in percent by the subject left out", header, cells.values.tolist())


def _planted(groups: Sequence[list[Run]]) -> Table:
    """What the filters found of each planted state, before and after training."""
    rows = []
    for group in groups:
        for states in zip(*[run.record["planted"] for run in group], strict=True):
            cells = [group[0].record["model"], states[0]["state"], f"{states[0]['hz']:g}"]
            for key, digits in (("nearest_hz", ".1f"), ("share", ".2f"), ("agreement", ".2f")):
                for when in ("start", "trained"):
                    values = [e[when][key] for e in states if e[when][key] is not None]
                    cells.append(f"{statistics.median(values):{digits}}" if values else "-")
            rows.append(cells)
    caption = (
        "Filters and planted oscillations, before and after training, median over runs. nearest: "
        "the centre frequency in Hz nearest to the planted one among the fewest filters with half "
        f"of the influence; share: of the influence, within {NEAR:g} Hz; phases: the best fit to "
        "the planted phases among those filters within that distance, 1 at most"
    )
    header = ["model", "state", "Hz"]
    for name in ("nearest", "share", "phases"):
        header += [f"{name} (start)", name]
    return Table(caption, header, rows)


def _of_subject(run: Run) -> pandas.Series:
    return pandas.Series({run.record["subject"]: run.record["test"]})


def _frequency_axis(axes: Axes, rate: float, planted: Sequence[float]) -> None:
    for frequency in planted:
        axes.axvline(frequency, color="black", linewidth=0.8, linestyle="--")
    axes.set_xlim(0, min(rate / 2, 2.5 * max(planted, default=rate)))
    axes.set_xlabel("Hz")
    axes.set_yticks([])
