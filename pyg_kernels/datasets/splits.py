"""Splits of a data set into training, validation and test parts."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor

Fractions = tuple[float, float, float]

PART_NAMES = {"train": 0, "training": 0, "valid": 1, "val": 1, "validation": 1, "test": 2}


class Split(NamedTuple):
    """Positions of the molecules of each part: three vectors of integers (int64).

    Attributes:
        train: the training part.
        valid: the validation part, which may be empty where none is asked for.
        test: the test part.
    """

    train: Tensor
    valid: Tensor
    test: Tensor


def random_split(num: int, fractions: Fractions = (0.8, 0.1, 0.1), seed: int = 0) -> Split:
    """Splits ``0 .. num - 1`` at random; the same seed gives the same split.

    Args:
        num: how many molecules there are.
        fractions: the shares of training, validation (may be 0) and test, which add up to 1.
        seed: the seed of the permutation.

    Raises:
        ValueError: if the fractions do not fit, or a part is empty.

    Example:
        >>> from pyg_kernels.datasets import random_split
        >>> split = random_split(100, seed=0)
        >>> len(split.train), len(split.valid), len(split.test)
        (80, 10, 10)
    """
    first, second = cuts(num, fractions)
    order = torch.randperm(num, generator=torch.Generator().manual_seed(seed))
    found = Split(order[:first], order[first:second], order[second:])
    return _checked(found, "random", fractions[1] > 0)


def scaffold_split(
    smiles: Sequence[str],
    fractions: Fractions = (0.8, 0.1, 0.1),
    seed: int | None = None,
    num_workers: int | None = None,
) -> Split:
    """Splits so that molecules with one Bemis-Murcko scaffold are all in one part.

    Whole scaffolds are dealt out, the largest first (of equally large ones, the one that appears
    last). Each goes to training if training stays within its share, else to validation if both
    together stay within theirs, else to test. These are the official scaffold splits of the Open
    Graph Benchmark (Hu et al. 2020). A seed shuffles the scaffolds instead, except that those with
    more molecules than half a validation or test part still come first, as in Chemprop. Molecules
    without rings share one scaffold.

    Args:
        smiles: M SMILES strings.
        fractions: the shares of training, validation (may be 0) and test, which add up to 1. The
            parts have them only approximately, since scaffolds stay whole.
        seed: the seed of a shuffle; None for largest first.
        num_workers: the number of processes that compute scaffolds; None for one per core if there
            are many molecules.

    Returns:
        A split with ascending positions.

    Raises:
        InvalidSmiles: if a string cannot be read.
        ValueError: if the fractions do not fit, or a part is empty.

    Example:
        >>> from pyg_kernels.datasets import scaffold_split
        >>> smiles = ["Cc1ccccc1", "CCc1ccccc1", "OC1CCCCC1", "c1ccncc1", "CC1CC1"]
        >>> split = scaffold_split(smiles, (0.6, 0.2, 0.2))
        >>> split.train.tolist(), split.valid.tolist(), split.test.tolist()
        ([0, 1, 4], [3], [2])
    """
    from pyg_kernels.chem import murcko_scaffolds

    first, second = cuts(len(smiles), fractions)
    members: dict[str, list[int]] = {}
    for position, scaffold in enumerate(murcko_scaffolds(smiles, num_workers)):
        members.setdefault(scaffold, []).append(position)
    train, valid, test = (list[int]() for _ in range(3))
    sizes = (second - first, len(smiles) - second)
    for group in _dealing_order(list(members.values()), min(filter(None, sizes), default=0), seed):
        if len(train) + len(group) <= first:
            train += group
        elif len(train) + len(valid) + len(group) <= second:
            valid += group
        else:
            test += group
    ascending = (torch.tensor(sorted(part), dtype=torch.long) for part in (train, valid, test))
    return _checked(Split(*ascending), "scaffold", fractions[1] > 0)


def column_split(values: Sequence[str]) -> Split:
    """Splits by the names in a column: ``train``, ``test`` and, optionally, ``valid`` (``val``).

    Args:
        values: M names of parts, in upper or lower case.

    Returns:
        A split with ascending positions.

    Raises:
        ValueError: if a value is none of these names, or ``train`` or ``test`` is missing.

    Example:
        >>> from pyg_kernels.datasets import column_split
        >>> column_split(["train", "test", "Train", "val"]).train.tolist()
        [0, 2]
    """
    values = list(values)
    parts = torch.tensor([PART_NAMES.get(str(value).strip().lower(), -1) for value in values])
    unknown = (parts < 0).nonzero().flatten().tolist()
    if unknown:
        raise ValueError(
            f"a split column must say one of {', '.join(PART_NAMES)}; "
            f"{len(unknown)} of {len(parts)} values do not, the first {values[unknown[0]]!r}"
        )
    return _checked(Split(*((parts == k).nonzero().flatten() for k in range(3))), "column", False)


def _dealing_order(groups: list[list[int]], smaller_part: int, seed: int | None) -> list[list[int]]:
    """Scaffolds in the order in which they are dealt out; ``groups`` is in order of appearance."""
    if seed is None:
        return sorted(groups, key=lambda group: (len(group), group[0]), reverse=True)
    order = torch.randperm(len(groups), generator=torch.Generator().manual_seed(seed)).tolist()
    return sorted((groups[k] for k in order), key=lambda group: len(group) <= smaller_part / 2)


def cuts(num: int, fractions: Fractions) -> tuple[int, int]:
    """Where training and validation end among ``num`` molecules in a row (rounded down)."""
    train, valid, test = fractions if len(fractions) == 3 else (0, 0, 0)
    if min(train, test) <= 0 or valid < 0 or not math.isclose(sum(fractions), 1.0):
        raise ValueError(
            "fractions must be three numbers that add up to 1, of training, validation (0: none) "
            f"and test, not {fractions}"
        )
    # 0.7 + 0.2 is a little less than 0.9: a whole number must not be rounded down.
    return math.floor(train * num + 1e-6), math.floor((train + valid) * num + 1e-6)


def _checked(split: Split, kind: str, needs_valid: bool) -> Split:
    if not all(len(part) for part in (split if needs_valid else split[::2])):
        sizes = ", ".join(f"{name} {len(part)}" for name, part in split._asdict().items())
        raise ValueError(f"the {kind} split leaves no molecules for a part: {sizes}")
    return split
