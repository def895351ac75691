"""What reads texts whole or in part, and what is measured of it, against the definitions."""

from itertools import product
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from benchmarks.harness.retrieval.data import question_batch
from benchmarks.rationales.learner import ClassGoal, RankingGoal, SelectionCost, cosines
from benchmarks.rationales.networks import SELECTED, ModelConfig, RationaleNet, Reading, network
from benchmarks.rationales.selections import (
    marked_words,
    num_selected,
    precision,
    read_spans,
    spans_text,
    top_share,
)
from benchmarks.rationales.svm import best_words
from pyg_kernels.datasets.text import EncodedTexts, TextBatch

KINDS = ("dependent", "independent", "attention", "full")
IDS = torch.tensor([2, 3, 4, 5, 6, 7, 8, 2])
PTR = torch.tensor([0, 3, 3, 4, 8])  # the second text is empty
BATCH = TextBatch(IDS, PTR, torch.tensor([0, 1, 1, 0]))
EVERY = torch.ones(8, dtype=torch.bool)


def net_of(kind: str, **fields: Any) -> RationaleNet:
    torch.manual_seed(0)
    sizes: dict[str, Any] = {"num_words": 9, "rate": 0.4, "samples": 3, "dropout": 0.0}
    return network(ModelConfig(kind, kind, "texts", 4, 2, 5, **sizes | fields)).double().eval()


@pytest.mark.parametrize("kind", KINDS)
def test_what_is_not_chosen_leaves_no_trace_and_every_weight_learns(kind: str) -> None:
    net, goal = net_of(kind), ClassGoal()
    chosen = torch.tensor([1, 0, 1, 0, 0, 1, 1, 0]).bool()
    part = net.inputs(TextBatch(IDS[chosen], torch.tensor([0, 2, 2, 2, 4]), BATCH.y))
    whole, lengths = net.inputs(BATCH), PTR.diff().tolist()
    torch.testing.assert_close(net.answer(whole, chosen), net.answer(part, EVERY[:4]))
    reading = net.read(whole)
    selected = reading.scores >= SELECTED
    reads = EVERY if kind == "attention" else selected
    torch.testing.assert_close(reading.output, net.answer(whole, reads))
    if kind in KINDS[:2]:
        changes = [int((some.int().diff() != 0).sum()) for some in selected.split(lengths)]
        assert reading.transitions.tolist() == changes
    objective, cost = net.train().learn(whole, lambda output: goal.losses(output, BATCH).double())
    torch.testing.assert_close(objective.detach(), cost)
    objective.backward()
    weights = [p for name, p in net.named_parameters() if not name.startswith("embedding")]
    assert all(weight.grad is not None for weight in weights)


def test_in_the_warm_up_the_encoder_learns_from_everything() -> None:
    net, goal = net_of("independent", warm_up=0.1), ClassGoal()
    assert not net.embedding.weight.requires_grad
    for done, whole, rate in ((0.05, True, 0.5), (0.3, False, 0.2**0.5), (0.5, False, 0.4)):
        net.set_stage(done)
        assert (net.whole, net.rationalizer.control.rate) == (whole, pytest.approx(rate))
    net.set_stage(0.0)
    inputs = net.inputs(BATCH)
    objective, _ = net.train().learn(inputs, lambda output: goal.losses(output, BATCH))
    torch.testing.assert_close(objective, goal.losses(net.answer(inputs, EVERY), BATCH).mean())
    objective.backward()
    assert all(p.grad is None for p in net.rationalizer.generator.parameters())


def test_attention_is_the_average_of_states_and_selects_its_largest_weights() -> None:
    net = net_of("attention")
    x, scores = net.inputs(BATCH)["x"], net.read(net.inputs(BATCH)).scores
    output, weights = net.attend(x, PTR)
    for text, (a, b) in enumerate(zip(PTR[:-1].tolist(), PTR[1:].tolist(), strict=True)):
        if a == b:
            torch.testing.assert_close(output[text], net.lin.bias)
            continue
        states, hidden = (
            each(x[a:b], ptr=torch.tensor([0, b - a]))[0] for each in (net.network, net.encoder)
        )
        expected = torch.softmax(states @ net.score.weight[0], dim=0)
        torch.testing.assert_close(weights[a:b], expected)
        torch.testing.assert_close(output[text], net.lin(expected @ hidden))
        largest = expected.topk(max(1, int(0.4 * (b - a) + 0.5))).indices
        assert set((scores[a:b] >= SELECTED).nonzero().flatten().tolist()) == set(largest.tolist())


def test_questions_learn_from_the_groups_that_they_stand_in() -> None:
    lengths, groups = [2, 3, 1, 0, 4, 2], torch.tensor([[1, 0, 3, 2], [4, 1, 5, 0]])
    ptr = torch.tensor([0, *lengths, *[0] * 6]).cumsum(0)
    texts = EncodedTexts(torch.arange(2, 14), ptr, torch.zeros(12).long())
    batch = question_batch(texts, groups, bodies=False)
    vectors = torch.randn(3, 5, 4, generator=torch.Generator().manual_seed(0))
    found = cosines(vectors, batch)
    losses = RankingGoal().losses(vectors.view(15, 4), batch)
    for s in range(3):
        own = dict(zip(batch.question.tolist(), vectors[s], strict=True)) | {3: torch.zeros(4)}
        costs = []
        for b, (query, *others) in enumerate(groups.tolist()):
            row = [torch.cosine_similarity(own[query], own[other], dim=0) for other in others]
            torch.testing.assert_close(found[s, b], torch.stack(row))
            costs.append(max(0.0, float(max(row[1:]) - row[0]) + 1))
        expected = [
            sum(c for c, g in zip(costs, groups.tolist(), strict=True) if q in g)
            for q in batch.question.tolist()
        ]
        assert losses[s].tolist() == pytest.approx(expected, abs=1e-5)


@pytest.mark.parametrize("coherence", [0.0, 0.5])
def test_an_epoch_that_selects_more_than_the_rate_pays(coherence: float) -> None:
    relevance = [torch.tensor([True, False]), torch.tensor([False, True, False])]
    config = ModelConfig("", "dependent", "questions", 1, 1, 1, rate=0.25, coherence=coherence)
    cost = SelectionCost(RankingGoal(), config, relevance)
    for scores, chosen in (([0.9, 0.1, 0.8], [1.0, 1, 0, 0]), ([0.5, 0.3], [1.0, 0])):
        reading = Reading(torch.zeros(1), torch.tensor(chosen), torch.tensor([2.0]))
        cost.update(torch.tensor(scores), reading)
    assert (cost.error(), cost.share()) == (pytest.approx(75), pytest.approx(0.5))
    assert float(cost.compute()) == pytest.approx(0.25 + 0.5 * (0.5 / 0.25 - 1) + 2 * coherence)


def test_selections_as_text_and_html() -> None:
    for marks, text in (("", ""), ("000", ""), ("0110", "1:3"), ("1011", "0:1 2:4")):
        chosen = torch.tensor([mark == "1" for mark in marks], dtype=torch.bool)
        assert spans_text(chosen) == text
        assert torch.equal(read_spans(text, len(marks)), chosen)
    chosen, evidence = (torch.tensor(m).bool() for m in ([0, 1, 1, 0, 0], [0, 0, 1, 1, 0]))
    text = marked_words(["a", "<b>", "c", "d", "e"], chosen, evidence)
    assert text == "a <mark>&lt;b&gt;</mark> <mark><u>c</u></mark> <u>d</u> e"
    assert precision(chosen, evidence, ~chosen) is None
    assert precision(chosen, evidence, torch.ones(5).bool()) == 50
    assert num_selected(torch.tensor([0, 1, 3, 10, 30]), 0.15).tolist() == [0, 1, 1, 2, 5]
    scores = torch.tensor([0.1, 0.3, 0.3, 0.2, 0.9, 0.5])
    assert top_share(scores, 0.5, torch.tensor([0, 4, 4, 6])).int().tolist() == [0, 1, 1, 0, 1, 0]


def by_definition(text: list[str], number: int, weights: dict[str, float]) -> list[bool]:
    """The best of the features that are left, found anew after every step; words before pairs."""
    spans = [(t, t + 1) for t in range(len(text))] + [(t, t + 2) for t in range(len(text) - 1)]
    chosen: set[int] = set()
    while spans and len(chosen) < number:
        best = max(spans, key=lambda s: weights.get(" ".join(text[slice(*s)]), 0.0))
        spans.remove(best)
        if len(chosen | set(range(*best))) <= number:
            chosen |= set(range(*best))
    return [t in chosen for t in range(len(text))]


def test_the_svm_takes_the_largest_features_one_after_the_other() -> None:
    names = ["good", "film", "not good", "good film", "a"]
    weights = dict(zip(names, (0.9, 0.1, 2.0, 0.9, 0.1), strict=True))
    places, values = {name: k for k, name in enumerate(names)}, np.array(list(weights.values()))
    for text in map(list, product(["not", "good", "film", "a"], repeat=4)):
        for number in range(5):
            found: Tensor = best_words(text, number, places, values)
            assert found.tolist() == by_definition(text, number, weights)
