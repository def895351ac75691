"""What a trained classifier makes of a text, word by word (Lei 2017, section 2.5.2, figure 2-4)."""

from collections.abc import Sequence
from dataclasses import dataclass

import matplotlib
import torch
from matplotlib.figure import Figure
from torch import Tensor

from benchmarks.harness.errors import InputError
from benchmarks.harness.figures import panels
from benchmarks.harness.table import Table
from benchmarks.harness.text.task import TextClassifier
from pyg_kernels.datasets.text import TextBatch, Vocabulary
from pyg_kernels.datasets.text.corpus import INTEGER

PREFIXES = 64  # beginnings of a text that are classified together
INCHES_A_WORD = 0.42
MOST_INCHES = 120.0


@dataclass(frozen=True)
class Explanation:
    """The classes of a text of T words, C of them, word by word."""

    words: Sequence[str]
    known: Sequence[bool]  # whether the classifier has a vector of each
    # ``(T, C)``, softmax of the output layer on the features at each word: the local sentiment
    here: Tensor
    so_far: Tensor  # ``(T, C)``, the probabilities of the text that ends with each word
    classes: Sequence[str]

    def predicted(self) -> str:
        """The class of the whole text, and its probability."""
        place = int(self.so_far[-1].argmax())
        return f"{self.classes[place]} ({self.so_far[-1, place]:.2f})"

    def unknown(self) -> str:
        """One line on the words that the classifier has no vector of."""
        missing = [word for word, known in zip(self.words, self.known, strict=True) if not known]
        if not missing:
            return "every word is known"
        names = ", ".join(dict.fromkeys(missing))
        return f"{len(missing)} of {len(self.words)} words are unknown: {names}"

    def scores(self) -> tuple[list[float], list[float]]:
        """What is shown of what stands at each word, and of the text up to it."""
        values = self.values()[1]
        return expected(self.here, values), expected(self.so_far, values)

    def values(self) -> tuple[str, list[float]]:
        """What is shown in words, and its value of each class."""
        values = class_values(self.classes)
        if values is None:
            best = int(self.so_far[-1].argmax())
            values = [float(place == best) for place in range(len(self.classes))]
            return f"probability of {self.classes[best]}", values
        ends = f"from {values[0]:g} (class {self.classes[0]}) to {values[-1]:g}"
        return f"expected score, {ends} (class {self.classes[-1]})", values

    def table(self) -> Table:
        """A row a word: what stands here, and the text so far."""
        rows = [
            (word + " (unknown)" * (not known), f"{here:+.2f}", f"{so_far:+.2f}")
            for word, known, here, so_far in zip(
                self.words, self.known, *self.scores(), strict=True
            )
        ]
        caption = (
            f"{' '.join(self.words)}\nclass {self.predicted()}; {self.unknown()}\n"
            f"{self.values()[0]}, at each word, and of the text up to it"
        )
        return Table(caption, ("word", "here", "so far"), rows)


def class_values(classes: Sequence[str]) -> list[float] | None:
    """The scores of classes that have an order: 5 of them -2 to 2, 2 of them -1 and 1."""
    number = len(classes)
    if number == 2:
        return [-1.0, 1.0]
    if number < 2 or not all(INTEGER.fullmatch(name) for name in classes):
        return None
    integers = list(map(int, classes))
    if integers != list(range(integers[0], integers[0] + number)):
        return None
    return [k - (number - 1) / 2 for k in range(number)]


def expected(probabilities: Tensor, values: Sequence[float]) -> list[float]:
    """The expected scores of rows of probabilities."""
    scores = probabilities.double() @ torch.tensor(values, dtype=torch.double)
    return [float(score) for score in scores]


def explain(classifier: TextClassifier, words: Sequence[str]) -> Explanation:
    """What a classifier makes of a text."""
    if not words:
        raise InputError("--explain: the text has no words")
    vocabulary = Vocabulary(classifier.hparams["words"])
    ids, _ = vocabulary.encode([words])
    net = classifier.net
    vectors = net.embedding(ids)
    known = (ids > vocabulary.unknown) & vectors.any(dim=1)
    with torch.no_grad():
        here = net.at_words(_beginnings(ids, range(len(ids), len(ids) + 1))).softmax(dim=1)
        parts = [
            net(_beginnings(ids, range(first, min(first + PREFIXES, len(ids) + 1))))
            for first in range(1, len(ids) + 1, PREFIXES)
        ]
    so_far = torch.cat(parts).softmax(dim=1)
    return Explanation(words, known.tolist(), here, so_far, classifier.hparams["classes"])


def _beginnings(ids: Tensor, lengths: Sequence[int]) -> TextBatch:
    """The beginnings of a text with these numbers of words, as texts of their own."""
    ptr = torch.tensor([0, *lengths]).cumsum(0)
    y = torch.zeros(len(lengths), dtype=torch.long)
    return TextBatch(torch.cat([ids[:length] for length in lengths]), ptr, y)


@matplotlib.rc_context({"text.parse_math": False})  # a word may have a dollar sign
def explanation_plot(explanations: Sequence[Explanation]) -> Figure:
    """A panel a text: bars for what stands at each word, a line for the text so far."""
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
