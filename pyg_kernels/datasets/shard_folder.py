"""A folder of flat arrays that grow by a shard at a time, and the manifest that describes them."""

from __future__ import annotations

import hashlib
import io
import json
import math
import os
from dataclasses import asdict, dataclass, field
from pathlib import Path
from tokenize import TokenError
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pyg_kernels.chem.codes import InvalidRow
from pyg_kernels.datasets.public_file import write_whole

FORMAT = "molecule shards of pyg_kernels, version 4"
FILE = "manifest.json"
#: Each array and the type of its file ``NAME.npy``: the records of molecules, their lengths, the
#: targets, the lines in the source, the numbers of the split names.
ARRAYS = {"records": "|u1", "lengths": "<u4", "targets": "<f8", "lines": "<i8", "split": "<u4"}


@dataclass(frozen=True)
class Shard:
    """The numbers of rows of the source and of every array in a shard, and the arrays' SHA-256."""

    source_rows: int
    rows: dict[str, int]
    sha256: str


@dataclass
class ShardFolder:
    """The content of ``manifest.json`` and the arrays beside it.

    `origin` has, in plain JSON types, all that decides the content of shards. `dictionary`, in base
    64, is that of the records. Split names are in the order of first appearance.
    """

    path: Path
    origin: dict[str, Any]
    dictionary: str = ""
    split_names: list[str] = field(default_factory=list)
    shards: list[Shard] = field(default_factory=list)
    skipped: list[InvalidRow] = field(default_factory=list)

    @classmethod
    def read(cls, path: Path) -> ShardFolder:
        """Reads the manifest of a folder."""
        file = path / FILE
        try:
            content = json.loads(file.read_text(encoding="utf-8"))
        except ValueError as error:
            raise ValueError(f"{file} is damaged: it is not JSON in UTF-8") from error
        if not isinstance(content, dict) or content.pop("format", None) != FORMAT:
            raise ValueError(f"{file} is not the manifest of {FORMAT}: make the shards anew")
        if content.pop("sha256", None) != _digest(content):
            raise ValueError(f"{file} is damaged: its checksum does not fit what it says")
        content["shards"] = [Shard(**entry) for entry in content["shards"]]
        content["skipped"] = [InvalidRow(*row) for row in content["skipped"]]
        return cls(path, **content)

    def write(self) -> None:
        """Writes the manifest whole or not at all."""
        content = self._content()
        named = {"format": FORMAT, **content, "sha256": _digest(content)}
        text = json.dumps(named, indent=1) + "\n"
        write_whole(self.path / FILE, lambda partial: partial.write_text(text, encoding="utf-8"))

    @property
    def source_rows(self) -> int:
        """The number of rows of the source that are done."""
        return sum(shard.source_rows for shard in self.shards)

    @property
    def is_complete(self) -> bool:
        """Whether all shards are there."""
        return self.source_rows == self.origin["rows"]

    @property
    def digest(self) -> str:
        """Sixteen digits, equal only if molecules, targets, features and their order are equal."""
        content = self._content()
        content["origin"] = {**self.origin, "source": None}
        return _digest(content)[:16]

    def file(self, name: str) -> Path:
        """The file of an array."""
        return self.path / f"{name}.npy"

    def rows(self, name: str, number: int | None = None) -> int:
        """How many rows of an array the first shards have; all by default."""
        return sum(shard.rows[name] for shard in self.shards[:number])

    def append(self, source_rows: int, arrays: dict[str, NDArray[Any]]) -> None:
        """Adds the rows of the next shard to every array, and then writes the manifest.

        If this fails or stops, the manifest still has the shards before, and the next call
        overwrites what is left of this one.
        """
        for name in ARRAYS:
            self._append(name, arrays[name])
        rows = {name: len(array) for name, array in arrays.items()}
        self.shards.append(Shard(source_rows, rows, _sha256(arrays)))
        self.write()

    def _append(self, name: str, array: NDArray[Any]) -> None:
        before = self.rows(name)
        shape = (before + len(array), *array.shape[1:])
        row_bytes = array.itemsize * math.prod(array.shape[1:])
        header = io.BytesIO()
        # Its length does not depend on the number of rows: NumPy leaves room for it.
        np.lib.format.write_array_header_1_0(
            header, {"descr": array.dtype.str, "fortran_order": False, "shape": shape}
        )
        with open(self.file(name), "r+b" if self.file(name).exists() else "wb") as file:
            file.seek(len(header.getvalue()) + before * row_bytes)
            file.write(array.tobytes())
            file.truncate()
            file.flush()
            os.fsync(file.fileno())
            file.seek(0)  # last, so that it never says more than there is
            file.write(header.getvalue())

    def load(self, name: str) -> NDArray[Any]:
        """An array, mapped into memory, with as many rows as the manifest says."""
        file, rows = self.file(name), self.rows(name)
        if not file.is_file():
            raise ValueError(f"{file} is missing")
        try:
            array: NDArray[Any] = np.load(file, mmap_mode="r", allow_pickle=False)
        except (ValueError, EOFError, TokenError) as error:
            raise ValueError(f"{file} is damaged: {error}") from error
        wanted = (rows, *[len(self.origin["targets"])] * (name == "targets"))
        found, kind = array.shape, array.dtype.str  # an interrupted append leaves more rows
        if kind != ARRAYS[name] or found[:1] < wanted[:1] or found[1:] != wanted[1:]:
            raise ValueError(f"{file} is damaged: it has {kind} {found}, not {wanted}")
        return array[:rows]

    def verify(self) -> None:
        """Compares every byte of every shard with its checksum."""
        for number, shard in enumerate(self.shards):
            parts = {}
            for name in ARRAYS:
                start = self.rows(name, number)
                parts[name] = self.load(name)[start : start + shard.rows[name]]
            if _sha256(parts) != shard.sha256:
                raise ValueError(
                    f"shard {number} of {self.path} is damaged: its checksum is not that in {FILE}"
                )

    def _content(self) -> dict[str, Any]:
        content = asdict(self)
        del content["path"]
        return content


def _sha256(arrays: dict[str, NDArray[Any]]) -> str:
    digest = hashlib.sha256()
    for name in ARRAYS:
        digest.update(arrays[name].tobytes())
    return digest.hexdigest()


def _digest(content: Any) -> str:
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()
