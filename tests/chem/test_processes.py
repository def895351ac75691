import multiprocessing
import os
from collections.abc import Sequence
from operator import itemgetter

import pytest

from pyg_kernels.chem.processes import CHUNK_SIZE, map_chunks


def start_length_and_process(chunk: tuple[int, Sequence[int]]) -> tuple[int, int, int]:
    start, items = chunk
    return start, len(items), os.getpid()


def end_at_once(chunk: tuple[int, Sequence[int]]) -> None:
    os._exit(1)


def fail(chunk: tuple[int, Sequence[int]]) -> None:
    raise KeyError("first item", chunk[0])


ITEMS = list(range(2 * CHUNK_SIZE + 7))
CHUNKS = [(0, CHUNK_SIZE), (CHUNK_SIZE, CHUNK_SIZE), (2 * CHUNK_SIZE, 7)]


@pytest.mark.parametrize("num_workers", [None, 0, 1])
def test_few_items_stay_in_this_process(num_workers: int | None) -> None:
    results = map_chunks(start_length_and_process, ITEMS, num_workers)
    assert [result[:2] for result in results] == CHUNKS
    assert {result[2] for result in results} == {os.getpid()}


@pytest.mark.parametrize("method", ["fork", "spawn"])
def test_processes_return_chunks_in_order(method: str, monkeypatch: pytest.MonkeyPatch) -> None:
    if method not in multiprocessing.get_all_start_methods():
        pytest.skip(f"this platform has no start method {method}")
    monkeypatch.setattr(multiprocessing, "get_start_method", lambda allow_none: method)
    # A function of the standard library: a spawned process need not import torch for it.
    assert map_chunks(itemgetter(0), ITEMS, num_workers=2) == [start for start, _ in CHUNKS]


def test_processes_are_others() -> None:
    results = map_chunks(start_length_and_process, ITEMS, num_workers=2)
    assert [result[:2] for result in results] == CHUNKS
    assert os.getpid() not in {result[2] for result in results}


def test_nothing_to_do() -> None:
    assert map_chunks(start_length_and_process, [], num_workers=2) == []


def test_a_process_that_dies_is_one_clear_error() -> None:
    with pytest.raises(RuntimeError, match="num_workers=0"):
        map_chunks(end_at_once, ITEMS, num_workers=2)


@pytest.mark.parametrize("num_workers", [0, 2])
def test_errors_of_the_function_pass_through(num_workers: int) -> None:
    with pytest.raises(KeyError, match="first item"):
        map_chunks(fail, ITEMS, num_workers)


def test_a_daemon_works_alone() -> None:
    context = multiprocessing.get_context("fork")
    with context.Pool(1) as pool:  # its processes are daemons and may not have children
        results = pool.apply(map_chunks, (start_length_and_process, ITEMS, 2))
    assert len({result[2] for result in results}) == 1
