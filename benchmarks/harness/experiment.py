"""A results folder: models times seeds on one split, resumable, and what it leaves behind."""

import importlib.metadata
import json
import platform
import shutil
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import pandas
import torch

from benchmarks.harness.data import PARTS, MoleculeData
from benchmarks.harness.errors import InputError, as_input_error
from benchmarks.harness.models import (
    DEFAULT_PARAMETERS,
    MODELS,
    MOST_PARAMETERS,
    ModelConfig,
    count_parameters,
    fit_hidden_size,
)
from benchmarks.harness.training import (
    Run,
    TrainingConfig,
    accelerator,
    new_regressor,
    predictions_text,
    train,
    write_text,
)
from pyg_kernels.ops import backend

CONFIGURATION = "configuration.json"
RUNS = "runs"
PACKAGES = ("torch", "torch-geometric", "lightning", "rdkit", "numpy")
# These may differ between an interrupted run and its continuation: where the molecules were read
# (their digest is compared), and what does not change the result.
FREE_SETTINGS = ("csv", "root", "device", "show")


@dataclass(frozen=True)
class Experiment:
    """Models and seeds to compare on one split.

    Args:
        data: Molecules and split.
        models: One configuration a model, in the order of the table.
        seeds: Seeds of the runs.
        training: How every run is trained.
        out (Path): The results folder.
    """

    data: MoleculeData
    models: Sequence[ModelConfig]
    seeds: Sequence[int]
    training: TrainingConfig
    out: Path

    def settings(self) -> dict[str, Any]:
        """What a continuation must have in common with the folder, but for `FREE_SETTINGS`."""
        molecules = {"number": len(self.data.molecules), "digest": self.data.digest()}
        training = asdict(self.training)
        return {"data": asdict(self.data.choice), "molecules": molecules, "training": training}

    def check(self) -> None:
        """Builds every regressor once and looks at the device: a mistake costs no training.

        Raises:
            InputError: If the device is not there, a network cannot be built, or a target cannot
                be standardised.
        """
        accelerator(self.training.device)
        with as_input_error():
            for model in self.models:
                regressor = new_regressor(model, self.data, self.training.optimiser)
            regressor.scale.standardise(self.data.molecules.targets)

    def open_folder(self, resume: bool, overwrite: bool) -> None:
        """Makes the results folder, or finds the interrupted experiment in it.

        Args:
            resume (bool): Continue an interrupted experiment.
            overwrite (bool): Remove the results of an earlier experiment.

        Raises:
            InputError: If the folder is not empty and neither is asked for, holds something else,
                or was made with other settings.
        """
        configuration = self.out / CONFIGURATION
        with as_input_error():
            occupied = self.out.exists() and any(self.out.iterdir())
            if occupied and not configuration.exists():
                raise InputError(
                    f"--out {self.out} holds files that are not results of this module"
                )
            if occupied and not (resume or overwrite):
                raise InputError(
                    f"--out {self.out} already holds results; give --resume to continue them, "
                    f"--overwrite to replace them, or another --out"
                )
            found: dict[str, Any] = _read_configuration(configuration) if occupied else {}
            if occupied and resume:
                self._check_settings(found)
            elif occupied:
                _remove_results(self.out, found)
                found = {}
            self.out.mkdir(parents=True, exist_ok=True)
            if self.data.molecules.skipped:
                skipped = pandas.DataFrame(self.data.molecules.skipped)
                write_text(self.out / "skipped.csv", str(skipped.to_csv(index=False)))
            write_text(configuration, json.dumps(self._configuration(found), indent=1))

    def run(self) -> list[Run]:
        """Trains what is not finished yet and writes the results after every run.

        Returns:
            All finished runs of the folder, also those of other models and seeds than these, model
            by model.
        """
        folders = list(_run_folders(self.out, _read_configuration(self.out / CONFIGURATION)))
        runs = {folder: Run.read(folder) for folder in folders}
        for model in self.models:
            for seed in self.seeds:
                folder = _run_folder(self.out, model.name, seed)
                if runs[folder] is None:
                    runs[folder] = run = train(model, seed, self.data, self.training, folder)
                    run.write(folder)
                    self._write_results(_finished(runs))
        self._write_results(_finished(runs))
        return _finished(runs)

    def _write_results(self, runs: Sequence[Run]) -> None:
        records = [run.record for run in runs]
        write_text(self.out / "metrics.json", json.dumps(records, indent=1))
        table = pandas.concat([run.predictions for run in runs], ignore_index=True)
        write_text(self.out / "predictions.csv", predictions_text(table))

    def _configuration(self, found: dict[str, Any]) -> dict[str, Any]:
        """Settings, and every model and seed of the folder: those found in it and these."""
        models = {model["name"]: model for model in found.get("models", [])}
        models |= {model.name: asdict(model) for model in self.models}
        return {
            **self.settings(),
            "models": list(models.values()),
            "seeds": sorted({*found.get("seeds", []), *self.seeds}),
            "parts": {part: len(self.data.parts[part]) for part in PARTS},
            "versions": {
                "python": platform.python_version(),
                **{name: importlib.metadata.version(name) for name in PACKAGES},
            },
            "backend": backend(),
            "threads": torch.get_num_threads(),
        }

    def _check_settings(self, found: dict[str, Any]) -> None:
        mine = json.loads(json.dumps(self.settings()))
        for group, settings in mine.items():
            for name, value in settings.items():
                before = found[group].get(name)
                if before != value and name not in FREE_SETTINGS:
                    raise InputError(
                        f"--resume: {self.out} was made with {name} {before!r}, not {value!r}"
                    )
        sizes = {model["name"]: model for model in found["models"]}
        for model in self.models:
            if sizes.get(model.name, asdict(model)) != asdict(model):
                raise InputError(
                    f"--resume: {self.out} holds {model.name} of another size ({sizes[model.name]})"
                )


def model_configs(
    names: Iterable[str],
    data: MoleculeData,
    hidden: int | None = None,
    num_layers: int = 4,
    order: int | None = None,
    budget: int = DEFAULT_PARAMETERS,
) -> list[ModelConfig]:
    """The configurations of some models for some molecules.

    Args:
        names: Keys of ``models.MODELS``.
        data: The molecules.
        hidden (int, optional): Width; ``None``: the largest within `budget` parameters.
        num_layers (int): Layers or iterations.
        order (int, optional): Nodes in a walk.
        budget (int): Number of parameters.

    Raises:
        InputError: If no width of a model stays within `budget`, or it has too many.
    """
    featurizer = data.molecules.featurizer
    configs = []
    for name in names:
        config = ModelConfig(
            name=name,
            node_dim=featurizer.atom_dim,
            edge_dim=featurizer.bond_dim,
            num_targets=data.molecules.num_tasks,
            hidden=hidden or 1,
            num_layers=num_layers,
            order=order if MODELS[name].trained else None,
        )
        with as_input_error():
            configs.append(config if hidden else fit_hidden_size(config, budget))
            count = count_parameters(configs[-1])
        if count > MOST_PARAMETERS:
            raise InputError(
                f"{name} of width {configs[-1].hidden} has {count:,} parameters; "
                f"at most {MOST_PARAMETERS:,} are allowed (--hidden, --parameters, --layers)"
            )
    return configs


def _read_configuration(path: Path) -> dict[str, Any]:
    """The ``configuration.json`` of a results folder.

    Raises:
        InputError: If this module did not write it, or not all of it.
    """
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
        ours = all(isinstance(found[group], dict) for group in ("data", "molecules", "training"))
        ours = ours and all(model["name"] in MODELS for model in found["models"])
        ours = ours and all(isinstance(seed, int) for seed in found["seeds"])
    except (ValueError, KeyError, TypeError):
        ours = False
    if not ours:
        raise InputError(f"{path} is damaged or not of this module; remove its folder yourself")
    return dict(found)


def _run_folder(out: Path, model: str, seed: int) -> Path:
    return out / RUNS / f"{model}-seed{seed}"


def _run_folders(out: Path, configuration: dict[str, Any]) -> Iterator[Path]:
    for model in configuration["models"]:
        for seed in configuration["seeds"]:
            yield _run_folder(out, model["name"], seed)


def _finished(runs: Mapping[Path, Run | None]) -> list[Run]:
    return [run for run in runs.values() if run is not None]


def _remove_results(out: Path, configuration: dict[str, Any]) -> None:
    """Removes what an experiment wrote and nothing else."""
    for folder in _run_folders(out, configuration):
        shutil.rmtree(folder, ignore_errors=True)
    for name in (
        "metrics.json",
        "predictions.csv",
        "parity.png",
        "learning_curves.png",
        "table.md",
        "skipped.csv",
        CONFIGURATION,
    ):
        (out / name).unlink(missing_ok=True)
