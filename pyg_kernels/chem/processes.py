"""One function over many items, in chunks, on several processes."""

from __future__ import annotations

import multiprocessing
import os
import signal
import sys
import threading
import warnings
from collections import deque
from collections.abc import Callable, Generator, Iterable, Sequence
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import closing
from typing import Any, TypeVar

from tqdm import tqdm

Item = TypeVar("Item")
Result = TypeVar("Result")

CHUNK_SIZE = 512
AHEAD = 4  # chunks for each process that are sent before a result is awaited
# With fewer molecules, starting processes costs more than it saves. Forking is cheap; a spawned
# process first imports torch.
FEWEST_FOR_PROCESSES = {"fork": 2000, "spawn": 20000, "forkserver": 20000}


def map_chunks(
    function: Callable[[tuple[int, Sequence[Item]]], Result],
    items: Sequence[Item],
    num_workers: int | None = None,
    progress: bool = False,
) -> list[Result]:
    """The results of :func:`stream_chunks` on chunks of the items, each given with its start."""
    chunks = ((start, items[start : start + CHUNK_SIZE]) for start in chunk_starts(len(items)))
    return list(stream_chunks(function, chunks, len(items), num_workers, progress))


def stream_chunks(
    function: Callable[[tuple[Any, Any]], Result],
    chunks: Iterable[tuple[Any, Any]],
    num_items: int | None,
    num_workers: int | None = None,
    progress: bool = False,
) -> Generator[Result, None, None]:
    """``function(chunk) for chunk in chunks``, in order, on several processes.

    Chunks are drawn as processes become free, so that only a few chunks and results are held at a
    time, however many there are. Forked processes inherit the function as it is here; spawned
    processes are sent it once.
    """
    if num_items is None:
        num_workers = _num_processes(num_workers or 0, 0)
    else:
        num_workers = min(_num_processes(num_workers, num_items), len(chunk_starts(num_items)))
    results = _in_processes(function, chunks, num_workers)
    bar = tqdm(total=num_items, desc="molecules", unit="mol", disable=not progress)
    with bar, closing(results):
        for size, result in results:
            bar.update(size)
            yield result


def chunk_starts(num_items: int) -> range:
    """Where each chunk of so many items begins."""
    return range(0, num_items, CHUNK_SIZE)


def _num_processes(num_workers: int | None, num_items: int) -> int:
    if num_workers is not None and num_workers < 0:
        raise ValueError(f"num_workers must be None, 0 or a positive number, not {num_workers}")
    # Daemons may not start processes, and workers that called `work_alone` start none.
    known = _start_method() in FEWEST_FOR_PROCESSES
    if multiprocessing.current_process().daemon or _works_alone or not known:
        return 0
    if num_workers is not None:
        return num_workers
    if num_items < FEWEST_FOR_PROCESSES[_start_method()]:
        return 0
    import joblib

    return int(joblib.cpu_count())  # cores that this process may use


def _in_processes(
    function: Callable[[tuple[Any, Any]], Result],
    chunks: Iterable[tuple[Any, Any]],
    num_workers: int,
) -> Generator[tuple[int, Result], None, None]:
    """The length and the result of each chunk; few chunks are with the processes at a time."""
    if num_workers <= 1:
        yield from ((len(chunk[1]), function(chunk)) for chunk in chunks)
        return
    context = multiprocessing.get_context(_start_method())
    pool = ProcessPoolExecutor(
        num_workers, mp_context=context, initializer=_start, initargs=(function,)
    )
    waiting: deque[tuple[int, Future[Any]]] = deque()
    try:
        for chunk in chunks:
            if len(waiting) == AHEAD * num_workers:
                size, future = waiting.popleft()
                yield size, future.result()
            with warnings.catch_warnings():
                # Python 3.12 warns of forking next to torch's idle threads; ours run no torch.
                warnings.filterwarnings("ignore", ".*use of fork.*", DeprecationWarning)
                waiting.append((len(chunk[1]), pool.submit(_call, chunk)))
        for size, future in waiting:
            yield size, future.result()
    except BrokenProcessPool as error:
        raise RuntimeError(
            "a process that reads molecules ended before it was done; pass num_workers=0 to read "
            "them in this process (a script that starts processes needs its code below "
            "if __name__ == '__main__': where processes are spawned)"
        ) from error
    finally:
        pool.shutdown(wait=True, cancel_futures=True)


_function: Callable[[Any], Any]  # what this process, one of several, applies to chunks
_works_alone = False


def work_alone() -> None:
    """Makes this process, which is one of several, read molecules without starting others."""
    global _works_alone
    _works_alone = True


def _start(function: Callable[[Any], Any]) -> None:
    """Stores the function, and leaves interrupts from the keyboard to the first process.

    This process ends when the one that started it ends, even if that one is killed.
    """
    global _function
    _function = function
    work_alone()
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    parent = multiprocessing.parent_process()

    def watch() -> None:
        if parent is not None:
            parent.join()
            os._exit(1)

    threading.Thread(target=watch, daemon=True).start()


def _call(chunk: tuple[Any, Any]) -> Any:
    return _function(chunk)


def _start_method() -> str:
    """The start method that the program has set; if none, fork on Linux (no import to repeat)."""
    chosen = multiprocessing.get_start_method(allow_none=True)
    if chosen is None and sys.platform == "linux":
        return "fork"
    return chosen or multiprocessing.get_all_start_methods()[0]
