"""Reviews of beer with a rating of each of five aspects."""

import json
import sys
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from benchmarks.corpora.published_text import PartedTexts, numbered, obtain_text

NUM_ASPECTS = 5  # appearance, smell, palate, taste, overall
SOURCE = "http://people.csail.mit.edu/taolei/beer"


class BeerAdvocate(PartedTexts):
    r"""Reviews of beer with ratings of one of five aspects, and which words are about it.

    McAuley et al. 2012 collected the reviews and marked in some of them what each sentence is
    about. Lei et al. 2016 published them tokenised. Each aspect K of the first three has a training
    and a validation part (``reviews.aspectK.train.txt.gz`` and ``reviews.aspectK.heldout.txt.gz``),
    picked so that the ratings are less correlated (Lei's thesis, 2017, section 3.4.1, note 3). A
    line is ``y1 .. y5 <tab> words``, with ratings from 0 to 1. ``annotations.json`` has the test
    reviews, one object on each line: ``{"x": words, "y": ratings, "0": [[start, end], ...], ...,
    "4": [...]}``, where the words from start to end - 1 are about the aspect of that number. In the
    other parts the evidence is not known.

    Args:
        root: the folder of the three files, which cannot be downloaded by a program.
        aspect: K, counted from 0: appearance, smell, palate (and taste and overall, if their files
            exist).
    """

    def __init__(self, root: str | Path, aspect: int = 0) -> None:
        first, second = (f"reviews.aspect{aspect}.{name}.txt" for name in ("train", "heldout"))
        files = {"train": first, "valid": second, "test": "annotations.json"}
        self.texts, self.evidence, self.parts = [], [], {}
        rated: list[float] = []
        for part, name in files.items():
            start = len(self.texts)
            for where, line in numbered(obtain_text(root, name, SOURCE)):
                marks: Tensor | None = None
                if part == "test":
                    words, ratings, marks = _annotated(line, aspect, where)
                else:
                    cells, _, text = line.partition("\t")
                    words, ratings = text.split(), cells.split()
                rated.append(_checked(ratings, where)[aspect])
                if not words or not all(isinstance(word, str) for word in words):
                    raise ValueError(f"{where}: expected words, got {words}")
                self.texts.append(list(map(sys.intern, words)))  # few are different
                self.evidence.append(marks)
            self.parts[part] = torch.arange(start, len(self.texts))
        self.y = torch.tensor(rated, dtype=torch.float64)
        self.split = "published parts, annotated reviews to test on"


def _annotated(line: str, aspect: int, where: str) -> tuple[list[Any], list[Any], Tensor]:
    """The words and ratings of a JSON object, and which words are about an aspect."""
    try:
        record = json.loads(line)
        words, ratings = list(record["x"]), list(record["y"])
        marks = torch.zeros(len(words), dtype=torch.bool)
        for start, end in record[str(aspect)]:
            if not 0 <= start <= end <= len(words):
                raise ValueError(f"[{start}, {end}] is not within {len(words)} words")
            marks[start:end] = True
    except (KeyError, TypeError, ValueError) as error:
        raise ValueError(f"{where} is no annotated review: {error}") from error
    return words, ratings, marks


def _checked(values: list[Any], where: str) -> list[float]:
    try:
        ratings = [float(value) for value in values]
    except (TypeError, ValueError):
        ratings = []
    if len(ratings) != NUM_ASPECTS or not all(0 <= rating <= 1 for rating in ratings):
        raise ValueError(f"{where}: expected {NUM_ASPECTS} ratings from 0 to 1, got {values}")
    return ratings
