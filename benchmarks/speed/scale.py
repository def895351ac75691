"""``python -m benchmarks.speed scale``: featurising and training, by number of molecules."""

from __future__ import annotations

import argparse
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from benchmarks.harness.arguments import OneLineParser, exit_status, integer, nonempty
from benchmarks.harness.errors import InputError, naming_extras, say
from benchmarks.harness.table import Table
from benchmarks.speed.scale_study import ScaleSetting, ScaleStudy

PROGRAM = "benchmarks.speed scale"
SIZES = (30_000, 300_000, 2_300_000)
FULL = 2_300_000  # molecules of the Clean Energy Project
EPOCHS = 15  # of the benchmark on its sample
MIB = 2**20


def main(words: Sequence[str]) -> int:
    """Runs the command line and returns the exit status."""
    options = parser().parse_args(list(words))
    return exit_status(PROGRAM, lambda: _measure(options))


def parser() -> argparse.ArgumentParser:
    """The options."""
    cores = os.cpu_count() or 1
    parser = OneLineParser(
        PROGRAM,
        prog=f"python -m {PROGRAM}",
        description="Writes the molecules of a data set many times over, their atoms in other "
        "orders, featurises the file into shards, trains on these through the molecule benchmark, "
        "and reports rates, bytes and peak memory for each number of molecules. Every stage runs "
        "in a process of its own. A number that --out holds already is not measured again.",
    )
    parser.add_argument(
        "--dataset", choices=("chembl", "cep"), default="chembl", help="(%(default)s)"
    )
    parser.add_argument(
        "--root", type=nonempty, default="data/cep", metavar="DIR", help="CEP's folder (data/cep)"
    )
    parser.add_argument(
        "--molecules",
        nargs="+",
        type=integer(20),
        default=list(SIZES),
        metavar="N",
        help=f"({' '.join(map(str, SIZES))})",
    )
    parser.add_argument("--model", type=nonempty, default="wl", metavar="NAME", help="(wl)")
    parser.add_argument(
        "--batch-size", type=integer(2), default=128, metavar="N", help="(%(default)s)"
    )
    parser.add_argument(
        "--steps",
        type=_steps,
        default=200,
        metavar="N",
        help="batches to train, or 'epoch' for a whole run of one epoch: training, validation, "
        "predictions (%(default)s)",
    )
    parser.add_argument(
        "--epochs",
        type=integer(1),
        default=EPOCHS,
        metavar="N",
        help="of the training that is extrapolated (%(default)s)",
    )
    parser.add_argument(
        "--workers",
        type=integer(1),
        default=cores,
        metavar="N",
        help="processes that write and featurise (one a core)",
    )
    parser.add_argument(
        "--threads", type=integer(1), default=2, metavar="N", help="of training (%(default)s)"
    )
    parser.add_argument(
        "--out", type=nonempty, default="runs/scale", metavar="DIR", help="(%(default)s)"
    )
    parser.add_argument(
        "--keep", action="store_true", help="keep files, shards and runs in OUT/scratch"
    )
    return parser


def _measure(options: argparse.Namespace) -> int:
    with naming_extras("mol,bench"):
        import pyg_kernels.chem  # noqa: F401
        from pyg_kernels.molecules import NETWORKS
    if options.model not in NETWORKS:
        raise InputError(f"--model {options.model}: expected one of {', '.join(NETWORKS)}")
    setting = ScaleSetting(
        dataset=options.dataset,
        model=options.model,
        batch_size=options.batch_size,
        steps=options.steps,
        workers=options.workers,
        threads=options.threads,
    )
    study = ScaleStudy(
        setting,
        options.root,
        Path(options.out),
        lambda result: figures(result, options.epochs),
        options.keep,
    )
    study.open_folder()
    rows = study.run(sorted(set(options.molecules)))
    say(table(rows, options.epochs).text())
    return 0


def figures(result: dict[str, Any], epochs: int) -> dict[str, Any]:
    """Rates, bytes and memory of one number of molecules, and hours for the full set.

    Hours of featurising and training grow with the number of molecules alone; validation and
    checkpoints are left out.

    Args:
        result: What the stages found, see :class:`ScaleStudy`.
        epochs (int): Of the training that is extrapolated.
    """
    featurise, train = result["featurise"], result["train"]
    featurising = FULL / featurise["molecules_a_second"] / 3600
    epoch = FULL * train["training_share"] / train["molecules_a_second"] / 3600
    return {
        "molecules": result["molecules"],
        "featurised_a_second": featurise["molecules_a_second"],
        "bytes_a_molecule": featurise["bytes_a_molecule"],
        "trained_a_second": train["molecules_a_second"],
        "featurising_peak_bytes": featurise["peak"],
        "featurising_anonymous_peak_bytes": featurise["anonymous_peak"],
        "featurising_worker_peak_bytes": featurise["worker_peak"],
        "training_peak_bytes": train["peak"],
        "training_anonymous_peak_bytes": train["anonymous_peak"],
        "full_featurising_hours": featurising,
        "full_epoch_hours": epoch,
        "full_epochs": epochs,
        "full_hours": featurising + epochs * epoch,
    }


def table(rows: Sequence[dict[str, Any]], epochs: int) -> Table:
    """The rows as text."""

    def mebibytes(value: int | None) -> str:
        return "" if value is None else f"{value / MIB:,.0f}"

    return Table(
        "MiB: peak resident memory of featurising (its first process, the largest of the others) "
        "and of training (in all, and without mapped files); h: hours that "
        f"{FULL:,} molecules would take here, featurising, an epoch, and both with "
        f"{epochs} epochs",
        (
            "molecules",
            "featurised a s",
            "bytes each",
            "trained a s",
            "featurising, MiB",
            "a worker",
            "training, MiB",
            "unmapped",
            "featurising, h",
            "epoch, h",
            f"{epochs} epochs, h",
        ),
        [
            (
                f"{row['molecules']:,}",
                f"{row['featurised_a_second']:,.0f}",
                f"{row['bytes_a_molecule']:,.0f}",
                f"{row['trained_a_second']:,.0f}",
                mebibytes(row["featurising_peak_bytes"]),
                mebibytes(row["featurising_worker_peak_bytes"]),
                mebibytes(row["training_peak_bytes"]),
                mebibytes(row["training_anonymous_peak_bytes"]),
                f"{row['full_featurising_hours']:.2f}",
                f"{row['full_epoch_hours']:.2f}",
                f"{row['full_hours']:.2f}",
            )
            for row in rows
        ],
    )


def _steps(text: str) -> int | None:
    return None if text == "epoch" else integer(1)(text)
