"""The table and the pictures of an experiment on molecules."""

import math
import statistics
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import matplotlib
import pandas
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from benchmarks.harness.baselines import BASELINES, BaselineKind
from benchmarks.harness.data import MoleculeData
from benchmarks.harness.files import write_bytes, write_text
from benchmarks.harness.models import MODELS, ModelKind
from benchmarks.harness.molecules import MoleculeTask
from benchmarks.harness.regressor import root_mean_square
from benchmarks.harness.summary import (
    by_model,
    learning_curves,
    mean_seconds,
    png,
    seeds_text,
    spread,
)
from benchmarks.harness.table import Table, number_format, one_line
from benchmarks.harness.task import PARTS

if TYPE_CHECKING:
    from benchmarks.harness.training import Run

HEADER = (
    "model",
    "bond features",
    "split",
    "fitted on",
    "parameters",
    "train RMSE",
    "valid RMSE",
    "test RMSE",
    "s/epoch",
)
MOST_TARGETS_DRAWN = 4


def tables(runs: Sequence["Run"], data: MoleculeData) -> list[Table]:
    """The comparison of models and, with several targets, the test RMSE of each target.

    Args:
        runs: Finished runs, model by model.
        data: Molecules and split.
    """
    targets = data.molecules.target_names
    groups = by_model(runs)
    digits = number_format(run.record[part] for run in runs for part in PARTS)
    first = Table(
        f"{describe(data)}\nRMSE of {_listed(targets)}"
        f"{' (mean over targets)' if len(targets) > 1 else ''}; {seeds_text(runs)}"
        f"{''.join(_methods(group) for group in groups)}",
        HEADER,
        [_row(group, data, digits) for group in groups],
    )
    if len(targets) == 1:
        return [first]
    columns = [[group[0].record["model"] for group in groups]]
    for target in targets:
        errors = [[_test_rmse(run, target) for run in group] for group in groups]
        digits = number_format(error for group in errors for error in group)
        columns.append([spread(group, digits) for group in errors])
    rows = list(zip(*columns, strict=True))
    return [first, Table("Test RMSE of each target", ("model", *targets), rows)]


def describe(data: MoleculeData) -> str:
    """One line on the molecules and the split."""
    choice = data.choice
    name = f"csv {Path(choice.csv).name}" if choice.csv else choice.dataset
    seed = "" if choice.split_seed is None else f" (seed {choice.split_seed})"
    sizes = ", ".join(f"{len(data.parts[part]):,} {part}" for part in PARTS)
    return f"{name}: {len(data.molecules):,} molecules, {choice.split} split{seed}: {sizes}"


def write_report(out: Path, runs: Sequence["Run"], data: MoleculeData) -> None:
    """Writes ``table.md``, ``parity.png`` and ``learning_curves.png``.

    Args:
        out (Path): The results folder.
        runs: Finished runs, model by model.
        data: Molecules and split.
    """
    text = "\n\n".join(table.markdown() for table in tables(runs, data)) + "\n"
    write_text(out / "table.md", text)
    with matplotlib.rc_context({"text.parse_math": False}):  # a $ in a target's name is a $
        write_bytes(out / "parity.png", png(parity_plot(runs, data)))
        write_bytes(out / "learning_curves.png", png(molecule_learning_curves(runs, data)))


def parity_plot(runs: Sequence["Run"], data: MoleculeData) -> Figure:
    """Predicted against measured values of the test part: a column a model, a row a target."""
    groups = by_model(runs)
    number = len(data.molecules.target_names)
    targets = data.molecules.target_names[:MOST_TARGETS_DRAWN]
    figure = Figure(figsize=(3.2 * len(groups), 3.2 * len(targets)), layout="constrained")
    axes = figure.subplots(len(targets), len(groups), squeeze=False, sharex="row", sharey="row")
    for i, target in enumerate(targets):
        errors = [[_test_rmse(run, target) for run in group] for group in groups]
        digits = number_format(error for group in errors for error in group)
        for j, group in enumerate(groups):
            _parity_panel(axes[i][j], group, target, colour=f"C{j % 10}")
            axes[i][j].set_title(
                f"{group[0].record['model']}\nRMSE {spread(errors[j], digits)}", fontsize="small"
            )
        axes[i][0].set_ylabel(f"predicted {target}")
        low, high = zip(axes[i][0].get_xlim(), axes[i][0].get_ylim(), strict=True)
        axes[i][0].set(xlim=(min(low), max(high)), ylim=(min(low), max(high)))
    first = f", the first {len(targets)} of {number} targets" if number > len(targets) else ""
    figure.suptitle(f"Test part, {data.choice.split} split{first}", fontsize="medium")
    return figure


def molecule_learning_curves(runs: Sequence["Run"], data: MoleculeData) -> Figure:
    """Validation RMSE (solid) and training RMSE (dotted) by epoch, a line a run."""
    figure = learning_curves(
        runs,
        MoleculeTask.measure,
        f"RMSE of {_listed(data.molecules.target_names)}",
        f"{data.choice.split.capitalize()} split",
    )
    figure.axes[0].set_ylim(bottom=0, top=_curve_limit(runs))
    return figure


def _row(group: Sequence["Run"], data: MoleculeData, digits: str) -> list[str]:
    record = group[0].record
    return [
        record["model"],
        "yes" if _kind(group).bond_features else "no",
        record["split"],
        f"{record.get('fitted_on', len(data.parts['train'])):,}",
        f"{record['num_parameters']:,}",
        *[spread([run.record[part] for run in group], digits) for part in PARTS],
        _seconds(group),
    ]


def _kind(group: Sequence["Run"]) -> ModelKind | BaselineKind:
    name = group[0].record["model"]
    return BASELINES[name] if name in BASELINES else MODELS[name]


def _seconds(group: Sequence["Run"]) -> str:
    """Seconds an epoch, or of fitting where there are no epochs."""
    kind = _kind(group)
    if isinstance(kind, BaselineKind):
        return f"{statistics.mean(run.record['seconds'] for run in group):.1f} to fit"
    return f"{mean_seconds(group):.2f}" if kind.trained else "-"


def _methods(group: Sequence["Run"]) -> str:
    """A line on how a model without epochs was fitted."""
    record = group[0].record
    return f"\n{record['model']}: {record['method']}" if "method" in record else ""


def _listed(targets: Sequence[str]) -> str:
    shown = ", ".join(map(one_line, targets[:MOST_TARGETS_DRAWN]))
    return shown if len(targets) <= MOST_TARGETS_DRAWN else f"{shown}, ... ({len(targets)} targets)"


def _measured_test_rows(run: "Run", target: str) -> pandas.DataFrame:
    rows = run.predictions
    chosen = rows[(rows["part"] == "test") & (rows["target"] == target)]
    return chosen.dropna(subset=["y"])


def _test_rmse(run: "Run", target: str) -> float:
    rows = _measured_test_rows(run, target)
    return root_mean_square((rows["prediction"] - rows["y"]).tolist())


def _parity_panel(axes: Axes, group: Sequence["Run"], target: str, colour: str) -> None:
    for run in group:
        rows = _measured_test_rows(run, target)
        axes.plot(rows["y"], rows["prediction"], ".", color=colour, markersize=3, alpha=0.5)
    mean = _measured_test_rows(group[0], target)["y"].mean()
    axes.axline((mean, mean), slope=1, color="0.4", linewidth=0.8)
    axes.set_aspect("equal")
    axes.set_xlabel(f"measured {target}")


def _curve_limit(runs: Sequence["Run"]) -> float | None:
    """Twice the largest final error: a first epoch far off does not flatten the rest."""
    finals = [run.record[part] for run in runs for part in ("train", "valid")]
    largest = max(finals)
    return 2 * largest if math.isfinite(largest) and largest > 0 else None
