"""What several processes do together: take turns, hear of errors, put predictions together.

In one process each function does its work and nothing else.
"""

import os
import sys
from collections.abc import Callable, Sequence
from contextlib import suppress
from datetime import timedelta
from typing import Any, TypeVar

import torch
import torch.distributed as dist
from torch import Tensor

from benchmarks.harness.errors import (
    DivergenceError,
    EndedElsewhere,
    InputError,
    MeasurementError,
)
from benchmarks.harness.processes import processes

T = TypeVar("T")
# A process may wait for all that another one does alone, such as a Gaussian process or a download;
# torchrun ends those that wait for a process which has failed.
PATIENCE = timedelta(days=30)
MEETING = timedelta(seconds=20)  # for which a process that has failed waits for the others
SHARED = (InputError, DivergenceError, MeasurementError, EndedElsewhere)


def start() -> None:
    """Joins the other processes, unless this has been done or there are none.

    Tensors on the CPU travel by gloo, those on CUDA devices by nccl.

    Raises:
        InputError: If PyTorch was built without its distributed engine.
    """
    here = processes()
    if here.number == 1 or started():
        return
    if not dist.is_available():
        raise InputError(f"this PyTorch cannot train in {here.number} processes: no distributed")
    backend = "cpu:gloo,cuda:nccl" if on_cuda() else "gloo"
    dist.init_process_group(
        backend, rank=here.rank, world_size=here.number, timeout=PATIENCE, init_method="env://"
    )


def started() -> bool:
    """Whether this process has joined others."""
    return dist.is_available() and dist.is_initialized()


def on_cuda() -> bool:
    """Whether processes can train on CUDA devices together."""
    return torch.cuda.is_available() and dist.is_nccl_available()


def end(status: int, line: str) -> int:
    """Takes leave of the other processes; after an error, ends this one together with them.

    ``torchrun`` ends all processes a moment after one has failed: so that the first one can say
    why, and each has the status that fits, they wait for each other and end at once.

    Args:
        status (int): The exit status; this returns if it is 0.
        line (str): Why this process ends, which the first one has said; the others say it where
            the rest does not end as well.
    """
    if not status:
        if started():
            dist.destroy_process_group()
        return status
    try:
        start()
        dist.all_reduce(torch.zeros(1), async_op=True).wait(MEETING)
    except RuntimeError:
        if line and not processes().is_first:
            print(f"process {processes().rank}: {line}", file=sys.stderr)
    for stream in (sys.stdout, sys.stderr):
        with suppress(OSError):
            stream.flush()
    os._exit(status)


def in_first(work: Callable[[], T]) -> T | None:
    """What the first process's `work` gives there, and ``None`` in the others, which wait.

    Raises:
        InputError, DivergenceError, MeasurementError: In the first process, if its work does.
        EndedElsewhere: In the others, if the first process's work raises one of these.
    """
    here = processes()
    if here.number == 1:
        return work()
    return _agreed(work if here.is_first else lambda: None)


def from_first(work: Callable[[], T]) -> T:
    """What the first process's `work` gives, in all; the others wait.

    Raises:
        InputError, DivergenceError, MeasurementError: In the first process, if its work does.
        EndedElsewhere: In the others, if the first process's work raises one of these.
    """
    if processes().number == 1:
        return work()
    given = [in_first(work)]
    dist.broadcast_object_list(given, src=0)
    return given[0]  # type: ignore[return-value]


def in_turn(work: Callable[[], T]) -> T:
    """The work of every process: the first one's, the first ones' of other machines, then the rest.

    So what the first leaves in a file is there for the others, whether or not machines share a
    file system.

    Raises:
        InputError, DivergenceError, MeasurementError: In the first process, if any one's work does.
        EndedElsewhere: In the others.
    """
    here = processes()
    if here.number == 1:
        return work()
    mine = 0 if here.is_first else 1 if here.local_rank == 0 else 2
    result: list[T] = []
    for turn in range(3):
        _agreed(lambda turn=turn: result.append(work()) if turn == mine else None)  # type: ignore[misc]
    return result[0]


def in_all(work: Callable[[], T]) -> T:
    """The work of every process at once, ended in all if one of them fails.

    Raises:
        InputError, DivergenceError, MeasurementError: In the first process, if any one's work does.
        EndedElsewhere: In the others.
    """
    return work() if processes().number == 1 else _agreed(work)


def put_together(shares: Sequence[Tensor], number: int, batch_size: int) -> Tensor | None:
    """One tensor of the rows that the processes have computed, in the first process.

    Process r of R has rows r, r + R, ... of every batch, then perhaps rows of stand-ins, which are
    left out.

    Args:
        shares: For each batch, ``(B, ...)`` rows of this process.
        number (int): N, rows of all batches of all processes.
        batch_size (int): Rows of a whole batch of all processes.

    Returns:
        ``(N, ...)`` in the first process, ``None`` in the others.
    """
    here = processes()
    if here.number == 1:
        return torch.cat(list(shares))
    places = torch.arange(number)
    owner = places % batch_size % here.number
    sizes = (places[owner == here.rank] // batch_size).bincount(minlength=len(shares)).tolist()
    own = torch.cat([share[:size] for share, size in zip(shares, sizes, strict=True)])
    gathered: list[Any] | None = [None] * here.number if here.is_first else None
    dist.gather_object(own, gathered, dst=0)
    if gathered is None:
        return None
    whole = own.new_empty((number, *own.shape[1:]))
    for rank, rows in enumerate(gathered):
        whole[places[owner == rank]] = rows
    return whole


def _agreed(work: Callable[[], T]) -> T:
    """The work of this process, once all have told each other that theirs went well.

    An error that is said in one line is raised in the first process, whichever met it, so that it
    is said once; the others end in silence with the same status. Any other is this process's own.
    """
    start()
    error: Exception | None = None
    try:
        result = work()
    except SHARED as raised:
        error = raised
    errors: list[Any] = [None] * processes().number
    dist.all_gather_object(errors, error)
    met = next((other for other in errors if other is not None), None)
    if met is None:
        return result
    if not processes().is_first:
        raise EndedElsewhere(met.status) from error
    raise error or met
