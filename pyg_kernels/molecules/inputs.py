"""Reads what users pass: molecules, extra columns and targets."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pandas
import torch
from numpy.typing import NDArray
from rdkit import Chem
from sklearn.utils.multiclass import check_classification_targets

from pyg_kernels.chem import Featurizer, InvalidRow, InvalidSmiles, featurizer_by_name
from pyg_kernels.chem.encoding import parse
from pyg_kernels.datasets import MoleculeDataset
from pyg_kernels.kernels import molecule_graphs
from pyg_kernels.kernels.arguments import label_array, number_array
from pyg_kernels.tables import shortened

SMILES_COLUMN = "smiles"


@dataclass(frozen=True)
class Molecules:
    """Molecules with E numbers each."""

    smiles: list[str]
    columns: list[str]
    extra: NDArray[np.float64]
    _read: dict[str, Any] = field(default_factory=dict, compare=False, repr=False)

    def __len__(self) -> int:
        return len(self.smiles)

    def part(self, rows: NDArray[Any]) -> Molecules:
        """The molecules at these positions."""
        part = Molecules([self.smiles[i] for i in rows], self.columns, self.extra[rows])
        for key, read in self._read.items():
            part._read[key] = [read[i] for i in rows] if isinstance(read, list) else read[rows]
        return part

    def with_extra(self, columns: list[str], extra: NDArray[np.float64]) -> Molecules:
        """The same molecules, as they were read, with other columns."""
        read = {key: value for key, value in self._read.items() if key != "graphs"}
        return Molecules(self.smiles, columns, extra, read)

    @classmethod
    def of_dataset(cls, dataset: Any) -> Molecules:
        """The molecules of a data set, whose features are not read again."""
        known = {dataset.featurizer.fingerprint: dataset}
        return cls(dataset.smiles, [], np.zeros((len(dataset), 0)), known)

    def unread(self) -> Molecules:
        """The same molecules, without the graphs and features that were read."""
        return Molecules(self.smiles, self.columns, self.extra)

    def dataset(self, featurizer: str | Featurizer) -> Any:
        """The molecules with the features of networks, read once."""
        return self._once(featurizer_by_name(featurizer))

    def rdkit(self) -> list[Any]:
        """RDKit's molecules."""
        return self._once(None)

    def _once(self, featurizer: Featurizer | None) -> Any:
        key = _key(featurizer)
        if key not in self._read:
            found, invalid = _reading(self.smiles, featurizer)
            if invalid:
                shown = "; ".join(
                    f"{row.row} {shortened(row.smiles, 40)!r} ({row.reason})" for row in invalid[:5]
                )
                more = f"; {len(invalid) - 5} more" if len(invalid) > 5 else ""
                raise ValueError(
                    f"{len(invalid)} of {len(self)} molecules cannot be read, at the positions "
                    f"(from 0): {shown}{more}"
                )
            self._read[key] = found
        return self._read[key]

    def graphs(self) -> list[Any]:
        """The labeled graphs of :func:`molecule_graphs`, with the extra columns as ``extra``."""
        if "graphs" not in self._read:
            found = molecule_graphs(self.rdkit())
            for graph, row in zip(found, self.extra, strict=True):
                graph.extra = torch.from_numpy(row[None])
            self._read["graphs"] = found
        return self._read["graphs"]


def _key(featurizer: Featurizer | None) -> str:
    return "rdkit" if featurizer is None else featurizer.fingerprint


def _reading(
    smiles: Sequence[str], featurizer: Featurizer | None, num_workers: int | None = None
) -> tuple[Any, list[InvalidRow]]:
    """The molecules as a data set (RDKit's without a featurizer), and the invalid SMILES."""
    if featurizer is not None:
        try:
            found = MoleculeDataset.from_smiles(
                smiles, skip_invalid=True, num_workers=num_workers, featurizer=featurizer
            )
            return found, found.skipped
        except ValueError:  # no molecule can be read
            return None, featurizer.encode_many(smiles, num_workers=0)[1]
    parsed, invalid = [], []
    for position, text in enumerate(smiles):
        try:
            parsed.append(parse(text))
        except InvalidSmiles as error:
            invalid.append(InvalidRow(position, text, error.reason))
    return parsed, invalid


def read_valid(
    items: Sequence[Any],
    featurizer: str | Featurizer | None = None,
    num_workers: int | None = 0,
) -> tuple[Molecules, list[InvalidRow]]:
    """The valid molecules among the cells of a column, read once, and the invalid cells.

    Without a featurizer, only RDKit reads them, which is what kernel methods need.
    """
    smiles = [item if isinstance(item, str) else "" for item in items]
    made = None if featurizer is None else featurizer_by_name(featurizer)
    read, invalid = _reading(smiles, made, num_workers)
    unread = {row.row for row in invalid}
    valid = [text for place, text in enumerate(smiles) if place not in unread]
    return Molecules(valid, [], np.zeros((len(valid), 0)), {_key(made): read}), invalid


def read_molecules(X: Any, columns: Sequence[str] | None = None) -> Molecules:
    """The molecules of SMILES, of RDKit's molecules, or of a table with a column ``smiles``.

    `columns` are the other columns that a table must have; None: all other ones are taken.
    """
    if isinstance(X, Molecules):
        return X
    if isinstance(X, (str, Chem.Mol)) or not hasattr(X, "__len__"):
        raise TypeError(f"X is {X!r}: expected a sequence of molecules, or a table of them")
    if isinstance(X, np.ndarray) and X.ndim != 1 and X.shape[1:] != (1,):
        raise ValueError(f"X has shape {X.shape}: expected a SMILES or a molecule a row")
    if not len(X):
        raise ValueError("X has no molecules: expected at least one")
    if not isinstance(X, pandas.DataFrame):
        items = X.ravel() if isinstance(X, np.ndarray) else X
        X = pandas.DataFrame({SMILES_COLUMN: pandas.Series(list(items), dtype=object)})
    X = X.set_axis([str(name) for name in X.columns], axis=1)
    names = [name for name in X.columns if name != SMILES_COLUMN] if columns is None else columns
    missing = [name for name in (SMILES_COLUMN, *names) if name not in X.columns]
    if missing:
        raise ValueError(f"X has no column {_listed(missing)}")
    twice = X.columns[X.columns.duplicated()].tolist()
    if twice:
        raise ValueError(f"X has two columns {_listed(twice)}")
    extra = np.zeros((len(X), len(names)))
    for place, name in enumerate(names):
        extra[:, place] = _finite(X[name], name)
    smiles = [_smiles(item, place) for place, item in enumerate(X[SMILES_COLUMN])]
    return Molecules(smiles, list(names), extra)


def _finite(column: Any, name: str) -> NDArray[np.float64]:
    try:
        if column.dtype.kind in "mM":
            raise TypeError("a date is not a number")
        found: NDArray[np.float64] = column.to_numpy(dtype=float, na_value=np.nan)
    except (TypeError, ValueError):
        raise ValueError(f"column {name!r} has cells that are not numbers: leave it out") from None
    unfit = np.flatnonzero(~np.isfinite(found))
    if len(unfit):
        raise ValueError(f"column {name!r} has no finite number at position {unfit[0]}")
    return found


def _listed(names: Sequence[str]) -> str:
    return ", ".join(map(repr, names))


def _smiles(item: Any, position: int) -> str:
    if isinstance(item, str):
        return str(item)
    if isinstance(item, Chem.Mol):
        return str(Chem.MolToSmiles(item))
    raise TypeError(f"molecule {position} is {item!r}: expected a SMILES or a molecule of RDKit")


def read_numbers(y: Any, number: int) -> NDArray[np.float64]:
    """Targets of regression, ``(M, T)``, NaN where one was not measured."""
    values = _columns(number_array(y), number)
    if np.isinf(values).any():
        raise ValueError("y has infinite numbers")
    if (np.abs(values) > np.sqrt(np.finfo(float).max / max(1, number))).any():
        raise ValueError("y has numbers whose squares are not finite: rescale them")
    largest = np.nanmax(np.abs(values), axis=0, initial=0)
    if ((largest > 0) & (largest < np.sqrt(np.finfo(float).tiny))).any():
        raise ValueError("y has numbers whose squares vanish: rescale them")
    return values


def read_classes(y: Any, number: int) -> tuple[NDArray[np.float64], list[NDArray[Any]]]:
    """The classes as numbers, ``(M, T)``, NaN where one is missing, and the sorted classes."""
    values = _columns(label_array(y), number)
    codes = np.full(values.shape, np.nan)
    classes = []
    for place, column in enumerate(values.T):
        there = ~pandas.isna(column)
        labels = column[there].tolist()
        if len({isinstance(label, str) for label in labels}) > 1:
            raise ValueError(f"target {place} has words and numbers as labels")
        known = np.array(labels)
        check_classification_targets(known)
        if known.dtype.kind == "f" and (known == known.round()).all():
            known = known.astype(np.int64)  # 0 and 1 with a missing value come as 0.0 and 1.0
        found, own = np.unique(known, return_inverse=True)
        codes[there, place] = own
        if len(found) < 2:
            raise ValueError(f"target {place} has {len(found)} classes: expected at least two")
        if len(found) > 2 and values.shape[1] > 1:
            raise ValueError(
                f"target {place} of {values.shape[1]} has {len(found)} classes: several targets "
                "need two each; fit one estimator a target"
            )
        classes.append(found)
    return codes, classes


def _columns(values: NDArray[Any], number: int) -> NDArray[Any]:
    if values.ndim not in (1, 2) or len(values) != number or not values.size:
        raise ValueError(f"y has shape {values.shape}: expected ({number},) or ({number}, T)")
    return values.reshape(number, -1)


def read_weights(sample_weight: Any, number: int) -> NDArray[np.float64]:
    """One weight a molecule; 1 where none are given."""
    weights = np.ones(number) if sample_weight is None else np.asarray(sample_weight, float)
    if weights.shape != (number,) or not (np.isfinite(weights) & (weights >= 0)).all():
        raise ValueError(f"sample_weight: expected {number} finite numbers of at least 0")
    if not weights.any():
        raise ValueError("sample_weight: every weight is zero")
    return weights
