"""A trained model on new molecules: a CSV in, the same CSV with predictions out."""

import csv
import io
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import lightning.pytorch as lightning
import torch
from torch import Tensor

from benchmarks.harness.checkpoint import read_checkpoint
from benchmarks.harness.devices import accelerator, torch_device
from benchmarks.harness.errors import InputError, as_input_error
from benchmarks.harness.files import write_text
from benchmarks.harness.molecules.baselines import Baseline, restored_baseline
from benchmarks.harness.molecules.classifier import MoleculeClassifier
from benchmarks.harness.molecules.data import read_csv
from benchmarks.harness.molecules.featurizers import featurizer_of
from benchmarks.harness.molecules.learner import MoleculeLearner, TargetNotes
from benchmarks.harness.molecules.regressor import MoleculeRegressor
from benchmarks.harness.training import quieten_lightning
from pyg_kernels.datasets.cells import read_cells

REGRESSOR_KEYS = {"model", "targets", "features", "optimizer"}
CLASSIFIER_KEYS = {*REGRESSOR_KEYS, "metric"}
BASELINE_KEYS = {"baseline", "targets", "features", "smiles", "weights", "probe"}
PREFIX = "predicted_"


def load_learner(path: str | Path) -> MoleculeLearner | Baseline:
    """What a checkpoint holds: a network in evaluation mode, or a fitted baseline.

    Args:
        path: ``best.ckpt`` of a run.

    Raises:
        InputError: If there is no such file, it is no such checkpoint, or it was trained on other
            atom and bond features than this version computes.
    """
    keys = (REGRESSOR_KEYS, CLASSIFIER_KEYS)
    checkpoint, arguments = read_checkpoint(path, keys, whole=[BASELINE_KEYS])
    is_baseline = checkpoint is arguments
    try:
        featurizer_of(arguments["features"])
    except ValueError as error:
        raise InputError(f"--checkpoint {path} was trained on other features: {error}") from error
    try:
        if is_baseline:
            return restored_baseline(checkpoint)
        kind = MoleculeClassifier if "metric" in arguments else MoleculeRegressor
        learner: MoleculeLearner = kind(**arguments)
        learner.load_state_dict(checkpoint["state_dict"])
    except (RuntimeError, KeyError, TypeError, ValueError) as error:
        name = arguments["baseline" if is_baseline else "model"].get("name")
        raise InputError(f"--checkpoint {path} does not fit this version's {name}") from error
    return learner.eval()


def predict_molecules(
    learner: MoleculeLearner | Baseline,
    molecules: Any,
    device: str = "auto",
    batch_size: int = 256,
) -> Tensor:
    """Predictions ``(M, T)`` in the targets' own units, or probabilities of class 1.

    Args:
        learner: A trained one.
        molecules: A ``pyg_kernels.datasets.MoleculeDataset`` of M molecules.
        device (str): As on the command line.
        batch_size (int): Molecules a batch.

    Raises:
        InputError: If the device is not there.
    """
    from pyg_kernels.datasets import MoleculeLoader

    if isinstance(learner, Baseline):
        return learner.to(torch_device(device)).predict(molecules)
    quieten_lightning()
    kind, devices = accelerator(device)
    trainer = lightning.Trainer(
        accelerator=kind,
        devices=devices,
        logger=False,
        enable_checkpointing=False,
        enable_progress_bar=False,
        enable_model_summary=False,
    )
    outputs = trainer.predict(learner, MoleculeLoader(molecules, batch_size=batch_size))
    return torch.cat([output for output in outputs or [] if isinstance(output, Tensor)])


def predict_csv(
    checkpoint: str,
    path: str,
    smiles_column: str = "smiles",
    skip_invalid: bool = False,
    device: str = "auto",
    progress: bool = False,
) -> tuple[str, Any]:
    """The rows of a CSV with a column ``predicted_TARGET`` for every target.

    Of a classifier these are probabilities of class 1.

    Args:
        checkpoint (str): ``best.ckpt`` of a run.
        path (str): A CSV with a header; all its columns are kept.
        smiles_column (str): The column of SMILES.
        skip_invalid (bool): Leave predictions empty where a SMILES does not parse; otherwise stop.
        device (str): As on the command line.
        progress (bool): Show the progress of parsing many molecules.

    Returns:
        The CSV as text, and the molecules (whose ``skipped`` lists those without a prediction).

    Raises:
        InputError: If the checkpoint or the CSV cannot be read.
    """
    learner = load_learner(checkpoint)
    with as_input_error():
        cells = read_cells(path)  # once: it may be a pipe
    taken = {name.strip() for name in cells.columns}
    for name in learner.scale.names:
        if PREFIX + name in taken:
            raise InputError(f"--csv {path} already has a column {PREFIX + name!r}; rename it")
    featurizer = featurizer_of(learner.features)
    molecules = read_csv(path, smiles_column, (), None, skip_invalid, progress, cells, featurizer)
    predictions = predict_molecules(learner, molecules, device)
    rows = _with_predictions(cells, learner.scale, molecules.row_numbers, predictions)
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows(rows)
    return text.getvalue(), molecules


def write_predictions(text: str, out: str, inputs: Sequence[str]) -> None:
    """Writes the predictions to a file that is none of the inputs.

    Raises:
        InputError: If `out` is one of `inputs`, or cannot be written.
    """
    check_output(out, inputs)
    with as_input_error():
        write_text(Path(out), text)


def check_output(out: str, inputs: Sequence[str]) -> None:
    """Raises an :class:`InputError` if a file cannot become the output."""
    path = Path(out)
    if path.is_dir() or not path.resolve().parent.is_dir():
        raise InputError(f"--out {out} must be a file in an existing folder")
    if path.resolve() in [Path(name).resolve() for name in inputs]:
        raise InputError(f"--out {out} would overwrite an input")


def _with_predictions(
    table: Any,
    scale: TargetNotes,
    row_numbers: Sequence[int],
    predictions: Tensor,
) -> Iterator[list[str]]:
    cells = {
        int(line): scale.texts(values)
        for line, values in zip(row_numbers, predictions.tolist(), strict=True)
    }
    yield [*table.columns, *[f"{PREFIX}{name}" for name in scale.names]]
    for line, *row in table.itertuples(name=None):
        yield [*row, *cells.get(line, [""] * len(scale.names))]
