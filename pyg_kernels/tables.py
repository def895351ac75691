"""Tables in files, some rows at a time: CSV, plain or compressed, and Parquet."""

from __future__ import annotations

import bz2
import codecs
import csv
import gzip
import io
import lzma
import os
import sys
import zlib
from collections.abc import Generator, Iterable, Iterator
from contextlib import closing, suppress
from itertools import chain, islice
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, cast

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from pandas import DataFrame, Series

SEPARATORS = (",", ";", "\t")
PARQUET = (".parquet", ".pq")
OPENERS: dict[str, Any] = {".gz": gzip.open, ".bz2": bz2.open, ".xz": lzma.open}
# The endings by which tables in a folder are found.
ENDINGS = (*(kind + last for kind in (".csv", ".tsv") for last in ("", *OPENERS)), *PARQUET)
# The endings of files that are refused.
OTHERS = (".xlsx", ".xls", ".ods", ".json", ".zip", ".feather", ".zst", ".parquet.gz")
_NO_TEXT = {
    b"\x1f\x8b": "compressed: its name is to end in .gz",
    b"PK\x03\x04": "a spreadsheet or an archive",
    b"BZh": "compressed: its name is to end in .bz2",
    b"PAR1": "Parquet: its name is to end in .parquet",
}
MISSING = frozenset(("", "na", "nan", "n/a", "null", "none"))
LISTED = 10  # lines in a message
DAMAGE = (csv.Error, EOFError, OSError, zlib.error, lzma.LZMAError)

csv.field_size_limit(min(sys.maxsize, 2**31 - 1))  # a cell may hold a whole text


class FileError(ValueError):
    """What is wrong with a file, in one line that names it."""


def stream_table(
    path: str | Path,
    rows: int | None = None,
    *,
    encoding: str = "utf-8",
    header: bool = True,
    strict: bool = False,
    keep_blank: bool = False,
) -> Generator[DataFrame, None, None]:
    """The rows of a table, a bounded number at a time. The file is read once: it may be a pipe.

    Args:
        path: a CSV, compressed if its name ends in ``.gz``, ``.bz2`` or ``.xz``, or Parquet if it
            ends in ``.parquet`` or ``.pq``. A CSV has tabs between cells if its name has the ending
            ``.tsv``, else commas, semicolons or tabs, whichever its first line has most of.
        rows: the most rows of a frame; None for all rows in one.
        encoding: the encoding of a CSV.
        header: whether the first row names the columns; otherwise they are numbers, and commas
            separate them.
        strict: whether to refuse rows with fewer cells than the first, and text behind a closing
            quote. Otherwise missing cells are empty.
        keep_blank: whether to keep the blank rows of a table of one column, except at its end.

    Yields:
        At least one frame. Its index is the line on which a row begins, counted from 1 (for
        Parquet, the row, counted from 1). Cells of a CSV are the strings in the file. Empty rows
        are left out; above the first row, also rows of white space. In a Parquet file, an index
        with a name becomes a column, unless it is a range.

    Raises:
        OSError: if it cannot be opened.
        FileError: if it is not such a table; raised at the place in the file that shows it.
        ImportError: without pandas or, for Parquet, pyarrow.
    """
    pandas = _pandas()
    _check_name(path)
    if str(path).lower().endswith(PARQUET):
        yield from _parquet_frames(Path(path), rows)
        return
    found = _filled(_rows(Path(path), encoding, header, strict), keep_blank)
    first = next(found, None)
    if first is None:
        raise FileError(f"{path}: the file is empty")
    names = first[1] if header else list(range(len(first[1])))
    found = found if header else chain([first], found)
    is_first = True
    while block := list(islice(found, rows)):
        lines, cells = zip(*block, strict=True)
        yield pandas.DataFrame(cells, list(lines), names, dtype=str)
        is_first = False
    if is_first:
        yield pandas.DataFrame(columns=names, dtype=str)


def read_table(path: str | Path, rows: int | None = None, **options: Any) -> DataFrame:
    """The first rows of a table, or all, as :func:`stream_table` yields them; raises if none."""
    with closing(stream_table(path, rows, **options)) as frames:
        frame = next(frames)
    if not len(frame):
        raise FileError(f"{path}: there is no row below the header")
    return frame


def _check_name(path: str | Path) -> None:
    if str(path).lower().endswith(OTHERS):
        raise FileError(f"{path}: expected a table whose name ends in {', '.join(ENDINGS)}")


def _pandas() -> Any:
    try:
        import pandas
    except ImportError as error:
        raise ImportError(
            "tables need pandas, which is not installed: pip install 'pyg_kernels[mol]'",
            name="pandas",
        ) from error
    return pandas


def _rows(path: Path, encoding: str, header: bool, strict: bool) -> Iterator[tuple[int, list[str]]]:
    """The rows of a CSV and the lines on which they begin; after the first, also empty rows."""
    line, width, is_read = 1, 0, False

    def lines(some: Iterable[str]) -> Iterator[str]:
        nonlocal is_read
        yield from some
        is_read = True

    try:
        codec = "utf-8-sig" if codecs.lookup(encoding).name == "utf-8" else encoding
        with io.TextIOWrapper(opened(path), codec, newline="") as file:
            top = [file.readline()]
            while top[-1] and not top[-1].strip():
                top.append(file.readline())
            if "\0" in top[-1]:
                raise FileError(f"{path}, line {len(top)}: {_not_in(encoding, path)}")
            separator = _separator(top[-1], path) if header else SEPARATORS[0]
            reader = csv.reader(lines(chain(top, file)), delimiter=separator, strict=strict)
            for row in reader:
                if is_read:  # the reader asked for a line after the last one
                    raise FileError(f"{path}, line {line}: a quote is never closed")
                if not width and not any(map(str.strip, row)):
                    line = reader.line_num + 1
                    continue
                width = width or len(row)
                if len(row) > width or (strict and row and len(row) < width):
                    raise FileError(
                        f"{path}, line {line}: it has {len(row)} cells, the first row {width}"
                    )
                # A quote that is meant literally begins a cell with tabs and line breaks.
                if (
                    separator == "\t"
                    and reader.line_num > line
                    and any("\t" in cell and ("\n" in cell or "\r" in cell) for cell in row)
                ):
                    raise FileError(
                        f"{path}, line {line}: a quote joins rows: double the quotes within cells,"
                        " and give cells with a tab and a line break in a CSV with commas"
                    )
                yield line, row + [""] * (width - len(row))
                line = reader.line_num + 1
    except UnicodeError as error:
        if path.is_file():  # a pipe cannot be read again
            line = _undecodable_line(path, encoding)
        raise FileError(f"{path}, line {line}: {_not_in(encoding, path)}") from error
    except DAMAGE as error:
        if isinstance(error, OSError) and error.filename is not None:
            raise
        said = " ".join(str(error).split())
        raise FileError(f"{path}, line {line}: it cannot be read as CSV: {said}") from error
    except LookupError as error:
        raise FileError(f"--encoding {encoding}: {error}") from error


def _filled(
    rows: Iterator[tuple[int, list[str]]], keep_blank: bool
) -> Iterator[tuple[int, list[str]]]:
    """The rows with content; with `keep_blank`, also blank rows of one column between them."""
    blank: list[tuple[int, list[str]]] = []
    for line, row in rows:
        if any(row):
            yield from blank
            yield line, row
            blank = []
        elif keep_blank and len(row) == 1:
            blank.append((line, row))


def opened(path: Path) -> IO[bytes]:
    """A file for reading, decompressed by its name."""
    return cast(IO[bytes], OPENERS.get(path.suffix.lower(), open)(path, "rb"))


def _not_in(encoding: str, path: Path) -> str:
    """What is wrong with a file that cannot be decoded, by its first bytes."""
    start = b""
    if path.is_file():  # a pipe cannot be read again
        with path.open("rb") as file:
            start = file.read(4)
        for first, kind in _NO_TEXT.items():
            if start.startswith(first) and path.suffix.lower() not in OPENERS:
                return f"it is no text but {kind}"
        with suppress(*DAMAGE), opened(path) as file:
            start = file.read(2)
    is_wide = start in (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE) and "16" not in encoding
    other = "utf-16" if is_wide else "latin-1"
    return f"it is not {encoding}; --encoding names another, such as {other}"


def _is_tabbed(path: Path) -> bool:
    """Whether a name says that tabs separate cells."""
    named = path.with_suffix("") if path.suffix.lower() in OPENERS else path
    return named.suffix.lower() == ".tsv"


def _separator(header: str, path: Path) -> str:
    """A tab if the name says so; else what the first line has most of, by default a comma."""
    if _is_tabbed(path):
        return "\t"
    outside_quotes = "".join(header.split('"')[::2])
    return max(SEPARATORS, key=outside_quotes.count)


def _undecodable_line(path: Path, encoding: str) -> int:
    decoder = codecs.getincrementaldecoder(encoding)()
    number = 1
    with suppress(UnicodeError, *DAMAGE), opened(path) as file:
        for piece in file:  # of UTF-16 it may end within a character, which the decoder keeps
            number += decoder.decode(piece).count("\n")
    return number


def _parquet_frames(path: Path, rows: int | None) -> Iterator[DataFrame]:
    parquet, pandas = pyarrow_parquet(path), _pandas()
    import pyarrow

    kinds = [f"{sign}Int{bits}" for sign in ("", "U") for bits in (8, 16, 32, 64)]
    # pandas' own types, which stay integers where some are missing
    integers = {pyarrow.type_for_alias(k.lower()): pandas.array([], k).dtype for k in kinds}
    start = 1
    try:
        with open(path, "rb") as opened_file:
            file = parquet.ParquetFile(opened_file)
            is_whole = rows is None or not file.metadata.num_rows
            for table in [file.read()] if is_whole else file.iter_batches(rows):
                frame = table.to_pandas(types_mapper=integers.get)
                is_range = isinstance(frame.index, pandas.RangeIndex)
                is_column = not is_range and any(name is not None for name in frame.index.names)
                frame = frame.reset_index(drop=not is_column)
                frame.index = range(start, start + len(frame))
                start += len(frame)
                yield frame
    except (ValueError, OSError, pyarrow.ArrowException) as error:
        if isinstance(error, OSError) and error.filename is not None:
            raise
        said = " ".join(str(error).split())
        raise FileError(f"{path}: it cannot be read as Parquet: {said}") from error


def pyarrow_parquet(path: Path) -> Any:
    """pyarrow's module for Parquet."""
    try:
        from pyarrow import parquet
    except ImportError as error:
        raise ImportError(
            f"{path}: Parquet needs pyarrow: pip install 'pyg_kernels[scale]'", name="pyarrow"
        ) from error
    return parquet


def find_column(
    columns: Iterable[Any], wanted: str | None, path: str | Path, option: str = ""
) -> Any:
    """The column `wanted`; if None, the one whose name is or contains ``smiles``, in any case."""
    names = list(columns)
    listed = ", ".join(repr(shortened(str(name), 40)) for name in names)
    asked = f" ({option})" if option else ""
    if wanted is not None:
        if names.count(wanted) == 1:
            return wanted
        found = f"{names.count(wanted)} columns" if wanted in names else "no column"
        raise FileError(f"{path}: {found} named {wanted!r}{asked}; its columns are {listed}")
    lower = [str(name).strip().lower() for name in names]
    places = [place for place, name in enumerate(lower) if name == "smiles"]
    places = places or [place for place, name in enumerate(lower) if "smiles" in name]
    if len(places) != 1:
        found = f"{len(places)} columns named after SMILES" if places else "no column named smiles"
        raise FileError(f"{path}: {found}{asked}; its columns are {listed}")
    return names[places[0]]


def missing(cells: Series, words: Iterable[str] = MISSING) -> NDArray[Any]:
    """Which cells are empty, or have one of these words in upper or lower case."""
    return (cells.isna() | cells.astype(str).str.strip().str.lower().isin(words)).to_numpy(bool)


def as_numbers(cells: Series) -> tuple[NDArray[np.float64], NDArray[Any]]:
    """Cells as numbers (NaN: missing), and which are neither missing nor finite, ``(n,)`` each."""
    pandas = _pandas()
    known = cells.mask(missing(cells))
    if not pandas.api.types.is_numeric_dtype(known):  # a date is no number
        known = known.astype(object)
    values = pandas.to_numeric(known, errors="coerce").to_numpy(float, na_value=np.nan)
    return values, (np.isnan(values) & known.notna().to_numpy(bool)) | np.isinf(values)


def numbers(
    frame: DataFrame, column: Any, path: str | Path, advice: str = ""
) -> NDArray[np.float64]:
    """A column as numbers, ``(n,)``, NaN where a cell is empty (or NA, NaN, n/a, null, None)."""
    values, wrong = as_numbers(frame[column])
    if wrong.any():
        first = int(wrong.argmax())
        cell = frame[column].iloc[first]
        if np.isfinite(_pandas().to_numeric(str(cell).replace(",", ""), errors="coerce")):
            advice = f"; decimals have a point, thousands no mark{advice}"
        raise FileError(
            f"{path}, line {frame.index[first]}: {cell!r} in column {column!r} is no finite "
            f"number ({int(wrong.sum())} are not{advice})"
        )
    return values


def shortened(text: str, length: int = 60) -> str:
    """The text, cut to fit an error message of one line."""
    return text if len(text) <= length else text[: length - 3] + "..."


def listed(numbers: Any) -> str:
    """The first of some numbers."""
    return ", ".join(map(str, numbers[:LISTED])) + (", ..." if len(numbers) > LISTED else "")


def refuse_existing(path: str | Path, overwrite: bool) -> Path:
    """The path; raises if something is there that is not to be overwritten."""
    path = Path(path)
    there = any(path.iterdir()) if path.is_dir() else path.exists()
    if there and not overwrite:
        raise FileError(f"{path} exists; --overwrite replaces it")
    return path


def table_files(folder: Path) -> list[Path]:
    """The tables in a folder, sorted by name, without hidden files."""
    found = sorted(path for path in folder.iterdir() if path.name.lower().endswith(ENDINGS))
    found = [path for path in found if path.is_file() and not path.name.startswith(".")]
    if not found:
        raise FileError(f"{folder}: no table in it, whose name ends in {', '.join(ENDINGS)}")
    return found


def csv_text(frame: DataFrame, separator: str = ",", header: bool = True) -> str:
    """A table as CSV that reads back unchanged.

    Python's writer does not quote carriage returns, which end a row for readers. Readers would also
    split a header at other separators. Such tables are written with quotes.
    """
    how: dict[str, Any] = {"sep": separator, "header": header, "lineterminator": "\n"}
    text: str = frame.to_csv(index=False, **how)
    names = "".join(map(str, frame.columns)) if header else ""
    if "\r" in text or any(other in names for other in SEPARATORS if other != separator):
        text = frame.to_csv(index=False, quoting=csv.QUOTE_NONNUMERIC, **how)
    return text


class TableWriter:
    """Writes a table row by row; the file gets its name only when it is whole.

    Parquet if the name ends in ``.parquet`` or ``.pq``, else CSV: with tabs if the name has the
    ending ``.tsv``, compressed if it ends in ``.gz``, ``.bz2`` or ``.xz``.

    Args:
        path: the file.
        overwrite: whether the file may exist already.
        like: a file from which columns of the same names take their types, if both are Parquet;
            other columns have the types of the first rows.

    Raises:
        FileError: if the file exists and `overwrite` is false, it is a folder or a device, its
            folder does not exist or cannot be written, or its name has the ending of another
            format, such as a spreadsheet.
        ImportError: for Parquet without pyarrow.
    """

    def __init__(
        self, path: str | Path, overwrite: bool = False, like: str | Path | None = None
    ) -> None:
        _check_name(path)
        self.path, folder = Path(path), Path(path).parent
        is_open = folder.is_dir() and os.access(folder, os.W_OK | os.X_OK)
        if not is_open or (self.path.exists() and not self.path.is_file()):
            raise FileError(f"{path}: not a file in a folder that can be written")
        refuse_existing(path, overwrite)
        self._partial = self.path.with_name(f".{self.path.name}.partial")
        self._parquet = pyarrow_parquet(self.path) if self.path.suffix.lower() in PARQUET else None
        self._file: Any = None
        self._names: list[Any] = []
        self._like = None if like is None or not str(like).lower().endswith(PARQUET) else Path(like)
        self.rows = 0

    def __enter__(self) -> TableWriter:
        return self

    def write(self, frame: DataFrame) -> None:
        """Adds rows, which have the columns of those before."""
        is_first = self._file is None
        names = list(frame.columns)
        self._names = names if is_first else self._names
        if names != self._names:
            if {*names} != {*self._names} or len({*names}) < len(names):
                raise FileError(f"{self.path}: rows do not fit the first ones: other columns")
            frame = frame[self._names]
        if self._parquet is not None:
            import pyarrow

            if not frame.columns.is_unique:
                twice = list(frame.columns[frame.columns.duplicated()])
                raise FileError(f"{self.path}: Parquet has no two columns named {twice[0]!r}")
            frame = frame.rename(columns=str)
            try:
                if is_first:
                    schema = pyarrow.Schema.from_pandas(frame, preserve_index=False)
                    if self._like is not None:
                        like = self._parquet.read_schema(self._like)
                        known = (place for place, n in enumerate(schema.names) if n in like.names)
                        for place in known:
                            schema = schema.set(place, like.field(schema.names[place]))
                    self._file = self._parquet.ParquetWriter(self._partial, schema)
                table = pyarrow.Table.from_pandas(frame, self._file.schema, preserve_index=False)
            except pyarrow.ArrowException as error:
                said = " ".join(str(error).split())
                of = "" if is_first else " the first ones"
                raise FileError(f"{self.path}: rows do not fit{of}: {said}") from error
            self._file.write_table(table)
        else:
            if is_first:
                opener: Any = OPENERS.get(self.path.suffix.lower(), open)
                self._file = opener(self._partial, "wt", encoding="utf-8", newline="")
            separator = "\t" if _is_tabbed(self.path) else ","
            self._file.write(csv_text(frame, separator, is_first))
        self.rows += len(frame)

    def __exit__(self, kind: Any, *_: Any) -> None:
        if self._file is not None:
            try:
                self._file.close()
                if kind is None:
                    self._partial.replace(self.path)
            finally:
                self._partial.unlink(missing_ok=True)
