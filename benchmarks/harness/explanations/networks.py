"""Networks on molecules and texts: trained here once, then read from their checkpoints."""

from pathlib import Path
from typing import Any

from torch import nn

from benchmarks.harness.errors import InputError
from benchmarks.harness.explanations.setting import Network, Texts
from benchmarks.harness.learner import OptimizerConfig
from benchmarks.harness.molecules.baselines import Baseline
from benchmarks.harness.molecules.data import MoleculeData
from benchmarks.harness.molecules.learner import MoleculeLearner
from benchmarks.harness.molecules.networks import OnBatch
from benchmarks.harness.molecules.prediction import load_learner
from benchmarks.harness.molecules.task import MoleculeTask, model_configs
from benchmarks.harness.task import Task
from benchmarks.harness.text.classifier import TextClassifier
from benchmarks.harness.text.data import TextData
from benchmarks.harness.text.explanation import load_classifier
from benchmarks.harness.text.task import TextTask, text_model_configs
from benchmarks.harness.training import BEST, Run, TrainingConfig, train

TEXT_BATCH = 50
TEXT_LEARNING_RATE = 0.003
Record = dict[str, Any]


def trained_on_molecules(
    data: MoleculeData, network: Network, seed: int, folder: Path, device: str, show: str
) -> tuple[MoleculeLearner, Record]:
    """The network of some molecules, trained in a folder unless it lies there.

    Returns:
        The learner in evaluation mode, and the record of its run.

    Raises:
        DivergenceError: If the training error is no finite number.
        InputError: If the folder cannot be written or read.
        KeyboardInterrupt: If interrupted.
    """
    (config,) = model_configs(
        [network.model],
        data,
        hidden=network.hidden,
        num_layers=network.layers,
        order=network.order,
        norm=None if network.norm == "none" else network.norm,
    )
    training = _training(network.epochs, network.batch_size, network.learning_rate, device, show)
    record = _finished(MoleculeTask(data), config, seed, training, folder)
    return molecule_learner(folder / BEST), record


def trained_on_texts(
    data: TextData, texts: Texts, seed: int, folder: Path, device: str, show: str
) -> tuple[TextClassifier, Record]:
    """The classifier of some texts, trained in a folder unless it lies there.

    One layer of an RCNN of order 2 with an input-gated decay, the sum over orders, ReLU, and the
    output at the last word: up to a constant its scores are sums over words and pairs of words.

    Returns:
        The classifier in evaluation mode, and the record of its run.

    Raises:
        DivergenceError, InputError, KeyboardInterrupt: As :func:`trained_on_molecules`.
    """
    (config,) = text_model_configs(
        ["rcnn"],
        data,
        hidden=texts.hidden,
        num_layers=1,
        order=2,
        decay="input",
        activation="relu",
        rcnn_readout="sum",
        readout="last",
    )
    training = _training(texts.epochs, TEXT_BATCH, TEXT_LEARNING_RATE, device, show)
    record = _finished(TextTask(data), config, seed, training, folder)
    return load_classifier(folder / BEST), record


def molecule_learner(path: str | Path) -> MoleculeLearner:
    """The network of a checkpoint of ``benchmarks.molecules``, in evaluation mode.

    Raises:
        InputError: If it cannot be read, or is no network.
    """
    learner = load_learner(path)
    if isinstance(learner, Baseline):
        raise InputError(f"--checkpoint {path} holds no network, but a fitted baseline")
    return learner


def graph_network(learner: MoleculeLearner) -> nn.Module:
    """What is called with the tensors of a graph: the network of a learner without its wrapping."""
    return learner.net.net if isinstance(learner.net, OnBatch) else learner.net


def _training(
    epochs: int, batch_size: int, learning_rate: float, device: str, show: str
) -> TrainingConfig:
    return TrainingConfig(
        epochs=epochs,
        batch_size=batch_size,
        patience=max(10, epochs // 3),
        clip=5.0,
        optimizer=OptimizerConfig(learning_rate=learning_rate),
        device=device,
        precision="32-true",
        show=show,
    )


def _finished(task: Task, config: Any, seed: int, training: TrainingConfig, folder: Path) -> Record:
    """The record of the run that lies finished in a folder, or is finished there now."""
    run = Run.read(folder)
    if run is None:
        run = train(task, config, seed, training, folder)
        assert run is not None  # there is one process
        run.write(folder)
    return run.record
