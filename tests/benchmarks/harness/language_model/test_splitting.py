"""Running text to words as a vocabulary writes them."""

from pathlib import Path

import pytest

from benchmarks.corpora.language import LanguageVocabulary
from benchmarks.harness.language_model.splitting import WordSplitter
from pyg_kernels.datasets.text.lines import read_lines
from tests.datasets.conftest import present

PENN = (
    "mr. smith corp. third-quarter long-term so-called s&p at&t u.s. no. ill n't 's ' the of said "
    "profit rose to million cents share do it you a N $ & # 30-year"
)
WIKITEXT = "The species weighs H. St. kg N 12 well @-@ @,@ @.@ , . ( ) - 's n't"
PLAIN = "the ( ) , . - 3 long term do n't it 's"


def lines_of(folder: Path, part: str) -> list[list[str]]:
    path = present(folder / "text" / "ptb" / f"ptb.{part}.txt.gz")
    return [line.split() for line in read_lines(path)]


@pytest.mark.parametrize(
    ("vocabulary", "text", "expected"),
    [
        (PENN, "Mr. Smith of Smith Corp. said", "mr. smith of smith corp. said"),
        (PENN, "third-quarter profit, rose", "third-quarter profit rose"),
        (PENN, "(long-term) S&P's U.S.", "long-term s&p 's u.s."),
        (PENN, "up 3.2% to $12,345 million.", "up N N to $ N million"),
        (PENN, "it\u2019s ill-timed, don't", "it 's ill-timed do n't"),
        (PENN, "the 30-year -- no. 45-year", "the 30-year no. 45-year"),
        (PENN, "The N of <unk>", "the N of <unk>"),
        (PENN, "smith-don't", "smith-do n't"),
        (PENN, "x-y-u.s. x-u.s.", "x-y u.s. x u.s."),
        (WIKITEXT, "The well-known H. St.", "The well @-@ known H. St."),
        (WIKITEXT, "12,345.5 kg (N - 12).", "12 @,@ 345 @.@ 5 kg ( N - 12 ) ."),
        (WIKITEXT, "the species-", "the species -"),
        (PLAIN, "The long-term (3.5), it's.", "the long - term ( 3.5 ) , it 's ."),
        (f"{PLAIN} @-@", "long-term 12,345.5", "long @-@ term 12,345.5"),
        (f"{PLAIN} @,@", "long-term 12,345.5", "long - term 12 @,@ 345.5"),
        ("", "Hello, world", "hello world"),
        (PENN, " \n ", ""),
    ],
)
def test_words_are_written_as_the_vocabulary_writes_them(vocabulary, text, expected) -> None:
    assert WordSplitter(LanguageVocabulary(vocabulary.split()))(text) == expected.split()


@pytest.mark.parametrize(
    ("chunk", "expected"),
    [
        ("-" * 20_000, []),
        ("b-" * 10_000, ["b-" * 9_999 + "b"]),
        ("b-" * 10_000 + "don't", ["b-" * 10_000 + "do", "n't"]),
        ("x" * 20_000, ["x" * 20_000]),
        ("1," * 10_000, ["N"]),
    ],
    ids=["marks", "compound", "compound and more", "letters", "number"],
)
def test_chunks_of_any_length(chunk: str, expected: list[str]) -> None:
    assert WordSplitter(LanguageVocabulary(PENN.split()))(chunk) == expected


def test_a_part_of_the_penn_treebank_is_split_into_its_words(real_data: Path) -> None:
    split = WordSplitter(LanguageVocabulary.build(lines_of(real_data, "train")))
    for line in lines_of(real_data, "valid"):
        assert split(" ".join(line)) == line
        sentence = " ".join(word for word in line if word != "<unk>") + "."
        assert all(word in split.vocabulary for word in split(sentence))
