"""Gram matrices in blocks of bounded memory."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

import torch
from torch import Tensor
from tqdm import tqdm

from pyg_kernels.kernels.kernel import BoundedKernel

T = TypeVar("T")
R = TypeVar("R")

_CACHED_ELEMENTS = 2**18  # most numbers in a tensor of a block on CPU, few enough for the cache
_BLOCK_TENSORS = 6  # tensors of the size of a block that a kernel holds at a time
_SECONDS_BEFORE_BAR = 2.0


class BlockKernel(BoundedKernel):
    """A kernel whose Gram matrix is computed block by block.

    Its collections have a device, a dtype, ``requires_grad``, ``part(items)``, and ``runs(limit)``,
    which splits their items into runs whose blocks have at most `limit` rows, if an item fits.
    """

    _is_symmetric = True  # blocks are mirrored

    @abstractmethod
    def _values(self, a: Any, b: Any) -> Tensor:
        """The kernel of all pairs of two prepared parts, without normalisation."""

    def _prepare(self, part: Any) -> Any:
        """What a part contributes to all its blocks, computed once."""
        return part

    def _self_values(self, part: Any) -> Tensor:
        """The kernel of each item of a part with itself."""
        prepared = self._prepare(part)
        return self._values(prepared, prepared).diagonal()

    def _limit(self, collection: Any) -> int:
        """The most rows of a block on either side."""
        elements = self.max_memory // (self._tensors_in_block() * collection.dtype.itemsize)
        if collection.device.type == "cpu":
            elements = min(elements // torch.get_num_threads(), _CACHED_ELEMENTS)
        return max(1, int(elements**0.5))

    def _tensors_in_block(self) -> int:
        """How many tensors of the size of a block there are at a time."""
        return _BLOCK_TENSORS

    def _runs(self, collection: Any, limit: int) -> list[Tensor]:
        """The items of each part, whose blocks have at most `limit` rows."""
        return list(collection.runs(limit))

    def _self_limit(self, collection: Any) -> int:
        """The most rows of a part whose items are compared with themselves."""
        return self._limit(collection)

    def _raw_gram(self, a: Any, b: Any) -> Tensor:
        keep_freed_memory()
        limit = self._limit(a)
        rows = self._runs(a, limit)
        columns = rows if b is None else self._runs(b, limit)
        row_parts = [self._prepare(a.part(run)) for run in rows]
        column_parts = row_parts if b is None else [self._prepare(b.part(run)) for run in columns]
        size = (len(a), len(a) if b is None else len(b))
        gram = torch.zeros(size, dtype=a.dtype, device=a.device)

        def fill(block: tuple[int, int]) -> int:
            i, j = block
            values = self._values(row_parts[i], column_parts[j])
            mirrored = b is None and i < j
            if b is None and i == j:
                values = (values + values.t()) / 2
            gram[rows[i][:, None], columns[j]] = values
            if mirrored:
                gram[columns[j][:, None], rows[i]] = values.t()
            return values.numel() * (1 + mirrored)

        blocks = [
            (i, j) for i in range(len(rows)) for j in range(len(columns)) if b is not None or i <= j
        ]
        name = type(self).__name__
        with progress_bar(name, gram.numel(), " pairs", self.verbose) as bar:
            for number in map_in_threads(fill, blocks, _shares_out(a, b), lambda: gram):
                bar.update(number)
        return gram

    def _raw_diagonal(self, collection: Any) -> Tensor:
        keep_freed_memory()
        runs = self._runs(collection, self._self_limit(collection))
        values: list[Tensor] = []

        def compare(run: Tensor) -> Tensor:
            return self._self_values(collection.part(run))

        for found in map_in_threads(compare, runs, _shares_out(collection), lambda: values[0]):
            values.append(found)
        places = torch.cat(runs).argsort().to(collection.device)
        return torch.cat(values).index_select(0, places)


def _shares_out(*collections: Any) -> bool:
    """Whether blocks may be computed in several threads."""
    known = [c for c in collections if c is not None]
    on_cpu = all(c.device.type == "cpu" for c in known)
    wanted = torch.is_grad_enabled() and any(c.requires_grad for c in known)
    return on_cpu and not wanted and torch.get_num_threads() > 1


def map_in_threads(
    task: Callable[[T], R], items: Sequence[T], shares_out: bool, result: Callable[[], Tensor]
) -> Iterator[R]:
    """Maps a task on PyTorch's number of threads, each with single-threaded operations.

    The blocks' operations are too small to be shared out one by one. Where the result requires
    gradients after the first task, through the parameters of an activation, say, the others follow
    one after the other, as they do without `shares_out`.
    """
    yield task(items[0])
    remaining = items[1:]
    if not shares_out or result().requires_grad:
        yield from map(task, remaining)
        return
    threads, inference = torch.get_num_threads(), torch.is_inference_mode_enabled()

    def alone(item: T) -> R:
        with torch.inference_mode() if inference else torch.no_grad():
            return task(item)

    pool = ThreadPoolExecutor(threads, initializer=torch.set_num_threads, initargs=(1,))
    try:
        yield from pool.map(alone, remaining)
    finally:
        pool.shutdown(cancel_futures=True)
        torch.set_num_threads(threads)


def progress_bar(name: str, total: int, unit: str, verbose: bool | int | None) -> tqdm[Any]:
    """A progress bar; with None only on a terminal, and after two seconds."""
    return tqdm(
        total=total,
        desc=name,
        unit=unit,
        unit_scale=True,
        disable=None if verbose is None else not verbose,
        delay=_SECONDS_BEFORE_BAR if verbose is None else 0.0,
        leave=False,
    )


def consecutive_runs(sizes: Sequence[int], limit: int) -> Iterator[tuple[int, int]]:
    """Splits items into consecutive runs of total size at most `limit`, or of a single item."""
    start, total = 0, 0
    for item, size in enumerate(sizes):
        if item > start and total + size > limit:
            yield start, item
            start, total = item, 0
        total += size
    yield start, len(sizes)


def keep_freed_memory() -> None:
    """Lets the C library keep the memory of freed tensors for the next ones.

    glibc hands every freed block above a threshold back to the system, and each new tensor of a
    block of the Gram matrix would fault its pages in again: 18 times the cost of a copy of 2 MB.
    Freeing one untouched block just below its limit of 32 MB raises that threshold.
    """
    torch.empty(31 * 2**20, dtype=torch.uint8)
