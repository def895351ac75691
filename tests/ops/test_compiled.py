"""How the compiled kernels share their work among threads, and when compiling is told."""

from __future__ import annotations

import multiprocessing
import os
import threading
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch

pytest.importorskip("numba")

from pyg_kernels.ops import compiled

MUCH = 10**9  # numbers to compute: enough work for several threads


@pytest.fixture(params=["its own", "torch's"])
def pool(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch, threads: int) -> None:
    """Runs the test on Python's threads, and on OpenMP's where torch has loaded GNU's OpenMP."""
    if request.param == "its own":
        monkeypatch.setattr(compiled, "_openmp", lambda: None)
    elif compiled._openmp() is None:
        pytest.skip("torch has not loaded GNU's OpenMP")
    torch.set_num_threads(3)


@pytest.mark.usefixtures("pool")
@pytest.mark.parametrize("tasks", [0, 1, 2, 3, 7])
def test_every_task_runs_once(tasks: int) -> None:
    counts = np.zeros(tasks, dtype=int)

    def count(first: int, last: int, out: np.ndarray) -> None:
        out[first:last] += 1

    for _ in range(20):
        compiled.run(count, tasks, MUCH, counts)
    assert (counts == 20).all()


@pytest.mark.usefixtures("pool")
@pytest.mark.parametrize("where", range(3))
def test_errors_of_any_thread_reach_the_caller(where: int) -> None:
    def fail(first: int, last: int) -> None:
        if first == where:
            raise MemoryError("too large")

    with pytest.raises(MemoryError, match="too large"):
        compiled.run(fail, 3, MUCH)


def _add_one(first: int, last: int, out: np.ndarray) -> None:
    out[first:last] += 1


def test_compiling_is_told_and_loading_is_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: Any
) -> None:
    monkeypatch.setattr(compiled, "_cache_folder", lambda: tmp_path)
    monkeypatch.setattr(compiled.numba.config, "CACHE_DIR", "")
    for times in (1, 0):
        compiled._say_once.cache_clear()
        caplog.clear()
        dispatcher, over = compiled._dispatcher(_add_one), iter([False, True])
        dispatcher(0, 3, np.zeros(3))
        compiled._tell(dispatcher, SimpleNamespace(wait=lambda _, over=over: next(over)))
        assert caplog.text.count("the next run finds them") == times
    compiled._say_once.cache_clear()
    asked = threading.Event()
    monkeypatch.setattr(compiled, "_tell", lambda dispatcher, done: asked.set())
    compiled.kernel(_add_one)(0, 3, np.zeros(3))
    assert asked.wait(60)


def _sum_in_child() -> None:
    torch.set_num_threads(2)
    found = np.zeros(2)

    def add(first: int, last: int) -> None:
        found[first:last] += 1

    compiled.run(add, 2, MUCH)
    os._exit(int(found.sum()))


@pytest.mark.usefixtures("pool")
@pytest.mark.skipif("fork" not in multiprocessing.get_all_start_methods(), reason="no fork")
def test_a_forked_process_has_threads_of_its_own() -> None:
    compiled.run(lambda first, last: None, 3, MUCH)
    child = multiprocessing.get_context("fork").Process(target=_sum_in_child)
    child.start()
    child.join(60)
    assert child.exitcode == 2
