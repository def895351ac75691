"""Polar sentences planted among questions: the tests take documents apart again."""

from pathlib import Path

import numpy as np
import pytest
import torch

from benchmarks.corpora.film_reviews import MR
from benchmarks.corpora.planted_evidence import PlantedEvidence
from tests.datasets.conftest import present

CLASSES = ("negative", "positive")


def write_reviews(root: Path, number: int = 100, word: str = "Sentence") -> None:
    for name in CLASSES:
        lines = [f"{name} {word} {k}" + " word" * (k % 4) for k in range(number)]
        (root / f"rt-polarity.{name[:3]}").write_text("\n".join(lines) + "\n")


def write_questions(root: Path, train: list[str], test: list[str]) -> None:
    for name, questions in (("train_5500.label", train), ("TREC_10.label", test)):
        (root / name).write_text("".join(f"NUM:dist {text}\n" for text in questions))


@pytest.fixture
def root(tmp_path: Path) -> Path:
    write_reviews(tmp_path)
    train = [f"how far is trainedplace{k} ?" for k in range(100)]
    write_questions(tmp_path, train, [f"where is testedplace{k} now ?" for k in range(30)])
    return tmp_path


def taken_apart(corpus: PlantedEvidence, document: int) -> tuple[str, list[str], list[str]]:
    """The planted sentence of a document, and the questions before and after it."""
    words, marks = np.array(corpus.texts[document]), corpus.evidence[document].numpy()
    start, end = marks.argmax(), len(marks) - marks[::-1].argmax()
    assert marks[start:end].all()
    pieces = [" ".join(part).split("?") for part in (words[:start], words[end:])]
    before, after = ([f"{piece.strip()} ?" for piece in part[:-1]] for part in pieces)
    return " ".join(words[start:end]), before, after


def test_a_document_is_its_polar_sentence_among_questions(root: Path) -> None:
    corpus, reviews = PlantedEvidence(root, root), MR(root)
    assert corpus.classes == CLASSES
    places = set()
    for part, positions in corpus.parts.items():
        pairs = zip(positions.tolist(), reviews.parts[part].tolist(), strict=True)
        for document, review in pairs:
            sentence, before, after = taken_apart(corpus, document)
            assert sentence.split() == reviews.texts[review]
            assert corpus.labels[document] == reviews.labels[review]
            around = before + after
            assert len(set(around)) == len(around)
            assert all(("tested" in question) == (part == "test") for question in around)
            assert len(" ".join([sentence, *around]).split()) == len(corpus.texts[document])
            places.add((len(around), len(before)))
    assert places == {(n, place) for n in range(3, 7) for place in range(n + 1)}


def test_no_two_parts_share_a_sentence(tmp_path: Path) -> None:
    write_reviews(tmp_path, 40)
    with open(tmp_path / "rt-polarity.neg", "a") as file:
        file.write("positive sentence 3 word word word\n" * 12)
    shared = [f"what is thing{k} ?" for k in range(20)]
    train = [f"how far is place{k} ?" for k in range(60)] + shared + shared[:5]
    write_questions(tmp_path, train, [*shared, "where am i ?", "where am i ?"])
    corpus = PlantedEvidence(tmp_path, tmp_path)
    sentences: dict[str, set[str]] = {}
    for part, positions in corpus.parts.items():
        sentences[part] = set()
        for document in positions.tolist():
            sentence, before, after = taken_apart(corpus, document)
            sentences[part] |= {sentence, *before, *after}
    assert not sentences["train"] & (sentences["valid"] | sentences["test"])
    assert not sentences["valid"] & sentences["test"]
    assert any("thing" in sentence for sentence in sentences["test"])
    assert not any("thing" in sentence for sentence in sentences["train"] | sentences["valid"])


def test_the_draw_depends_on_the_seed_alone(root: Path) -> None:
    first, again, other = (PlantedEvidence(root, root, seed=seed) for seed in (0, 0, 1))
    assert first.digest() == again.digest() != other.digest()
    split = "fold 0 of 10 random folds (seed 0); each sentence among 3 to 6 questions"
    assert first.split == split
    write_reviews(root, word="Another longer")  # the same questions at the same places
    more = PlantedEvidence(root, root)
    for document in range(len(first)):
        assert taken_apart(first, document)[1:] == taken_apart(more, document)[1:]
    write_questions(root, [f"how far is {k} ?" for k in range(50)], ["where ?"])
    with pytest.raises(ValueError, match="the valid part has 5 questions, fewer than 6"):
        PlantedEvidence(root, root)


def test_the_real_documents(real_data: Path) -> None:
    corpus = PlantedEvidence(*(present(real_data / "text" / name) for name in ("mr", "trec")))
    # MR's sentences are all different in lower case.
    assert [len(places) for places in corpus.parts.values()] == [8528, 1067, 1067]
    for part, share in ((None, 0.32), ("test", 0.38)):
        places = range(len(corpus)) if part is None else corpus.parts[part].tolist()
        marks = torch.cat([corpus.evidence[place] for place in places])
        assert float(marks.double().mean()) == pytest.approx(share, abs=0.005)
    assert sum(map(len, corpus.texts)) / len(corpus) == pytest.approx(66, abs=0.5)
    shares = torch.tensor([marks.double().mean() for marks in corpus.evidence])
    assert float((shares >= 0.15).double().mean()) == pytest.approx(0.92, abs=0.005)
