"""Question corpora: what they hold and what they refuse."""

import pytest

from benchmarks.corpora.questions import Question, QuestionCorpus, Ranking, TrainQuery


def corpus(**changes: object) -> QuestionCorpus:
    """Four questions a to d, unless `changes` say otherwise."""
    questions = [Question(name, [name, "?"], ["more", name]) for name in "abcd"]
    content = {
        "questions": questions,
        "train": [TrainQuery(0, (1,), (2, 3))],
        "parts": {
            "dev": [Ranking(1, (0, 2), (True, False), (2.0, 1.0))],
            "test": [Ranking(3, (0, 1, 2), (False, True, True))],
        },
    }
    return QuestionCorpus(**{**content, **changes})  # type: ignore[arg-type]


def test_holds_questions_and_lists_of_candidates() -> None:
    data = corpus()
    assert data.position == {"a": 0, "b": 1, "c": 2, "d": 3}
    assert data.texts("title")[1] == ["b", "?"]
    assert data.texts("title+body")[1] == ["b", "?", "more", "b"]
    assert [r.tolist() for r in data.relevance("test")] == [[False, True, True]]
    assert data.parts["dev"][0].bm25 == (2.0, 1.0)
    assert data.held_out == () and data.left_out == {}


def test_holds_out_a_tenth_and_only_where_the_corpus_names_none() -> None:
    many = [Question(str(number), ["w"]) for number in range(38)]
    first, second, named = corpus(questions=many), corpus(questions=many), corpus(held_out=[4, 2])
    for one in (first, second, named):
        one.hold_out(seed=1)
    assert first.held_out == second.held_out == tuple(sorted(set(first.held_out)))
    assert (len(first.held_out), named.held_out) == (3, (2, 4))
    with pytest.raises(ValueError, match="must be ten questions to hold some out, not 4"):
        corpus().hold_out()


def test_the_digest_tells_corpora_apart() -> None:
    digests = {
        corpus().digest(),
        corpus(split="other words").digest(),
        corpus(train=[TrainQuery(0, (1,), (3, 2))]).digest(),
        corpus(held_out=[1]).digest(),
        corpus(questions=[Question(name, [name, "?"]) for name in "abcd"]).digest(),
        corpus(parts={**corpus().parts, "dev": [Ranking(1, (0, 2), (True, False))]}).digest(),
    }
    assert len(digests) == 5  # only the words for the split make no difference
