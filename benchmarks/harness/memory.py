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
    """The peak memory of a block in bytes, above what the process held when the block began.

    On Linux, freed memory is returned to the system at the beginning, if the C library can do so,
    and the kernel's peak of resident memory (``VmHWM``) is reset. Elsewhere ``ru_maxrss`` of
    ``getrusage`` is read before and after, which misses peaks below an earlier peak. On a GPU, the
    memory that PyTorch allocates there is measured as well, separately.
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
    """Resets the peak of resident memory; whether that was possible."""
    with suppress(OSError, AttributeError, TypeError):  # another C library
        ctypes.CDLL(None).malloc_trim(0)
    try:
        with open("/proc/self/clear_refs", "w") as file:
            file.write("5")  # resets the peak
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
    """The peak resident memory of this process so far, in bytes."""
    largest = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return largest if sys.platform == "darwin" else largest * KIB
