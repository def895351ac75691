"""Regression on molecules as a task of the harness."""

import statistics
from collections.abc import Iterable, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pandas
from torch import Tensor

from benchmarks.harness.baselines import (
    BASELINES,
    Baseline,
    BaselineConfig,
    baseline_config,
    new_baseline,
)
from benchmarks.harness.data import MoleculeBatches, MoleculeData
from benchmarks.harness.errors import as_input_error
from benchmarks.harness.files import write_text
from benchmarks.harness.learner import OptimiserConfig
from benchmarks.harness.models import (
    DEFAULT_PARAMETERS,
    MODELS,
    ModelConfig,
    count_parameters,
    fit_hidden_size,
)
from benchmarks.harness.regressor import MoleculeRegressor, TargetScale, root_mean_square
from benchmarks.harness.sizes import check_parameters
from benchmarks.harness.task import PARTS, Measure, Task


class MoleculeTask(Task):
    """Regression on molecules, measured by the RMSE in the targets' own units.

    Args:
        data: Molecules and split.
    """

    items = "molecules"
    measure = Measure("rmse", "RMSE")
    packages = ("torch", "torch-geometric", "lightning", "rdkit", "numpy")
    files = ("table.md", "parity.png", "learning_curves.png", "skipped.csv")
    free_settings = ("csv", "root")

    def __init__(self, data: MoleculeData) -> None:
        self.data = data
        self.choice = data.choice
        self.dataset, self.split = data.choice.dataset, data.choice.split
        self.parts = data.parts

    def identity(self) -> dict[str, Any]:
        """The number of molecules and the fingerprint of molecules, targets and split."""
        return {"number": len(self.data.molecules), "digest": self.data.digest()}

    def has_model(self, name: str) -> bool:
        """Whether it is a network or a baseline."""
        return name in MODELS or name in BASELINES

    def is_trained(self, name: str) -> bool:
        """All networks but the mean predictor."""
        return MODELS[name].trained

    def estimator(self, model: ModelConfig | BaselineConfig) -> Baseline | None:
        """A baseline, not fitted."""
        if not isinstance(model, BaselineConfig):
            return None
        features = self.data.molecules.featurizer.description()
        return new_baseline(model, target_scale(self.data), features).on(self.data)

    def learner(self, model: ModelConfig, optimiser: OptimiserConfig) -> MoleculeRegressor:
        """An untrained regressor."""
        return new_regressor(model, self.data, optimiser)

    def batches(self, learner: MoleculeRegressor, batch_size: int, seed: int) -> MoleculeBatches:
        """Molecules with targets on the regressor's scale."""
        y = learner.scale.standardise(self.data.molecules.targets)
        return MoleculeBatches(self.data, y, batch_size, seed)

    def scores(self, predictions: Mapping[str, Tensor]) -> dict[str, float]:
        """The RMSE of each part, averaged over targets."""
        return {part: rmse(predictions[part], self.data.targets(part)) for part in PARTS}

    def prediction_table(
        self, record: Mapping[str, Any], predictions: Mapping[str, Tensor]
    ) -> pandas.DataFrame:
        """A row for each molecule and target, with its line and SMILES, y and prediction."""
        molecules = self.data.molecules
        frames = []
        for part in PARTS:
            for column, target in enumerate(molecules.target_names):
                places = self.parts[part].tolist()
                frame = {
                    "model": record["model"],
                    "seed": record["seed"],
                    "part": part,
                    "row": [int(molecules.row_numbers[i]) for i in places],
                    "smiles": [molecules.smiles[i] for i in places],
                    "target": target,
                    "y": self.data.targets(part)[:, column].numpy(),
                    "prediction": predictions[part][:, column].numpy(),
                }
                frames.append(pandas.DataFrame(frame))
        return pandas.concat(frames, ignore_index=True)

    def write_data_notes(self, out: Path) -> None:
        """Writes ``skipped.csv``, if molecules were left out."""
        if self.data.molecules.skipped:
            skipped = pandas.DataFrame(self.data.molecules.skipped)
            write_text(out / "skipped.csv", str(skipped.to_csv(index=False)))


def new_regressor(
    model: ModelConfig, data: MoleculeData, optimiser: OptimiserConfig
) -> MoleculeRegressor:
    """An untrained regressor, with the scale of the training part's targets."""
    features = data.molecules.featurizer.description()
    scale = asdict(target_scale(data))
    return MoleculeRegressor(asdict(model), scale, features, asdict(optimiser))


def target_scale(data: MoleculeData) -> TargetScale:
    """The scale of the training part's targets."""
    return TargetScale.fit(data.molecules.target_names, data.targets("train"))


def rmse(prediction: Tensor, y: Tensor) -> float:
    """RMSE over measured entries, averaged over targets; both ``(M, T)``."""
    columns = [column[~column.isnan()].tolist() for column in (prediction - y).t()]
    return statistics.fmean(root_mean_square(column) for column in columns)


def model_configs(
    names: Iterable[str],
    data: MoleculeData,
    hidden: int | None = None,
    num_layers: int = 4,
    order: int | None = None,
    budget: int = DEFAULT_PARAMETERS,
    gp_molecules: int | None = None,
) -> list[ModelConfig | BaselineConfig]:
    """The configurations of some models for some molecules.

    Args:
        names: Keys of ``models.MODELS`` and ``baselines.BASELINES``.
        data: The molecules.
        hidden (int, optional): Width; ``None``: the largest within `budget` parameters.
        num_layers (int): Layers or iterations.
        order (int, optional): Nodes in a walk.
        budget (int): Number of parameters.
        gp_molecules (int, optional): Training molecules of a Gaussian process at most.

    Raises:
        InputError: If no width of a network stays within `budget`, or it has too many.
    """
    featurizer = data.molecules.featurizer
    configs: list[ModelConfig | BaselineConfig] = []
    for name in names:
        if name in BASELINES:
            configs.append(baseline_config(name, order, gp_molecules))
            continue
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
            config = config if hidden else fit_hidden_size(config, budget)
            number = count_parameters(config)
            check_parameters(name, config.hidden, number, "--hidden, --parameters, --layers")
        configs.append(config)
    return configs
