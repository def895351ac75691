"""Texts with classes and parts: made here, of CSV files of the form of AG News, and of tables."""

import gzip
from pathlib import Path

import pandas
import pytest
import torch

from pyg_kernels.datasets.text import TextCorpus, TextCSV, TextTable, read_text_table

TEXTS = [["w", str(k)] for k in range(40)]
LABELS = ["a", "b", "b", "b"] * 10
PARTS = {"train": range(35), "test": range(35, 40)}


def test_holds_out_a_share_of_each_class() -> None:
    corpus, again, other = (TextCorpus(TEXTS, LABELS, PARTS) for _ in range(3))
    for one, seed in ((corpus, 3), (again, 3), (other, 4)):
        one.hold_out(0.2, seed=seed)
    train, valid = corpus.parts["train"], corpus.parts["valid"]
    assert sorted([*train.tolist(), *valid.tolist()]) == list(range(35))
    assert corpus.labels[valid].bincount().tolist() == [1, 5]  # of 9 and 26
    assert corpus.parts["test"].tolist() == list(range(35, 40))
    assert "20% of each class held out of training (seed 3)" in corpus.split
    assert torch.equal(again.parts["valid"], valid)
    assert not torch.equal(other.parts["valid"], valid)
    corpus.hold_out(0.5)  # it has one now
    assert torch.equal(corpus.parts["valid"], valid)


def test_holding_out_keeps_a_text_of_each_class_or_is_refused() -> None:
    corpus = TextCorpus([["x"]] * 4, ["a", "b", "b", "a"], {"train": [0, 1, 2], "test": [3]})
    corpus.hold_out(0.9)
    assert corpus.labels[corpus.parts["train"]].tolist() == [0, 1]
    small = TextCorpus([["x"]] * 3, ["a", "a", "a"], {"train": [0, 1], "test": [2]})
    with pytest.raises(ValueError, match=r"too few of the 2 training texts to hold 0\.1 of"):
        small.hold_out(0.1)
    with pytest.raises(ValueError, match="between 0 and 1, got 1"):
        small.hold_out(1)


def test_a_digest_tells_texts_classes_and_parts_apart() -> None:
    digests = {
        TextCorpus(TEXTS, LABELS, PARTS).digest(),
        TextCorpus([["v", "0"], *TEXTS[1:]], LABELS, PARTS).digest(),
        TextCorpus(TEXTS, ["b", *LABELS[1:]], PARTS).digest(),
        TextCorpus(TEXTS, LABELS, {"train": range(34), "test": range(34, 40)}).digest(),
    }
    assert len(digests) == 4
    assert TextCorpus(TEXTS, LABELS, PARTS).digest() in digests


def test_classes_that_are_integers_stand_by_value() -> None:
    for labels, classes in (
        ("10 9 1 2", "1 2 9 10"),
        ("1 -1 0 -2 -10", "-10 -2 -1 0 1"),
        ("7 007 10", "007 7 10"),
        ("10 9 1.5", "1.5 10 9"),
        ("10 9 \u0661", "10 9 \u0661"),
    ):
        names = labels.split()
        parts = {"train": range(len(names)), "test": [len(names)]}
        corpus = TextCorpus([["x"]] * (len(names) + 1), [*names, names[0]], parts)
        assert corpus.classes == tuple(classes.split())
        assert [corpus.classes[k] for k in corpus.labels] == [*names, names[0]]


def test_bad_corpora_are_refused() -> None:
    two, apart = [["x"]] * 2, {"train": [0], "test": [1]}
    for texts, labels, parts, error, said in (
        ([["x"]], "ab", {"train": [0], "test": [0]}, ValueError, "labels must be 1"),
        ([["x"], []], "aa", apart, ValueError, "text 1 has no words"),
        (two, "aa", {**apart, "dev": [1]}, ValueError, "got train, test, dev"),
        (two, "aa", {"train": [0, 1], "test": []}, ValueError, "test part has no texts"),
        (two, "aa", {"train": [0, 1], "test": [1]}, ValueError, "text 1 is in more than one"),
        (two, "ab", apart, ValueError, "no text of class 'b'"),
        (two, "aa", {**apart, "train": [-1]}, IndexError, "train part has .* beyond the 2 texts"),
        (["how far", "who"], "aa", apart, TypeError, "of words, got the string 'how far'"),
    ):
        with pytest.raises(error, match=said):
            TextCorpus(texts, list(labels), parts)


# Files of a class and cells of text, as those of AG News, DBpedia, Yahoo Answers and Yelp

TRAIN = '"2","Two ""quotes""","It\'s\nover two lines"\n1,plain,\n\n"2"," ","b"\n'
TEST = '"1","A test",""\r\n"2","b","c"\r\n'


def write(path: Path, content: str) -> Path:
    data = content.encode()
    path.write_bytes(gzip.compress(data) if path.suffix == ".gz" else data)
    return path


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    write(tmp_path / "train.csv", TRAIN)
    write(tmp_path / "test.csv.gz", TEST)
    return tmp_path


def test_reads_a_folder_of_parts(folder: Path) -> None:
    corpus = TextCSV(folder)
    texts = 'two " quotes " it \'s over two lines', "plain", "b", "a test", "b c"
    assert corpus.texts == [text.split() for text in texts]
    assert (corpus.classes, corpus.labels.tolist()) == (("1", "2"), [1, 0, 1, 0, 1])
    assert corpus.parts["train"].tolist() == [0, 1, 2]
    assert corpus.parts["test"].tolist() == [3, 4]
    assert corpus.split == "official test part"
    assert repr(corpus) == "TextCSV(5 texts, 2 classes, train=3, test=2)"
    files = TextCSV(folder / "train.csv", folder / "test.csv.gz", lower=False)
    assert files.digest() != corpus.digest()
    assert files.texts[3] == ["A", "test"]


def test_names_of_classes(folder: Path) -> None:
    given = TextCSV(folder, classes=["Sports", "Arts"])
    assert given.classes == ("Arts", "Sports")
    assert given.labels.tolist() == [0, 1, 0, 1, 0]
    write(folder / "classes.txt", "Sports\nArts\n\n")
    assert TextCSV(folder).digest() == given.digest()
    assert TextCSV(folder / "train.csv", folder / "test.csv.gz").digest() == given.digest()
    write(folder / "names", "Tennis\r\nArts\r\n")
    assert TextCSV(folder, classes=folder / "names").classes == ("Arts", "Tennis")
    for names, said in (
        ("Sports\n", r"train.csv, line 1: class 2 has no name; there are"),
        ("Sports\n\nArts", "classes.txt.*class 2 has no name"),
        ("Arts\nArts", "classes.txt.*two classes have the name 'Arts'"),
        ("\n", "classes.txt.*has no names of classes"),
    ):
        write(folder / "classes.txt", names)
        with pytest.raises(ValueError, match=said):
            TextCSV(folder)


def test_yahoo_has_three_cells_of_text_and_escapes(tmp_path: Path) -> None:
    rows = '"1","Why?","","Because\\nof \\""this\\"" C:\\\\dos"\n"2","a","b","c"\n'
    write(tmp_path / "train.csv", rows)
    write(tmp_path / "test.csv", rows)
    corpus = TextCSV(tmp_path)
    words = 'why ? because of " this " c : \\ \\ dos'
    assert corpus.texts[0] == words.split()
    assert corpus.texts[1] == ["a", "b", "c"]
    raw = TextCSV(tmp_path, clean=lambda text: text.replace("\\", "/"))
    assert " ".join(raw.texts[0]) == 'why ? because / nof / " this / " c : / / dos'


def test_a_file_without_a_test_part_is_split_within_each_class(tmp_path: Path) -> None:
    path = write(tmp_path / "all.csv", "".join(f"{1 + (k % 4 > 0)},text {k}\n" for k in range(44)))
    corpus = TextCSV(path, seed=5)
    train, test = corpus.parts["train"], corpus.parts["test"]
    assert sorted([*train.tolist(), *test.tolist()]) == list(range(44))
    assert corpus.labels[test].bincount().tolist() == [2, 6]  # of 11 and 33
    assert corpus.split == "random 20% of each class of all.csv for testing (seed 5)"
    assert torch.equal(TextCSV(path, seed=5).parts["test"], test)
    assert not torch.equal(TextCSV(path, seed=6).parts["test"], test)
    half = TextCSV(path, test_fraction=0.5).parts["test"]
    assert corpus.labels[half].bincount().tolist() == [5, 16]
    with pytest.raises(ValueError, match="test_fraction must be between 0 and 1, got 1"):
        TextCSV(path, test_fraction=1)
    with pytest.raises(ValueError, match=r"too few of the 44 .*all.csv to draw 0.04 "):
        TextCSV(write(path, "1,a\n2,b\n" * 22), test_fraction=0.04)


def test_a_bad_row_is_named(tmp_path: Path) -> None:
    for row, said in (
        ("class,text", "train.csv, line 4: the class must be a whole number from 1, got 'cl"),
        ("0,text", "line 4: .*the class must be a whole number from 1, got '0'"),
        (",text", "line 4: .*must be a whole number from 1, got ''"),
        ("1", "train.csv, line 4: it has 1 cells, the first row 2"),
        ('1," \n "', "line 4: .*no text"),
    ):
        path = write(tmp_path / "train.csv", f'1,"of\ntwo lines"\n2,b\n{row}\n1,c\n')
        with pytest.raises(ValueError, match=said):
            TextCSV(path)


def test_a_bad_file_is_named(tmp_path: Path) -> None:
    path = tmp_path / "train.csv"
    with pytest.raises(FileNotFoundError, match=r"train.csv"):
        TextCSV(path)
    with pytest.raises(FileNotFoundError, match=r"has no file train.csv or train.csv.gz"):
        TextCSV(tmp_path)
    write(path, "1,a\n")
    with pytest.raises(FileNotFoundError, match=r"has no file test.csv or test.csv.gz"):
        TextCSV(tmp_path)
    with pytest.raises(ValueError, match="test goes with a training file"):
        TextCSV(tmp_path, path)
    with pytest.raises(ValueError, match=r"train.csv, line 1: 1 cell, expected a class"):
        TextCSV(write(path, "1;a\n"))
    write(tmp_path / "test.csv", "3,a\n")
    with pytest.raises(ValueError, match="the training part has no text of class '3'"):
        TextCSV(write(path, "1,a\n2,b\n"), tmp_path / "test.csv")


# Tables with named columns

ROWS = [{"text": f"a {k}, b", "more": "NA", "label": ("null", "1")[k % 2]} for k in range(10)]


@pytest.mark.parametrize("name", ["t.csv", "t.tsv", "t.csv.gz", "t.parquet"])
def test_tables_of_every_kind_say_the_same(tmp_path: Path, name: str) -> None:
    path, frame = tmp_path / name, pandas.DataFrame(ROWS)
    if name.endswith("parquet"):
        frame.to_parquet(path)
    else:
        frame.to_csv(path, index=False, sep="\t" if ".tsv" in name else ";")
    corpus = TextTable(path, text_column=["text", "more"], seed=1)
    assert corpus.texts[3] == ["a", "3", ",", "b", "na"]
    assert corpus.classes == ("1", "null")
    assert [corpus.classes[k] for k in corpus.labels] == [row["label"] for row in ROWS]
    assert {part: len(places) for part, places in corpus.parts.items()} == {"train": 8, "test": 2}
    assert corpus.split == f"random 20% of each class of {name} for testing (seed 1)"
    both = TextTable(path, path)
    assert (both.split, len(both.parts["test"])) == ("given test part", 10)


def test_a_bad_table_is_named(tmp_path: Path) -> None:
    for content, said in (
        ("words,label\na,b\n", "no column named 'text'; its columns are 'words', 'label'"),
        ("text,label\na\nb,c\n", "line 2: no class"),
        ("text,label\na,x\n ,y\n", "line 3: no text"),
        ("text,label\na,x\nb,x\n", "all texts of .* have the class 'x' in column 'label'"),
        ("text,label\na,x\nb,y\n", "too few of the 2 texts of t.csv to draw 0.2 .* a test file"),
    ):
        with pytest.raises(ValueError, match=said):
            TextTable(write(tmp_path / "t.csv", content))


def test_a_blank_line_of_one_column_is_an_empty_text(tmp_path: Path) -> None:
    for content, texts in (
        ("text\na\n\nb\n", ["a", "", "b"]),
        ("text,n\na,1\n\nb,2\n", ["a", "b"]),
    ):
        table = read_text_table(write(tmp_path / "t.csv", content), ["text"])
        assert table["text"].tolist() == texts
