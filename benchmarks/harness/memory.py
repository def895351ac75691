"""The peak memory of some work."""

import ctypes
import gc
import resource
import sys
from contextlib import suppress

import torch

KIB = 1024


class PeakMemory:
    """The peak memory of a block in bytes, above what the process held when the block began.

    On Linux, freed memory is returned to the system at the beginning, if the C library can do so,
    and the kernel's peak of resident memory is reset. Elsewhere peaks below an earlier peak are
    missed. On a GPU, the memory that PyTorch allocates there is measured as well, separately.
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
        _forget_peak()
        self._before = largest_resident()
        return self

    def __exit__(self, *error: object) -> None:
        self.peak = max(0, largest_resident() - self._before)
        if self.device.type == "cuda":
            peak = torch.cuda.max_memory_allocated(self.device)
            self.gpu_peak = peak - self._gpu_before


def _forget_peak() -> None:
    with suppress(OSError, AttributeError, TypeError):  # another C library
        ctypes.CDLL(None).malloc_trim(0)
    with suppress(OSError), open("/proc/self/clear_refs", "w") as file:
        file.write("5")  # resets the peak


def largest_resident() -> int:
    """The peak resident memory of this process in bytes; on Linux, since it was last reset."""
    with suppress(OSError), open("/proc/self/status") as file:
        for line in file:
            if line.startswith("VmHWM:"):
                return int(line.split()[1]) * KIB
    largest = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return largest if sys.platform == "darwin" else largest * KIB
