"""From a CSV file to a folder of shards."""

from __future__ import annotations

import base64
from collections import deque
from collections.abc import Generator, Iterator
from contextlib import closing
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from rdkit import rdBase

from pyg_kernels.chem import Featurizer, InvalidRow, MolCodeStore
from pyg_kernels.chem.encoding import encode_chunk
from pyg_kernels.chem.processes import CHUNK_SIZE, chunk_starts, stream_chunks
from pyg_kernels.datasets.molecule_records import DICTIONARY_SIZE, compressed, pack
from pyg_kernels.datasets.molecules import InvalidMolecules
from pyg_kernels.datasets.shard_folder import ARRAYS, FILE, ShardFolder, file_sha256
from pyg_kernels.datasets.table import (
    Columns,
    MoleculeTable,
    find_columns,
    stream_molecule_rows,
)

MOST_PARTS = 2**16  # names in a split column, numbered in two bytes
ADVICE = "give another folder, or delete this one"

Encoded = tuple[MoleculeTable, MolCodeStore, list[InvalidRow]]


def shard_csv(
    path: Path,
    folder: Path,
    featurizer: Featurizer,
    asked: dict[str, Any],
    shard_size: int,
    skip_invalid: bool,
    num_workers: int | None,
    progress: bool,
) -> None:
    """Writes the shards of a CSV file that are not in the folder yet.

    The arguments are those of :meth:`~pyg_kernels.datasets.MoleculeShards.from_csv`; ``asked`` has
    its arguments on columns.
    """
    if not path.is_file():
        if path.exists():
            raise ValueError(f"{path} is not a file; shards are made in two passes over one")
        raise FileNotFoundError(f"there is no file {path}")
    old = ShardFolder.read(folder) if (folder / FILE).is_file() else None
    if old is not None and not old.shards:  # no shard exists that could differ
        old = None
    origin = _origin(path, old, featurizer, asked, shard_size)
    held = ShardFolder(folder, origin) if old is None else old
    _prepare(held)
    if not held.is_complete:
        tables = _tables(path, origin, len(held.shards))
        rows_left = origin["rows"] - held.source_rows
        with closing(_encoded(tables, featurizer, rows_left, num_workers, progress)) as encoded:
            for table, store, invalid in encoded:
                if not (len(store) or held.shards or skip_invalid):
                    first = "the first rows of " if len(invalid) < origin["rows"] else ""
                    raise InvalidMolecules(invalid, len(table.smiles), first + path.name)
                _append(held, table, store, invalid)
    if held.skipped and not skip_invalid:
        raise InvalidMolecules(held.skipped, origin["rows"], path.name)


def _origin(
    path: Path,
    old: ShardFolder | None,
    featurizer: Featurizer,
    asked: dict[str, Any],
    shard_size: int,
) -> dict[str, Any]:
    """What the shards are made from: the same as before, if there are some."""
    before = {} if old is None else old.origin
    with closing(stream_molecule_rows(path, 1)) as frames:
        columns = list(next(frames).columns)
    origin = {
        "columns": columns,
        "size": path.stat().st_size,
        "sha256": file_sha256(path),
        **asked,
        "shard_size": shard_size,
        "featurizer": featurizer.fingerprint,
        "rdkit": rdBase.rdkitVersion,
    }
    told = {"source": path.name, "asked": asked["target_columns"], "rows": before.get("rows")}
    if old is not None and told["asked"] == before["asked"]:  # no pass over all rows anew
        origin["target_columns"] = before["target_columns"]
    elif old is None or all(origin[key] == before[key] for key in ("columns", "size", "sha256")):
        found = find_columns(path, stream_molecule_rows(path, shard_size), **asked)
        origin["target_columns"], told["rows"] = found.targets, found.num_rows
    for key, now in origin.items():
        if old is not None and now != before[key]:
            raise ValueError(
                f"{old.path} was made from {path.name} with {key} {before[key]!r}, not {now!r}; "
                f"{ADVICE}"
            )
    return {**told, **origin}


def _prepare(held: ShardFolder) -> None:
    """Makes the folder, or checks the shards in it."""
    if not held.shards:
        held.path.mkdir(parents=True, exist_ok=True)
        stray = [held.file(name) for name in ARRAYS if held.file(name).exists()]
        if stray and not (held.path / FILE).is_file():
            raise ValueError(f"{held.path} has {stray[0].name} but no {FILE}; delete the folder")
        held.write()
    if not held.is_complete:
        held.trim()
        for number in range(len(held.shards)):
            held.verify(number)


def _tables(path: Path, origin: dict[str, Any], first_shard: int) -> Iterator[MoleculeTable]:
    """The rows of each shard from this one on."""
    columns = Columns(
        origin["smiles_column"], origin["target_columns"], origin["split_column"], origin["rows"]
    )
    with closing(stream_molecule_rows(path, origin["shard_size"])) as frames:
        for frame in islice(frames, first_shard, None):
            yield columns.table(frame)


def _encoded(
    tables: Iterator[MoleculeTable],
    featurizer: Featurizer,
    num_rows: int,
    num_workers: int | None,
    progress: bool,
) -> Generator[Encoded, None, None]:
    """The codes of the molecules of each table, and the rows that have none."""
    waiting: deque[MoleculeTable] = deque()

    def chunks() -> Iterator[tuple[int, list[str]]]:
        for table in tables:
            waiting.append(table)
            for start in chunk_starts(len(table.smiles)):
                yield start, table.smiles[start : start + CHUNK_SIZE]

    encode = partial(encode_chunk, new_reader=featurizer.new_reader)
    parts: list[tuple[MolCodeStore, list[InvalidRow]]] = []
    for part in stream_chunks(encode, chunks(), num_rows, num_workers, progress, "molecules"):
        parts.append(part)
        if len(parts) == len(chunk_starts(len(waiting[0].smiles))):
            table = waiting.popleft()
            invalid = [
                InvalidRow(table.row_numbers[row], text, reason)
                for _, rows in parts
                for row, text, reason in rows
            ]
            yield table, MolCodeStore.concatenate([store for store, _ in parts]), invalid
            parts = []


def _append(
    held: ShardFolder,
    table: MoleculeTable,
    store: MolCodeStore,
    invalid: list[InvalidRow],
) -> None:
    """Writes the next shard."""
    table = table.pick(store.positions.tolist())
    records = [pack(store[place], smiles) for place, smiles in enumerate(table.smiles)]
    if not held.shards:  # whose last records are the dictionary of all
        last = b"".join(records[-DICTIONARY_SIZE // 16 :])[-DICTIONARY_SIZE:]
        held.dictionary = base64.b64encode(last).decode()
    dictionary = base64.b64decode(held.dictionary)
    records = [compressed(record, dictionary) for record in records]
    split_names = list(dict.fromkeys([*held.split_names, *(table.split_values or ())]))
    if len(split_names) > MOST_PARTS:
        raise ValueError(
            f"{held.origin['source']}: the split column has more than {MOST_PARTS} different "
            "values: expected names of parts"
        )
    code_of = {name: code for code, name in enumerate(split_names)}
    codes = [code_of[value] for value in table.split_values or ()]
    arrays: dict[str, NDArray[Any]] = {
        "records": np.frombuffer(b"".join(records), dtype=np.uint8),
        "lengths": np.array(list(map(len, records)), dtype="<u4"),
        "targets": table.targets.numpy().astype("<f8"),
        "lines": np.array(table.row_numbers, dtype="<i8"),
        "split": np.array(codes, dtype="<u2"),
    }
    held.split_names = split_names
    held.skipped += invalid
    try:
        held.append(len(store) + len(invalid), arrays)
    except OSError as error:
        reason = (
            f"cannot be written ({error.strerror or error}); the finished shards are kept, and the "
            "same call continues after them"
        )
        raise OSError(error.errno, reason, str(error.filename or held.path)) from error
