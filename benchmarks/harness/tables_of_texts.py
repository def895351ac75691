"""Tables of texts that a trained run is applied to."""

from collections.abc import Iterable, Sequence
from itertools import compress
from pathlib import Path
from typing import Any

import pandas
import torch

from benchmarks.harness.errors import InputError, as_input_error, tell
from pyg_kernels.datasets.text import EncodedTexts, TextLoader, Vocabulary
from pyg_kernels.datasets.text.text_table import joined, read_text_table
from pyg_kernels.tables import TableWriter, listed, refuse_existing


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


def refuse_columns(table: pandas.DataFrame, names: Iterable[str], path: str) -> None:
    """Refuses to replace columns of a table."""
    for name in names:
        if name in table:
            what = f"a column {name!r} already, which is to be added: rename it"
            raise InputError(f"{path} has {what}")


def free_folder(path: Path, overwrite: bool) -> None:
    """Rejects a path to a folder if it is a file, or holds something not to be overwritten."""
    with as_input_error():
        refuse_existing(path, overwrite)
    if path.is_file():
        raise InputError(f"{path} is a file: expected a folder")


def check_table(path: Path, overwrite: bool) -> None:
    """Rejects a path to which no table can be written, in folders that need not exist yet."""
    there = next(folder for folder in path.absolute().parents if folder.exists())
    with as_input_error():
        is_new = there != path.absolute().parent
        TableWriter(there / path.name if is_new else path, overwrite or is_new)


def write_table(path: Path, table: pandas.DataFrame) -> None:
    """Writes a table whole or not at all; its name decides on Parquet or CSV and compression."""
    with as_input_error():
        path.parent.mkdir(parents=True, exist_ok=True)
        with TableWriter(path, overwrite=True) as writer:
            writer.write(table)
