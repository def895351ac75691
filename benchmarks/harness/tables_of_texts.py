"""Tables of texts that a trained run is applied to."""

import os
from collections.abc import Iterable, Sequence
from itertools import compress
from pathlib import Path
from typing import Any

import pandas
import torch

from benchmarks.harness.errors import InputError, as_input_error, tell
from pyg_kernels.datasets.text import EncodedTexts, TextLoader, Vocabulary
from pyg_kernels.datasets.text.text_table import joined, read_text_table
from pyg_kernels.tables import PARQUET, TableWriter, listed, pyarrow_parquet


def texts_of(path: str, columns: list[str], encoding: str) -> tuple[pandas.DataFrame, list[str]]:
    """A table with these columns, indexed by the line of each row, and the text of each row."""
    with as_input_error():
        table = read_text_table(path, columns, encoding)
    return table, joined(table, columns)


def tell_lines(table: pandas.DataFrame, chosen: Sequence[bool], what: str) -> None:
    """Reports the lines of the chosen texts; `what` says what they have."""
    lines = list(compress(table.index, chosen))
    if lines:
        verb = "has" if len(lines) == 1 else "have"
        tell(f"{len(lines)} of {len(chosen)} texts {verb} {what}: lines {listed(lines)}")


def batches_of(learner: Any, texts: Sequence[Sequence[str]], batch_size: int) -> TextLoader:
    """Batches of texts, given as lists of words, numbered by the vocabulary of a run."""
    ids, ptr = Vocabulary(learner.hparams["words"]).encode(texts)
    encoded = EncodedTexts(ids, ptr, torch.zeros(len(texts), dtype=torch.long))
    return TextLoader(encoded, batch_size=batch_size)


def refuse_existing(paths: Iterable[Path], overwrite: bool) -> None:
    """Refuses to replace files and folders unless `overwrite` is set."""
    for path in paths:
        if path.exists() and not overwrite:
            raise InputError(f"{path} exists; --overwrite replaces it")


def refuse_columns(table: pandas.DataFrame, names: Iterable[str], path: str) -> None:
    """Refuses to replace columns of a table."""
    for name in names:
        if name in table:
            what = f"a column {name!r} already, which is to be added: rename it"
            raise InputError(f"{path} has {what}")


def check_folder(path: Path) -> None:
    """Rejects a path to a folder if it is a file."""
    if path.is_file():
        raise InputError(f"{path} is a file: expected a folder")


def check_output(path: Path, table: pandas.DataFrame | None = None) -> None:
    """Rejects names of tables, and columns, that :func:`write_table` cannot write."""
    if path.name.endswith(PARQUET):
        with as_input_error():
            pyarrow_parquet(path)
        if table is not None and not table.columns.is_unique:
            twice = table.columns[table.columns.duplicated()][0]
            raise InputError(f"--out {path}: Parquet has no two columns named {twice!r}")
    elif not path.name.removesuffix(".gz").endswith((".csv", ".tsv", ".txt")):
        raise InputError(f"--out {path}: expected a name that ends in .csv, .tsv (.gz) or .parquet")
    folder = next(each for each in path.absolute().parents if each.exists())
    if not (folder.is_dir() and os.access(folder, os.W_OK)):
        raise InputError(f"--out {path}: nothing can be written into {folder}")


def write_table(path: Path, table: pandas.DataFrame) -> None:
    """Writes a table whole or not at all; its name decides on Parquet or CSV and compression."""
    with as_input_error():
        path.parent.mkdir(parents=True, exist_ok=True)
        with TableWriter(path, overwrite=True) as writer:
            writer.write(table)
