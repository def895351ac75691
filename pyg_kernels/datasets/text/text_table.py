"""Texts in tables whose columns have names."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING

from pyg_kernels.datasets.text.corpus import TextCorpus, with_parts
from pyg_kernels.datasets.text.tokens import tokenize
from pyg_kernels.tables import FileError, find_column, read_table, stream_table

if TYPE_CHECKING:
    from pandas import DataFrame


class TextTable(TextCorpus):
    """Texts and their classes in a CSV, TSV or Parquet file whose columns have names.

    :func:`~pyg_kernels.datasets.text.tokenize` splits the texts into words.

    Args:
        path: the training part; see :func:`read_text_table`.
        test: the test part. Where there is none, a share of each class is drawn at random.
        text_column: the column of the texts, or several, which are joined.
        label_column: the column of the classes, of any words; two or more are needed.
        test_fraction, seed, lower: as of :class:`TextCSV`.
        encoding: of the files.

    Raises:
        OSError: if a file is not there.
        ValueError: if a file is no such table, a row has no text or no class, there is one class
            alone, or a class of the test part is in no training text.
    """

    def __init__(
        self,
        path: str | Path,
        test: str | Path | None = None,
        text_column: str | Sequence[str] = "text",
        label_column: str = "label",
        test_fraction: float = 0.2,
        seed: int = 0,
        lower: bool = True,
        encoding: str = "utf-8",
    ) -> None:
        columns = [text_column] if isinstance(text_column, str) else list(text_column)
        read = []
        for file in [path] if test is None else [path, test]:
            table = read_text_table(file, [*columns, label_column], encoding)
            words = [tokenize(text, lower) for text in joined(table, columns)]
            classes = [label.strip() for label in table[label_column]]
            for line, text, label in zip(table.index, words, classes, strict=True):
                if not text or not label:
                    raise FileError(f"{file}, line {line}: no {'class' if text else 'text'}")
            read.append((words, classes))
        if len(set(read[0][1])) < 2:
            raise ValueError(
                f"all texts of {path} have the class {read[0][1][0]!r} in column {label_column!r}: "
                "two or more classes are needed"
            )
        name = Path(path).name
        super().__init__(*with_parts(read, test_fraction, seed, name, "given test part"))


def read_text_table(path: str | Path, columns: Sequence[str], encoding: str = "utf-8") -> DataFrame:
    """A table with named columns, those that are asked for as strings, empty where nothing is.

    Args:
        path: a CSV, compressed or not, or a Parquet file; see
            :func:`~pyg_kernels.tables.stream_table`.
        columns: names of columns that it must have.
        encoding: of the file.

    Raises:
        OSError: if it cannot be read.
        FileError: if it is no such table, has no rows, or not these columns.
    """
    table = read_table(path, encoding=encoding, keep_blank=True)
    for column in columns:
        find_column(table.columns, column, path)
        cells = table[column].astype(object)
        table[column] = cells.where(cells.notna(), "").astype(str)
    return table


def has_columns(path: str | Path, columns: Sequence[str], encoding: str = "utf-8") -> bool:
    """Whether a table has these columns; False where it cannot be read."""
    try:
        with closing(stream_table(path, 1, encoding=encoding)) as frames:
            return set(columns) <= set(next(frames).columns)
    except (OSError, ValueError):
        return False


def joined(table: DataFrame, columns: Sequence[str]) -> list[str]:
    """The text of each row: its cells in some columns."""
    return [" ".join(cells) for cells in table[list(columns)].itertuples(index=False)]
