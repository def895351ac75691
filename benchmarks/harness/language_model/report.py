"""The tables and the picture of a comparison of language models."""

from collections.abc import Callable, Sequence

from matplotlib.figure import Figure

from benchmarks.corpora.language import TextStreams
from benchmarks.harness import summary
from benchmarks.harness.language_model.task import LanguageTask
from benchmarks.harness.study import Report
from benchmarks.harness.table import Table
from benchmarks.harness.task import PARTS
from benchmarks.harness.training import Run

FILES = ("perplexity.png",)
DIGITS = LanguageTask.measure.digits


def describe(corpus: TextStreams) -> str:
    """One line on a corpus."""
    sizes = ", ".join(
        f"{len(corpus.streams[part]):,} {part} ({corpus.unknown[part]:,} unknown)" for part in PARTS
    )
    return f"{corpus.name}: {len(corpus.vocabulary):,} different words; {sizes}"


def comparison(runs: Sequence[Run], corpus: TextStreams) -> Table:
    """Perplexities at the best epoch."""

    def best_epoch(run: Run) -> int:
        return int(min(run.history, key=lambda epoch: epoch["valid_error"])["epoch"])

    columns: dict[str, Callable[[list[Run]], object]] = {
        "epochs": lambda group: _range([len(run.history) for run in group]),
        "best": lambda group: _range([best_epoch(run) for run in group]),
        **{part: summary.measured(part, DIGITS) for part in PARTS},
        "words/s": lambda group: (
            f"{group[0].record['training_words'] / summary.mean_seconds(group):,.0f}"
        ),
    }
    said = f"Perplexity at the best epoch of the validation part; {summary.seeds_text(runs)}"
    return summary.model_table(f"{describe(corpus)}\n{said}", runs, columns)


def by_epoch(runs: Sequence[Run]) -> Table:
    """Perplexities of the validation and the test part after each epoch."""
    groups = summary.by_model(runs)
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
                row.append(summary.spread(values, DIGITS) if len(values) == len(group) else "-")
        rows.append(row)
    return Table(f"Perplexity by epoch; {summary.seeds_text(runs)}", header, rows)


def report(runs: Sequence[Run], corpus: TextStreams) -> Report:
    """The tables and the curves; the table of epochs is written and not printed."""

    def curves() -> Figure:
        parts, name = ("valid", "test", "train"), LanguageTask.measure.title
        return summary.learning_curves(
            runs, LanguageTask.measure, name, corpus.name, parts, log=True
        )

    return Report([comparison(runs, corpus)], {"perplexity.png": curves}, written=[by_epoch(runs)])


def _range(numbers: Sequence[int]) -> str:
    low, high = min(numbers), max(numbers)
    return str(low) if low == high else f"{low}-{high}"
