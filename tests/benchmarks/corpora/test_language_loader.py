"""Batches of parallel streams."""

import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from benchmarks.corpora.language_loader import LanguageLoader


def columns(loader: LanguageLoader) -> tuple[Tensor, Tensor]:
    """What the streams read and predict in all batches of an epoch."""
    batches = list(loader)
    return (
        torch.cat([batch.ids for batch in batches]).t(),
        torch.cat([batch.targets for batch in batches]).t(),
    )


def test_streams_go_on_from_batch_to_batch() -> None:
    loader = LanguageLoader(torch.arange(22), batch_size=3, steps=3)
    batches = list(loader)
    assert len(loader) == len(batches) == 3
    assert [tuple(batch.ids.shape) for batch in batches] == [(3, 3), (3, 3), (1, 3)]
    assert batches[0].ids.tolist() == [[0, 7, 14], [1, 8, 15], [2, 9, 16]]
    assert batches[1].ids.t().tolist() == [[3, 4, 5], [10, 11, 12], [17, 18, 19]]
    for ids, targets in loader:
        assert torch.equal(targets, ids + 1)


@given(st.integers(1, 40), st.integers(1, 12), st.integers(1, 9))
def test_an_evaluation_predicts_every_word_once(words: int, batch_size: int, steps: int) -> None:
    stream = torch.arange(100, 100 + words)
    loader = LanguageLoader(stream, batch_size, steps, before=7, whole=True)
    ids, targets = columns(loader)
    counted = targets != -100
    assert targets[counted].tolist() == stream.tolist()
    assert ids[counted].tolist() == [7, *stream[:-1].tolist()]
    # A stream is filled up at its end alone.
    assert bool((counted[:, 1:] <= counted[:, :-1]).all())


def test_words_that_fill_no_row_are_left_out() -> None:
    ids, targets = columns(LanguageLoader(torch.arange(22), batch_size=5, steps=35))
    assert ids.flatten().tolist() == list(range(20))
    assert targets.flatten().tolist() == list(range(1, 21))
    ids, _ = columns(LanguageLoader(torch.arange(4), batch_size=20))
    assert ids.tolist() == [[0], [1], [2]]  # few words make fewer streams
    _, targets = columns(LanguageLoader(torch.arange(8), batch_size=2, whole=True))
    assert targets.tolist() == [[1, 2, 3, 4], [5, 6, 7, -100]]


def test_drawn_numbers_of_steps() -> None:
    few = LanguageLoader(torch.arange(2001), 1, 2, vary=True)
    assert min(len(batch.ids) for batch in list(few)[:-1]) == 5

    def sizes(epoch: int, seed: int = 0) -> list[int]:
        loader = LanguageLoader(torch.arange(100_001), 1, 70, vary=True, seed=seed)
        loader.set_epoch(epoch)
        batches = list(loader)
        assert len(loader) == len(batches)
        assert torch.equal(torch.cat([b.ids for b in batches]).flatten(), torch.arange(100_000))
        return [len(batch.ids) for batch in batches][:-1]

    drawn = sizes(0)
    assert drawn == sizes(0)
    assert drawn != sizes(1)
    assert drawn != sizes(0, seed=1)
    assert sizes(0, seed=2**62) == sizes(0, seed=2**62)
    numbers = torch.tensor(drawn, dtype=torch.float64)
    usual = numbers[numbers > 52.5]
    assert 0.02 < 1 - len(usual) / len(numbers) < 0.08
    assert abs(usual.mean().item() - 69.5) < 1
    assert 4 < usual.std().item() < 6
    assert abs(numbers[numbers < 52.5].mean().item() - 34.5) < 2
