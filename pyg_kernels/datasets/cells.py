"""The cells of CSV files and the lines on which they stand, read by pandas."""

from __future__ import annotations

import gzip
import zlib
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

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
        each row begins, from 1. Blank lines are left out; cells that a row lacks at its end are
        empty.

    Raises:
        FileNotFoundError: if there is no such file.
        ValueError: if it is not such a table, when the place that shows it is reached.
        ImportError: if pandas is not installed.
    """
    pandas, path = _pandas(), Path(path)
    with naming(path):
        reader = pandas.read_csv(
            path,
            header=None,
            dtype=str,
            na_filter=False,
            skip_blank_lines=False,
            encoding="utf-8-sig",
            compression="gzip" if path.suffix == ".gz" else None,
            iterator=True,
        )
    names, line, anything = None, 1, False
    with reader:
        while True:
            with naming(path):
                try:
                    frame = reader.get_chunk(1 if header and names is None else rows)
                except StopIteration:
                    break
            lines = line + np.arange(len(frame) + 1)
            lines[1:] += np.cumsum(sum(frame[k].str.count("\n").to_numpy(int) for k in frame))
            frame.index, line = lines[:-1], int(lines[-1])
            if header and names is None:
                names, frame = frame.iloc[0].tolist(), frame[:0]
            frame.columns = frame.columns if names is None else names
            frame = frame[(frame != "").any(axis=1).to_numpy()]
            if len(frame):
                anything = True
                yield frame
    if not anything:
        yield frame


@contextmanager
def naming(path: Path, name: str = "") -> Iterator[None]:
    """What pandas says of a file that it cannot read, in one line that names the file.

    The lines that pandas names are rows: one with line breaks in its cells counts once.

    Args:
        path: the file.
        name: what to call it; the name of the file by default.

    Raises:
        ValueError: in place of any error of the file's content.
    """
    errors, name = _pandas().errors, name or path.name
    try:
        yield
    except errors.EmptyDataError as error:
        raise ValueError(f"{name} is empty, or begins with a blank line") from error
    except (
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
