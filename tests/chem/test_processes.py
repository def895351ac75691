import multiprocessing
import os
import time
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from operator import itemgetter
from pathlib import Path

import pytest

from pyg_kernels.chem.processes import AHEAD, CHUNK_SIZE, map_chunks, stream_chunks


def start_length_and_process(chunk: tuple[int, Sequence[int]]) -> tuple[int, int, int]:
    start, items = chunk
    return start, len(items), os.getpid()


def end_at_once(chunk: tuple[int, Sequence[int]]) -> None:
    os._exit(1)


def fail(chunk: tuple[int, Sequence[int]]) -> None:
    raise KeyError("first item", chunk[0])


ITEMS = list(range(2 * CHUNK_SIZE + 7))
CHUNKS = [(0, CHUNK_SIZE), (CHUNK_SIZE, CHUNK_SIZE), (2 * CHUNK_SIZE, 7)]


def test_a_process_that_is_spawned_is_sent_the_function(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(multiprocessing, "get_start_method", lambda allow_none: "spawn")
    # One chunk needs only one process; an unknown number of items may need two.
    assert list(stream_chunks(itemgetter(0), [(7, ITEMS)], None, 2)) == [7]


@pytest.mark.parametrize(("num_workers", "most"), [(0, 1), (2, 2 * AHEAD + 1)])
def test_chunks_are_drawn_as_they_are_needed(num_workers: int, most: int) -> None:
    drawn = []

    def chunks() -> Iterator[tuple[int, list[int]]]:
        for number in range(40):
            drawn.append(number)
            yield number, [number]

    results = stream_chunks(itemgetter(0), chunks(), 40 * CHUNK_SIZE, num_workers)
    for number, result in enumerate(results):
        assert result == number
        assert len(drawn) <= number + most
    assert len(drawn) == 40


def wait(started: Path, chunk: tuple[int, Sequence[int]]) -> None:
    (started / str(os.getpid())).touch()
    time.sleep(600)


@pytest.mark.skipif(not Path("/proc").is_dir(), reason="processes are looked up in /proc")
def test_a_process_that_is_killed_leaves_none_behind(tmp_path: Path) -> None:
    given = partial(wait, tmp_path), ITEMS, 2
    main = multiprocessing.get_context("fork").Process(target=map_chunks, args=given)
    main.start()
    wait_for(lambda: len(os.listdir(tmp_path)) == 2)
    main.kill()
    main.join()
    wait_for(lambda: not any(runs(int(name)) for name in os.listdir(tmp_path)))


def runs(process: int) -> bool:
    """Whether a process runs; the entry of one that has ended does not count."""
    try:
        stat = Path(f"/proc/{process}/stat").read_text()
    except OSError:
        return False
    return stat.rpartition(")")[2].split()[0] not in "ZX"


def wait_for(condition: Callable[[], bool], seconds: float = 60) -> None:
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.05)


def test_errors_are_clear_and_those_of_the_function_pass_through() -> None:
    with pytest.raises(RuntimeError, match="num_workers=0"):
        map_chunks(end_at_once, ITEMS, num_workers=2)
    for num_workers in (0, 2):
        with pytest.raises(KeyError, match="first item"):
            map_chunks(fail, ITEMS, num_workers)


def test_only_several_processes_are_others() -> None:
    for num_workers in (None, 0, 1, 2):
        results = map_chunks(start_length_and_process, ITEMS, num_workers)
        assert [result[:2] for result in results] == CHUNKS
        assert (os.getpid() in {result[2] for result in results}) == (num_workers != 2)
        assert map_chunks(start_length_and_process, [], num_workers) == []
    context = multiprocessing.get_context("fork")
    with context.Pool(1) as pool:  # its processes are daemons and may not have children
        results = pool.apply(map_chunks, (start_length_and_process, ITEMS, 2))
    assert len({result[2] for result in results}) == 1
