"""Which molecules, which split, and the batches that Lightning reads."""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import lightning.pytorch as lightning
from torch import Tensor

from benchmarks.harness.errors import InputError, as_input_error
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
        dataset (str): ``'chembl'``, ``'cep'`` or ``'csv'``.
        split (str): ``'random'``, ``'scaffold'`` or ``'column'``.
        split_seed (int, optional): Seed of the random split (``None``: 0) or of the order in which
            scaffolds are dealt out (``None``: largest first).
        root (str): Folder of the downloaded data sets.
        csv (str, optional): The file, for ``'csv'``.
        smiles_column (str): Its SMILES column.
        target_columns (list of str, optional): Its targets; ``None``: every other numeric column.
        split_column (str, optional): Its column of train, valid, test.
        skip_invalid (bool): Leave out molecules that do not parse instead of stopping.
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


@dataclass(frozen=True)
class MoleculeData:
    """Molecules with a split.

    Args:
        molecules: A ``pyg_kernels.datasets.MoleculeDataset``.
        parts: For ``'train'``, ``'valid'`` and ``'test'``, the positions of their molecules.
        choice: Where they come from.
    """

    molecules: Any
    parts: dict[str, Tensor]
    choice: DataChoice

    def targets(self, part: str) -> Tensor:
        """``(M, T)`` values of a part, NaN where a target was not measured."""
        return self.molecules.targets[self.parts[part]]

    def digest(self) -> str:
        """A fingerprint of molecules, targets and split: equal only if all are."""
        text = hashlib.sha256("\n".join(self.molecules.smiles).encode())
        for numbers in (self.molecules.targets, *self.parts.values()):
            text.update(numbers.contiguous().numpy().tobytes())
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
    if len(parts["train"]) < 2:
        raise InputError("the training part has a single molecule; at least 2 are needed")
    for part in PARTS:
        missing = data.targets(part).isnan().all(dim=0).tolist()
        for name, absent in zip(molecules.target_names, missing, strict=True):
            if absent:
                raise InputError(
                    f"the {part} part has no measured value of target {name!r}; "
                    f"another --split or other --target-columns may have one"
                )
    return data


def _read(choice: DataChoice, progress: bool) -> Any:
    from pyg_kernels.datasets import CEP, ChEMBLSulfonamides

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
    records: Sequence[tuple[int, list[str]]] | None = None,
) -> Any:
    """The ``MoleculeCSV`` of a file, or of its records if they have been read already.

    Its errors name the options of the command line.

    Raises:
        InputError: If the file is not such a table of molecules.
    """
    from pyg_kernels.datasets import MoleculeCSV

    try:
        with as_input_error():
            return MoleculeCSV(
                path,
                smiles_column=smiles_column,
                target_columns=target_columns,
                split_column=split_column,
                skip_invalid=skip_invalid,
                progress=progress,
                records=records,
            )
    except InputError as error:
        message = str(error)
        for argument, option in OPTIONS.items():
            message = message.replace(argument, option)
        raise InputError(message) from error


def _split(choice: DataChoice, molecules: Any) -> dict[str, Tensor]:
    from pyg_kernels.datasets import column_split, random_split, scaffold_split

    if choice.split == "random":
        split = random_split(len(molecules), seed=choice.split_seed or 0)
    elif choice.split == "scaffold":
        split = scaffold_split(molecules.smiles, seed=choice.split_seed)
    elif molecules.split_values is None:
        raise ValueError("--split column needs --split-column, the name of a column of --csv")
    else:
        split = column_split(molecules.split_values)
    return {part: getattr(split, part) for part in PARTS}


class Standardised:
    """Molecules whose batches carry standardised targets.

    Args:
        molecules: A ``pyg_kernels.datasets.MoleculeDataset`` of M molecules.
        y: ``(M, T)`` float32 standardised targets, NaN where one was not measured.
    """

    def __init__(self, molecules: Any, y: Tensor) -> None:
        self.molecules = molecules
        self.y = y

    def __len__(self) -> int:
        return len(self.molecules)

    def batch(self, indices: Tensor) -> Any:
        """The molecules at these positions, ``(B, T)`` standardised targets as ``y``."""
        batch = self.molecules.batch(indices)
        batch.y = self.y[indices]
        return batch


class MoleculeBatches(lightning.LightningDataModule):
    """Batches of the training and validation parts.

    The order of the training molecules depends on seed and epoch alone, so that a resumed run
    sees the batches that the uninterrupted one would have seen.

    Args:
        data: Molecules and split.
        y: ``(M, T)`` float32 standardised targets of all molecules.
        batch_size (int): Molecules a batch, at least 2 (batch normalisation needs two).
        seed (int): Seed of the order.
    """

    def __init__(self, data: MoleculeData, y: Tensor, batch_size: int, seed: int) -> None:
        super().__init__()
        self.data = data
        self.molecules: Any = Standardised(data.molecules, y)
        self.batch_size = batch_size
        self.seed = seed

    def part(self, name: str, **options: Any) -> Any:
        """A loader over one part, in its own order unless `options` say otherwise."""
        from pyg_kernels.datasets import MoleculeLoader

        return MoleculeLoader(
            self.molecules, self.data.parts[name], batch_size=self.batch_size, **options
        )

    def train_dataloader(self) -> Any:
        """Shuffled batches of this epoch."""
        # A last batch of one molecule cannot be batch-normalised: that molecule, another one each
        # epoch, sits the epoch out.
        single = len(self.data.parts["train"]) % self.batch_size == 1
        loader = self.part("train", shuffle=True, seed=10_000 * self.seed, drop_last=single)
        loader.set_epoch(self.trainer.current_epoch if self.trainer else 0)
        return loader

    def val_dataloader(self) -> Any:
        """The validation part in its own order."""
        return self.part("valid")

    def all_parts(self) -> list[Any]:
        """One loader for each of :data:`PARTS`, in their own order."""
        return [self.part(name) for name in PARTS]
