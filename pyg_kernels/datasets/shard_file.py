"""One shard: a file of arrays with a header, written whole, read in chunks."""

from __future__ import annotations

import hashlib
import json
import math
import os
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pyg_kernels.datasets.public_file import write_whole

MAGIC = b"pygkmol\n"
ALIGNMENT = 64
CHUNK = 1 << 20  # bytes read at a time
LONGEST_HEADER = 1 << 20
_PREFIX = struct.Struct("<8sI")  # the magic and the length of the header


def write_shard(path: Path, about: dict[str, Any], arrays: dict[str, NDArray[Any]]) -> None:
    """Writes a shard whole or not at all.

    Args:
        path: the file.
        about: what the header says besides the arrays, in plain JSON types.
        arrays: numbers, by name.

    Raises:
        OSError: if it cannot be written.
    """
    listed, offset = {}, 0
    for name, array in arrays.items():
        listed[name] = {"dtype": array.dtype.str, "shape": list(array.shape), "offset": offset}
        offset += _aligned(array.nbytes)
    header = json.dumps({**about, "arrays": listed}, sort_keys=True).encode()
    header = header.ljust(_aligned(_PREFIX.size + len(header)) - _PREFIX.size)

    def write(partial: Path) -> None:
        with open(partial, "wb") as file:
            file.write(_PREFIX.pack(MAGIC, len(header)) + header)
            for array in arrays.values():
                file.write(np.ascontiguousarray(array).data)
                file.write(bytes(_aligned(array.nbytes) - array.nbytes))
            file.flush()
            os.fsync(file.fileno())

    write_whole(path, write)


def read_header(path: Path) -> dict[str, Any]:
    """What the header of a shard says.

    Raises:
        OSError: if the file cannot be read.
        ValueError: if it is no shard.
    """
    with open(path, "rb") as file:
        prefix = file.read(_PREFIX.size)
        if len(prefix) == _PREFIX.size:
            magic, length = _PREFIX.unpack(prefix)
            if magic == MAGIC and length <= LONGEST_HEADER:
                try:
                    header = json.loads(file.read(length))
                except ValueError:
                    header = None
                if isinstance(header, dict) and isinstance(header.get("arrays"), dict):
                    return header
    raise ValueError(f"{path} is not a shard of molecules: its header cannot be read")


def file_sha256(path: Path) -> str:
    """The SHA-256 of a file, of which a chunk at a time is in memory."""
    digest = hashlib.sha256()
    with open(path, "rb", buffering=0) as file:
        while chunk := file.read(CHUNK):
            digest.update(chunk)
    return digest.hexdigest()


class ShardFile:
    """The arrays of a shard, read from the file when they are asked for.

    Args:
        path: a shard that has been checked.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._arrays = read_header(path)["arrays"]
        with open(path, "rb") as file:
            self._start = _PREFIX.size + _PREFIX.unpack(file.read(_PREFIX.size))[1]

    def offset(self, name: str) -> int:
        """Where in the file an array begins."""
        return self._start + int(self._arrays[name]["offset"])

    def __getitem__(self, name: str) -> NDArray[Any]:
        """An array by its name."""
        shape = self._arrays[name]["shape"]
        array = np.fromfile(
            self._path,
            dtype=self._arrays[name]["dtype"],
            count=math.prod(shape),
            offset=self.offset(name),
        )
        return array.reshape(shape)


def _read_after_seeking(descriptor: int, size: int, start: int) -> bytes:
    os.lseek(descriptor, start, os.SEEK_SET)
    return os.read(descriptor, size)


# Bytes of an open file, of so many, from a place on.
read_at: Callable[[int, int, int], bytes] = getattr(os, "pread", _read_after_seeking)


def _aligned(size: int) -> int:
    return -(-size // ALIGNMENT) * ALIGNMENT
