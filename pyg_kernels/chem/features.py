"""The atom and bond features: which choices each one-hot has, in which order."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray
from rdkit import Chem

Choice = str | int | bool


@dataclass(frozen=True)
class Feature:
    """One categorical property of an atom or a bond, and the columns that it fills.

    A property is stored as a small integer *code*, the position of its value in ``choices``. A
    value that is not among them takes the code ``len(choices)`` and, in the float features, a slot
    of its own, if ``has_unknown``. A yes-or-no property (``choices=(False, True)``) fills one
    column that is 0 or 1, unless ``one_hot``; every other property fills one column a slot.

    Args:
        name: what the property is called.
        choices: the values that have a slot, in the order of the slots.
        values: the integer by which RDKit names each choice (the atomic number of an element, the
            number of a ``Chem.BondType``, a count, 0 or 1).
        has_unknown: whether a value that is not among the choices has a slot after them.
        one_hot: whether a yes-or-no property fills a column for no and one for yes.
    """

    name: str
    choices: tuple[Choice, ...]
    values: tuple[int, ...]
    has_unknown: bool
    one_hot: bool = False

    @property
    def is_indicator(self) -> bool:
        """Whether the property is yes or no and fills a single column."""
        return self.choices == (False, True) and not self.one_hot

    @property
    def num_codes(self) -> int:
        """How many different codes there are: ``0 .. num_codes - 1``."""
        return len(self.choices) + self.has_unknown

    @property
    def width(self) -> int:
        """The number of float columns."""
        return 1 if self.is_indicator else self.num_codes

    def encode(self, values: ArrayLike) -> NDArray[np.uint8]:
        """The codes of RDKit's integers, elementwise; an unlisted one is ``len(choices)``."""
        return self._table()[np.minimum(np.asarray(values, dtype=np.int64), max(self.values) + 1)]

    def _table(self) -> NDArray[np.uint8]:
        table = np.full(max(self.values) + 2, len(self.choices), dtype=np.uint8)
        table[list(self.values)] = np.arange(len(self.values), dtype=np.uint8)
        return table


def _counts(name: str, largest: int) -> Feature:
    numbers = tuple(range(largest + 1))
    return Feature(name, numbers, numbers, has_unknown=True)


def _indicator(name: str) -> Feature:
    return Feature(name, (False, True), (0, 1), has_unknown=False)


def _elements(symbols: Sequence[str]) -> Feature:
    periodic_table = Chem.GetPeriodicTable()
    numbers = tuple(periodic_table.GetAtomicNumber(symbol) for symbol in symbols)
    return Feature("element", tuple(symbols), numbers, has_unknown=True)


def _bond_types(names: Sequence[str]) -> Feature:
    numbers = tuple(int(Chem.BondType.names[name]) for name in names)
    return Feature("type", tuple(names), numbers, has_unknown=True)


# fmt: off
ELEMENTS = (
    "C", "N", "O", "S", "F", "Si", "P", "Cl", "Br", "Mg", "Na", "Ca", "Fe", "As", "Al", "I", "B",
    "V", "K", "Tl", "Yb", "Sb", "Sn", "Ag", "Pd", "Co", "Se", "Ti", "Zn", "H", "Li", "Ge", "Cu",
    "Au", "Ni", "Cd", "In", "Mn", "Zr", "Cr", "Pt", "Hg", "Pb",
)
# fmt: on

ATOM_FEATURES: tuple[Feature, ...] = (
    _elements(ELEMENTS),
    _counts("degree", 5),
    _counts("hydrogens", 4),
    _counts("implicit valence", 5),
    _indicator("aromatic"),
)

BOND_FEATURES: tuple[Feature, ...] = (
    _bond_types(("SINGLE", "DOUBLE", "TRIPLE", "AROMATIC")),
    _indicator("conjugated"),
    _indicator("in ring"),
)
