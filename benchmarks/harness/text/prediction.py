"""New texts: classified by a trained run, and explained word by word.

The explanation follows Lei 2017, section 2.5.2, figure 2-4.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import matplotlib
import pandas
import torch
from matplotlib.figure import Figure
from torch import Tensor

from benchmarks.harness import tables_of_texts as tables
from benchmarks.harness.checkpoint import load_learner
from benchmarks.harness.errors import InputError, naming_files, say
from benchmarks.harness.figures import panels
from benchmarks.harness.files import write_bytes, write_text
from benchmarks.harness.summary import png
from benchmarks.harness.table import Table
from benchmarks.harness.text.task import TextClassifier
from pyg_kernels.datasets.text import Vocabulary
from pyg_kernels.datasets.text.corpus import INTEGER

PREFIXES = 64  # prefixes of a text that are classified together
MOST_WORDS = 1000  # of an explained text: time and memory of its prefixes grow quadratically
INCHES_A_WORD = 0.42
MOST_INCHES = 120.0


@dataclass(frozen=True)
class Explanation:
    """The classes of a text of T words, C of them, word by word."""

    words: Sequence[str]
    known: Sequence[bool]  # whether the classifier has a vector for each word
    # ``(T, C)``, softmax of the output layer on the features at each word: the local sentiment
    here: Tensor
    so_far: Tensor  # ``(T, C)``, the probabilities of the text that ends with each word
    classes: Sequence[str]

    def predicted(self) -> str:
        place = int(self.so_far[-1].argmax())
        return f"{self.classes[place]} ({self.so_far[-1, place]:.2f})"

    def unknown(self) -> str:
        """One line on the words for which the classifier has no vector."""
        missing = [word for word, known in zip(self.words, self.known, strict=True) if not known]
        if not missing:
            return "every word is known"
        names = ", ".join(dict.fromkeys(missing))
        return f"{len(missing)} of {len(self.words)} words are unknown: {names}"

    def scores(self) -> list[list[float]]:
        """The expected value at each word, and that of the text up to each word."""
        values = torch.tensor(self.values()[1], dtype=torch.double)
        return [(rows.double() @ values).tolist() for rows in (self.here, self.so_far)]

    def values(self) -> tuple[str, list[float]]:
        """A description of the shown quantity, and its value for each class."""
        values = class_values(self.classes)
        if values is None:
            best = int(self.so_far[-1].argmax())
            values = [float(place == best) for place in range(len(self.classes))]
            return f"probability of {self.classes[best]}", values
        ends = f"from {values[0]:g} (class {self.classes[0]}) to {values[-1]:g}"
        return f"expected score, {ends} (class {self.classes[-1]})", values

    def table(self) -> Table:
        """A row per word: the value at the word, and that of the text so far."""
        lines = zip(self.words, self.known, *self.scores(), strict=True)
        rows = [
            (word + " (unknown)" * (not known), f"{here:+.2f}", f"{so_far:+.2f}")
            for word, known, here, so_far in lines
        ]
        caption = (
            f"{' '.join(self.words)}\nclass {self.predicted()}; {self.unknown()}\n"
            f"{self.values()[0]}, at each word, and of the text up to it"
        )
        return Table(caption, ("word", "here", "so far"), rows)


def class_values(classes: Sequence[str]) -> list[float] | None:
    """The scores of ordered classes: -2 to 2 for five classes, -1 and 1 for two; else None."""
    number = len(classes)
    if number == 2:
        return [-1.0, 1.0]
    if number < 2 or not all(map(INTEGER.fullmatch, classes)):
        return None
    first = int(classes[0])
    in_order = [*map(int, classes)] == [*range(first, first + number)]
    return [k - (number - 1) / 2 for k in range(number)] if in_order else None


def explain(classifier: TextClassifier, words: Sequence[str]) -> Explanation:
    """How a classifier reads a text of at least one word."""
    net, classes = classifier.net, classifier.hparams["classes"]
    (batch,) = tables.batches_of(classifier, [words], 1)
    with torch.inference_mode():
        known = (batch.ids > Vocabulary.unknown) & net.embedding(batch.ids).any(dim=1)
        here = net.at_words(batch).softmax(dim=1)
    beginnings = [words[:number] for number in range(1, len(words) + 1)]
    so_far = probabilities(classifier, beginnings, PREFIXES)
    return Explanation(words, known.tolist(), here, so_far, classes)


def probabilities(
    classifier: TextClassifier, texts: Sequence[Sequence[str]], batch_size: int
) -> Tensor:
    """The class probabilities of texts that have words, ``(B, C)``."""
    with torch.inference_mode():
        batches = tables.batches_of(classifier, texts, batch_size)
        return torch.cat([classifier.net(batch) for batch in batches]).float().softmax(dim=1)


@matplotlib.rc_context({"text.parse_math": False})  # a word may have a dollar sign
def explanation_plot(explanations: Sequence[Explanation]) -> Figure:
    """A panel per text: bars for the value at each word, a line for the text so far."""
    most = max(len(explanation.words) for explanation in explanations)
    size = (min(MOST_INCHES, max(5.0, 2.0 + INCHES_A_WORD * most)), 3.0)
    figure, found = panels(len(explanations), 1, size)
    for axes, explanation in zip(found, explanations, strict=True):
        (said, values), (here, so_far) = explanation.values(), explanation.scores()
        colors = ["tab:red" if score < 0 else "tab:green" for score in here]
        axes.bar(range(len(here)), here, color=colors, label="at the word")
        axes.plot(so_far, color="black", marker=".", linewidth=1, label="text so far")
        axes.axhline(0, color="grey", linewidth=0.6)
        axes.set_ylim(1.05 * min(values), 1.05 * max(values))
        axes.set_ylabel(said.partition(",")[0])
        axes.set_xticks(range(len(explanation.words)), explanation.words, rotation=90)
        axes.set_xlim(-0.7, len(explanation.words) - 0.3)
        axes.set_title(f"class {explanation.predicted()}", fontsize="medium")
        axes.legend(fontsize="x-small")
    return figure


def predict(options: Any) -> None:
    """Classifies the texts of the options and writes or prints the results.

    A text without words has no class, and its cells are empty. The rows of texts without words
    and of texts without a known word are reported.
    """
    out, folder = (name and Path(name) for name in (options.out, options.explain))
    if folder:
        tables.free_folder(folder, options.overwrite)
    if out:
        tables.check_table(out, options.overwrite)
    classifier = load_learner(options.checkpoint, TextClassifier)
    if options.text:
        table = pandas.DataFrame({"text": options.text}, range(1, len(options.text) + 1))
        texts = list(options.text)
    else:
        columns = list(options.text_column) or ["text"]
        table, texts = tables.texts_of(options.data, columns, options.encoding)
    words = list(map(classifier.tokens, texts))
    predictions = predicted(classifier, words, options.batch_size).set_index(table.index)
    tables.refuse_columns(table, predictions, options.data)
    table = pandas.concat([table, predictions], axis=1)
    known = set(classifier.hparams["words"])
    tables.tell_lines(table, [not text for text in words], "no words and no class")
    unknown = [bool(text) and known.isdisjoint(text) for text in words]
    tables.tell_lines(table, unknown, "no known word")
    if out:
        tables.write_table(out, table)
    elif options.text:
        rows = [
            [cell if isinstance(cell, str) else f"{cell:.4f}".replace("nan", "") for cell in row]
            for row in table.itertuples(index=False)
        ]
        say(Table("", list(table), rows).text())
    if folder:
        _explain(classifier, [text for text in words if text][: options.limit], options)


def predicted(
    classifier: TextClassifier, texts: Sequence[Sequence[str]], batch_size: int
) -> pandas.DataFrame:
    """The most probable class of each text and the probability of each class."""
    classes = classifier.hparams["classes"]
    rows = [row for row, text in enumerate(texts) if text]
    found = torch.full((len(texts), len(classes)), torch.nan)
    if rows:
        found[rows] = probabilities(classifier, [texts[row] for row in rows], batch_size)
    best = found.nan_to_num().argmax(dim=1).tolist()
    names = [classes[place] if text else "" for place, text in zip(best, texts, strict=True)]
    frame = pandas.DataFrame(found.numpy(), columns=[f"probability of {name}" for name in classes])
    frame.insert(0, "predicted", names)
    return frame


def _explain(classifier: TextClassifier, texts: Sequence[Sequence[str]], options: Any) -> None:
    if not texts:
        raise InputError("--explain: no text has words")
    if longer := sum(len(words) > MOST_WORDS for words in texts):
        say(f"texts explained as far as their first {MOST_WORDS:,} words: {longer}")
    explanations = [explain(classifier, words[:MOST_WORDS]) for words in texts]
    folder = Path(options.explain)
    found = [explanation.table() for explanation in explanations]
    with naming_files(folder):
        folder.mkdir(parents=True, exist_ok=True)
        pages = "\n\n".join(table.markdown() for table in found)
        write_text(folder / "explanation.md", f"{pages}\n")
        write_bytes(folder / "explanation.png", png(explanation_plot(explanations)))
    if options.text:
        say("\n\n".join(table.text() for table in found))
    say(f"explanations of {len(texts)} texts in {folder}")
