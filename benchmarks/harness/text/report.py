"""The table and the pictures of an experiment on texts."""

from collections.abc import Callable, Sequence
from functools import partial
from itertools import cycle

import pandas
from matplotlib.figure import Figure
from sklearn.metrics import ConfusionMatrixDisplay

from benchmarks.harness import summary
from benchmarks.harness.classification import correct
from benchmarks.harness.figures import panels
from benchmarks.harness.study import Record, Report, grouped
from benchmarks.harness.table import Table
from benchmarks.harness.task import PARTS
from benchmarks.harness.text.data import TextData
from benchmarks.harness.text.task import TextTask
from benchmarks.harness.training import Run

VARIANTS = ("layers", "decay")
FILES = ("confusion.png", "learning_curves.png", *(f"accuracy_by_{key}.png" for key in VARIANTS))
MOST_CLASSES_NAMED = 12
PANELS_A_ROW = 4


def text_table(runs: Sequence[Run], data: TextData) -> Table:
    """The comparison of models and, for recurrent kernel machines, the weights of their cells."""
    digits = TextTask.measure.digits
    columns = {part: summary.measured(part, digits) for part in PARTS}
    columns["s/epoch"] = lambda group: f"{summary.mean_seconds(group):.2f}"
    said = "Accuracy in percent at the best epoch of the validation part; "
    said += summary.seeds_text(runs)
    if any("cell" in run.record for run in runs):
        columns["weights"] = lambda group: group[0].record.get("cell_parameters", "-")
        said += "; weights of cells alone, as Liang et al. 2019 count them"
    counted = {run.record["model"]: run.record["ngrams"] for run in runs if "ngrams" in run.record}
    for name, ngrams in counted.items():
        said += f"; {name} beside a linear classifier of {ngrams:,} n-grams"
    if len({run.record["split"] for run in runs}) > 1:
        said += "; numbers of texts, words and parameters are those of the first fold"
    caption = f"{describe(data)}\n{said}"
    return summary.model_table(caption, runs, columns, correct, digits, "test texts and seeds")


def describe(data: TextData) -> str:
    """Lines on texts and parts, on word vectors, and on words without a vector."""
    corpus, choice = data.corpus, data.choice
    sizes = ", ".join(f"{len(corpus.parts[part]):,} {part}" for part in PARTS)
    texts = f"{choice.dataset}: {len(corpus):,} texts of {len(corpus.classes)} classes"
    vectors = data.describe_vectors(choice.vectors, " scaled to length 1" * choice.unit_norm)
    unknown = data.describe_unknown(data.word_numbers())
    trained = set(map(tuple, corpus.part("train")))
    both = sum(tuple(text) in trained for text in corpus.part("test"))
    sizes += f" (of these {both:,} are in train, too)" if both else ""
    return f"{texts}, {corpus.split}: {sizes}\n{vectors}\n{unknown}"


def report(runs: Sequence[Run], data: TextData) -> Report:
    """Tables, confusion, learning curves, and the pictures of layers and decays."""
    shown = runs, TextTask.measure, "accuracy in percent", data.choice.dataset
    pictures: dict[str, Callable[[], Figure]] = {
        "confusion.png": partial(confusion_plot, runs, data),
        "learning_curves.png": partial(summary.learning_curves, *shown),
        **variant_plots(runs, data.choice.dataset),
    }
    return Report([text_table(runs, data)], pictures)


def confusion_plot(runs: Sequence[Run], data: TextData) -> Figure:
    """Predicted against true classes of the test part: a panel per model, over all its seeds."""
    groups = summary.by_model(runs)
    classes = list(data.corpus.classes)
    title = "Test part: fraction of each class"
    figure, axes = panels(len(groups), PANELS_A_ROW, (3.6, 3.8), title)
    for panel, group in zip(axes, groups, strict=True):
        rows = pandas.concat([run.predictions for run in group])
        rows = rows[rows["part"] == "test"]
        named = len(classes) <= MOST_CLASSES_NAMED
        ConfusionMatrixDisplay.from_predictions(
            rows["label"], rows["predicted"], labels=classes, normalize="true", ax=panel,
            cmap="Blues", colorbar=False, include_values=named, values_format=".2f",
            xticks_rotation="vertical", text_kw={"fontsize": 6}, im_kw={"vmin": 0, "vmax": 1},
        )  # fmt: skip
        panel.set(xlabel="predicted", ylabel="class" if panel is axes[0] else "")
        panel.tick_params(labelsize="x-small")
        if not named:
            panel.set(xticks=[], yticks=[])
        accuracy = summary.spread([run.record["test"] for run in group], TextTask.measure.digits)
        panel.set_title(f"{group[0].record['model']}\naccuracy {accuracy} %", fontsize="small")
    return figure


def variant_plots(runs: Sequence[Run], title: str) -> dict[str, Callable[[], Figure]]:
    """By file, a plot for layers and one for decay, if runs of ``rcnn`` differ in them."""
    records = [run.record for run in runs if run.record.get("kind") == "rcnn"]
    return {
        f"accuracy_by_{key}.png": partial(_scatter, grouped(records, key), key, title)
        for key in VARIANTS
        if len({record[key] for record in records}) > 1
    }


def _scatter(groups: Sequence[Sequence[Record]], key: str, title: str) -> Figure:
    """Test accuracy against validation accuracy, one point per run."""
    figure, (axes,) = panels(1, 1, (5.2, 4.4))
    for group, marker in zip(groups, cycle("osD^vP*X")):
        valid, test = ([record[part] for record in group] for part in ("valid", "test"))
        label = f"{key} {group[0][key]} (runs: {len(group)})"
        axes.scatter(valid, test, marker=marker, alpha=0.8, label=label)
    axes.set(xlabel="validation accuracy in percent", ylabel="test accuracy in percent")
    axes.set_title(f"{title}: rcnn, a point a run", fontsize="medium")
    axes.legend(fontsize="small")
    return figure
