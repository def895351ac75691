"""Rankings by words, the re-ranker and measures; question encoders and their pre-training."""

import math
import warnings
from dataclasses import replace

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GroupKFold
from sklearn.preprocessing import scale
from torch import Tensor
from torchmetrics import retrieval

from benchmarks.corpora.questions import (
    RANKED,
    BM25Index,
    Question,
    QuestionCorpus,
    Ranking,
    TrainQuery,
)
from benchmarks.harness.errors import InputError
from benchmarks.harness.learner import OptimizerConfig
from benchmarks.harness.retrieval import data as batches
from benchmarks.harness.retrieval import task as tasks
from benchmarks.harness.retrieval.baselines import Baselines, tf_idf, tuned_tf_idf
from benchmarks.harness.retrieval.data import END, load_questions, question_data
from benchmarks.harness.retrieval.models import ENCODERS, QuestionModelConfig, QuestionNet
from benchmarks.harness.retrieval.options import Networks, Questions
from benchmarks.harness.retrieval.report import weights_by_position
from benchmarks.harness.retrieval.task import METRICS, PretrainingTask, evaluate
from pyg_kernels.datasets.text import EncodedTexts, TextBatch
from tests.benchmarks.small_data import write_askubuntu

ASKED = {
    "how to boot from usb": "the usb stick is not found",
    "boot from a usb stick": "how",
    "install flash player": "from usb",
    "usb boot not found": "",
    "the how is to": "boot flash",
    "never ranked flash words how how": "stick",
}
QUESTIONS = [
    Question(str(number), title.split(), body.split())
    for number, (title, body) in enumerate(ASKED.items())
]
DEV = [Ranking(0, (1, 2, 3, 4), (True, False, False, False), (4, 3, 2, 1))]
TEST = [
    Ranking(3, (4, 1), (False, True), (0.5, 2.0)),
    Ranking(4, (0, 2, 3), (False,) * 3, (3, 2, 1)),
]


@pytest.fixture
def corpus() -> QuestionCorpus:
    return QuestionCorpus(QUESTIONS, [TrainQuery(0, (1,), (2, 3))], {"valid": DEV, "test": [*TEST]})


@pytest.mark.parametrize("fields", ["title", "title+body"])
def test_baselines_search_all_questions_as_the_settings_say(corpus, fields) -> None:
    texts, found = corpus.texts(fields), Baselines(corpus, [fields])
    ending = ", title" if fields == "title" else ""
    index = BM25Index(texts)
    expected = [index.scores(texts[one.query])[list(one.candidates)] for one in TEST]
    assert torch.equal(found.scores[f"BM25{ending}"]["test"], torch.cat(expected))
    tuned = tf_idf(texts, *tuned_tf_idf(corpus, texts), TEST)
    torch.testing.assert_close(found.scores[f"TF-IDF{ending}"]["test"], tuned, rtol=0, atol=0)
    assert found.scores["BM25 of the corpus"]["test"].tolist() == [0.5, 2.0, 3, 2, 1]
    assert set(found.measures) == set(found.scores)
    assert set(found.measures[f"BM25{ending}"]["valid"]) == set(METRICS)
    corpus.parts["test"][0] = TEST[0]._replace(bm25=None)
    assert "BM25 of the corpus" not in Baselines(corpus, [fields]).scores


def test_stop_words_go_before_runs_are_formed(corpus) -> None:
    stop_words = {"how", "to", "from", "a", "the", "is", "not", "never", "found"}
    pruned = [[w for w in text if w not in stop_words] for text in corpus.texts("title")]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found = tf_idf(corpus.texts("title"), 2, True, DEV)
    torch.testing.assert_close(found, tf_idf(pruned, 2, False, DEV))
    # "boot usb" against "boot usb stick": each word is in three of six titles, the pair in two.
    two, three, once = (math.log(7 / (1 + n)) + 1 for n in (2, 3, 1))
    common = 2 * three**2 + two**2
    expected = common / math.sqrt(common * (common + 2 * once**2))
    assert found[0].item() == pytest.approx(expected) and found[3] == 0
    nothing = [["the"], ["of"], ["and"], ["usb"]]
    assert tf_idf(nothing, 1, True, [Ranking(0, (1, 2), (True, False))]).tolist() == [0.0, 0.0]


class Made(Baselines):
    """Baselines made of scores and relevance, the same for both parts, in place of a corpus."""

    def __init__(self, rankers: list[Tensor], relevance: list[Tensor]) -> None:
        self.scores = {str(k): dict.fromkeys(RANKED, one) for k, one in enumerate(rankers)}
        self.relevance = dict.fromkeys(RANKED, relevance)


def test_the_reranker_learns_from_other_queries_however_long_their_lists_are() -> None:
    """On dev it learns from queries of other folds; on test, here the same ones, from all of dev.

    It reads scores standardised within a query. Scores that are equal up to rounding become zeros.
    """
    generator = torch.Generator().manual_seed(5)
    sizes = [2 + place % 11 for place in range(60)]
    quality = [torch.randn(size, generator=generator) for size in sizes]
    relevance = [each > 1 for each in quality]
    scores = [  # with noise, a scale and offsets
        [
            size * (q + noise * torch.randn(len(q), generator=generator)) + k
            for k, q in enumerate(quality)
        ]
        for size, noise in ((1, 0.1), (10, 2))
    ]
    constant = [0.1 * n * (1 + torch.arange(n) % 2 * 6e-8) for n in sizes]
    made = Made(list(map(torch.cat, [*scores, constant])), relevance).reranked_scores()
    found = {part: made[part].split(sizes) for part in RANKED}
    features = [
        scale(torch.stack(columns, dim=1).double().numpy()) for columns in zip(*scores, strict=True)
    ]
    queries = np.arange(len(sizes))
    folds = [("valid", *fold) for fold in GroupKFold(5).split(queries, groups=queries)]
    for part, train, held in [*folds, ("test", queries, queries)]:
        model = LogisticRegression(class_weight="balanced")
        model.fit(*(np.concatenate([each[q] for q in train]) for each in (features, relevance)))
        for q in held:
            expected = model.decision_function(features[q])
            np.testing.assert_allclose(found[part][q], expected, rtol=1e-6)


def test_there_is_no_reranker_without_enough_to_learn_from() -> None:
    some, none, every = ([True, False], [False, False], [True, True])
    for similar, enough in (
        ([some], False),
        ([some, none], False),
        ([every, every, every], False),
        ([some, some], True),
        ([some, none, none, every], True),
    ):
        made = Made([torch.tensor([2.0, 1.0] * len(similar))], list(map(torch.tensor, similar)))
        assert set(made.measures) == ({"0", "re-ranker"} if enough else {"0"})


def test_measures_are_means_over_the_queries_with_a_similar_candidate() -> None:
    generator = torch.Generator().manual_seed(0)
    sizes = torch.randint(1, 21, (80,), generator=generator)
    scores, draws = torch.rand(2, int(sizes.sum()), generator=generator)
    similar = draws < 0.25
    relevance = similar.split(sizes.tolist())
    assert any(not each.any() for each in relevance)
    found = evaluate(scores.log(), relevance)
    for name, metric in (
        ("MAP", retrieval.RetrievalMAP(empty_target_action="skip")),
        ("MRR", retrieval.RetrievalMRR(empty_target_action="skip")),
        ("P@1", retrieval.RetrievalPrecision(empty_target_action="skip", top_k=1)),
        ("P@5", retrieval.RetrievalPrecision(empty_target_action="skip", top_k=5)),
    ):
        owner = torch.arange(len(sizes)).repeat_interleave(sizes)
        assert found[name] == pytest.approx(100 * metric(scores, similar, owner).item(), abs=1e-4)


def test_scores_of_one_value_gain_nothing_from_the_order_of_candidates() -> None:
    """Scores that include NaN have no measure."""
    number, size = 400, 4
    first = [torch.arange(size) == 0] * number
    found = evaluate(torch.zeros(number * size), first)
    # The similar candidate is at each of the four ranks equally often.
    assert found["MRR"] == pytest.approx(100 * (1 + 1 / 2 + 1 / 3 + 1 / 4) / 4, abs=4)
    assert found["P@1"] == pytest.approx(25, abs=5)
    assert found == evaluate(torch.ones(number * size), first)
    scores = torch.tensor([-math.inf, 0.0, math.inf], dtype=torch.float64, requires_grad=True)
    assert evaluate(scores, [torch.tensor([0, 0, 1])])["P@1"] == 100
    found = evaluate(torch.tensor([0.0, math.nan]), [torch.tensor([True, False])])
    assert all(map(math.isnan, found.values()))
    with pytest.raises(ValueError, match="no query has a similar candidate"):
        evaluate(torch.zeros(2), [torch.zeros(2, dtype=torch.bool)])


POOLINGS = {
    "last": lambda states: states[-1],
    "mean": lambda states: states.mean(dim=0),
    "max": lambda states: states.amax(dim=0),
}
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
@pytest.mark.parametrize("pooling", list(POOLINGS))
@torch.no_grad()
def test_scores_are_cosines_of_means_of_title_and_body(texts, fields, pooling) -> None:
    groups = torch.tensor([[2, 0, 3], [1, 3, 2]])
    names = ("rcnn", "rcnn", pooling, fields, False)
    model = QuestionNet(QuestionModelConfig(*names, 10, 4, False, hidden=5, dropout=0.5)).eval()
    scores = model(batches.question_batch(texts, groups, bodies=fields != "title"))

    def vector(question: int) -> torch.Tensor:
        parts = [TITLES[question]] + ([BODIES[question]] if fields != "title" else [])
        found = []
        for ids in filter(None, parts):
            text = TextBatch(torch.tensor(ids), torch.tensor([0, len(ids)]), torch.zeros(1))
            states, _ = model.encoder(model.embedding(text.ids), text)
            found.append(POOLINGS[pooling](F.normalize(states, dim=1)))
        return torch.stack(found).mean(dim=0)

    expected = [
        [F.cosine_similarity(vector(query), vector(other), dim=0) for other in others]
        for query, *others in groups.tolist()
    ]
    torch.testing.assert_close(scores, torch.tensor(expected))


def test_each_question_is_encoded_once(texts) -> None:
    batch = batches.question_batch(texts, torch.tensor([[2, 0], [0, 2], [2, 0]]), bodies=True)
    assert (batch.num_questions, batch.words.num_texts) == (2, 3)  # question 2 has no body
    assert batch.question.tolist() == [0, 1, 0]
    assert batch.groups.tolist() == [[1, 0], [0, 1], [1, 0]]


def test_an_epoch_has_every_pair_once_with_questions_that_are_not_similar(corpus) -> None:
    corpus.train = [TrainQuery(0, (1, 2), (3,)), TrainQuery(3, (2,), (0, 1))]
    data = question_data(corpus, Questions(), None)
    loader = batches.NegativesLoader(data, 4, batch_size=2, bodies=True, seed=7)
    assert [batch.groups.shape for batch in loader] == [(2, 6), (1, 6)]
    corpus.train[1] = TrainQuery(3, (2,), tuple(range(4, 30)))
    loader = batches.NegativesLoader(data, 20, batch_size=2, bodies=True, seed=7)
    for seed in range(5):
        groups = torch.cat(list(loader.batches(torch.Generator().manual_seed(seed)))).tolist()
        assert sorted(group[:2] for group in groups) == [[0, 1], [0, 2], [3, 2]]
        for query, _, *others in groups:
            # They are repeated only where there are too few.
            assert others == [3] * 20 if query == 0 else len({*others} & {*range(4, 30)}) == 20


def test_losses_and_errors_by_hand() -> None:
    scores = torch.tensor([[0.9, 0.2, 0.5], [0.1, 0.0, -0.3], [1.0, -1.0, -0.5]])
    expected = (0.5 - 0.9 + 0.6 + 0.0 - 0.1 + 0.6 + 0) / 3  # the best wrong candidate counts
    assert tasks.hinge_losses(scores, 0.6).mean().item() == pytest.approx(expected)
    error = tasks.RankingError([torch.tensor([False, True, False]), torch.tensor([True, False])])
    error.update(torch.tensor([0.9, 0.5, 0.1, 0.3]))  # a batch may end within a list
    error.update(torch.tensor([0.2]))
    assert error.compute().item() == pytest.approx(1 - (1 / 2 + 1) / 2)
    error.reset()
    error.update(torch.tensor([0.1, 0.5, 0.2, torch.nan, 0.2]))
    assert error.compute().isnan()


@pytest.fixture
def words() -> TextBatch:
    return TextBatch(torch.arange(9), torch.tensor([0, 3, 4, 9]), torch.zeros(3).long())


def config(**options) -> QuestionModelConfig:
    usual = ("rcnn-last", "rcnn", "last", "title+body", False)
    return replace(QuestionModelConfig(*usual, 10, 200, fixed_embedding=True, hidden=1), **options)


def test_states_of_the_cnn_are_windows_that_end_at_each_word_and_their_mean(words) -> None:
    net, x = ENCODERS["cnn"](4, 6), torch.randn(len(words.ids), 4)
    states, mean = net(x, words)
    (cell,) = net.windows.cells
    kernel = torch.stack([lin.weight for lin in cell.lins], dim=2)
    lengths = words.lengths.tolist()
    for text, (own, found) in enumerate(zip(x.split(lengths), states.split(lengths), strict=True)):
        windows = torch.tanh(F.conv1d(F.pad(own.T, (2, 0)), kernel, cell.bias)).T
        torch.testing.assert_close(found, windows)
        torch.testing.assert_close(mean[text], windows.mean(dim=0))


def test_widths_of_the_thesis_within_equal_parameters() -> None:
    for encoder, width in (("rcnn", 400), ("cnn", 667), ("lstm", 231), ("gru", 278)):
        fitted, wider = (config(encoder=encoder, hidden=width + more) for more in (0, 1))
        assert fitted.encoder_parameters() <= 401_000 < wider.encoder_parameters()


def test_the_recurrence_with_the_gates_gives_the_outputs(words) -> None:
    net = QuestionNet(config(embedding_dim=4, hidden=6)).double().eval()
    weights, x = net.gates(words), net.embedding(words.ids)
    outputs, _ = net.encoder(x, words)
    (cell,) = net.encoder.layer.cells
    first, second = (lin(x) for lin in cell.lins)
    for text in range(words.num_texts):
        h, c1, c2 = torch.zeros(3, 6, dtype=torch.double)
        for t in range(int(words.ptr[text]), int(words.ptr[text + 1])):
            logit = cell.decay_lin.weight @ x[t] + cell.decay_recurrent.weight @ h + cell.decay_bias
            torch.testing.assert_close(weights[t], 1 - torch.sigmoid(logit))
            c2 = (1 - weights[t]) * c2 + weights[t] * (c1 + second[t])
            c1 = (1 - weights[t]) * c1 + weights[t] * first[t]
            h = torch.tanh(c2 + cell.bias)
            torch.testing.assert_close(outputs[t], h)


def test_means_of_gates_by_position(words) -> None:
    net = QuestionNet(config(embedding_dim=4, hidden=6)).eval()
    weights = net.gates(words)
    first = TextBatch(words.ids[:4], words.ptr[:3], words.y[:2])
    second = TextBatch(words.ids[4:], words.ptr[2:] - 4, words.y[2:])
    found = weights_by_position(net, [first, second])
    assert found["texts"].tolist() == [3, 2, 2, 1, 1]
    for position, rows in enumerate([[0, 3, 4], [1, 5], [2, 6], [7], [8]]):
        assert found["mean"][position] == pytest.approx(weights[rows].mean().item())
        assert found["largest"][position] == pytest.approx(weights[rows].amax(dim=1).mean().item())


@pytest.fixture
def task(tmp_path) -> PretrainingTask:
    root = str(write_askubuntu(tmp_path / "askubuntu"))
    choice = Questions(data=("askubuntu",), root=root, vectors="none")
    return PretrainingTask(load_questions(choice))


def test_titles_are_written_from_title_body_and_similar_questions(corpus) -> None:
    titles = [*((k, k) for k in range(6)), (0, 1), (1, 0)]
    bodies = [(6 + one, other) for one, other in titles if one != 3]  # question 3 has no body
    assert sorted(map(tuple, batches.written_pairs(corpus).tolist())) == sorted(titles + bodies)
    assert batches.held_out_pairs(corpus, [1, 3]).tolist() == [[7, 1], [3, 3]]
    with pytest.raises(InputError, match=r"needs at least two questions held out .* got 0"):
        PretrainingTask(question_data(corpus, Questions(), None))
    corpus.held_out = (3,)  # a question that occurs in no pair
    places = batches.written_pairs(corpus).flatten() % 6
    assert set(places.tolist()) == {0, 1, 2, 4, 5}


def test_each_word_is_written_after_the_one_before(corpus) -> None:
    data = question_data(corpus, Questions(), None)
    words = data.vocabulary
    (batch,) = batches.TitleLoader(data, torch.tensor([[8, 1], [3, 3]]), batch_size=8)
    assert words.decode(batch.context.ids) == ["from", "usb", "usb", "boot", "not", "found"]
    assert batch.context.ptr.tolist() == [0, 2, 6]
    first, second = ["boot", "from", "<unk>", "usb", "stick"], ["usb", "boot", "not", "found"]
    assert words.decode(batch.before.ids) == [END, *first, END, *second]
    assert words.decode(batch.after) == [*first, END, *second, END]
    assert batch.before.ptr.tolist() == [0, 6, 11]


@pytest.mark.parametrize("encoder", list(ENCODERS))
def test_perplexity_is_that_of_the_words_one_by_one(task, encoder) -> None:
    options = Networks(models=(encoder,), hidden=5)
    (config,) = tasks.pretraining_configs(tasks.question_model_configs(options, task.data, [True]))
    writer = task.learner(config, OptimizerConfig()).eval()
    found = task.batches(writer, 4, seed=0)
    for batch in found.also[0]:
        assert len(batch.question.unique()) == len(batch.question)  # only titles are read
    loader = found.parts["valid"]
    with torch.no_grad():
        predicted = torch.cat([writer.predict_step(batch, 0) for batch in loader])

        net, nats = writer.net, []
        for place, (context, question) in enumerate(task.pairs["valid"].tolist()):
            batch = task.data.texts.batch(torch.tensor([context]))
            _, state = net.question.encoder(net.question.embedding(batch.ids), batch)
            title = task.data.corpus.questions[question].title
            numbers = task.data.vocabulary.encode([title])[0].tolist()
            end = task.data.vocabulary[END]
            ids = torch.tensor([end, *numbers])
            before = batch._replace(ids=ids, ptr=torch.tensor([0, len(ids)]))
            states, _ = net.decoder(net.question.embedding(before.ids), before, state)
            log, known = net.output(states).log_softmax(dim=1), task.title_words
            classes = [1 + known.index(w) if w in known else 0 for w in [*numbers, end]]
            total = -sum(log[t, k].item() for t, k in enumerate(classes))
            assert predicted[place, 0].item() == pytest.approx(total, rel=1e-4)
            nats.append((total, len(classes)))
    perplexity = math.exp(sum(total for total, _ in nats) / sum(count for _, count in nats))
    scores = task.scores(dict.fromkeys(("train", "valid", "test"), predicted))
    assert scores["valid"] == pytest.approx(perplexity, rel=1e-4)


def test_widths_are_those_of_fine_tuning_and_poolings_and_fields_models_of_their_own(task) -> None:
    choice = {"pooling": ("mean", "max"), "fields": ("title", "title+body"), "parameters": 2000}
    options = Networks(models=("rcnn", "cnn"), **choice)
    models = tasks.question_model_configs(options, task.data, [False, True])
    endings = ("mean-title", "mean", "max-title", "max")
    assert [model.name for model in models] == [
        f"{name}-{ending}" for name in ("rcnn", "rcnn-pt", "cnn", "cnn-pt") for ending in endings
    ]
    widths = {model.encoder: model.hidden for model in models}
    assert {model.name: model.hidden for model in tasks.pretraining_configs(models)} == widths
