"""One measurement in a process of its own: ``python -m benchmarks.harness.kernels.worker``.

Reads a JSON object from standard input (``setting``, ``measurement``, and ``values``, the file for
what is to be compared) and writes the result as JSON on the last line of standard output.
"""

import json
import statistics
import sys
import time
from typing import Any

import numpy as np
import torch

from benchmarks.harness.errors import InputError
from benchmarks.harness.kernels.setting import (
    ACCURACY,
    PROCESS,
    RANDOM_FEATURES,
    REGRESSION,
    WL_FEATURES,
    Measurement,
    Setting,
)
from benchmarks.harness.memory import PeakMemory

MOST_SECONDS = 10.0  # of calls, after which there are no more
MIB = 2**20


def main() -> int:
    """Measures what standard input says."""
    told = json.load(sys.stdin)
    setting, measurement = Setting(**told["setting"]), Measurement(**told["measurement"])
    if setting.threads:
        torch.set_num_threads(setting.threads)
    print(json.dumps(outcome(measurement, setting, told["values"])))
    return 0


def outcome(measurement: Measurement, setting: Setting, values: str) -> dict[str, Any]:
    """The result of a measurement, or, as ``failed``, why there is none.

    Args:
        measurement: What is measured.
        setting: How.
        values (str): The file for a matrix that is to be compared.
    """
    try:
        result = measure(measurement, setting, values)
    except InputError as error:
        result = {"failed": str(error)}
    except MemoryError as error:
        result = {"failed": f"out of memory: {error}"}
    return {**result, "threads": torch.get_num_threads()}


def measure(measurement: Measurement, setting: Setting, values: str) -> dict[str, Any]:
    """Seconds, peak memory and facts of one measurement."""
    if measurement.task == REGRESSION:
        return _regression(measurement, setting)
    if measurement.task == PROCESS:
        return _process(measurement, setting)
    if measurement.task == ACCURACY:
        return _accuracies(measurement, setting)
    # Packages are imported, and molecules read, before the clock and the memory are looked at.
    from benchmarks.harness.kernels.libraries import prepared

    call = prepared(measurement, setting)
    device = torch.device(setting.device)
    seconds = []
    with PeakMemory(device) as memory:
        result, first = _timed(call, device)
    seconds.append(first)
    while len(seconds) < setting.rounds and sum(seconds) < MOST_SECONDS:
        seconds.append(_timed(call, device)[1])
    facts = {}
    if measurement.task == WL_FEATURES:
        facts = _feature_facts(result, measurement.size)
    else:
        np.save(values, np.asarray(result))
        facts = {"molecules": len(result)}
    return {"seconds": statistics.median(seconds), "calls": len(seconds), **_peak(memory), **facts}


def _regression(measurement: Measurement, setting: Setting) -> dict[str, Any]:
    from benchmarks.harness.kernels import regression
    from benchmarks.harness.kernels.libraries import load

    random = measurement.method == RANDOM_FEATURES
    parts = regression.Parts(load(setting), setting, None if random else measurement.size)
    with PeakMemory(torch.device(setting.device)) as memory:
        if random:
            result = regression.regress_with_features(parts, measurement.size, setting)
        else:
            result = regression.regress_with_gram(parts, setting)
    seconds = result["seconds_kernel"] + result["seconds_fit"]
    return {"seconds": seconds, "calls": 1, **_peak(memory), **result}


def _accuracies(measurement: Measurement, setting: Setting) -> dict[str, Any]:
    from benchmarks.harness.kernels.accuracy import accuracies

    cpu = torch.device("cpu")
    with PeakMemory(cpu) as memory:
        found, seconds = _timed(lambda: accuracies(measurement.method, setting.seed), cpu)
    return {"seconds": seconds, "calls": 1, **_peak(memory), **found}


def _process(measurement: Measurement, setting: Setting) -> dict[str, Any]:
    from benchmarks.harness.kernels import regression
    from benchmarks.harness.kernels.libraries import load

    molecules = load(setting)
    with PeakMemory(torch.device("cpu")) as memory:
        result = regression.regress_with_process(molecules, measurement.size, setting)
    return {"calls": 1, **_peak(memory), **result}


def _timed(call: Any, device: torch.device) -> tuple[Any, float]:
    started = time.perf_counter()
    result = call()
    if device.type == "cuda":
        torch.cuda.synchronize(device)
    return result, time.perf_counter() - started


def _peak(memory: PeakMemory) -> dict[str, float]:
    peak = {"peak_mib": round(memory.peak / MIB, 1)}
    if memory.gpu_peak is not None:
        peak["gpu_peak_mib"] = round(memory.gpu_peak / MIB, 1)
    return peak


def _feature_facts(counts: Any, copies: int) -> dict[str, Any]:
    """The shape of the features, and whether every copy has those of the original."""
    molecules = counts.shape[0] // copies
    original = counts[:molecules]
    return {
        "molecules": counts.shape[0],
        "columns": counts.shape[1],
        "entries": counts.nnz,
        "copies_equal": all(
            (original != counts[k * molecules : (k + 1) * molecules]).nnz == 0
            for k in range(1, copies)
        ),
    }


if __name__ == "__main__":
    sys.exit(main())
