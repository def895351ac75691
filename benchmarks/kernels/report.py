"""The tables of a study."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.harness.study import groups, rows_table
from benchmarks.harness.table import Table
from benchmarks.kernels.options import (
    DECAY,
    EDGES,
    GRAKEL,
    GRAMS,
    ITERATIONS,
    ORDER,
    RANDOM_FEATURES,
    SEED,
    Kernels,
)

Result = dict[str, Any]
Column = Callable[[Result], object]
NAMES = {
    "wl-gram": f"WL subtree, {ITERATIONS} iterations",
    "wl-min": "the same, minima (optimal assignment)",
    "wl-minmax": "the same, min-max",
    "sequences": f"walks without turning back, up to {EDGES} edges",
    "paths": "shortest paths",
    "walk-gram": f"random walks, p = {EDGES}, lamda = {DECAY:g}",
}
SECONDS: Column = lambda r: f"{r['seconds']:.3g}"  # noqa: E731


def tables(results: Sequence[Result], options: Kernels, number: int) -> list[Table]:
    """Gram matrices beside GraKeL's, features by the size of the data, and so on."""
    found = groups(results, lambda r: "gram" if r["task"] in GRAMS else r["task"])
    made: dict[str, Callable[[Sequence[Result], Kernels, int], Table]] = {
        "gram": _gram_table,
        "wl-features": _features_table,
        "gp": _process_table,
        "accuracy": _accuracy_table,
        "regression": _regression_table,
    }
    return [table(found[kind], options, number) for kind, table in made.items() if kind in found]


def outcome(result: Result) -> str:
    """A result in words."""
    if "failed" in result:
        return str(result["failed"])
    rmse = f", test RMSE {result['test']:.3f}" if "test" in result else ""
    return f"{result['seconds']:.3g} s, {result['peak_mib']:,.0f} MiB{rmse}"


def _gram_table(results: Sequence[Result], options: Kernels, number: int) -> Table:
    theirs = {(r["task"], r["size"]): r for r in results if r["method"] == GRAKEL}

    def faster(result: Result) -> str:
        other = theirs.get((result["task"], result["size"]), {})
        if result["method"] == GRAKEL:
            return "1"
        return f"{other['seconds'] / result['seconds']:.1f}" if "seconds" in other else "-"

    def known(column: Column) -> Column:
        return lambda r: "" if "failed" in r else column(r)

    grakel = "random walks are GraKeL's RandomWalkLabeled from RandomWalkKernel: "
    grakel += f"K(order={EDGES + 1}, sum_orders=True) - K(order=1) + |V||V'|"
    if options.bond_labels:
        grakel = "GraKeL's kernels read no bond labels and are left out"
    return rows_table(
        f"{options.data}, molecules drawn from {number:,} (seed {SEED}); "
        f"{_labels(options)}; {grakel}\n{_conditions(results, options)}; each library from its own "
        f"input; median of at most {options.rounds} calls; every measurement in a process of its "
        "own\npeak: resident memory at the peak of the first call, above that after imports and "
        "data; difference: from GraKeL's matrix, the largest of all entries",
        results,
        {
            "Gram matrix": lambda r: NAMES[r["task"]],
            "library": lambda r: r["method"],
            "molecules": lambda r: f"{r['size']:,}",
            "seconds": lambda r: r["failed"] if "failed" in r else SECONDS(r),
            "times faster": known(faster),
            "peak MiB": known(_mebibytes),
            "largest difference": known(_difference),
        },
    )


def _features_table(results: Sequence[Result], options: Kernels, number: int) -> Table:
    same = all(result["copies_equal"] for result in results)
    growth = ""
    if len(results) > 1:  # fits seconds = a molecules^b by least squares on logarithms
        sizes, seconds = (np.log([r[key] for r in results]) for key in ("molecules", "seconds"))
        growth = f"seconds grow as molecules^{np.polyfit(sizes, seconds, 1)[0]:.2f}; "

    def slower(result: Result) -> str:
        each, first = (r["seconds"] / r["molecules"] for r in (result, results[0]))
        return f"x {each / first:.2f}"

    return rows_table(
        f"WL subtree features (sparse counts), {ITERATIONS} iterations; the data repeated "
        f"with permuted atoms; {growth}the counts of every copy "
        f"{'equal' if same else 'DIFFER FROM'} those of its original\n"
        f"{_labels(options)}; {_conditions(results, options)}; GraKeL gives no such features",
        results,
        {
            "data": lambda r: f"x {r['size']}",
            "molecules": lambda r: f"{r['molecules']:,}",
            "patterns": lambda r: f"{r['columns']:,}",
            "seconds": SECONDS,
            "molecules/s": lambda r: f"{r['molecules'] / r['seconds']:,.0f}",
            "time a molecule": slower,
            "peak MiB": _mebibytes,
        },
    )


def _process_table(results: Sequence[Result], options: Kernels, number: int) -> Table:
    return rows_table(
        f"{options.data}, random 80/10/10 split (seed 0): exact Gaussian process, min-max "
        f"kernel on subtrees with all atom and bond labels, {ITERATIONS} iterations; "
        f"weights and noise by marginal likelihood\n{_conditions(results, options)}; seconds: fit "
        "and predictions with deviations; covered: test molecules within intervals of 50, 80, 95 %",
        results,
        {
            "fitted on": lambda r: f"{r['fitted_on']:,}",
            "seconds": SECONDS,
            "test RMSE": lambda r: f"{r['test']:.3f}",
            "covered, %": lambda r: " ".join(f"{100 * share:.0f}" for share in r["covered"]),
            "peak MiB": _mebibytes,
        },
    )


def _accuracy_table(results: Sequence[Result], options: Kernels, number: int) -> Table:
    rows = [
        {**result, "kernel": kernel, "found": found}
        for result in results
        for kernel, found in result.get("accuracy", {result.get("failed", ""): None}).items()
    ]

    def percent(result: Result) -> str:
        return "{:.1f} ± {:.1f}".format(*(100 * share for share in result["found"]))

    return rows_table(
        "classification, accuracy in %: support vector machine, nested cross-validation (10 outer "
        "folds, mean ± deviation; depth 0 to 4 and C by 5 inner folds); labels of atoms alone",
        rows,
        {
            "set": lambda r: Path(r["method"]).name,
            "kernel": lambda r: r["kernel"],
            "molecules": lambda r: f"{r['molecules']:,}" if r["found"] else "",
            "accuracy": lambda r: percent(r) if r["found"] else "",
            "largest class": lambda r: f"{100 * r['majority']:.1f}" if r["found"] else "",
        },
    )


def _regression_table(results: Sequence[Result], options: Kernels, number: int) -> Table:
    return rows_table(
        f"{options.data}, random 80/10/10 split (seed 0), ridge regression with the random-walk "
        f"kernel on all atom and bond features, walks of {ORDER} atoms; penalty by "
        f"validation\n{_conditions(results, options)}; seconds: features or Gram matrix of all "
        "parts, one fit, predictions, without the choice of the penalty; exact Gram matrices of "
        "random training subsets",
        results,
        {
            "method": lambda r: r["method"],
            "features": lambda r: f"{r['size']:,}" if r["method"] == RANDOM_FEATURES else "-",
            "fitted on": lambda r: f"{r['fitted_on']:,}",
            "seconds": SECONDS,
            "train RMSE": lambda r: f"{r['train']:.3f}",
            "valid RMSE": lambda r: f"{r['valid']:.3f}",
            "test RMSE": lambda r: f"{r['test']:.3f}",
            "peak MiB": _mebibytes,
        },
    )


def _labels(options: Kernels) -> str:
    bonds = "bonds by all of their features" if options.bond_labels else "bonds have no labels"
    return f"atoms are labelled by their element, {bonds}"


def _conditions(results: Sequence[Result], options: Kernels) -> str:
    threads = next(result["threads"] for result in results if "threads" in result)
    return f"{options.device}, {threads} CPU thread{'' if threads == 1 else 's'}"


def _difference(result: Result) -> str:
    if not result.get("difference"):
        return "0" if "difference" in result else "-"
    return f"{result['difference']:.1e} ({result['relative_difference']:.1e} of the value)"


def _mebibytes(result: Result) -> str:
    gpu = f" + {result['gpu_peak_mib']:,.0f} on the GPU" if "gpu_peak_mib" in result else ""
    return f"{result['peak_mib']:,.0f}{gpu}"
