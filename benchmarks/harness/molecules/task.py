"""Prediction of molecules' targets as a task of the harness."""

import math
import statistics
from collections.abc import Iterable, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pandas
import torch
from torch import Tensor

from benchmarks.harness.errors import InputError, as_input_error
from benchmarks.harness.files import write_text
from benchmarks.harness.learner import OptimizerConfig
from benchmarks.harness.molecules.baselines import (
    BASELINES,
    Baseline,
    BaselineConfig,
    baseline_config,
    new_baseline,
)
from benchmarks.harness.molecules.batches import MoleculeBatches
from benchmarks.harness.molecules.classifier import BinaryTargets, MoleculeClassifier, ranking_score
from benchmarks.harness.molecules.data import MoleculeData
from benchmarks.harness.molecules.learner import MoleculeLearner
from benchmarks.harness.molecules.model_config import READOUTS
from benchmarks.harness.molecules.models import (
    DEFAULT_PARAMETERS,
    MODELS,
    ModelConfig,
    count_parameters,
    fit_hidden_size,
)
from benchmarks.harness.molecules.regressor import MoleculeRegressor, TargetScale, root_mean_square
from benchmarks.harness.sizes import check_parameters
from benchmarks.harness.task import PARTS, Measure, Task

MOST_ROWS = 10_000_000  # of a table of predictions with all parts
MEASURES = {
    "rmse": Measure("rmse", "RMSE"),
    "rocauc": Measure("rocauc", "ROC-AUC", higher_is_better=True),
    "ap": Measure("ap", "AP", higher_is_better=True),
}


class MoleculeTask(Task):
    """Regression on molecules, or classification with two classes a target.

    Regression is measured by the RMSE in the targets' own units, classification by ROC-AUC or
    average precision, averaged over targets; sets of the Open Graph Benchmark by its own
    ``Evaluator``.

    Args:
        data: Molecules and split.
    """

    items = "molecules"
    packages = ("torch", "torch-geometric", "lightning", "rdkit", "numpy")
    files = ("table.md", "parity.png", "curves.png", "learning_curves.png", "skipped.csv")
    free_settings = ("csv", "root", "shards")

    def __init__(self, data: MoleculeData) -> None:
        self.data = data
        self.choice = data.choice
        self.dataset, self.split = data.choice.dataset, data.choice.split
        self.parts = data.parts
        self.measure = measure_of(data)

    def identity(self) -> dict[str, Any]:
        """The number of molecules and the fingerprint of molecules, targets and split."""
        return {"number": len(self.data.molecules), "digest": self.data.digest()}

    def has_model(self, name: str) -> bool:
        """Whether it is a network or a baseline."""
        return name in MODELS or name in BASELINES

    def is_trained(self, name: str) -> bool:
        """All networks but the mean predictor."""
        return MODELS[name].trained

    def has_unused_parameters(self, model: ModelConfig) -> bool:
        """Those of the iterations before the last one, where that alone is read out."""
        return model.readout == "last"

    def estimator(self, model: ModelConfig | BaselineConfig) -> Baseline | None:
        """A baseline, not fitted."""
        if not isinstance(model, BaselineConfig):
            return None
        if self.data.metric != "rmse":
            raise InputError(
                f"--model {model.name} is a method of regression, and {self.dataset} is to be "
                f"classified here"
            )
        features = self.data.molecules.featurizer.description()
        return new_baseline(model, target_scale(self.data), features).on(self.data)

    def learner(self, model: ModelConfig, optimizer: OptimizerConfig) -> MoleculeLearner:
        """An untrained regressor or classifier."""
        if self.data.metric == "rmse":
            return new_regressor(model, self.data, optimizer)
        return new_classifier(model, self.data, optimizer)

    def batches(self, learner: MoleculeLearner, batch_size: int, seed: int) -> MoleculeBatches:
        """Molecules with targets on the learner's scale."""
        return MoleculeBatches(self.data, learner.scale, batch_size, seed)

    def scores(self, predictions: Mapping[str, Tensor]) -> dict[str, float]:
        """The measure of each part, averaged over targets."""
        return {part: score(self.data, predictions[part], part) for part in PARTS}

    def prediction_table(
        self, record: Mapping[str, Any], predictions: Mapping[str, Tensor]
    ) -> pandas.DataFrame:
        """A row for each molecule and target, with its line and SMILES, y and prediction.

        Of molecules that lie on disk, and of more than :data:`MOST_ROWS` rows, the test part alone,
        with empty SMILES: the table must not take more memory than the molecules do.
        """
        from pyg_kernels.datasets import MoleculeDataset

        molecules = self.data.molecules
        small = len(molecules) * molecules.num_tasks <= MOST_ROWS
        whole = small and isinstance(molecules, MoleculeDataset)
        frames = []
        for part in PARTS if whole else PARTS[2:]:
            y, places = self.data.targets(part), self.parts[part].tolist()
            rows = [int(molecules.row_numbers[i]) for i in places]
            smiles = [molecules.smiles[i] for i in places] if whole else ""
            for column, target in enumerate(molecules.target_names):
                frame = {
                    "model": record["model"],
                    "seed": record["seed"],
                    "part": part,
                    "row": rows,
                    "smiles": smiles,
                    "target": target,
                    "y": y[:, column].numpy(),
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
    model: ModelConfig, data: MoleculeData, optimizer: OptimizerConfig
) -> MoleculeRegressor:
    """An untrained regressor, with the scale of the training part's targets."""
    features = data.molecules.featurizer.description()
    scale = asdict(target_scale(data))
    return MoleculeRegressor(asdict(model), scale, features, asdict(optimizer))


def new_classifier(
    model: ModelConfig, data: MoleculeData, optimizer: OptimizerConfig
) -> MoleculeClassifier:
    """An untrained classifier, with the frequencies of the training part's classes."""
    targets = asdict(BinaryTargets.fit(data.molecules.target_names, data.targets("train")))
    features = data.molecules.featurizer.description()
    return MoleculeClassifier(asdict(model), targets, features, data.metric, asdict(optimizer))


def measure_of(data: MoleculeData) -> Measure:
    """How predictions of these molecules are measured."""
    return MEASURES[data.metric]


def target_scale(data: MoleculeData) -> TargetScale:
    """The scale of the training part's targets."""
    return TargetScale.fit(data.molecules.target_names, data.targets("train"))


def score(data: MoleculeData, prediction: Tensor, part: str) -> float:
    """The measure of a part's predictions, averaged over targets.

    Args:
        data: Molecules and split; the measure is that of the Open Graph Benchmark's
            ``Evaluator``.
        prediction: ``(M, T)`` in the targets' own units, or probabilities; NaN where a model leaves
            a molecule of the training part out.
        part (str): One of :data:`PARTS`.
    """
    y, known = data.targets(part), prediction.isfinite()
    if not (known.any(dim=0).all() if part == "train" else known.all()):
        return math.nan
    y = torch.where(known, y.double(), torch.nan)  # not predicted counts as not measured
    if data.metric == "rmse":
        return rmse(prediction, y)
    return ranking_score(data.metric, y.numpy(), prediction.numpy())


def rmse(prediction: Tensor, y: Tensor) -> float:
    """RMSE over measured entries, averaged over targets; both ``(M, T)``."""
    columns = (prediction - y).t()
    return statistics.fmean(root_mean_square(column[~column.isnan()].numpy()) for column in columns)


def model_configs(
    names: Iterable[str],
    data: MoleculeData,
    hidden: int | None = None,
    num_layers: int = 4,
    order: int | None = None,
    budget: int = DEFAULT_PARAMETERS,
    gp_molecules: int | None = None,
    norm: str | None = "batch",
    dropout: float = 0.0,
    readout: str = READOUTS[0],
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
        norm (str, optional): Normalisation of the networks.
        dropout (float): Of the networks.
        readout (str): Of the networks that have several.

    Raises:
        InputError: If no width of a network stays within `budget`, or it has too many, a network
            has no such normalisation or dropout, or none has such a readout.
    """
    names = list(names)
    if readout != READOUTS[0] and not any(readout in _readouts(name) for name in names):
        having = ", ".join(name for name in MODELS if readout in _readouts(name))
        raise InputError(f"--readout {readout} goes with --model {having}")
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
            norm=norm,
            dropout=dropout,
            readout=readout if readout in _readouts(name) else READOUTS[0],
        )
        with as_input_error():
            config = config if hidden else fit_hidden_size(config, budget)
            number = count_parameters(config)
            check_parameters(name, config.hidden, number, "--hidden, --parameters, --layers")
        configs.append(config)
    return configs


def _readouts(name: str) -> tuple[str, ...]:
    return MODELS[name].readouts if name in MODELS else ()
