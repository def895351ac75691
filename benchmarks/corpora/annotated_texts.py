"""The user's own texts, each with a class or a number and, optionally, the evidence for it."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pandas
import torch
from torch import Tensor

from benchmarks.corpora.published_text import PartedTexts
from pyg_kernels.datasets.text import read_text_table, tokenize
from pyg_kernels.datasets.text.corpus import drawn
from pyg_kernels.datasets.text.text_table import joined
from pyg_kernels.tables import as_numbers

SEPARATOR = "|"  # between phrases of evidence
TEST_FRACTION = 0.2  # if there is no test part
VALID_FRACTION = 0.1  # of the rest, held out to validate on
MOST_CLASSES = 20  # of whole numbers; if there are more, they are a quantity


class AnnotatedTexts(PartedTexts):
    """M texts from tables, in training, validation and test parts.

    Args:
        path: a table, see :func:`~pyg_kernels.datasets.text.read_text_table`.
        test: the table to test on. If None, a fifth of the rows (of each class) is drawn.
        text_columns: the columns of the texts; several columns are joined.
        target_column: the column of classes or numbers.
        evidence_column: a column of phrases of the text that say what its target is, separated by
            ``|``. An empty cell means that the evidence is not known.
        task: ``'classification'`` or ``'regression'``. None chooses regression if all targets are
            numbers and one has a fraction or more than 20 differ, and classification otherwise.
            With None, words among targets that are mostly numbers are an error.
        seed: the seed of the draws.
        encoding: the encoding of the files.
    """

    def __init__(
        self,
        path: str | Path,
        test: str | Path | None = None,
        *,
        text_columns: Sequence[str] = ("text",),
        target_column: str = "target",
        evidence_column: str | None = None,
        task: str | None = None,
        seed: int = 0,
        encoding: str = "utf-8",
    ) -> None:
        columns = [*text_columns, target_column, *filter(None, [evidence_column])]
        files = [path] if test is None else [path, test]
        read = [read_text_table(file, columns, encoding) for file in files]
        sizes, table = list(map(len, read)), pandas.concat(read)
        places = [
            f"{file}, line {k}" for file, rows in zip(files, read, strict=True) for k in rows.index
        ]
        self.texts = list(map(tokenize, joined(table, text_columns)))
        targets = table[target_column].str.strip().tolist()
        for where, words, target in zip(places, self.texts, targets, strict=True):
            if not words or not target:
                raise ValueError(f"{where}: no {'target' if words else 'text'}")
        phrases = table[evidence_column] if evidence_column else [""] * len(table)
        self.evidence = list(map(_evidence, self.texts, phrases, places))
        self.classes, self.y = _targets(targets, places, task, f"{path}, column {target_column!r}")
        self.parts, self.split = self._parts(sizes, seed)

    def _parts(self, sizes: Sequence[int], seed: int) -> tuple[dict[str, Tensor], str]:
        """The positions of the texts of each part, and how the parts came about."""
        places = torch.arange(len(self))
        groups = self.y if self.classes else torch.zeros(len(self), dtype=torch.long)
        each = " of each class" if self.classes else ""
        tested, split = places >= sizes[0], "given test part"
        if len(sizes) == 1:
            tested = drawn(groups, places, TEST_FRACTION, seed)
            split = f"random {100 * TEST_FRACTION:g}%{each} for testing (seed {seed})"
        held = drawn(groups, places[~tested], VALID_FRACTION, seed)
        masks = {"train": ~tested & ~held, "valid": held, "test": tested}
        for name, mask in masks.items():
            if not mask.any():
                raise ValueError(f"{len(self)} texts are too few: the {name} part has none")
        unseen = set(self.y[~masks["train"]].tolist()) - set(self.y[masks["train"]].tolist())
        if self.classes and unseen:
            raise ValueError(f"no training text has the class {self.classes[min(unseen)]!r}")
        split += f", {100 * VALID_FRACTION:g}%{each} held out of training (seed {seed})"
        return {name: mask.nonzero().flatten() for name, mask in masks.items()}, split


def _targets(
    cells: Sequence[str], places: Sequence[str], task: str | None, column: str
) -> tuple[tuple[str, ...], Tensor]:
    """The names of classes (none for numbers), and the class or number of each text."""
    numbers, wrong = as_numbers(pandas.Series(cells))
    lacking = np.isnan(numbers)
    words = lacking & wrong
    are_numbers = not lacking.all() and not words.any()
    if task is None and words.any() and words.sum() < len(cells) / 2:
        first = int(words.argmax())
        raise ValueError(
            f"{places[first]}: the target {cells[first]!r} is no number, as most are; of "
            "classes the task is classification"
        )
    # Among numbers, a cell without a value is not a class.
    is_whole = bool((numbers == np.floor(numbers)).all()) and len(set(cells)) <= MOST_CLASSES
    if task == "regression" or (task is None and are_numbers and not is_whole):
        bad = ~np.isfinite(numbers)
        if bad.any():
            first = int(bad.argmax())
            raise ValueError(f"{places[first]}: the target {cells[first]!r} is no finite number")
        return (), torch.tensor(numbers)
    classes = tuple(sorted(set(cells)))
    if len(classes) < 2:
        raise ValueError(f"{column}: all texts have {classes[0]!r}; two classes are needed")
    return classes, torch.tensor([classes.index(cell) for cell in cells])


def _evidence(words: Sequence[str], cell: str, where: str) -> Tensor | None:
    """Which words are in the phrases of a cell; None if the cell is empty."""
    if not cell.strip():
        return None
    marks = torch.zeros(len(words), dtype=torch.bool)
    for phrase in cell.split(SEPARATOR):
        wanted = tokenize(phrase)
        size = len(wanted)
        starts = [k for k in range(len(words)) if size and list(words[k : k + size]) == wanted]
        if not starts:
            raise ValueError(f"{where}: its text does not have the words {phrase.strip()!r}")
        for start in starts:
            marks[start : start + size] = True
    return marks
