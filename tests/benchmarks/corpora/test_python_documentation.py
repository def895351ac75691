"""The documentation that ships with Python."""

import sys
import sysconfig
from pathlib import Path

import pytest

from benchmarks.corpora.python_documentation import PythonDocumentation
from tests.benchmarks.small_data import write_file

MODULE = '''"""The *module*.

=====

Its ``names``."""

class A:
    "A class."
    def f(self):
        "A method, which is longer than the class."
        def g(): "What is within it."
        return "no documentation"

async def h(): "Another\\n\\none."

x = "nothing"
'''


def lines(corpus: PythonDocumentation, part: str) -> list[str]:
    words = corpus.vocabulary.decode(corpus.streams[part])
    return [line.strip() for line in " ".join(words).split("<eos>")[:-1]]


@pytest.fixture
def library(tmp_path: Path) -> Path:
    """A module, 493 further paragraphs, and what is no documentation."""
    write_file(tmp_path / "a.py", MODULE)
    numbered = "\n\n".join(f"line {number}" for number in range(493))
    write_file(tmp_path / "b.py", f'"""{numbered}"""')
    write_file(tmp_path / "c.py", b"\x00")
    write_file(tmp_path / "d.py", "def 3")
    write_file(tmp_path / "package/e.py", '"""In a package."""')
    return tmp_path


def test_docstrings_are_read_in_their_order(library: Path) -> None:
    corpus = PythonDocumentation(library, min_count=1)
    found = lines(corpus, "train")
    own = "the module .|its names .|a class .|a method , which is longer than the class ."
    assert found[:7] == f"{own}|what is within it .|another|one .".split("|")
    assert found[7:] == [f"line {number}" for number in range(393)]
    assert lines(corpus, "valid") == ["line <unk>"] * 50
    assert len(lines(corpus, "test")) == 50
    assert corpus.unknown["test"] == 50


def test_a_paragraph_is_in_one_part_alone(library: Path) -> None:
    """Subclasses repeat docstrings, and modules their licences."""
    before = PythonDocumentation(library).digest()
    write_file(library / "z.py", '"""line 3\n\nline 4\n\n*line* 5"""')
    assert PythonDocumentation(library).digest() == before
    # Topics come first.
    topics = "# Made\ntopics = {'b': 'Two\\n', 'a': 'One *\\n***'}\n"
    write_file(library / "pydoc_data/topics.py", topics)
    found = lines(PythonDocumentation(library, min_count=1), "train")
    assert found[:3] == ["one", "two", "the module ."]


def test_a_folder_without_sources_is_refused(tmp_path: Path) -> None:
    write_file(tmp_path / "a.py", MODULE)
    with pytest.raises(ValueError, match=r"has 7 paragraphs .* expected at least 500"):
        PythonDocumentation(tmp_path)
    with pytest.raises(FileNotFoundError, match="nowhere is not a folder"):
        PythonDocumentation(tmp_path / "nowhere")


def test_the_running_python_has_it(tmp_path: Path) -> None:
    source = Path(sysconfig.get_path("stdlib"))
    for name in ("argparse.py", "pydoc_data"):  # all of it takes seconds
        if not (source / name).exists():
            pytest.skip(f"this Python has no {name}")
        (tmp_path / name).symlink_to(source / name)
    before = set(sys.modules)
    corpus = PythonDocumentation(tmp_path)
    assert "parser" in corpus.vocabulary
    assert len(corpus.streams["train"]) > 50_000
    assert "pydoc_data.topics" not in set(sys.modules) - before
