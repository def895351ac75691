"""The atom and bond features: which choices each one-hot has, in which order."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from rdkit import Chem

Choice = str | int | bool


@dataclass(frozen=True)
class Feature:
    """One categorical property of an atom or a bond, and the columns that it fills.

    A property is stored as a small integer *code*, the position of its value in ``choices``. Other
    values have the code ``len(choices)``; with ``has_unknown`` they have a slot of their own in the
    float features. A yes-or-no property (``choices=(False, True)``) fills one column with 0 or 1,
    unless ``one_hot`` or ``has_unknown`` is set. Every other property fills one column per slot.

    Args:
        name: what the property is called.
        choices: the values that have a slot, in the order of the slots.
        values: the integer by which RDKit names each choice (the atomic number of an element, the
            number of a ``Chem.BondType``, a count, 0 or 1).
        has_unknown: whether a value that is not among the choices has a slot after them.
        one_hot: whether a yes-or-no property fills a column for no and one for yes.
        read: the function that gives RDKit's integer for an atom or a bond. The first feature of
            bonds needs none if its name is ``'type'``.

    Example:
        >>> from pyg_kernels.chem import Feature
        >>> element = Feature("element", ("C", "O"), (6, 8), has_unknown=True)
        >>> element.encode([6, 8, 7]), element.width
        (array([0, 1, 2], dtype=uint8), 3)

    See Also:
        :class:`Featurizer`, which is made of features.
    """

    name: str
    choices: tuple[Choice, ...]
    values: tuple[int, ...]
    has_unknown: bool
    one_hot: bool = False
    read: Callable[[Any], int] | None = field(default=None, compare=False, repr=False)

    @property
    def is_indicator(self) -> bool:
        """Whether the property is yes or no and fills a single column."""
        is_bool = all(isinstance(choice, bool) for choice in self.choices)  # (0, 1) is equal, too
        return is_bool and self.choices == (False, True) and not (self.one_hot or self.has_unknown)

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
        # The first and the last place of the table stand for all values beyond the listed ones.
        below, above = min(self.values) - 1, max(self.values) + 1
        table = np.full(above - below + 1, len(self.choices), dtype=np.uint8)
        table[np.array(self.values) - below] = np.arange(len(self.values), dtype=np.uint8)
        return table[np.clip(np.asarray(values, dtype=np.int64), below, above) - below]


def numbers(name: str, choices: Iterable[int], read: Callable[[Any], int] | None) -> Feature:
    """A count or a charge, with one slot per number and one for all others."""
    values = tuple(choices)
    return Feature(name, values, values, has_unknown=True, read=read)


def indicator(name: str, read: Callable[[Any], int] | None, one_hot: bool = False) -> Feature:
    """A property that an atom or a bond has or has not."""
    return Feature(name, (False, True), (0, 1), False, one_hot, read)


def elements(symbols: Sequence[str]) -> Feature:
    """The element of an atom; ``*`` is RDKit's atomic number 0."""
    periodic_table = Chem.GetPeriodicTable()
    values = tuple(periodic_table.GetAtomicNumber(symbol) for symbol in symbols)
    return Feature("element", tuple(symbols), values, True, read=Chem.Atom.GetAtomicNum)


def named(
    name: str,
    kind: Any,
    names: Sequence[str],
    read: Callable[[Any], Any] | None = None,
    has_unknown: bool = True,
) -> Feature:
    """A value of one of RDKit's enumerations, such as ``Chem.BondType``."""
    values = tuple(int(kind.names[choice]) for choice in names)
    return Feature(name, tuple(names), values, has_unknown, read=read)


def bond_type(*names: str) -> Feature:
    """The type of a bond."""
    return named("type", Chem.BondType, names, Chem.Bond.GetBondType)
