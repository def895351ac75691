"""Reading molecules at any positions out of many shards."""

from __future__ import annotations

import os
import weakref
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from pyg_kernels.chem.codes import pointers
from pyg_kernels.datasets.molecule_records import SEPARATOR, Bytes, Integers
from pyg_kernels.datasets.shard_file import ShardFile, read_at
from pyg_kernels.datasets.shard_manifest import Manifest, shard_name

MOST_OPEN = 128  # most files kept open; systems allow a process at least 256


class Records(NamedTuple):
    """Records of molecules in one array of bytes.

    Attributes:
        raw: the records, one after the other; behind each a byte :data:`SEPARATOR`.
        starts: (B,), where the record of each molecule begins.
        ends: (B,), where it ends.
    """

    raw: Bytes
    starts: Integers
    ends: Integers


class ShardReader:
    """The shards of a folder; each is checked byte by byte when it is first needed.

    Records are read, not mapped into memory: a page of a mapped file counts as memory of the
    process, and touching one brings its neighbours. The system keeps the files in its cache as
    long as it has room. In memory are 4 bytes a molecule, where its record begins. The files stay
    open, unless they are more than :data:`MOST_OPEN`.

    Args:
        folder: where the shards are.
        manifest: what they should be.
    """

    def __init__(self, folder: Path, manifest: Manifest) -> None:
        self._folder, self._manifest = folder, manifest
        shards = manifest.shards
        self._first = pointers([entry.molecules for entry in shards])
        # Of each shard those of its molecules and the end: molecule i of shard k is number i + k.
        short = all(entry.bytes < 1 << 32 for entry in shards)
        self._offsets = np.empty(len(self) + len(shards), dtype=np.uint32 if short else np.uint64)
        # Where they begin in each file; 0: not checked yet.
        self._records = np.zeros(len(shards), dtype=np.int64)
        self._descriptors = np.full(len(shards), -1, dtype=np.int64)  # -1: not opened yet
        self._files: dict[int, ShardFile] = {}
        weakref.finalize(self, _close, self._descriptors)

    def __len__(self) -> int:
        """The number of molecules."""
        return int(self._first[-1])

    def records(self, positions: Integers) -> Records:
        """The records of the molecules at B positions (from 0).

        Raises:
            ValueError: if a shard is damaged.
        """
        number = self._checked(positions)
        starts = self._offsets[positions + number].astype(np.int64)
        lengths = self._offsets[positions + number + 1].astype(np.int64) - starts
        parts = self._read(number, lengths, starts + self._records[number])
        raw = np.frombuffer(bytes([SEPARATOR]).join([*parts, b""]), dtype=np.uint8)
        ptr = pointers(lengths + 1)
        if len(raw) != ptr[-1]:
            raise ValueError(f"a shard of {self._folder} was cut off while it was in use")
        return Records(raw, ptr[:-1], ptr[1:] - 1)

    def lines(self, positions: Integers) -> list[int]:
        """The lines of the source on which the molecules at these positions are."""
        lines = np.empty(len(positions), dtype=np.int64)
        for shard, part, local in self._by_shard(positions):
            starts = shard["run_starts"]
            run = np.searchsorted(starts, local, side="right") - 1
            lines[part] = shard["run_lines"][run] + local - starts[run]
        found: list[int] = lines.tolist()
        return found

    def split_codes(self, positions: Integers) -> NDArray[np.uint8]:
        """The numbers of the split names of the molecules at these positions."""
        codes = np.empty(len(positions), dtype=np.uint8)
        for shard, part, local in self._by_shard(positions):
            codes[part] = shard["split"][local]
        return codes

    def targets(self) -> NDArray[np.float64]:
        """``(M, T)``: all targets, in memory. Every shard is checked."""
        targets = np.empty((len(self), len(self._manifest.origin.target_columns)))
        for number, (start, stop) in enumerate(pairwise(self._first.tolist())):
            self._check(number)
            targets[start:stop] = self._files[number]["targets"]
        return targets

    def _read(self, number: Integers, lengths: Integers, places: Integers) -> list[bytes]:
        """Bytes of checked shards: of which, how many, and where in the file they begin."""
        if len(self._descriptors) <= MOST_OPEN:
            for new in np.unique(number[self._descriptors[number] < 0]).tolist():
                self._descriptors[new] = self._open(new)
            descriptors = self._descriptors[number].tolist()
            return list(map(read_at, descriptors, lengths.tolist(), places.tolist()))
        parts = [b""] * len(number)
        for shard, chosen in _grouped(number):
            descriptor = self._open(shard)
            try:
                for each in chosen.tolist():
                    parts[each] = read_at(descriptor, int(lengths[each]), int(places[each]))
            finally:
                os.close(descriptor)
        return parts

    def _by_shard(self, positions: Integers) -> Iterator[tuple[ShardFile, Integers, Integers]]:
        """Shards, which of the positions are in them, and where in them."""
        for shard, chosen in _grouped(self._checked(positions)):
            yield self._files[shard], chosen, positions[chosen] - self._first[shard]

    def _checked(self, positions: Integers) -> Integers:
        """The number of the shard of each position; these have been checked."""
        number = np.searchsorted(self._first, positions, side="right") - 1
        for new in np.unique(number[self._records[number] == 0]).tolist():
            self._check(new)
        return number

    def _check(self, number: int) -> None:
        if number in self._files:
            return
        self._manifest.verify(self._folder, number)
        file = ShardFile(self._folder / shard_name(number))
        offsets = file["offsets"]
        first = int(self._first[number]) + number
        self._offsets[first : first + len(offsets)] = offsets
        self._records[number] = file.offset("records")
        self._files[number] = file

    def _open(self, number: int) -> int:
        path = self._folder / shard_name(number)
        return os.open(path, os.O_RDONLY | getattr(os, "O_BINARY", 0))


def _grouped(number: Integers) -> Iterator[tuple[int, Integers]]:
    """The different ones of these numbers of shards, and where each of them stands."""
    order = np.argsort(number, kind="stable")
    for part in np.split(order, np.flatnonzero(np.diff(number[order])) + 1):
        yield int(number[part[0]]), part


def _close(descriptors: Integers) -> None:
    for descriptor in descriptors[descriptors >= 0].tolist():
        os.close(descriptor)
