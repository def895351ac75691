"""BM25 scores against their formula."""

import math

import pytest
import torch

from benchmarks.corpora.bm25 import BM25Index

pytest.importorskip("bm25s", reason="search needs the extra 'bench'")


def bm25_by_definition(query: list[str], text: list[str], texts: list[list[str]]) -> float:
    """The formula in the docstring, word by word of the query."""
    mean = sum(map(len, texts)) / len(texts)
    total = 0.0
    for word in query:
        containing = sum(word in other for other in texts)
        rarity = math.log(1 + (len(texts) - containing + 0.5) / (containing + 0.5))
        count = text.count(word)
        total += rarity * count / (count + 1.2 * (1 - 0.75 + 0.75 * len(text) / mean))
    return total


@pytest.fixture
def texts() -> list[list[str]]:
    return [text.split() for text in ("a b b", "b c", "d d d d d", "a c d", "a")] + [[]]


@pytest.mark.parametrize("query", ["a b", "a a", "b zz d", "zz", ""])
def test_bm25_equals_its_formula(texts: list[list[str]], query: str) -> None:
    expected = [bm25_by_definition(query.split(), text, texts) for text in texts]
    torch.testing.assert_close(BM25Index(texts).scores(query.split()), torch.tensor(expected))
    with pytest.raises(ValueError, match="none of the texts to search has words"):
        BM25Index([[], []])
