"""From a CSV file to a folder of shards."""

from __future__ import annotations

import base64
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


def begun(
    path: Path, folder: Path, featurizer: Featurizer, asked: dict[str, Any], shard_size: int
) -> ShardFolder:
    """The folder for the shards of a CSV file: a new one, or the one that is there if it fits.

    The arguments are those of :meth:`~pyg_kernels.datasets.MoleculeShards.from_csv`; ``asked`` has
    those that name columns.
    """
    if path.exists() and not path.is_file():
        raise ValueError(f"{path} is not a file; shards are made in two passes over one")
    held = ShardFolder.read(folder) if (folder / FILE).is_file() else ShardFolder(folder, {})
    origin = {"sha256": file_sha256(path), **asked, "shard_size": shard_size}
    origin |= {"featurizer": featurizer.fingerprint, "rdkit": rdBase.rdkitVersion}
    if not held.shards:
        found = find_columns(path, stream_molecule_rows(path, shard_size), **asked)
        folder.mkdir(parents=True, exist_ok=True)
        stray = [held.file(name) for name in ARRAYS if held.file(name).exists()]
        if stray and not (folder / FILE).is_file():
            raise ValueError(f"{folder} has {stray[0].name} but no {FILE}; delete the folder")
        origin |= {"source": path.name, "targets": found.targets, "rows": found.num_rows}
        held = ShardFolder(folder, origin)
        held.write()
    for key, now in origin.items():
        if now != held.origin[key]:
            raise ValueError(
                f"{folder} was made from {path.name} with {key} {held.origin[key]!r}, not {now!r}; "
                "give another folder, or delete this one"
            )
    if not held.is_complete:
        held.verify()
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
    names = ("smiles_column", "targets", "split_column", "rows")
    columns = Columns(*(held.origin[name] for name in names))
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
        with closing(stream_chunks(encode, chunks, rows, num_workers, progress)) as parts:
            for table in tables:
                number = len(chunk_starts(len(table.smiles)))
                stores, refused = zip(*islice(parts, number), strict=True)
                store, invalid = MolCodeStore.concatenate(stores), table.lines_of(chain(*refused))
                if not (len(store) or held.shards or skip_invalid):
                    first = "the first rows of " if len(invalid) < held.origin["rows"] else ""
                    raise InvalidMolecules(invalid, len(table.smiles), first + path.name)
                _append(held, table.pick(store.positions.tolist()), store, invalid)


def _append(
    held: ShardFolder, table: MoleculeTable, store: MolCodeStore, invalid: list[InvalidRow]
) -> None:
    """Writes the next shard."""
    records = [pack(store[place], smiles) for place, smiles in enumerate(table.smiles)]
    if not held.shards:  # the first shard's last records are the dictionary of all
        last = b"".join(records[-DICTIONARY_SIZE // 16 :])[-DICTIONARY_SIZE:]
        held.dictionary = base64.b64encode(last).decode()
    dictionary = base64.b64decode(held.dictionary)
    records = [compressed(record, dictionary) for record in records]
    split_names = list(dict.fromkeys([*held.split_names, *(table.split_values or ())]))
    code_of = {name: code for code, name in enumerate(split_names)}
    codes = [code_of[value] for value in table.split_values or ()]
    arrays: dict[str, NDArray[Any]] = {
        "records": np.frombuffer(b"".join(records), dtype=np.uint8),
        "lengths": np.array(list(map(len, records)), dtype="<u4"),
        "targets": table.targets.numpy().astype("<f8"),
        "lines": np.array(table.row_numbers, dtype="<i8"),
        "split": np.array(codes, dtype="<u4"),
    }
    held.split_names = split_names
    held.skipped += invalid
    try:
        held.append(len(store) + len(invalid), arrays)
    except OSError as error:
        reason = f"{error.strerror}; finished shards are kept, the same call continues after them"
        raise OSError(error.errno, reason, str(held.path)) from error
