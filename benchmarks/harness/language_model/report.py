"""The tables and the picture of a comparison of language models."""

from collections.abc import Callable, Sequence
from functools import partial
from itertools import product, zip_longest

import pandas

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
    drawn = "stretches of the test part and seeds, of the log-likelihood in nats a word"
    caption = f"{describe(corpus)}\n{said}"
    return summary.model_table(caption, runs, columns, log_likelihoods, ".3f", drawn)


def log_likelihoods(run: Run) -> pandas.Series:
    """The log-likelihoods of stretches of the test part; their mean is that over all words."""
    rows = run.predictions.query("part == 'test'").set_index(["before", "words"])
    words = rows.index.get_level_values("words")
    return -rows["loss"] * words / words.to_numpy().mean()


def by_epoch(runs: Sequence[Run]) -> Table:
    """Perplexities of the validation and the test part after each epoch."""
    longest = max(len(run.history) for run in runs)
    columns = {"epoch": [str(k + 1) for k in range(longest)]}
    for group, part in product(summary.by_model(runs), PARTS[1:]):
        histories = [[epoch[f"{part}_perplexity"] for epoch in run.history] for run in group]
        cells = [summary.spread_or_dash(values, DIGITS) for values in zip_longest(*histories)]
        columns[f"{group[0].record['model']} {part}"] = cells
    rows = list(zip_longest(*columns.values(), fillvalue="-"))
    return Table(f"Perplexity by epoch; {summary.seeds_text(runs)}", list(columns), rows)


def report(runs: Sequence[Run], corpus: TextStreams) -> Report:
    """The tables and the curves; the table of epochs is written and not printed."""
    parts, measure = ("valid", "test", "train"), LanguageTask.measure
    shown = runs, measure, measure.title, corpus.name, parts
    curves = partial(summary.learning_curves, *shown, log=True)
    return Report([comparison(runs, corpus)], {"perplexity.png": curves}, written=[by_epoch(runs)])


def _range(numbers: Sequence[int]) -> str:
    low, high = min(numbers), max(numbers)
    return str(low) if low == high else f"{low}-{high}"
