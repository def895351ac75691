"""Texts, their classes and the parts that they are published in."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from pyg_kernels.datasets.loaders import positions_in
from pyg_kernels.datasets.text.vocabulary import words_of

PARTS = ("train", "valid", "test")
INTEGER = re.compile(r"-?[0-9]+")


class TextCorpus:
    """M texts, each a list of words with one of C classes, split into parts.

    Make one from your own texts, or through a subclass that reads a published corpus.

    Args:
        texts: M sequences of words, not strings; none may be empty.
        labels: the names of their classes.
        parts: the positions of the texts of ``'train'``, ``'test'`` and, if there is one,
            ``'valid'`` (development), from 0 or, below 0, from the end; or masks.
        split: how the parts were made, in a few words.

    Attributes:
        texts: M lists of words.
        classes: the names of the C classes, by value if all are integers, else alphabetically.
        labels: (M,) int64, the position of each text's class in ``classes``.
        parts: the positions of the texts of each part, int64.
        split: as given.

    Raises:
        ValueError: if a text is empty, the numbers of texts and labels differ, a part is unknown,
            missing, empty or no vector of integers, parts share a text, or a class has no text in
            training.
        TypeError: if a text is a string.
        IndexError: if a position is out of range.

    Example:
        >>> from pyg_kernels.datasets import TextCorpus
        >>> texts = [["fine", "film"], ["dull", "film"], ["fine", "cast"], ["dull", "plot"]]
        >>> labels = ["good", "bad", "good", "bad"]
        >>> corpus = TextCorpus(texts, labels, {"train": [0, 1], "test": [2, 3]})
        >>> corpus.classes, corpus.labels, corpus.part("test")
        (('bad', 'good'), tensor([1, 0, 1, 0]), [['fine', 'cast'], ['dull', 'plot']])

    See Also:
        :class:`TextCSV`, for files; :class:`Vocabulary` and :class:`TextLoader`, the next steps.
    """

    def __init__(
        self,
        texts: Sequence[Sequence[str]],
        labels: Sequence[str],
        parts: Mapping[str, Sequence[int] | Tensor],
        split: str = "given split",
    ) -> None:
        if len(texts) != len(labels):
            raise ValueError(f"labels must be {len(texts)}, one a text, not {len(labels)}")
        for number, text in enumerate(texts):
            if not text:
                raise ValueError(f"text {number} has no words")
        self.texts = [list(words_of(text)) for text in texts]
        labels = labels.tolist() if isinstance(labels, Tensor) else labels
        self.classes = _in_order(set(labels))
        place = {name: index for index, name in enumerate(self.classes)}
        self.labels = torch.tensor([place[name] for name in labels], dtype=torch.long)
        self.parts = _checked_parts(parts, len(texts))
        self.split = split
        trained = set(self.labels[self.parts["train"]].tolist())
        for index, name in enumerate(self.classes):
            if index not in trained:
                raise ValueError(f"the training part has no text of class {name!r}")

    def __len__(self) -> int:
        return len(self.texts)

    def __repr__(self) -> str:
        sizes = ", ".join(f"{name}={len(places)}" for name, places in self.parts.items())
        return f"{type(self).__name__}({len(self)} texts, {len(self.classes)} classes, {sizes})"

    def part(self, name: str) -> list[list[str]]:
        """The texts of a part, each a list of words."""
        return [self.texts[i] for i in self.parts[name].tolist()]

    def hold_out(self, fraction: float = 0.1, seed: int = 0) -> None:
        """Moves random texts of ``'train'`` to a part ``'valid'``, if the corpus has none.

        Args:
            fraction: the share of each class that is moved, rounded down; at least one text of each
                class stays in training.
            seed: the seed of the draw.

        Raises:
            ValueError: if ``fraction`` is not between 0 and 1, or so small that no text is taken.
        """
        if "valid" in self.parts:
            return
        if not 0 < fraction < 1:
            raise ValueError(f"fraction must be between 0 and 1, got {fraction}")
        train = self.parts["train"]
        held = drawn(self.labels, train, fraction, seed)
        if not held.any():
            raise ValueError(
                f"every class has too few of the {len(train)} training texts to hold {fraction:g} "
                "of it out to validate on"
            )
        self.parts = {
            "train": train[~held[train]],
            "valid": train[held[train]],
            "test": self.parts["test"],
        }
        self.split += f", {100 * fraction:g}% of each class held out of training (seed {seed})"

    def digest(self) -> str:
        """A fingerprint of texts, classes and parts: equal only if all of these are equal."""
        content = hashlib.sha256(repr((self.texts, self.classes)).encode())
        for numbers in (self.labels, *(self.parts[name] for name in sorted(self.parts))):
            content.update(numbers.contiguous().numpy().tobytes() + b";")
        return content.hexdigest()[:16]


def drawn(labels: Tensor, places: Tensor, fraction: float, seed: int) -> Tensor:
    """Draws a share of each class at random, but leaves at least one text of each."""
    generator = torch.Generator().manual_seed(seed)
    shuffled = places[torch.randperm(len(places), generator=generator)]
    taken = torch.zeros(len(labels), dtype=torch.bool)
    for index in labels.unique():
        members = shuffled[labels[shuffled] == index]
        taken[members[: max(0, min(int(fraction * len(members) + 1e-6), len(members) - 1))]] = True
    return taken


def with_parts(
    read: Sequence[tuple[list[list[str]], list[str]]],
    fraction: float,
    seed: int,
    path: Path,
    given: str,
    place: str = "",
) -> tuple[list[list[str]], list[str], dict[str, Tensor], str]:
    """The arguments of a corpus of one or two files; from a single file, a test part is drawn.

    `path` is the first file, `given` names the split of two files, `place` says where classes are.
    """
    if len(set(read[0][1])) < 2:
        raise ValueError(
            f"all texts of {path} have the class {read[0][1][0]!r}{place}: two or more are needed"
        )
    texts = [text for part, _ in read for text in part]
    labels = [label for _, part in read for label in part]
    if len(read) == 2:
        train, test = torch.arange(len(texts)).split([len(part) for part, _ in read])
        return texts, labels, {"train": train, "test": test}, given
    if not 0 < fraction < 1:
        raise ValueError(f"test_fraction must be between 0 and 1, got {fraction}")
    classes = torch.from_numpy(np.unique(labels, return_inverse=True)[1].astype(np.int64))
    tested = drawn(classes, torch.arange(len(labels)), fraction, seed)
    if not tested.any():
        raise ValueError(
            f"every class has too few of the {len(labels)} texts of {path.name} to draw "
            f"{fraction:g} of it as a test part: name a test file"
        )
    parts = {"train": (~tested).nonzero().flatten(), "test": tested.nonzero().flatten()}
    split = f"random {100 * fraction:g}% of each class of {path.name} for testing (seed {seed})"
    return texts, labels, parts, split


def _in_order(names: Iterable[str]) -> tuple[str, ...]:
    """Names by value if all of them are integers, otherwise in alphabetical order."""
    by_name = sorted(names)
    integers = all(map(INTEGER.fullmatch, map(str, by_name)))
    return tuple(sorted(by_name, key=int) if integers else by_name)


def _checked_parts(parts: Mapping[str, Sequence[int] | Tensor], number: int) -> dict[str, Tensor]:
    unknown = [name for name in parts if name not in PARTS]
    if unknown or "train" not in parts or "test" not in parts:
        raise ValueError(f"parts must be train, test and perhaps valid, got {', '.join(parts)}")
    places = {}
    for name in (name for name in PARTS if name in parts):
        try:
            places[name] = positions_in(parts[name], number, "texts")
        except (ValueError, IndexError) as error:
            raise type(error)(f"the {name} part: {error}") from None
    counts = torch.cat(list(places.values())).bincount()
    if int(counts.max()) > 1:
        raise ValueError(f"text {int(counts.argmax())} is in more than one part, or twice in one")
    return places
