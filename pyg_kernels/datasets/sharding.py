"""From a CSV file to a folder of shards."""

from __future__ import annotations

from collections import deque
from collections.abc import Generator, Iterator, Sequence
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
from pyg_kernels.datasets.molecule_records import KindTable, pack
from pyg_kernels.datasets.molecules import InvalidMolecules
from pyg_kernels.datasets.shard_file import file_sha256, write_shard
from pyg_kernels.datasets.shard_manifest import (
    FILE,
    Manifest,
    Origin,
    ShardEntry,
    check_same_settings,
    check_same_source,
    shard_name,
)
from pyg_kernels.datasets.table import (
    Columns,
    MoleculeTable,
    find_columns,
    header_names,
    stream_records,
)

MOST_SPLIT_NAMES = 256  # a name's number takes one byte a molecule

Encoded = tuple[MoleculeTable, MolCodeStore, list[InvalidRow]]


def shard_csv(
    path: Path,
    folder: Path,
    featurizer: Featurizer,
    smiles_column: str,
    target_columns: list[str] | None,
    split_column: str | None,
    shard_size: int,
    skip_invalid: bool,
    num_workers: int | None,
    progress: bool,
) -> None:
    """Writes the shards of a CSV file that are not in the folder yet.

    The arguments are those of :meth:`~pyg_kernels.datasets.MoleculeShards.from_csv`.
    """
    if not path.is_file():
        if path.exists():
            raise ValueError(f"{path} is not a file; shards are made in two passes over one")
        raise FileNotFoundError(f"there is no file {path}")
    old = Manifest.read(folder) if (folder / FILE).is_file() else None
    if old is not None and not old.shards:  # no shard exists that could differ
        old = None
    origin = _origin(
        path,
        folder,
        None if old is None else old.origin,
        featurizer,
        smiles_column,
        target_columns,
        split_column,
        shard_size,
    )
    manifest = Manifest(origin) if old is None else old
    _prepare(folder, manifest, is_new=old is None)
    if not manifest.is_complete:
        tables = _tables(path, origin, len(manifest.shards))
        rows_left = origin.rows - len(manifest.shards) * shard_size
        with closing(_encoded(tables, featurizer, rows_left, num_workers, progress)) as encoded:
            for table, store, invalid in encoded:
                if not (len(store) or manifest.shards or skip_invalid):
                    first = "the first rows of " if origin.num_shards > 1 else ""
                    _refuse(invalid, len(table.smiles), first + path.name)
                _append(folder, manifest, featurizer, table, store, invalid)
    if manifest.skipped and not skip_invalid:
        _refuse(manifest.skipped, origin.rows, path.name)


def _refuse(invalid: Sequence[InvalidRow], total: int, source: str) -> None:
    advice = "correct them, or leave them out with skip_invalid=True"
    raise InvalidMolecules(invalid, total, source, advice)


def _origin(
    path: Path,
    folder: Path,
    old: Origin | None,
    featurizer: Featurizer,
    smiles_column: str,
    target_columns: list[str] | None,
    split_column: str | None,
    shard_size: int,
) -> Origin:
    """What the shards are made from: the same as before, if there are some."""
    with closing(stream_records(path)) as records:
        header = header_names(next(records))
    size, sha256 = path.stat().st_size, file_sha256(path)
    if old is not None:
        check_same_source(old, path.name, header, size, sha256, folder)
    same_targets = old is not None and old.asked == target_columns
    if old is not None and same_targets:  # the pass over all rows need not be repeated
        names, num_rows = old.target_columns, old.rows
    else:
        with closing(stream_records(path)) as records:
            found = find_columns(path.name, records, smiles_column, target_columns, split_column)
        names, num_rows = found.target_names, found.num_rows
    origin = Origin(
        source=path.name,
        size=size,
        sha256=sha256,
        columns=header,
        rows=num_rows,
        smiles_column=smiles_column,
        target_columns=names,
        asked=target_columns,
        split_column=split_column,
        shard_size=shard_size,
        featurizer=featurizer.fingerprint,
        features=featurizer.description(),
        rdkit=rdBase.rdkitVersion,
    )
    if old is not None:
        check_same_settings(old, origin, folder)
    return origin


def _prepare(folder: Path, manifest: Manifest, is_new: bool) -> None:
    """Makes the folder, or checks the shards in it and removes what a crash has left."""
    if is_new:
        folder.mkdir(parents=True, exist_ok=True)
        stray = sorted(folder.glob(shard_name(0).replace("00000", "*")))
        if stray and not (folder / FILE).is_file():
            raise ValueError(f"{folder} has shards ({stray[0].name}) but no {FILE}; delete them")
        _write_manifest(folder, manifest)
    if not manifest.is_complete:
        for number in range(len(manifest.shards)):
            manifest.verify(folder, number)
        for pattern in ("shard-*.mol.*", f"{FILE}.*"):
            for partly in folder.glob(pattern):
                partly.unlink()


def _tables(path: Path, origin: Origin, first_shard: int) -> Iterator[MoleculeTable]:
    """The rows of each shard from this one on."""
    split = origin.split_column
    columns = Columns(
        header=tuple(origin.columns),
        smiles=origin.columns.index(origin.smiles_column),
        targets=tuple(origin.columns.index(name) for name in origin.target_columns),
        split=None if split is None else origin.columns.index(split),
        num_rows=origin.rows,
    )
    with closing(stream_records(path)) as records:
        rows = islice(records, 1 + first_shard * origin.shard_size, None)
        while block := list(islice(rows, origin.shard_size)):
            yield columns.table(block)


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

    encode = partial(encode_chunk, new_reader=featurizer.reader)
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
    folder: Path,
    manifest: Manifest,
    featurizer: Featurizer,
    table: MoleculeTable,
    store: MolCodeStore,
    invalid: list[InvalidRow],
) -> None:
    """Writes the next shard, and then the manifest that has it."""
    path = folder / shard_name(len(manifest.shards))
    atom_kinds = KindTable(featurizer.atom_features, manifest.atom_kinds)
    bond_kinds = KindTable(featurizer.bond_features, manifest.bond_kinds)
    table = table.pick(store.positions.tolist())
    records, offsets = pack(store, table.smiles, atom_kinds, bond_kinds)
    run_starts, run_lines = _runs(np.array(table.row_numbers, dtype=np.int64))
    arrays: dict[str, NDArray[Any]] = {
        "offsets": offsets.astype("<u4" if offsets[-1] < 1 << 32 else "<u8"),
        "targets": table.targets.numpy().astype("<f8"),
        "run_starts": run_starts.astype("<i8"),
        "run_lines": run_lines.astype("<i8"),
        "split": _split_codes(manifest, table.split_values),
        "records": records,
    }
    about = {**manifest.header(len(manifest.shards)), "molecules": len(store)}
    try:
        write_shard(path, about, arrays)
    except OSError as error:
        raise _unwritten(error, path, manifest) from error
    manifest.atom_kinds, manifest.bond_kinds = atom_kinds.rows, bond_kinds.rows
    manifest.skipped += invalid
    manifest.shards.append(
        ShardEntry(
            molecules=len(store),
            atoms=len(store.atoms),
            bonds=len(store.bonds) // 2,
            bytes=path.stat().st_size,
            sha256=file_sha256(path),
        )
    )
    _write_manifest(folder, manifest)


def _write_manifest(folder: Path, manifest: Manifest) -> None:
    try:
        manifest.write(folder)
    except OSError as error:
        raise _unwritten(error, folder / FILE, manifest) from error


def _unwritten(error: OSError, path: Path, manifest: Manifest) -> OSError:
    """Says which file could not be written, and what becomes of the others."""
    reason = (
        f"cannot be written ({error.strerror or error}); the finished shards are kept, and the "
        "same call continues after them"
    )
    return OSError(error.errno, reason, str(path))


def _runs(lines: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Where in a list of lines each run of consecutive ones begins, and with which line."""
    first = np.ones(len(lines), dtype=bool)
    first[1:] = np.diff(lines) != 1
    starts = np.flatnonzero(first)
    return starts, lines[starts]


def _split_codes(manifest: Manifest, values: list[str] | None) -> NDArray[np.uint8]:
    """The position of each value among the names so far, to which new ones are added."""
    if values is None:
        return np.zeros(0, dtype=np.uint8)
    names = dict.fromkeys([*manifest.split_names, *values])
    if len(names) > MOST_SPLIT_NAMES:
        raise ValueError(
            f"the split column {manifest.origin.split_column!r} of {manifest.origin.source} has "
            f"more than {MOST_SPLIT_NAMES} different values; it should name the part of each row"
        )
    manifest.split_names = list(names)
    code = {name: number for number, name in enumerate(names)}
    return np.array([code[value] for value in values], dtype=np.uint8)
