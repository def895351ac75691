"""Molecules in shards on disk, for data sets that do not fit into memory."""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterator, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any, Generic, TypeVar

import numpy as np
import torch
from torch import Tensor
from torch_geometric.data import Batch, Data

from pyg_kernels.chem import Featurizer, InvalidRow, MolCodeStore, MolFeaturizer
from pyg_kernels.datasets.molecule_records import (
    Graphs,
    Integers,
    KindTable,
    unpack,
    unpack_smiles,
)
from pyg_kernels.datasets.molecules import MoleculeBatch, MoleculeDataset
from pyg_kernels.datasets.positions import Indices, positions_in
from pyg_kernels.datasets.shard_folder import FILE, ShardFolder, ShardReader
from pyg_kernels.datasets.sharding import shard_csv
from pyg_kernels.datasets.table import MoleculeTable

Item = TypeVar("Item")

BLOCK = 4096  # molecules read at a time where all are asked for


class LazyColumn(Sequence[Item], Generic[Item]):
    """A sequence that reads its values when they are asked for.

    Args:
        length: how many there are.
        read: gives the values at some positions, from 0, in their order.
    """

    def __init__(self, length: int, read: Callable[[Integers], list[Item]]) -> None:
        self._length = length
        self._read = read

    def __len__(self) -> int:
        return self._length

    def __getitem__(self, index: Any) -> Any:
        """One value, or the list of those of a slice."""
        if not isinstance(index, slice):
            return self._read(np.array([range(self._length)[index]]))[0]
        positions = np.arange(*index.indices(self._length))
        blocks = range(0, len(positions), BLOCK)
        return [value for start in blocks for value in self._read(positions[start : start + BLOCK])]

    def __iter__(self) -> Iterator[Item]:
        for start in range(0, self._length, BLOCK):
            yield from self[start : start + BLOCK]


class MoleculeShards:
    """Molecules that stay on disk: batches, targets and columns of a folder of shards.

    Gives what a :class:`~pyg_kernels.datasets.MoleculeDataset` gives, number for number:
    ``shards.batch(indices)`` equals ``MoleculeCSV(path).batch(indices)`` in every tensor. What is
    held in memory are the targets, 8 bytes each (from the first time that they are asked for), and
    4 bytes a molecule, where it begins in its file.

    ``shards[i]`` is one molecule as a :class:`~torch_geometric.data.Data`; with a slice, a mask or
    a vector of positions, ``shards[indices]`` is a MoleculeDataset of those, in memory.

    Args:
        folder: made by :meth:`from_csv`.
        featurizer: the one that the folder was made with; a MolFeaturizer by default.

    Attributes:
        folder: as given.
        featurizer: as given.
        skipped: the SMILES that were left out because they cannot be read.

    Raises:
        FileNotFoundError: if there is no such folder.
        ValueError: if it is no finished folder of shards of this featuriser, or a shard is
            missing, damaged or from elsewhere. The bytes of a shard are compared with its checksum
            when it is first read; :meth:`verify` does so at once.
    """

    def __init__(self, folder: str | Path, featurizer: Featurizer | None = None) -> None:
        self.folder = Path(folder)
        self.featurizer: Featurizer = MolFeaturizer() if featurizer is None else featurizer
        self._held = _finished(self.folder, self.featurizer)
        self.skipped: list[InvalidRow] = self._held.skipped
        self._reader = ShardReader(self._held)
        atoms = KindTable(self.featurizer.atom_features, self._held.atom_kinds)
        bonds = KindTable(self.featurizer.bond_features, self._held.bond_kinds)
        self._atom_codes, self._bond_codes = atoms.codes, bonds.codes
        self._x = self.featurizer.expand_atoms(torch.from_numpy(self._atom_codes))
        self._edge_attr = self.featurizer.expand_bonds(torch.from_numpy(self._bond_codes))

    @classmethod
    def from_csv(
        cls,
        path: str | Path,
        folder: str | Path,
        smiles_column: str = "smiles",
        target_columns: Sequence[str] | str | None = None,
        split_column: str | None = None,
        skip_invalid: bool = False,
        shard_size: int = 65536,
        num_workers: int | None = None,
        progress: bool = False,
        featurizer: Featurizer | None = None,
    ) -> MoleculeShards:
        """Writes the molecules of a CSV file into a folder, or opens it where that is done.

        Goes twice through the file, and holds the rows of about two shards at a time. Where it was
        interrupted, the next call continues after the last finished shard, and ends with the same
        bytes.

        Args:
            path: the file; see :class:`~pyg_kernels.datasets.MoleculeCSV` for this and the next
                four.
            folder: where the shards are to be, or are; made if it is not there.
            smiles_column: the column of SMILES.
            target_columns: the columns of targets; None for every other column of numbers.
            split_column: a column of part names (256 different ones at most).
            skip_invalid: leave out the SMILES that cannot be read. If False, they are raised when
                all shards are written (at once where the first shard has no other), so that all
                are listed and a second call with True need not begin again.
            shard_size: rows of the file a shard.
            num_workers: the number of processes, as in
                :meth:`~pyg_kernels.chem.Featurizer.encode_many`.
            progress: whether to show a progress bar.
            featurizer: the features; a MolFeaturizer by default.

        Raises:
            FileNotFoundError: if there is no such file.
            InvalidMolecules: if a SMILES cannot be read and ``skip_invalid`` is False.
            ValueError: as MoleculeCSV; if the folder holds shards of another file, of other
                columns, or made otherwise; as ``MoleculeShards(folder)``.
            OSError: if a shard cannot be written, as on a full disk; finished ones are kept.
        """
        if not isinstance(shard_size, int) or shard_size < 1:
            raise ValueError(f"shard_size must be a whole number of at least 1, not {shard_size!r}")
        if target_columns is not None:
            named = [target_columns] if isinstance(target_columns, str) else target_columns
            target_columns = list(dict.fromkeys(named))
        featurizer = MolFeaturizer() if featurizer is None else featurizer
        asked = {
            "smiles_column": smiles_column,
            "target_columns": target_columns,
            "split_column": split_column,
        }
        shard_csv(
            Path(path),
            Path(folder),
            featurizer,
            asked,
            shard_size,
            skip_invalid,
            num_workers,
            progress,
        )
        return cls(folder, featurizer)

    def __len__(self) -> int:
        """The number of molecules, M."""
        return len(self._reader)

    @property
    def target_names(self) -> list[str]:
        """The names of the T targets."""
        names: list[str] = self._held.origin["target_columns"]
        return names

    @property
    def num_tasks(self) -> int:
        """The number of targets, T."""
        return len(self.target_names)

    @cached_property
    def targets(self) -> Tensor:
        """``(M, T)`` float64 in memory, NaN where a target is missing; read when asked for."""
        return torch.from_numpy(self._reader.targets())

    @property
    def smiles(self) -> LazyColumn[str]:
        """The M SMILES strings, as they stand in the source; read when asked for."""
        return LazyColumn(len(self), self._smiles)

    @property
    def row_numbers(self) -> LazyColumn[int]:
        """For each molecule, its line in the source file; read when asked for."""
        return LazyColumn(len(self), self._reader.lines)

    @property
    def split_values(self) -> LazyColumn[str] | None:
        """For each molecule what the split column says; None where there is no such column."""
        if self._held.origin["split_column"] is None:
            return None
        return LazyColumn(len(self), self._reader.split_values)

    @property
    def num_bytes(self) -> int:
        """The size of all files of the folder that belong to it."""
        return self._held.num_bytes

    @property
    def digest(self) -> str:
        """Sixteen digits: equal only if molecules, targets, features and their order are."""
        return self._held.digest

    def verify(self) -> None:
        """Compares every byte of every shard with its checksum.

        Raises:
            ValueError: naming the first shard that is damaged.
        """
        for number in range(len(self._held.shards)):
            self._held.verify(number)

    def batch(self, indices: Indices) -> Batch:
        """The molecules at these positions as one batch, assembled without a loop over them.

        Args:
            indices: B positions (repeats and negative ones allowed), or a mask of M booleans.

        Returns:
            What :meth:`MoleculeDataset.batch` returns.

        Raises:
            ValueError: if there are no indices, they are not integers, or a shard is damaged.
            IndexError: if one is out of range.
        """
        positions = positions_in(indices, len(self), "molecules")
        raw, starts, ends = self._reader.records(positions.numpy())
        graphs = unpack(raw, starts)
        ptr = torch.from_numpy(graphs.atom_ptr)
        molecule = torch.arange(len(positions)).repeat_interleave(
            ptr.diff(), output_size=len(graphs.atoms)
        )
        return MoleculeBatch(
            **self._features(graphs),
            y=self.targets.index_select(0, positions).float(),
            smiles=unpack_smiles(raw, starts, ends),
            batch=molecule,
            ptr=ptr,
        )

    def __getitem__(self, index: int | slice | Indices) -> Data | MoleculeDataset:
        """One molecule, or those at several positions as a data set in memory."""
        if isinstance(index, slice):
            positions = np.arange(*index.indices(len(self)))
            if not len(positions):
                raise ValueError(f"{index} is empty; at least one of the molecules is needed")
            return self._in_memory(positions)
        if np.ndim(index):
            return self._in_memory(positions_in(index, len(self), "molecules").numpy())  # type: ignore[arg-type]
        (position,) = positions_in([operator.index(index)], len(self), "molecules").tolist()  # type: ignore[arg-type]
        return self.batch([position]).get_example(0)

    def __reduce__(self) -> tuple[type[MoleculeShards], tuple[Path, Featurizer]]:
        return type(self), (self.folder, self.featurizer)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({len(self)})"

    def _features(self, graphs: Graphs) -> dict[str, Tensor]:
        return {
            "x": self._x.index_select(0, torch.from_numpy(graphs.atoms)),
            "edge_index": torch.from_numpy(graphs.edge_index),
            "edge_attr": self._edge_attr.index_select(0, torch.from_numpy(graphs.bonds)),
        }

    def _smiles(self, positions: Integers) -> list[str]:
        return unpack_smiles(*self._reader.records(positions))

    def _in_memory(self, positions: Integers) -> MoleculeDataset:
        stores, smiles = [], []
        for start in range(0, len(positions), BLOCK):
            raw, starts, ends = self._reader.records(positions[start : start + BLOCK])
            stores.append(self._codes(unpack(raw, starts)))
            smiles += unpack_smiles(raw, starts, ends)
        has_split = self.split_values is not None
        table = MoleculeTable(
            smiles=smiles,
            targets=self.targets[positions],
            target_names=self.target_names,
            row_numbers=self._reader.lines(positions),
            split_values=self._reader.split_values(positions) if has_split else None,
        )
        dataset = MoleculeDataset(featurizer=self.featurizer)
        dataset._hold(MolCodeStore.concatenate(stores), table)
        return dataset

    def _codes(self, graphs: Graphs) -> MolCodeStore:
        shift = np.repeat(graphs.atom_ptr[:-1], np.diff(graphs.edge_ptr))
        return MolCodeStore(
            atoms=self._atom_codes[graphs.atoms],
            edge_index=(graphs.edge_index - shift).astype(np.int32),
            bonds=self._bond_codes[graphs.bonds],
            atom_ptr=graphs.atom_ptr,
            edge_ptr=graphs.edge_ptr,
            positions=np.arange(len(graphs.atom_ptr) - 1),
        )


def _finished(folder: Path, featurizer: Featurizer) -> ShardFolder:
    """The content of a folder whose shards are all there."""
    if not folder.is_dir():
        raise FileNotFoundError(f"there is no folder {folder}")
    if not (folder / FILE).is_file():
        raise ValueError(f"{folder} has no {FILE}: MoleculeShards.from_csv makes folders of shards")
    held = ShardFolder.read(folder)
    if held.origin["featurizer"] != featurizer.fingerprint:
        raise ValueError(
            f"{folder} was made by another featuriser, {held.origin['featurizer']}, not by "
            f"{featurizer!r} of this version, {featurizer.fingerprint}"
        )
    if not held.is_complete:
        raise ValueError(
            f"{folder} is not finished: it has {held.source_rows} of {held.origin['rows']} rows of "
            f"{held.origin['source']}; MoleculeShards.from_csv with the same arguments continues"
        )
    if not held.rows("lengths"):
        raise ValueError(f"{held.origin['source']} has no molecule that can be read")
    return held
