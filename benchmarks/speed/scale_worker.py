"""One stage of ``benchmarks.speed scale`` in a process of its own.

Reads a JSON object from standard input (``stage`` and the arguments of its function) and writes the
result as JSON on the last line of standard output.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from benchmarks.harness.arguments import exit_status
from benchmarks.harness.errors import as_input_error

WARM_BATCHES = 10  # at most so many of the first do not count


def main() -> int:
    """Carries out what standard input says."""
    told = json.load(sys.stdin)
    stage = STAGES[told.pop("stage")]
    with as_input_error():
        result = stage(**told)
    print(json.dumps(result))
    return 0


def replicate(
    csv: str, dataset: str, root: str, number: int, seed: int, workers: int
) -> dict[str, Any]:
    """Writes the molecules of a data set so many times that they are `number`."""
    from benchmarks.speed.scale_replication import Source, write_replicas

    source = Source.of(dataset, root)
    started = time.perf_counter()
    write_replicas(source, number, Path(csv), seed, workers)
    return {
        "seconds": time.perf_counter() - started,
        "bytes": Path(csv).stat().st_size,
        "targets": list(source.target_names),
    }


def featurise(csv: str, shards: str, number: int, workers: int) -> dict[str, Any]:
    """Featurises the file into shards."""
    from pyg_kernels.datasets import MoleculeShards

    started = time.perf_counter()
    molecules = MoleculeShards.from_csv(csv, shards, num_workers=workers)
    seconds = time.perf_counter() - started
    if len(molecules) != number:
        raise RuntimeError(f"{number} molecules were written, {len(molecules)} are in the shards")
    return {
        "seconds": seconds,
        "molecules_a_second": number / seconds,
        "bytes": molecules.num_bytes,
        "bytes_a_molecule": molecules.num_bytes / number,
    }


def train(
    csv: str, shards: str, model: str, batch_size: int, steps: int | None, threads: int, runs: str
) -> dict[str, Any]:
    """Trains on the shards through the benchmark: some steps, or a whole run of one epoch."""
    import torch

    from benchmarks.speed.training import comparison

    torch.set_num_threads(threads)
    started = time.perf_counter()
    words = ["--data", csv, "--shards", shards, "--model", model, "--device", "cpu"]
    words += ["--epochs", "1", "--batch-size", str(batch_size)]
    split, (network,) = comparison(words)
    opened = time.perf_counter() - started
    molecules, seconds = (
        _epoch(split, network, Path(runs))
        if steps is None
        else _steps(split, network, batch_size, steps)
    )
    return {
        "seconds_to_open": opened,
        "molecules": molecules,
        "seconds": seconds,
        "molecules_a_second": molecules / seconds,
        "training_share": len(split.parts["train"]) / len(split.data.source),
        "num_parameters": network.num_parameters,
    }


def _steps(split: Any, network: Any, batch_size: int, steps: int) -> tuple[int, float]:
    """Molecules and seconds of the steps after the first few."""
    from benchmarks.speed.training import BatchClock, train_batches

    clock = BatchClock()
    train_batches(split, network, batch_size, clock, steps)
    warm = min(WARM_BATCHES, len(clock.seconds) // 2)
    return sum(clock.molecules[warm:]), sum(clock.seconds[warm:])


def _epoch(split: Any, network: Any, folder: Path) -> tuple[int, float]:
    """Molecules and seconds of the batches of a run that is trained, predicts and is written."""
    from benchmarks.molecules.report import FinishedCell
    from benchmarks.molecules.runs import RECORD, Cell

    Cell(split, network, 0).write(folder, progress=False)
    (epoch,) = FinishedCell.read(folder / RECORD).history
    return len(split.parts["train"]), epoch["seconds"]


STAGES: dict[str, Callable[..., dict[str, Any]]] = {
    "replicate": replicate,
    "featurise": featurise,
    "train": train,
}

if __name__ == "__main__":
    sys.exit(exit_status("benchmarks.speed scale", main))
