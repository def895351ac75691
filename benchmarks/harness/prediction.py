"""A trained regressor on new molecules: a CSV in, the same CSV with predictions out."""

import csv
import io
import math
import pickle
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import lightning.pytorch as lightning
import torch
from torch import Tensor

from benchmarks.harness.baselines import Baseline, restored_baseline
from benchmarks.harness.data import read_csv
from benchmarks.harness.errors import InputError, as_input_error
from benchmarks.harness.files import write_text
from benchmarks.harness.regressor import MoleculeRegressor, TargetScale
from benchmarks.harness.training import accelerator, quieten_lightning, torch_device
from pyg_kernels.datasets.table import read_records

HYPER_PARAMETERS = {"model", "targets", "features", "optimiser"}
BASELINE_KEYS = {"baseline", "targets", "features", "smiles", "weights", "probe"}
PREFIX = "predicted_"


def load_regressor(path: str | Path) -> MoleculeRegressor | Baseline:
    """The regressor of a checkpoint: a network in evaluation mode, or a fitted baseline.

    Args:
        path: ``best.ckpt`` of a run.

    Raises:
        InputError: If there is no such file, it is no such checkpoint, or it was trained on other
            atom and bond features than this version computes.
    """
    from pyg_kernels.chem import MolFeaturizer

    if not Path(path).is_file():
        raise InputError(f"--checkpoint {path}: no such file")
    try:
        checkpoint = torch.load(path, map_location="cpu", weights_only=True)
        is_baseline = set(checkpoint) == BASELINE_KEYS
        arguments = checkpoint if is_baseline else checkpoint["hyper_parameters"]
        known = is_baseline or set(arguments) == HYPER_PARAMETERS
    except (RuntimeError, pickle.UnpicklingError, KeyError, TypeError, EOFError, OSError):
        known = False
    if not known:
        raise InputError(f"--checkpoint {path} is not a checkpoint of this module")
    features = MolFeaturizer().description()
    if arguments["features"] != features:
        raise InputError(
            f"--checkpoint {path} was trained on other features: "
            f"{_difference(arguments['features'], features)}"
        )
    try:
        if is_baseline:
            return restored_baseline(checkpoint)
        regressor = MoleculeRegressor(**arguments)
        regressor.load_state_dict(checkpoint["state_dict"])
    except (RuntimeError, KeyError, TypeError, ValueError) as error:
        name = arguments["baseline" if is_baseline else "model"].get("name")
        raise InputError(f"--checkpoint {path} does not fit this version's {name}") from error
    return regressor.eval()


def predict_molecules(
    regressor: MoleculeRegressor | Baseline,
    molecules: Any,
    device: str = "auto",
    batch_size: int = 256,
) -> Tensor:
    """Predictions ``(M, T)`` in the targets' own units.

    Args:
        regressor: A trained regressor.
        molecules: A ``pyg_kernels.datasets.MoleculeDataset`` of M molecules.
        device (str): As on the command line.
        batch_size (int): Molecules a batch.

    Raises:
        InputError: If the device is not there.
    """
    from pyg_kernels.datasets import MoleculeLoader

    if isinstance(regressor, Baseline):
        return regressor.to(torch_device(device)).predict(molecules)
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
    outputs = trainer.predict(regressor, MoleculeLoader(molecules, batch_size=batch_size))
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
    regressor = load_regressor(checkpoint)
    with as_input_error():
        records = read_records(path)  # once: it may be a pipe
    taken = {name.strip() for name in records[0][1]}
    for name in regressor.scale.names:
        if PREFIX + name in taken:
            raise InputError(f"--csv {path} already has a column {PREFIX + name!r}; rename it")
    molecules = read_csv(path, smiles_column, (), None, skip_invalid, progress, records)
    predictions = predict_molecules(regressor, molecules, device)
    rows = _with_predictions(records, regressor.scale, molecules.row_numbers, predictions)
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
    records: Sequence[tuple[int, list[str]]],
    scale: TargetScale,
    row_numbers: Sequence[int],
    predictions: Tensor,
) -> Iterator[list[str]]:
    cells = {
        int(line): [_rounded(value, std) for value, std in zip(values, scale.std, strict=True)]
        for line, values in zip(row_numbers, predictions.tolist(), strict=True)
    }
    yield [*records[0][1], *[f"{PREFIX}{name}" for name in scale.names]]
    for line, row in records[1:]:
        yield [*row, *cells.get(line, [""] * len(scale.names))]


def _rounded(value: float, std: float) -> str:
    """The digits that a float32 network can tell apart, a millionth of the standard deviation."""
    return f"{round(value, 6 - math.floor(math.log10(std))):.15g}"


def _difference(trained: Any, present: dict[str, Any]) -> str:
    for name, value in present.items():
        if not isinstance(trained, dict) or trained.get(name) != value:
            return f"its {name.replace('_', ' ')} differs from this version's"
    return "it has features that this version does not know"
