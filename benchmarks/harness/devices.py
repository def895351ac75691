"""On which devices a benchmark computes."""

import torch

from benchmarks.harness.errors import InputError


def accelerator(device: str) -> tuple[str, list[int] | int]:
    """Lightning's accelerator and devices for the name of a device."""
    if device == "auto":
        return ("gpu", 1) if torch.cuda.is_available() else ("cpu", 1)
    kind, _, index = device.partition(":")
    if kind == "cpu" and not index:
        return "cpu", 1
    if kind == "mps" and not index:
        if torch.backends.mps.is_available():
            return "mps", 1
        raise InputError("--device mps: torch sees no such device here")
    if kind != "cuda" or not (index.isdecimal() or device == "cuda"):
        raise InputError(f"--device must be auto, cpu, cuda, cuda:N or mps, got {device!r}")
    if int(index or 0) >= torch.cuda.device_count():
        raise InputError(f"--device {device}: torch sees {torch.cuda.device_count()} CUDA devices")
    return "gpu", [int(index or 0)]


def torch_device(device: str) -> torch.device:
    """The device of a name, for what Lightning does not place."""
    kind, devices = accelerator(device)
    if kind != "gpu":
        return torch.device(kind)
    return torch.device("cuda", devices[0] if isinstance(devices, list) else 0)
