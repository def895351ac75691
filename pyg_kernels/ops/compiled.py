"""How kernels on CPU are compiled, by Numba, and how threads share their work.

Importing this file imports Numba; ops do so at their first call. A kernel is compiled at its first
call and kept in the user's cache folder under the digest of these sources, or in memory if that
folder cannot be written. It runs without Python's lock on as many threads as torch uses. If torch's
threads are GNU OpenMP's, kernels run on these, because after each of torch's ops these threads
wait for work by spinning for some milliseconds, and would keep the cores from others.
"""

from __future__ import annotations

import ctypes
import functools
import hashlib
import itertools
import logging
import os
import sys
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor, wait
from pathlib import Path
from typing import Any

import numba
import numpy as np
import torch
from torch import Tensor

# Without nnan and ninf: kernels treat NaN and infinity as PyTorch's ops do.
_FASTMATH = {"contract", "reassoc", "nsz", "arcp", "afn"}
_OPTIONS = {"nogil": True, "fastmath": _FASTMATH, "error_model": "numpy"}
_SECONDS_OF_SILENCE = 1.0
_SMALL = 2**15  # numbers; handing less than this to another thread costs more than it saves

_log = logging.getLogger("pyg_kernels")


def kernel(function: Callable[..., None]) -> Callable[..., None]:
    """Compiles a function at its first call; see :func:`run` for its first two arguments."""
    dispatcher = _dispatcher(function)
    called = False

    @functools.wraps(function)
    def call(*args: Any) -> None:
        nonlocal called
        if called:
            dispatcher(*args)
            return
        done = threading.Event()
        threading.Thread(target=_tell, args=(dispatcher, done), daemon=True).start()
        try:
            dispatcher(*args)
        finally:
            done.set()
        called = True

    return call


def inlined(function: Callable[..., Any]) -> Callable[..., Any]:
    """Compiles a function that kernels call."""
    compiled: Callable[..., Any] = numba.njit(**_OPTIONS)(function)
    return compiled


def run(kernel: Callable[..., None], tasks: int, work: int, *args: Any) -> None:
    """Calls ``kernel(first, last, *args)`` on ranges of tasks, one range per thread.

    Args:
        kernel: The kernel. No two tasks may write to the same place.
        tasks: The number of tasks.
        work: About how many numbers the kernel goes through in all.
        args: Its other arguments: arrays and numbers.
    """
    threads = torch.get_num_threads()
    parts = min(tasks, threads) if work > _SMALL else min(tasks, 1)
    if parts < 2:
        if tasks:
            kernel(0, tasks, *args)
        return
    bounds = [tasks * k // parts for k in range(parts + 1)]
    ranges, errors = iter(list(itertools.pairwise(bounds))), list[BaseException]()

    def work_off(_: Any = None) -> None:
        try:
            for first, last in ranges:
                kernel(first, last, *args)
        except BaseException as error:  # would be lost on the other threads
            errors.append(error)

    openmp = _openmp()
    if openmp is not None:
        # All threads take part, because OpenMP ends those that a smaller team would leave out.
        openmp.GOMP_parallel(_REGION(work_off), None, threads, 0)
    else:
        others = [_workers().submit(work_off) for _ in range(parts - 1)]
        work_off()
        wait(other for other in others if not other.cancel())
    if errors:
        raise errors[0]


def array(tensor: Tensor | None, like: Tensor | None = None, dims: int = 2) -> np.ndarray:
    """The tensor's memory as a contiguous array; for None, an empty array of `dims` dimensions."""
    if tensor is None:
        assert like is not None
        return _empty(like.dtype, dims)
    tensor = tensor.resolve_neg()
    if not tensor.is_contiguous():
        tensor = tensor.contiguous()
    return tensor.numpy() if not tensor.requires_grad else tensor.detach().numpy()


@functools.cache
def _empty(dtype: torch.dtype, dims: int) -> np.ndarray:
    return torch.empty((0,) * dims, dtype=dtype).numpy()


_REGION = ctypes.CFUNCTYPE(None, ctypes.c_void_p)


@functools.cache
def _openmp() -> ctypes.CDLL | None:
    """The GNU OpenMP library that torch has loaded; None if there is none."""
    loaded = getattr(os, "RTLD_NOLOAD", None)
    if loaded is None or _forked:
        return None
    own = [str(path) for path in Path(torch.__file__).parent.glob("lib/libgomp*.so*")]
    for name in own or ["libgomp.so.1"]:
        try:
            found = ctypes.CDLL(name, mode=loaded | os.RTLD_NOW)
        except OSError:
            continue
        return found if hasattr(found, "GOMP_parallel") else None
    return None


@functools.cache
def _workers() -> ThreadPoolExecutor:
    return ThreadPoolExecutor(os.cpu_count() or 1, thread_name_prefix="pyg_kernels")


_forked = False


def _forget_threads() -> None:
    """Forgets the threads: a forked process has none of them, and OpenMP would wait for them."""
    global _forked
    _forked = True
    _openmp.cache_clear()
    _workers.cache_clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget_threads)


def _tell(dispatcher: Any, done: threading.Event) -> None:
    """Logs that kernels are being compiled, if this takes long and they are not just loaded."""
    while not done.wait(_SECONDS_OF_SILENCE):
        if dispatcher.stats.cache_misses:
            _say_once("; the next run finds them" if dispatcher.stats.cache_path else "")


@functools.cache
def _say_once(kept: str) -> None:
    _log.warning("pyg_kernels: compiling kernels for this processor%s.", kept)


def _dispatcher(function: Callable[..., None]) -> Callable[..., None]:
    folder = _cache_folder()
    if folder is None:
        return numba.njit(**_OPTIONS)(function)
    given = numba.config.CACHE_DIR
    numba.config.CACHE_DIR = given or str(folder)
    try:
        return numba.njit(cache=True, **_OPTIONS)(function)
    except RuntimeError:  # Numba found no writable place
        return numba.njit(**_OPTIONS)(function)
    finally:
        numba.config.CACHE_DIR = given


@functools.cache
def _cache_folder() -> Path | None:
    """Where compiled kernels are kept; None where there is no such place."""
    digest, package = hashlib.sha256(), Path(__file__).parents[1]
    for folder in ("ops", "kernels"):  # all folders with kernels
        for source in sorted((package / folder).rglob("*.py")):
            digest.update(source.read_bytes())
    try:
        home = Path.home()
    except RuntimeError:
        return None
    if sys.platform == "win32":
        base = Path(os.environ.get("LOCALAPPDATA") or home / "AppData" / "Local")
    elif sys.platform == "darwin":
        base = home / "Library" / "Caches"
    else:
        base = Path(os.environ.get("XDG_CACHE_HOME") or home / ".cache")
    return base / "pyg_kernels" / digest.hexdigest()[:16]
