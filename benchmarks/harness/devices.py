"""The devices on which a benchmark computes, and timing on them."""

import time
from collections.abc import Callable
from typing import TypeVar

import torch

from benchmarks.harness.errors import InputError

T = TypeVar("T")
CPU = torch.device("cpu")


def torch_device(name: str) -> torch.device:
    """The device with a name."""
    if name == "auto":
        name = "cuda" if torch.cuda.is_available() else "cpu"
    kind, _, index = name.partition(":")
    if kind not in ("cpu", "cuda", "mps") or (index and not (kind == "cuda" and index.isdecimal())):
        raise InputError(f"--device must be auto, cpu, cuda, cuda:N or mps, got {name!r}")
    if kind == "mps" and not torch.backends.mps.is_available():
        raise InputError("--device mps: torch sees no such device here")
    if kind == "cuda" and int(index or 0) >= torch.cuda.device_count():
        raise InputError(f"--device {name}: torch sees {torch.cuda.device_count()} CUDA devices")
    return torch.device("cuda", int(index or 0)) if kind == "cuda" else torch.device(kind)


def now(device: torch.device) -> float:
    """The seconds on a clock after the device has finished all its work."""
    if device.type == "cuda":
        torch.cuda.synchronize(device)
    return time.perf_counter()


def timed(call: Callable[[], T], device: torch.device = CPU) -> tuple[T, float]:
    """The result of a call, and the seconds that it took."""
    started = now(device)
    result = call()
    return result, now(device) - started
