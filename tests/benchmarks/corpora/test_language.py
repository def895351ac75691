"""Corpora as streams of word numbers, their batches, and Python's documentation as a corpus."""

import sys
import sysconfig
from pathlib import Path

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from benchmarks.corpora.language import LanguageCorpus, LanguageLoader, OwnText, TextStreams
from benchmarks.corpora.python_documentation import PythonDocumentation
from tests.benchmarks.small_data import write_file
from tests.datasets.conftest import present

TRAIN = " the cat <unk> \n the cat sat \n"
WIKI = " \n = Cats = \n \n The cat <unk> . \n"


def write(folder: Path, pattern: str, **texts: str) -> Path:
    for part, text in texts.items():
        write_file(folder / pattern.format(part), text)
    return folder


@pytest.mark.parametrize("pattern", ["ptb.{}.txt", "ptb.{}.txt.gz", "{}.txt", "wiki.{}.tokens.gz"])
def test_lines_are_read_one_after_the_other(tmp_path: Path, pattern: str) -> None:
    write(tmp_path, pattern, train=TRAIN, valid=" the dog sat \n", test=" a cat \n")
    corpus = LanguageCorpus(tmp_path)
    assert corpus.vocabulary.words == ["<unk>", "<eos>", "the", "cat", "sat"]
    streams = {part: ids.tolist() for part, ids in corpus.streams.items()}
    train, valid, test = [2, 3, 0, 1, 2, 3, 4, 1], [2, 0, 4, 1], [0, 3, 1]
    assert streams == {"train": train, "valid": valid, "test": test}
    assert corpus.unknown == {"train": 0, "valid": 1, "test": 1}
    assert corpus.name == {"p": "ptb", "{": "text", "w": "wikitext"}[pattern[0]]


def test_the_first_family_with_a_training_part_is_read_with_its_empty_lines(tmp_path: Path) -> None:
    write(tmp_path, "{}.txt", train="a a", valid="a", test="a")
    write(tmp_path, "wiki.{}.tokens", valid=WIKI, test=WIKI)
    assert LanguageCorpus(tmp_path).name == "text"
    corpus = LanguageCorpus(write(tmp_path, "wiki.{}.tokens", train=WIKI))
    words = corpus.vocabulary.decode(corpus.streams["test"])
    assert " ".join(words) == "<eos> = Cats = <eos> <eos> The cat <unk> . <eos>"


def test_the_unknown_word_occurs_in_training() -> None:
    parts = {"train": [["a", "a", "b"]], "valid": [["a", "<unk>", "c"]], "test": [["b"]]}
    corpus = TextStreams(parts)
    assert corpus.vocabulary.words == ["<unk>", "<eos>", "a"]
    assert corpus.unknown == {"train": 1, "valid": 1, "test": 1}
    assert corpus.streams["valid"].tolist() == [2, 0, 0, 1]
    assert len(TextStreams(parts, min_count=1).vocabulary) == 4
    assert TextStreams(parts, min_count=1, max_size=3).vocabulary.words[-1] == "a"
    other = TextStreams(parts | {"test": [["b"], ["b"]]})
    assert corpus.digest() == TextStreams(parts).digest() != other.digest()
    # A word that is written like the padding word is an ordinary word.
    vocabulary = corpus.vocabulary.build([["<pad>", "<eos>"]]).extended(["x"])
    assert vocabulary.words == ["<unk>", "<eos>", "<pad>", "x"]


def test_what_is_missing_is_named(tmp_path: Path) -> None:
    def refused(said: str) -> None:
        with pytest.raises((FileNotFoundError, ValueError), match=said):
            LanguageCorpus(tmp_path)

    refused(r"ptb.train.txt, wiki.train.tokens, train.txt")
    write(tmp_path, "wiki.{}.tokens", train="a", test="a")
    refused(r"has no file wiki.valid.tokens or .*\.gz")
    write(tmp_path, "wiki.{}.tokens", valid=" \n \n")
    refused(r"wiki.valid.tokens has no words")


def test_encodings_are_as_given(tmp_path: Path) -> None:
    for part in ("train", "valid", "test"):
        (tmp_path / f"{part}.txt").write_bytes("\ufeffé a é a\n".encode("utf-16-le"))
    with pytest.raises(ValueError, match=r"train.txt is not in the encoding utf-8"):
        LanguageCorpus(tmp_path)
    assert LanguageCorpus(tmp_path, "utf-16").vocabulary.words[2:] == ["é", "a"]
    file = tmp_path / "own.txt"
    file.write_bytes("a b\n".encode("utf-16-le"))
    with pytest.raises(
        ValueError, match=r"own.txt is not in the encoding utf-8: it has zero bytes"
    ):
        OwnText(file, "utf-8")
    file.write_bytes("\ufeff".encode() + b"a <unk>, b\n" * 10)
    text = OwnText(file, "UTF-8")
    assert text.vocabulary.words == ["<unk>", "<eos>", "a", ",", "b"]
    assert text.streams["test"].tolist() == [2, 0, 3, 4, 1]
    assert text.unknown == dict.fromkeys(("train", "valid", "test"), 0)


def test_the_real_corpora(real_data: Path, tmp_path: Path) -> None:
    root = present(real_data / "text" / "ptb")
    corpus = LanguageCorpus(root)
    assert len(corpus.vocabulary) == 10_000
    sizes = {part: len(ids) for part, ids in corpus.streams.items()}
    assert sizes == {"train": 929_589, "valid": 73_760, "test": 82_430}
    assert set(corpus.unknown.values()) == {0}
    root = present(real_data / "text" / "wikitext2_small")
    for part, source in (("train", "valid"), ("valid", "valid"), ("test", "test")):
        (tmp_path / f"wiki.{part}.tokens.gz").symlink_to(root / f"wiki.{source}.tokens.gz")
    corpus = LanguageCorpus(tmp_path)
    sizes = {part: len(ids) for part, ids in corpus.streams.items()}
    assert sizes == {"train": 217_646, "valid": 217_646, "test": 245_569}
    assert corpus.unknown["valid"] == 0 < corpus.unknown["test"]


def test_streams_go_on_from_batch_to_batch() -> None:
    loader = LanguageLoader(torch.arange(22), batch_size=3, steps=3)
    first, second, last = loader
    assert len(loader) == 3 and last.ids.shape == (1, 3)
    assert first.ids.tolist() == [[0, 7, 14], [1, 8, 15], [2, 9, 16]]
    assert second.ids.t().tolist() == [[3, 4, 5], [10, 11, 12], [17, 18, 19]]
    for ids, targets in loader:
        assert torch.equal(targets, ids + 1)
    # Words that do not fill a step of all streams are left out. Few words make fewer streams.
    ((ids, _),) = LanguageLoader(torch.arange(22), batch_size=5, steps=35)
    assert ids.t().flatten().tolist() == list(range(20))
    ((ids, _),) = LanguageLoader(torch.arange(4), batch_size=20)
    assert ids.tolist() == [[0, 1, 2]]


@given(st.integers(1, 40), st.integers(1, 12), st.integers(1, 9))
def test_an_evaluation_predicts_every_word_once(words: int, batch_size: int, steps: int) -> None:
    stream = torch.arange(100, 100 + words)
    loader = LanguageLoader(stream, batch_size, steps, whole=True)
    ids, targets = (torch.cat(each).t() for each in zip(*loader, strict=True))
    counted = targets != -100
    assert targets[counted].tolist() == stream.tolist()
    assert ids[counted].tolist() == [1, *stream[:-1].tolist()]  # begins with an end of line
    # A stream is padded only at its end.
    assert bool((counted[:, 1:] <= counted[:, :-1]).all())


def test_drawn_numbers_of_steps() -> None:
    few = LanguageLoader(torch.arange(2001), 1, 2, vary=True)
    assert min(len(batch.ids) for batch in list(few)[:-1]) == 5

    def sizes(epoch: int, seed: int = 0) -> list[int]:
        loader = LanguageLoader(torch.arange(100_001), 1, 70, vary=True, seed=seed)
        loader.set_epoch(epoch)
        batches = list(loader)
        assert len(loader) == len(batches)
        assert torch.equal(torch.cat([b.ids for b in batches]).flatten(), torch.arange(100_000))
        return [len(batch.ids) for batch in batches][:-1]

    drawn = sizes(0)
    assert drawn == sizes(0) and drawn not in (sizes(1), sizes(0, seed=1))
    assert sizes(0, seed=2**62)
    numbers = torch.tensor(drawn, dtype=torch.float64)
    usual = numbers[numbers > 52.5]
    assert 0.02 < 1 - len(usual) / len(numbers) < 0.08
    assert abs(usual.mean().item() - 69.5) < 1 and 4 < usual.std().item() < 6
    assert abs(numbers[numbers < 52.5].mean().item() - 34.5) < 2


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


def test_docstrings_are_read_in_their_order_and_a_paragraph_once(tmp_path: Path) -> None:
    """From two modules, with 7 and 493 paragraphs, beside files that contribute nothing."""
    write_file(tmp_path / "a.py", MODULE)
    with pytest.raises(ValueError, match=r"has 7 paragraphs .* expected at least 500"):
        PythonDocumentation(tmp_path)
    numbered = "\n\n".join(f"line {number}" for number in range(493))
    write_file(tmp_path / "b.py", f'"""{numbered}"""')
    write_file(tmp_path / "c.py", b"\x00")
    write_file(tmp_path / "d.py", "def 3")
    write_file(tmp_path / "package/e.py", '"""In a package."""')
    corpus = PythonDocumentation(tmp_path, min_count=1)
    own = "the module .|its names .|a class .|a method , which is longer than the class ."
    found = lines(corpus, "train")
    assert found[:7] == f"{own}|what is within it .|another|one .".split("|")
    assert found[7:] == [f"line {number}" for number in range(393)]
    assert lines(corpus, "valid") == lines(corpus, "test") == ["line <unk>"] * 50
    assert corpus.unknown["test"] == 50
    # Repeated paragraphs are left out: subclasses repeat docstrings, and modules licences.
    write_file(tmp_path / "z.py", '"""line 3\n\nline 4\n\n*line* 5"""')
    assert PythonDocumentation(tmp_path, min_count=1).digest() == corpus.digest()
    # The topics of pydoc come first.
    topics = "# Made\ntopics = {'b': 'Two\\n', 'a': 'One *\\n***'}\n"
    write_file(tmp_path / "pydoc_data/topics.py", topics)
    found = lines(PythonDocumentation(tmp_path, min_count=1), "train")
    assert found[:3] == ["one", "two", "the module ."]


def test_the_running_python_has_it(tmp_path: Path) -> None:
    source = Path(sysconfig.get_path("stdlib"))
    for name in ("argparse.py", "pydoc_data"):  # reading all of it takes seconds
        if not (source / name).exists():
            pytest.skip(f"this Python has no {name}")
        (tmp_path / name).symlink_to(source / name)
    before = set(sys.modules)
    corpus = PythonDocumentation(tmp_path)
    assert "parser" in corpus.vocabulary
    assert len(corpus.streams["train"]) > 50_000
    assert "pydoc_data.topics" not in set(sys.modules) - before
