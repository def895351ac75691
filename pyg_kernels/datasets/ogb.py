"""The molecule sets of the Open Graph Benchmark, through its own loader."""

from __future__ import annotations

import io
import math
import os
import pickle
import sys
import warnings
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch_geometric.data import Data
from torch_geometric.data.data import DataEdgeAttr, DataTensorAttr
from torch_geometric.data.storage import GlobalStorage

from pyg_kernels.chem import MolCodeStore, OGBFeaturizer
from pyg_kernels.chem.ogb_package import ogb_module
from pyg_kernels.datasets.molecules import MoleculeDataset
from pyg_kernels.datasets.splits import Split
from pyg_kernels.datasets.table import MoleculeTable

PARTS = ("train", "valid", "test")
RAW_FILES = ("edge", "node-feat", "edge-feat", "num-node-list", "num-edge-list", "graph-label")
UNREADABLE = (  # what reading damaged files raises, besides OSError
    RuntimeError,
    ValueError,
    EOFError,
    KeyError,
    IndexError,
    pickle.PickleError,
    zlib.error,
)
NOT_TARGETS = ("smiles", "mol_id")  # columns of mapping/mol.csv.gz


class OGBMolecules(MoleculeDataset):
    """A molecule set of the Open Graph Benchmark (Hu et al. 2020); :func:`ogb_dataset` makes it.

    A :class:`~pyg_kernels.datasets.MoleculeDataset` with the features of
    :class:`~pyg_kernels.chem.OGBFeaturizer`, as OGB stores them. ``smiles`` are those of OGB's
    ``mapping/mol.csv.gz``, ``row_numbers`` its lines (the header is line 1), ``target_names`` its
    other columns.

    Attributes:
        name: what OGB calls the set, such as ``'ogbg-molesol'``.
        task_type: ``'regression'`` or ``'binary classification'``.
        eval_metric: how OGB measures predictions: ``'rmse'``, ``'rocauc'`` or ``'ap'``.
    """

    name: str
    task_type: str
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


def ogb_molecule_sets() -> list[str]:
    """The names of the molecule sets of the installed version of OGB.

    Raises:
        ImportError: if the package ogb is not installed.
    """
    table = _master()
    return [name for name in table if table[name]["data type"] == "mol"]


def ogb_dataset(
    name: str,
    root: str | Path = "data/ogb",
    transform: Callable[[Data], Any] | None = None,
    progress: bool = False,
) -> OGBMolecules:
    """A molecule set of the Open Graph Benchmark with its official split.

    OGB's own ``PygGraphPropPredDataset`` reads it; its graphs are then kept as small integer codes.
    Nothing is asked on standard input, and without a network a set that lies in ``root`` is read.

    Args:
        name: such as ``'ogbg-molesol'``; ``-`` and ``_`` are the same.
        root: the folder in which OGB keeps the set's own folder, ``ogbg_molesol``. If that is not
            there, OGB downloads it. OGB writes a folder ``processed`` into it at first.
        transform: applied to each molecule as it is taken out.
        progress: whether to show what OGB says of its work.

    Returns:
        The set, with ``split``, ``task_type``, ``eval_metric``.

    Warns:
        UserWarning: if OGB would take the files for an older version (``RELEASE_v1.txt`` is not
            there): they are used as they are.

    Raises:
        ValueError: if OGB has no molecule set of this name, or its files are incomplete or damaged.
        OSError: if it is not there and cannot be downloaded, or ``processed`` cannot be written.
        ImportError: if the package ogb is not installed.
    """
    name = _checked_name(name)
    root = Path(root).expanduser()
    folder = _folder(root, name)
    if _holds_files(folder):
        _check_complete(folder, name)
        source = _open(name, root, folder, progress)
    else:
        with _without_trace(folder):
            source = _open(name, root, folder, progress)
    dataset = OGBMolecules(transform=transform, featurizer=OGBFeaturizer())
    dataset.name, dataset.task_type = name, source.task_type
    dataset.eval_metric = source.eval_metric
    with _naming(folder):
        dataset._hold(_codes(source), _table(folder, source))
        parts = source.get_idx_split()
        dataset._split = Split(*(parts[part].long() for part in PARTS))
    return dataset


def _master() -> Any:
    """OGB's table of its sets of graphs: a column each."""
    import pandas

    folder = Path(str(ogb_module("graphproppred").__file__)).parent
    return pandas.read_csv(folder / "master.csv", index_col=0, keep_default_na=False)


def _checked_name(name: str) -> str:
    known, dashed = ogb_molecule_sets(), name.replace("_", "-")
    if dashed in known:
        return dashed
    listed = ", ".join(known)
    if dashed in _master():
        raise ValueError(f"{name!r} is no set of molecules with targets; those are {listed}")
    raise ValueError(f"the Open Graph Benchmark has no molecule set {name!r}; it has {listed}")


def _folder(root: Path, name: str) -> Path:
    """Where OGB looks for the set."""
    plain = name.replace("-", "_")
    return root / f"{plain}_pyg" if (root / f"{plain}_pyg").exists() else root / plain


def _holds_files(folder: Path) -> bool:
    return folder.exists() and (not folder.is_dir() or any(p.is_file() for p in folder.rglob("*")))


def _check_complete(folder: Path, name: str) -> None:
    """Looks at the files before OGB does, which would replace or remove an incomplete folder."""
    split = folder / "split" / _master()[name]["split"]
    wanted = [folder / "raw" / f"{file}.csv.gz" for file in RAW_FILES]
    wanted.append(folder / "mapping" / "mol.csv.gz")
    if not (split / "split_dict.pt").is_file():
        wanted += [split / f"{part}.csv.gz" for part in PARTS]
    missing = [str(path.relative_to(folder)) for path in wanted if not path.is_file()]
    if missing:
        raise ValueError(
            f"{folder} is no complete set {name}: {', '.join(missing)} missing; remove the folder "
            f"to download it anew"
        )
    if not (folder / "RELEASE_v1.txt").is_file():
        warnings.warn(
            f"{folder} has no RELEASE_v1.txt: it may be an older version of {name} than OGB "
            f"publishes now; it is used as it is",
            stacklevel=3,
        )


@contextmanager
def _without_trace(folder: Path) -> Iterator[None]:
    """Removes the empty folders that a failed download leaves."""
    before = {path for path in (*folder.rglob("*"), folder, *folder.parents) if path.exists()}
    try:
        yield
    except BaseException:
        for path in [*sorted(folder.rglob("*"), reverse=True), folder, *folder.parents]:
            if path not in before and path.is_dir() and not any(path.iterdir()):
                path.rmdir()
        raise


def _open(name: str, root: Path, folder: Path, progress: bool) -> Any:
    """OGB's own data set."""
    loader = ogb_module("graphproppred").PygGraphPropPredDataset
    there = _holds_files(folder)
    processed = (folder / "processed" / "geometric_data_processed.pt").is_file()
    # torch.load takes PyTorch Geometric's classes for unsafe unless it is told of them.
    known = torch.serialization.get_safe_globals()
    classes = [
        each for each in (Data, DataEdgeAttr, DataTensorAttr, GlobalStorage) if each not in known
    ]
    try:
        with _quiet(progress), torch.serialization.safe_globals(classes):
            return loader(name, root=os.fspath(root))
    except OSError as error:
        if not there:
            raise OSError(_not_there(name, folder, error)) from error
        if processed:
            raise ValueError(_damaged(folder, error)) from error
        raise OSError(
            f"OGB cannot read {folder} and write its folder processed ({error.strerror or error}); "
            f"copy {folder} to where that can be done, and give that as root"
        ) from error
    except SystemExit as error:  # what OGB does where a download is declined
        raise OSError(f"{name} is not in {folder} and was not downloaded") from error
    except UNREADABLE as error:
        if not there:
            raise OSError(_not_there(name, folder, error)) from error
        raise ValueError(_damaged(folder, error)) from error


def _not_there(name: str, folder: Path, error: Exception) -> str:
    return f"{name} is not in {folder} and cannot be downloaded: {_first_line(error)}"


def _damaged(folder: Path, error: Exception) -> str:
    return (
        f"{folder} is damaged: OGB cannot read it ({_first_line(error)}); remove its folder "
        f"processed, or all of it to download it anew"
    )


@contextmanager
def _quiet(progress: bool) -> Iterator[None]:
    """Answers no to what OGB asks, and says what it says on standard error or nowhere."""
    asked, sys.stdin = sys.stdin, io.StringIO("n\n" * 8)
    said = sys.stderr if progress else io.StringIO()
    try:
        with redirect_stdout(said), redirect_stderr(said), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        sys.stdin = asked


@contextmanager
def _naming(folder: Path) -> Iterator[None]:
    """Turns the errors of reading the set's further files into one that names its folder."""
    try:
        yield
    except (OSError, *UNREADABLE) as error:
        raise ValueError(f"{folder} is damaged: {_first_line(error)}") from error


def _first_line(error: Exception) -> str:
    return next(iter(str(error).splitlines()), type(error).__name__)


def _codes(source: Any) -> MolCodeStore:
    """The graphs of OGB's data set as codes, without a loop over them."""
    data, slices = source._data, source.slices
    atom_ptr, edge_ptr = slices["x"].numpy(), slices["edge_index"].numpy()
    shift = np.repeat(atom_ptr[:-1], np.diff(edge_ptr))
    begin, end = data.edge_index.numpy() + shift
    return MolCodeStore.of_directed_bonds(
        atoms=_as_codes(data.x, [feature.num_codes for feature in OGBFeaturizer().atom_features]),
        source=begin,
        target=end,
        bonds=_as_codes(
            data.edge_attr, [feature.num_codes for feature in OGBFeaturizer().bond_features]
        ),
        atom_ptr=atom_ptr,
        edge_ptr=edge_ptr,
        positions=np.arange(len(atom_ptr) - 1),
    )


def _as_codes(features: Tensor, most: list[int]) -> np.ndarray:
    if features.size(1) != len(most) or bool((features < 0).any()):
        raise ValueError(f"its features have the shape {tuple(features.shape)} or are negative")
    if len(features) and bool((features.amax(dim=0) >= torch.tensor(most)).any()):
        raise ValueError(
            f"its features go up to {features.amax(dim=0).tolist()}, those of OGB to "
            f"{[number - 1 for number in most]}"
        )
    return features.to(torch.uint8).numpy()


def _table(folder: Path, source: Any) -> MoleculeTable:
    """SMILES and targets; the labels as they stand in OGB's file, which its loader rounds."""
    import pandas

    mapping = pandas.read_csv(folder / "mapping" / "mol.csv.gz", keep_default_na=False, dtype=str)
    # Pandas may miss the nearest float64 by one unit, Python does not; classes are exact anyway.
    kind = str if source.task_type == "regression" else None
    labels = pandas.read_csv(folder / "raw" / "graph-label.csv.gz", header=None, dtype=kind)
    targets = torch.from_numpy(labels.to_numpy(dtype=np.float64, copy=True))
    if len(mapping) != len(targets) or not _same(targets, source._data.y):
        raise ValueError(
            "its files processed, raw/graph-label.csv.gz and mapping/mol.csv.gz do not belong "
            "together; remove processed"
        )
    names = [str(column) for column in mapping if column not in NOT_TARGETS]
    number = targets.size(1)
    return MoleculeTable(
        smiles=[str(smiles) for smiles in mapping["smiles"]],
        targets=targets,
        target_names=names if len(names) == number else [f"y{k}" for k in range(number)],
        row_numbers=list(range(2, len(mapping) + 2)),
    )


def _same(targets: Tensor, rounded: Tensor) -> bool:
    return targets.shape == rounded.shape and torch.equal(
        targets.float().nan_to_num(math.inf), rounded.float().nan_to_num(math.inf)
    )
