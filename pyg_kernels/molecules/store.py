"""Fitted estimators in folders: JSON and arrays, never pickled, whose CRC-32 is verified."""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Any

import joblib
import numpy as np
import torch
from numpy.typing import NDArray

from pyg_kernels.chem import Featurizer
from pyg_kernels.datasets.public_file import write_whole
from pyg_kernels.molecules.inputs import Molecules, featurizer_by_name
from pyg_kernels.molecules.methods import KERNEL_METHODS, Examples, KernelMethod, Task
from pyg_kernels.molecules.networks import NETWORKS

FILE = "estimator.npz"
FORMAT = 7
SHARED = ("extra_mean", "extra_scale", "model_weights", "scores")
Arrays = dict[str, NDArray[Any]]


def save(estimator: Any, folder: str | Path, overwrite: bool) -> None:
    """Writes a fitted estimator."""
    folder = Path(folder)
    if folder.is_dir() and any(folder.iterdir()) and not overwrite:
        raise FileExistsError(f"{folder} has files already: choose another, or overwrite=True")
    if isinstance(estimator.featurizer, Featurizer):
        raise ValueError("only estimators whose featurizer is a name can be saved")
    parameters = estimator.get_params(deep=False)
    if not isinstance(parameters["random_state"], (int, np.integer)):
        parameters["random_state"] = None
    if parameters["device"] is not None:
        parameters["device"] = str(parameters["device"])
    if not isinstance(parameters["model"], str):
        parameters["model"] = list(parameters["model"])
    settings = {
        "format": FORMAT,
        "estimator": type(estimator).__name__,
        "parameters": parameters,
        "features": featurizer_by_name(estimator.featurizer).fingerprint,
        "task": [estimator.task_.kind, estimator.task_.num_outputs, *estimator.task_.spikes],
        "flat": bool(estimator.flat_),
        "columns": list(estimator.columns_),
        "classes": [c.tolist() for c in getattr(estimator, "each_classes_", [])],
        "teachers": estimator.teachers_,
        "members": [member.model for member in estimator.members_],
    }
    arrays = {name: getattr(estimator, f"{name}_") for name in SHARED}
    if estimator.training_ is not None:
        molecules, targets, weight = estimator.training_
        settings["smiles"] = molecules.smiles
        arrays |= {"extra": molecules.extra, "targets": targets, "weight": weight}
    for place, member in enumerate(estimator.members_):
        learned = {**member.state(), "noise": member.noise}
        arrays |= {f"{place}/{name}": values for name, values in learned.items()}
    folder.mkdir(parents=True, exist_ok=True)
    _write(folder / FILE, settings, arrays)


def load(folder: str | Path, trust: bool = False) -> Any:
    """Loads the estimator that ``save`` wrote; its predictions are the same.

    Kernel methods are fitted again to the molecules that were saved, with the hyperparameters that
    were learned. A `device` that is not available, such as ``'cuda'`` without CUDA, becomes None,
    which takes what there is.

    Args:
        folder: The folder.
        trust: Whether to import networks that are named by an import path, ``'mypkg.nets:Net'``.
            That runs the code of their modules: pass True only if you trust who wrote the folder.

    Raises:
        FileNotFoundError: If there is no such folder, or it has no estimator.
        ValueError: If the file is damaged or of another version, features have changed since, or
            a network is named by an import path and `trust` is false.

    Example:
        >>> from tempfile import TemporaryDirectory
        >>> from pyg_kernels.molecules import MoleculeRegressor, load
        >>> smiles, y = ["CCO", "CCCO", "CCCCO", "c1ccccc1", "Cc1ccccc1"], [0.0, 0.3, 0.8, 2.1, 2.7]
        >>> model = MoleculeRegressor("wl-gp").fit(smiles, y)
        >>> with TemporaryDirectory() as folder:
        ...     _ = model.save(folder + "/alcohols")
        ...     again = load(folder + "/alcohols")
        >>> (again.predict(["CCCCCO"]) == model.predict(["CCCCCO"])).item()
        True
    """
    from pyg_kernels.molecules.estimators import MoleculeClassifier, MoleculeRegressor

    path = Path(folder) / FILE
    if not path.is_file():
        within = Path(folder) / "model"
        known = f"that of the run is {within}" if (within / FILE).is_file() else "it is none"
        raise FileNotFoundError(f"{folder} has no {FILE} of a saved estimator: {known}")
    settings, arrays = _read(path)
    if settings.get("format") != FORMAT:
        raise ValueError(f"{folder} was saved by another version: fit it again")
    parameters = settings["parameters"]
    if parameters["device"] is not None:
        try:
            torch.empty(0, device=parameters["device"])
        except (RuntimeError, AssertionError):  # the latter from torch without CUDA
            parameters["device"] = None
    kinds = {kind.__name__: kind for kind in (MoleculeRegressor, MoleculeClassifier)}
    estimator: Any = kinds[settings["estimator"]](**parameters)
    paths = [model for model in settings["members"] if ":" in model]
    if paths and not trust:
        raise ValueError(
            f"{folder} has a network of the import path {paths[0]!r}: loading it runs the code of "
            "that module; if you trust it, load(folder, trust=True), or --trust of the command"
        )
    if featurizer_by_name(estimator.featurizer).fingerprint != settings["features"]:
        raise ValueError(
            f"{folder} was fitted with other features than featurizer={estimator.featurizer!r} "
            "gives in this version: fit it again"
        )
    for name in SHARED:
        setattr(estimator, f"{name}_", arrays[name])
    kind, number, *spikes = settings["task"]
    estimator.task_ = Task(kind, number, tuple(spikes))
    estimator.flat_, estimator.columns_ = settings["flat"], settings["columns"]
    if settings["classes"]:
        estimator.each_classes_ = [np.array(classes) for classes in settings["classes"]]
        several = estimator.each_classes_
        estimator.classes_ = several[0] if estimator.flat_ else several
    estimator.training_, estimator.members_ = None, []
    if "smiles" in settings:
        molecules = Molecules(settings["smiles"], estimator.columns_, arrays["extra"])
        estimator.training_ = molecules, arrays["targets"], arrays["weight"]
    estimator.teachers_ = settings["teachers"]
    estimator.models_ = list(dict.fromkeys(settings["members"]))
    if unknown := {*estimator.models_} - {*KERNEL_METHODS, *NETWORKS, *paths}:
        raise ValueError(f"{folder} has models that are unknown here: {', '.join(sorted(unknown))}")
    for place, model in enumerate(settings["members"]):
        member, start = estimator._member(model, estimator.task_), f"{place}/"
        own = {k.removeprefix(start): v for k, v in arrays.items() if k.startswith(start)}
        member.noise = own.pop("noise")
        member.restore(own)
        if isinstance(member, KernelMethod):
            rows = own["rows"]
            molecules, y, weight = estimator.training_
            member.refit(Examples(molecules, y, weight, rows, rows[:0], member.seed))
        estimator.members_.append(member)
    return estimator


def fit_once(member: Any, examples: Examples, folder: str | Path | None) -> None:
    """Fits a member, unless a folder has it from an earlier call with the same arguments."""
    if folder is None:
        member.fit(examples)
        return
    told = {**vars(examples), "molecules": vars(examples.molecules.unread()), **member.told()}
    told["format"] = FORMAT
    path = Path(folder) / f"{joblib.hash(told)}.npz"
    if path.is_file():
        member.restore(_read(path)[1])
        if isinstance(member, KernelMethod):
            member.refit(examples)
        return
    member.fit(examples)
    path.parent.mkdir(parents=True, exist_ok=True)
    _write(path, {}, member.state())


def _write(path: Path, settings: dict[str, Any], arrays: Arrays) -> None:
    """Writes a ``.npz`` of arrays, and of JSON as bytes; it gets its name when it is whole."""
    text = json.dumps({**settings, "arrays": sorted(arrays)}, default=_plain)

    def write(partial: Path) -> None:
        with open(partial, "wb") as file:
            np.savez(file, settings=np.frombuffer(text.encode(), np.uint8), **arrays)  # type: ignore[arg-type]

    write_whole(path, write)


def _plain(value: Any) -> Any:
    """A NumPy number as a Python number."""
    if not isinstance(value, np.generic):
        raise TypeError(f"{value!r} cannot be saved")
    return value.item()


def _read(path: Path) -> tuple[dict[str, Any], Arrays]:
    """What was written; zipfile compares each array with its CRC-32."""
    content = io.BytesIO(path.read_bytes())  # a file that cannot be read may be undamaged
    try:
        with np.load(content, allow_pickle=False) as found:
            arrays = {name: found[name] for name in found.files}
        settings = json.loads(arrays.pop("settings").tobytes())
        if sorted(arrays) != settings.pop("arrays"):
            raise ValueError("arrays are missing")
        return settings, arrays
    except MemoryError:
        raise
    except Exception as error:  # of many kinds, depending on the damage
        raise ValueError(f"{path} is damaged: {' '.join(str(error).split())}") from error
