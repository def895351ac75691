"""Batches: the texts that belong in them, in an order that can be taken up again."""

from functools import partial
from itertools import pairwise

import pytest
import torch

from pyg_kernels.datasets.text import EncodedTexts, TextLoader

LENGTHS = [3, 1, 7, 2, 5, 4, 1, 6, 2, 9, 3, 8]
WORDS = [[100 * k + i for i in range(length)] for k, length in enumerate(LENGTHS)]


@pytest.fixture
def texts() -> EncodedTexts:
    ids = torch.tensor([word for words in WORDS for word in words])
    ptr = torch.tensor([0, *LENGTHS]).cumsum(0)
    return EncodedTexts(ids, ptr, torch.arange(len(LENGTHS)) % 3)


def contents(batch) -> list[list[int]]:
    ends = batch.ptr.tolist()
    return [batch.ids[a:b].tolist() for a, b in pairwise(ends)]


def test_a_batch_has_the_chosen_texts(texts: EncodedTexts) -> None:
    batch = texts.batch(torch.tensor([4, 0, 4, 9]))
    assert contents(batch) == [WORDS[4], WORDS[0], WORDS[4], WORDS[9]]
    assert batch.y.tolist() == [1, 0, 1, 0]
    assert batch.lengths.tolist() == [5, 3, 5, 9]
    assert batch.text.tolist() == [0] * 5 + [1] * 3 + [2] * 5 + [3] * 9
    assert batch.num_texts == 4
    assert texts.lengths.tolist() == LENGTHS
    ids, mask = texts.batch(torch.tensor([3, 0])).padded()
    assert ids.tolist() == [[300, 301, 0], [0, 1, 2]]
    assert mask.tolist() == [[True, True, False], [True, True, True]]


def test_texts_without_words_and_batches_without_texts() -> None:
    texts = EncodedTexts(torch.tensor([5, 6]), torch.tensor([0, 0, 2, 2]), torch.zeros(3))
    batch = texts.batch(torch.tensor([2, 1, 0]))
    assert contents(batch) == [[], [5, 6], []]
    ids, mask = batch.padded(fill=9)
    assert ids.tolist() == [[9, 9], [5, 6], [9, 9]]
    assert mask.tolist() == [[False] * 2, [True] * 2, [False] * 2]
    nothing = texts.batch(torch.tensor([], dtype=torch.long))
    assert nothing.num_texts == 0
    assert nothing.padded()[0].shape == (0, 0)


def test_goes_through_the_given_texts_in_order(texts: EncodedTexts) -> None:
    loader = TextLoader(texts, torch.tensor([7, 1, 5]), batch_size=2)
    assert len(loader) == 2
    assert [contents(batch) for batch in loader] == [[WORDS[7], WORDS[1]], [WORDS[5]]]
    assert repr(loader) == "TextLoader(3 texts, batch_size=2, shuffle=False)"
    mask = torch.tensor([k in (1, 4, 7) for k in range(12)])
    for indices in ([1, 4, 7], [1, 4, -5], mask, mask.numpy()):
        (batch,) = TextLoader(texts, indices)
        assert contents(batch) == [WORDS[1], WORDS[4], WORDS[7]]
        assert batch.y.tolist() == [1, 1, 1]


@pytest.mark.parametrize("bucket", [1, 2, 100])
def test_each_epoch_has_each_text_once_in_an_order_of_its_own(
    texts: EncodedTexts, bucket: int
) -> None:
    loader = TextLoader(texts, batch_size=2, shuffle=True, seed=5, bucket=bucket)
    first, second = ([contents(batch) for batch in loader] for _ in range(2))
    for epoch in (first, second):
        assert sorted(text for batch in epoch for text in batch) == WORDS
    assert first != second
    again = TextLoader(texts, batch_size=2, shuffle=True, seed=5, bucket=bucket)
    again.set_epoch(1)
    assert [contents(batch) for batch in again] == second


def test_a_bucket_is_cut_by_length(texts: EncodedTexts) -> None:
    whole = TextLoader(texts, batch_size=2, shuffle=True, bucket=6)
    pairs = sorted(tuple(batch.lengths.tolist()) for batch in whole)
    assert pairs == [(1, 1), (2, 2), (3, 3), (4, 5), (6, 7), (8, 9)]
    # Two buckets of three batches: within each, no batch reaches into another's lengths.
    halves = TextLoader(texts, batch_size=2, shuffle=True, seed=1, bucket=3)
    order = torch.randperm(12, generator=torch.Generator().manual_seed(1)).tolist()
    expected = []
    for half in (order[:6], order[6:]):
        lengths = sorted(LENGTHS[k] for k in half)
        expected += [tuple(lengths[i : i + 2]) for i in (0, 2, 4)]
    assert sorted(tuple(batch.lengths.tolist()) for batch in halves) == sorted(expected)


def test_bad_arguments(texts: EncodedTexts) -> None:
    nothing, two = torch.tensor([], dtype=torch.long), torch.zeros(2)
    for call, arguments, error, said in (
        (TextLoader, (texts, None, 0), ValueError, "batch_size must be at least 1, not 0"),
        (partial(TextLoader, bucket=0), (texts,), ValueError, "bucket must be at least 1, not 0"),
        (TextLoader, (texts, nothing), ValueError, "at least one of the texts"),
        (TextLoader, (texts, [12]), IndexError, "index 12 is out of range for 12 texts"),
        (texts.batch, (torch.tensor([0, -2]),), IndexError, "from 0 to 11"),
        (texts.batch, (torch.tensor([0, 12]),), IndexError, "from 0 to 11"),
        (EncodedTexts, (two, torch.tensor([0, 3, 2]), two), ValueError, "without going back"),
        (EncodedTexts, (two, torch.tensor([0, 2]), two), ValueError, r"of shape \(1,\).*\(2,\)"),
    ):
        with pytest.raises(error, match=said):
            call(*arguments)
