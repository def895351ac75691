"""Words to numbers and back."""

import pytest
import torch

from pyg_kernels.datasets.text import Vocabulary

TEXTS = [["b", "a", "b"], ["c", "a"], ["b", "<unk>"]]


def test_orders_by_frequency_and_then_by_occurrence() -> None:
    vocabulary = Vocabulary.build(TEXTS)
    assert vocabulary.words == ["<pad>", "<unk>", "b", "a", "c"]
    assert (vocabulary.padding, vocabulary.unknown, len(vocabulary)) == (0, 1, 5)
    assert [vocabulary[word] for word in ("b", "c", "z", "<unk>")] == [2, 4, 1, 1]
    assert "c" in vocabulary and "z" not in vocabulary
    assert repr(vocabulary) == "Vocabulary(5 words)"


def test_limits() -> None:
    assert Vocabulary.build(TEXTS, min_count=2).words[2:] == ["b", "a"]
    assert Vocabulary.build(TEXTS, max_size=3).words[2:] == ["b"]
    ended = Vocabulary.build(TEXTS, max_size=4, specials=["</s>"])
    assert ended.words == ["<pad>", "<unk>", "</s>", "b"]
    for name, least in (("min_count", 1), ("max_size", 2)):
        with pytest.raises(ValueError, match=f"{name} must be at least {least}, got {least - 1}"):
            Vocabulary.build(TEXTS, **{name: least - 1})
    with pytest.raises(ValueError, match="'a' occurs twice"):
        Vocabulary(["a", "b", "a"])


def test_encodes_texts_of_any_length() -> None:
    vocabulary = Vocabulary(["a", "b"])
    ids, ptr = vocabulary.encode([["b", "z"], [], ["a"]])
    assert ids.tolist() == [3, 1, 2]
    assert ptr.tolist() == [0, 2, 2, 3]
    assert vocabulary.decode(ids) == ["b", "<unk>", "a"]
    ids, ptr = vocabulary.encode([])
    assert (ids.tolist(), ptr.tolist()) == ([], [0])
    assert ids.dtype == ptr.dtype == torch.long


@pytest.mark.parametrize("call", [Vocabulary.build, Vocabulary(["a"]).encode])
def test_a_string_is_no_text(call) -> None:
    with pytest.raises(TypeError, match="sequence of words, got the string 'how far'"):
        call([["a"], "how far"])


def test_extends_behind_its_words() -> None:
    vocabulary = Vocabulary(["a"], specials=["</s>"])
    longer = vocabulary.extended(["b", "a", "<pad>", "b", "c"])
    assert longer.words == ["<pad>", "<unk>", "</s>", "a", "b", "c"]
    assert len(vocabulary) == 4
