"""The peak memory of another process and of those that it starts, read while it runs (Linux)."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

PROCESSES = Path("/proc")
KIB = 1024
INTERVAL = 0.2  # seconds


class ProcessMemory:
    """Peak resident bytes of a process, and the largest of those of the processes below it.

    The kernel keeps the peak (``VmHWM``) of each process; it is read again and again until the
    process ends. The resident memory includes the pages of files that the process has mapped,
    which the kernel may take back; the anonymous part (``RssAnon``), which it may not, has no peak
    in the kernel: that is the largest that was seen. A forked process shares pages with its parent,
    and they count in both.

    Args:
        pid (int): Of the process.

    Attributes:
        peak: Bytes of the process; ``None`` where the system does not tell, as are the others.
        anonymous_peak: Those that are not of mapped files.
        worker_peak: Bytes of the largest process below it; ``None`` if there was none.
    """

    def __init__(self, pid: int) -> None:
        self.pid = pid
        self.peak: int | None = None
        self.anonymous_peak: int | None = None
        self.worker_peak: int | None = None

    def watch(self, process: subprocess.Popen[str]) -> None:
        """Reads until the process has ended."""
        while process.poll() is None:
            self.read()
            with suppress(subprocess.TimeoutExpired):
                process.wait(INTERVAL)

    def read(self) -> None:
        """Looks once."""
        own = _status(self.pid)
        self.peak = _larger(self.peak, own.get("VmHWM"))
        self.anonymous_peak = _larger(self.anonymous_peak, own.get("RssAnon"))
        for pid in _descendants(self.pid):
            self.worker_peak = _larger(self.worker_peak, _status(pid).get("VmHWM"))


def _larger(one: int | None, other: int | None) -> int | None:
    return max((number for number in (one, other) if number is not None), default=None)


def _status(pid: int) -> dict[str, int]:
    """What the kernel says of a process in bytes; nothing where it has ended or says nothing."""
    with suppress(OSError, ValueError, IndexError):
        lines = (PROCESSES / str(pid) / "status").read_text().splitlines()
        sizes = [line.split() for line in lines if line.endswith(" kB")]
        return {words[0].rstrip(":"): int(words[1]) * KIB for words in sizes}
    return {}


def _descendants(pid: int) -> Iterator[int]:
    """The processes that a process has started, those that these have started, and so on."""
    children: dict[int, list[int]] = {}
    with suppress(OSError):
        for name in os.listdir(PROCESSES):
            if name.isdecimal():
                children.setdefault(_parent(name), []).append(int(name))
    waiting = [pid]
    while waiting:
        found = children.get(waiting.pop(), [])
        yield from found
        waiting += found


def _parent(pid: str) -> int:
    with suppress(OSError, ValueError, IndexError):
        # the name in parentheses may hold spaces and parentheses
        return int((PROCESSES / pid / "stat").read_text().rpartition(")")[2].split()[1])
    return 0
