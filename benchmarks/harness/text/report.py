"""The table and the pictures of an experiment on texts."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import pandas
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from benchmarks.harness.files import write_bytes, write_text
from benchmarks.harness.summary import (
    by_model,
    learning_curves,
    mean_seconds,
    png,
    seeds_text,
    spread,
)
from benchmarks.harness.table import Table
from benchmarks.harness.task import PARTS
from benchmarks.harness.text.data import TextData
from benchmarks.harness.text.task import TextTask

if TYPE_CHECKING:
    from benchmarks.harness.training import Run

HEADER = ("model", "parameters", "train", "valid", "test", "s/epoch")
MOST_CLASSES_NAMED = 12


def text_table(runs: Sequence["Run"], data: TextData) -> Table:
    """The comparison of models.

    Args:
        runs: Finished runs, model by model.
        data: Texts in parts.
    """
    digits = TextTask.measure.digits
    rows = [
        [
            group[0].record["model"],
            f"{group[0].record['num_parameters']:,}",
            *[spread([run.record[part] for run in group], digits) for part in PARTS],
            f"{mean_seconds(group):.2f}",
        ]
        for group in by_model(runs)
    ]
    caption = (
        f"{describe(data)}\nAccuracy in percent at the best epoch of the validation part; "
        f"{seeds_text(runs)}"
    )
    return Table(caption, HEADER, rows)


def describe(data: TextData) -> str:
    """Two lines on texts and parts, and on word vectors."""
    corpus = data.corpus
    sizes = ", ".join(f"{len(corpus.parts[part]):,} {part}" for part in PARTS)
    texts = (
        f"{data.choice.dataset}: {len(corpus):,} texts of {len(corpus.classes)} classes, "
        f"{corpus.split}: {sizes}"
    )
    if data.vectors is None or data.glove is None:
        why = "" if data.choice.glove else " (no GloVe file at hand; --glove FILE names one)"
        return f"{texts}\n{len(data.vocabulary):,} words with learned vectors{why}"
    found, size = data.vectors.found, data.vectors.vectors.size(1)
    return (
        f"{texts}\n{len(found):,} words, {int(found.sum()):,} with fixed vectors of {size} numbers "
        f"from {data.glove.name}, not counted as parameters"
    )


def write_text_report(out: Path, runs: Sequence["Run"], data: TextData) -> None:
    """Writes ``table.md``, ``confusion.png`` and ``learning_curves.png``.

    Args:
        out (Path): The results folder.
        runs: Finished runs, model by model.
        data: Texts in parts.
    """
    write_text(out / "table.md", f"{text_table(runs, data).markdown()}\n")
    write_bytes(out / "confusion.png", png(confusion_plot(runs, data)))
    curves = learning_curves(runs, TextTask.measure, "accuracy in percent", data.choice.dataset)
    write_bytes(out / "learning_curves.png", png(curves))


def confusion_plot(runs: Sequence["Run"], data: TextData) -> Figure:
    """Predicted against true classes of the test part, a panel a model, over all its seeds."""
    groups = by_model(runs)
    classes = list(data.corpus.classes)
    figure = Figure(figsize=(3.6 * len(groups), 3.8), layout="constrained")
    axes = figure.subplots(1, len(groups), squeeze=False)[0]
    for panel, group in zip(axes, groups, strict=True):
        rows = pandas.concat([run.predictions for run in group])
        rows = rows[rows["part"] == "test"]
        counts = pandas.crosstab(rows["label"], rows["predicted"], normalize="index")
        counts = counts.reindex(index=classes, columns=classes, fill_value=0.0)
        _confusion_panel(panel, counts)
        accuracy = spread([run.record["test"] for run in group], TextTask.measure.digits)
        panel.set_title(f"{group[0].record['model']}\naccuracy {accuracy} %", fontsize="small")
    axes[0].set_ylabel("class")
    figure.suptitle("Test part: fraction of each class", fontsize="medium")
    return figure


def _confusion_panel(axes: Axes, counts: pandas.DataFrame) -> None:
    axes.imshow(counts.to_numpy(), vmin=0, vmax=1, cmap="Blues")
    axes.set_xlabel("predicted")
    if len(counts) > MOST_CLASSES_NAMED:
        axes.set(xticks=[], yticks=[])
        return
    axes.set_xticks(range(len(counts)), list(counts.columns), rotation=90, fontsize="x-small")
    axes.set_yticks(range(len(counts)), list(counts.index), fontsize="x-small")
    for i, row in enumerate(counts.to_numpy()):
        for j, value in enumerate(row):
            if value:
                shade = "white" if value > 0.5 else "black"
                axes.text(j, i, f"{value:.2f}", ha="center", va="center", fontsize=6, color=shade)
