"""The molecule data set that all others build on."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from operator import itemgetter
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor
from torch_geometric.data import Batch, Data, InMemoryDataset

from pyg_kernels.chem import Featurizer, InvalidRow, MolCodeStore, featurizer_by_name
from pyg_kernels.chem.encoding import checked_strings
from pyg_kernels.datasets.loaders import Indices, positions_in
from pyg_kernels.datasets.table import MoleculeTable, find_columns, stream_molecule_rows
from pyg_kernels.segments import segments
from pyg_kernels.tables import listed, shortened


class InvalidMolecules(ValueError):  # noqa: N818
    """SMILES strings that cannot be read, found while a data set was made.

    Attributes:
        rows: all of these strings, each with its line in the file.
    """

    def __init__(self, rows: Sequence[InvalidRow], total: int, source: str) -> None:
        super().__init__(rows, total, source)  # pickle makes a copy from these
        self.rows = list(rows)

    def __str__(self) -> str:
        _, total, source = self.args
        reasons = "; ".join(
            f"line {row.row} {shortened(row.smiles, 40)!r} ({row.reason})" for row in self.rows[:5]
        )
        return (
            f"{len(self.rows)} of {total} SMILES in {source} cannot be read, "
            f"on line{'s' * (len(self.rows) > 1)} {listed([row.row for row in self.rows])}; "
            "correct them, or leave them out with skip_invalid=True. "
            f"{'The first 5' if len(self.rows) > 5 else 'Reasons'}: {reasons}"
        )


class MoleculeDataset(InMemoryDataset):
    """Molecules with T real targets each, held as small integer codes.

    ``dataset[i]`` is a :class:`~torch_geometric.data.Data` with ``x`` (N, 65) and ``edge_attr``
    (E, 7) float32 as :class:`~pyg_kernels.chem.MolFeaturizer` describes them (or as wide as another
    featuriser makes them), ``edge_index`` (2, E) sorted by target and then by source, ``y`` (1, T)
    float32 with NaN where a target is missing, and ``smiles``. ``y`` is :attr:`targets` rounded for
    training; standardise and measure errors on :attr:`targets`, which keep the precision of the
    source (float64). An index that is a list, slice or mask gives a view of part of the data set,
    as in PyTorch Geometric; every property below is then that of the view.

    The float features are made when a molecule is asked for, so that a data set takes about 30
    bytes an atom. :meth:`batch` makes those of a whole batch at once; PyTorch Geometric's own
    ``DataLoader`` gives the same numbers, more slowly.

    Make one with :meth:`from_smiles`, or through a subclass that reads a source.

    Attributes:
        featurizer: the :class:`~pyg_kernels.chem.Featurizer`.
        skipped: the SMILES that were left out because they cannot be read.

    Example:
        >>> from pyg_kernels.datasets import MoleculeDataset
        >>> molecules = MoleculeDataset.from_smiles(["CCO", "c1ccccc1"], [1.1, -1.6], ["logS"])
        >>> molecules[0]
        Data(x=[3, 65], edge_index=[2, 4], edge_attr=[4, 7], y=[1, 1], smiles='CCO')
        >>> molecules.batch([0, 1]).x.shape
        torch.Size([9, 65])

    See Also:
        :class:`MoleculeCSV`, of a file; :class:`MoleculeLoader`;
        :class:`~pyg_kernels.chem.Featurizer`.
    """

    def __init__(
        self,
        transform: Callable[[Data], Any] | None = None,
        featurizer: str | Featurizer | None = None,
    ) -> None:
        self.featurizer: Featurizer = featurizer_by_name(featurizer or "duvenaud")
        self.skipped: list[InvalidRow] = []
        self._table = MoleculeTable([], torch.zeros(0, 0, dtype=torch.float64), [], [])
        self._view: _View | None = None
        super().__init__(None, transform)

    @staticmethod
    def from_smiles(
        smiles: Sequence[str],
        targets: Tensor | np.ndarray | Sequence[Any] | None = None,
        target_names: Sequence[str] | None = None,
        *,
        skip_invalid: bool = False,
        num_workers: int | None = None,
        progress: bool = False,
        transform: Callable[[Data], Any] | None = None,
        featurizer: str | Featurizer | None = None,
    ) -> MoleculeDataset:
        """Makes a data set from SMILES strings.

        Args:
            smiles: M SMILES strings.
            targets: (M, T) or (M,) numbers in the range of float32, NaN where missing; None for
                T = 0.
            target_names: T names; ``y0, y1, ...`` by default.
            skip_invalid: leave out the strings that cannot be read, instead of raising; ``skipped``
                lists them with their positions.
            num_workers, progress, transform, featurizer: as in :class:`MoleculeCSV`.

        Returns:
            The data set; its ``row_numbers`` are positions in ``smiles``, from 0.

        Raises:
            InvalidMolecules: if a string cannot be read and ``skip_invalid`` is False.
            ValueError: if the targets do not fit, or no molecule is left.
            TypeError: if an item is not a string, or ``smiles`` is a single string.
        """
        smiles = checked_strings(smiles)
        values = as_matrix(np.zeros((len(smiles), 0)) if targets is None else targets)
        names = [f"y{k}" for k in range(values.size(1))] if target_names is None else target_names
        table = MoleculeTable(smiles, values, np.atleast_1d(names).tolist(), [*range(len(smiles))])
        dataset = MoleculeDataset(transform=transform, featurizer=featurizer)
        source = "the given sequence (its first line is 0)"
        dataset._read(table, source, skip_invalid, num_workers, progress)
        return dataset

    @property
    def smiles(self) -> list[str]:
        """The M SMILES strings, as they stand in the source."""
        return self._shown().table.smiles

    @property
    def targets(self) -> Tensor:
        """``(M, T)`` float64, NaN where a target is missing."""
        return self._shown().table.targets

    @property
    def target_names(self) -> list[str]:
        """The names of the T targets."""
        return self._table.target_names

    @property
    def row_numbers(self) -> list[int]:
        """For each molecule, its line in the source file; the header of a CSV file is line 1."""
        return self._shown().table.row_numbers

    @property
    def split_values(self) -> list[str] | None:
        """For each molecule what the split column says; None where there is no such column."""
        return self._shown().table.split_values

    def len(self) -> int:
        """The number of molecules in the store (a view may show fewer)."""
        return len(self._table.smiles)

    def get(self, idx: int) -> Data:
        """The molecule at position ``idx`` of the store, without the transform."""
        assert self.slices is not None
        atom_ptr, edge_ptr = self.slices["atom_codes"], self.slices["bond_codes"]
        atoms = slice(int(atom_ptr[idx]), int(atom_ptr[idx + 1]))
        edges = slice(int(edge_ptr[idx]), int(edge_ptr[idx + 1]))
        return Data(
            x=self.featurizer.expand_atoms(self._data.atom_codes[atoms]),
            edge_index=self._data.edge_index[:, edges].long(),
            edge_attr=self.featurizer.expand_bonds(self._data.bond_codes[edges]),
            y=self._data.y[idx : idx + 1].clone(),
            smiles=self._table.smiles[idx],
        )

    def batch(self, indices: Indices) -> Batch:
        """The molecules at these positions as one batch, assembled without a loop over them.

        Equal to ``Batch.from_data_list([dataset[i] for i in indices])``, which it falls back on
        where the data set has a transform.

        Args:
            indices: B positions (repeats and negative ones allowed), or a mask of M booleans.

        Returns:
            A batch of B graphs with ``x``, ``edge_index``, ``edge_attr``, ``y`` (B, T),
            ``smiles``, ``batch`` and ``ptr``.

        Raises:
            ValueError: if there are no indices, or they are not integers.
            IndexError: if one is out of range.
        """
        positions = positions_in(indices, len(self), "molecules")
        if self.transform is not None:
            return Batch.from_data_list([self[i] for i in positions.tolist()])
        assert self.slices is not None
        rows = self._shown().rows.index_select(0, positions)
        atoms, batch, ptr = segments(self.slices["atom_codes"], rows)
        edges, edge_batch, _ = segments(self.slices["bond_codes"], rows)
        data, device = self._data, self._data.y.device
        atoms, edges = atoms.to(device), edges.to(device)
        shift = ptr.index_select(0, edge_batch).to(device)
        return MoleculeBatch(
            x=self.featurizer.expand_atoms(data.atom_codes.index_select(0, atoms)),
            edge_index=data.edge_index.index_select(1, edges) + shift,
            edge_attr=self.featurizer.expand_bonds(data.bond_codes.index_select(0, edges)),
            y=data.y.index_select(0, rows.to(device)),
            smiles=list(itemgetter(*rows.tolist(), -1)(self._table.smiles)[:-1]),
            batch=batch.to(device),
            ptr=ptr.to(device),
        )

    def copy(self, idx: Any = None) -> MoleculeDataset:
        """A view of the molecules at ``idx``, or of all; it shares the data, which never change."""
        return self.index_select(slice(None) if idx is None else idx)

    def index_select(self, idx: Any) -> Any:
        """A view of the molecules at ``idx``; a mask has one boolean for each."""
        mask = np.asarray(idx.cpu() if isinstance(idx, Tensor) else idx)
        if mask.dtype == bool and mask.shape != (len(self),):
            raise ValueError(f"a mask has {len(self)} booleans here, not the shape {mask.shape}")
        return super().index_select(mask if mask.dtype == bool else idx)

    def _shown(self) -> _View:
        """What this view shows, picked out once for each selection."""
        if self._view is None or self._view.indices is not self._indices:
            positions = list(self.indices())
            table = self._table if self._indices is None else self._table.pick(positions)
            self._view = _View(self._indices, torch.tensor(positions, dtype=torch.long), table)
        return self._view

    def _read(
        self,
        table: MoleculeTable,
        source: str,
        skip_invalid: bool = False,
        num_workers: int | None = None,
        progress: bool = False,
    ) -> None:
        """Encodes the valid molecules of a table, and keeps them with their rows."""
        store, invalid = self.featurizer.encode_many(table.smiles, num_workers, progress)
        skipped = table.lines_of(invalid)
        if skipped and not skip_invalid:
            raise InvalidMolecules(skipped, len(table.smiles), source)
        if len(store) == 0:
            raise ValueError(f"{source} has no molecule that can be read")
        self.skipped = skipped
        self._hold(store, table.pick(store.positions.tolist()))

    def _hold(self, store: MolCodeStore, table: MoleculeTable) -> None:
        """Keeps the codes as PyTorch Geometric keeps its data: one object and its slices."""
        self._data = Data(
            atom_codes=torch.from_numpy(store.atoms),
            edge_index=torch.from_numpy(store.edge_index),
            bond_codes=torch.from_numpy(store.bonds),
            y=table.targets.float(),
            num_nodes=len(store.atoms),
        )
        edge_ptr = torch.from_numpy(store.edge_ptr)
        self.slices = {
            "atom_codes": torch.from_numpy(store.atom_ptr),
            "edge_index": edge_ptr,
            "bond_codes": edge_ptr,
            "y": torch.arange(len(store) + 1),
        }
        self._table, self._view = table, None


class MoleculeCSV(MoleculeDataset):
    r"""The molecules of a table: a CSV with a header line, or a Parquet file.

    An empty target (or ``nan``, ``na``, ``n/a``, ``null``, ``none`` in any case) is missing: NaN
    in ``y``. Blank lines are passed over.

    Args:
        path: the file; see :func:`~pyg_kernels.tables.stream_table`. It may be a pipe.
        smiles_column: the column of SMILES.
        target_columns: the columns of targets. None takes every other column that has a name
            and holds numbers (a column without a name is most often an index). An empty sequence
            takes none, which suffices for prediction.
        split_column: a column that names the part to which each molecule belongs, kept as
            ``split_values`` for :func:`~pyg_kernels.datasets.column_split`.
        skip_invalid: leave out the SMILES that cannot be read, instead of raising; ``skipped``
            lists them with their lines.
        num_workers: the number of processes, as in
            :meth:`~pyg_kernels.chem.Featurizer.encode_many`.
        progress: whether to show a progress bar.
        transform: applied to each molecule as it is taken out.
        featurizer: the features, also by name (``'duvenaud'``).
        encoding: the encoding of a CSV.

    Raises:
        FileNotFoundError: if there is no such file.
        InvalidMolecules: if a SMILES cannot be read and ``skip_invalid`` is False.
        ValueError: if the file is empty or no CSV file, a column is missing, a target is not a
            number, or no molecule is left.

    Example:
        >>> import tempfile
        >>> from pathlib import Path
        >>> from pyg_kernels.datasets import MoleculeCSV
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     path = Path(folder) / "molecules.csv"
        ...     _ = path.write_text("smiles,logS\nCCO,1.1\nc1ccccc1,-1.6\nCCCCCC,\n")
        ...     molecules = MoleculeCSV(path)
        >>> molecules.smiles, molecules.target_names, molecules.targets.squeeze(1).tolist()
        (['CCO', 'c1ccccc1', 'CCCCCC'], ['logS'], [1.1, -1.6, nan])

    See Also:
        :class:`MoleculeDataset`, what can be done with it; :class:`MoleculeShards`, where memory
        does not suffice; :func:`column_split`; :class:`MoleculeLoader`.
    """

    def __init__(
        self,
        path: str | Path,
        smiles_column: str = "smiles",
        target_columns: Sequence[str] | str | None = None,
        split_column: str | None = None,
        skip_invalid: bool = False,
        num_workers: int | None = None,
        progress: bool = False,
        transform: Callable[[Data], Any] | None = None,
        featurizer: str | Featurizer | None = None,
        encoding: str = "utf-8",
    ) -> None:
        super().__init__(transform=transform, featurizer=featurizer)
        (frame,) = stream_molecule_rows(path, encoding=encoding)
        columns = find_columns(path, [frame], smiles_column, target_columns, split_column)
        self._read(columns.table(frame), Path(path).name, skip_invalid, num_workers, progress)


class _View(NamedTuple):
    """The molecules that a view shows: PyTorch Geometric's indices, their positions and rows."""

    indices: Sequence[int] | None
    rows: Tensor
    table: MoleculeTable


class MoleculeBatch(Batch):
    """A batch of molecules that was assembled at once and can be taken apart like any other.

    The nodes and edges of each graph follow those of the one before, and so does its row of ``y``.
    """

    def get_example(self, idx: int) -> Data:
        """The molecule at position ``idx`` of the batch."""
        idx = range(self.num_graphs)[idx]
        first, end = self.ptr[idx].tolist(), self.ptr[idx + 1].tolist()
        edges = self.batch.index_select(0, self.edge_index[0]) == idx
        return Data(
            x=self.x[first:end],
            edge_index=self.edge_index[:, edges] - first,
            edge_attr=self.edge_attr[edges],
            y=self.y[idx : idx + 1],
            smiles=self.smiles[idx],
        )


def as_matrix(targets: Tensor | np.ndarray | Sequence[Any]) -> Tensor:
    """Targets as ``(M, T)`` float64; raises if they exceed the range of float32."""
    given = targets if isinstance(targets, Tensor) else np.array(targets, dtype=np.float64)
    values = torch.as_tensor(given, dtype=torch.float64)
    values = values.unsqueeze(1) if values.dim() == 1 else values
    if values.dim() != 2:
        raise ValueError(f"targets must have the shape (M, T), not {tuple(values.shape)}")
    too_large = values[values.abs() > torch.finfo(torch.float32).max]
    if len(too_large):
        raise ValueError(f"targets must be in the range of float32 or NaN, not {too_large[0]:g}")
    return values
