"""Question corpora: AskUbuntu, and paraphrases as questions."""

import random
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from benchmarks.corpora import ask_ubuntu, paraphrases
from benchmarks.corpora.ask_ubuntu import AskUbuntu
from benchmarks.corpora.paraphrases import MSRPQuestions
from benchmarks.corpora.questions import BM25Index, Question, QuestionCorpus, Ranking, TrainQuery
from pyg_kernels.datasets.text import tokenize
from tests.benchmarks.small_data import write_file
from tests.datasets.conftest import present

FILES = {
    "text_tokenized.txt": (
        "9\thow do i boot ?\tfrom a usb stick\n"
        "11\tboot from usb\t\n"
        "12\tinstall flash\tplayer for video please\n"
        "20\tvideo is slow\ta b c d\n"
        "21\tslow flash video\tno sound\n"
    ),
    "train_random.txt": "9\t11\t12 20 11\n12\t21 20\t9 11\n",
    "dev.txt": "11\t9\t12 9 20\t3.5 2.25 -1\n20\t\t9 11\t1 0.5\n",
    "test.txt": "21\t12 20\t20 9 12\n",
}
BOOT = ("how", "do", "i", "boot", "?")


@pytest.fixture
def root(tmp_path: Path) -> Path:
    for name, content in FILES.items():
        (tmp_path / name).write_text(content)
    return tmp_path


def test_reads_ask_ubuntu(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ask_ubuntu, "BODY_WORDS", 3)
    data = AskUbuntu(root)
    assert [question.id for question in data.questions] == ["9", "11", "12", "20", "21"]
    assert data.questions[0] == Question("9", BOOT, ("from", "a", "usb"))
    assert data.questions[1].body == ()
    assert data.texts("title+body")[0] == [*BOOT, "from", "a", "usb"]
    # Question 11 is similar to 9 and also among its random questions.
    assert data.train == [TrainQuery(0, (1,), (2, 3)), TrainQuery(2, (4, 3), (0, 1))]
    assert data.left_out == {"training question's other that is similar": 1}
    assert data.parts["valid"] == [
        Ranking(1, (2, 0, 3), (False, True, False), (3.5, 2.25, -1.0)),
        Ranking(3, (0, 1), (False, False), (1.0, 0.5)),
    ]
    assert data.parts["test"] == [Ranking(4, (3, 0, 2), (True, False, True), None)]
    assert data.held_out == () and data.vectors is None


def test_finds_compressed_files_the_held_out_questions_and_the_vectors(root) -> None:
    expected = AskUbuntu(root)
    text = root / "text_tokenized.txt"
    packed = write_file(root / "raw" / "text_tokenized.txt.gz", text.read_bytes())
    text.unlink()
    assert AskUbuntu(root).digest() == expected.digest()
    (root / "heldout.txt").write_text("20\n9\n")
    vectors = root / "vectors_pruned.200.txt.gz"
    vectors.write_bytes(b"")
    data = AskUbuntu(root)
    assert data.held_out == (0, 3) and data.vectors == vectors
    (root / "vector").mkdir()
    vectors = vectors.rename(root / "vector" / vectors.name)
    assert AskUbuntu(root).vectors == vectors
    packed.unlink()
    with pytest.raises(FileNotFoundError, match=r"text_tokenized.txt or .*gz is not in"):
        AskUbuntu(root)


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("text_tokenized.txt", "9\ta\tb\n9\tc\td\n", r"line 2 of .*: there is another question 9"),
        ("text_tokenized.txt", "9\ta\n", r"line 1 of .*: expected 3 cells, got 2"),
        ("text_tokenized.txt", "9 8\ta\tb\n", r"the first cell must be one id, got '9 8'"),
        ("text_tokenized.txt", "9\t \tb\n", r"line 1 of .*: question without a title, 9"),
        ("train_random.txt", "9\t11 13\t12\n", r"line 1 of .*: id without a question, 13"),
        ("train_random.txt", "\n", r"line 1 of .*: expected 3 cells, got 1"),
        ("train_random.txt", "9\t\t11\n", r"training question without a similar one, 9"),
        ("train_random.txt", "9\t11\t9 11\n", r"training question without another one, 9"),
        ("train_random.txt", "9\t9 11\t12\n", r"line 1 of .*: question similar to itself .*, 9"),
        ("text_tokenized.txt", "", r"/text_tokenized.txt has no questions that can be used"),
        ("dev.txt", "13\t9\t9 12\t1 2\n", r"line 1 of .*dev.txt: id without a question, 13"),
        *(
            ("dev.txt", f"11\t9\t9 12\t{cell}\n", f"line 1 of .*: expected 2 .* got '{cell}'")
            for cell in ("1", "1 x", "1 nan")
        ),
        ("dev.txt", "11\t\t\t\n", r"line 1 of .*: ranked question without candidates, 11"),
        ("dev.txt", "11\t20\t9 12\t1 2\n", r"similar question that is no candidate, 20"),
        ("dev.txt", "11\t9\t9 11\t1 2\n", r"line 1 of .*: .* or its own candidate, 11"),
        ("dev.txt", "30\t9\t9 11\t2 1\n", r"/dev.txt has no questions that can be used"),
        ("heldout.txt", "13\n", r"line 1 of .*heldout.txt: id without a question, 13"),
    ],
)
def test_a_bad_line_is_named(root: Path, name: str, content: str, message: str) -> None:
    (root / name).write_text(content)
    leave_out = "30" in content  # every line of this file is left out
    with pytest.raises(ValueError, match=message):
        AskUbuntu(root, leave_out=leave_out)


def test_leaves_out_and_counts_on_request(root: Path) -> None:
    for name, line in (
        ("text_tokenized.txt", "30\t\twithout a title\n"),
        ("train_random.txt", "20\t30\t9\n9\t30 11\t12 31\n20\t20\t9\n21\t21 9\t11\n"),
        ("dev.txt", "30\t9\t9 11\t2 1\n12\t30 20 9\t30 9 21\t3 2 1\n9\t\t30\t1\n"),
        ("test.txt", "9\t9 11\t12 9 11 12\t4 3 2 1\n"),
    ):
        with (root / name).open("a") as file:
            file.write(line)
    with pytest.raises(ValueError, match=r"a title, 30 \(leave_out=True, --leave-out, leaves"):
        AskUbuntu(root)
    data = AskUbuntu(root, leave_out=True)
    assert data.left_out == {
        "question without a title": 1,
        "id without a question": 7,
        "question similar to itself or its own candidate": 4,
        "training question without a similar one": 2,
        "training question's other that is similar": 1,
        "similar question that is no candidate": 1,
        "ranked question without candidates": 1,
    }
    assert data.train[2:] == [TrainQuery(0, (1,), (2,)), TrainQuery(4, (0,), (1,))]
    assert data.parts["valid"][2:] == [Ranking(2, (0, 4), (True, False), (2.0, 1.0))]
    assert data.parts["test"][1:] == [Ranking(0, (2, 1), (False, True), (4.0, 2.0))]


CORPUS = QuestionCorpus(
    questions=[Question(name, (name, "?"), ("more", name)) for name in "abcd"],
    train=[TrainQuery(0, (1,), (2, 3))],
    parts={
        "valid": [Ranking(1, (0, 2), (True, False), (2.0, 1.0))],
        "test": [Ranking(3, (0, 1, 2), (False, True, True))],
    },
)


def test_holds_out_a_tenth_and_only_where_the_corpus_names_none() -> None:
    many = [Question(str(number), ("w",)) for number in range(38)]
    first, second = replace(CORPUS, questions=many), replace(CORPUS, questions=many)
    named = replace(CORPUS, held_out=(2, 4))
    for one in (first, second, named):
        one.hold_out(seed=1)
    assert first.held_out == second.held_out == tuple(sorted(set(first.held_out)))
    assert (len(first.held_out), named.held_out) == (3, (2, 4))
    with pytest.raises(ValueError, match="must be ten questions to hold some out, not 4"):
        CORPUS.hold_out()


@pytest.mark.parametrize(
    ("change", "differs"),
    [
        ({"split": "other words"}, False),
        ({"train": [TrainQuery(0, (1,), (3, 2))]}, True),
        ({"held_out": (1,)}, True),
        ({"questions": [Question(name, (name, "?")) for name in "abcd"]}, True),
        ({"parts": CORPUS.parts | {"valid": [Ranking(1, (0, 2), (True, False))]}}, True),
    ],
)
def test_the_digest_tells_corpora_apart(change, differs) -> None:
    assert (replace(CORPUS, **change).digest() != CORPUS.digest()) == differs


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
# The training file has a paraphrase of each of the test queries 29 and 31. That of 29 is sentence
# 5, which has another paraphrase. The second sentence of 30 is a paraphrase of 29, too.
TRAIN += [(1, FIRST[5], FIRST[29]), (0, FIRST[6], SECOND[7]), (1, FIRST[31], f"T {FIRST[31]}")]
TEST += [(1, FIRST[29], SECOND[30])]


def write_pairs(folder: Path, train: list[Row] = TRAIN, test: list[Row] = TEST) -> Path:
    """Writes both files; the id of a sentence is ``id-`` and its first eight characters."""
    for name, rows in (("train", train), ("test", test)):
        lines = [
            f"{label}\tid-{first[:8]}\tid-{second[:8]}\t{first}\t{second}\r\n"
            for label, first, second in rows
        ]
        path = folder / f"msr_paraphrase_{name}.txt"
        path.write_bytes((HEADER + "".join(lines)).encode())
    return folder


@pytest.fixture
def msrp(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> MSRPQuestions:
    monkeypatch.setattr(paraphrases, "DEV_FRACTION", 0.2)
    monkeypatch.setattr(paraphrases, "NUM_CANDIDATES", 6)
    return MSRPQuestions(write_pairs(tmp_path))


def place(corpus: QuestionCorpus, sentence: str) -> int:
    return [question.id for question in corpus.questions].index(f"id-{sentence[:8]}")


def similar(ranking: Ranking) -> set[int]:
    return {c for c, yes in zip(ranking.candidates, ranking.relevant, strict=True) if yes}


def test_candidates_are_the_true_sentence_and_the_best_of_all_second_ones(msrp) -> None:
    pool = list(dict.fromkeys(second for _, _, second in TRAIN + TEST))
    index = BM25Index([tokenize(sentence) for sentence in pool])
    assert all(not question.body for question in msrp.questions)
    labelled = [(first, second) for label, first, second in TRAIN + TEST if label]
    outside = trained = 0
    queries = dict.fromkeys(first for label, first, _ in TEST if label)
    for ranking, first in zip(msrp.parts["test"], queries, strict=True):
        seconds = [second for label, query, second in TEST if label and query == first]
        assert msrp.questions[ranking.query].title == tuple(tokenize(first))
        score = dict(zip(pool, index.scores(tokenize(first)).tolist(), strict=True))
        others = [sentence for sentence in pool if sentence not in (first, *seconds)]
        best = sorted(others, key=lambda sentence: -score[sentence])[:5]
        expected = sorted([*best, *seconds], key=lambda s: (-score[s], pool.index(s)))
        assert list(ranking.candidates) == [place(msrp, sentence) for sentence in expected]
        assert ranking.bm25 == pytest.approx([score[sentence] for sentence in expected])
        relevant = [(first, s) in labelled or (s, first) in labelled for s in expected]
        assert ranking.relevant == tuple(relevant)
        outside += expected[-1] in seconds
        trained += sum(relevant) > len(seconds)
    assert outside  # some true sentences are not among the best
    assert trained  # the training file labels some candidates paraphrases


def test_training_dev_and_test_paraphrases_share_no_sentence(msrp: MSRPQuestions) -> None:
    used = {"train": {p for query in msrp.train for p in (query.query, *query.positives)}}
    for name, rankings in msrp.parts.items():
        used[name] = {p for ranking in rankings for p in (ranking.query, *similar(ranking))}
    assert not used["train"] & used["valid"] and not used["train"] & used["test"]
    assert not used["valid"] & used["test"]
    # 31 is a test query, and 5 is connected with the test query 29: both pairs of 5 are left out.
    assert msrp.left_out == {"training pairs connected with the test part": 3}
    pairs = sum(label for label, *_ in TRAIN) - 3
    assert len(msrp.parts["valid"]) == int(0.2 * pairs)
    assert sum(len(query.positives) for query in msrp.train) == pairs - int(0.2 * pairs)


def test_groups_of_connected_sentences_stay_together(tmp_path, monkeypatch) -> None:
    monkeypatch.setattr(paraphrases, "DEV_FRACTION", 0.3)
    chain = [(1, FIRST[k], FIRST[k + 1]) for k in range(4)]
    single = [(1, FIRST[k], SECOND[k]) for k in range(10, 22)]
    write_pairs(tmp_path, train=chain + single, test=TEST[1:3])
    trained = set()
    for seed in range(9):
        msrp = MSRPQuestions(tmp_path, seed=seed)
        dev = {ranking.query for ranking in msrp.parts["valid"]}
        links = [place(msrp, first) in dev for _, first, _ in chain]
        assert len(dev) == 4 and len(set(links)) == 1
        known = {p for query in msrp.train for p in (query.query, *query.positives)}
        for query in msrp.train:
            assert set(query.negatives) == known - {query.query, *query.positives}
        # A sentence in the middle of the chain is similar to both of its neighbours.
        middle = [query.positives for query in msrp.train if query.query == place(msrp, FIRST[1])]
        trained.update(*middle)
    assert trained == {place(msrp, FIRST[0]), place(msrp, FIRST[2])}
    assert MSRPQuestions(tmp_path, seed=8).digest() == msrp.digest()


ONE_GROUP = [(1, FIRST[0], SECOND[0]), *((1, FIRST[9], SECOND[k]) for k in range(1, 12))]
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
        *((TRAIN, TEST, line, f"line 33 of .*train.txt: {said}") for line, said in BAD_LINES),
        ([], [], "", FILE.format("train") + "has no pairs of two sentences"),
        (TRAIN, [], "", FILE.format("test") + "has no pairs of two sentences"),
        (TRAIN, [(0, FIRST[30], SECOND[30])], "", FILE.format("test") + "has too few"),
        ([(0, FIRST[1], SECOND[1])], TEST, "", "too small for a dev part of 0.1: it has 0 pairs"),
        ([(1, FIRST[k], SECOND[k]) for k in range(9)], TEST, "", "part of 0.1: it has 9 pairs"),
        (ONE_GROUP, TEST, "", "all sentences to train on are similar to each other"),
    ],
)
def test_a_bad_pair_is_named(tmp_path: Path, train, test, line: str, message: str) -> None:
    path = write_pairs(tmp_path, train, test) / "msr_paraphrase_train.txt"
    path.write_bytes(path.read_bytes() + f"{line}\r\n".encode() * bool(line))
    with pytest.raises(ValueError, match=message):
        MSRPQuestions(tmp_path)


def test_sentences_of_the_same_words_are_one_question(tmp_path: Path) -> None:
    same = FIRST[1].upper() + " "
    write_pairs(tmp_path, train=[*TRAIN, (1, FIRST[1], "same  " + same), (0, FIRST[2], SECOND[20])])
    path = tmp_path / "msr_paraphrase_train.txt"
    path.write_bytes(path.read_bytes() + f"1\tx\ty\t{FIRST[1]}\t{same}\r\n".encode())
    msrp = MSRPQuestions(tmp_path)
    assert msrp.left_out["pairs of one and the same sentence"] == 1
    assert {"x", "y"}.isdisjoint(question.id for question in msrp.questions)
    assert len({question.title for question in msrp.questions}) == len(msrp)


def test_the_published_corpus(real_data: Path) -> None:
    msrp = MSRPQuestions(present(real_data / "text" / "msrp"))
    # Each test pair labelled a paraphrase is a query with 20 candidates; no two queries are equal.
    assert len(msrp.parts["test"]) == 1147
    assert all(len(ranking.candidates) == 20 for ranking in msrp.parts["test"])
    assert all(any(ranking.relevant) for ranking in msrp.parts["test"])
    pairs = sum(len(query.positives) for query in msrp.train)
    dev, connected = len(msrp.parts["valid"]), msrp.left_out[next(iter(msrp.left_out))]
    assert (dev, connected) == (260, 144)
    assert torch.tensor([len(query.negatives) for query in msrp.train]).eq(100).all()
    # A pair counts twice if its second sentence is the first sentence of another pair.
    assert pairs >= 2753 - dev - connected
