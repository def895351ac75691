"""What readers of published corpora have in common: files, labelled lines, texts in parts."""

import hashlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from pyg_kernels.datasets.public_file import find_file, read_lines
from pyg_kernels.datasets.text.corpus import TextCorpus

FOLDS = 10


def obtain_text(root: str | Path, name: str, source: str) -> Path:
    """The path of a file in ``root`` or ``root/raw``, plain or compressed (``.gz``)."""
    path = find_file(root, name)
    if path is None:
        raise FileNotFoundError(f"{name} or {name}.gz is not in {root}; {source} has it")
    return path


def numbered(path: Path, needed: bool = True) -> Iterator[tuple[str, str]]:
    """The lines of a file of texts, each after its name for error messages."""
    lines = read_lines(path)
    if needed and not lines:
        raise ValueError(f"{path} has no texts")
    for number, line in enumerate(lines, start=1):
        yield f"line {number} of {path}", line


def labelled(
    paths: Mapping[str, Path], parse: Callable[[str, str], tuple[str, str]]
) -> tuple[list[list[str]], list[str], dict[str, range]]:
    """The texts of files in lower case, the names of their classes, and each file's positions."""
    texts: list[list[str]] = []
    names: list[str] = []
    parts: dict[str, range] = {}
    for part, path in paths.items():
        start = len(texts)
        for where, line in numbered(path):
            name, text = parse(where, line)
            names.append(name)
            texts.append(text.lower().split())
        parts[part] = range(start, len(texts))
    return texts, names, parts


def in_folds(texts: Sequence[Sequence[str]], fold: int, seed: int) -> tuple[dict[str, Tensor], str]:
    """The parts of texts by ten random folds, and a description of the split.

    The fold of this number tests, the next one (after the last, the first) validates, and the other
    eight train. Equal texts are in the same fold.
    """
    order = torch.randperm(len(texts), generator=torch.Generator().manual_seed(seed))
    # The text at place i of the random order is in fold i modulo ten; equal texts join the first.
    folds = torch.empty_like(order)
    folds[order] = (torch.arange(len(order)) - fold) % FOLDS  # counted from the one to test on
    first: dict[tuple[str, ...], int] = {}
    alike = [first.setdefault(tuple(text), place) for place, text in enumerate(texts)]
    folds = folds[torch.tensor(alike, dtype=torch.long)]
    masks = {"train": folds > 1, "valid": folds == 1, "test": folds == 0}
    parts = {part: mask.nonzero().flatten() for part, mask in masks.items()}
    return parts, f"fold {fold} of {FOLDS} random folds (seed {seed})"


def use_fold(corpus: TextCorpus, fold: int, seed: int) -> None:
    """Splits the texts of a corpus again, by :func:`in_folds`; an invalid split is an error."""
    names = [corpus.classes[place] for place in corpus.labels.tolist()]
    TextCorpus.__init__(corpus, corpus.texts, names, *in_folds(corpus.texts, fold, seed))


def fingerprint(words: Any, *numbers: Tensor) -> str:
    """A fingerprint of plain values and of numbers: equal only if all are equal."""
    content = hashlib.sha256(repr(words).encode())
    for each in numbers:
        content.update(each.contiguous().numpy().tobytes() + b";")
    return content.hexdigest()[:16]


class PartedTexts:
    """M texts in parts, the target of each, and which of its words say it."""

    texts: list[list[str]]  # the words of each text
    y: Tensor  # (M,) int64 classes, or float64 numbers
    classes: tuple[str, ...] = ()  # the names of the classes; empty for numbers
    evidence: list[Tensor | None]  # of each text (T,) bool, one a word; None if it is not known
    parts: dict[str, Tensor]  # positions, int64, of the texts of 'train', 'valid' and 'test'
    split: str  # how the parts came about, in a few words

    def __len__(self) -> int:
        return len(self.texts)

    def part(self, name: str) -> list[list[str]]:
        return [self.texts[i] for i in self.parts[name].tolist()]

    def digest(self) -> str:
        """A fingerprint of texts, targets, evidence and parts: equal only if all are."""
        evidence = [None if marks is None else marks.tolist() for marks in self.evidence]
        parts = (self.parts[name] for name in sorted(self.parts))
        return fingerprint((self.texts, (self.classes, evidence)), self.y, *parts)
