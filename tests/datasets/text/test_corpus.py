"""Parts, classes, and what is held out."""

import pytest
import torch

from pyg_kernels.datasets.text import TextCorpus

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


@pytest.mark.parametrize(
    ("labels", "classes"),
    [
        ("10 9 1 2", "1 2 9 10"),
        ("1 -1 0 -2 -10", "-10 -2 -1 0 1"),
        ("7 007 10", "007 7 10"),
        ("10 9 1.5", "1.5 10 9"),
        ("10 9 \u0661", "10 9 \u0661"),
    ],
)
def test_classes_that_are_integers_stand_by_value(labels, classes) -> None:
    names = labels.split()
    number = len(names)
    parts = {"train": range(number), "test": [number]}
    corpus = TextCorpus([["x"]] * (number + 1), [*names, names[0]], parts)
    assert corpus.classes == tuple(classes.split())
    assert [corpus.classes[k] for k in corpus.labels] == [*names, names[0]]


TWO, APART = [["x"]] * 2, {"train": [0], "test": [1]}


@pytest.mark.parametrize(
    ("texts", "labels", "parts", "error", "said"),
    [
        ([["x"]], "ab", {"train": [0], "test": [0]}, ValueError, "labels must be 1"),
        ([["x"], []], "aa", APART, ValueError, "text 1 has no words"),
        (TWO, "aa", {**APART, "dev": [1]}, ValueError, "got train, test, dev"),
        (TWO, "aa", {"train": [0, 1], "test": []}, ValueError, "test part has no texts"),
        (TWO, "aa", {"train": [0, 1], "test": [1]}, ValueError, "text 1 is in more than one"),
        (TWO, "ab", APART, ValueError, "no text of class 'b'"),
        (TWO, "aa", {**APART, "train": [-1]}, IndexError, "train part has .* beyond the 2 texts"),
        (["how far", "who"], "aa", APART, TypeError, "of words, got the string 'how far'"),
    ],
)
def test_bad_corpora_are_refused(texts, labels, parts, error, said) -> None:
    with pytest.raises(error, match=said):
        TextCorpus(texts, list(labels), parts)
