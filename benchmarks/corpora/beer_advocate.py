"""Reviews of beer with a rating of each of five aspects."""

import json
import sys
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor

from benchmarks.corpora.published_text import PartedTexts, numbered, obtain_text

ASPECTS = ("appearance", "smell", "palate", "taste", "overall")
SOURCE = "http://people.csail.mit.edu/taolei/beer"


class BeerAdvocate(PartedTexts):
    r"""Reviews of beer with ratings of five aspects, and which words are about each aspect.

    McAuley et al. 2012 collected the reviews and marked in some of them what each sentence is
    about. Lei et al. 2016 used them to measure rationales and published them tokenised. Each aspect
    K of the first three has a training and a validation part (``reviews.aspectK.train.txt.gz`` and
    ``reviews.aspectK.heldout.txt.gz``), picked so that the ratings are less correlated (Lei's
    thesis, 2017, section 3.4.1, note 3). A line is ``y1 .. y5 <tab> words``, with ratings from 0 to
    1. ``annotations.json`` has the test reviews, one object on each line:
    ``{"x": words, "y": ratings, "0": [[start, end], ...], ..., "4": [...]}``, where the words from
    start to end - 1 are about the aspect of that number.

    Args:
        root: the folder of the three files, which cannot be downloaded by a program.
        aspect: K, counted from 0: appearance, smell, palate (and taste and overall, if their files
            exist).

    Attributes:
        ratings: (M, 5) float32, each from 0 to 1.
        y: (M,) float64, the ratings of ``aspect``.
        evidence: for each text (T,) bool, which words are about ``aspect``; None if not annotated.
    """

    def __init__(self, root: str | Path, aspect: int = 0) -> None:
        self.aspect = aspect
        first, second = (f"reviews.aspect{aspect}.{name}.txt" for name in ("train", "heldout"))
        files = {"train": first, "valid": second, "test": "annotations.json"}
        reviews: list[_Review] = []
        self.parts = {}
        for part, name in files.items():
            read, start = _annotated if part == "test" else _rated, len(reviews)
            lines = numbered(obtain_text(root, name, SOURCE))
            reviews += [read(line, where) for where, line in lines]
            self.parts[part] = torch.arange(start, len(reviews))
        self.texts = [review.words for review in reviews]
        self.ratings = torch.tensor([review.ratings for review in reviews], dtype=torch.float32)
        self.y = self.ratings[:, aspect].double()
        self.evidence = [None if one.marks is None else one.marks[aspect] for one in reviews]
        self.split = "published parts, annotated reviews to test on"

    def digest(self) -> str:
        marks = [marks for marks in self.evidence if marks is not None]
        return self.fingerprint(self.aspect, self.ratings, *marks)


class _Review(NamedTuple):
    words: list[str]
    ratings: list[float]
    marks: Tensor | None = None


def _rated(line: str, where: str) -> _Review:
    """The review of a line ``y1 .. y5 <tab> words``."""
    ratings, _, text = line.partition("\t")
    return _review(text.split(), ratings.split(), where)


def _annotated(line: str, where: str) -> _Review:
    """The review of a line that is a JSON object."""
    try:
        record = json.loads(line)
        words, ratings = list(record["x"]), list(record["y"])
        marks = torch.zeros(len(ASPECTS), len(words), dtype=torch.bool)
        for aspect in range(len(ASPECTS)):
            for start, end in record[str(aspect)]:
                if not 0 <= start <= end <= len(words):
                    raise ValueError(f"[{start}, {end}] is not within {len(words)} words")
                marks[aspect, start:end] = True
    except (KeyError, TypeError, ValueError) as error:
        raise ValueError(f"{where} is no annotated review: {error}") from error
    return _review(words, ratings, where)._replace(marks=marks)


def _review(words: list[Any], values: list[Any], where: str) -> _Review:
    try:
        ratings = [float(value) for value in values]
    except (TypeError, ValueError):
        ratings = []
    if len(ratings) != len(ASPECTS) or not all(0 <= rating <= 1 for rating in ratings):
        raise ValueError(f"{where}: expected {len(ASPECTS)} ratings from 0 to 1, got {values}")
    if not words or not all(isinstance(word, str) for word in words):
        raise ValueError(f"{where}: expected words, got {words}")
    return _Review(list(map(sys.intern, words)), ratings)  # large sets have few different words
