"""On which devices a benchmark computes."""

from typing import Any

import torch
from lightning.pytorch.plugins.environments import TorchElasticEnvironment
from lightning.pytorch.strategies import DDPStrategy

from benchmarks.harness.errors import InputError
from benchmarks.harness.processes import processes


def accelerator(device: str) -> tuple[str, list[int] | int]:
    """Lightning's accelerator and devices for the name of a device.

    Raises:
        InputError: If the device has an unknown name or is not there.
    """
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


def trainer_devices(device: str, unused_parameters: bool = False) -> dict[str, Any]:
    """Lightning's accelerator and devices, and how several processes train on them together.

    Of the processes of a machine, each computes on the CUDA device that its local rank numbers.

    Args:
        device (str): As on the command line.
        unused_parameters (bool): Whether the network has some that get no gradient: processes must
            not wait for it.

    Returns:
        Arguments of Lightning's ``Trainer``.

    Raises:
        InputError: If a device has an unknown name, or is not there for every process.
    """
    kind, devices = accelerator(device)
    here = processes()
    if here.number == 1:
        return {"accelerator": kind, "devices": devices}
    if kind == "mps" or device.startswith("cuda:"):
        raise InputError(
            f"--device {device} is for one process, not {here.number}; give cuda, one device a "
            "process, or cpu"
        )
    if kind == "gpu" and here.local_number > torch.cuda.device_count():
        raise InputError(
            f"--device {device}: {here.local_number} processes on this machine need as many CUDA "
            f"devices, torch sees {torch.cuda.device_count()}; --device cpu needs none"
        )
    return {
        "accelerator": kind,
        "devices": here.local_number,
        "num_nodes": here.machines,
        "strategy": DDPStrategy(
            process_group_backend="nccl" if kind == "gpu" else "gloo",
            find_unused_parameters=unused_parameters,
        ),
        "plugins": [TorchElasticEnvironment()],
        "sync_batchnorm": kind == "gpu",  # PyTorch has it on CUDA devices alone
        "use_distributed_sampler": False,
    }


def check_devices(device: str, batch_size: int) -> None:
    """Raises an :class:`InputError` where the processes have no devices, or share no batch."""
    trainer_devices(device)
    number = processes().number
    if batch_size < number:
        raise InputError(f"--batch-size {batch_size} is shared by {number} processes; give more")


def torch_device(device: str) -> torch.device:
    """The device of a name, for what Lightning does not place.

    Raises:
        InputError: If the device has an unknown name or is not there.
    """
    kind, devices = accelerator(device)
    if kind != "gpu":
        return torch.device(kind)
    return torch.device("cuda", devices[0] if isinstance(devices, list) else 0)
