"""A results folder: models times seeds on one split, resumable, and what it leaves behind."""

import importlib.metadata
import json
import platform
import shutil
from collections.abc import Iterable, Sequence
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
    ModelConfig,
    fit_hidden_size,
)
from benchmarks.harness.report import write_report
from benchmarks.harness.training import (
    Run,
    TrainingConfig,
    accelerator,
    new_regressor,
    predictions_text,
    train,
    write_text,
)

CONFIGURATION = "configuration.json"
RUNS = "runs"
PACKAGES = ("torch", "torch-geometric", "lightning", "rdkit", "numpy")
# These may differ between an interrupted run and its continuation.
FREE_SETTINGS = ("device", "show")


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
        """What a continuation must have in common with what lies in the folder."""
        training = asdict(self.training)
        for name in FREE_SETTINGS:
            training.pop(name)
        molecules = {"number": len(self.data.molecules), "digest": self.data.digest()}
        return {"data": asdict(self.data.choice), "molecules": molecules, "training": training}

    def check(self) -> None:
        """Builds every regressor once and looks at the device: a mistake costs no training.

        Raises:
            InputError: If the device is not there, a network cannot be built, or a target has no
                measured value to train on.
        """
        accelerator(self.training.device)
        with as_input_error():
            for model in self.models:
                new_regressor(model, self.data, self.training.optimiser)

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
            found: dict[str, Any] = {}
            if occupied and resume:
                found = json.loads(configuration.read_text())
                self._check_settings(found)
            elif occupied:
                _remove_results(self.out)
            self.out.mkdir(parents=True, exist_ok=True)
            if self.data.molecules.skipped:
                skipped = pandas.DataFrame(self.data.molecules.skipped)
                write_text(self.out / "skipped.csv", str(skipped.to_csv(index=False)))
            write_text(configuration, json.dumps(self._configuration(found), indent=1))

    def run(self) -> list[Run]:
        """Trains what is not finished yet and writes the results after every run.

        Returns:
            All runs of these models and seeds, model by model.
        """
        runs = []
        for model in self.models:
            for seed in self.seeds:
                folder = self.out / RUNS / f"{model.name}-seed{seed}"
                run = Run.read(folder)
                if run is None:
                    run = train(model, seed, self.data, self.training, folder)
                    run.write(folder)
                runs.append(run)
                self._write_results(runs)
        write_report(self.out, runs, self.data)
        return runs

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
            "threads": torch.get_num_threads(),
        }

    def _check_settings(self, found: dict[str, Any]) -> None:
        mine = json.loads(json.dumps(self.settings()))
        for group, settings in mine.items():
            for name, value in settings.items():
                before = found.get(group, {}).get(name)
                if before != value:
                    raise InputError(
                        f"--resume: {self.out} was made with {name} {before!r}, not {value!r}"
                    )
        sizes = {model["name"]: model for model in found.get("models", [])}
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
        InputError: If no width of a model stays within `budget`.
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
    return configs


def _remove_results(folder: Path) -> None:
    """Removes what an experiment wrote and nothing else."""
    shutil.rmtree(folder / RUNS, ignore_errors=True)
    for name in (
        "metrics.json",
        "predictions.csv",
        "parity.png",
        "learning_curves.png",
        "table.md",
        "skipped.csv",
        CONFIGURATION,
    ):
        (folder / name).unlink(missing_ok=True)
