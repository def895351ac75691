"""TREC, SST, MR and AG News: small files, downloads without a network, and the real files."""

import gzip
import io
import zipfile
from hashlib import sha256
from pathlib import Path
from unittest.mock import ANY

import pytest
import torch

from benchmarks.corpora.ag_news import AGNews
from benchmarks.corpora.film_reviews import MR, SST, SST_FOLDER
from benchmarks.corpora.published_text import use_fold
from benchmarks.corpora.trec import TREC
from pyg_kernels.datasets import TextCorpus, public_file
from tests.benchmarks.small_data import write_file
from tests.datasets.conftest import present


@pytest.fixture
def serve(serve, monkeypatch):
    """Downloads may have any checksum."""
    monkeypatch.setattr(public_file, "file_sha256", lambda path: ANY)
    return serve


def sizes(corpus: TextCorpus) -> list[int]:
    return [len(places) for places in corpus.parts.values()]


TRAIN = (
    b"NUM:dist How far is it from Denver to Aspen ?\n"
    b"LOC:city Which city has a sister\xf0city in Japan ?\n"
    b"NUM:dist How far is the moon ?\n"
)
TEST = b"LOC:city What is the capital of Japan ?\n"


def test_trec_is_downloaded_once_and_read_in_latin_1(tmp_path: Path, serve) -> None:
    there = [tmp_path / "raw" / file.name for file in (TREC.train_file, TREC.test_file)]
    asked = serve({TREC.train_file.url: TRAIN, TREC.test_file.url: TEST})
    TREC(tmp_path)
    corpus = TREC(tmp_path)
    assert asked == [TREC.train_file.url, TREC.test_file.url]
    assert sorted(tmp_path.rglob("*.*")) == sorted(there)
    assert there[0].read_bytes() == TRAIN
    assert corpus.classes == ("LOC", "NUM")
    assert corpus.labels.tolist() == [1, 0, 1, 0]
    assert corpus.texts[0] == ["how", "far", "is", "it", "from", "denver", "to", "aspen", "?"]
    assert corpus.texts[1][4] == "sisterðcity"
    assert corpus.parts["train"].tolist() == [0, 1, 2]
    assert corpus.part("test") == [["what", "is", "the", "capital", "of", "japan", "?"]]
    fine = TREC(tmp_path, labels="fine")
    assert (fine.classes, fine.texts) == (("LOC:city", "NUM:dist"), corpus.texts)
    with pytest.raises(ValueError, match="labels must be 'coarse' or 'fine', got 'finest'"):
        TREC(tmp_path, labels="finest")
    # The same files compressed, in UTF-8 and under other names.
    for path, other in zip(there, ("train.txt.gz", "test.txt.gz"), strict=True):
        write_file(tmp_path / other, path.read_text("latin-1"))
        path.unlink()
    assert TREC(tmp_path).texts == corpus.texts
    for line in (b"NUM how far ?", b"how far ?", b"NUM:dist", b"", b"NUM:dist  "):
        (tmp_path / "TREC_10.label").write_bytes(TEST + line + b"\n")
        with pytest.raises(ValueError, match=r"line 2 of .*TREC_10.label is not 'COARSE:fine"):
            TREC(tmp_path)


SENTENCES = {
    "stsa.fine.train": "3 a Fine film\n0 dull .\n2 a film\n4 superb\n1 no\n",
    "stsa.fine.dev": "1 no film\n",
    "stsa.fine.test": "4 yes , superb\n",
}
PHRASES = "3 a Fine film\n3 Fine film\n3 Fine\n0 dull .\n0 dull\n2 .\n4 superb\n1 no\n"


@pytest.fixture
def sst_root(tmp_path: Path) -> Path:
    for name, text in SENTENCES.items():
        (tmp_path / name).write_text(text)
    return tmp_path


def test_phrases_take_the_place_of_the_training_sentences(sst_root: Path) -> None:
    for phrases in (False, None):
        corpus = SST(sst_root, phrases=phrases)
        assert corpus.classes == ("0", "1", "2", "3", "4")
        assert corpus.labels[corpus.parts["train"]].tolist() == [3, 0, 2, 4, 1]
        assert corpus.split == "official parts"
    with pytest.raises(FileNotFoundError, match=r"no file stsa.fine.phrases.train, of the sent"):
        SST(sst_root, phrases=True)
    write_file(sst_root / "raw" / "stsa.fine.phrases.train.gz", PHRASES)
    assert len(SST(sst_root).parts["train"]) == 5
    for phrases in (True, None):
        corpus = SST(sst_root, phrases=phrases)
        assert corpus.split == "official parts, training on phrases too"
        assert corpus.part("train")[1:3] == [["fine", "film"], ["fine"]]
        assert corpus.labels[corpus.parts["train"]].tolist() == [3, 3, 3, 0, 0, 2, 4, 1]
        assert corpus.part("valid") == [["no", "film"]]
        assert corpus.part("test") == [["yes", ",", "superb"]]


def test_sentiment_of_two_classes_is_downloaded(tmp_path: Path, serve) -> None:
    contents = {"train": b"1 a Fine film\n0 dull .\n", "dev": b"0 no\n", "test": b"1 yes\n"}
    serve({f"{SST_FOLDER}stsa.binary.{part}": content for part, content in contents.items()})
    corpus = SST(tmp_path, labels="binary")
    assert (corpus.classes, corpus.labels.tolist()) == (("0", "1"), [1, 0, 0, 1])


def test_what_is_no_sentiment_is_named(sst_root: Path) -> None:
    with pytest.raises(ValueError, match="labels must be 'fine' or 'binary', got 'phrases'"):
        SST(sst_root, labels="phrases")
    for name in (*SENTENCES, "stsa.fine.phrases.train"):
        (sst_root / name).write_text("")
        with pytest.raises(ValueError, match=rf"{name} has no texts$"):
            SST(sst_root, phrases=None)
        (sst_root / name).write_text(SENTENCES.get(name, PHRASES))
    no_class = r"^line 2 of .*stsa.fine.dev is not a class from 0 to 4 and a sentence$"
    for line in ("5 fine", "-1 fine", "good film", "3 ", ""):
        (sst_root / "stsa.fine.dev").write_text(f"1 no\n{line}\n")
        with pytest.raises(ValueError, match=no_class):
            SST(sst_root, phrases=None)


def test_reviews_are_an_archive_of_two_files_tested_by_ten_folds(tmp_path: Path, serve) -> None:
    serve({MR.positive_file.url: b"not an archive"})
    said = r"cannot download .*; put its file sentence_polarity/rt-polarity.neg at .*raw"
    with pytest.raises(OSError, match=said):
        MR(tmp_path)
    archive = io.BytesIO()
    with zipfile.ZipFile(archive, "w") as zipped:
        for file in (MR.positive_file, MR.negative_file):
            # The last five of 50 lines are equal to the first ones.
            zipped.writestr(file.member, "".join(f"{file.name} {k % 45}\n" for k in range(50)))
    serve({MR.positive_file.url: archive.getvalue()})
    corpus = MR(tmp_path)
    assert corpus.classes == ("negative", "positive")
    assert not torch.equal(MR(tmp_path, seed=3).parts["test"], corpus.parts["test"])
    parts = []
    for k in range(10):
        use_fold(corpus, k, seed=3)
        assert corpus.split == f"fold {k} of 10 random folds (seed 3)"
        parts.append(corpus.parts)
        for part in map(torch.Tensor.tolist, corpus.parts.values()):
            assert {place + 45 for place in part if place % 50 < 5} <= set(part)
    assert torch.equal(MR(tmp_path, seed=3).parts["test"], parts[0]["test"])
    for one, after in zip(parts, [*parts[1:], parts[0]], strict=True):
        assert sorted(torch.cat(list(one.values())).tolist()) == list(range(100))
        assert torch.equal(one["valid"], after["test"])
    assert sorted(torch.cat([one["test"] for one in parts]).tolist()) == list(range(100))
    assert corpus.labels.tolist() == [0] * 50 + [1] * 50
    many, few = (
        TextCorpus([[str(k)] for k in range(number)], ["a"] * number, {"train": [0], "test": [1]})
        for number in (100, 5)
    )
    use_fold(many, 7, seed=3)
    assert sizes(many) == [80, 10, 10]
    with pytest.raises(ValueError, match=r"the (valid|test) part: indices is empty"):
        use_fold(few, 7, seed=3)
    (tmp_path / "raw" / "rt-polarity.neg").write_bytes(b"a\n \n")
    with pytest.raises(ValueError, match=r"line 2 of .*rt-polarity.neg is empty"):
        MR(tmp_path)


NEWS = '"3","Gas","Oil\\\\falls\\no more &lt;b&gt;, Smith #39;s firm"\n' + "".join(
    f'"{k}","a","b"\n' for k in (1, 2, 3, 4) * 5
)


def test_ag_news_has_breaks_and_characters_of_its_own(tmp_path: Path, serve) -> None:
    write_file(tmp_path / "raw" / "train.csv.gz", NEWS)
    write_file(tmp_path / "ag_news.test.csv", NEWS)
    corpus = AGNews(tmp_path)
    # The backslash before "no" is a line break, not the start of an escape.
    assert " ".join(corpus.texts[0]) == "gas oil falls no more < b > , smith 's firm"
    assert corpus.classes == ("Business", "Sci/Tech", "Sports", "World")
    assert corpus.labels[:5].tolist() == [0, 3, 2, 0, 1]
    assert corpus.split == "official test part"
    write_file(tmp_path / "ag_news.test.csv", NEWS + '"5","a","b"\n')
    with pytest.raises(ValueError, match=r"test.csv, line 22: class 5 has no name; there are 4"):
        AGNews(tmp_path)
    # Without a training part, the file of the test part is split.
    asked = serve({})
    write_file(tmp_path / "part" / "ag_news.test.csv.gz", NEWS)
    corpus = AGNews(tmp_path / "part", seed=2)
    assert sizes(corpus) == [17, 4]
    assert corpus.split == "random 20% of each class of ag_news.test.csv.gz for testing (seed 2)"
    assert asked == []


def test_the_real_corpora(real_data: Path) -> None:
    real_texts = present(real_data / "text")
    trec = TREC(real_texts / "trec")
    assert sizes(trec) == [5452, 500]
    assert trec.classes == ("ABBR", "DESC", "ENTY", "HUM", "LOC", "NUM")
    assert trec.labels[trec.parts["train"]].bincount().tolist() == [86, 1162, 1250, 1223, 835, 896]
    questions = {tuple(text) for text in trec.part("train")}
    assert sum(tuple(text) in questions for text in trec.part("test")) == 11
    assert len(TREC(real_texts / "trec", labels="fine").classes) == 50
    assert sizes(SST(real_texts / "sst", labels="fine")) == [8544, 1101, 2210]
    assert sizes(SST(real_texts / "sst", labels="binary")) == [6920, 872, 1821]
    assert MR(real_texts / "mr").labels.bincount().tolist() == [5331, 5331]
    news = AGNews(present(real_texts / "ag_news"))
    assert news.labels.bincount().tolist() == [1900] * 4
    assert news.labels[news.parts["test"]].bincount().tolist() == [380] * 4
    said = "has been canceled , australian foreign minister alexander downer said on tuesday ."
    assert " ".join(news.texts[76]).endswith(f"and gave no indication that the meeting {said}")
    assert not any("\\" in word or "#39" in word for text in news.texts for word in text)
    content = AGNews.test_file.find(real_texts / "ag_news").read_bytes()
    content = gzip.decompress(content) if content[:2] == b"\x1f\x8b" else content
    assert sha256(content).hexdigest() == AGNews.test_file.sha256
