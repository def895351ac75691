"""Tables of molecules, read and written chunk by chunk: CSV, plain or gzipped, and Parquet."""

from __future__ import annotations

import codecs
import gzip
import warnings
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from decimal import Decimal, InvalidOperation
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, NoReturn, cast

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    import pandas as pd

CHUNK_SIZE = 10_000
SEPARATORS = (",", ";", "\t")
ENDINGS = (".csv", ".csv.gz", ".tsv", ".tsv.gz", ".parquet")
MISSING = {"", "na", "nan", "n/a", "null", "none"}
MISSING_CLASS = {"", "na", "nan"}  # the others may be words that name a class
_LISTED = 10


class FileError(ValueError):
    """What is wrong with a file, in one line that names it."""


def read_chunks(
    path: str | Path,
    encoding: str = "utf-8",
    chunk_size: int = CHUNK_SIZE,
    keep_blank: bool = False,
) -> Iterator[pd.DataFrame]:
    """The rows of a table, a bounded number at a time.

    Args:
        path: a CSV separated by commas, semicolons or tabs, whichever the first line has most of;
            gzipped where the name ends in ``.gz``. Parquet where it ends in ``.parquet``.
        encoding: of a CSV.
        chunk_size: how many rows at most.
        keep_blank: whether blank rows of a table of one column, but those at its end, are rows.

    Yields:
        Frames whose index is the line in the file, the header being line 1 (the row of a Parquet
        file, counted from 1). Cells of a CSV are strings as they stand there. Rows without any
        content are left out.

    Raises:
        FileError: if there is no such file, or it is no table.
        ImportError: without pandas or, for Parquet, pyarrow.
    """
    path = Path(path)
    if not path.is_file():
        raise FileError(f"{path}: no such file")
    parquet = path.suffix == ".parquet"
    chunks = (
        _parquet_chunks(path, chunk_size) if parquet else _csv_chunks(path, encoding, chunk_size)
    )
    start = 1 if parquet else 2
    blank: list[pd.DataFrame] = []  # rows that are kept if others follow
    for chunk in chunks:
        if parquet:
            chunk.index = range(start, start + len(chunk))
            start += len(chunk)
            yield chunk
            continue
        start += sum(name.count("\n") for name in chunk.columns) if start == 2 else 0
        breaks = chunk.apply(lambda cells: cells.str.count("\n")).sum(axis=1).to_numpy(int)
        lines = start + np.arange(len(chunk)) + breaks.cumsum()
        chunk.index = lines - breaks
        start += len(chunk) + int(breaks.sum())
        filled = (chunk != "").any(axis=1).to_numpy()
        if not keep_blank or len(chunk.columns) > 1 or not len(chunk):
            yield chunk[filled]
            continue
        end = int(filled.nonzero()[0].max(initial=-1)) + 1
        if end:
            yield from blank
            blank = []
        yield chunk[:end]
        blank.append(chunk[end:])


def table_files(folder: Path) -> list[Path]:
    """The tables in a folder, by their names; hidden files are none.

    Raises:
        FileError: if there are none.
    """
    found = sorted(path for path in folder.iterdir() if path.name.endswith(ENDINGS))
    found = [path for path in found if path.is_file() and not path.name.startswith(".")]
    if not found:
        raise FileError(f"{folder}: no table in it, whose name ends in {', '.join(ENDINGS)}")
    return found


def read_table(path: str | Path, encoding: str = "utf-8") -> pd.DataFrame:
    """All rows of a table, as :func:`read_chunks` gives them."""
    import pandas as pd

    chunks = list(read_chunks(path, encoding))
    if not sum(map(len, chunks)):
        raise FileError(f"{path}: there is no row below the header")
    return pd.concat(chunks)


def _csv_chunks(path: Path, encoding: str, chunk_size: int) -> Iterator[pd.DataFrame]:
    import pandas as pd

    try:
        with warnings.catch_warnings():
            # pandas drops cells without a header with no more than a warning.
            warnings.simplefilter("error", pd.errors.ParserWarning)
            yield from pd.read_csv(
                path,
                sep=separator(path, encoding),
                encoding=encoding,
                dtype=str,
                keep_default_na=False,
                index_col=False,
                skip_blank_lines=False,
                chunksize=chunk_size,
            )
    except UnicodeError as error:
        raise FileError(
            f"{path}, line {_undecodable_line(path, encoding)}: it is not {encoding}; "
            "--encoding names another, such as latin-1"
        ) from error
    except pd.errors.ParserWarning as error:
        raise FileError(f"{path}, line 2: it has more cells than the header") from error
    except (
        pd.errors.ParserError, pd.errors.EmptyDataError, EOFError, gzip.BadGzipFile, zlib.error
    ) as error:  # fmt: skip
        raise FileError(f"{path}: {error}") from error
    except LookupError as error:
        raise FileError(f"--encoding {encoding}: {error}") from error


def separator(path: Path, encoding: str) -> str:
    """The separator that the first line has most of, a comma where it has none."""
    with codecs.getreader(encoding)(_opened(path)) as file:
        header = file.readline()
    outside_quotes = "".join(header.split('"')[::2])
    return max(SEPARATORS, key=outside_quotes.count)


def _opened(path: Path) -> IO[bytes]:
    return cast(IO[bytes], gzip.open(path) if path.suffix == ".gz" else open(path, "rb"))


def _undecodable_line(path: Path, encoding: str) -> int:
    decoder = codecs.getincrementaldecoder(encoding)()
    number = 1
    with _opened(path) as file:
        for piece in file:  # of UTF-16 it may end within a character, which the decoder keeps
            try:
                number += decoder.decode(piece).count("\n")
            except UnicodeError:
                break
    return number


def _parquet_chunks(path: Path, chunk_size: int) -> Iterator[pd.DataFrame]:
    parquet = _pyarrow(path)
    file, is_empty = parquet.ParquetFile(path), True
    for batch in file.iter_batches(chunk_size):
        is_empty = False
        yield batch.to_pandas(types_mapper=_integers().get)
    if is_empty:
        yield file.schema_arrow.empty_table().to_pandas(types_mapper=_integers().get)


def _integers() -> dict[Any, Any]:
    """pandas' types for Arrow's integers, which stay integers where some are missing."""
    import pandas as pd
    import pyarrow

    kinds = (
        pd.Int8Dtype(), pd.Int16Dtype(), pd.Int32Dtype(), pd.Int64Dtype(),
        pd.UInt8Dtype(), pd.UInt16Dtype(), pd.UInt32Dtype(), pd.UInt64Dtype(),
    )  # fmt: skip
    return {pyarrow.type_for_alias(kind.name.lower()): kind for kind in kinds}


def _pyarrow(path: Path) -> Any:
    try:
        from pyarrow import parquet
    except ImportError as error:
        raise ImportError(
            f"{path}: Parquet needs pyarrow: pip install 'pyg_kernels[scale]'"
        ) from error
    return parquet


def find_column(names: Sequence[str], wanted: str | None, path: str | Path, option: str) -> str:
    """The column of that name; the one called ``smiles``, in any case, if `wanted` is None.

    Raises:
        FileError: if there is none, or several could be meant.
    """
    if wanted is not None:
        if wanted in names:
            return wanted
        raise FileError(f"{path}: no column {wanted!r} for {option}; it has {', '.join(names)}")
    lower = {name: str(name).strip().lower() for name in names}
    found = [name for name in names if lower[name] == "smiles"]
    found = found or [name for name in names if "smiles" in lower[name]]
    if len(found) != 1:
        which = f"{len(found)} columns named after SMILES" if found else "no column named smiles"
        raise FileError(f"{path}: {which}; {option} says which of {', '.join(map(str, names))}")
    return found[0]


def numbers(frame: pd.DataFrame, column: str, path: str | Path) -> NDArray[Any]:
    """A column as numbers, ``(n,)``, NaN where a cell is empty (or NA, NaN, null, None).

    Raises:
        FileError: on a cell that is no number or infinite, with its line.
    """
    import pandas as pd

    cells = frame[column].mask(missing(frame[column]))
    values = pd.to_numeric(cells, errors="coerce").to_numpy(float, na_value=np.nan)
    wrong = (np.isnan(values) & cells.notna().to_numpy()) | np.isinf(values)
    if wrong.any():
        first = int(wrong.argmax())
        raise FileError(
            f"{path}, line {frame.index[first]}: {cells.iloc[first]!r} in column {column!r} is "
            f"no finite number ({int(wrong.sum())} are not; --task classification for classes)"
        )
    return values


def missing(cells: pd.Series, words: set[str] = MISSING) -> NDArray[Any]:
    """Which cells have nothing, or one of these words, in any case."""
    return (cells.isna() | cells.astype(str).str.strip().str.lower().isin(words)).to_numpy(bool)


@dataclass(frozen=True)
class Targets:
    """What is to be learned.

    Attributes:
        values: ``(n, T)``, NaN where not measured; numbers of classes where `classes` is given.
        names: T columns.
        classes: of each target the words for 0, 1, ...; None for numbers to be regressed.
    """

    values: NDArray[Any]
    names: list[str]
    classes: list[list[str]] | None

    @property
    def task(self) -> str:
        """``regression`` or ``classification``."""
        return "regression" if self.classes is None else "classification"


def read_targets(
    frame: pd.DataFrame, columns: Sequence[str], task: str | None, path: str | Path
) -> Targets:
    """The targets, and whether they are numbers or classes.

    Args:
        frame: rows of :func:`read_table`.
        columns: the columns of the targets.
        task: ``regression``, ``classification``, or None: classification if a column has words,
            True and False among them. A class is missing where a cell is empty, NA or NaN.
        path: the file, for errors.

    Raises:
        FileError: on a cell that is no number where there are to be numbers; on words in some
            target columns only; on a target without a value, or with a single class.
    """
    classes = {name: _classes(frame, name) for name in columns}
    if task is None:
        worded = all(_are_words(known, len(frame)) for known in classes.values())
        task = "classification" if worded else "regression"
    values = []
    for name, known in classes.items():
        if task == "regression":
            values.append(numbers(frame, name, path))
        else:
            codes = {word: float(code) for code, word in enumerate(known)}
            values.append(frame[name].map(_word).map(codes).to_numpy(float))
            if len(known) == 1:
                raise FileError(f"{path}: column {name!r} has one class, {known[0]!r}")
        if np.isnan(values[-1]).all():
            raise FileError(f"{path}: column {name!r} has no value")
    of_each = list(classes.values()) if task == "classification" else None
    return Targets(np.stack(values, axis=1), list(columns), of_each)


def _word(cell: Any) -> str:
    """A cell as the name of a class: True is true, and 1.0 is 1."""
    text = str(cell).strip()
    if text.lower() in ("true", "false"):
        return text.lower()
    try:
        number = Decimal(text)
    except InvalidOperation:
        return text
    if not number.is_finite():
        return text
    whole = number.adjusted() < 30 and number == int(number)
    return str(int(number)) if whole else str(float(number))


def _classes(frame: pd.DataFrame, column: str) -> list[str]:
    """The classes of a column: numbers in their order, words in that of the alphabet."""
    cells = frame[column]
    known = set(cells[~missing(cells, MISSING_CLASS)].map(_word))
    return sorted(known, key=lambda word: (float(word) if _is_number(word) else np.inf, word))


def _are_words(classes: Sequence[str], rows: int) -> bool:
    """Whether these are names of classes, neither numbers nor a text of its own for each row."""
    few = len(classes) <= max(2, rows // 2)
    return bool(classes) and few and not any(map(_is_number, classes))


def _is_number(word: str) -> bool:
    try:
        float(word)
    except ValueError:
        return False
    return True


def parse_molecules(
    frame: pd.DataFrame, column: str, path: str | Path, skip_invalid: bool
) -> tuple[list[Any], NDArray[Any]]:
    """RDKit molecules of the rows.

    Returns:
        The molecules that RDKit reads, and which rows they are, ``(n,)`` of bool.

    Raises:
        FileError: on invalid SMILES, with their lines, unless they are skipped.
    """
    from pyg_kernels.chem import InvalidSmiles
    from pyg_kernels.chem.encoding import parse

    molecules, valid = [], np.ones(len(frame), bool)
    reasons: list[tuple[int, str]] = []
    for position, (line, text) in enumerate(frame[column].items()):
        try:
            molecules.append(parse(text if isinstance(text, str) else ""))
        except InvalidSmiles as error:
            valid[position] = False
            reasons.append((line, str(error)))
    if reasons and not skip_invalid:
        refuse_invalid(path, reasons)
    return molecules, valid


def refuse_invalid(path: str | Path, reasons: Sequence[tuple[int, str]]) -> NoReturn:
    """Raises a FileError on invalid SMILES, given by their lines with what is wrong with them."""
    shown = "; ".join(f"line {line}: {reason}" for line, reason in reasons[:_LISTED])
    more = f"; and {len(reasons) - _LISTED} more" if len(reasons) > _LISTED else ""
    raise FileError(
        f"{path}: {len(reasons)} invalid SMILES ({shown}{more}); --skip-invalid leaves them out"
    )


def refuse_existing(path: str | Path, overwrite: bool) -> Path:
    """The path, unless something is there that is not to be overwritten.

    Raises:
        FileError: if there is a file or a folder with anything in it.
    """
    path = Path(path)
    there = any(path.iterdir()) if path.is_dir() else path.exists()
    if there and not overwrite:
        raise FileError(f"{path} exists; --overwrite replaces it")
    return path


def output_folder(path: str | Path, overwrite: bool) -> Path:
    """The path of a folder that can be made, or is there and may be written to.

    Raises:
        FileError: if it or a folder above it is a file, or as :func:`refuse_existing`.
    """
    path = Path(path)
    there = next(each for each in (path, *path.absolute().parents) if each.exists())
    if not there.is_dir():
        raise FileError(f"{there} is a file: {path} is to be a folder")
    return refuse_existing(path, overwrite)


class TableWriter:
    """Writes a table row by row; under its own name it appears only when it is whole.

    CSV, with tabs where the name begins its endings with ``.tsv``, gzipped where it ends in
    ``.gz``; Parquet where it ends in ``.parquet``.

    Args:
        path: the file.
        overwrite: whether it may be there already.

    Raises:
        FileError: if it is there, or a folder is, or its folder is not.
        ImportError: for Parquet without pyarrow.
    """

    def __init__(self, path: str | Path, overwrite: bool = False) -> None:
        self.path = refuse_existing(path, overwrite)
        if self.path.is_dir() or not self.path.parent.is_dir():
            raise FileError(f"{path}: not a file in a folder that exists")
        self._partial = self.path.with_name(f".{self.path.name}.partial")
        self._parquet = _pyarrow(self.path) if self.path.suffix == ".parquet" else None
        self._file: Any = None
        self.rows = 0

    def __enter__(self) -> TableWriter:
        return self

    def write(self, frame: pd.DataFrame) -> None:
        if self._parquet is not None:
            import pyarrow

            table = pyarrow.Table.from_pandas(frame, preserve_index=False)
            if self._file is None:
                self._file = self._parquet.ParquetWriter(self._partial, table.schema)
            self._file.write_table(table.cast(self._file.schema))
        else:
            if self._file is None:
                opener = gzip.open if self.path.suffix == ".gz" else open
                self._file = opener(self._partial, "wt", encoding="utf-8", newline="")
            frame.to_csv(
                self._file,
                index=False,
                header=self.rows == 0,
                sep="\t" if ".tsv" in self.path.suffixes else ",",
            )
        self.rows += len(frame)

    def __exit__(self, kind: Any, *_: Any) -> None:
        if self._file is not None:
            self._file.close()
            if kind is None:
                self._partial.replace(self.path)
            else:
                self._partial.unlink()
