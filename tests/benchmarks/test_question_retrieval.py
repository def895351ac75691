"""``python -m benchmarks.question_retrieval`` from end to end, on questions made here."""

import json
import re
import shutil
from functools import partial
from itertools import product
from pathlib import Path

import pandas
import pytest
import torch

from benchmarks.harness.experiment import Experiment
from benchmarks.harness.learner import OptimizerConfig
from benchmarks.harness.retrieval import baselines
from benchmarks.harness.retrieval.data import load_questions
from benchmarks.harness.retrieval.options import Networks, Questions
from benchmarks.harness.retrieval.report import describe, reciprocal_ranks
from benchmarks.harness.retrieval.task import (
    METRICS,
    RetrievalTask,
    evaluate,
    question_model_configs,
)
from benchmarks.harness.task import PARTS
from benchmarks.harness.training import Run
from tests.benchmarks.conftest import (
    assert_refused,
    done,
    metrics_of,
    outcome,
    printed,
    runs_of,
    table_of,
)
from tests.benchmarks.small_data import TOPICS, write_askubuntu

PROGRAM = "benchmarks.question_retrieval"
SMALL = ("--data", "askubuntu", "--vectors", "none", "--quiet", "--negatives", 3)
SMALL += ("--hidden", 5, "--embedding", 4, "--epochs", 1)
PRETRAINING = ("--pretraining-batch-size", 48, "--pretraining-epochs", 1)


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return write_askubuntu(tmp_path / "askubuntu")


@pytest.fixture
def compare(compare, root: Path, monkeypatch):
    """Calls the command on questions made here; pre-training, if there is any, is short."""
    monkeypatch.setattr(baselines, "NGRAMS", (1,))
    untrained = partial(compare, "--root", root)
    return lambda *words: untrained(*(() if "no" in words else PRETRAINING), *words)


def questions(root: Path, **options) -> Questions:
    return Questions(data=("askubuntu",), root=str(root), **options)


@pytest.fixture(scope="module")
def compared(tmp_path_factory) -> Path:
    """Questions, and results in ``out`` of RCNN and CNN, with and without pre-training and with
    two seeds. Tests must not change them.
    """
    folder = tmp_path_factory.mktemp("compared")
    root = write_askubuntu(folder / "askubuntu")
    models = ("--models", "rcnn", "cnn", "--seeds", 0, 1, "--root", root, "--out", folder / "out")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(baselines, "NGRAMS", (1,))
        done(PROGRAM, *SMALL, "--device", "cpu", *PRETRAINING, *models)
    return folder


def test_compares_encoders_with_and_without_pretraining(compared) -> None:
    out, records = compared / "out", metrics_of(compared / "out")
    names = ["rcnn-last", "rcnn-pt-last", "cnn-mean", "cnn-pt-mean"]
    assert [(r["model"], r["seed"]) for r in records] == list(product(names, (0, 1)))
    table = table_of(out, dtype={"query": str, "candidate": str})
    columns = "model seed part query candidate relevant score"
    assert list(table) == columns.split()
    task = RetrievalTask(load_questions(questions(compared / "askubuntu")))
    for record, run in runs_of(out, table):
        for part in ("valid", "test"):
            rows = run[run["part"] == part]
            queries = rows.groupby("query", sort=False)["relevant"]
            relevance = [torch.tensor(each.to_numpy()) for _, each in queries]
            assert list(map(len, relevance)) == [8] * len(TOPICS)
            found = evaluate(torch.tensor(rows["score"].to_numpy()), relevance)
            for key in METRICS:
                name = part if key == "MRR" else f"{part}_{key}"
                assert record[name] == pytest.approx(found[key])
        ranks = reciprocal_ranks(task, Run(record, [], run))
        assert ranks.mean() == pytest.approx(record["test"])
    pretrained = metrics_of(out / "pretraining")
    assert [f"{r['model']}{r['seed']}" for r in pretrained] == ["rcnn0", "rcnn1", "cnn0", "cnn1"]
    written = (out / "table.md").read_text()
    for name in names:
        assert re.search(rf"{name} .* \d+\.\d ± \d+\.\d", written)
    for words in ("| BM25 of the corpus |", "| BM25, title |", "| re-ranker with ", "seeds 0, 1"):
        assert words in written
    found = json.loads((out / "baselines.json").read_text())
    assert set(found["re-ranker"]["test"]) == set(METRICS)
    for name in ("pretraining", "gates_by_position", "gates_by_word"):
        assert (out / f"{name}.png").read_bytes().startswith(b"\x89PNG")


def test_fine_tuning_starts_from_the_pretrained_encoder_of_its_seed(compared) -> None:
    data = load_questions(questions(compared / "askubuntu"))
    task = RetrievalTask(data, compared / "out" / "pretraining")
    options = Networks(models=("rcnn", "cnn"), hidden=5, embedding=4)
    models = question_model_configs(options, data, [True])
    for model, seed in product(models, (0, 1)):
        learner = task.learner(model, OptimizerConfig())
        task.start_from(learner, model, seed)
        path = task.pretraining / "runs" / f"{model.encoder}-seed{seed}" / "best.ckpt"
        written = torch.load(path, weights_only=True)["state_dict"]
        for name, weight in learner.net.state_dict().items():
            assert torch.equal(weight, written[f"net.question.{name}"])


def test_own_pairs_from_training_to_ranking(call, tmp_path, drawn) -> None:
    things = ("apple", "bicycle", "candle", "door", "engine", "flute")
    rows = [
        {"q1": f"where is the {a} w{k}", "q2": f"the {b} w{k % 7} is where ?", "same": a == b}
        for k in range(8)
        for a in things
        for b in (a, things[(things.index(a) + 1 + k) % 6])
    ]
    pairs = tmp_path / "pairs.csv"
    pandas.DataFrame(rows).drop_duplicates().to_csv(pairs, index=False)
    words = ("--models", "rcnn", "--pretraining", "no", "--quiet", "--out", tmp_path / "out")
    columns = ("--columns", "q1", "q2", "same", "--hidden", 8, "--embedding", 8, "--epochs", 1)
    printed(call("--data", pairs, *columns, *words, "--device", "cpu"))
    (record,) = metrics_of(tmp_path / "out")
    assert record["dataset"] == "pairs"
    assert record["split"].startswith("random 20% of the similar pairs for testing, 10% of")

    texts = pandas.DataFrame({"text": [f"a {thing}" for thing in things]})
    texts.to_csv(tmp_path / "texts.csv", index=False)
    texts.iloc[[2, 0]].to_parquet(tmp_path / "queries.parquet", index=False)
    files = ("--data", tmp_path / "queries.parquet", "--among", tmp_path / "texts.csv")
    ranked = ("rank", "--checkpoint", tmp_path / "out", *files, "--out", tmp_path / "ranked.csv")
    printed(call(*ranked, "--best", 3))
    table = pandas.read_csv(tmp_path / "ranked.csv")
    assert table["query"].tolist() == ["a candle"] * 3 + ["a apple"] * 3
    assert table["rank"].tolist() == [1, 2, 3] * 2
    assert table["text"][0] == "a candle"
    assert table["cosine"][0] == pytest.approx(1)
    assert (table.groupby("query")["cosine"].diff().dropna() <= 0).all()
    assert "--overwrite replaces it" in call(*ranked)[2]
    itself = (*ranked[:-1], tmp_path / "texts.csv", "--overwrite")
    assert_refused(call(*itself), "--out is the file of --among")
    (tmp_path / "texts.csv").write_text("text\nthe\nqqq zzz\n")
    assert "1 of 2 texts has no known word: lines 3" in call(*ranked, "--overwrite")[2]
    (tmp_path / "texts.csv").write_text("text\na\n.\n \n")
    assert_refused(call(*ranked, "--overwrite"), "texts.csv, line 4: no words")


def test_learns_which_words_matter_and_to_write_titles(compare, tmp_path) -> None:
    words = ("--models", "rcnn", "cnn", "--pretraining", "both", "--pooling", "mean")
    words += ("--dropout", 0, "--batch-size", 12, "--lr", 0.03, "--epochs", 10, "--hidden", 12)
    words += ("--embedding", 12, "--pretraining-batch-size", 16, "--pretraining-epochs", 6)
    assert compare(*words, "--seed", 2)[0] == 0
    records = metrics_of(tmp_path / "out")
    assert len(records) == 4
    assert all(min(record["train"], record["test"]) > 85 for record in records)
    record = tmp_path / "out" / "pretraining" / "runs" / "rcnn-seed2" / "record.json"
    history = json.loads(record.read_text())["history"]
    best = min(epoch["valid_perplexity"] for epoch in history)
    assert best < 0.8 * history[0]["valid_perplexity"]
    assert all(0 < epoch["valid_MRR"] <= 100 for epoch in history)


def test_what_is_refused_changes_nothing_and_computes_nothing(compare, compared, monkeypatch):
    monkeypatch.setattr(baselines, "Baselines", None)  # baselines cannot be computed
    root, out = compared / "askubuntu", compared / "out"
    words = ("--models", "rcnn", "lstm", "--root", root, "--out", out, "--resume")
    before = {path: path.read_bytes() for path in out.rglob("*") if path.is_file()}
    said = "pretraining was made with --epochs 1, not 2"
    assert_refused(compare(*words, "--pretraining-epochs", 2), said)
    assert_refused(compare(*words, "--hidden", 6), "holds rcnn-last of another size")
    assert {path: path.read_bytes() for path in out.rglob("*") if path.is_file()} == before


def test_a_lost_checkpoint_gives_one_line_and_models_are_added(compare, compared, tmp_path) -> None:
    out = tmp_path / "out"
    shutil.copytree(compared / "out", out)
    words = ("--models", "rcnn", "--pretraining", "yes", "--resume")
    shutil.rmtree(out / "runs" / "rcnn-pt-last-seed0")  # this run needs the lost checkpoint
    path = out / "pretraining" / "runs" / "rcnn-seed0" / "best.ckpt"
    path.write_bytes(b"nothing")
    for why in ("damaged", "missing"):
        hint = f"remove {path.parent}, and --resume does this run again"
        assert_refused(compare(*words), f"{path} is {why}; {hint}")
        path.unlink(missing_ok=True)
    shutil.rmtree(path.parent)
    assert compare(*words)[::2] == (0, "")
    assert outcome(out) == outcome(compared / "out")
    assert compare("--models", "gru", "--pretraining", "no", "--resume")[::2] == (0, "")
    models = [record["model"] for record in metrics_of(compared / "out")]
    assert [record["model"] for record in metrics_of(out)] == [*models, "gru-last"]
    assert compare("--models", "gru", "--pretraining", "no", "--overwrite")[::2] == (0, "")
    assert not (out / "pretraining").exists()


def test_word_vectors_are_those_of_the_corpus_and_bad_ids_left_out(root) -> None:
    with (root / "train_random.txt").open("a") as file:
        file.write("999\t001\t010\n")
    known = [*TOPICS, *(f"w{k}" for k in range(6))]
    lines = [f"{word} {k / 9:.3f} {1 - k / 5:.3f} 0.5" for k, word in enumerate(known)]
    (root / "vector").mkdir()  # where the published corpus has its vectors
    (root / "vector" / "vectors_pruned.200.txt").write_text("\n".join(lines) + "\n")
    data = load_questions(questions(root, leave_out=True))
    text = describe(data)
    assert "left out: id without a question (1)" in text
    assert "with fixed vectors of 3 numbers from vectors_pruned.200.txt" in text
    shares = ", ".join(rf"\d+ of \d+ in {part} \(\d+\.\d%\)" for part in PARTS)
    assert re.search(f"Words of the texts that are without a vector in the file: {shares}$", text)
    assert set(data.vocabulary.words[3:]) == set(known)
    for k, word in enumerate(known):
        expected = torch.tensor([round(k / 9, 3), round(1 - k / 5, 3), 0.5])
        torch.testing.assert_close(data.vectors.vectors[data.vocabulary[word]], expected)


def test_learned_words_are_those_of_the_questions_to_train_on(root) -> None:
    for name, lines in (
        ("text_tokenized", "900\tunseen unseen\tunseen\n901\tdrawn\tdrawn\n"),
        ("train_random", "000\t001\t901\n"),
        ("dev", "900\t000\t000 010\t2 1\n"),
    ):
        with (root / f"{name}.txt").open("a") as file:
            file.write(lines)
    data = load_questions(questions(root))
    assert "drawn" in data.vocabulary and "unseen" not in data.vocabulary
    unknown = re.findall(r"(\d+) of", data.describe_unknown(data.word_numbers()))
    assert unknown == ["0", "3", "0"]


def test_a_dev_part_too_small_for_a_reranker_has_none(call, tmp_path, drawn) -> None:
    """Dollar signs in words are drawn as they are."""
    for part, count in (("train", 10), ("test", 3)):
        names = [f"{part}{k}" for k in range(count)]
        rows = [f"1\t{n}a\t{n}b\t{n} one way\t{n} another $way$\n" for n in names]
        (tmp_path / f"msr_paraphrase_{part}.txt").write_text("".join(rows))
    words = ("--data", "msrp", "--root", tmp_path, "--models", "rcnn", "--pretraining", "no")
    text = printed(call(*SMALL, *words, "--device", "cpu", "--out", tmp_path / "out"))
    assert "\nno re-ranker: the dev part is too small for one" in text
    assert text.splitlines()[-1].startswith("rcnn-last ")
    found = json.loads((tmp_path / "out" / "baselines.json").read_text())
    assert list(found) == ["BM25 of the corpus", "BM25", "TF-IDF"]
    assert (tmp_path / "out" / "gates_by_word.png").read_bytes().startswith(b"\x89PNG")


def test_askubuntu_has_the_training_of_the_thesis(call, root, tmp_path, monkeypatch) -> None:
    seen: list[Experiment] = []
    monkeypatch.setattr(Experiment, "run", lambda one: seen.append(one) or [])
    monkeypatch.setattr(Experiment, "finish", lambda *args: None)
    folders = ("--root", root, "--out", tmp_path / "out", "--vectors", "none")
    assert call("--data", "askubuntu", *folders, "--schedule", "exponential")[0] == 0
    pretraining, training = (one.training for one in seen)
    assert (training.epochs, training.batch_size) == (50, 40)
    assert (pretraining.epochs, pretraining.batch_size) == (40, 256)
    assert training.optimizer.schedule == pretraining.optimizer.schedule == "exponential"
    assert {model.hidden > 200 for model in seen[1].models} == {True}
