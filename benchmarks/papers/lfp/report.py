"""The tables and the pictures of an experiment on recordings."""

import statistics
from collections.abc import Mapping, Sequence
from functools import partial

import matplotlib
import torch
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from benchmarks.corpora.recordings import PlantedRecordings, Recordings
from benchmarks.harness import summary
from benchmarks.harness.figures import panels
from benchmarks.harness.study import Report, Study, grouped
from benchmarks.harness.table import Table
from benchmarks.harness.task import PARTS
from benchmarks.harness.training import BEST, Run
from benchmarks.papers.lfp.networks import NEAR
from benchmarks.papers.lfp.options import CELLS
from benchmarks.papers.lfp.task import (
    RecordingClassifier,
    RecordingTask,
    fold_name,
    load_classifier,
)

FILES = ("wavelets.png", "spectra.png")
DIGITS = RecordingTask.measure.digits
WAVELETS = 3  # drawn of each cell


def report(study: Study, runs: Sequence[Run], recordings: Recordings) -> Report:
    """Tables and pictures, cell by cell in one order, whatever the order of training."""

    def order(run: Run) -> tuple[int, int, int]:
        place = recordings.subjects.index(run.record["subject"])
        return CELLS.index(run.record["model"]), place, run.record["seed"]

    groups = summary.by_model(sorted(runs, key=order))
    tables = [_comparison(groups, recordings), _by_subject(groups, recordings)]
    planted: list[float] = []
    if isinstance(recordings, PlantedRecordings):
        tables.append(_planted(groups))
        planted = sorted({state.frequency for state in recordings.states})
    found = {}
    for group in groups:
        name = group[0].record["model"]
        found[name] = [_classifier(study, run, recordings) for run in group]
    pictures = {
        "wavelets.png": partial(wavelet_plot, found, planted),
        "spectra.png": partial(spectrum_plot, found, planted),
    }
    return Report(tables, pictures)


def describe(recordings: Recordings) -> str:
    """A line on the recordings."""
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
    """The filters' mean spectrum by influence, over a cell's runs, after and before training."""
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


def _comparison(groups: Sequence[list[Run]], recordings: Recordings) -> Table:
    runs = [run for group in groups for run in group]
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
        return lambda group: summary.spread(list(_subject_means(group, part).values()), DIGITS)

    columns: summary.Columns = {
        "subjects": lambda group: len({run.record["subject"] for run in group}),
        **{part: spread_of(part) for part in PARTS},
        "s/epoch": lambda group: f"{summary.mean_seconds(group):.2f}",
    }
    return summary.model_table(caption, runs, columns)


def _by_subject(groups: Sequence[list[Run]], recordings: Recordings) -> Table:
    means = [_subject_means(group, "test") for group in groups]
    rows = [
        [name, *[f"{mean[name]:{DIGITS}}" if name in mean else "" for mean in means]]
        for name in recordings.subjects
        if any(name in mean for mean in means)
    ]
    header = ("left out", *[group[0].record["model"] for group in groups])
    return Table("Test accuracy in percent by the subject left out", header, rows)


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


def _subject_means(runs: Sequence[Run], part: str) -> dict[str, float]:
    """The accuracy with each subject left out, the mean over seeds."""
    groups = grouped([run.record for run in runs], "subject")
    return {group[0]["subject"]: statistics.mean(r[part] for r in group) for group in groups}


def _frequency_axis(axes: Axes, rate: float, planted: Sequence[float]) -> None:
    for frequency in planted:
        axes.axvline(frequency, color="black", linewidth=0.8, linestyle="--")
    axes.set_xlim(0, min(rate / 2, 2.5 * max(planted, default=rate)))
    axes.set_xlabel("Hz")
    axes.set_yticks([])
