"""Groups of questions, negatives, encoders word by word, the network, the loss."""

from dataclasses import replace

import pytest
import torch
import torch.nn.functional as F

from benchmarks.corpora.questions import TrainQuery
from benchmarks.harness.retrieval.data import (
    NegativesLoader,
    drawn,
    question_batch,
    trained_questions,
)
from benchmarks.harness.retrieval.models import ENCODERS, QuestionModelConfig, QuestionNet, pooled
from benchmarks.harness.retrieval.report import weights_by_position
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


LENGTHS = (3, 1, 5)


X = torch.randn(sum(LENGTHS), 4, generator=torch.Generator().manual_seed(0))


@pytest.fixture
def words() -> TextBatch:
    ptr = torch.tensor([0, *LENGTHS]).cumsum(0)
    return TextBatch(torch.arange(sum(LENGTHS)), ptr, torch.zeros(len(LENGTHS), dtype=torch.long))


def config(**options) -> QuestionModelConfig:
    usual = ("rcnn-last", "rcnn", "last", "title+body", False)
    return replace(QuestionModelConfig(*usual, 10, 200, fixed_embedding=True, hidden=1), **options)


@pytest.mark.parametrize("encoder", list(ENCODERS))
def test_a_text_is_read_alone(encoder, words) -> None:
    torch.manual_seed(0)
    net = ENCODERS[encoder](4, 6)
    states, _ = net(X, words)
    for x, found in zip(X.split(LENGTHS), states.split(LENGTHS), strict=True):
        one = TextBatch(torch.arange(len(x)), torch.tensor([0, len(x)]), torch.zeros(1))
        torch.testing.assert_close(found, net(x, one)[0])


def test_poolings_and_the_cnn_are_their_definitions(words) -> None:
    torch.manual_seed(0)
    net = ENCODERS["cnn"](4, 6)
    states, mean = net(X, words)
    (cell,) = net.windows.cells
    kernel = torch.stack([lin.weight for lin in cell.lins], dim=2)
    for text, (x, found) in enumerate(zip(X.split(LENGTHS), states.split(LENGTHS), strict=True)):
        windows = torch.tanh(F.conv1d(F.pad(x.T, (2, 0)), kernel, cell.bias)).T
        torch.testing.assert_close(found, windows)
        torch.testing.assert_close(mean[text], windows.mean(dim=0))
        torch.testing.assert_close(pooled(X, words, "last")[text], x[-1])
        torch.testing.assert_close(pooled(X, words, "mean")[text], x.mean(dim=0))
        torch.testing.assert_close(pooled(X, words, "max")[text], x.amax(dim=0))


def test_widths_of_the_thesis_within_equal_parameters() -> None:
    for encoder, width in (("rcnn", 400), ("cnn", 667), ("lstm", 231), ("gru", 278)):
        fitted, wider = (config(encoder=encoder, hidden=width + more) for more in (0, 1))
        assert fitted.encoder_parameters() <= 401_000 < wider.encoder_parameters()


@pytest.mark.parametrize(("encoder", "width"), [("rcnn", 6), ("rcnn-scalar", 1)])
def test_the_recurrence_with_the_gates_gives_the_outputs(encoder, width, words) -> None:
    torch.manual_seed(0)
    net = QuestionNet(config(encoder=encoder, embedding_dim=4, hidden=6)).double().eval()
    weights, x = net.gates(words), net.embedding(words.ids)
    assert weights.shape == (sum(LENGTHS), width)
    outputs, _ = net.encoder(x, words)
    (cell,) = net.encoder.rcnn.cells
    first, second = (lin(x) for lin in cell.lins)
    for text in range(len(LENGTHS)):
        h, c1, c2 = torch.zeros(3, 6, dtype=torch.double)
        for t in range(int(words.ptr[text]), int(words.ptr[text + 1])):
            logit = cell.decay_lin.weight @ x[t] + cell.decay_recurrent.weight @ h + cell.decay_bias
            torch.testing.assert_close(weights[t], 1 - torch.sigmoid(logit))
            c2 = (1 - weights[t]) * c2 + weights[t] * (c1 + second[t])
            c1 = (1 - weights[t]) * c1 + weights[t] * first[t]
            h = torch.tanh(c2 + cell.bias)
            torch.testing.assert_close(outputs[t], h)


def test_means_of_gates_by_position(words) -> None:
    torch.manual_seed(0)
    net = QuestionNet(config(embedding_dim=4, hidden=6)).eval()
    weights = net.gates(words)
    first = TextBatch(words.ids[:4], words.ptr[:3], words.y[:2])
    second = TextBatch(words.ids[4:], words.ptr[2:] - 4, words.y[2:])
    mean, largest, texts = weights_by_position(net, [first, second])
    assert texts.tolist() == [3, 2, 2, 1, 1]
    for position, rows in enumerate([[0, 3, 4], [1, 5], [2, 6], [7], [8]]):
        torch.testing.assert_close(mean[position], weights[rows].mean())
        torch.testing.assert_close(largest[position], weights[rows].amax(dim=1).mean())
