"""``python -m benchmarks.question_retrieval`` from end to end, on questions made here."""

import io
import json
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from contextlib import redirect_stderr, redirect_stdout
from functools import partial
from pathlib import Path
from typing import NamedTuple

import pytest
import torch
from torch import Tensor

pytest.importorskip("lightning", reason="the benchmark needs the extra 'bench'")
pytest.importorskip("bm25s", reason="the benchmark needs the extra 'bench'")

import pandas

from benchmarks.harness.experiment import Experiment
from benchmarks.harness.progress import EpochHistory
from benchmarks.harness.retrieval import baselines, data, encoders, options, report, standing
from benchmarks.harness.retrieval.baselines import bm25, tuned_tf_idf
from benchmarks.harness.retrieval.batches import QuestionBatches
from benchmarks.harness.retrieval.data import QuestionChoice, load_questions
from benchmarks.harness.retrieval.learner import QuestionRanker
from benchmarks.harness.retrieval.metrics import METRICS, evaluate
from benchmarks.harness.retrieval.report import describe
from benchmarks.harness.task import PARTS
from benchmarks.question_retrieval import main
from tests.benchmarks.askubuntu_format import TOPICS, write_questions
from tests.benchmarks.interruption import interrupt_once, results

KEYS = [
    *("dataset", "split", "model", "seed", "num_parameters", "metric", "train", "valid", "test"),
    *("valid_MAP", "valid_P@1", "valid_P@5", "test_MAP", "test_P@1", "test_P@5"),
    *("epochs", "seconds_per_epoch", "encoder", "pretrained", "pooling", "fields"),
    *("hidden_size", "encoder_parameters"),
]
ROOT = Path(__file__).parents[2]


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return write_questions(tmp_path / "askubuntu")


@pytest.fixture
def call(call_main) -> Callable[..., tuple[int, str, str]]:
    return partial(call_main, main)


def small_runs(root: Path, out: Path, *words: object) -> list[str]:
    """The words for small models and an epoch, unless `words` say otherwise."""
    small = ("--device", "cpu", "--hidden", 5, "--embedding", 4, "--epochs", 1, "--negatives", 3)
    questions = ("--data", "askubuntu", "--root", root, "--vectors", "none")
    pretraining: tuple[object, ...] = ("--pretraining-batch-size", 48, "--pretraining-epochs", 1)
    if "no" in words:
        pretraining = ()
    return [str(w) for w in (*questions, *small, *pretraining, "--out", out, "--quiet", *words)]


@pytest.fixture
def compare(call, root: Path, tmp_path: Path, monkeypatch) -> Callable[..., tuple[int, str, str]]:
    """Trains small models into ``out`` without drawing pictures."""
    monkeypatch.setattr(baselines, "NGRAMS", (1,))
    monkeypatch.setattr(report, "png", lambda figure: b"")
    return lambda *words: call(*small_runs(root, tmp_path / "out", *words))


class Compared(NamedTuple):
    """A results folder, not to be changed, what was printed and where networks started from."""

    root: Path
    out: Path
    text: str
    starts: dict[tuple[str, int], dict[str, Tensor]]


@pytest.fixture(scope="module")
def compared(tmp_path_factory) -> Compared:
    """RCNN and CNN, with and without pre-training, of two seeds."""
    folder = tmp_path_factory.mktemp("compared")
    root, out = write_questions(folder / "askubuntu"), folder / "out"
    starts: dict[tuple[str, int], dict[str, Tensor]] = {}
    begin = QuestionRanker.on_train_epoch_start

    def recorded(ranker: QuestionRanker) -> None:
        name, weights = ranker.net.config.name, ranker.net.state_dict()
        starts[name, int((name, 0) in starts)] = {k: v.clone() for k, v in weights.items()}
        begin(ranker)

    words = small_runs(root, out, "--encoders", "rcnn", "cnn", "--seeds", 0, 1)
    with (
        pytest.MonkeyPatch.context() as patch,
        redirect_stdout(io.StringIO()) as text,
        redirect_stderr(io.StringIO()) as errors,
    ):
        patch.setattr(baselines, "NGRAMS", (1,))
        patch.setattr(QuestionRanker, "on_train_epoch_start", recorded)
        assert main(words) == 0
    assert errors.getvalue() == ""
    return Compared(root, out, text.getvalue(), starts)


def test_compares_encoders_with_and_without_pretraining(compared) -> None:
    out = compared.out
    records = json.loads((out / "metrics.json").read_text())
    names = ["rcnn-last", "rcnn-pt-last", "cnn-mean", "cnn-pt-mean"]
    assert [list(record) for record in records] == [KEYS] * 8
    assert [(r["model"], r["seed"]) for r in records] == [(n, s) for n in names for s in (0, 1)]

    table = pandas.read_csv(out / "predictions.csv", dtype={"query": str, "candidate": str})
    columns = ["model", "seed", "part", "query", "candidate", "relevant", "score"]
    assert list(table) == columns
    for record in records:
        run = table[(table["model"] == record["model"]) & (table["seed"] == record["seed"])]
        for part in ("valid", "test"):
            lists = [rows for _, rows in run[run["part"] == part].groupby("query", sort=False)]
            assert [len(rows) for rows in lists] == [8] * len(TOPICS)
            found = evaluate(
                [torch.tensor(rows["score"].to_numpy()) for rows in lists],
                [torch.tensor(rows["relevant"].to_numpy()).bool() for rows in lists],
            )
            assert record[part] == pytest.approx(found["MRR"])
            assert [record[f"{part}_{key}"] for key in METRICS if key != "MRR"] == pytest.approx(
                [found[key] for key in METRICS if key != "MRR"]
            )

    pretrained = json.loads((out / "pretraining" / "metrics.json").read_text())
    assert [(r["model"], r["seed"]) for r in pretrained] == [
        (encoder, seed) for encoder in ("rcnn", "cnn") for seed in (0, 1)
    ]
    for written in (compared.text, (out / "table.md").read_text()):
        for name in names:
            assert re.search(rf"{name} .* \d+\.\d ± \d+\.\d", written)
        assert "BM25 of the corpus" in written
        assert re.search(r"re-ranker with \w+-", written)
        assert "seeds 0, 1" in written
    for name in ("learning_curves", "pretraining", "gates_by_position", "gates_by_word"):
        assert (out / f"{name}.png").read_bytes().startswith(b"\x89PNG")


def test_own_pairs_from_training_to_ranking(call, tmp_path) -> None:
    things = ("apple", "bicycle", "candle", "door", "engine", "flute")
    rows = [
        {"q1": f"where is the {a} w{k}", "q2": f"the {b} w{k % 7} is where ?", "same": int(a == b)}
        for k in range(8)
        for a in things
        for b in (a, things[(things.index(a) + 1 + k) % 6])
    ]
    pairs = tmp_path / "pairs.csv"
    pandas.DataFrame(rows).drop_duplicates().to_csv(pairs, index=False)
    small = ("--hidden", 8, "--embedding", 8, "--epochs", 1, "--vectors", "none", "--device", "cpu")
    words = ("--encoders", "rcnn", "--pretraining", "no", "--quiet", "--out", tmp_path / "out")
    columns = ("--columns", "q1", "q2", "same")
    status, _, err = call("--data", pairs, *columns, *small, *words)
    assert (status, err) == (0, "")
    (record,) = json.loads((tmp_path / "out" / "metrics.json").read_text())
    assert record["dataset"] == "pairs"
    assert record["split"].startswith("random 20% of the similar pairs for testing, 10% of")

    texts = pandas.DataFrame({"text": [f"a {thing}" for thing in things]})
    texts.to_csv(tmp_path / "texts.csv", index=False)
    texts.iloc[[2, 0]].to_parquet(tmp_path / "queries.parquet", index=False)
    ranked = ("rank", "--checkpoint", tmp_path / "out", "--data", tmp_path / "queries.parquet")
    ranked = (*ranked, "--among", tmp_path / "texts.csv", "--out", tmp_path / "ranked.csv")
    status, _, err = call(*ranked, "--best", 3)
    assert (status, err) == (0, "")
    table = pandas.read_csv(tmp_path / "ranked.csv")
    assert table["query"].tolist() == ["a candle"] * 3 + ["a apple"] * 3
    assert table["rank"].tolist() == [1, 2, 3] * 2
    assert table["text"][0] == "a candle"
    assert table["cosine"][0] == pytest.approx(1)
    assert (table.groupby("query")["cosine"].diff().dropna() <= 0).all()
    assert "--overwrite replaces it" in call(*ranked)[2]
    assert call(*ranked, "--best", 3, "--batch-size", 1, "--overwrite")[0] == 0
    again = pandas.read_csv(tmp_path / "ranked.csv")
    assert again["cosine"].tolist() == pytest.approx(table["cosine"].tolist(), abs=1e-6)
    (tmp_path / "texts.csv").write_text("text\na\n.\n \n")
    status, _, err = call(*ranked, "--overwrite")
    assert (status, err.count("\n")) == (2, 1)
    assert "row 3 of" in err


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--data", "nowhere.csv"), "--data nowhere.csv: no such file, nor one of msrp, askubuntu"),
        (("--data", "PAIRS"), "no column named 'first'; its columns are 'a', 'b', 'c'"),
        (("--data", "PAIRS", "--columns", "a", "b", "c"), "row 2 of .*: the label must be 0 or 1"),
        (("--data", "PAIRS", "--columns", "a", "b", "d"), "no column named 'd'"),
        (("--data", "PAIRS", "--root", "."), "--root goes with msrp, askubuntu, not"),
        (("--data", "a", "b", "c"), "not 3"),
        (("--columns", "a", "b", "c"), "go with your own file, not msrp"),
    ],
)
def test_bad_pairs_are_one_line(call, tmp_path, words, said) -> None:
    (tmp_path / "pairs.csv").write_text("a,b,c\nx y,x,1\nz,x,yes\n")
    words = [tmp_path / "pairs.csv" if word == "PAIRS" else word for word in words]
    status, out, err = call(*words, "--out", tmp_path / "out")
    assert (status, out, err.count("\n")) == (2, "", 1)
    assert re.search(said, err)
    assert not (tmp_path / "out").exists()


def test_baselines_are_those_of_the_library(compared, monkeypatch) -> None:
    monkeypatch.setattr(baselines, "NGRAMS", (1,))
    found = json.loads((compared.out / "baselines.json").read_text())
    corpus = load_questions(QuestionChoice("askubuntu", str(compared.root), "none")).corpus
    for field, ending in (("title", ", title"), ("title+body", "")):
        for name, ranker in (("BM25", bm25), ("TF-IDF", tuned_tf_idf(corpus, field))):
            for part, own in (("valid", "dev"), ("test", "test")):
                expected = evaluate(ranker(corpus, own, field), corpus.relevance(own))
                assert found[f"{name}{ending}"][part] == pytest.approx(expected)
    assert set(found["re-ranker"]["test"]) == set(METRICS)


def test_learns_which_words_matter(compare, tmp_path) -> None:
    words = ("--encoders", "rcnn", "cnn", "--pretraining", "no", "--pooling", "mean")
    words = (*words, "--dropout", 0)
    sizes = ("--hidden", 12, "--embedding", 12, "--batch-size", 12, "--lr", 0.03)
    assert compare(*words, *sizes, "--epochs", 10, "--seed", 1)[0] == 0
    records = json.loads((tmp_path / "out" / "metrics.json").read_text())
    assert len(records) == 2
    assert all(record["train"] > 85 and record["test"] > 85 for record in records)


def test_pretraining_lowers_the_perplexity(compare, tmp_path) -> None:
    words = ("--encoders", "gru", "--pretraining", "yes", "--lr", 0.02, "--hidden", 16)
    words = (*words, "--pretraining-batch-size", 16)
    assert compare(*words, "--pretraining-epochs", 6)[0] == 0
    run = tmp_path / "out" / "pretraining" / "runs" / "gru-seed0" / "run.json"
    history = json.loads(run.read_text())["history"]
    assert history[-1]["valid_perplexity"] < 0.8 * history[0]["valid_perplexity"]
    assert all(0 < epoch["valid_MRR"] <= 100 for epoch in history)


@pytest.mark.parametrize("seed", [0, 1])
@pytest.mark.parametrize(("encoder", "pooling"), [("rcnn", "last"), ("cnn", "mean")])
def test_fine_tuning_starts_from_the_pretrained_encoder_of_its_seed(
    compared, encoder, pooling, seed
) -> None:
    path = compared.out / "pretraining" / "runs" / f"{encoder}-seed{seed}" / "best.ckpt"
    written = torch.load(path, weights_only=True)["state_dict"]
    start = compared.starts[f"{encoder}-pt-{pooling}", seed]
    untrained = compared.starts[f"{encoder}-{pooling}", seed]
    assert list(start) == list(untrained)
    for name, weight in start.items():
        assert torch.equal(weight, written[f"net.question.{name}"])
        assert not torch.equal(weight, untrained[name])


def test_poolings_and_fields_have_their_tables(compare) -> None:
    words = ("--encoders", "rcnn-scalar", "--pretraining", "no", "--pooling", "last", "mean")
    status, text, err = compare(*words, "--fields", "title", "title+body")
    assert (status, err) == (0, "")
    poolings = text.split("Table 2.10")[1].split("Titles alone")[0]
    rows = re.findall(r"^rcnn-scalar +(title.*?)  +(\w+)", poolings, re.MULTILINE)
    reads = ("title only", "title + body")
    assert rows == [(field, pooling) for field in reads for pooling in ("last", "mean")]
    fields = text.split("Table 2.11")[1]
    rows = re.findall(r"^(\S+) +(title.*?)  ", fields, re.MULTILINE)
    names = ("TF-IDF", "rcnn-scalar-last", "rcnn-scalar-mean")
    assert rows == [(n, field) for n in names for field in reads]


def test_checkpoint_alone_rebuilds_the_network(compared) -> None:
    path = compared.out / "runs" / "cnn-pt-mean-seed1" / "best.ckpt"
    ranker = QuestionRanker.load_from_checkpoint(path, map_location="cpu", weights_only=True).eval()
    questions = load_questions(QuestionChoice("askubuntu", str(compared.root), "none"))
    loader = QuestionBatches(questions, "title+body", 20, 40, 0).part("test")
    with torch.no_grad():
        scores = torch.cat([ranker(batch) for batch in loader])
    table = pandas.read_csv(compared.out / "predictions.csv")
    run = table[(table["model"] == "cnn-pt-mean") & (table["seed"] == 1)]
    expected = run[run["part"] == "test"]["score"].to_numpy()
    torch.testing.assert_close(scores, torch.tensor(expected).float())


def test_a_run_that_was_interrupted_twice_is_that_of_one_go(compare, tmp_path, monkeypatch) -> None:
    words = ("--encoders", "rcnn", "--pretraining", "yes", "--dropout", 0.3)
    words = (*words, "--pretraining-epochs", 2, "--epochs", 2)
    assert compare(*words)[0] == 0
    out, whole = tmp_path / "out", tmp_path / "whole"
    shutil.move(out, whole)
    more: tuple[str, ...] = ()
    for pretraining in (True, False):

        def in_the_second_epoch(history, trainer, module, pretraining=pretraining) -> bool:
            return trainer.current_epoch == 1 and hasattr(module.net, "decoder") == pretraining

        with monkeypatch.context() as patch:
            raised = interrupt_once(
                patch, EpochHistory, "on_train_epoch_start", in_the_second_epoch
            )
            status, _, err = compare(*words, *more)
        assert (status, bool(raised)) == (130, True)
        assert "--resume" in err
        more = ("--resume",)
    assert compare(*words, *more)[0] == 0
    assert results(out) == results(whole)
    assert results(out / "pretraining") == results(whole / "pretraining")


def test_resume_adds_encoders_and_refuses_other_settings(compare, tmp_path) -> None:
    assert compare("--encoders", "gru", "--pretraining", "no")[0] == 0
    before = (tmp_path / "out" / "runs" / "gru-last-seed0" / "run.json").read_text()
    assert compare("--encoders", "lstm", "--pretraining", "yes", "--resume")[0] == 0
    records = json.loads((tmp_path / "out" / "metrics.json").read_text())
    assert [record["model"] for record in records] == ["gru-last", "lstm-pt-mean"]
    assert (tmp_path / "out" / "runs" / "gru-last-seed0" / "run.json").read_text() == before
    words = ("--encoders", "lstm", "--pretraining", "yes", "--resume")
    status, _, err = compare(*words, "--pretraining-epochs", 2)
    assert (status, err.count("\n")) == (2, 1)
    assert "was made with epochs 1, not 2" in err
    status, _, err = compare(*words, "--margin", 0.5)
    assert (status, err.count("\n")) == (2, 1)
    assert "lstm-pt-mean" in err
    status, _, err = compare("--encoders", "gru", "--pretraining", "no")
    assert (status, err.count("\n")) == (2, 1)
    assert "already holds results" in err
    assert compare("--encoders", "cnn", "--pretraining", "no", "--overwrite")[0] == 0
    records = json.loads((tmp_path / "out" / "metrics.json").read_text())
    assert [record["model"] for record in records] == ["cnn-mean"]


def test_word_vectors_are_kept_as_they_are_and_bad_ids_left_out(call, root, tmp_path) -> None:
    with (root / "train_random.txt").open("a") as file:
        file.write("999\t001\t010\n")
    known = [*TOPICS, *(f"w{k}" for k in range(6))]
    lines = [f"{word} {k / 9:.3f} {1 - k / 5:.3f} 0.5" for k, word in enumerate(known)]
    (root / "vector").mkdir()  # where the published corpus has it
    (root / "vector" / "vectors_pruned.200.txt").write_text("\n".join(lines) + "\n")
    words = ("--data", "askubuntu", "--root", root, "--hidden", 4, "--encoders", "gru")
    training = ("--device", "cpu", "--epochs", 1, "--pretraining", "no", "--out", tmp_path / "out")
    status, text, _ = call(*words, *training, "--leave-out")
    assert status == 0
    assert "left out: 1 ids without a question" in text
    assert "vectors of 3 numbers from vectors_pruned.200.txt, fixed" in text
    shares = ", ".join(rf"\d+ of \d+ in {part} \(\d+\.\d%\)" for part in PARTS)
    assert re.search(f"Words of the texts that are unknown: {shares}\n", text)
    path = tmp_path / "out" / "runs" / "gru-last-seed0" / "best.ckpt"
    checkpoint = torch.load(path, weights_only=True)
    vectors = checkpoint["state_dict"]["net.embedding.weight"]
    numbers = ["<pad>", "<unk>", *checkpoint["hyper_parameters"]["words"]]
    assert set(numbers[3:]) == set(known)
    for k, word in enumerate(known):
        expected = torch.tensor([round(k / 9, 3), round(1 - k / 5, 3), 0.5])
        torch.testing.assert_close(vectors[numbers.index(word)], expected)


@pytest.mark.parametrize(
    ("vectors", "kind"),
    [
        (None, "learned vectors (no file of word vectors at hand; --vectors FILE names one)"),
        ("none", "learned vectors"),
    ],
)
def test_says_that_there_are_no_word_vectors(root, vectors, kind) -> None:
    lines = describe(load_questions(QuestionChoice("askubuntu", str(root), vectors))).splitlines()
    assert lines[-2].endswith(f" words with {kind}")


def test_learned_words_are_those_of_the_questions_to_train_on(root) -> None:
    path = root / "text_tokenized.txt"
    path.write_text(path.read_text() + "900\tunseen unseen\tunseen\n901\tdrawn\tdrawn\n")
    for name, line in (
        ("train_random.txt", "000\t001\t901\n"),
        ("dev.txt", "900\t000\t000 010\t2 1\n"),
    ):
        with (root / name).open("a") as file:
            file.write(line)
    questions = load_questions(QuestionChoice("askubuntu", str(root), "none"))
    assert "drawn" in questions.vocabulary
    assert "unseen" not in questions.vocabulary
    unknown = {part: questions.unknown_words(part)[0] for part in PARTS}
    assert unknown["valid"] == 3
    assert unknown["train"] == unknown["test"] == 0


@pytest.fixture
def msrp(tmp_path: Path) -> Callable[[int], Path]:
    """Writes a corpus of paraphrases, with that many of them in its training file."""

    def write(number: int) -> Path:
        for name, count in (("train", number), ("test", 3)):
            rows = [
                f"1\t{name}{k}a\t{name}{k}b\t{name}{k} one way\t{name}{k} another way\n"
                for k in range(count)
            ]
            (tmp_path / f"msr_paraphrase_{name}.txt").write_text("".join(rows))
        return tmp_path

    return write


@pytest.mark.parametrize(
    ("dataset", "words", "schedule"),
    [
        ("msrp", (), "cosine"),
        ("askubuntu", (), "none"),
        ("askubuntu", ("--schedule", "plateau"), "plateau"),
    ],
)
def test_the_schedule_is_by_default_that_of_the_data_set(
    compare, root, msrp, tmp_path, monkeypatch, dataset, words, schedule
) -> None:
    monkeypatch.setattr(Experiment, "carry_out", lambda *args: None)
    folder = {"msrp": msrp(30), "askubuntu": root}[dataset]
    assert compare("--data", dataset, "--root", folder, *words)[0] == 0
    for out in (tmp_path / "out", tmp_path / "out" / "pretraining"):
        configuration = json.loads((out / "configuration.json").read_text())
        assert configuration["training"]["optimizer"]["schedule"] == schedule


def test_a_dev_part_too_small_for_a_reranker_has_none(compare, msrp, tmp_path) -> None:
    words = ("--data", "msrp", "--root", msrp(10), "--encoders", "gru", "--pretraining", "no")
    status, text, err = compare(*words)
    assert (status, err) == (0, "")
    assert "\nno re-ranker, the dev part is too small: cross-validation takes at least two" in text
    assert text.splitlines()[-1].startswith("gru-last ")
    found = json.loads((tmp_path / "out" / "baselines.json").read_text())
    assert list(found) == ["BM25 of the corpus", "BM25", "TF-IDF"]


def test_words_with_dollar_signs_are_drawn_as_they_are(call, root, tmp_path) -> None:
    path = root / "text_tokenized.txt"
    path.write_text(path.read_text().replace("\t", "\t$a_$ $x^$ ", 1).replace("boot", "$b_$"))
    words = ("--encoders", "rcnn", "--pretraining", "no")
    status, _, err = call(*small_runs(root, tmp_path / "out", *words))
    assert (status, err) == (0, "")
    assert (tmp_path / "out" / "gates_by_word.png").read_bytes().startswith(b"\x89PNG")


@pytest.mark.parametrize(
    ("words", "error"),
    [
        (["--root", "nowhere"], "text_tokenized.txt"),
        (["--vectors", "nowhere.txt"], "--vectors nowhere.txt: no such file"),
        (["--tune-vectors"], "--tune-vectors goes with a file of word vectors"),
        (["--encoders", "bert"], "invalid choice: 'bert'"),
        (["--pooling", "min"], "invalid choice: 'min'"),
        (["--margin", "0"], "must be a number above 0, got 0"),
        (["--negatives", "0"], "must be an integer of at least 1"),
        (["--pretraining", "no", "--pretraining-epochs", "2"], "--pretraining-epochs goes with"),
        (["--root", "nowhere", "--data", "msrp", "--leave-out"], "--leave-out goes with"),
        (["--hidden", "4", "--parameters", "9"], "--hidden and --parameters exclude each other"),
        (["--parameters", "9"], "no width of rcnn stays within 9 parameters"),
        (["--device", "tpu"], "tpu"),
    ],
)
def test_bad_words_give_one_line(call, root, tmp_path, words, error) -> None:
    given = ("--data", "askubuntu", "--root", root, "--vectors", "none", "--out", tmp_path / "o")
    status, _, err = call(*given, *words)
    assert status == 2
    assert err.count("\n") == 1
    assert err.startswith("benchmarks.question_retrieval: error: ")
    assert error in err


def test_an_id_without_a_question_gives_one_line(compare, root) -> None:
    path = root / "train_random.txt"
    path.write_text(path.read_text() + "999\t001\t010\n")
    status, _, err = compare()
    assert (status, err.count("\n")) == (2, 1)
    assert re.search(r"train_random.txt: there is no question 999 \(--leave-out leaves", err)
    assert "leave_out" not in err


def test_a_part_without_similar_candidates_gives_one_line(compare, root) -> None:
    path = root / "dev.txt"
    lines = [line.split("\t") for line in path.read_text().splitlines()]
    path.write_text("".join(f"{row[0]}\t\t{row[2]}\t{row[3]}\n" for row in lines))
    status, _, err = compare()
    assert (status, err.count("\n")) == (2, 1)
    assert "no question of the valid part has a similar one" in err


def test_questions_without_bodies_have_no_fields(compare, tmp_path) -> None:
    titles = write_questions(tmp_path / "titles", bodies=False)
    status, _, err = compare("--root", titles, "--fields", "title")
    assert (status, err.count("\n")) == (2, 1)
    assert "--fields goes with questions that have bodies" in err


@pytest.mark.parametrize(
    "lost", ["pretraining/runs/rcnn-seed0/best.ckpt", "runs/rcnn-pt-last-seed0/best.ckpt"]
)
def test_a_lost_checkpoint_gives_one_line_that_helps(compare, compared, tmp_path, lost) -> None:
    out = tmp_path / "out"
    words = ("--encoders", "rcnn", "--pretraining", "yes", "--resume")
    shutil.copytree(compared.out, out)
    path = out / lost
    if "pretraining" in lost:  # what needs it has not been trained
        shutil.rmtree(out / "runs" / "rcnn-pt-last-seed0")
    path.write_bytes(b"nothing")
    status, _, err = compare(*words)
    assert (status, err.count("\n")) == (2, 1)
    assert f"{path} is damaged" in err
    path.unlink()
    status, _, err = compare(*words)
    assert (status, err.count("\n")) == (2, 1)
    assert f"{path} is missing; remove {path.parent}, and --resume does this run again" in err
    shutil.rmtree(path.parent)
    status, _, err = compare(*words)
    assert (status, err) == (0, "")
    assert results(out) == results(compared.out)


@pytest.mark.parametrize(
    ("words", "error"),
    [
        (("--pretraining-epochs", 2, "--resume"), "was made with epochs 1, not 2"),
        (("--margin", 0.5, "--resume"), "holds rcnn-last of another size"),
        ((), "already holds results"),
    ],
)
def test_what_is_refused_changes_nothing_and_computes_nothing(
    compare, compared, monkeypatch, words, error
) -> None:
    def computed(*args) -> None:
        raise AssertionError("the baselines were computed")

    monkeypatch.setattr(standing, "baselines_of", computed)
    before = {path: path.read_bytes() for path in compared.out.rglob("*") if path.is_file()}
    words = ("--encoders", "rcnn", "lstm", *words)
    status, _, err = compare(*words, "--root", compared.root, "--out", compared.out)
    assert (status, err.count("\n")) == (2, 1)
    assert error in err
    after = {path: path.read_bytes() for path in compared.out.rglob("*") if path.is_file()}
    assert after == before


def test_several_processes_are_refused(compare, monkeypatch) -> None:
    started = {"WORLD_SIZE": 2, "RANK": 0, "LOCAL_RANK": 0, "LOCAL_WORLD_SIZE": 2}
    for name, value in started.items():
        monkeypatch.setenv(name, str(value))
    ended: list[int] = []
    monkeypatch.setattr("benchmarks.harness.arguments._end_together", lambda s, _: ended.append(s))
    _, _, err = compare()
    assert ended == [2]
    assert err.count("\n") == 1
    assert "this runs in one process, not 2" in err


@pytest.mark.parametrize("pretraining", ["no", "yes"])
def test_divergence_is_one_line(compare, pretraining) -> None:
    words = ("--encoders", "gru", "--pretraining", pretraining, "--lr", 1e38, "--clip", 0)
    status, out, err = compare(*words, "--schedule", "none")
    assert (status, out, err.count("\n")) == (1, "", 1)
    assert "the validation error is nan" in err


def test_names_are_those_of_the_harness() -> None:
    assert options.parser().parse_args([]).encoders == ["rcnn", "lstm", "gru", "cnn"]
    assert set(options.DATASETS) == set(data.CORPORA)
    assert set(options.ENCODERS) == set(encoders.ENCODERS)
    assert options.POOLINGS == encoders.POOLINGS


@pytest.mark.parametrize("words", [["--help"], ["--misspelt"]])
def test_help_and_misspelt_options_answer_without_torch(words) -> None:
    script = (
        "import sys; from benchmarks.question_retrieval import main\n"
        f"try: main({words!r})\n"
        "except SystemExit: pass\n"
        "assert not {'torch', 'lightning'} & set(sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", script], cwd=ROOT, capture_output=True, check=True)
    assert b"usage" in done.stdout or b"unrecognized arguments" in done.stderr
