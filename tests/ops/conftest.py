"""Processes whose Triton interprets kernels, or compiles them for a GPU that may be absent.

Triton decides which of the two it does when it is imported. Tests therefore hand their cases to a
process that was started for the purpose and that imports their module.
"""

from __future__ import annotations

import multiprocessing
import os
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from types import SimpleNamespace
from typing import Any

import pytest

from pyg_kernels.ops import operator


def take_triton() -> None:
    """Lets CPU tensors take the code path of CUDA tensors."""
    operator.path_on = lambda device: "triton"


def compile_for_hopper() -> None:
    """Takes the CUDA path with a driver that has no device but lets kernels be compiled."""
    import triton
    from triton.backends.compiler import GPUTarget

    take_triton()
    driver = SimpleNamespace(
        get_current_target=lambda: GPUTarget("cuda", 90, 32),
        get_current_device=lambda: 0,
        get_current_stream=lambda device: 0,
    )
    triton.runtime.driver.set_active(driver)


def compiled_kernels() -> list[Any]:
    """A list that collects all kernels launched from now on: they are compiled but not run."""
    import triton

    made: list[Any] = []

    def warm_up(kernel: Any, *args: Any, **given: Any) -> None:
        made.append(kernel.warmup(*args, **given))

    triton.JITFunction.__getitem__ = lambda self, grid: partial(warm_up, self, grid=grid)
    return made


@pytest.fixture
def path(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """The code path to take, whatever machine the tests run on."""
    if request.param == "definition":
        monkeypatch.setattr(operator, "cpu_backend", lambda: "definition")
    return request.param


@pytest.fixture(scope="session")
def interpreter(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ProcessPoolExecutor]:
    yield from _process(True, tmp_path_factory)


@pytest.fixture(scope="session")
def compiler(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ProcessPoolExecutor]:
    yield from _process(False, tmp_path_factory)


def _process(interpreted: bool, folders: pytest.TempPathFactory) -> Iterator[ProcessPoolExecutor]:
    pytest.importorskip("triton", "3.3", reason="Triton 3.3 is not installed")
    prepare = take_triton if interpreted else compile_for_hopper
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TRITON_INTERPRET", "1" if interpreted else "0")
        patch.setenv("TRITON_CACHE_DIR", str(folders.mktemp("triton")))
        executor = ProcessPoolExecutor(1, multiprocessing.get_context("spawn"), prepare)
        executor.submit(os.getpid).result()
    with executor:
        yield executor
