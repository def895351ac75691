"""Which rows of a table are learned, held out and tested."""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
from sklearn.model_selection import GroupKFold, GroupShuffleSplit

from pyg_kernels.chem import murcko_scaffolds
from pyg_kernels.datasets import column_split, random_split, scaffold_split
from pyg_kernels.datasets.splits import cuts
from pyg_kernels.molecules.command import say
from pyg_kernels.molecules.training_data import Data, Rows
from pyg_kernels.tables import listed

VALIDATION = 0.1  # the share of fitted rows that is held out, in whole groups


class Part(NamedTuple):
    """One way to divide the rows."""

    label: str
    fitted: Rows
    valid: Rows | None
    test: Rows


def check_split(options: Namespace) -> None:
    """Refuses options that contradict one another."""
    if (options.split == "column") != (options.split_column is not None):
        raise ValueError("--split column and --split-column go together")
    if options.split == "column" and (options.folds or options.repeats > 1):
        raise ValueError("--split column is one split: leave --folds and --repeats out")
    if options.groups_column and options.split != "random":
        raise ValueError("--groups-column is a split of its own: leave --split out")
    if not options.folds:
        cuts(0, options.fractions)  # refuses those that do not fit


def split_name(options: Namespace) -> str:
    """How rows are divided."""
    kind = f"groups of {options.groups_column}" if options.groups_column else options.split
    if options.folds:
        return f"{kind}, {options.folds} folds" + f" x {options.repeats}" * (options.repeats > 1)
    if options.split == "column":
        return f"column {options.split_column}"
    sizes = "/".join(f"{fraction:g}" for fraction in options.fractions)
    return f"{kind}, {sizes}" + f", {options.repeats} times" * (options.repeats > 1)


def splits(data: Data, options: Namespace) -> Iterator[Part]:
    """The parts that are scored; after several, one more that fits all rows and tests none."""
    groups = _groups(data, options)
    for label, fitted, valid, test in _scored(data, groups, options):
        _warn_of_duplicates(data, fitted, valid, test)
        if valid is None:
            valid = whole_groups(groups, fitted, options.seed)
        yield Part(label, fitted, valid, test)
    if options.folds or options.repeats > 1:
        rows = np.arange(len(data))
        yield Part("all", rows, whole_groups(groups, rows, options.seed), rows[:0])


def searched(data: Data, options: Namespace) -> Iterator[Part]:
    """The parts that a search is scored on: validation parts, or folds; never a test part."""
    groups = _groups(data, options)
    for label, fitted, valid, test in _scored(data, groups, options):
        if valid is None and not options.folds:
            raise ValueError(
                "settings are scored on the validation part, and the split has none: give --folds, "
                "or --fractions with one"
            )
        if valid is not None:
            fitted, test = np.delete(fitted, valid), fitted[valid]
        yield Part(label, fitted, whole_groups(groups, fitted, options.seed), test)


def whole_groups(groups: Rows | None, fitted: Rows, seed: int) -> Rows | None:
    """The positions, among the fitted rows, of the groups that are drawn for validation.

    Groups are drawn in random order, and each is kept that fits into what is left of the share; if
    none does, the smallest. None without groups, or with one: the estimator then draws single rows.
    """
    if groups is None:
        return None
    names, group, sizes = np.unique(groups[fitted], return_inverse=True, return_counts=True)
    if len(names) < 2:
        say(f"warning: one group is fitted, {names[0]}: its validation part is drawn from it")
        return None
    room = max(VALIDATION * len(fitted), float(sizes.min()))
    drawn = []
    for place in np.random.default_rng(seed).permutation(len(names)):
        if sizes[place] <= room:
            drawn.append(place)
            room -= sizes[place]
    return np.flatnonzero(np.isin(group, drawn))


def _groups(data: Data, options: Namespace) -> Rows | None:
    """What stays whole when rows are divided: groups, scaffolds, or None for single rows."""
    if options.split == "scaffold":
        return np.array(murcko_scaffolds(data.molecules.smiles))
    return data.cells("group")


def _scored(data: Data, groups: Rows | None, options: Namespace) -> Iterator[Part]:
    number = len(data)
    if options.folds:
        kind = "molecules" if groups is None else "groups"
        kind = "scaffolds" if options.split == "scaffold" else kind
        groups = np.arange(number) if groups is None else groups
        there = len(np.unique(groups))
        if options.folds > there:
            raise ValueError(f"--folds {options.folds}: there are {there:,} {kind} to divide")
        for repeat in range(options.repeats):
            folds = GroupKFold(options.folds, shuffle=True, random_state=options.seed + repeat)
            for fold, (fitted, test) in enumerate(folds.split(groups, groups=groups)):
                label = f"fold {fold + 1}" + f", repeat {repeat + 1}" * (options.repeats > 1)
                yield Part(label, fitted, None, test)
        return
    fractions = tuple(options.fractions)
    for repeat in range(options.repeats):
        seed = options.seed + repeat
        if options.groups_column:
            parts: Any = _group_split(data.cells("group"), fractions, seed)
        elif options.split == "column":
            parts = column_split(data.cells("part"))
        elif options.split == "scaffold":
            # A single split is that of OGB, the largest scaffolds first; several are shuffled.
            shuffled = seed if options.repeats > 1 else None
            parts = scaffold_split(data.molecules.smiles, fractions, shuffled)
        else:
            parts = random_split(number, fractions, seed)
        learned, valid, test = map(np.asarray, parts)
        fitted = np.concatenate([learned, valid])
        held = np.arange(len(learned), len(fitted)) if len(valid) else None
        yield Part(f"split {repeat + 1}", fitted, held, test)


def _group_split(groups: Rows, fractions: tuple[float, ...], seed: int) -> tuple[Rows, ...]:
    _, valid, test = fractions
    there, needed = len(np.unique(groups)), 2 + (valid > 0)
    if there < needed:
        raise ValueError(f"--groups-column: there are {there} groups, the parts need {needed}")
    rows = np.arange(len(groups))
    outer = GroupShuffleSplit(1, test_size=test, random_state=seed)
    rest, last = next(outer.split(rows, groups=groups))
    if not valid:
        return rest, rest[:0], last
    inner = GroupShuffleSplit(1, test_size=valid / (1 - test), random_state=seed)
    first, second = next(inner.split(rest, groups=groups[rest]))
    return rest[first], rest[second], last


def _warn_of_duplicates(data: Data, fitted: Rows, valid: Rows | None, test: Rows) -> None:
    held, canonical = fitted[:0] if valid is None else fitted[valid], data.cells("canonical")
    learned = np.setdiff1d(fitted, held)
    for rows, kind, seen in ((held, "validation", learned), (test, "test", fitted)):
        again = data.rows.index[rows[np.isin(canonical[rows], canonical[seen])]]
        if len(again):
            say(f"warning: {len(again)} {kind} molecules are fitted, too: lines {listed(again)}")
