"""The peak memory of some work."""

import ctypes
import gc
import resource
import sys
from contextlib import suppress

import torch

STATUS = "/proc/self/status"
KIB = 1024


class PeakMemory:
    """Bytes at the peak of a block above those that the process held when it began.

    On Linux freed memory is given back at the beginning, where the C library can, and the kernel's
    peak of resident memory (``VmHWM``) is set back.
    Elsewhere ``ru_maxrss`` of ``getrusage`` is read before and after, which misses what stays below
    an earlier peak. On a GPU, what PyTorch has allocated there counts as well, on its own.
    """

    def __init__(self, device: torch.device) -> None:
        self.device = device
        self.peak = 0
        self.gpu_peak: int | None = None

    def __enter__(self) -> "PeakMemory":
        gc.collect()
        if self.device.type == "cuda":
            torch.cuda.reset_peak_memory_stats(self.device)
            self._gpu_before = torch.cuda.memory_allocated(self.device)
        self._linux = _forget_peak()
        self._before = _status("VmRSS") if self._linux else largest_resident()
        return self

    def __exit__(self, *error: object) -> None:
        after = _status("VmHWM") if self._linux else largest_resident()
        self.peak = max(0, after - self._before)
        if self.device.type == "cuda":
            peak = torch.cuda.max_memory_allocated(self.device)
            self.gpu_peak = peak - self._gpu_before


def _forget_peak() -> bool:
    """Whether the peak of resident memory could be set back."""
    with suppress(OSError, AttributeError, TypeError):  # another C library
        ctypes.CDLL(None).malloc_trim(0)
    try:
        with open("/proc/self/clear_refs", "w") as file:
            file.write("5")  # forgets the peak
        return _status("VmHWM") > 0
    except (OSError, ValueError):
        return False


def _status(key: str) -> int:
    with open(STATUS) as file:
        for line in file:
            if line.startswith(f"{key}:"):
                return int(line.split()[1]) * KIB
    raise ValueError(f"{STATUS} has no {key}")


def largest_resident() -> int:
    """Bytes at the peak of this process so far."""
    largest = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return largest if sys.platform == "darwin" else largest * KIB
