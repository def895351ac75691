"""Polar sentences among questions: every document taken apart again."""

from collections import Counter
from collections.abc import Sequence
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


def questions_of(words: Sequence[str]) -> list[str]:
    """The questions that some words are made of."""
    text = " ".join(words)
    return [part.strip() + " ?" for part in text.split("?")[:-1]]


def test_a_document_is_its_polar_sentence_among_questions(root: Path) -> None:
    low, high = 2, 5
    corpus, reviews = PlantedEvidence(root, root, questions=(low, high)), MR(root)
    assert corpus.classes == CLASSES
    seen, places = Counter(), Counter()
    for part, positions in corpus.parts.items():
        documents = positions.tolist()
        assert len(documents) == len(reviews.parts[part])
        for document, review in zip(documents, reviews.parts[part].tolist(), strict=True):
            words, marks = corpus.texts[document], corpus.evidence[document].tolist()
            assert len(words) == len(marks)
            start, length = marks.index(True), sum(marks)
            assert all(marks[start : start + length])
            assert words[start : start + length] == reviews.texts[review]
            assert corpus.labels[document] == reviews.labels[review]
            before = questions_of(words[:start])
            around = before + questions_of(words[start + length :])
            assert low <= len(around) <= high
            assert len(set(around)) == len(around)
            assert all(("tested" in question) == (part == "test") for question in around)
            assert len(" ".join(around).split()) == len(words) - length
            seen[len(around)] += 1
            places[len(around), len(before)] += 1
    assert set(seen) == set(range(low, high + 1))
    assert set(places) == {(n, place) for n in seen for place in range(n + 1)}


def test_questions_say_nothing_of_the_class(root: Path) -> None:
    drawn = PlantedEvidence(root, root)
    write_reviews(root, word="Another longer")  # the same questions at the same places
    again = PlantedEvidence(root, root)
    for corpora in zip(drawn.texts, drawn.evidence, again.texts, again.evidence, strict=True):
        text, marks, other, other_marks = (np.array(list(each)) for each in corpora)
        assert text[~marks].tolist() == other[~other_marks].tolist()
        assert marks.argmax() == other_marks.argmax()


def test_no_two_parts_share_a_sentence(tmp_path: Path) -> None:
    write_reviews(tmp_path, 40)
    with open(tmp_path / "rt-polarity.neg", "a") as file:
        file.write("positive sentence 3 word word word\n" * 12)
    shared = [f"what is thing{k} ?" for k in range(20)]
    train = [f"how far is place{k} ?" for k in range(60)] + shared + shared[:5]
    write_questions(tmp_path, train, [*shared, "where am i ?", "where am i ?"])
    corpus = PlantedEvidence(tmp_path, tmp_path, questions=(1, 3))
    sentences: dict[str, set[str]] = {}
    for part, positions in corpus.parts.items():
        sentences[part] = set()
        for document in positions.tolist():
            words, marks = np.array(corpus.texts[document]), corpus.evidence[document].numpy()
            sentences[part] |= {" ".join(words[marks]), *questions_of(words[~marks])}
    assert not sentences["train"] & (sentences["valid"] | sentences["test"])
    assert not sentences["valid"] & sentences["test"]
    assert any("thing" in sentence for sentence in sentences["test"])
    assert not any("thing" in sentence for sentence in sentences["train"] | sentences["valid"])


def test_the_draw_depends_on_the_seed_alone(root: Path) -> None:
    first, again, other = (PlantedEvidence(root, root, seed=seed) for seed in (0, 0, 1))
    assert first.digest() == again.digest() != other.digest()
    split = "fold 0 of 10 random folds (seed 0); each sentence among 3 to 6 questions"
    assert first.split == split
    said = r"questions=\(5, 20\), but there are 10 different questions for the valid part"
    with pytest.raises(ValueError, match=said):
        PlantedEvidence(root, root, questions=(5, 20))


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
