"""The table and the pictures of an experiment on molecules."""

import math
import statistics
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import matplotlib
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from benchmarks.harness.files import write_bytes, write_text
from benchmarks.harness.molecules.baselines import BASELINES, BaselineKind
from benchmarks.harness.molecules.classifier import each_ranking_score
from benchmarks.harness.molecules.data import MoleculeData
from benchmarks.harness.molecules.models import MODELS, ModelKind
from benchmarks.harness.molecules.regressor import root_mean_square
from benchmarks.harness.molecules.score_curves import (
    MOST_TARGETS_DRAWN,
    measured_test_rows,
    score_curves,
)
from benchmarks.harness.molecules.task import measure_of
from benchmarks.harness.summary import (
    by_model,
    learning_curves,
    mean_seconds,
    png,
    seeds_text,
    spread,
    spread_or_dash,
)
from benchmarks.harness.table import Table, number_format, one_line
from benchmarks.harness.task import PARTS

if TYPE_CHECKING:
    from benchmarks.harness.training import Run

COLUMNS = ("model", "bond features", "split", "fitted on", "parameters")
MOST_COLUMNS = 12  # of targets; more of them are rows


def tables(runs: Sequence["Run"], data: MoleculeData) -> list[Table]:
    """The comparison of models and, with several targets, the test part's measure of each target.

    Args:
        runs: Finished runs, model by model.
        data: Molecules and split.
    """
    targets, title = data.molecules.target_names, measure_of(data).title
    groups = by_model(runs)
    digits = number_format(run.record[part] for run in runs for part in PARTS)
    first = Table(
        f"{describe(data)}\n{title} of {_listed(targets)}"
        f"{' (mean over targets)' if len(targets) > 1 else ''}; {seeds_text(runs)}"
        f"{''.join(_methods(group) for group in groups)}",
        (*COLUMNS, *[f"{part} {title}" for part in PARTS], "s/epoch"),
        [_row(group, data, digits) for group in groups],
    )
    if len(targets) == 1:
        return [first]
    return [first, _each_target(groups, data)]


def describe(data: MoleculeData) -> str:
    """One line on the molecules and the split."""
    choice = data.choice
    name = f"csv {Path(choice.csv).name}" if choice.csv else choice.dataset
    seed = "" if choice.split_seed is None else f" (seed {choice.split_seed})"
    sizes = ", ".join(f"{len(data.parts[part]):,} {part}" for part in PARTS)
    return f"{name}: {len(data.molecules):,} molecules, {choice.split} split{seed}: {sizes}"


def write_report(out: Path, runs: Sequence["Run"], data: MoleculeData) -> None:
    """Writes ``table.md``, ``learning_curves.png``, ``parity.png`` (``curves.png`` of classes).

    Args:
        out (Path): The results folder.
        runs: Finished runs, model by model.
        data: Molecules and split.
    """
    text = "\n\n".join(table.markdown() for table in tables(runs, data)) + "\n"
    write_text(out / "table.md", text)
    with matplotlib.rc_context({"text.parse_math": False}):  # a $ in a target's name is a $
        if data.metric == "rmse":
            write_bytes(out / "parity.png", png(parity_plot(runs, data)))
        else:
            write_bytes(out / "curves.png", png(curves_plot(runs, data)))
        write_bytes(out / "learning_curves.png", png(molecule_learning_curves(runs, data)))


def parity_plot(runs: Sequence["Run"], data: MoleculeData) -> Figure:
    """Predicted against measured values of the test part: a column a model, a row a target."""
    groups = by_model(runs)
    number = len(data.molecules.target_names)
    targets = data.molecules.target_names[:MOST_TARGETS_DRAWN]
    figure = Figure(figsize=(3.2 * len(groups), 3.2 * len(targets)), layout="constrained")
    axes = figure.subplots(len(targets), len(groups), squeeze=False, sharex="row", sharey="row")
    for i, target in enumerate(targets):
        errors = _test_scores(groups, target, data)
        digits = _digits(errors)
        for j, group in enumerate(groups):
            _parity_panel(axes[i][j], group, target, color=f"C{j % 10}")
            name = group[0].record["model"]
            axes[i][j].set_title(
                f"{name}\nRMSE {spread_or_dash(errors[j], digits)}", fontsize="small"
            )
        axes[i][0].set_ylabel(f"predicted {target}")
        low, high = zip(axes[i][0].get_xlim(), axes[i][0].get_ylim(), strict=True)
        axes[i][0].set(xlim=(min(low), max(high)), ylim=(min(low), max(high)))
    first = f", the first {len(targets)} of {number} targets" if number > len(targets) else ""
    figure.suptitle(f"Test part, {data.choice.split} split{first}", fontsize="medium")
    return figure


def curves_plot(runs: Sequence["Run"], data: MoleculeData) -> Figure:
    """ROC curves of the test part, or precision against recall."""
    groups, targets = by_model(runs), data.molecules.target_names
    scores = [_test_scores(groups, target, data) for target in targets[:MOST_TARGETS_DRAWN]]
    title = f"Test part, {data.choice.split} split"
    return score_curves(runs, targets, data.metric, title, scores)


def molecule_learning_curves(runs: Sequence["Run"], data: MoleculeData) -> Figure:
    """The measure of validation (solid) and training (dotted) by epoch, a line a run."""
    measure = measure_of(data)
    figure = learning_curves(
        runs,
        measure,
        f"{measure.title} of {_listed(data.molecules.target_names)}",
        f"{data.choice.split.capitalize()} split",
    )
    if measure.higher_is_better:
        figure.axes[0].set_ylim(top=1)
    else:
        figure.axes[0].set_ylim(bottom=0, top=_curve_limit(runs))
    return figure


def _each_target(groups: Sequence[list["Run"]], data: MoleculeData) -> Table:
    """The test part's measure of each target: a column a target, or a row if there are many."""
    targets = data.molecules.target_names
    models = [group[0].record["model"] for group in groups]
    cells = []
    for target in targets:
        scores = _test_scores(groups, target, data)
        digits = _digits(scores)
        cells.append([spread_or_dash(group, digits) for group in scores])
    caption = f"Test {measure_of(data).title} of each target"
    if len(targets) > MOST_COLUMNS:
        rows = [[target, *line] for target, line in zip(targets, cells, strict=True)]
        return Table(caption, ("target", *models), rows)
    return Table(caption, ("model", *targets), list(zip(models, *cells, strict=True)))


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


def _test_scores(
    groups: Sequence[list["Run"]], target: str, data: MoleculeData
) -> list[list[float | None]]:
    """Of each model's runs the measure of a target; ``None`` where it is not defined."""
    return [[_test_score(run, target, data.metric) for run in group] for group in groups]


def _test_score(run: "Run", target: str, metric: str) -> float | None:
    rows = measured_test_rows(run, target)
    if metric == "rmse":
        return root_mean_square((rows["prediction"] - rows["y"]).to_numpy())
    y, prediction = (rows[[name]].to_numpy() for name in ("y", "prediction"))
    return each_ranking_score(metric, y, prediction)[0]


def _digits(scores: Sequence[Sequence[float | None]]) -> str:
    return number_format(score for group in scores for score in group if score is not None)


def _parity_panel(axes: Axes, group: Sequence["Run"], target: str, color: str) -> None:
    for run in group:
        rows = measured_test_rows(run, target)
        axes.plot(rows["y"], rows["prediction"], ".", color=color, markersize=3, alpha=0.5)
    mean = measured_test_rows(group[0], target)["y"].mean()
    axes.axline((mean, mean), slope=1, color="0.4", linewidth=0.8)
    axes.set_aspect("equal")
    axes.set_xlabel(f"measured {target}")


def _curve_limit(runs: Sequence["Run"]) -> float | None:
    """Twice the largest final error: a first epoch far off does not flatten the rest."""
    finals = [run.record[part] for run in runs for part in ("train", "valid")]
    largest = max(finals)
    return 2 * largest if math.isfinite(largest) and largest > 0 else None
