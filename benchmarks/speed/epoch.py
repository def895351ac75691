"""``python -m benchmarks.speed epoch``: training of molecules beside its matrix products."""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch

from benchmarks.harness.arguments import OneLineParser, exit_status, integer, nonempty
from benchmarks.harness.errors import as_input_error, naming_extras, say
from benchmarks.harness.table import Table
from pyg_kernels.ops import backend

PROGRAM = "benchmarks.speed epoch"
MODELS = ("wl-gated", "wl", "gine")


def main(words: Sequence[str]) -> int:
    """Runs the command line and returns the exit status."""
    options = parser().parse_args(list(words))
    return exit_status(PROGRAM, lambda: _measure(options))


def parser() -> argparse.ArgumentParser:
    """The options."""
    parser = OneLineParser(
        PROGRAM,
        prog=f"python -m {PROGRAM}",
        description="Trains an epoch of the molecule benchmark through its own Trainer and, after "
        "each batch, computes the matrix products of that batch's forward and backward on their "
        "own: torch.mm on random factors of the same shapes and layouts.",
    )
    parser.add_argument("--dataset", choices=("chembl", "cep"), default="cep", help="(%(default)s)")
    parser.add_argument(
        "--root", type=nonempty, default="data/cep", metavar="DIR", help="CEP's folder (data/cep)"
    )
    parser.add_argument(
        "--model",
        nargs="+",
        type=nonempty,
        default=list(MODELS),
        metavar="NAME",
        help=f"networks of benchmarks.molecules ({' '.join(MODELS)})",
    )
    parser.add_argument(
        "--batch-size", type=integer(2), default=128, metavar="N", help="(%(default)s)"
    )
    parser.add_argument(
        "--batches", type=integer(1), metavar="N", help="the first N of the epoch alone (all)"
    )
    parser.add_argument("--rounds", type=integer(1), default=7, metavar="N", help="(%(default)s)")
    parser.add_argument(
        "--threads", type=integer(1), default=2, metavar="N", help="CPU threads (%(default)s)"
    )
    parser.add_argument("--device", default="cpu", metavar="NAME", help="cpu, cuda or cuda:N (cpu)")
    parser.add_argument("--out", type=nonempty, metavar="DIR", help="folder for metrics.json")
    return parser


def _measure(options: argparse.Namespace) -> int:
    with naming_extras("mol,bench"):
        import pyg_kernels.chem  # noqa: F401
        from benchmarks.harness.devices import torch_device
        from benchmarks.speed.epoch_timing import measure_epochs
        from benchmarks.speed.training import comparison
    device = torch_device(options.device)
    names = list(dict.fromkeys(options.model))
    root = ["--root", options.root] if options.dataset == "cep" else []
    split, models = comparison(["--data", options.dataset, *root, "--model", *names])
    with as_input_error():
        if options.out:
            Path(options.out).mkdir(parents=True, exist_ok=True)
    torch.set_num_threads(options.threads)
    setting = {
        "dataset": options.dataset,
        "batch_size": options.batch_size,
        "dtype": "float32",
        "device": str(device),
        "threads": options.threads,
        "rounds": options.rounds,
        "torch": torch.__version__,
        "ops": backend(device),
    }
    say(", ".join(f"{key}: {value}" for key, value in setting.items()))
    rows = measure_epochs(
        split,
        models,
        options.batch_size,
        options.batches,
        options.rounds,
        options.device,
    )
    say(table(rows).text())
    if options.out:
        text = json.dumps({**setting, "models": rows}, indent=2)
        with as_input_error():
            (Path(options.out) / "metrics.json").write_text(text)
    return 0


def table(rows: Sequence[dict[str, Any]]) -> Table:
    """The rows as text."""
    return Table(
        f"training, medians of interleaved rounds; {rows[0]['batches']} batches, "
        f"{rows[0]['molecules']:,} molecules",
        (
            "model",
            "parameters",
            "ms a batch",
            "molecules a s",
            "products, ms",
            "/ products",
            "GFLOP/s",
            "products alone",
        ),
        [
            (
                row["model"],
                f"{row['num_parameters']:,}",
                f"{row['milliseconds']:.2f}",
                f"{row['molecules_a_second']:,.0f}",
                f"{row['products_milliseconds']:.2f}",
                f"{row['over_products']:.2f}",
                f"{row['gigaflop_a_second']:.1f}",
                f"{row['products_gigaflop_a_second']:.1f}",
            )
            for row in rows
        ],
    )
