"""Texts in tables whose columns have names."""

from __future__ import annotations

import gzip
import zlib
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import torch

from pyg_kernels.datasets.text.corpus import TextCorpus, drawn
from pyg_kernels.datasets.text.tokens import tokenize

if TYPE_CHECKING:
    import pandas

SEPARATORS = (",", "\t", ";")
PARQUET = (".parquet", ".pq")


class TextTable(TextCorpus):
    """Texts and their classes in a CSV, TSV or Parquet file whose columns have names.

    :func:`~pyg_kernels.datasets.text.tokenize` splits the texts into words.

    Args:
        path: the training part; see :func:`read_text_table`.
        test: the test part. Where there is none, a share of each class is drawn at random.
        text_column: the column of the texts, or several, which are joined.
        label_column: the column of the classes, of any words; two or more are needed.
        test_fraction: the share that is drawn where there is no test part, rounded down in each
            class.
        seed: of the draw.
        lower: whether to write all words in lower case, as GloVe's vectors do.
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
            for row, (text, label) in enumerate(zip(words, classes, strict=True), start=1):
                if not text or not label:
                    raise ValueError(f"row {row} of {file} has no {'class' if text else 'text'}")
            read.append((words, classes))
        texts = [text for part, _ in read for text in part]
        labels = [label for _, part in read for label in part]
        if len(set(read[0][1])) < 2:
            raise ValueError(
                f"all texts of {path} have the class {labels[0]!r} in column {label_column!r}: two "
                "or more classes are needed"
            )
        first = len(read[0][0])
        tested = torch.arange(len(texts)) >= first
        split = "given test part"
        if test is None:
            numbers = {label: number for number, label in enumerate(sorted(set(labels)))}
            codes = torch.tensor([numbers[label] for label in labels])
            tested = drawn(codes, torch.arange(len(labels)), test_fraction, seed)
            name = Path(path).name
            split = f"random {100 * test_fraction:g}% of each class of {name} (seed {seed})"
            if not tested.any():
                raise ValueError(f"{100 * test_fraction:g}% of each class of {name} is no text")
        parts = {"train": (~tested).nonzero().flatten(), "test": tested.nonzero().flatten()}
        super().__init__(texts, labels, parts, split)


def read_text_table(
    path: str | Path, columns: Sequence[str], encoding: str = "utf-8"
) -> pandas.DataFrame:
    """A table with named columns, those that are asked for as strings, empty where nothing is.

    Args:
        path: a file with a header, its columns separated by commas, tabs or semicolons, also
            compressed (``.gz``, ``.zip``, ...), or a Parquet file (``.parquet``).
        columns: names of columns that it must have.
        encoding: of the file.

    Raises:
        OSError: if it cannot be read.
        ValueError: if it is no such table, has no rows, or not these columns.
    """
    import pandas

    name = Path(path).name
    try:
        if name.endswith(PARQUET):
            table = pandas.read_parquet(path)
            is_named = any(level is not None for level in table.index.names)
            table = table.reset_index(drop=not is_named)
        else:
            separator, header = _header(path, columns, encoding)
            table = pandas.read_csv(
                path,
                sep=separator,
                dtype=str,
                skip_blank_lines=len(header) > 1,  # of one column, a blank line is an empty text
                keep_default_na=False,
                encoding=encoding,
            ).fillna("")
            if not isinstance(table.index, pandas.RangeIndex):
                raise ValueError("its rows have more cells than its header")
            if separator == "\t" and _has_joined_rows(table):
                raise ValueError("a quote joins rows: double the quotes within cells")
    except UnicodeError as error:
        raise ValueError(f"{path} is not in the encoding {encoding}: {error}") from error
    except LookupError as error:
        raise ValueError(f"{path}: {error}") from error
    except (ValueError, EOFError, gzip.BadGzipFile, zlib.error) as error:
        raise ValueError(f"{path} cannot be read as a table: {error}") from error
    missing = [column for column in columns if column not in table]
    if missing:
        found = ", ".join(map(str, table.columns))
        raise ValueError(f"{path} has no column {missing[0]!r}; its columns are {found}")
    if table.empty:
        raise ValueError(f"{path} has no rows")
    for column in dict.fromkeys(columns):
        cells = table[column].astype(object)
        table[column] = cells.where(cells.notna(), "").astype(str)
    return table


def has_columns(path: str | Path, columns: Sequence[str], encoding: str = "utf-8") -> bool:
    """Whether a CSV file has a header with these columns; False where it cannot be read."""
    try:
        return set(columns) <= set(_header(path, columns, encoding)[1])
    except (OSError, ValueError, EOFError, LookupError, zlib.error):
        return False


def joined(table: pandas.DataFrame, columns: Sequence[str]) -> list[str]:
    """The text of each row: its cells in some columns."""
    return [" ".join(cells) for cells in table[list(columns)].itertuples(index=False)]


def _has_joined_rows(table: pandas.DataFrame) -> bool:
    """Whether a cell has a tab and a line break: a quote that was meant as itself began it."""
    return any(
        bool((table[column].str.contains("\t") & table[column].str.contains("\n")).any())
        for column in table
    )


def _header(path: str | Path, columns: Sequence[str], encoding: str) -> tuple[str, list[str]]:
    """The separator with which a file has these columns, or else a comma, and its header."""
    import pandas

    headers = {
        separator: list(pandas.read_csv(path, sep=separator, nrows=0, encoding=encoding))
        for separator in SEPARATORS
    }
    named = [separator for separator in SEPARATORS if set(columns) <= set(headers[separator])]
    separator = named[0] if named else SEPARATORS[0]
    return separator, headers[separator]
