"""The tables and the picture of a comparison of language models."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import matplotlib
from matplotlib.figure import Figure
from matplotlib.ticker import LogLocator, MaxNLocator, ScalarFormatter

from benchmarks.corpora.language import TextStreams
from benchmarks.harness.experiment import Report
from benchmarks.harness.language_model.config import PRESETS
from benchmarks.harness.language_model.models import count_parameters, fitted
from benchmarks.harness.language_model.task import LanguageTask
from benchmarks.harness.summary import by_model, mean_seconds, seeds_text, spread
from benchmarks.harness.table import Table
from benchmarks.harness.task import PARTS

if TYPE_CHECKING:
    from benchmarks.harness.training import Run

# The corpus of the papers' figures: words of its parts, and different ones.
PENN_TREEBANK = {"train": 929_589, "valid": 73_760, "test": 82_430}
PENN_WORDS = 10_000
FILES = ("perplexity.png",)
DIGITS = LanguageTask.measure.digits


def describe(corpus: TextStreams) -> str:
    """One line on a corpus."""
    sizes = ", ".join(
        f"{len(corpus.streams[part]):,} {part} ({corpus.unknown[part]:,} unknown)" for part in PARTS
    )
    return f"{corpus.name}: {len(corpus.vocabulary):,} different words; {sizes}"


def comparison(runs: Sequence["Run"], corpus: TextStreams) -> Table:
    """Perplexities at the best epoch, beside the papers' where they are of the same corpus.

    Args:
        runs: Finished runs, model by model.
        corpus: What they learned from.
    """
    published = _is_penn_treebank(corpus)
    header = ["model", "parameters", "epochs", "best", *PARTS, "words/s"]
    header += ["paper's test"] if published else []
    rows = []
    for group in by_model(runs):
        record = group[0].record
        row = [record["model"], f"{record['num_parameters']:,}", _epochs(group), _best(group)]
        row += [spread([run.record[part] for run in group], DIGITS) for part in PARTS]
        row.append(f"{record['training_words'] / mean_seconds(group):,.0f}")
        if published:
            row.append(_published(record, len(corpus.vocabulary)))
        rows.append(row)
    measured = f"Perplexity at the best epoch of the validation part; {seeds_text(runs)}"
    return Table(f"{describe(corpus)}\n{measured}", header, rows)


def _is_penn_treebank(corpus: TextStreams) -> bool:
    sizes = {part: len(stream) for part, stream in corpus.streams.items()}
    return sizes == PENN_TREEBANK and len(corpus.vocabulary) == PENN_WORDS


def _published(record: Mapping[str, Any], num_words: int) -> str:
    """The paper's perplexity, where the network is the preset's own."""
    preset = PRESETS[record["model"]]
    own = fitted(preset, num_words)
    size = (record["hidden_size"], record["num_parameters"])
    same = preset.ptb is not None and size == (own.hidden, count_parameters(own))
    return f"{preset.ptb:.1f}" if same else "-"


def by_epoch(runs: Sequence["Run"]) -> Table:
    """Perplexities of the validation and the test part after each epoch.

    Args:
        runs: Finished runs, model by model.
    """
    groups = by_model(runs)
    header = ["epoch"]
    for group in groups:
        header += [f"{group[0].record['model']} {part}" for part in PARTS[1:]]
    rows = []
    for k in range(max(len(run.history) for run in runs)):
        row = [str(k + 1)]
        for group in groups:
            histories = [run.history for run in group if len(run.history) > k]
            for part in PARTS[1:]:
                values = [history[k][f"{part}_perplexity"] for history in histories]
                row.append(spread(values, DIGITS) if len(values) == len(group) else "-")
        rows.append(row)
    return Table(f"Perplexity by epoch; {seeds_text(runs)}", header, rows)


def report(runs: Sequence["Run"], corpus: TextStreams) -> Report:
    """The tables and the curves; the table of epochs is written and not printed.

    Args:
        runs: Finished runs, model by model.
        corpus: What they learned from.
    """
    curves = {"perplexity.png": lambda: perplexity_curves(runs, corpus.name)}
    return Report([comparison(runs, corpus)], curves, written=[by_epoch(runs)])


def perplexity_curves(runs: Sequence["Run"], title: str) -> Figure:
    """Perplexity of validation, test and training (with dropout) by epoch, a colour a model.

    Args:
        runs: Finished runs, model by model.
        title (str): The first words of the title.
    """
    figure = Figure(figsize=(6.4, 4.2), layout="constrained")
    axes = figure.subplots()
    groups = by_model(runs)
    colors = matplotlib.colormaps["tab10" if len(groups) <= 10 else "tab20"]
    lines = {"valid": "-", "test": "--", "train": ":"}
    for j, group in enumerate(groups):
        for k, run in enumerate(group):
            epochs = [epoch["epoch"] for epoch in run.history]
            for part, line in lines.items():
                values = [epoch[f"{part}_perplexity"] for epoch in run.history]
                label = run.record["model"] if k == 0 and part == "valid" else None
                marker = "." if len(epochs) == 1 else None
                axes.plot(
                    epochs,
                    values,
                    line,
                    color=colors(j % colors.N),
                    linewidth=1.2,
                    label=label,
                    marker=marker,
                )
    axes.set_yscale("log")
    axes.yaxis.set_major_locator(LogLocator(10, subs=(1, 2, 3, 5)))
    axes.yaxis.set_major_formatter(ScalarFormatter())
    axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    axes.set_xlabel("epoch")
    axes.set_ylabel("perplexity")
    axes.set_title(f"{title}; solid: validation, dashed: test, dotted: training", fontsize="medium")
    axes.legend(fontsize="medium" if len(groups) <= 10 else "xx-small")
    return figure


def _epochs(group: Sequence["Run"]) -> str:
    return _range([len(run.history) for run in group])


def _best(group: Sequence["Run"]) -> str:
    best = [min(run.history, key=lambda epoch: epoch["valid_error"]) for run in group]
    return _range([int(epoch["epoch"]) for epoch in best])


def _range(numbers: Sequence[int]) -> str:
    low, high = min(numbers), max(numbers)
    return str(low) if low == high else f"{low}-{high}"
