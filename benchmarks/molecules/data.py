"""The molecules of a comparison, and their splits."""

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.harness.errors import InputError, as_input_error
from benchmarks.harness.options import flag
from benchmarks.molecules.options import CEP_ROOT, OGB_ROOT, OGB_SETS, Options
from pyg_kernels import datasets
from pyg_kernels.chem import featurizer_by_name
from pyg_kernels.molecules.inputs import Molecules

PARTS = ("train", "valid", "test")
COLUMN_OPTIONS = ("smiles_column", "target_columns", "split_column", "skip_invalid")
METRICS = {"rmse": "rmse", "rocauc": "roc-auc", "ap": "pr-auc"}  # OGB's names and ours


@dataclass(frozen=True)
class MoleculeSet:
    """Molecules with targets."""

    name: str  # of the data set, or of its file without the extension
    source: Any  # a ``MoleculeDataset``, or ``MoleculeShards``
    metric: str  # ``'rmse'``, ``'roc-auc'`` or ``'pr-auc'``, a mean over targets
    # ``(M,)`` bool, the molecules whose score is also shown separately
    subset: NDArray[np.bool_] | None = None

    @cached_property
    def molecules(self) -> Molecules:
        return Molecules.of_dataset(self.source)

    @property
    def targets(self) -> NDArray[np.float64]:
        return np.asarray(self.source.targets.numpy())

    @property
    def is_regression(self) -> bool:
        return self.metric == "rmse"

    def split(self, kind: str, seed: int | None) -> "Split":
        source = self.source
        with as_input_error():
            if kind == "random":
                found = datasets.random_split(len(source), seed=seed or 0)
            elif kind == "scaffold":
                found = datasets.scaffold_split(source.smiles, seed=seed)
            elif kind == "official":
                found = source.split
            else:
                found = datasets.column_split(source.split_values)
        named = kind if seed is None else f"{kind}{seed}"
        split = Split(self, named, {part: getattr(found, part).numpy() for part in PARTS})
        split.check()
        return split


@dataclass(frozen=True)
class Split:
    """The parts of a set of molecules."""

    data: MoleculeSet
    name: str  # such as ``'random'`` or ``'scaffold1'``, with the seed if one was given
    parts: Mapping[str, NDArray[Any]]  # the positions of each part

    @property
    def key(self) -> str:
        return f"{self.data.name}-{self.name}"

    def targets(self, part: str) -> NDArray[np.float64]:
        return self.data.targets[self.parts[part]]

    @cached_property
    def learned(self) -> NDArray[Any]:
        """The targets that can be learned: numbers, and targets with both classes in training."""
        if self.data.is_regression:
            return np.arange(self.data.targets.shape[1])
        return _with_both_classes(self.targets("train"))

    @cached_property
    def digest(self) -> str:
        source = self.data.source
        content = hashlib.sha256(str(getattr(source, "digest", "")).encode())
        if not hasattr(source, "digest"):
            content.update("\n".join(source.smiles).encode())
            content.update(np.ascontiguousarray(self.data.targets).tobytes())
        for part in PARTS:
            content.update(self.parts[part].astype(np.int64).tobytes())
        return content.hexdigest()[:16]

    def describe(self) -> str:
        sizes = ", ".join(f"{len(self.parts[part]):,} {part}" for part in PARTS)
        return f"{self.data.name}: {len(self.data.source):,} molecules, {self.name} split: {sizes}"

    def check(self) -> None:
        if len(self.parts["train"]) < 2:
            raise InputError("the training part has a single molecule; at least 2 are needed")
        advice = "another --split or other --target-columns may have one"
        for part in PARTS:
            y = self.targets(part)
            if part == "valid" and not len(y):
                continue
            if not self.data.is_regression:
                if not len(_with_both_classes(y)):
                    raise InputError(f"the {part} part has no target with both classes; {advice}")
                continue
            for name, column in zip(self.data.source.target_names, y.T, strict=True):
                if np.isnan(column).all():
                    lacks = f"has no measured value of target {name!r}"
                    raise InputError(f"the {part} part {lacks}; {advice}")


def _with_both_classes(y: NDArray[Any]) -> NDArray[Any]:
    return np.flatnonzero((y == 0).any(0) & (y == 1).any(0))


def load_set(data: str, options: Options, progress: bool = False) -> MoleculeSet:
    """The molecules that one word of ``--data`` names."""
    with as_input_error():
        featurizer = featurizer_by_name(options.chosen("featurizer", data))
        if data in OGB_SETS:
            found: Any = datasets.ogb_dataset(data, options.root or OGB_ROOT)
            if featurizer.fingerprint != found.featurizer.fingerprint:
                raise InputError(f"--featurizer: {data} has the features ogb")
            return MoleculeSet(data, found, METRICS[found.eval_metric])
        if data == "chembl":
            return MoleculeSet(data, datasets.ChEMBLSulfonamides(featurizer=featurizer), "rmse")
        if data == "cep" and options.shards is None:
            root = options.root or CEP_ROOT
            found = datasets.CEP(root, progress=progress, featurizer=featurizer)
            return MoleculeSet(data, found, "rmse")
    how: dict[str, Any] = {"featurizer": featurizer, "target_columns": ["PCE"]}
    if data != "cep":
        how |= {name: getattr(options, name) for name in COLUMN_OPTIONS}
        how["target_columns"] = list(options.target_columns) or None
    source = _of_file(data, options, how)
    metric = "roc-auc" if options.task == "classification" else "rmse"
    if metric == "roc-auc":
        _check_classes(source, "--task classification")
    subset = None
    if options.subset_column and data != "cep":
        how["target_columns"] = [options.subset_column]
        marks = _of_file(data, replace(options, shards=None), how)
        _check_classes(marks, "--subset-column")
        subset = marks.targets[:, 0].numpy() == 1
    return MoleculeSet(Path(data).name.partition(".")[0], source, metric, subset)


def _of_file(data: str, options: Options, how: Mapping[str, Any]) -> Any:
    """The molecules of a CSV, or of cep on disk; errors name the options of the command line."""
    try:
        path: Any = datasets.CEP.file.obtain(options.root or CEP_ROOT) if data == "cep" else data
        if options.shards is not None:
            return datasets.MoleculeShards.from_csv(path, options.shards, **how)
        return datasets.MoleculeCSV(path, **how)
    except (OSError, ValueError) as error:
        text = str(error).replace("; target_columns=() reads molecules without targets", "")
        for name in COLUMN_OPTIONS:
            text = text.replace(f"{name}=True", name).replace(name, flag(name))
        if isinstance(error, FileNotFoundError) and error.strerror:
            text = f"{data}: no such file"
        raise InputError(" ".join(text.split())) from error


def _check_classes(source: Any, option: str) -> None:
    """Rejects targets that are neither 0 nor 1."""
    y = source.targets.numpy()
    unfit = np.argwhere(~(np.isnan(y) | (y == 0) | (y == 1)))
    if len(unfit):
        row, column = unfit[0]
        cell = f"{source.target_names[column]!r} = {y[row, column]:g}"
        raise InputError(f"{option} needs 0 and 1, but line {source.row_numbers[row]} has {cell}")
