"""Molecules in shards on disk, for data sets that do not fit into memory."""

from __future__ import annotations

import base64
import operator
import os
from collections.abc import Callable, Iterator, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch_geometric.data import Batch, Data

from pyg_kernels.chem import Featurizer, InvalidRow, MolCodeStore, featurizer_by_name
from pyg_kernels.datasets.loaders import Indices, positions_in
from pyg_kernels.datasets.molecule_records import unpack
from pyg_kernels.datasets.molecules import InvalidMolecules, MoleculeDataset
from pyg_kernels.datasets.shard_folder import ARRAYS, FILE, ShardFolder
from pyg_kernels.datasets.sharding import begun, complete
from pyg_kernels.datasets.table import MoleculeTable

Integers = NDArray[np.int64]

BLOCK = 4096  # molecules read at a time where all are asked for


def blocks(positions: Integers) -> list[Integers]:
    """The positions, some at a time."""
    return [positions[start : start + BLOCK] for start in range(0, len(positions), BLOCK)]


class ShardedSmiles(Sequence[str]):
    """The SMILES strings of shards, read when they are asked for by their positions, from 0."""

    def __init__(self, length: int, read: Callable[[Integers], list[str]]) -> None:
        self._length = length
        self._read = read

    def __len__(self) -> int:
        return self._length

    def __getitem__(self, index: Any) -> Any:
        """One string, or the list of strings of a slice."""
        chosen = range(self._length)[index]
        if isinstance(chosen, range):
            return [text for block in blocks(np.array(chosen)) for text in self._read(block)]
        return self._read(np.array([chosen]))[0]

    def __iter__(self) -> Iterator[str]:
        for block in blocks(np.arange(self._length)):
            yield from self._read(block)


class MoleculeShards:
    r"""Molecules that stay on disk: batches, targets and columns of a folder of shards.

    Gives what a :class:`~pyg_kernels.datasets.MoleculeDataset` gives, number for number:
    ``shards.batch(indices)`` equals ``MoleculeCSV(path).batch(indices)`` in every tensor. Memory
    holds the targets, 8 bytes each (from their first use on), and 4 bytes per molecule for the
    place where it begins in its file.

    ``shards[i]`` is one molecule as a :class:`~torch_geometric.data.Data`; with a slice, a mask or
    a vector of positions, ``shards[indices]`` is a MoleculeDataset of these molecules, in memory.

    Args:
        folder: made by :meth:`from_csv`.
        featurizer: the one that the folder was made with; a MolFeaturizer by default.

    Attributes:
        folder: as given.
        featurizer: as given.
        skipped: the SMILES that were left out because they cannot be read.

    Raises:
        FileNotFoundError: if there is no such folder of shards.
        ValueError: if it is not finished or of another featuriser, or a shard is missing, damaged
            or from elsewhere. The first read compares all bytes with their checksums.

    Example:
        >>> import tempfile
        >>> from pathlib import Path
        >>> from pyg_kernels.datasets import MoleculeShards
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     path = Path(folder) / "molecules.csv"
        ...     _ = path.write_text("smiles,logS\nCCO,1.1\nc1ccccc1,-1.6\n")
        ...     shards = MoleculeShards.from_csv(path, Path(folder) / "shards")
        ...     shards.batch([0, 1]).num_nodes, shards.targets.tolist()
        (9, [[1.1], [-1.6]])

    See Also:
        :class:`MoleculeCSV`, the same in memory; :class:`MoleculeLoader`.
    """

    def __init__(self, folder: str | Path, featurizer: str | Featurizer | None = None) -> None:
        self.folder = Path(folder)
        self.featurizer: Featurizer = featurizer_by_name(featurizer or "duvenaud")
        self._held = held = _finished(self.folder, self.featurizer)
        self.skipped: list[InvalidRow] = held.skipped
        self._dictionary = base64.b64decode(held.dictionary)
        # Where each record begins: 4 bytes each, or 8 if the records together have 4 GiB or more.
        offset_type = np.uint32 if held.rows("records") < 1 << 32 else np.int64
        self._offsets = np.zeros(held.rows("lengths") + 1, offset_type)
        np.cumsum(held.load("lengths"), out=self._offsets[1:])
        for name in ARRAYS:
            held.load(name)
        self._header = np.lib.format.open_memmap(held.file("records"), mode="r").offset
        self._opened = _identity(held.file("records").stat())

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
        featurizer: str | Featurizer | None = None,
    ) -> MoleculeShards:
        """Writes the molecules of a CSV file into a folder, or opens it if it is finished.

        Reads the file twice, and holds the rows of about two shards at a time. After an
        interruption, the next call continues after the last finished shard, and ends with the same
        bytes.

        Args:
            path: the file.
            folder: the folder of the shards; made if it is not there.
            smiles_column, target_columns, split_column, num_workers, progress, featurizer: as in
                :class:`~pyg_kernels.datasets.MoleculeCSV`.
            skip_invalid: leave out the SMILES that cannot be read. If False, an error lists all of
                them after all shards are written, so that a second call with True need not begin
                again. It is raised at once if the first shard has no SMILES that can be read.
            shard_size: rows of the file per shard; fewer at the end of a row group of Parquet with
                categories.

        Raises:
            FileNotFoundError: if there is no such file.
            InvalidMolecules: if a SMILES cannot be read and ``skip_invalid`` is False.
            ValueError: as MoleculeCSV and ``MoleculeShards(folder)``; or if the folder holds shards
                of another file, of other columns, or made in another way.
            OSError: if a shard cannot be written, as on a full disk; finished ones are kept.
        """
        if not isinstance(shard_size, int) or shard_size < 1:
            raise ValueError(f"shard_size must be a whole number of at least 1, not {shard_size!r}")
        if target_columns is not None:
            named = [target_columns] if isinstance(target_columns, str) else target_columns
            target_columns = list(dict.fromkeys(named))
        featurizer = featurizer_by_name(featurizer or "duvenaud")
        asked = {"smiles_column": smiles_column, "target_columns": target_columns}
        asked["split_column"], path = split_column, Path(path)
        held = begun(path, Path(folder), featurizer, asked, shard_size)
        if not held.is_complete:
            complete(held, path, featurizer, skip_invalid, num_workers, progress)
        if held.skipped and not skip_invalid:
            raise InvalidMolecules(held.skipped, held.origin["rows"], path.name)
        return cls(folder, featurizer)

    def __len__(self) -> int:
        """The number of molecules, M."""
        return len(self._offsets) - 1

    @property
    def target_names(self) -> list[str]:
        """The names of the T targets."""
        return list(self._held.origin["targets"])

    @property
    def targets(self) -> Tensor:
        """``(M, T)`` float64, NaN where a target is missing: a copy of those in memory."""
        return self._targets.clone()

    @cached_property
    def _targets(self) -> Tensor:
        return torch.from_numpy(np.array(self._verified.load("targets")))

    @property
    def smiles(self) -> ShardedSmiles:
        """The M SMILES strings, as they stand in the source; read when asked for."""
        return ShardedSmiles(len(self), lambda positions: self._unpacked(positions)[1])

    @property
    def row_numbers(self) -> Integers:
        """For each molecule, its line in the source file, mapped into memory."""
        return self._verified.load("lines")

    @property
    def split_values(self) -> list[str] | None:
        """For each molecule what the split column says; None where there is no such column."""
        return self._parts(slice(None))

    @property
    def digest(self) -> str:
        """Sixteen digits, equal only if molecules, targets, features and their order are equal."""
        return self._held.digest

    def batch(self, indices: Indices) -> Batch:
        """The molecules at these positions as one batch.

        Args:
            indices: B positions (repeats and negative ones allowed), or a mask of M booleans.

        Returns:
            What :meth:`MoleculeDataset.batch` returns.

        Raises:
            ValueError: if there are no indices, they are not integers, or a shard is damaged.
            IndexError: if one is out of range.
        """
        positions = positions_in(indices, len(self), "molecules").numpy()
        return self._in_memory(positions, with_rows=False).batch(range(len(positions)))

    def __getitem__(self, index: int | slice | Indices) -> Data | MoleculeDataset:
        """One molecule, or those at several positions as a data set in memory."""
        if isinstance(index, slice):
            index = np.arange(*index.indices(len(self)))
        one = not np.ndim(index)
        chosen: Any = [operator.index(index)] if one else index  # type: ignore[arg-type]
        positions = positions_in(chosen, len(self), "molecules").numpy()
        found = self._in_memory(positions, with_rows=not one)
        return found[0] if one else found

    def __reduce__(self) -> tuple[type[MoleculeShards], tuple[Path, Featurizer]]:
        return type(self), (self.folder, self.featurizer)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({len(self)})"

    def _unpacked(self, positions: Integers) -> tuple[MolCodeStore, list[str]]:
        """The codes and SMILES at these positions.

        Records are read at their places and not mapped into memory, where every page that was
        touched would count as memory of the process.
        """
        records = []
        with open(self._verified.file("records"), "rb", buffering=0) as file:
            if _identity(os.fstat(file.fileno())) != self._opened:
                raise ValueError(f"{file.name} was changed while it was in use: open it again")
            ends = self._offsets[positions + 1].tolist()
            for start, end in zip(self._offsets[positions].tolist(), ends, strict=True):
                file.seek(self._header + start)
                records.append(file.read(end - start))
        return unpack(records, self._dictionary, self.featurizer)

    def _parts(self, positions: Integers | slice) -> list[str] | None:
        """What the split column says of these molecules."""
        if self._held.origin["split_column"] is None:
            return None
        codes = self._verified.load("split")[positions]
        return [self._held.split_names[code] for code in codes.tolist()]

    @cached_property
    def _verified(self) -> ShardFolder:
        """The folder, after its bytes have been compared with their checksums once."""
        self._held.verify()
        return self._held

    def _in_memory(self, positions: Integers, with_rows: bool = True) -> MoleculeDataset:
        stores, smiles = zip(*map(self._unpacked, blocks(positions)), strict=True)
        table = MoleculeTable(
            smiles=[text for block in smiles for text in block],
            targets=self._targets[positions],
            target_names=self.target_names,
            row_numbers=self.row_numbers[positions].tolist() if with_rows else [],
            split_values=self._parts(positions) if with_rows else None,
        )
        dataset = MoleculeDataset(featurizer=self.featurizer)
        dataset._hold(MolCodeStore.concatenate(stores), table)
        return dataset


def _identity(status: os.stat_result) -> tuple[int, int, int]:
    """What distinguishes a file from one that replaced it."""
    return status.st_ino, status.st_size, status.st_mtime_ns


def _finished(folder: Path, featurizer: Featurizer) -> ShardFolder:
    """The content of a folder whose shards are all there."""
    if not (folder / FILE).is_file():
        raise FileNotFoundError(
            f"{folder} has no {FILE}: MoleculeShards.from_csv makes folders of shards"
        )
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
