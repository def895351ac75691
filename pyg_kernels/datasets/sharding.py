"""From a CSV file to a folder of shards."""

from __future__ import annotations

import base64
from collections.abc import Generator
from contextlib import closing
from functools import partial
from itertools import chain, islice, tee
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
from pyg_kernels.datasets.public_file import file_sha256
from pyg_kernels.datasets.shard_folder import ARRAYS, FILE, ShardFolder
from pyg_kernels.datasets.table import Columns, MoleculeTable, find_columns, stream_molecule_rows

MOST_PARTS = 2**16  # names in a split column, numbered in two bytes

Encoded = tuple[MoleculeTable, MolCodeStore, list[InvalidRow]]


def begun(
    path: Path, folder: Path, featurizer: Featurizer, asked: dict[str, Any], shard_size: int
) -> ShardFolder:
    """The folder for the shards of a CSV file: a new one, or the one that is there if it fits.

    The arguments are those of :meth:`~pyg_kernels.datasets.MoleculeShards.from_csv`; ``asked`` has
    its arguments on columns.
    """
    if not path.is_file():
        if path.exists():
            raise ValueError(f"{path} is not a file; shards are made in two passes over one")
        raise FileNotFoundError(f"there is no file {path}")
    held = ShardFolder.read(folder) if (folder / FILE).is_file() else ShardFolder(folder, {})
    before = held.origin if held.shards else {}  # without shards there is none that could differ
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
    if before and told["asked"] == before["asked"]:  # no pass over all rows anew
        origin["target_columns"] = before["target_columns"]
    elif all(origin[key] == before.get(key, origin[key]) for key in ("columns", "size", "sha256")):
        found = find_columns(path, stream_molecule_rows(path, shard_size), **asked)
        origin["target_columns"], told["rows"] = found.targets, found.num_rows
    for key, now in origin.items():
        if before and now != before[key]:
            raise ValueError(
                f"{folder} was made from {path.name} with {key} {before[key]!r}, not {now!r}; "
                "give another folder, or delete this one"
            )
    if not held.shards:
        folder.mkdir(parents=True, exist_ok=True)
        stray = [held.file(name) for name in ARRAYS if held.file(name).exists()]
        if stray and not (folder / FILE).is_file():
            raise ValueError(f"{folder} has {stray[0].name} but no {FILE}; delete the folder")
        held = ShardFolder(folder, {**told, **origin})
        held.write()
    if not held.is_complete:
        held.trim()
        for number in range(len(held.shards)):
            held.verify(number)
    return held


def complete(
    held: ShardFolder,
    path: Path,
    featurizer: Featurizer,
    skip_invalid: bool,
    num_workers: int | None,
    progress: bool,
) -> None:
    """Writes the shards that are missing."""
    with closing(_encoded(held, path, featurizer, num_workers, progress)) as encoded:
        for table, store, invalid in encoded:
            if not (len(store) or held.shards or skip_invalid):
                first = "the first rows of " if len(invalid) < held.origin["rows"] else ""
                raise InvalidMolecules(invalid, len(table.smiles), first + path.name)
            _append(held, table, store, invalid)


def _encoded(
    held: ShardFolder,
    path: Path,
    featurizer: Featurizer,
    num_workers: int | None,
    progress: bool,
) -> Generator[Encoded, None, None]:
    """The rows of each missing shard, the codes of its molecules, and the rows that have none."""
    asked = ("smiles_column", "target_columns", "split_column", "rows")
    columns = Columns(*(held.origin[name] for name in asked))
    encode = partial(encode_chunk, new_reader=featurizer.new_reader)
    with closing(stream_molecule_rows(path, held.origin["shard_size"])) as frames:
        missing = islice(frames, len(held.shards), None)
        ahead, tables = tee(columns.table(frame) for frame in missing)
        chunks = (
            (start, table.smiles[start : start + CHUNK_SIZE])
            for table in ahead
            for start in chunk_starts(len(table.smiles))
        )
        rows = held.origin["rows"] - held.source_rows
        parts = stream_chunks(encode, chunks, rows, num_workers, progress, "molecules")
        for table in tables:
            number = len(chunk_starts(len(table.smiles)))
            stores, refused = zip(*islice(parts, number), strict=True)
            yield table, MolCodeStore.concatenate(stores), table.lines_of(chain(*refused))


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
