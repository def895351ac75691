"""Fitted estimators in folders: JSON, arrays without pickle, and the SHA-256 of every file."""

from __future__ import annotations

import hashlib
import json
import tempfile
from pathlib import Path
from typing import Any

import joblib
import numpy as np
import torch
from numpy.typing import NDArray

from pyg_kernels.chem import Featurizer
from pyg_kernels.molecules.inputs import Molecules, featurizer_by_name
from pyg_kernels.molecules.methods import Examples, KernelMethod, Method, Task

MANIFEST = "manifest.json"
SETTINGS = "settings.json"
SHARED = "shared.npz"
FORMAT = 1


def save(estimator: Any, folder: str | Path, overwrite: bool) -> None:
    """Writes a fitted estimator; the manifest comes last and says that the rest is complete.

    Files are written in a temporary folder within `folder`, which is on the same disk, and moved
    when all are there: where writing fails, an earlier estimator is still whole.

    Args:
        estimator: The estimator.
        folder: Made if missing.
        overwrite: Whether to replace the files of an earlier one.

    Raises:
        FileExistsError: If the folder has files, and `overwrite` is false.
        ValueError: If the estimator has a featurizer without a name.
    """
    folder = Path(folder)
    if folder.is_dir() and any(folder.iterdir()) and not overwrite:
        raise FileExistsError(f"{folder} has files already: choose another, or overwrite=True")
    parameters = estimator.get_params(deep=False)
    if isinstance(estimator.featurizer, Featurizer):
        raise ValueError("only estimators whose featurizer is a name can be saved")
    if not (
        parameters["random_state"] is None
        or isinstance(parameters["random_state"], (int, np.integer))
    ):
        parameters["random_state"] = None
    if parameters["device"] is not None:
        parameters["device"] = str(parameters["device"])
    if not isinstance(parameters["model"], str):
        parameters["model"] = list(parameters["model"])
    shared = {
        "extra_mean": estimator.extra_mean_,
        "extra_scale": estimator.extra_scale_,
        "model_weights": estimator.model_weights_,
        "scores": estimator.scores_,
    }
    if estimator.training_ is not None:
        molecules, targets, weight = estimator.training_
        shared |= {"smiles": _bytes(json.dumps(molecules.smiles)), "extra": molecules.extra}
        shared |= {"targets": targets, "weight": weight}
    members = [(member.model, *member.state(), member.noise) for member in estimator.members_]
    settings = {
        "format": FORMAT,
        "estimator": type(estimator).__name__,
        "parameters": parameters,
        "features": featurizer_by_name(estimator.featurizer).fingerprint,
        "task": [estimator.task_.kind, estimator.task_.num_outputs],
        "flat": bool(estimator.flat_),
        "columns": list(estimator.columns_),
        "classes": [c.tolist() for c in getattr(estimator, "each_classes_", [])],
        "members": [[model, own] for model, own, _, _ in members],
    }
    text = json.dumps(settings, indent=1, default=_plain)
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=".saving-", dir=folder) as made:
        new = Path(made)
        (new / SETTINGS).write_text(text, encoding="utf-8")
        np.savez(new / SHARED, **shared)
        names = [SETTINGS, SHARED]
        for place, (_, _, arrays, noise) in enumerate(members):
            names.append(f"member_{place}.npz")
            np.savez(new / names[-1], **arrays, noise=noise)
        digests = {name: _digest(new / name) for name in names}
        (new / MANIFEST).write_text(json.dumps(digests, indent=1), encoding="utf-8")
        (folder / MANIFEST).unlink(missing_ok=True)
        for old in folder.glob("member_*.npz"):
            old.unlink()
        for name in [*names, MANIFEST]:
            (new / name).replace(folder / name)


def load(folder: str | Path, trust: bool = False) -> Any:
    """The estimator that ``save`` wrote; its predictions are the same.

    Kernel methods are fitted again to the molecules that were saved, with the hyperparameters that
    were learned. A `device` that is not there, as ``'cuda'`` on a machine without, becomes None:
    what there is.

    Args:
        folder: The folder.
        trust: Whether to import networks that are named by an import path, ``'mypkg.nets:Net'``.
            That runs the code of their modules: say so only where you know who wrote the folder.

    Raises:
        FileNotFoundError: If there is no such folder, or a file is missing.
        ValueError: If a file is damaged, features have changed since, or a network is named by an
            import path and `trust` is false.
    """
    from pyg_kernels.molecules import estimators

    folder = Path(folder)
    _verify(folder)
    settings = json.loads((folder / SETTINGS).read_text(encoding="utf-8"))
    if settings["format"] != FORMAT:
        raise ValueError(f"{folder} has format {settings['format']}: expected {FORMAT}")
    kinds = {
        kind.__name__: kind
        for kind in (estimators.MoleculeRegressor, estimators.MoleculeClassifier)
    }
    parameters = settings["parameters"]
    if parameters["device"] is not None and not _is_there(parameters["device"]):
        parameters["device"] = None
    estimator: Any = kinds[settings["estimator"]](**parameters)
    named = [*estimator._models(), *(model for model, _ in settings["members"])]
    paths = [model for model in dict.fromkeys(named) if ":" in model]
    if paths and not trust:
        raise ValueError(
            f"{folder} has a network of the import path {paths[0]!r}: loading it runs the code of "
            "that module; if you trust it, load(folder, trust=True) in Python"
        )
    if featurizer_by_name(estimator.featurizer).fingerprint != settings["features"]:
        raise ValueError(
            f"{folder} was fitted with other features than featurizer={estimator.featurizer!r} "
            "gives in this version: fit it again"
        )
    shared = _arrays(folder / SHARED)
    estimator.task_ = Task(*settings["task"])
    estimator.flat_, estimator.columns_ = settings["flat"], settings["columns"]
    estimator.extra_mean_, estimator.extra_scale_ = shared["extra_mean"], shared["extra_scale"]
    estimator.model_weights_, estimator.scores_ = shared["model_weights"], shared["scores"]
    if settings["classes"]:
        estimator.each_classes_ = [np.array(classes) for classes in settings["classes"]]
        estimator.classes_ = (
            estimator.each_classes_[0] if estimator.flat_ else estimator.each_classes_
        )
    estimator.training_ = None
    if "smiles" in shared:
        smiles = json.loads(shared["smiles"].tobytes())
        molecules = Molecules(smiles, estimator.columns_, shared["extra"])
        estimator.training_ = molecules, shared["targets"], shared["weight"]
    estimator.members_ = []
    for place, (model, own) in enumerate(settings["members"]):
        member = estimator._member(model)
        arrays = _arrays(folder / f"member_{place}.npz")
        member.noise = arrays.pop("noise")
        member.restore(own, arrays)
        if isinstance(member, KernelMethod):
            molecules, y, weight = estimator.training_
            rows = arrays["rows"]
            member.refit(Examples(molecules, y, weight, rows, rows[:0], member.seed))
        estimator.members_.append(member)
    return estimator


def fit_once(member: Method, examples: Examples, folder: str | Path | None) -> None:
    """Fits a member, unless a folder has it from an earlier call with the same arguments.

    Args:
        member: What is to be fitted.
        examples: What it learns from.
        folder: Where members are kept as they are finished; None: nowhere.
    """
    if folder is None:
        member.fit(examples)
        return
    told = (member.model, vars(member.task), member.told(), vars(examples.molecules.unread()))
    parts = (examples.y, examples.weight, examples.train, examples.valid, examples.seed)
    path = Path(folder) / f"{joblib.hash((*told, *parts))}.npz"
    arrays: dict[str, Any]
    if path.is_file():
        arrays = _arrays(path)
        member.restore(json.loads(arrays.pop("settings").tobytes()), arrays)
        if isinstance(member, KernelMethod):
            member.refit(examples)
        return
    member.fit(examples)
    settings, learned = member.state()
    arrays = {**learned, "settings": _bytes(json.dumps(settings, default=_plain))}
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_suffix(".partial.npz")
    np.savez(partial, **arrays)
    partial.replace(path)


def _verify(folder: Path) -> None:
    """Compares every file with the manifest."""
    manifest = folder / MANIFEST
    if not manifest.is_file():
        raise FileNotFoundError(f"{folder} has no {MANIFEST}: it is no saved estimator")
    try:
        digests = json.loads(manifest.read_text(encoding="utf-8"))
        named = isinstance(digests, dict) and {SETTINGS, SHARED} <= set(digests)
    except ValueError:
        named = False
    if not named:
        raise ValueError(f"{manifest} is damaged")
    for name, digest in digests.items():
        if Path(name).name != name or not (folder / name).is_file():
            raise FileNotFoundError(f"{folder} has no {name!r}, which its {MANIFEST} names")
        if _digest(folder / name) != digest:
            raise ValueError(f"{folder / name} is damaged: its SHA-256 is not that of {MANIFEST}")


def _is_there(device: str) -> bool:
    """Whether torch can use a device."""
    try:
        torch.empty(0, device=device)
    except (RuntimeError, AssertionError):  # the latter from torch without CUDA
        return False
    return True


def _plain(value: Any) -> Any:
    """Numbers of NumPy as Python's, for JSON."""
    if isinstance(value, np.generic):
        return value.item()
    raise TypeError(f"{value!r} cannot be saved")


def _digest(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def _bytes(text: str) -> NDArray[np.uint8]:
    return np.frombuffer(text.encode(), dtype=np.uint8)


def _arrays(path: Path) -> dict[str, NDArray[Any]]:
    with np.load(path, allow_pickle=False) as found:
        return {name: found[name] for name in found.files}
