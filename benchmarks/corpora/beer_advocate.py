"""Reviews of beer with a rating of each of five aspects."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor

from benchmarks.corpora.published_text import PartedTexts, numbered, obtain_text

ASPECTS = ("appearance", "smell", "palate", "taste", "overall")
SOURCE = "http://people.csail.mit.edu/taolei/beer"
ANNOTATIONS = "annotations.json"


class BeerAdvocate(PartedTexts):
    r"""Reviews of beer with ratings of five aspects, and where the words on each of them stand.

    McAuley et al. 2012 collected the reviews and marked in some of them what each sentence is
    about; Lei et al. 2016 published them tokenised, as they used them to measure rationales: for an
    aspect K of the first three a part to train on and one to validate on
    (``reviews.aspectK.train.txt.gz`` and ``reviews.aspectK.heldout.txt.gz``), picked so that the
    ratings are less correlated (Lei's thesis, 2017, section 3.4.1, note 3). A line is
    ``y1 .. y5 <tab> words``, with ratings from 0 to 1. ``annotations.json`` has the reviews to test
    on, an object ``{"x": words, "y": ratings, "0": [[start, end], ...], ..., "4": [...]}`` a line,
    where words start to end - 1 are on the aspect of that number.

    Args:
        root: the folder in which (or in whose folder ``raw``) the three files lie, as they are or
            compressed (``.gz``). They cannot be downloaded by a program.
        aspect: K, from 0: appearance, smell, palate (and taste and overall, where there are files
            of them).

    Attributes:
        aspect: as given.
        aspects: the names of the five, in the order of their ratings.
        texts: M lists of words.
        ratings: (M, 5) float32, each from 0 to 1.
        parts: the positions of ``'train'``, ``'valid'`` and ``'test'``, int64.
        annotations: for each text of the test part, in its order, (5, T) bool, whether a word is on
            an aspect.
        split: how the parts came about, in a few words.
    """

    aspects = ASPECTS

    def __init__(self, root: str | Path, aspect: int = 0) -> None:
        if not 0 <= aspect < len(ASPECTS):
            raise ValueError(f"aspect must be from 0 to {len(ASPECTS) - 1}, got {aspect}")
        self.aspect = aspect
        reader = _Reader()
        parts: dict[str, list[_Review]] = {}
        for part, name in (("train", "train"), ("valid", "heldout")):
            file = f"reviews.aspect{aspect}.{name}.txt"
            parts[part] = reader.reviews(obtain_text(root, file, SOURCE))
        parts["test"] = reader.annotated(obtain_text(root, ANNOTATIONS, SOURCE))
        reviews = [review for part in parts.values() for review in part]
        self.texts = [review.words for review in reviews]
        self.ratings = torch.tensor([review.ratings for review in reviews], dtype=torch.float32)
        self.annotations = [review.marks for review in parts["test"] if review.marks is not None]
        self.parts: dict[str, Tensor] = {}
        start = 0
        for part, some in parts.items():
            self.parts[part] = torch.arange(start, start + len(some))
            start += len(some)
        self.split = "published parts, annotated reviews to test on"

    @property
    def evidence(self) -> list[Tensor | None]:
        """For each text (T,) bool, whether a word is on ``aspect``; None: it is not annotated."""
        marks = iter(self.annotations)
        tested = set(self.parts["test"].tolist())
        return [next(marks)[self.aspect] if i in tested else None for i in range(len(self))]

    def digest(self) -> str:
        """A fingerprint of texts, ratings, annotations and parts: equal only if all are."""
        return self.fingerprint(self.aspect, self.ratings, *self.annotations)


class _Review(NamedTuple):
    words: list[str]
    ratings: list[float]
    marks: Tensor | None = None


class _Reader:
    """Reads reviews; holds each word once, since large sets have few different ones."""

    def __init__(self) -> None:
        self._words: dict[str, str] = {}

    def reviews(self, path: Path) -> list[_Review]:
        """The lines ``y1 .. y5 <tab> words`` of a file."""
        found = []
        for where, line in numbered(path):
            ratings, tab, text = line.partition("\t")
            if not tab:
                raise ValueError(f"{where} is not 'y1 y2 y3 y4 y5 <tab> words': it has no tab")
            found.append(
                _Review(self._checked(text.split(), where), _ratings(ratings.split(), where))
            )
        return found

    def annotated(self, path: Path) -> list[_Review]:
        """The reviews of a file of one JSON object a line."""
        found = []
        for where, line in numbered(path):
            record = _record(line, where)
            if not isinstance(record["x"], list):
                raise ValueError(f"{where}: 'x' must be a list of words")
            words = self._checked(record["x"], where)
            if not isinstance(record["y"], list):
                raise ValueError(f"{where}: 'y' must be a list of ratings")
            marks = torch.stack(
                [
                    _marks(record[str(k)], len(words), f"{where}: {str(k)!r}")
                    for k in range(len(ASPECTS))
                ]
            )
            found.append(_Review(words, _ratings(record["y"], where), marks))
        return found

    def _checked(self, words: list[Any], where: str) -> list[str]:
        if not words:
            raise ValueError(f"{where} has no words")
        for word in words:
            if not isinstance(word, str):
                raise ValueError(f"{where}: a word must be a string, got {word!r}")
        return [self._words.setdefault(word, word) for word in words]


def _record(line: str, where: str) -> dict[str, Any]:
    """The JSON object of a line, with all its keys."""
    try:
        record = json.loads(line)
    except json.JSONDecodeError as error:
        raise ValueError(f"{where} is not JSON: {error}") from error
    if not isinstance(record, dict):
        raise ValueError(f"{where} is not a JSON object")
    for key in ("x", "y", *map(str, range(len(ASPECTS)))):
        if key not in record:
            raise ValueError(f"{where} has no {key!r}")
    return record


def _ratings(values: list[Any], where: str) -> list[float]:
    if len(values) != len(ASPECTS):
        raise ValueError(f"{where} has {len(values)} ratings, expected {len(ASPECTS)}")
    ratings = []
    for value in values:
        try:
            rating = math.nan if isinstance(value, bool) else float(value)
        except (TypeError, ValueError):
            rating = math.nan
        if not 0 <= rating <= 1:
            raise ValueError(f"{where}: a rating must be a number from 0 to 1, got {value!r}")
        ratings.append(rating)
    return ratings


def _marks(spans: Any, length: int, where: str) -> Tensor:
    """Which of a number of words lie in ``[start, end)`` of some span."""
    marks = torch.zeros(length, dtype=torch.bool)
    if not isinstance(spans, list):
        raise ValueError(f"{where} must be a list of [start, end], got {spans!r}")
    for span in spans:
        whole = isinstance(span, list) and [type(end) for end in span] == [int, int]
        if not whole or not 0 <= span[0] <= span[1] <= length:
            raise ValueError(f"{where} must have [start, end] within {length} words, got {span!r}")
        marks[span[0] : span[1]] = True
    return marks
