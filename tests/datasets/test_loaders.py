"""Batches: the items that belong in them, in an order that can be taken up again."""

import math
from functools import partial
from itertools import chain, pairwise
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from torch_geometric.loader import DataLoader

from pyg_kernels.datasets import MoleculeDataset, MoleculeLoader, TextLoader, UniformBins
from pyg_kernels.datasets.text import EncodedTexts
from tests.chem.nci import readable_nci_smiles
from tests.datasets.test_molecules import assert_same_graphs

SMILES = list(dict.fromkeys(readable_nci_smiles()[:60]))[:50]
LENGTHS = [3, 1, 7, 2, 5, 4, 1, 6, 2, 9, 3, 8]
WORDS = [[100 * k + i for i in range(length)] for k, length in enumerate(LENGTHS)]
# The y of each item is its position.
molecules = MoleculeDataset.from_smiles(SMILES, torch.arange(50.0))
IDS, PTR = torch.tensor([*chain(*WORDS)]), torch.tensor([0, *LENGTHS]).cumsum(0)
texts = EncodedTexts(IDS, PTR, torch.arange(12))
LOADERS: dict[str, partial[Any]] = {
    "molecules": partial(MoleculeLoader, molecules),
    "texts": partial(TextLoader, texts),
    "buckets": partial(TextLoader, texts, bucket=2),
    "one bucket": partial(TextLoader, texts, bucket=100),
}
of_each = pytest.mark.parametrize("loader", LOADERS.values(), ids=LOADERS)


def order(loader: Any) -> list[int]:
    return [int(y) for batch in loader for y in batch.y]


def contents(batch: Any) -> list[list[int]]:
    return [batch.ids[a:b].tolist() for a, b in pairwise(batch.ptr.tolist())]


@of_each
def test_goes_through_the_given_items_only(loader: Any) -> None:
    assert order(loader([4, 2, 7, 2], batch_size=3)) == [4, 2, 7, 2]
    number = len(loader().dataset)
    mask = torch.arange(number) % 7 == 3
    places = list(range(3, number, 7))
    negative = [*places[:-1], places[-1] - number]
    for given in (places, negative, mask, mask.numpy(), pd.Series(places, places)):
        assert order(loader(given)) == places
    shuffled = order(loader(range(2, 12), batch_size=3, shuffle=True))
    assert sorted(shuffled) == list(range(2, 12)) != shuffled
    assert len(loader([7, 1, 5], batch_size=2)) == 2
    assert order(loader([7, 1, 5], batch_size=np.int64(2))) == [7, 1, 5]
    kind = "texts" if loader.func is TextLoader else "molecules"
    said = f"{loader.func.__name__}(3 {kind}, batch_size=2, shuffle=False)"
    assert repr(loader([7, 1, 5], batch_size=2)) == said


@of_each
def test_each_epoch_has_its_own_order_that_can_be_taken_up_again(loader: Any) -> None:
    state = torch.get_rng_state()
    whole = loader(batch_size=2, shuffle=True, seed=5)
    first, second, third = order(whole), order(whole), order(whole)
    assert torch.equal(torch.get_rng_state(), state)
    assert sorted(first) == sorted(second) == list(range(len(whole.dataset)))
    assert first != second != third
    resumed = loader(batch_size=2, shuffle=True, seed=5)
    resumed.set_epoch(2)
    assert order(resumed) == third
    assert order(loader(batch_size=2, shuffle=True, seed=6)) == second


# Molecules


@pytest.mark.parametrize(("drop_last", "number"), [(False, 4), (True, 3)])
def test_gives_the_batches_of_pytorch_geometric(drop_last: bool, number: int) -> None:
    loader = MoleculeLoader(molecules, batch_size=16, drop_last=drop_last)
    expected = DataLoader(molecules, 16, drop_last=drop_last)
    assert len(loader) == len(expected) == number
    for batch, other in zip(loader, expected, strict=True):
        assert_same_graphs(batch, other)
    assert len(MoleculeLoader(molecules, batch_size=25, drop_last=drop_last)) == 2
    assert len(MoleculeLoader(molecules, batch_size=64, drop_last=drop_last)) == 1 - drop_last
    assert order(MoleculeLoader(molecules[10:], [0, -1])) == [10, 49]


@pytest.mark.parametrize(("number", "smallest"), [(2, 1), (3, 2), (7, 2)])
def test_processes_share_every_batch(number: int, smallest: int) -> None:
    options: dict[str, Any] = {"batch_size": 12, "shuffle": True, "seed": 3}
    whole = MoleculeLoader(molecules, **options)
    loaders = [
        MoleculeLoader(molecules, **options, share=(rank, number), smallest_share=smallest)
        for rank in range(number)
    ]
    assert {len(loader) for loader in loaders} == {5}
    for _ in range(2):  # epochs
        for expected, *shares in zip(whole, *loaders, strict=True):
            y = expected.y.flatten().tolist()
            for rank, share in enumerate(shares):
                own, stand_ins = y[rank::number], share.y.isnan().flatten()
                assert share.y[~stand_ins].tolist() == [[value] for value in own]
                assert stand_ins.tolist() == sorted(stand_ins.tolist())
                assert share.num_graphs == max(smallest, len(own))
                assert set(share.smiles) <= set(expected.smiles)


def test_stand_ins_are_other_molecules_of_the_batch() -> None:
    (batch,) = MoleculeLoader(molecules, [4, 2, 7], 3, share=(2, 4), smallest_share=4)
    assert batch.smiles == [SMILES[i] for i in (7, 4, 2, 7)]
    assert batch.y.flatten().nan_to_num(-1).tolist() == [7, -1, -1, -1]
    (batch,) = MoleculeLoader(molecules, [4], 3, share=(1, 2))
    assert batch.smiles == [SMILES[4]]
    assert batch.y.isnan().all()
    (batch,) = MoleculeLoader(molecules, [4], 3, smallest_share=2)  # one process
    assert batch.y.tolist() == [[4]]


# Bins


def test_bins_are_half_open_ranges_of_the_width() -> None:
    values = torch.tensor([-0.05, -0.01, 0.0, 0.049, 0.05, 0.12, 7.0], dtype=torch.float64)
    bins = UniformBins(values, width=0.05)
    assert bins.bins.tolist() == [0, 0, 1, 1, 2, 3, 4]
    assert bins.counts.tolist() == [2, 2, 1, 1, 1]
    assert len(bins) == 7


def test_bins_and_items_of_a_bin_are_equally_likely() -> None:
    """Within sampling error."""
    values = torch.randn(5000, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    for given, width, num in ((values.exp(), 0.05, 100_000), (torch.ones(7), 0.5, 70_000)):
        bins = UniformBins(given, width)
        drawn, again, other = (bins.draw(num, torch.Generator().manual_seed(k)) for k in (1, 1, 2))
        assert torch.equal(drawn, again) and not torch.equal(drawn, other)
        number = len(bins.counts)
        for counts, expected in (
            (bins.bins[drawn].bincount(minlength=number), num / number),
            (drawn.bincount(minlength=len(given)), num / number / bins.counts[bins.bins]),
        ):
            # Chi-squared with K - 1 degrees of freedom has mean K - 1 and variance 2 (K - 1).
            chi_squared = float(((counts - expected) ** 2 / expected).sum())
            freedom = len(counts) - 1
            assert abs(chi_squared - freedom) <= 4 * math.sqrt(2 * freedom)


def test_bins_are_drawn_anew_each_pass_and_again_after_set_epoch() -> None:
    bins = UniformBins(torch.tensor([0.0, 0.0, 0.0, 9.0]), width=1.0)
    loader = MoleculeLoader(molecules, range(1, 5), batch_size=3, seed=5, bins=bins)
    passes = [order(loader) for _ in range(100)]
    assert all(len(one) == 4 for one in passes)
    assert {place for one in passes for place in one} == {1, 2, 3, 4}
    assert sum(one.count(4) for one in passes) / 400 == pytest.approx(0.5, abs=0.06)
    loader.set_epoch(7)
    assert order(loader) == passes[7]


# Texts


def test_a_batch_has_the_chosen_texts() -> None:
    batch = texts.batch(torch.tensor([4, 0, 4, 9]))
    assert contents(batch) == [WORDS[4], WORDS[0], WORDS[4], WORDS[9]]
    assert batch.y.tolist() == [4, 0, 4, 9]
    assert batch.lengths.tolist() == [5, 3, 5, 9]
    assert batch.text.tolist() == [0] * 5 + [1] * 3 + [2] * 5 + [3] * 9
    assert batch.num_texts == 4
    assert texts.lengths.tolist() == LENGTHS
    few = EncodedTexts(torch.tensor([5, 6, 7]), torch.tensor([0, 0, 2, 3]), torch.zeros(3))
    batch = few.batch(torch.tensor([2, 1, 0]))
    assert contents(batch) == [[7], [5, 6], []]
    nothing = texts.batch(torch.tensor([], dtype=torch.long))
    assert nothing.num_texts == 0


def test_a_bucket_is_cut_by_length() -> None:
    whole = TextLoader(texts, batch_size=2, shuffle=True, bucket=6)
    pairs = sorted(tuple(batch.lengths.tolist()) for batch in whole)
    assert pairs == [(1, 1), (2, 2), (3, 3), (4, 5), (6, 7), (8, 9)]
    # Two buckets of three batches: within a bucket, the lengths of batches do not overlap.
    halves = TextLoader(texts, batch_size=2, shuffle=True, seed=1, bucket=3)
    drawn = torch.randperm(12, generator=torch.Generator().manual_seed(1)).tolist()
    expected = []
    for half in (drawn[:6], drawn[6:]):
        lengths = sorted(LENGTHS[k] for k in half)
        expected += [tuple(lengths[i : i + 2]) for i in (0, 2, 4)]
    assert sorted(tuple(batch.lengths.tolist()) for batch in halves) == sorted(expected)


NOTHING, TWO = torch.tensor([], dtype=torch.long), torch.zeros(2)
BINS = UniformBins(torch.zeros(4), 1.0)


def test_refused() -> None:
    for call, arguments, error, said in (
        (TextLoader, (texts, None, 0), ValueError, "batch_size=0: expected"),
        (partial(TextLoader, bucket=0), (texts,), ValueError, "bucket=0: expected"),
        (TextLoader, (texts, NOTHING), ValueError, "at least one of the texts"),
        (TextLoader, (texts, [12]), IndexError, "index 12 is out of range for 12 texts"),
        (texts.batch, (torch.tensor([0, -2]),), IndexError, "index out of range"),
        (texts.batch, (torch.tensor([0, 12]),), IndexError, "index out of range"),
        (EncodedTexts, (TWO, torch.tensor([0, 3, 2]), TWO), ValueError, "in steps of at least 0"),
        (EncodedTexts, (TWO, torch.tensor([0, 2]), TWO), ValueError, r"of shape \(1,\).*\(2,\)"),
        *[
            (partial(MoleculeLoader, share=share), (molecules,), ValueError, rf"not \({said}\)")
            for share, said in [((2, 2), "2, 2"), ((-1, 2), "-1, 2"), ((0, 0), "0, 0")]
        ],
        (partial(MoleculeLoader, smallest_share=0), (molecules,), ValueError, "smallest_share=0"),
        (partial(MoleculeLoader, bins=BINS), (molecules,), ValueError, "of the 50 .*, not of 4"),
        (UniformBins, (torch.zeros(0), 0.1), ValueError, "at least one number"),
        (UniformBins, (torch.tensor([1.0, math.nan]), 0.1), ValueError, "must be finite"),
        (UniformBins, (TWO, 0.0), ValueError, "width must be a positive number, not 0.0"),
        (UniformBins, (TWO + 1, 1e-300), ValueError, "too small"),
    ):
        with pytest.raises(error, match=said):
            call(*arguments)
