import pandas as pd
import pytest
import torch

from pyg_kernels.chem import murcko_scaffolds
from pyg_kernels.datasets import Split, column_split, random_split, scaffold_split
from tests.chem.nci import readable_nci_smiles


def assert_partition(split: Split, num: int) -> None:
    assert all(part.dtype == torch.int64 for part in split)
    assert torch.equal(torch.cat(split).sort().values, torch.arange(num))


def test_random_split_is_a_partition_of_the_asked_sizes_by_the_seed_alone() -> None:
    for num in range(10, 500, 7):
        split = random_split(num, seed=num)
        assert_partition(split, num)
        assert len(split.train) == 8 * num // 10
        assert len(split.train) + len(split.valid) == 9 * num // 10
    assert all(map(torch.equal, random_split(100, seed=3), random_split(100, seed=3)))
    assert not torch.equal(random_split(100, seed=3).train, random_split(100, seed=4).train)
    sizes = [len(part) for part in random_split(10, (0.7, 0.2, 0.1))]
    assert sizes == [7, 2, 1]


def test_no_scaffold_is_in_two_parts() -> None:
    smiles = readable_nci_smiles()[:200]
    scaffolds = murcko_scaffolds(smiles)
    splits = [scaffold_split(smiles, (0.6, 0.2, 0.2), seed) for seed in (None, 0, 1, 1)]
    for split in splits:
        assert_partition(split, 200)
        found = [{scaffolds[i] for i in part} for part in split]
        assert sum(map(len, found)) == len(set.union(*found))
        assert all(torch.equal(part, part.sort().values) for part in split)
        assert 0.5 < len(split.train) / 200 <= 0.6
    assert all(map(torch.equal, splits[2], splits[3]))
    assert not torch.equal(splits[1].test, splits[2].test)


def test_largest_scaffolds_are_trained_on() -> None:
    # Five benzenes, three pyridines, two chains: 10 molecules, 5 + 3 + 2 in whole scaffolds.
    smiles = ["CC", "c1ccccc1C", "c1ccncc1C", "c1ccccc1O", "c1ccncc1", "CCO", "c1ccccc1CC"]
    smiles += ["c1ccccc1N", "c1ccncc1O", "c1ccccc1"]
    split = scaffold_split(smiles, (0.5, 0.3, 0.2))
    assert split.train.tolist() == [1, 3, 6, 7, 9]
    assert split.valid.tolist() == [2, 4, 8]
    assert split.test.tolist() == [0, 5]


def test_column_split() -> None:
    values = ["train", "Valid", "test", "val", "training", " validation", "TEST"]
    split = column_split(values)
    assert [part.tolist() for part in split] == [[0, 4], [1, 3, 5], [2, 6]]


def test_splits_without_a_validation_part_have_the_same_test_part() -> None:
    assert [part.tolist() for part in column_split(["train", "test"])] == [[0], [], [1]]
    whole, both = random_split(100, (0.9, 0, 0.1)), random_split(100)
    assert torch.equal(whole.test, both.test) and whole.valid.tolist() == []
    assert torch.equal(whole.train, torch.cat(both[:2]))
    rings = [f"{'C' * k}c1ccccc1" for k in range(1, 61)]  # one scaffold
    rings += [f"C1{'C' * k}C1" for k in range(2, 42)]
    for seed in (None, 14, 18):
        assert [len(part) for part in scaffold_split(rings, (0.9, 0, 0.1), seed)] == [90, 0, 10]


FRACTIONS = "three numbers that add up to 1"
NOTHING = "split leaves no molecules for a part"
NAMES = pd.Series(["train", "valid", "else"], index=[5, 6, 7])


def test_refused() -> None:
    for split, arguments, message in (
        (column_split, [NAMES], "the first 'else'"),  # by position, whatever the index
        (column_split, [["train", "valid", "tset", ""]], "2 of 4 values do not, the first 'tset'"),
        (column_split, [["train", "val"]], f"column {NOTHING}: train 1, valid 1, test 0"),
        (column_split, [[]], f"column {NOTHING}: train 0, valid 0, test 0"),
        (random_split, [100, (0.5, 0.5)], FRACTIONS),
        (random_split, [100, (0.8, 0.1, 0.2)], FRACTIONS),
        (random_split, [100, (1.2, -0.1, -0.1)], FRACTIONS),
        (random_split, [100, (0.9, 0.1, 0)], FRACTIONS),
        (random_split, [3], f"random {NOTHING}: train 2, valid 0"),
        (scaffold_split, [[]], f"scaffold {NOTHING}: train 0"),
        (scaffold_split, [["CCO", "CC", "C"]], f"scaffold {NOTHING}: train"),
        (scaffold_split, [["CCO", "C(C"]], r"C\(C"),
    ):
        with pytest.raises(ValueError, match=message):
            split(*arguments)
