"""Tables of texts that a trained run is applied to."""

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import pandas
import torch

from benchmarks.harness.errors import InputError, as_input_error, tell
from pyg_kernels.datasets.text import EncodedTexts, TextLoader, Vocabulary
from pyg_kernels.datasets.text.text_table import joined, read_text_table
from pyg_kernels.tables import PARQUET, TableWriter, pyarrow_parquet

MOST_NAMED = 5


def texts_of(path: str, columns: list[str], encoding: str) -> tuple[pandas.DataFrame, list[str]]:
    """A table with these columns, its rows counted from 0, and the text of each row."""
    with as_input_error():
        table = read_text_table(path, columns, encoding).reset_index(drop=True)
    return table, joined(table, columns)


def tell_rows(chosen: Sequence[bool], what: str) -> None:
    """Says of which texts something is true, their rows counted from 1."""
    rows = [str(row) for row, is_chosen in enumerate(chosen, start=1) if is_chosen]
    if rows:
        named = ", ".join(rows[:MOST_NAMED]) + ", ..." * (len(rows) > MOST_NAMED)
        verb = "has" if len(rows) == 1 else "have"
        tell(f"{len(rows)} of {len(chosen)} texts {verb} {what}: rows {named}")


def batches_of(learner: Any, texts: Sequence[Sequence[str]], batch_size: int) -> TextLoader:
    """Texts, lists of words, as the vocabulary of a run numbers them."""
    ids, ptr = Vocabulary(learner.hparams["words"]).encode(texts)
    encoded = EncodedTexts(ids, ptr, torch.zeros(len(texts), dtype=torch.long))
    return TextLoader(encoded, batch_size=batch_size)


def refuse_existing(paths: Iterable[Path], overwrite: bool) -> None:
    """Refuses to replace files and folders unless that is asked for."""
    for path in paths:
        if path.exists() and not overwrite:
            raise InputError(f"{path} exists; --overwrite replaces it")


def refuse_columns(table: pandas.DataFrame, names: Iterable[str], path: str) -> None:
    """Refuses to replace columns of a table."""
    taken = [name for name in names if name in table]
    if taken:
        raise InputError(
            f"{path} has a column {taken[0]!r} already, which is to be added: rename it"
        )


def check_output(path: Path) -> None:
    """Refuses names of tables that :func:`write_table` does not write."""
    if path.name.endswith(PARQUET):
        with as_input_error():
            pyarrow_parquet(path)
    elif not path.name.removesuffix(".gz").endswith((".csv", ".tsv", ".txt")):
        raise InputError(f"--out {path}: expected a name that ends in .csv, .tsv (.gz) or .parquet")


def write_table(path: Path, table: pandas.DataFrame) -> None:
    """Writes a table whole or not at all, as Parquet or CSV, compressed by its name."""
    with as_input_error():
        path.parent.mkdir(parents=True, exist_ok=True)
        with TableWriter(path, overwrite=True) as writer:
            writer.write(table)
