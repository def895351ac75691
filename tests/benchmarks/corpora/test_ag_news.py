"""AG News: its own escapes, downloads without a network, and the real test part."""

import gzip
import hashlib
from pathlib import Path

import pytest

from benchmarks.corpora.ag_news import AGNews
from tests.datasets.conftest import present


def write(path: Path, content: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    data = content.encode()
    path.write_bytes(gzip.compress(data) if path.suffix == ".gz" else data)
    return path


NEWS = '"3","Gas","Oil\\\\falls\\no more &lt;b&gt;, Smith #39;s firm"\n' + "".join(
    f'"{k}","a","b"\n' for k in (1, 2, 3, 4) * 5
)


def test_ag_news_has_breaks_and_characters_of_its_own(tmp_path: Path) -> None:
    write(tmp_path / "raw" / "train.csv.gz", NEWS)
    write(tmp_path / "ag_news.test.csv", NEWS)
    corpus = AGNews(tmp_path)
    # Not an escape: a line break and an n.
    assert " ".join(corpus.texts[0]) == "gas oil falls no more < b > , smith 's firm"
    assert corpus.classes == ("Business", "Sci/Tech", "Sports", "World")
    assert [corpus.classes[k] for k in corpus.labels[:5]] == [
        *("Business", "World", "Sports", "Business", "Sci/Tech")
    ]
    assert corpus.split == "official test part"
    write(tmp_path / "ag_news.test.csv", NEWS + '"5","a","b"\n')
    with pytest.raises(ValueError, match=r"test.csv, line 22: class 5 has no name; there are 4"):
        AGNews(tmp_path)


def test_ag_news_without_its_training_part_is_split(tmp_path: Path, serve) -> None:
    asked = serve({})
    write(tmp_path / "ag_news.test.csv.gz", NEWS)
    corpus = AGNews(tmp_path, seed=2)
    assert [len(places) for places in corpus.parts.values()] == [17, 4]
    assert corpus.split == "random 20% of each class of ag_news.test.csv.gz for testing (seed 2)"
    assert asked == []


def test_the_real_news(real_data: Path) -> None:
    root = present(real_data / "text" / "ag_news")
    corpus = AGNews(root)
    assert corpus.labels.bincount().tolist() == [1900] * 4
    assert corpus.labels[corpus.parts["test"]].bincount().tolist() == [380] * 4
    assert " ".join(corpus.texts[76]).endswith(
        "and gave no indication that the meeting has been canceled , australian foreign minister "
        "alexander downer said on tuesday ."
    )
    assert not any("\\" in word or "#39" in word for text in corpus.texts for word in text)
    content = AGNews.test_file.find(root).read_bytes()
    content = gzip.decompress(content) if content[:2] == b"\x1f\x8b" else content
    assert hashlib.sha256(content).hexdigest() == AGNews.test_file.sha256
