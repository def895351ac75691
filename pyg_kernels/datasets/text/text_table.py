"""Texts in tables: with named columns, or in the CSV form of the large classification sets."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING

from pyg_kernels.datasets.public_file import find_file, read_lines
from pyg_kernels.datasets.text.corpus import TextCorpus, with_parts
from pyg_kernels.datasets.text.vocabulary import tokenize
from pyg_kernels.tables import FileError, find_column, read_table, shortened, stream_table

if TYPE_CHECKING:
    from pandas import DataFrame

ESCAPE = re.compile(r'\\([n"])')
ROWS = 1 << 16  # read at a time


def unescape(text: str) -> str:
    r"""Replaces ``\n`` by a line break and ``\"`` by a quote; some public sets contain these."""
    return ESCAPE.sub(lambda match: "\n" if match[1] == "n" else '"', text)


class TextCSV(TextCorpus):
    r"""Texts in the CSV form of the large text classification sets (Zhang et al. 2015).

    AG News, DBpedia, Yahoo Answers and Yelp have this form. Files have no header. Each row has the
    number of a class, from 1, and one or more cells of text (title and text; question, details and
    best answer), which are joined. Quotes within a cell are doubled, and cells may contain line
    breaks. :func:`~pyg_kernels.datasets.text.tokenize` splits the texts into words.

    Args:
        path: the training file, or a folder that holds ``train.csv``, ``test.csv`` and optionally
            ``classes.txt``. Files whose names end in ``.gz`` are decompressed.
        test: the test file. If ``path`` is a file and there is no test file, a random share of each
            class of ``path`` becomes the test part.
        classes: the names of classes 1, 2, ..., or a file with one name on each line. By default,
            ``classes.txt`` beside the training file is read; without it, numbers are the names.
        test_fraction: the share of each class that is drawn if there is no test file, rounded
            down.
        seed: the seed of the draw.
        lower: whether to write all words in lower case, as GloVe's vectors do.
        clean: a function applied to each text before it is split into words. By default, ``\n``
            and ``\"``, which some of the sets contain, become a line break and a quote.

    Raises:
        FileNotFoundError: if a file does not exist.
        ValueError: if a file is not a CSV file of this form in UTF-8; a row has no text, more cells
            than the first row, or a class that is not a whole number from 1 or has no name; there
            is only one class; or an argument does not fit. Rows are named by file and line.

    Example:
        >>> import tempfile
        >>> from pathlib import Path
        >>> from pyg_kernels.datasets import TextCSV
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     _ = (Path(folder) / "train.csv").write_text('"1","A fine film."\n"2","Dull."\n')
        ...     _ = (Path(folder) / "test.csv").write_text('"1","Fine!"\n')
        ...     corpus = TextCSV(folder, classes=["good", "bad"])
        >>> corpus.part("train")
        [['a', 'fine', 'film', '.'], ['dull', '.']]

    See Also:
        :class:`TextCorpus`, the base class; :class:`Vocabulary` and :class:`TextLoader`.
    """

    def __init__(
        self,
        path: str | Path,
        test: str | Path | None = None,
        classes: Sequence[str] | str | Path | None = None,
        test_fraction: float = 0.2,
        seed: int = 0,
        lower: bool = True,
        clean: Callable[[str], str] = unescape,
    ) -> None:
        files = part_files(path, test)
        names = _class_names(classes, files[0].parent)
        read = [_read(file, names, lower, clean) for file in files]
        super().__init__(*with_parts(read, test_fraction, seed, files[0], "official test part"))


def part_files(path: str | Path, test: str | Path | None = None) -> list[Path]:
    """The training file and, if there is one, the test file; a folder must have both."""
    path = Path(path).expanduser()
    if not path.is_dir():
        return [path] if test is None else [path, Path(test).expanduser()]
    if test is not None:
        raise ValueError(f"test goes with a training file, but {path} is a folder")
    return [find_file(path, name) or path / name for name in ("train.csv", "test.csv")]


def _class_names(classes: Sequence[str] | str | Path | None, folder: Path) -> list[str]:
    """The names of classes 1, 2, ...; an empty list if their numbers are their names."""
    classes = find_file(folder, "classes.txt") if classes is None else classes
    if classes is None:
        return []
    if isinstance(classes, (str, Path)):
        classes = "\n".join(read_lines(classes, "utf-8")).rstrip().split("\n")
    names = [name.strip() for name in classes] or [""]  # as of an empty file
    for number, name in enumerate(names, start=1):
        if not name or name in names[: number - 1]:
            raise ValueError(f"class {number} has the name {name!r}, expected one of its own")
    return names


def _read(
    path: Path, names: Sequence[str], lower: bool, clean: Callable[[str], str]
) -> tuple[list[list[str]], list[str]]:
    """The words and the class of each text of a file."""
    texts: list[list[str]] = []
    labels: list[str] = []
    words: dict[str, str] = {}  # each word is stored once: large sets have few different words
    for frame in stream_table(path, ROWS, header=False, strict=True):
        for line, label, *cells in frame.itertuples(name=None):
            where = f"{path}, line {line}"
            if not cells:
                raise FileError(f"{where}: 1 cell, expected a class and at least one text")
            labels.append(_label(label, names, where))
            text = tokenize(clean(" ".join(cells)), lower)
            if not text:
                raise FileError(f"{where}: no text")
            texts.append([words.setdefault(word, word) for word in text])
    return texts, labels


def _label(cell: str, names: Sequence[str], where: str) -> str:
    """The name of the class whose number is in a cell."""
    number = cell.strip()
    if not (number.isascii() and number.isdecimal()) or int(number) < 1:
        raise FileError(
            f"{where}: the class must be a whole number from 1, got {shortened(cell, 40)!r} "
            "(the columns of a file with a header are to be named)"
        )
    if not names:
        return str(int(number))
    if int(number) > len(names):
        raise FileError(f"{where}: class {int(number)} has no name; there are {len(names)} names")
    return names[int(number) - 1]


class TextTable(TextCorpus):
    """Texts and their classes in a CSV, TSV or Parquet file whose columns have names.

    :func:`~pyg_kernels.datasets.text.tokenize` splits the texts into words.

    Args:
        path: the training file, see :func:`read_text_table`, or a folder that holds ``train.csv``
            and ``test.csv``.
        test: the test file. If there is none, a random share of each class becomes the test part.
        text_column: the column of the texts, or several columns, which are joined.
        label_column: the column of the class names; there must be at least two classes.
        test_fraction, seed, lower: as in :class:`TextCSV`.
        encoding: the encoding of the files.

    Raises:
        OSError: if a file does not exist.
        ValueError: if a file is not such a table, a row has no text or no class, there is only one
            class, or a class of the test part has no training text.
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
        files, read = part_files(path, test), []
        for file in files:
            table = read_text_table(file, [*columns, label_column], encoding)
            words = [tokenize(text, lower) for text in joined(table, columns)]
            classes = [label.strip() for label in table[label_column]]
            for line, text, label in zip(table.index, words, classes, strict=True):
                if not text or not label:
                    raise FileError(f"{file}, line {line}: no {'class' if text else 'text'}")
            read.append((words, classes))
        said = "given test part", f" in column {label_column!r}"
        super().__init__(*with_parts(read, test_fraction, seed, files[0], *said))


def read_text_table(path: str | Path, columns: Sequence[str], encoding: str = "utf-8") -> DataFrame:
    """Reads a table; the columns asked for become strings, which are empty for missing cells.

    Args:
        path: a CSV, compressed or not, or a Parquet file; see
            :func:`~pyg_kernels.tables.stream_table`.
        columns: the names of columns that the table must have.
        encoding: the encoding of the file.

    Raises:
        OSError: if the file cannot be read.
        FileError: if the file is not such a table, has no rows, or lacks one of the columns.
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
    """The text of each row: its cells in some columns, joined by spaces."""
    return [" ".join(cells) for cells in table[list(columns)].itertuples(index=False)]
