"""Paraphrases as questions: candidates by definition, parts that share nothing, bad lines."""

import random
from pathlib import Path

import pandas
import pytest
import torch

from benchmarks.corpora import paraphrases
from benchmarks.corpora.paraphrases import MSRPQuestions, OwnPairs
from benchmarks.corpora.questions import BM25Index, QuestionCorpus, Ranking
from pyg_kernels.datasets.text import tokenize
from tests.datasets.conftest import present

HEADER = "\ufeffQuality\t#1 ID\t#2 ID\t#1 String\t#2 String\r\n"
Row = tuple[int, str, str]  # label and the two sentences


def sentences(number: int, seed: int) -> list[str]:
    generator = random.Random(seed)
    words = [f"w{k}" for k in range(60)]
    return [
        " ".join([f"S{seed}_{k}", *generator.choices(words, k=generator.randint(4, 9))])
        for k in range(number)
    ]


FIRST, SECOND = sentences(40, 1), sentences(40, 2)
TRAIN: list[Row] = [(int(k % 4 > 0), FIRST[k], SECOND[k]) for k in range(28)]
TEST: list[Row] = [(int(k % 4 > 0), FIRST[k], SECOND[k]) for k in range(28, 40)]
# 29 (a test query) has a paraphrase in the training file, which is also one of 5's; the second
# sentence of 30 is a paraphrase of 29 too.
TRAIN += [(1, FIRST[5], FIRST[29]), (0, FIRST[6], SECOND[7])]
TEST += [(1, FIRST[29], SECOND[30])]


def write(root: Path, train: list[Row] = TRAIN, test: list[Row] = TEST) -> Path:
    """Writes both files; the id of a sentence is made of its words."""
    for name, rows in (("train", train), ("test", test)):
        lines = [
            f"{label}\tid-{first[:8]}\tid-{second[:8]}\t{first}\t{second}\r\n"
            for label, first, second in rows
        ]
        path = root / f"msr_paraphrase_{name}.txt"
        path.write_bytes((HEADER + "".join(lines)).encode())
    return root


@pytest.fixture
def data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> MSRPQuestions:
    monkeypatch.setattr(paraphrases, "DEV_FRACTION", 0.2)
    monkeypatch.setattr(paraphrases, "NUM_CANDIDATES", 6)
    return MSRPQuestions(write(tmp_path))


def place(corpus: QuestionCorpus, sentence: str) -> int:
    return corpus.position[f"id-{sentence[:8]}"]


def similar(ranking: Ranking) -> set[int]:
    return {c for c, yes in zip(ranking.candidates, ranking.relevant, strict=True) if yes}


def test_candidates_are_the_true_sentence_and_the_best_of_all_second_ones(data) -> None:
    pool = list(dict.fromkeys(second for _, _, second in TRAIN + TEST))
    index = BM25Index([tokenize(sentence) for sentence in pool])
    assert all(not question.body for question in data.questions)
    true: dict[str, list[str]] = {}
    for label, first, second in TEST:
        if label:
            true.setdefault(first, []).append(second)
    outside = 0
    for ranking, (first, seconds) in zip(data.parts["test"], true.items(), strict=True):
        assert data.questions[ranking.query].title == tuple(tokenize(first))
        score = dict(zip(pool, index.scores(tokenize(first)).tolist(), strict=True))
        others = [sentence for sentence in pool if sentence not in (first, *seconds)]
        best = sorted(others, key=lambda sentence: -score[sentence])[:5]
        expected = sorted([*best, *seconds], key=lambda s: (-score[s], pool.index(s)))
        assert list(ranking.candidates) == [place(data, sentence) for sentence in expected]
        assert ranking.bm25 == pytest.approx([score[sentence] for sentence in expected])
        outside += expected[-1] in seconds
    assert outside  # some true sentences are not among the best


def test_every_labeled_paraphrase_among_the_candidates_is_relevant(tmp_path, monkeypatch) -> None:
    monkeypatch.setattr(paraphrases, "NUM_CANDIDATES", 60)
    data = MSRPQuestions(write(tmp_path))
    query = place(data, FIRST[29])
    (ranking,) = (ranking for ranking in data.parts["test"] if ranking.query == query)
    # FIRST[5] is one as well, but no second sentence.
    assert similar(ranking) == {place(data, SECOND[29]), place(data, SECOND[30])}
    assert query not in ranking.candidates and len(ranking.candidates) == 40


def test_training_dev_and_test_paraphrases_share_no_sentence(data: MSRPQuestions) -> None:
    used = {"train": {p for query in data.train for p in (query.query, *query.positives)}}
    for name, rankings in data.parts.items():
        used[name] = {p for ranking in rankings for p in (ranking.query, *similar(ranking))}
    assert not used["train"] & used["dev"] and not used["train"] & used["test"]
    assert not used["dev"] & used["test"]
    # 5 is connected with 29, a query to test on: both its pairs are left out.
    assert data.left_out == {"training pairs connected with the test part": 2}
    pairs = sum(label for label, *_ in TRAIN) - 2
    assert len(data.parts["dev"]) == int(0.2 * pairs)
    assert sum(len(query.positives) for query in data.train) == pairs - int(0.2 * pairs)


def test_groups_of_connected_sentences_stay_together(tmp_path, monkeypatch) -> None:
    monkeypatch.setattr(paraphrases, "DEV_FRACTION", 0.3)
    chain = [(1, FIRST[k], FIRST[k + 1]) for k in range(4)]
    single = [(1, FIRST[k], SECOND[k]) for k in range(10, 22)]
    write(tmp_path, train=chain + single, test=TEST[1:3])
    trained = set()
    for seed in range(9):
        data = MSRPQuestions(tmp_path, seed=seed)
        dev = {ranking.query for ranking in data.parts["dev"]}
        links = [place(data, first) in dev for _, first, _ in chain]
        assert len(dev) == 4 and len(set(links)) == 1
        known = {p for query in data.train for p in (query.query, *query.positives)}
        for query in data.train:
            assert set(query.negatives) == known - {query.query, *query.positives}
        # A sentence in the middle of the chain is similar to both of its neighbours.
        middle = [query.positives for query in data.train if query.query == place(data, FIRST[1])]
        trained.update(*middle)
    assert trained == {place(data, FIRST[0]), place(data, FIRST[2])}
    assert MSRPQuestions(tmp_path, seed=8).digest() == data.digest()


FILE = r"/msr_paraphrase_{}.txt "
BAD_LINES = [
    ("1\ta\tb\tx y", "expected 5 cells, got 4"),
    ("2\ta\tb\tx\ty", "the label must be 0 or 1, got '2'"),
    ("1\ta\tb\t \ty", "sentence a has no words"),
    ("1\ta\ta\tx\ty", "sentence a was another one before"),
]


@pytest.mark.parametrize(
    ("train", "test", "line", "message"),
    [
        *((TRAIN, TEST, line, f"line 32 of .*train.txt: {said}") for line, said in BAD_LINES),
        ([], [], "", FILE.format("train") + "has no pairs of two sentences"),
        (TRAIN, [], "", FILE.format("test") + "has no pairs of two sentences"),
        (TRAIN, [(0, FIRST[30], SECOND[30])], "", FILE.format("test") + "has no paraphrases"),
        ([(0, FIRST[1], SECOND[1])], TEST, "", "too small for a dev part of 0.1: it has 0 pairs"),
        ([(1, FIRST[k], SECOND[k]) for k in range(9)], TEST, "", "part of 0.1: it has 9 pairs"),
    ],
)
def test_a_bad_file_is_named(tmp_path: Path, train, test, line: str, message: str) -> None:
    path = write(tmp_path, train, test) / "msr_paraphrase_train.txt"
    path.write_bytes(path.read_bytes() + f"{line}\r\n".encode() * bool(line))
    with pytest.raises(ValueError, match=message):
        MSRPQuestions(tmp_path)


def test_sentences_of_the_same_words_are_one_question(tmp_path: Path) -> None:
    same = FIRST[1].upper() + " "
    write(tmp_path, train=[*TRAIN, (1, FIRST[1], "same  " + same), (0, FIRST[2], SECOND[20])])
    path = tmp_path / "msr_paraphrase_train.txt"
    path.write_bytes(path.read_bytes() + f"1\tx\ty\t{FIRST[1]}\t{same}\r\n".encode())
    data = MSRPQuestions(tmp_path)
    assert data.left_out["pairs of one and the same sentence"] == 1
    assert "x" not in data.position and "y" not in data.position
    assert len({question.title for question in data.questions}) == len(data)


def test_a_text_of_several_similar_pairs_is_one_query(tmp_path: Path) -> None:
    clusters = [[f"cluster{k} text{i} w{(k * i) % 7}" for i in range(4)] for k in range(30)]
    rows = [(cluster[0], other, 1) for cluster in clusters for other in cluster[1:]]
    pandas.DataFrame(rows, columns=["first", "second", "label"]).to_csv(tmp_path / "p.csv")
    data = OwnPairs(tmp_path / "p.csv")
    for part in ("dev", "test"):
        queries = [ranking.query for ranking in data.parts[part]]
        assert len(queries) == len(set(queries)) > 1
        assert all(sum(ranking.relevant) == 3 for ranking in data.parts[part])


def test_the_published_corpus(real_data: Path) -> None:
    data = MSRPQuestions(present(real_data / "text" / "msrp"))
    # Every test pair labelled a paraphrase, with 20 candidates; no two queries are one sentence.
    assert len(data.parts["test"]) == 1147
    assert all(len(ranking.candidates) == 20 for ranking in data.parts["test"])
    assert all(any(ranking.relevant) for ranking in data.parts["test"])
    pairs = sum(len(query.positives) for query in data.train)
    dev, connected = len(data.parts["dev"]), data.left_out[next(iter(data.left_out))]
    assert (dev, connected) == (260, 144)
    assert torch.tensor([len(query.negatives) for query in data.train]).eq(100).all()
    # Sentences that are first in one pair and second in another count from both sides.
    assert pairs >= 2753 - dev - connected
