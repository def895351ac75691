"""The bigram SVM: what it learns, and greedy selection step by step."""

import random
from collections.abc import Sequence

import numpy as np
import pytest
import torch
from sklearn.svm import LinearSVC, LinearSVR

pytest.importorskip("torchmetrics", reason="the benchmark needs the extra 'bench'")

from benchmarks.harness.rationale.linear_svm import BigramSVM

FILLER = ["the", "film", "is", "a", "story", "of", "two", "men"]
TELLING = {0: ["dull", "not good"], 1: ["fine", "good"]}


def documents(number: int, seed: int) -> tuple[list[list[str]], torch.Tensor]:
    """Texts of which a word or a pair tells the class: ``good``, unless ``not`` is before it."""
    draw = random.Random(seed)
    texts, y = [], []
    for _ in range(number):
        label = draw.randrange(2)
        words = [draw.choice(FILLER) for _ in range(draw.randint(4, 9))]
        place = draw.randint(0, len(words))
        words[place:place] = draw.choice(TELLING[label]).split()
        texts.append(words)
        y.append(label)
    return texts, torch.tensor(y)


@pytest.fixture(scope="module")
def machine() -> BigramSVM:
    return BigramSVM().fit(*documents(300, 0), *documents(100, 1))


def features(texts: Sequence[Sequence[str]], names: Sequence[str]) -> np.ndarray:
    rows = []
    for text in texts:
        pairs = [" ".join(text[t : t + 2]) for t in range(len(text) - 1)]
        rows.append([float(name in {*text, *pairs}) for name in names])
    return np.array(rows)


def test_is_a_linear_svm_on_words_and_pairs(machine: BigramSVM) -> None:
    texts, y = documents(300, 0)
    names = sorted(
        {word for text in texts for word in text}
        | {" ".join(text[t : t + 2]) for text in texts for t in range(len(text) - 1)}
    )
    assert machine.weights.shape == (1, len(names))
    assert machine.num_parameters == len(names) + 1
    plain = LinearSVC(C=machine.cost, dual="auto", random_state=0, max_iter=10_000)
    plain.fit(features(texts, names), y.numpy())
    np.testing.assert_allclose(machine.weights, plain.coef_, atol=1e-4)
    test, expected = documents(80, 2)
    assert machine.predict(test).tolist() == plain.predict(features(test, names)).tolist()
    assert torch.equal(machine.predict(test), expected)


def test_the_cost_with_the_least_error_is_chosen() -> None:
    texts, y = documents(60, 0)
    test, expected = documents(40, 5)
    costs = (1.0, 1e-6, 0.1)
    errors = {
        cost: (BigramSVM(costs=[cost]).fit(texts, y, test, expected).predict(test) != expected)
        .double()
        .mean()
        .item()
        for cost in costs
    }
    chosen = BigramSVM(costs=costs).fit(texts, y, test, expected).cost
    assert errors[chosen] == min(errors.values())
    assert chosen == min(cost for cost in costs if errors[cost] == errors[chosen])
    assert errors[1e-6] > errors[chosen]


def selected_by_definition(text: list[str], number: int, weight: dict[str, float]) -> list[bool]:
    """The largest features first, found again after every step."""
    spans = [(t, t + 1) for t in range(len(text))] + [(t, t + 2) for t in range(len(text) - 1)]
    chosen: set[int] = set()
    while spans and len(chosen) < number:
        best = max(spans, key=lambda s: (weight.get(" ".join(text[s[0] : s[1]]), 0.0), s[0] - s[1]))
        sizes = [s for s in spans if s[1] - s[0] == best[1] - best[0]]
        value = weight.get(" ".join(text[best[0] : best[1]]), 0.0)
        ties = [s for s in sizes if weight.get(" ".join(text[s[0] : s[1]]), 0.0) == value]
        best = min(ties)
        spans.remove(best)
        if len(chosen | set(range(*best))) <= number:
            chosen |= set(range(*best))
    return [t in chosen for t in range(len(text))]


@pytest.mark.parametrize("share", [0.0, 0.1, 0.3, 0.6, 1.0])
def test_takes_the_largest_features_one_after_the_other(machine: BigramSVM, share: float) -> None:
    texts, _ = documents(40, 3)
    texts += [[], ["unheard"], ["unheard", "of", "words", "not", "good"], ["fine"]]
    names = machine._counter.get_feature_names_out()
    weight = dict(zip(names, np.abs(machine.weights[0]).tolist(), strict=True))
    for text, found in zip(texts, machine.select(texts, share), strict=True):
        number = int(share * len(text) + 0.5 + 1e-9) if share else 0
        number = min(len(text), max(number, 1)) if share else 0
        assert int(found.sum()) == number
        assert found.dtype == torch.bool
        assert found.tolist() == selected_by_definition(text, number, weight)


def test_finds_the_words_that_tell(machine: BigramSVM) -> None:
    texts, y = documents(100, 4)
    right = 0
    for text, label, found in zip(texts, y.tolist(), machine.select(texts, 0.1), strict=True):
        (place,) = found.nonzero().flatten().tolist()
        right += text[place] in {word for pair in TELLING[label] for word in pair.split()}
    # Where "good" stands alone, its weight makes up for that of "not good".
    assert right >= 75


def test_numbers() -> None:
    texts, y = documents(200, 0)
    ratings = 0.2 + 0.6 * y.double()
    test, expected = documents(60, 1)
    machine = BigramSVM(regression=True).fit(texts, ratings, test, 0.2 + 0.6 * expected.double())
    found = machine.predict(test)
    assert float((found - 0.2 - 0.6 * expected).square().mean()) < 0.005
    assert machine.weights.shape[0] == 1
    names = machine._counter.get_feature_names_out()
    plain = LinearSVR(
        C=machine.cost,
        loss="squared_epsilon_insensitive",
        dual="auto",
        random_state=0,
        max_iter=10_000,
    ).fit(features(texts, names), ratings.numpy())
    np.testing.assert_allclose(machine.weights[0], plain.coef_, atol=1e-3)
    (first,) = machine.select([["the", "story", "is", "dull"]], 0.25)
    assert first.tolist() == [False, False, False, True]


def test_three_classes_select_for_the_one_predicted() -> None:
    words = ["north", "south", "east"]
    texts = [["the", word, "side", "of", "it"] for word in words] * 20
    y = torch.arange(3).repeat(20)
    machine = BigramSVM().fit(texts, y, texts, y)
    assert machine.weights.shape[0] == 3
    assert machine.predict(texts[:3]).tolist() == [0, 1, 2]
    places = dict(zip(machine._counter.get_feature_names_out(), range(10**6), strict=False))
    text = ["east", "the", "north", "north", "north", "side"]
    (row,) = machine.predict([text]).tolist()
    weights = np.abs(machine.weights[row])
    largest = max(range(6), key=lambda t: (weights[places[text[t]]], -t))
    (found,) = machine.select([text], 0.1)
    assert found.nonzero().flatten().tolist() == [largest]


def test_what_it_cannot_learn_from(machine: BigramSVM) -> None:
    texts, y = documents(20, 0)
    with pytest.raises(ValueError, match="empty vocabulary"):
        BigramSVM().fit([[], []], torch.tensor([0, 1]), texts, y)
    with pytest.raises(ValueError, match="at least 2 classes"):
        BigramSVM().fit(texts, torch.zeros(20), texts, y)
    with pytest.raises(ValueError, match="share must be from 0 to 1, got 2"):
        machine.select(texts, 2)
