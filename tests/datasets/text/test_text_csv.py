"""Texts in CSV files: the form of AG News, DBpedia, Yahoo Answers and Yelp."""

import gzip
from pathlib import Path

import pytest
import torch

from pyg_kernels.datasets.text import TextCSV

TRAIN = '"2","Two ""quotes""","It\'s\nover two lines"\n1,plain,\n\n"2"," ","b"\n'
TEST = '"1","A test",""\r\n"2","b","c"\r\n'


def write(path: Path, content: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
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
    assert corpus.texts == [
        ["two", '"', "quotes", '"', "it", "'s", "over", "two", "lines"],
        ["plain"],
        ["b"],
        ["a", "test"],
        ["b", "c"],
    ]
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
    write(folder / "classes.txt", "Sports\n")
    with pytest.raises(ValueError, match=r"train.csv, line 1: class 2 has no name; there are"):
        TextCSV(folder)
    for names, said in (
        ("Sports\n\nArts", "class 2 has no name"),
        ("Arts\nArts", "two classes have the name 'Arts'"),
        ("\n", "has no names of classes"),
    ):
        write(folder / "classes.txt", names)
        with pytest.raises(ValueError, match=f"classes.txt.*{said}"):
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


@pytest.mark.parametrize(
    ("row", "said"),
    [
        ("class,text", "train.csv, line 4: the class must be a whole number from 1, got 'cl"),
        ("0,text", "line 4: .*the class must be a whole number from 1, got '0'"),
        (",text", "line 4: .*must be a whole number from 1, got ''"),
        ("1", "train.csv, line 4: it has 1 cells, the first row 2"),
        ('1," \n "', "line 4: .*no text"),
    ],
)
def test_a_bad_row_is_named(tmp_path: Path, row: str, said: str) -> None:
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
