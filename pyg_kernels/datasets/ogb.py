"""The molecule sets of the Open Graph Benchmark, read from the files that it publishes."""

from __future__ import annotations

import shutil
import warnings
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch_geometric.data import Data

from pyg_kernels.chem import MolCodeStore, OGBFeaturizer
from pyg_kernels.datasets.molecules import MoleculeDataset, as_matrix
from pyg_kernels.datasets.public_file import downloaded
from pyg_kernels.datasets.splits import Split
from pyg_kernels.datasets.table import MoleculeTable
from pyg_kernels.tables import DAMAGE

FOLDER = "http://snap.stanford.edu/ogb/data/graphproppred/csv_mol_download/"
#: The archive of each set and OGB's metric; OGB splits all sets by scaffolds.
SETS = {
    "ogbg-molbace": ("bace", "rocauc"),
    "ogbg-molbbbp": ("bbbp", "rocauc"),
    "ogbg-molclintox": ("clintox", "rocauc"),
    "ogbg-molmuv": ("muv", "ap"),
    "ogbg-molpcba": ("pcba", "ap"),
    "ogbg-molsider": ("sider", "rocauc"),
    "ogbg-moltox21": ("tox21", "rocauc"),
    "ogbg-moltoxcast": ("toxcast", "rocauc"),
    "ogbg-molhiv": ("hiv", "rocauc"),
    "ogbg-molesol": ("esol", "rmse"),
    "ogbg-molfreesolv": ("freesolv", "rmse"),
    "ogbg-mollipo": ("lipophilicity", "rmse"),
    "ogbg-molchembl": ("chembl", "rocauc"),
}
MAPPING, LABELS = "mapping/mol.csv.gz", "raw/graph-label.csv.gz"
RELEASE = "RELEASE_v1.txt"
NOT_TARGETS = ("smiles", "mol_id")  # columns of the mapping


class OGBMolecules(MoleculeDataset):
    """A molecule set of the Open Graph Benchmark (Hu et al. 2020); :func:`ogb_dataset` makes it.

    A :class:`~pyg_kernels.datasets.MoleculeDataset` with the features of
    :class:`~pyg_kernels.chem.OGBFeaturizer`, as OGB stores them. ``smiles`` are those of OGB's
    ``mapping/mol.csv.gz``, ``row_numbers`` its lines (the header is line 1), ``target_names`` its
    other columns.

    Attributes:
        name: what OGB calls the set, such as ``'ogbg-molesol'``.
        eval_metric: OGB's metric: ``'rmse'`` for a regression, ``'rocauc'`` or ``'ap'`` for binary
            classifications.
    """

    name: str
    eval_metric: str
    _split: Split

    @property
    def split(self) -> Split:
        """The official split of the whole set.

        Raises:
            ValueError: for a view of part of the set.
        """
        if self._indices is not None:
            raise ValueError("the official split is that of the whole set, not of a part of it")
        return self._split


def ogb_dataset(
    name: str,
    root: str | Path = "data/ogb",
    transform: Callable[[Data], Any] | None = None,
) -> OGBMolecules:
    """A molecule set of the Open Graph Benchmark with its official split.

    The published files are read without being changed; the package ogb is not needed.

    Args:
        name: such as ``'ogbg-molesol'``; ``-`` and ``_`` are equivalent.
        root: the folder in which OGB keeps the set's own folder, ``ogbg_molesol``. If that folder
            is missing, its archive is downloaded (OGB publishes no checksums) and unpacked there.
        transform: applied to each molecule as it is taken out.

    Returns:
        The set, with ``split`` and ``eval_metric``.

    Warns:
        UserWarning: if the files may be of an older version (``RELEASE_v1.txt`` is not there).

    Raises:
        ValueError: if OGB has no molecule set of this name, or its files are incomplete, damaged
            or do not belong together.
        OSError: if the set is not there and cannot be downloaded.

    Example:
        >>> from pyg_kernels.datasets import ogb_dataset
        >>> molecules = ogb_dataset("ogbg-molesol")  # doctest: +SKIP
        >>> train = molecules[molecules.split.train]  # doctest: +SKIP
    """
    name = name.replace("_", "-")
    if name not in SETS:
        raise ValueError(
            f"the Open Graph Benchmark has no molecule set {name!r}; it has {', '.join(SETS)}"
        )
    archive, metric = SETS[name]
    folder = _folder(Path(root).expanduser(), name, archive)
    if not (folder / RELEASE).is_file():
        warnings.warn(
            f"{folder} has no {RELEASE}: it may be an older version of {name} than OGB publishes "
            "now; it is used as it is",
            stacklevel=2,
        )
    dataset = OGBMolecules(transform=transform, featurizer=OGBFeaturizer())
    dataset.name, dataset.eval_metric = name, metric
    try:
        store, table = _codes(folder), _table(folder)
        if len(store) != len(table.smiles):
            raise ValueError(f"{MAPPING} has {len(table.smiles)} molecules, raw {len(store)}")
        dataset._split = _split(folder, len(store))
    except ValueError as error:
        raise ValueError(
            f"{folder} is damaged: {error}; remove the folder to download it anew"
        ) from error
    dataset._hold(store, table)
    return dataset


def _folder(root: Path, name: str, archive: str) -> Path:
    """The folder of a set, downloaded if it is not there."""
    folder = root / name.replace("-", "_")
    for there in (folder.with_name(f"{folder.name}_pyg"), folder):
        if there.is_dir() and any(path.is_file() for path in there.rglob("*")):
            return there
    url = f"{FOLDER}{archive}.zip"
    advice = f"{name} is not in {folder}: unpack the archive there"
    with downloaded(url, advice, is_archive=True) as found:
        folder.mkdir(parents=True, exist_ok=True)
        shutil.copytree(found / archive, folder, dirs_exist_ok=True)
    return folder


def _read(folder: Path, file: str, **options: Any) -> Any:
    import pandas

    try:
        return pandas.read_csv(folder / file, **{"header": None, **options})
    except (ValueError, *DAMAGE) as error:
        raise ValueError(f"{file} cannot be read: {' '.join(str(error).split())}") from error


def _numbers(folder: Path, name: str, most: Sequence[float]) -> NDArray[np.int64]:
    """A file of whole numbers from 0 to `most`, the largest that its columns may have."""
    file = f"{name}.csv.gz"
    table = _read(folder, file)
    integer = all(kind.kind in "iu" for kind in table.dtypes)
    if table.shape[1] != len(most) or not integer or bool((table < 0).any(axis=None)):
        raise ValueError(f"{file} must have {len(most)} whole numbers a row, not below 0")
    numbers: NDArray[np.int64] = table.to_numpy(np.int64)
    if bool((numbers > most).any()):
        largest = numbers.max(axis=0).tolist()
        raise ValueError(f"{file} goes up to {largest}, the features of OGB to {most}")
    return numbers


def _codes(folder: Path) -> MolCodeStore:
    """The graphs as codes; OGB's files have every bond once."""
    featurizer = OGBFeaturizer()
    most_atoms = [feature.num_codes - 1 for feature in featurizer.atom_features]
    most_bonds = [feature.num_codes - 1 for feature in featurizer.bond_features]
    num_atoms = _numbers(folder, "raw/num-node-list", [np.inf])[:, 0]
    num_bonds = _numbers(folder, "raw/num-edge-list", [np.inf])[:, 0]
    atoms = _numbers(folder, "raw/node-feat", most_atoms).astype(np.uint8)
    bonds = _numbers(folder, "raw/edge-feat", most_bonds).astype(np.uint8)
    ends = _numbers(folder, "raw/edge", [np.inf, np.inf]).T
    rows = (len(num_bonds), num_atoms.sum(), num_bonds.sum(), len(bonds))
    if rows != (len(num_atoms), len(atoms), ends.shape[1], ends.shape[1]):
        raise ValueError("its files in raw differ in their number of rows")
    if bool((ends >= np.repeat(num_atoms, num_bonds)).any()):
        raise ValueError("raw/edge.csv.gz names atoms that do not exist")
    return MolCodeStore.of_bonds(atoms, ends, bonds, num_atoms, num_bonds)


def _table(folder: Path) -> MoleculeTable:
    """SMILES and targets, as they stand in the files."""
    mapping = _read(folder, MAPPING, header=0, keep_default_na=False, dtype=str)
    labels = _read(folder, LABELS, dtype=str, keep_default_na=False, skip_blank_lines=False)
    # Pandas may miss the nearest float64 by one unit, Python does not.
    targets = labels.replace("", "nan").to_numpy(dtype=object).astype(np.float64)
    if len(mapping) != len(targets) or "smiles" not in mapping:
        raise ValueError(f"{LABELS} and {MAPPING} do not belong together")
    names = [str(column) for column in mapping if column not in NOT_TARGETS]
    number = targets.shape[1]
    return MoleculeTable(
        smiles=mapping["smiles"].tolist(),
        targets=as_matrix(targets),
        target_names=names if len(names) == number else [f"y{k}" for k in range(number)],
        row_numbers=list(range(2, len(mapping) + 2)),
    )


def _split(folder: Path, number: int) -> Split:
    """The official split, which has every molecule once."""
    parts = [_numbers(folder, f"split/scaffold/{p}", [np.inf])[:, 0] for p in Split._fields]
    if not np.array_equal(np.sort(np.concatenate(parts)), np.arange(number)):
        raise ValueError("split/scaffold does not have each molecule once")
    return Split(*(torch.from_numpy(part.copy()) for part in parts))
