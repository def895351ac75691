"""The documentation that ships with Python, as a text for language models."""

import ast
import re
import sysconfig
from collections.abc import Iterator
from pathlib import Path

from benchmarks.corpora.language import TextStreams
from pyg_kernels.datasets.text.corpus import PARTS
from pyg_kernels.datasets.text.vocabulary import tokenize

TOPICS = "pydoc_data/topics.py"
MARKUP = str.maketrans("", "", "*`")  # of emphasis and of code
BLOCK = 50  # lines
TURN = 10  # of this many consecutive blocks, the last two validate and test
MAX_SIZE = 10_000  # of the vocabulary

Definition = ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef


class PythonDocumentation(TextStreams):
    """The language reference and the docstrings of the standard library.

    These are some 270,000 words for users without a corpus at hand. They are read from the files of
    the running Python, without importing them. The topics of ``help()`` come first, then the
    modules that are in no package, both in order of name. Each paragraph is a line of words in
    lower case, without marks of emphasis and underlines. Of equal paragraphs the first is kept. Of
    every ten blocks of 50 lines, the ninth is for validation and the tenth for testing. The text
    differs between versions of Python. The vocabulary has the 10,000 most frequent words.

    Args:
        root: the folder of the standard library; that of the running Python by default.
        min_count: see :class:`~benchmarks.corpora.language.TextStreams`.
    """

    def __init__(self, root: str | Path | None = None, min_count: int | None = None) -> None:
        root = Path(sysconfig.get_path("stdlib") if root is None else root).expanduser()
        lines = list(dict.fromkeys(words for text in _texts(root) for words in _paragraphs(text)))
        if len(lines) < BLOCK * TURN:
            raise ValueError(
                f"{root} has {len(lines)} paragraphs of documentation, expected at least "
                f"{BLOCK * TURN}: is it the standard library, with its sources?"
            )
        parts: dict[str, list[tuple[str, ...]]] = {part: [] for part in PARTS}
        for number, line in enumerate(lines):
            turn = number // BLOCK % TURN
            parts[{TURN - 2: "valid", TURN - 1: "test"}.get(turn, "train")].append(line)
        super().__init__(parts, "python", min_count, MAX_SIZE)


def _texts(root: Path) -> Iterator[str]:
    """The topics and the docstrings of each module that this version of Python can parse."""
    topics = root / TOPICS
    for path in (*filter(Path.is_file, [topics]), *sorted(root.glob("*.py"))):
        try:
            module = ast.parse(path.read_bytes())
        except (SyntaxError, ValueError):  # ValueError: a null byte
            continue
        yield from _topics(module) if path == topics else _docstrings(module)


def _topics(module: ast.Module) -> Iterator[str]:
    """The texts of a module that assigns a dictionary of them, in order of name."""
    for statement in module.body:
        if isinstance(statement, ast.Assign) and isinstance(statement.value, ast.Dict):
            topics = ast.literal_eval(statement.value)
            yield from (topics[name] for name in sorted(topics))


def _docstrings(node: ast.Module | Definition) -> Iterator[str]:
    """The docstrings of a module or a definition and of all definitions in it, in their order."""
    if text := ast.get_docstring(node):
        yield text
    for inner in node.body:
        if isinstance(inner, Definition):
            yield from _docstrings(inner)


def _paragraphs(text: str) -> Iterator[tuple[str, ...]]:
    """The words of each paragraph that has any letters or digits."""
    for paragraph in re.split(r"\n\s*\n", text.translate(MARKUP)):
        lines = [line for line in paragraph.splitlines() if any(map(str.isalnum, line))]
        if words := tuple(tokenize(" ".join(lines))):
            yield words
