"""The tables and the pictures of a study."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import NullLocator

from benchmarks.harness.files import write_bytes, write_text
from benchmarks.harness.kernels.setting import (
    ACCURACY,
    EXACT_GRAM,
    GRAKEL,
    GRAMS,
    OURS,
    PATHS,
    PROCESS,
    RANDOM_FEATURES,
    REGRESSION,
    SEQUENCES,
    WALK_GRAM,
    WL_FEATURES,
    WL_GRAM,
    WL_MIN,
    WL_MINMAX,
    Setting,
)
from benchmarks.harness.summary import png
from benchmarks.harness.table import Table

Result = dict[str, Any]
SCALED = (WL_FEATURES, WL_GRAM, WALK_GRAM)
GRAM_HEADER = (
    "Gram matrix",
    "library",
    "molecules",
    "seconds",
    "times faster",
    "peak MiB",
    "largest difference",
)
FEATURES_HEADER = (
    "data",
    "molecules",
    "patterns",
    "seconds",
    "molecules/s",
    "time a molecule",
    "peak MiB",
)
REGRESSION_HEADER = (
    "method",
    "features",
    "fitted on",
    "seconds",
    "train RMSE",
    "valid RMSE",
    "test RMSE",
    "peak MiB",
)


def study_tables(results: Sequence[Result], setting: Setting, number: int) -> list[Table]:
    """Gram matrices beside GraKeL's, features by the size of the data, regression.

    Args:
        results: Of all measurements.
        setting: What was measured.
        number (int): Molecules of the data set.
    """
    tables = []
    grams = [result for result in results if result["task"] in GRAMS]
    if grams:
        tables.append(_gram_table(grams, setting, number))
    features = [result for result in results if result["task"] == WL_FEATURES]
    if features:
        tables.append(_features_table(features, setting))
    processes = [result for result in results if result["task"] == PROCESS]
    if processes:
        tables.append(_process_table(processes, setting))
    classified = [result for result in results if result["task"] == ACCURACY]
    if classified:
        tables.append(_accuracy_table(classified))
    regressions = [result for result in results if result["task"] == REGRESSION]
    if regressions:
        tables.append(_regression_table(regressions, setting))
    return tables


def write_study_report(out: Path, results: Sequence[Result], setting: Setting, number: int) -> None:
    """Writes ``table.md``, ``scaling.png`` and, of a regression, ``regression.png``."""
    tables = study_tables(results, setting, number)
    write_text(out / "table.md", "\n\n".join(table.markdown() for table in tables) + "\n")
    done = [result for result in results if "failed" not in result]
    if any(result["task"] in SCALED for result in done):
        write_bytes(out / "scaling.png", png(scaling_plot(done, setting)))
    if any(result["task"] == REGRESSION for result in done):
        write_bytes(out / "regression.png", png(regression_plot(done, setting)))


def scaling_plot(results: Sequence[Result], setting: Setting) -> Figure:
    """Seconds by the number of molecules: features, and both Gram matrices of both libraries."""
    titles = {
        WL_FEATURES: f"WL features, {setting.iterations} iterations",
        WL_GRAM: f"WL Gram matrix, {setting.iterations} iterations",
        WALK_GRAM: f"random-walk Gram matrix, p = {setting.edges}",
    }
    assert titles.keys() == set(SCALED)
    found = [task for task in titles if any(result["task"] == task for result in results)]
    figure = Figure(figsize=(3.8 * len(found), 4.0), layout="constrained")
    panels = figure.subplots(1, len(found), squeeze=False)[0]
    for axes, task in zip(panels, found, strict=True):
        of_task = [result for result in results if result["task"] == task]
        for method in dict.fromkeys(result["method"] for result in of_task):
            _line(axes, [result for result in of_task if result["method"] == method], method)
        _guide(axes, of_task, 1 if task == WL_FEATURES else 2)
        axes.set(xscale="log", yscale="log", xlabel="molecules", title=titles[task])
        axes.title.set_fontsize("medium")
        sizes = sorted({result["molecules"] for result in of_task})
        axes.set_xticks(sizes, [f"{size:,}" for size in sizes], rotation=90, fontsize="small")
        axes.xaxis.set_minor_locator(NullLocator())
    panels[0].set_ylabel("seconds")
    drawn = [axes.get_legend_handles_labels() for axes in panels]
    lines = {label: line for found in drawn for line, label in zip(*found, strict=True)}
    figure.legend(lines.values(), lines.keys(), loc="outside lower center", ncols=5)
    figure.suptitle(f"{setting.dataset}: {_conditions(results, setting)}", fontsize="medium")
    return figure


def regression_plot(results: Sequence[Result], setting: Setting) -> Figure:
    """Test RMSE by seconds, a point a number of random features or of training molecules."""
    figure = Figure(figsize=(6.4, 4.2), layout="constrained")
    axes = figure.subplots()
    for method, unit in ((RANDOM_FEATURES, "features"), (EXACT_GRAM, "molecules")):
        rows = [row for row in results if row["task"] == REGRESSION and row["method"] == method]
        if not rows:
            continue
        seconds, errors = ([row[key] for row in rows] for key in ("seconds", "test"))
        axes.plot(seconds, errors, ".-", label=f"{method}, by the number of {unit}")
        for row in rows:
            axes.annotate(
                f"{row['size']:,}",
                (row["seconds"], row["test"]),
                textcoords="offset points",
                xytext=(4, 4),
                fontsize="small",
            )
    axes.set(
        xscale="log",
        xlabel="seconds: features or Gram matrix of all parts, one fit, predictions",
        ylabel="test RMSE",
        title=f"{setting.dataset}: ridge regression with the random-walk kernel, "
        f"{setting.order} atoms",
    )
    axes.title.set_fontsize("medium")
    axes.legend(fontsize="small")
    return figure


def growth(results: Sequence[Result]) -> float:
    """The exponent b of seconds = a molecules^b that fits best, by logarithms."""
    molecules, seconds = ([row[key] for row in results] for key in ("molecules", "seconds"))
    return float(np.polyfit(np.log(molecules), np.log(seconds), 1)[0])


def _gram_table(results: Sequence[Result], setting: Setting, number: int) -> Table:
    theirs = {(r["task"], r["size"]): r for r in results if r["method"] == GRAKEL}
    walks = setting.edges
    names = {
        WL_GRAM: f"WL subtree, {setting.iterations} iterations",
        WL_MIN: "the same, minima (optimal assignment)",
        WL_MINMAX: "the same, min-max",
        SEQUENCES: f"walks without turning back, up to {setting.edges} edges",
        PATHS: "shortest paths",
        WALK_GRAM: f"random walks, p = {setting.edges}, lamda = {setting.decay:g}",
    }
    rows = []
    for result in results:
        row = [names[result["task"]], result["method"], f"{result['size']:,}"]
        if "failed" in result:
            rows.append([*row, result["failed"], "", "", ""])
            continue
        other = theirs.get((result["task"], result["size"]), {})
        faster = f"{other['seconds'] / result['seconds']:.1f}" if "seconds" in other else "-"
        rows.append(
            [
                *row,
                f"{result['seconds']:.3g}",
                faster if result["method"] != GRAKEL else "1",
                _mebibytes(result),
                _difference(result),
            ]
        )
    grakel = (
        "GraKeL's kernels read no bond labels and are left out"
        if setting.bond_labels
        else "random walks are GraKeL's RandomWalkLabeled from RandomWalkKernel: "
        f"K(order={walks + 1}, sum_orders=True) - K(order=1) + |V||V'|"
    )
    return Table(
        f"{setting.dataset}, molecules drawn from {number:,} (seed {setting.seed}); "
        f"{_labels(setting)}; {grakel}\n{_conditions(results, setting)}; each library from its own "
        f"input; median of at most {setting.rounds} calls; every measurement in a process of its "
        "own\npeak: resident memory at the peak of the first call, above that after imports and "
        "data; difference: from GraKeL's matrix, the largest of all entries",
        GRAM_HEADER,
        rows,
    )


def _features_table(results: Sequence[Result], setting: Setting) -> Table:
    first = results[0]
    rows = [
        [
            f"x {result['size']}",
            f"{result['molecules']:,}",
            f"{result['columns']:,}",
            f"{result['seconds']:.3g}",
            f"{result['molecules'] / result['seconds']:,.0f}",
            f"x {_per_molecule(result) / _per_molecule(first):.2f}",
            _mebibytes(result),
        ]
        for result in results
    ]
    same = all(result["copies_equal"] for result in results)
    exponent = f"seconds grow as molecules^{growth(results):.2f}; " if len(results) > 1 else ""
    return Table(
        f"WL subtree features (sparse counts), {setting.iterations} iterations; the data repeated "
        f"with permuted atoms; {exponent}the counts of every copy "
        f"{'equal' if same else 'DIFFER FROM'} those of its original\n"
        f"{_labels(setting)}; {_conditions(results, setting)}; GraKeL gives no such features",
        FEATURES_HEADER,
        rows,
    )


def _process_table(results: Sequence[Result], setting: Setting) -> Table:
    rows = [
        [
            f"{result['fitted_on']:,}",
            f"{result['seconds']:.3g}",
            f"{result['test']:.3f}",
            " ".join(f"{100 * share:.0f}" for share in result["covered"]),
            _mebibytes(result),
        ]
        for result in results
    ]
    return Table(
        f"{setting.dataset}, random 80/10/10 split (seed 0): exact Gaussian process, min-max "
        f"kernel on subtrees with all atom and bond labels, {setting.iterations} iterations; "
        f"weights and noise by marginal likelihood\n{_conditions(results, setting)}; seconds: fit "
        "and predictions with deviations; covered: test molecules within intervals of 50, 80, 95 %",
        ("fitted on", "seconds", "test RMSE", "covered, %", "peak MiB"),
        rows,
    )


def _accuracy_table(results: Sequence[Result]) -> Table:
    rows = []
    for result in results:
        if "failed" in result:
            rows.append([result["method"], result["failed"], "", "", ""])
            continue
        name = Path(result["method"]).name
        for kernel, (mean, deviation) in result["accuracy"].items():
            share = f"{100 * mean:.1f} ± {100 * deviation:.1f}"
            majority = f"{100 * result['majority']:.1f}"
            rows.append([name, kernel, f"{result['molecules']:,}", share, majority])
    return Table(
        "classification, accuracy in %: support vector machine, nested cross-validation (10 outer "
        "folds, mean ± deviation; depth 0 to 4 and C by 5 inner folds); labels of atoms alone",
        ("set", "kernel", "molecules", "accuracy", "largest class"),
        rows,
    )


def _regression_table(results: Sequence[Result], setting: Setting) -> Table:
    rows = [
        [
            result["method"],
            f"{result['size']:,}" if result["method"] == RANDOM_FEATURES else "-",
            f"{result['fitted_on']:,}",
            f"{result['seconds']:.3g}",
            *[f"{result[part]:.3f}" for part in ("train", "valid", "test")],
            _mebibytes(result),
        ]
        for result in results
    ]
    return Table(
        f"{setting.dataset}, random 80/10/10 split (seed 0), ridge regression with the random-walk "
        f"kernel on all atom and bond features, walks of {setting.order} atoms; penalty by "
        f"validation\n{_conditions(results, setting)}; seconds: features or Gram matrix of all "
        "parts, one fit, predictions, without the choice of the penalty; the exact Gram matrix of "
        f"a random training subset is doubled while {setting.gram_seconds:g} s and "
        f"{setting.gram_memory:g} GiB are expected to suffice, choice of the penalty included",
        REGRESSION_HEADER,
        rows,
    )


def _line(axes: Axes, results: Sequence[Result], label: str) -> None:
    rows = sorted(results, key=lambda result: result["molecules"])
    marker = "o" if len(rows) == 1 else ".-"
    seconds = [row["seconds"] for row in rows]
    axes.plot([row["molecules"] for row in rows], seconds, marker, label=label)


def _guide(axes: Axes, results: Sequence[Result], power: int) -> None:
    """A dashed line of a power, from this library's largest point."""
    ours = [result for result in results if result["method"] == OURS]
    if len(ours) < 2:
        return
    last = max(ours, key=lambda result: result["molecules"])
    ends = np.array([min(result["molecules"] for result in ours), last["molecules"]])
    seconds = last["seconds"] * (ends / last["molecules"]) ** power
    name = "linear" if power == 1 else "quadratic"
    axes.plot(ends, seconds, "--", color="0.5", linewidth=0.8, label=name)


def _labels(setting: Setting) -> str:
    bonds = "bonds by all of their features" if setting.bond_labels else "bonds have no labels"
    return f"atoms are labelled by their element, {bonds}"


def _conditions(results: Sequence[Result], setting: Setting) -> str:
    threads = next(result["threads"] for result in results if "threads" in result)
    return f"{setting.device}, {threads} CPU thread{'' if threads == 1 else 's'}"


def _difference(result: Result) -> str:
    if "difference" not in result:
        return "-"
    if result["difference"] == 0:
        return "0"
    return f"{result['difference']:.1e} ({result['relative_difference']:.1e} of the value)"


def _mebibytes(result: Result) -> str:
    gpu = f" + {result['gpu_peak_mib']:,.0f} on the GPU" if "gpu_peak_mib" in result else ""
    return f"{result['peak_mib']:,.0f}{gpu}"


def _per_molecule(result: Result) -> float:
    return float(result["seconds"] / result["molecules"])
