"""Which molecules, and which split."""

import hashlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from torch import Tensor

from benchmarks.harness.errors import InputError, as_input_error
from benchmarks.harness.molecules.targets import check_targets
from benchmarks.harness.task import PARTS

# How the arguments of MoleculeCSV, which its errors name, are called on the command line.
OPTIONS = {
    "; target_columns=() reads molecules without targets": "",
    "skip_invalid=True": "--skip-invalid",
    "smiles_column": "--smiles-column",
    "target_columns": "--target-columns",
    "split_column": "--split-column",
}


@dataclass(frozen=True)
class DataChoice:
    """The molecules and the split that the command line names.

    Args:
        dataset (str): ``'chembl'``, ``'cep'``, ``'csv'``, or a molecule set of the Open Graph
            Benchmark, such as ``'ogbg-molesol'``.
        split (str): ``'random'``, ``'scaffold'``, ``'column'``, or ``'official'``, that of a set of
            the Open Graph Benchmark.
        split_seed (int, optional): Seed of the random split (``None``: 0) or of the order in which
            scaffolds are dealt out (``None``: largest first).
        root (str): Folder of the downloaded data sets.
        task (str, optional): ``'regression'`` or ``'classification'``; ``None``: regression, or
            what a set of the Open Graph Benchmark is for.
        csv (str, optional): The file, for ``'csv'``.
        smiles_column (str): Its SMILES column.
        target_columns (list of str, optional): Its targets; ``None``: every other numeric column.
        split_column (str, optional): Its column of train, valid, test.
        skip_invalid (bool): Leave out molecules that do not parse instead of stopping.
        shards (str, optional): Folder in which the molecules of ``'csv'`` or ``'cep'`` lie in
            shards, and stay while they are used; they are put there if they are not; ``None``: in
            memory.
        resample (float, optional): Training molecules are drawn so that all bins of this width of
            the target are equally likely; ``None``: each once an epoch.
    """

    dataset: str = "chembl"
    split: str = "random"
    split_seed: int | None = None
    root: str = "data"
    csv: str | None = None
    smiles_column: str = "smiles"
    target_columns: list[str] | None = None
    split_column: str | None = None
    skip_invalid: bool = False
    shards: str | None = None
    resample: float | None = None
    task: str | None = None


@dataclass(frozen=True)
class MoleculeData:
    """Molecules with a split.

    Args:
        molecules: A ``pyg_kernels.datasets.MoleculeDataset``, or ``MoleculeShards``.
        parts: For ``'train'``, ``'valid'`` and ``'test'``, the positions of their molecules.
        choice: Where they come from.
    """

    molecules: Any
    parts: dict[str, Tensor]
    choice: DataChoice

    @property
    def metric(self) -> str:
        """How predictions are measured: ``'rmse'``, ``'rocauc'`` or ``'ap'``."""
        official: str | None = getattr(self.molecules, "eval_metric", None)
        return official or ("rocauc" if self.choice.task == "classification" else "rmse")

    def targets(self, part: str) -> Tensor:
        """``(M, T)`` values of a part, NaN where a target was not measured."""
        return self.molecules.targets[self.parts[part]]

    def digest(self) -> str:
        """A fingerprint of molecules, targets and split: equal only if all are."""
        if self.choice.shards is None:
            text = hashlib.sha256("\n".join(self.molecules.smiles).encode())
            text.update(self.molecules.targets.contiguous().numpy().tobytes())
        else:  # has checksums of molecules and targets
            text = hashlib.sha256(self.molecules.digest.encode())
        for places in self.parts.values():
            text.update(places.contiguous().numpy().tobytes())
        return text.hexdigest()[:16]


def load_molecules(choice: DataChoice, progress: bool = False) -> MoleculeData:
    """Reads molecules and splits them.

    Args:
        choice: What to read and how to split it.
        progress (bool): Show the progress of parsing many molecules.

    Raises:
        InputError: If the molecules cannot be read or split, or a part has nothing to learn from
            or to compare with.
    """
    with as_input_error():
        molecules = _read(choice, progress)
        parts = _split(choice, molecules)
    data = MoleculeData(molecules, parts, choice)
    if choice.resample and molecules.num_tasks != 1:
        raise InputError(
            f"--resample needs one target, not {molecules.num_tasks}; --target-columns chooses"
        )
    if len(parts["train"]) < 2:
        raise InputError("the training part has a single molecule; at least 2 are needed")
    with as_input_error():  # a shard is checked when it is first read
        check_targets(molecules, parts, data.metric)
    if choice.resample and data.metric != "rmse":
        raise InputError("--resample goes with regression: bins of a class are no bins")
    return data


def _read(choice: DataChoice, progress: bool) -> Any:
    from pyg_kernels.datasets import CEP, ChEMBLSulfonamides, ogb_dataset

    if choice.shards is not None:
        return _read_shards(choice, progress)
    if choice.dataset.startswith("ogbg-"):
        return ogb_dataset(choice.dataset, choice.root)
    if choice.dataset == "chembl":
        return ChEMBLSulfonamides()
    if choice.dataset == "cep":
        return CEP(choice.root, progress=progress)
    return read_csv(
        choice.csv or "",
        choice.smiles_column,
        choice.target_columns,
        choice.split_column,
        choice.skip_invalid,
        progress,
    )


def read_csv(
    path: str,
    smiles_column: str,
    target_columns: Sequence[str] | None,
    split_column: str | None,
    skip_invalid: bool,
    progress: bool,
    cells: Any = None,
    featurizer: Any = None,
) -> Any:
    """The ``MoleculeCSV`` of a file, or of its cells if they have been read already.

    Its features are those of a ``MolFeaturizer`` unless `featurizer` is another. Its errors name
    the options of the command line.

    Raises:
        InputError: If the file is not such a table of molecules.
    """
    from pyg_kernels.datasets import MoleculeCSV

    with _naming_options():
        return MoleculeCSV(
            path,
            smiles_column=smiles_column,
            target_columns=target_columns,
            split_column=split_column,
            skip_invalid=skip_invalid,
            progress=progress,
            cells=cells,
            featurizer=featurizer,
        )


def _read_shards(choice: DataChoice, progress: bool) -> Any:
    """The ``MoleculeShards`` of a file, written first as far as they are not there."""
    from pyg_kernels.datasets import CEP, MoleculeShards

    of_cep = choice.dataset == "cep"
    with _naming_options():
        return MoleculeShards.from_csv(
            CEP.source(choice.root) if of_cep else choice.csv or "",
            choice.shards or "",
            smiles_column="smiles" if of_cep else choice.smiles_column,
            target_columns=["PCE"] if of_cep else choice.target_columns,
            split_column=choice.split_column,
            skip_invalid=choice.skip_invalid,
            progress=progress,
        )


@contextmanager
def _naming_options() -> Iterator[None]:
    """Turns errors into an :class:`InputError` that names the options of the command line."""
    try:
        with as_input_error():
            yield
    except InputError as error:
        message = str(error)
        for argument, option in OPTIONS.items():
            message = message.replace(argument, option)
        raise InputError(message) from error


def _split(choice: DataChoice, molecules: Any) -> dict[str, Tensor]:
    from pyg_kernels.datasets import column_split, random_split, scaffold_split

    if choice.split == "official":
        split = molecules.split
    elif choice.split == "random":
        split = random_split(len(molecules), seed=choice.split_seed or 0)
    elif choice.split == "scaffold":
        split = scaffold_split(molecules.smiles, seed=choice.split_seed)
    elif molecules.split_values is None:
        raise ValueError("--split column needs --split-column, the name of a column of --csv")
    else:
        split = column_split(molecules.split_values)
    return {part: getattr(split, part) for part in PARTS}
