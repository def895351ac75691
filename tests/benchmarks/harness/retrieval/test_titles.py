"""Pre-training: what titles are written from, their probabilities, their perplexity."""

import math

import pytest
import torch

from benchmarks.corpora.questions import Question, QuestionCorpus, Ranking, TrainQuery
from benchmarks.harness.errors import InputError
from benchmarks.harness.learner import OptimizerConfig
from benchmarks.harness.retrieval.data import (
    END,
    TitleLoader,
    held_out_pairs,
    load_questions,
    question_data,
    written_pairs,
)
from benchmarks.harness.retrieval.models import ENCODERS
from benchmarks.harness.retrieval.options import Networks, Questions
from benchmarks.harness.retrieval.task import (
    PretrainingTask,
    pretraining_configs,
    question_model_configs,
)
from tests.benchmarks.small_data import write_askubuntu


@pytest.fixture
def corpus() -> QuestionCorpus:
    questions = [
        Question("a", ["usb", "boot"], ["my", "usb", "stick"]),
        Question("b", ["boot", "usb", "stick"]),
        Question("c", ["wifi"], ["no", "wifi"]),
        Question("d", ["no", "boot"], ["my", "boot"]),
    ]
    train = [TrainQuery(0, (1, 3), (2,))]
    ranking = Ranking(2, (0, 1), (False, True))
    return QuestionCorpus(questions, train, {"dev": [ranking], "test": [ranking]})


@pytest.fixture
def task(tmp_path) -> PretrainingTask:
    root = str(write_askubuntu(tmp_path / "askubuntu"))
    choice = Questions(data=("askubuntu",), root=root, vectors="none")
    return PretrainingTask(load_questions(choice))


def test_titles_are_written_from_title_body_and_similar_questions(corpus) -> None:
    pairs = [tuple(pair) for pair in written_pairs(corpus).tolist()]
    themselves = [(0, 0), (1, 1), (2, 2), (3, 3)]
    bodies = [(4, 0), (6, 2), (7, 3)]  # question 1 has none
    similar = [(0, 1), (1, 0), (0, 3), (3, 0)]
    similar_bodies = [(4, 1), (4, 3), (7, 0)]
    assert sorted(pairs) == sorted(themselves + bodies + similar + similar_bodies)
    assert held_out_pairs(corpus, [1, 3]).tolist() == [[1, 1], [7, 3]]
    with pytest.raises(InputError, match=r"needs at least two questions held out .* got 0"):
        PretrainingTask(question_data(corpus, Questions(), None))
    corpus.held_out = (3,)  # occurs in no pair
    assert {place % 4 for pair in written_pairs(corpus).tolist() for place in pair} == {0, 1, 2}


def test_each_word_is_written_after_the_one_before(corpus) -> None:
    data = question_data(corpus, Questions(), None)
    words = data.vocabulary
    (batch,) = TitleLoader(data, torch.tensor([[4, 1], [2, 2]]), batch_size=8)
    assert words.decode(batch.context.ids) == ["my", "usb", "stick", "wifi"]
    assert batch.context.ptr.tolist() == [0, 3, 4]
    assert words.decode(batch.before.ids) == [END, "boot", "usb", "stick", END, "wifi"]
    assert words.decode(batch.after) == ["boot", "usb", "stick", END, "wifi", END]
    assert batch.before.ptr.tolist() == [0, 4, 6]


@pytest.mark.parametrize("encoder", list(ENCODERS))
def test_perplexity_is_that_of_the_words_one_by_one(task, encoder) -> None:
    torch.manual_seed(0)
    options = Networks(models=(encoder,), hidden=5)
    (config,) = pretraining_configs(question_model_configs(options, task.data, [True]))
    writer = task.learner(config, OptimizerConfig()).eval()
    loader = task.batches(writer, 4, seed=0).parts["valid"]
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
    models = question_model_configs(options, task.data, [False, True])
    endings = ("mean-title", "mean", "max-title", "max")
    assert [model.name for model in models] == [
        f"{name}-{ending}" for name in ("rcnn", "rcnn-pt", "cnn", "cnn-pt") for ending in endings
    ]
    widths = {model.encoder: model.hidden for model in models}
    assert {model.name: model.hidden for model in pretraining_configs(models)} == widths
