"""Question corpora: what they hold, what is read of AskUbuntu, refused and left out."""

from pathlib import Path

import pytest

from benchmarks.corpora import ask_ubuntu
from benchmarks.corpora.ask_ubuntu import AskUbuntu
from benchmarks.corpora.questions import Question, QuestionCorpus, Ranking, TrainQuery
from tests.benchmarks.small_data import write_file

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
    assert data.position == {"9": 0, "11": 1, "12": 2, "20": 3, "21": 4}
    assert data.texts("title")[0] == list(BOOT)
    assert data.texts("title+body")[0] == [*BOOT, "from", "a", "usb"]
    # 11 is both similar to 9 and among its random ones.
    assert data.train == [TrainQuery(0, (1,), (2, 3)), TrainQuery(2, (4, 3), (0, 1))]
    assert data.left_out == {"training question's other that is similar": 1}
    assert data.parts["dev"] == [
        Ranking(1, (2, 0, 3), (False, True, False), (3.5, 2.25, -1.0)),
        Ranking(3, (0, 1), (False, False), (1.0, 0.5)),
    ]
    assert data.parts["test"] == [Ranking(4, (3, 0, 2), (True, False, True), None)]
    assert [row.tolist() for row in data.relevance("test")] == [[True, False, True]]
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
        ("train_random.txt", "9\t9 11\t12\n", r"line 1 of .*: question similar to itself"),
        ("text_tokenized.txt", "", r"/text_tokenized.txt has no questions that can be used"),
        ("dev.txt", "13\t9\t9 12\t1 2\n", r"line 1 of .*dev.txt: id without a question, 13"),
        ("dev.txt", "11\t9\t9 12\t1\n", r"line 1 of .*: expected 2 finite BM25 scores, got '1'"),
        ("dev.txt", "11\t9\t9 12\t1 x\n", r"line 1 of .*: a BM25 score is not a number"),
        ("dev.txt", "11\t9\t9 12\t1 nan\n", r"line 1 of .*: expected 2 finite BM25 scores"),
        ("dev.txt", "11\t9\t9 9\t1 1\n", r"line 1 of .*: candidate given twice, 9"),
        ("dev.txt", "11\t\t\t\n", r"line 1 of .*: ranked question without candidates, 11"),
        ("dev.txt", "11\t20\t9 12\t1 2\n", r"similar question that is no candidate, 20"),
        ("dev.txt", "11\t9 11\t9 12\t1 2\n", r"line 1 of .*: question similar to itself"),
        ("dev.txt", "11\t9\t9 11\t1 2\n", r"line 1 of .*: question among its own candidates, 11"),
        ("dev.txt", "30\t9\t9 11\t2 1\n", r"/dev.txt has no questions that can be used"),
        ("heldout.txt", "13\n", r"line 1 of .*heldout.txt: id without a question, 13"),
    ],
)
def test_a_bad_line_is_named(root: Path, name: str, content: str, message: str) -> None:
    (root / name).write_text(content)
    leave_out = "30" in content  # a file that is left out as a whole
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
    with pytest.raises(ValueError, match=r"a title, 30 \(leave_out=True leaves such out"):
        AskUbuntu(root)
    data = AskUbuntu(root, leave_out=True)
    assert data.left_out == {
        "question without a title": 1,
        "id without a question": 7,
        "question similar to itself": 3,
        "training question without a similar one": 2,
        "training question's other that is similar": 1,
        "similar question that is no candidate": 1,
        "ranked question without candidates": 1,
        "question among its own candidates": 1,
        "candidate given twice": 1,
    }
    assert data.train[2:] == [TrainQuery(0, (1,), (2,)), TrainQuery(4, (0,), (1,))]
    assert data.parts["dev"][2:] == [Ranking(2, (0, 4), (True, False), (2.0, 1.0))]
    assert data.parts["test"][1:] == [Ranking(0, (2, 1), (False, True), (4.0, 2.0))]


def corpus(**changes: object) -> QuestionCorpus:
    """Four questions a to d, unless `changes` say otherwise."""
    questions = [Question(name, [name, "?"], ["more", name]) for name in "abcd"]
    dev = [Ranking(1, (0, 2), (True, False), (2.0, 1.0))]
    test = [Ranking(3, (0, 1, 2), (False, True, True))]
    content = {"questions": questions, "train": [TrainQuery(0, (1,), (2, 3))]}
    content["parts"] = {"dev": dev, "test": test}
    return QuestionCorpus(**{**content, **changes})  # type: ignore[arg-type]


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
