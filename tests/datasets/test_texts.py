"""Texts with classes, in memory and in tables; words, their numbers and their vectors."""

import gzip
from collections.abc import Sequence
from pathlib import Path

import pandas
import pytest
import torch

from pyg_kernels.datasets.text import (
    TextCorpus,
    TextCSV,
    TextTable,
    Vocabulary,
    find_glove,
    read_text_table,
    read_word_vectors,
    tokenize,
)
from tests.benchmarks.small_data import write_file

TEXTS = [["w", str(k)] for k in range(40)]
LABELS = ["a", "b", "b", "b"] * 10
PARTS = {"train": range(35), "test": range(35, 40)}


def held_out(fraction: float, seed: int = 0, labels: Sequence[str] = LABELS) -> TextCorpus:
    corpus = TextCorpus(TEXTS, labels, PARTS)
    corpus.hold_out(fraction, seed)
    return corpus


def test_holds_out_a_share_of_each_class() -> None:
    corpus, again, other = (held_out(0.2, seed) for seed in (3, 3, 4))
    train, valid = corpus.parts["train"], corpus.parts["valid"]
    assert sorted([*train.tolist(), *valid.tolist()]) == list(range(35))
    assert corpus.labels[valid].bincount().tolist() == [1, 5]  # of 9 and 26
    assert corpus.parts["test"].tolist() == list(range(35, 40))
    assert "20% of each class held out of training (seed 3)" in corpus.split
    assert torch.equal(again.parts["valid"], valid)
    assert not torch.equal(other.parts["valid"], valid)
    parts = {"train": range(700), "test": [700]}
    numbers = TextCorpus([["w"]] * 701, torch.arange(701) % 7, parts)
    numbers.hold_out(0.29)  # 28.999999999999996 of 100
    assert numbers.labels[numbers.parts["valid"]].bincount().tolist() == [29] * 7
    corpus.hold_out(0.5)  # it already has a validation part
    assert torch.equal(corpus.parts["valid"], valid)


def test_holding_out_keeps_a_text_of_each_class_or_is_refused() -> None:
    rare = held_out(0.99, labels=["a", *"b" * 39])
    assert rare.labels[rare.parts["train"]].tolist() == [0, 1]
    for fraction, said in (
        (0.01, "too few of the 35 training texts to hold 0.01 of"),
        (1, "got 1"),
    ):
        with pytest.raises(ValueError, match=said):
            held_out(fraction)


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
        (two, "aa", {"train": [0, 1], "test": []}, ValueError, "test part: indices is empty"),
        (two, "aa", {"train": [0, 1], "test": [1]}, ValueError, "text 1 is in more than one"),
        (two, "ab", apart, ValueError, "no text of class 'b'"),
        (two, "aa", {**apart, "train": [-3]}, IndexError, "the train part: index -3 .* 2 texts"),
        (two, "aa", {**apart, "train": [0.9]}, ValueError, "the train part: indices must be"),
        (["how far", "who"], "aa", apart, TypeError, "of words, got the string 'how far'"),
    ):
        with pytest.raises(error, match=said):
            TextCorpus(texts, list(labels), parts)


# Rows of a class and cells of text, like those of AG News, DBpedia, Yahoo Answers and Yelp

TRAIN = '"2","Two ""quotes""","It\'s\nover two lines"\n1,plain,\n\n"2"," ","b"\n'
TEST = '"1","A test",""\r\n"2","b","c"\r\n'


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    write_file(tmp_path / "train.csv", TRAIN)
    write_file(tmp_path / "test.csv.gz", TEST)
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
    write_file(folder / "classes.txt", "Sports\nArts\n\n")
    assert TextCSV(folder).digest() == given.digest()
    assert TextCSV(folder / "train.csv", folder / "test.csv.gz").digest() == given.digest()
    write_file(folder / "names", "Tennis\r\nArts\r\n")
    assert TextCSV(folder, classes=folder / "names").classes == ("Arts", "Tennis")
    for names, said in (
        ("Sports\n", r"train.csv, line 1: class 2 has no name; there are"),
        ("Sports\n\nArts", "class 2 has the name '', expected one of its own"),
        ("Arts\nArts", "class 2 has the name 'Arts', expected one of its own"),
        ("\n", "class 1 has the name ''"),
    ):
        write_file(folder / "classes.txt", names)
        with pytest.raises(ValueError, match=said):
            TextCSV(folder)
    with pytest.raises(ValueError, match="class 1 has the name ''"):
        TextCSV(folder, classes=[])


def test_yahoo_has_three_cells_of_text_and_escapes(tmp_path: Path) -> None:
    rows = '"1","Why?","","Because\\nof \\""this\\"" C:\\\\dos"\n"2","a","b","c"\n'
    write_file(tmp_path / "train.csv", rows)
    write_file(tmp_path / "test.csv", rows)
    corpus = TextCSV(tmp_path)
    words = 'why ? because of " this " c : \\ \\ dos'
    assert corpus.texts[0] == words.split()
    assert corpus.texts[1] == ["a", "b", "c"]
    raw = TextCSV(tmp_path, clean=lambda text: text.replace("\\", "/"))
    assert " ".join(raw.texts[0]) == 'why ? because / nof / " this / " c : / / dos'


def test_a_file_without_a_test_part_is_split_within_each_class(tmp_path: Path) -> None:
    path = write_file(
        tmp_path / "all.csv", "".join(f"{1 + (k % 4 > 0)},text {k}\n" for k in range(44))
    )
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
        TextCSV(write_file(path, "1,a\n2,b\n" * 22), test_fraction=0.04)


def test_a_bad_row_or_file_is_named(tmp_path: Path) -> None:
    path = tmp_path / "train.csv"
    with pytest.raises(FileNotFoundError, match=r"train.csv"):
        TextCSV(path)
    for rows, said in (
        ('1,"of\ntwo lines"\n2,b\nclass,text\n', "train.csv, line 4: the class must be a whole nu"),
        ("2,b\n0,text\n", "line 2: .*the class must be a whole number from 1, got '0'"),
        ("2,b\n,text\n", "line 2: .*must be a whole number from 1, got ''"),
        ("2,b\n1\n", "train.csv, line 2: it has 1 cells, the first row 2"),
        ('2,b\n1," \n "\n1,c\n', "line 2: .*no text"),
        ("1;a\n", "train.csv, line 1: 1 cell, expected a class"),
        ("1,a\n1,b\n", "all texts of .*train.csv have the class '1': two or more are needed"),
    ):
        with pytest.raises(ValueError, match=said):
            TextCSV(write_file(path, rows))
    write_file(path, "1,a\n2,b\n")
    with pytest.raises(FileNotFoundError, match=r"test.csv"):
        TextCSV(tmp_path)
    with pytest.raises(ValueError, match="test goes with a training file"):
        TextCSV(tmp_path, path)
    with pytest.raises(ValueError, match="the training part has no text of class '3'"):
        TextCSV(path, write_file(tmp_path / "test.csv", "3,a\n"))


# Tables with named columns

ROWS = [{"text": f"a {k}, b", "more": "NA", "label": ("null", "1")[k % 2]} for k in range(10)]


@pytest.mark.parametrize("name", ["t.tsv", "t.parquet"])
def test_a_table_with_named_columns(tmp_path: Path, name: str) -> None:
    path, frame = tmp_path / name, pandas.DataFrame(ROWS)
    frame.to_parquet(path) if "parquet" in name else frame.to_csv(path, index=False, sep="\t")
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
            TextTable(write_file(tmp_path / "t.csv", content))


def test_a_blank_line_of_one_column_is_an_empty_text(tmp_path: Path) -> None:
    for content, texts in (
        ("text\na\n\nb\n", ["a", "", "b"]),
        ("text,n\na,1\n\nb,2\n", ["a", "b"]),
    ):
        table = read_text_table(write_file(tmp_path / "t.csv", content), ["text"])
        assert table["text"].tolist() == texts


# Running text to words, words to numbers and back, and word vectors in both text formats

FEW = [["b", "a", "b"], ["c", "a"], ["b", "<unk>"]]
VOCABULARY = Vocabulary(["naïve", "absent", "3", ". . .", "to nan"])
EXPECTED = [[0, 0, 0], [0, 0, 0], [4, 5, 6], [0, 0, 0], [0.5, -1, 0.2], [1, 2, 3], [7, 8, 9]]
LINES = "3 0.5 -1 2e-1\n. . . 1 2 3\n<unk> 9 9 9\nto nan 7 8 9\nnaïve 4 5 6\n\u2028 7 8 9\n"
LINES += "<pad> 9 9 9\n"


def test_words_and_punctuation() -> None:
    for text, words in (
        ("Long-term (see [2])", "long - term ( see [ 2 ] )"),
        ("Don't say it's ours; they\u2019ve won't", "do n't say it 's ours ; they 've wo n't"),
        ("The U.S. lost $1,000.50, 3rd time.", "the u.s. lost $ 1,000.50 , 3rd time ."),
        ("'quoted' o'clock, ain't", "' quoted ' o ' clock , ai n't"),
        ("Zürich\n\t雨 _x_ \u00a0", "zürich 雨 _x_"),
        ("cafe\u0301, हिन्दी สวัสดี", "caf\u00e9 , हिन्दी สวัสดี"),
        (" \n", ""),
    ):
        assert tokenize(text) == words.split()
    assert tokenize("DON'T", lower=False) == ["DO", "N'T"]


def test_orders_by_frequency_and_then_by_occurrence() -> None:
    vocabulary = Vocabulary.build(FEW)
    assert vocabulary.words == ["<pad>", "<unk>", "b", "a", "c"]
    assert (vocabulary.padding, vocabulary.unknown, len(vocabulary)) == (0, 1, 5)
    assert [vocabulary[word] for word in ("b", "c", "z", "<unk>")] == [2, 4, 1, 1]
    assert "c" in vocabulary and "z" not in vocabulary
    assert repr(vocabulary) == "Vocabulary(5 words)"
    assert Vocabulary.build(FEW, min_count=2).words[2:] == ["b", "a"]
    assert Vocabulary.build(FEW, max_size=3).words[2:] == ["b"]
    ended = Vocabulary.build(FEW, max_size=4, specials=["</s>"])
    assert ended.words == ["<pad>", "<unk>", "</s>", "b"]
    longer = Vocabulary(["a"], specials=["</s>"])
    extended = longer.extended(["b", "a", "<pad>", "b", "c"])
    assert extended.words == ["<pad>", "<unk>", "</s>", "a", "b", "c"]
    assert len(longer) == 4


def test_wrong_vocabularies_are_refused() -> None:
    for name, least in (("min_count", 1), ("max_size", 2)):
        with pytest.raises(ValueError, match=f"{name} must be at least {least}, got {least - 1}"):
            Vocabulary.build(FEW, **{name: least - 1})
    with pytest.raises(ValueError, match="'a' occurs twice"):
        Vocabulary(["a", "b", "a"])
    for call in (Vocabulary.build, Vocabulary(["a"]).encode):
        with pytest.raises(TypeError, match="sequence of words, got the string 'how far'"):
            call([["a"], "how far"])
    for words in (("ab",), (["a"], "<s>")):
        with pytest.raises(TypeError, match="sequence of words, got the string"):
            Vocabulary(*words)


def test_encodes_texts_of_any_length() -> None:
    vocabulary = Vocabulary(["a", "b"])
    ids, ptr = vocabulary.encode([["b", "z"], [], ["a"]])
    assert ids.tolist() == [3, 1, 2]
    assert ptr.tolist() == [0, 2, 2, 3]
    assert vocabulary.decode(ids) == ["b", "<unk>", "a"]
    ids, ptr = vocabulary.encode([])
    assert (ids.tolist(), ptr.tolist()) == ([], [0])
    assert ids.dtype == ptr.dtype == torch.long


@pytest.mark.parametrize("header", ["", "7 3\n"], ids=["glove", "word2vec"])
@pytest.mark.parametrize("name", ["vectors.txt", "vectors.vec.gz"])
def test_reads_both_formats(tmp_path: Path, header: str, name: str) -> None:
    # word2vec's own program writes a space behind the last number.
    content = header + (LINES.replace("\n", " \n") if header else LINES)
    vectors, found = read_word_vectors(write_file(tmp_path / name, content), VOCABULARY)
    torch.testing.assert_close(vectors, torch.tensor(EXPECTED, dtype=torch.float32))
    assert found.tolist() == [False, False, True, False, True, True, True]


def test_a_bad_file_is_named_with_its_line(tmp_path: Path) -> None:
    for content, said in (
        ("", "is empty"),
        ("the\n", "at line 1: it has 0 numbers, not 2"),
        ("3 nan 1\n", "at line 1: a number of it is not finite"),
        ("the 1 2\na 1 2 3\n", "GloVe's text format, at line 2: it has more than 2 numbers"),
        ("the 1 2\na 1\n", "GloVe's text format, at line 2: it has 1 numbers, not 2"),
        ("2 2\nthe 1 2\na 1 2 3\n", "word2vec's text format, at line 3: it has more than 2 numb"),
        ("2 2\nthe 1 2\na 1\n", "word2vec's text format, at line 3: it has 1 numbers, not 2"),
        ("3 2\nthe 1 2\na 1 2\n", "at line 3: the file ends with 2 words, its first line says 3"),
        ("1 2\nabsent 1 x\n", "at line 2: could not convert"),
        ("1 0\nthe\n", "at line 1: it announces 0 numbers a word"),
        ("the 1 2 3\nbad 1 y z\nof 1 2 3\n", "at line 2: could not convert string to float: 'z'"),
        ("bad x y 3\nof 1 2 3\n", "at line 1: could not convert string to float: 'x'"),
        ("2 3\nthe 1 2 3\nbad x 2 3\n", "word2vec's text format, at line 3: could not convert"),
        (LINES.encode() + "é 1 2 3".encode("latin-1"), "line 8: 'utf-8' codec can't decode"),
        (gzip.compress(LINES.encode() * 500)[:60], "is not in GloVe's text format"),
    ):
        data = content.encode() if isinstance(content, str) else content
        path = tmp_path / ("vectors.txt.gz" if data.startswith(b"\x1f\x8b") else "vectors.txt")
        path.write_bytes(data)
        with pytest.raises(ValueError, match=f"{path.name} .*{said}"):
            read_word_vectors(path, VOCABULARY)
        with pytest.raises(FileNotFoundError):
            read_word_vectors(tmp_path / "nowhere.txt", VOCABULARY)


def test_finds_a_file_in_or_beside_the_root(tmp_path: Path) -> None:
    root, glove = tmp_path / "trec", tmp_path / "glove"
    root.mkdir()
    assert find_glove(root) is None
    glove.mkdir()
    for name in ("glove.6B.300d.txt", "glove.6B.100d.txt.gz", "notes.txt"):
        (glove / name).touch()
    assert find_glove(root) == glove / "glove.6B.100d.txt.gz"
    (root / "glove.folder.txt").mkdir()
    (root / "glove.mine.txt").touch()
    assert find_glove(root) == root / "glove.mine.txt"
