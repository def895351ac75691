"""The cells of CSV files and the lines on which they stand."""

from __future__ import annotations

import csv
import gzip
import zlib
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from itertools import chain, islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pandas import DataFrame


def read_cells(path: str | Path) -> DataFrame:
    """All cells of a CSV file with a header, as :func:`stream_cells` gives them, in one frame.

    The file is read once, so that it may be a pipe such as ``/dev/stdin``.
    """
    (frame,) = stream_cells(path)
    return frame


def stream_cells(
    path: str | Path, rows: int | None = None, header: bool = True
) -> Generator[DataFrame, None, None]:
    """The cells of a CSV file as they stand, some rows at a time.

    Args:
        path: the file, in UTF-8; decompressed if its name ends in ``.gz``.
        rows: of a frame at most; None for all in one.
        header: whether the first row names the columns; otherwise they are numbers.

    Yields:
        Frames of strings; one without rows if the file has none. The index is the line on which
        each row begins, from 1. Blank lines are left out.

    Raises:
        FileNotFoundError: if there is no such file.
        ValueError: if it is not such a table, or a row has another number of cells than the first,
            when the place that shows it is reached.
        ImportError: if pandas is not installed.
    """
    pandas, path = _pandas(), Path(path)
    lines = _rows(path)
    first = next(lines, None)
    if first is None:
        raise ValueError(f"{path.name} is empty")
    names = first[1] if header else list(range(len(first[1])))
    found = lines if header else chain([first], lines)
    anything = False
    while True:
        block = list(islice(found, rows))
        if not block and anything:
            return
        numbers = [line for line, _ in block]
        frame = pandas.DataFrame([row for _, row in block], numbers, dtype=object)
        yield frame.set_axis(names, axis=1) if block else pandas.DataFrame(columns=names)
        anything = True
        if not block:
            return


def _rows(path: Path) -> Iterator[tuple[int, list[str]]]:
    """The rows of a CSV file that are not blank, each with the line on which it begins."""
    opened = gzip.open if path.suffix == ".gz" else open
    line, width = 1, 0
    with opened(path, "rt", encoding="utf-8-sig", newline="") as file:
        reader = csv.reader(file, strict=True)
        while True:
            with naming(path, f"{path.name}, at line {line},"):
                row = next(reader, None)
            if row is None:
                return
            if any(row):
                width = width or len(row)
                if len(row) != width:
                    raise ValueError(
                        f"line {line} of {path.name} has {len(row)} cells, the first row {width}"
                    )
                yield line, row
            line = reader.line_num + 1


@contextmanager
def naming(path: Path, name: str = "") -> Iterator[None]:
    """What is said of a file that cannot be read, in one line that names the file.

    Args:
        path: the file.
        name: what to call it; the name of the file by default.

    Raises:
        ValueError: in place of any error of the file's content.
    """
    errors, name = _pandas().errors, name or path.name
    try:
        yield
    except (
        csv.Error,
        errors.EmptyDataError,
        errors.ParserError,
        UnicodeError,
        EOFError,
        gzip.BadGzipFile,
        zlib.error,
    ) as error:
        said = " ".join(str(error).split())
        raise ValueError(f"{name} is not a CSV file in UTF-8: {said}") from error


def _pandas() -> Any:
    try:
        import pandas
    except ImportError as error:
        raise ImportError(
            "CSV files are read by pandas, which is not installed: pip install 'pyg_kernels[mol]'",
            name="pandas",
        ) from error
    return pandas
