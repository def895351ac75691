"""One measurement in a process of its own: seconds, peak memory, facts."""

import os
import statistics
from collections.abc import Callable
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch

from benchmarks.harness.devices import timed
from benchmarks.harness.errors import InputError, RunError
from benchmarks.harness.memory import PeakMemory
from benchmarks.harness.study import in_own_process
from benchmarks.kernels import accuracy, libraries, regression
from benchmarks.kernels.options import GRAKEL, RANDOM_FEATURES, SEED, Kernels, Measurement

MOST_SECONDS = 10.0  # once calls have taken this long, there are no more
MIB = 2**20
VALUES = "values.npy"  # a Gram matrix, until it has been compared
Result = dict[str, Any]


def measured(options: Kernels, measurement: Measurement, folder: Path) -> Result:
    """The record of a measurement, with the difference from GraKeL's values if there are any."""
    if options.threads:
        os.environ["OMP_NUM_THREADS"] = str(options.threads)  # read by the new process
    try:
        found = in_own_process(outcome, options, measurement, folder)
    except RunError as error:
        found = {"failed": str(error)}
    result = {**asdict(measurement), **found}
    if "failed" in result and measurement.method != GRAKEL and measurement.task != "accuracy":
        raise RunError(f"{measurement.title}: {result['failed']}")
    theirs = Measurement(measurement.task, GRAKEL, measurement.size)
    paths = [folder / VALUES, folder.parent / theirs.name / VALUES]
    if measurement != theirs and all(path.exists() for path in paths):
        ours, others = (np.load(path) for path in paths)
        difference = np.abs(ours - others)
        result["difference"] = float(difference.max())
        scale = np.where(others == 0, 1, np.abs(others))
        result["relative_difference"] = float((difference / scale).max())
    return result


def outcome(options: Kernels, measurement: Measurement, folder: Path) -> Result:
    """The result of a measurement; if there is none, ``failed`` says why."""
    if options.threads:
        torch.set_num_threads(options.threads)
    try:
        result = measure(options, measurement, folder)
    except (InputError, MemoryError) as error:
        why = "out of memory: " if isinstance(error, MemoryError) else ""
        result = {"failed": f"{why}{error}"}
    return {**result, "threads": torch.get_num_threads()}


def measure(options: Kernels, measurement: Measurement, folder: Path) -> Result:
    """Seconds, peak memory and facts of one measurement."""
    task, size = measurement.task, measurement.size
    device = torch.device("cpu" if task in ("gp", "accuracy") else options.device)
    work: Callable[[], Any]
    # Except for accuracy, molecules are read before time and memory are measured.
    if task == "gp":
        work = partial(regression.regress_with_process, libraries.load(options), size)
    elif task == "accuracy":
        work = partial(accuracy.accuracies, measurement.method, SEED)
    elif measurement.method == RANDOM_FEATURES:
        parts = regression.Parts(libraries.load(options), device)
        work = partial(regression.regress_with_features, parts, size)
    elif task == "regression":
        parts = regression.Parts(libraries.load(options), device, size)
        work = partial(regression.regress_with_gram, parts)
    else:
        work = libraries.prepared(measurement, options)
    with PeakMemory(device) as memory:
        found, *seconds = timed(work, device)
    peak = {"calls": 1, "peak_mib": round(memory.peak / MIB, 1), "seconds": seconds[0]}
    if memory.gpu_peak is not None:
        peak["gpu_peak_mib"] = round(memory.gpu_peak / MIB, 1)
    if isinstance(found, dict):
        return {**peak, **found}
    while len(seconds) < options.rounds and sum(seconds) < MOST_SECONDS:
        seconds.append(timed(work, device)[1])
    times = {"seconds": statistics.median(seconds), "calls": len(seconds)}
    return {**peak, **times, **_facts(task, found, size, folder)}


def _facts(task: str, found: Any, copies: int, folder: Path) -> Result:
    """The size of a result; compares the features of all copies, or saves a Gram matrix."""
    if task != "wl-features":
        np.save(folder / VALUES, np.asarray(found))
        return {"molecules": len(found)}
    molecules = found.shape[0] // copies
    original, *others = (found[k * molecules :][:molecules] for k in range(copies))
    return {
        "molecules": found.shape[0],
        "columns": found.shape[1],
        "entries": found.nnz,
        "copies_equal": not any((original != each).nnz for each in others),
    }
