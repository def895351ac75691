"""Groups of questions, negatives, the network on them, the loss."""

import pytest
import torch
import torch.nn.functional as F

from benchmarks.corpora.questions import TrainQuery
from benchmarks.harness.retrieval.batches import NegativesLoader, question_batch
from benchmarks.harness.retrieval.data import drawn, trained_questions
from benchmarks.harness.retrieval.models import QuestionModelConfig, QuestionNet, pooled
from benchmarks.harness.retrieval.task import RankingError, hinge_loss
from pyg_kernels.datasets.text import EncodedTexts, TextBatch

# Four questions; the third has no body.
TITLES = [[2, 3], [4], [5, 6, 7], [3, 3]]
BODIES = [[8, 9, 2], [4, 4], [], [9]]


@pytest.fixture
def texts() -> EncodedTexts:
    every = [*TITLES, *BODIES]
    ids = torch.tensor([word for text in every for word in text])
    ptr = torch.tensor([0, *map(len, every)]).cumsum(0)
    return EncodedTexts(ids, ptr, torch.zeros(len(every), dtype=torch.long))


@pytest.mark.parametrize("fields", ["title", "title+body"])
@pytest.mark.parametrize("pooling", ["last", "mean", "max"])
@torch.no_grad()
def test_scores_are_cosines_of_means_of_title_and_body(texts, fields, pooling) -> None:
    groups = torch.tensor([[2, 0, 3], [1, 3, 2]])
    torch.manual_seed(0)
    names = ("rcnn", "rcnn", pooling, fields, False)
    model = QuestionNet(QuestionModelConfig(*names, 10, 4, False, hidden=5, dropout=0.5)).eval()
    scores = model(question_batch(texts, groups, bodies=fields != "title"))

    def vector(question: int) -> torch.Tensor:
        parts = [TITLES[question]] + ([BODIES[question]] if fields != "title" else [])
        found = []
        for ids in filter(None, parts):
            text = TextBatch(torch.tensor(ids), torch.tensor([0, len(ids)]), torch.zeros(1))
            states, _ = model.encoder(model.embedding(text.ids), text)
            found.append(pooled(F.normalize(states, dim=1), text, pooling)[0])
        return torch.stack(found).mean(dim=0)

    expected = [
        [F.cosine_similarity(vector(query), vector(other), dim=0) for other in others]
        for query, *others in groups.tolist()
    ]
    torch.testing.assert_close(scores, torch.tensor(expected))


def test_each_question_is_encoded_once(texts) -> None:
    batch = question_batch(texts, torch.tensor([[2, 0], [0, 2], [2, 0]]), bodies=True)
    assert batch.num_questions == 2
    assert batch.words.num_texts == 3  # question 2 has no body
    assert batch.question.tolist() == [0, 1, 0]
    assert batch.groups.tolist() == [[1, 0], [0, 1], [1, 0]]


def test_an_epoch_has_every_pair_once_with_questions_that_are_not_similar(texts) -> None:
    queries = [TrainQuery(0, (1, 2), (3,)), TrainQuery(3, (2,))]
    loader = NegativesLoader(texts, queries, 4, batch_size=2, bodies=True, seed=7)
    drawn_groups = [
        loader.group(query, similar, torch.Generator().manual_seed(k))
        for k in range(5)
        for query, similar in loader.pairs
    ]
    for group in drawn_groups:
        query, similar, *others = group.tolist()
        known = {0: {0, 1, 2}, 3: {3, 2}}[query]
        assert similar in known
        assert len(others) == 4
        assert known.isdisjoint(others)
    assert {tuple(group[:2].tolist()) for group in drawn_groups} == {(0, 1), (0, 2), (3, 2)}
    assert len(loader) == 2
    assert sum(len(batch.groups) for batch in loader) == 3


def test_negatives_are_without_repetition_where_there_are_enough() -> None:
    generator = torch.Generator().manual_seed(0)
    query = TrainQuery(0, (1,), tuple(range(2, 30)))
    assert drawn(query, torch.tensor([0]), 20, generator).unique().numel() == 20
    queries = [TrainQuery(k, ((k + 1) % 30,)) for k in range(30)]
    others = trained_questions(queries)
    assert others.tolist() == list(range(30))
    found = drawn(queries[4], others, 28, generator)
    assert sorted(found.tolist()) == [k for k in range(30) if k not in (4, 5)]
    with pytest.raises(ValueError, match="no questions to train on that are not similar"):
        drawn(TrainQuery(0, (1,)), torch.tensor([0, 1]), 2, generator)


def test_losses_and_errors_by_hand() -> None:
    scores = torch.tensor([[0.9, 0.2, 0.5], [0.1, 0.0, -0.3], [1.0, -1.0, -0.5]])
    expected = (0.5 - 0.9 + 0.6 + 0.0 - 0.1 + 0.6 + 0) / 3  # the best of the wrong ones
    assert hinge_loss(scores, 0.6).item() == pytest.approx(expected)
    error = RankingError([torch.tensor([False, True, False]), torch.tensor([True, False])])
    error.update(torch.tensor([0.9, 0.5, 0.1, 0.3]))  # batches end within lists
    error.update(torch.tensor([0.2]))
    assert error.compute().item() == pytest.approx(1 - (1 / 2 + 1) / 2)
    error.reset()
    error.update(torch.tensor([0.1, 0.5, 0.2, torch.nan, 0.2]))
    assert error.compute().isnan()
