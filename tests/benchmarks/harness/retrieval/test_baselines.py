"""Rankings by words against the formulas."""

import math
import sys
import warnings
from collections import Counter
from importlib import import_module

import pytest
import torch

pytest.importorskip("bm25s", reason="the benchmark needs the extra 'bench'")
pytest.importorskip("torchmetrics", reason="the benchmark needs the extra 'bench'")

from benchmarks.corpora.bm25 import BM25Index
from benchmarks.corpora.questions import Question, QuestionCorpus, Ranking, TrainQuery
from benchmarks.harness.errors import InputError, naming_extras
from benchmarks.harness.retrieval.baselines import (
    NGRAMS,
    TfIdf,
    bm25,
    published_bm25,
    tuned_tf_idf,
)
from benchmarks.harness.retrieval.metrics import evaluate

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


@pytest.fixture
def corpus() -> QuestionCorpus:
    return QuestionCorpus(
        QUESTIONS,
        [TrainQuery(0, (1,))],
        {
            "dev": [Ranking(0, (1, 2, 3, 4), (True, False, False, False))],
            "test": [
                Ranking(3, (4, 1), (False, True), (0.5, 2.0)),
                Ranking(4, (0, 2, 3), (False,) * 3, (3, 2, 1)),
            ],
        },
    )


@pytest.mark.parametrize("fields", ["title", "title+body"])
def test_bm25_searches_all_questions(corpus: QuestionCorpus, fields: str) -> None:
    texts = corpus.texts(fields)
    index = BM25Index(texts)
    found = bm25(corpus, "test", fields)
    assert len(found) == 2
    for scores, (query, candidates) in zip(found, ((3, [4, 1]), (4, [0, 2, 3])), strict=True):
        expected = [index.scores(texts[query])[place] for place in candidates]
        assert scores.tolist() == expected


def test_the_scores_that_the_corpus_has(corpus: QuestionCorpus) -> None:
    assert [scores.tolist() for scores in published_bm25(corpus, "test")] == [[0.5, 2.0], [3, 2, 1]]
    with pytest.raises(InputError, match="question 0 of the dev part has no BM25 scores"):
        published_bm25(corpus, "dev")


def runs(words: list[str], longest: int) -> Counter[str]:
    return Counter(
        " ".join(words[start : start + length])
        for length in range(1, longest + 1)
        for start in range(len(words) - length + 1)
    )


def cosine_by_definition(place: int, other: int, texts: list[list[str]], longest: int) -> float:
    """tf-idf with scikit-learn's idf, log((1 + M) / (1 + M_w)) + 1, over all runs of all texts."""
    counts = [runs(text, longest) for text in texts]

    def vector(which: int) -> dict[str, float]:
        return {
            run: count * (math.log((1 + len(texts)) / (1 + sum(run in c for c in counts))) + 1)
            for run, count in counts[which].items()
        }

    one, two = vector(place), vector(other)
    product = sum(value * two.get(run, 0.0) for run, value in one.items())
    lengths = [math.sqrt(sum(value**2 for value in vec.values())) for vec in (one, two)]
    return product / math.prod(lengths) if all(lengths) else 0.0


@pytest.mark.parametrize("ngrams", NGRAMS)
@pytest.mark.parametrize("fields", ["title", "title+body"])
def test_tf_idf_equals_its_definition(corpus: QuestionCorpus, ngrams: int, fields: str) -> None:
    texts = corpus.texts(fields)
    (found,) = TfIdf(ngrams)(corpus, "dev", fields)
    expected = [cosine_by_definition(0, place, texts, ngrams) for place in (1, 2, 3, 4)]
    torch.testing.assert_close(found, torch.tensor(expected))


def test_stop_words_go_before_runs_are_formed(corpus: QuestionCorpus) -> None:
    stop_words = {"how", "to", "from", "a", "the", "is", "not", "never", "found"}
    pruned = [[w for w in text if w not in stop_words] for text in corpus.texts("title")]
    assert pruned[4] == []
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        (found,) = TfIdf(2, stop_words=True)(corpus, "dev", "title")
    expected = [cosine_by_definition(0, place, pruned, 2) for place in (1, 2, 3, 4)]
    torch.testing.assert_close(found, torch.tensor(expected))
    assert found[3] == 0


def test_questions_of_nothing_but_stop_words() -> None:
    questions = [Question(str(k), [word]) for k, word in enumerate(("the", "of", "and", "usb"))]
    corpus = QuestionCorpus(
        questions,
        [TrainQuery(3, (0,))],
        {part: [Ranking(0, (1, 2), (True, False))] for part in ("dev", "test")},
    )
    (found,) = TfIdf(stop_words=True)(corpus, "test", "title")
    assert found.tolist() == [0.0, 0.0]


def test_the_best_setting_on_dev_is_taken(corpus: QuestionCorpus) -> None:
    best = tuned_tf_idf(corpus, "title")
    relevance = corpus.relevance("dev")
    reached = {
        (ngrams, pruned): evaluate(TfIdf(ngrams, pruned)(corpus, "dev", "title"), relevance)["MRR"]
        for ngrams in NGRAMS
        for pruned in (False, True)
    }
    first = next(key for key, value in reached.items() if value == max(reached.values()))
    assert best == TfIdf(*first) and len(set(reached.values())) > 1


def test_says_so_before_a_run_begins_where_bm25s_is_missing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    module = "benchmarks.harness.retrieval.baselines"
    monkeypatch.delitem(sys.modules, module)
    monkeypatch.setitem(sys.modules, "bm25s", None)
    with (
        pytest.raises(InputError, match=r"bm25s is not installed: pip install '.\[bench\]'"),
        naming_extras("bench"),
    ):
        import_module(module)
