"""Texts in CSV files of classes and texts."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from pathlib import Path

from pyg_kernels.datasets.public_file import find_file
from pyg_kernels.datasets.text.corpus import TextCorpus, with_parts
from pyg_kernels.datasets.text.lines import read_lines
from pyg_kernels.datasets.text.tokens import tokenize
from pyg_kernels.tables import FileError, shortened, stream_table

ESCAPE = re.compile(r'\\([n"])')
ROWS = 1 << 16  # read at a time


def unescape(text: str) -> str:
    r"""A text with ``\n`` as a line break and ``\"`` as a quote, as some public sets have."""
    return ESCAPE.sub(lambda match: "\n" if match[1] == "n" else '"', text)


class TextCSV(TextCorpus):
    r"""Texts in the CSV form of the large text classification sets (Zhang et al. 2015).

    AG News, DBpedia, Yahoo Answers and Yelp come in it: files without a header, whose rows are the
    number of a class, from 1, and one or more cells of text (title and text; question, its details
    and the best answer), which are joined. Quotes within a cell are doubled, and cells may have
    line breaks. :func:`~pyg_kernels.datasets.text.tokenize` splits the texts into words.

    Args:
        path: the training part, or a folder that holds ``train.csv``, ``test.csv`` and perhaps
            ``classes.txt``. Files whose names end in ``.gz`` are decompressed.
        test: the test part. Where ``path`` is a file and there is none, a share of each class of it
            is drawn at random to test on.
        classes: the names of classes 1, 2, ..., or a file that has one on each line; None for
            ``classes.txt`` beside the training part, and where there is none for their numbers.
        test_fraction: the share that is drawn where there is no test part, rounded down in each
            class.
        seed: of the draw.
        lower: whether to write all words in lower case, as GloVe's vectors do.
        clean: what to do with a text before it is split into words; by default ``\n`` and ``\"``,
            which some of the sets have, become a line break and a quote.

    Raises:
        FileNotFoundError: if a file is not there.
        ValueError: if a file is not such a CSV file in UTF-8; a row has no text, a class that is
            not a whole number from 1 or that has no name, or more cells than the first; or an
            argument does not fit. Rows are named by file and line.

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
        :class:`TextCorpus`, what can be done with it; :class:`Vocabulary` and :class:`TextLoader`.
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
        train, test = _files(path, test)
        names = _class_names(classes, train)
        read = [_read(file, names, lower, clean) for file in (train, test) if file is not None]
        super().__init__(*with_parts(read, test_fraction, seed, train.name, "official test part"))


def _files(path: str | Path, test: str | Path | None) -> tuple[Path, Path | None]:
    """The files of the training and the test part."""
    path = Path(path).expanduser()
    if not path.is_dir():
        return path, None if test is None else Path(test).expanduser()
    if test is not None:
        raise ValueError(f"test goes with a training file, but {path} is a folder")
    return _in_folder(path, "train.csv"), _in_folder(path, "test.csv")


def _in_folder(folder: Path, name: str) -> Path:
    file = find_file(folder, name)
    if file is None:
        raise FileNotFoundError(f"{folder} has no file {name} or {name}.gz")
    return file


def _class_names(classes: Sequence[str] | str | Path | None, train: Path) -> list[str] | None:
    classes = find_file(train.parent, "classes.txt") if classes is None else classes
    if classes is None:
        return None
    source = "classes"
    if isinstance(classes, (str, Path)):
        source, classes = str(classes), read_lines(classes, "utf-8")
    names = [name.strip() for name in classes]
    while names and not names[-1]:
        names.pop()
    for number, name in enumerate(names, start=1):
        if not name:
            raise ValueError(f"{source}: class {number} has no name")
        if name in names[: number - 1]:
            raise ValueError(f"{source}: two classes have the name {name!r}")
    if not names:
        raise ValueError(f"{source} has no names of classes")
    return names


def _read(
    path: Path, names: Sequence[str] | None, lower: bool, clean: Callable[[str], str]
) -> tuple[list[list[str]], list[str]]:
    """The words and the class of each text of a file."""
    texts: list[list[str]] = []
    labels: list[str] = []
    words: dict[str, str] = {}  # each word once: large sets have few different ones
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


def _label(cell: str, names: Sequence[str] | None, where: str) -> str:
    """The name of the class that a cell gives the number of."""
    number = cell.strip()
    if not (number.isascii() and number.isdecimal()) or int(number) < 1:
        raise FileError(
            f"{where}: the class must be a whole number from 1, got {shortened(cell, 40)!r} "
            "(the columns of a file with a header are to be named)"
        )
    if names is None:
        return str(int(number))
    if int(number) > len(names):
        raise FileError(f"{where}: class {int(number)} has no name; there are {len(names)} names")
    return names[int(number) - 1]
