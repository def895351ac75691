"""Any CSV file of SMILES and targets."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from torch_geometric.data import Data

from pyg_kernels.chem import Featurizer
from pyg_kernels.datasets.molecules import MoleculeDataset
from pyg_kernels.datasets.table import read_table

if TYPE_CHECKING:
    from pandas import DataFrame


class MoleculeCSV(MoleculeDataset):
    """The molecules of a CSV file with a header line, as pandas reads it.

    An empty target (or ``nan``, ``na``, ``n/a``, ``null``, ``none`` in any case) is missing: NaN
    in ``y``. Blank lines are passed over.

    Args:
        path: the file; decompressed if its name ends in ``.gz``.
        smiles_column: the column of SMILES.
        target_columns: the columns of targets. None takes every other column that has a name
            and holds numbers (a column without one is most often a mere index); an empty sequence
            takes none, which is all that prediction needs.
        split_column: a column that says of each molecule to which part it belongs, kept as
            ``split_values`` for :func:`~pyg_kernels.datasets.column_split`.
        skip_invalid: leave out the SMILES that cannot be read (listed in ``skipped``, with their
            lines) rather than raise.
        num_workers: the number of processes, as in
            :meth:`~pyg_kernels.chem.Featurizer.encode_many`.
        progress: whether to show a progress bar.
        transform: applied to each molecule as it is taken out.
        featurizer: the features; a MolFeaturizer by default.
        cells: what :func:`~pyg_kernels.datasets.cells.read_cells` gave for ``path``, if it has
            been read already (a pipe can be read only once).

    Raises:
        FileNotFoundError: if there is no such file.
        InvalidMolecules: if a SMILES cannot be read and ``skip_invalid`` is False.
        ValueError: if the file is empty or no CSV file, a column is missing, a target is not a
            number, or no molecule is left.
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
        featurizer: Featurizer | None = None,
        cells: DataFrame | None = None,
    ) -> None:
        super().__init__(transform=transform, featurizer=featurizer)
        table = read_table(path, smiles_column, target_columns, split_column, cells)
        name = Path(path).name
        self._hold(*self._read(table, name, skip_invalid, num_workers, progress))
