"""``python -m benchmarks.question_retrieval`` from end to end, on questions made here."""

import json
import re
import shutil
from functools import partial
from itertools import product
from pathlib import Path
from typing import NamedTuple

import pandas
import pytest
import torch
from torch import Tensor

from benchmarks.harness.experiment import Experiment
from benchmarks.harness.retrieval import baselines
from benchmarks.harness.retrieval.data import load_questions, question_batches
from benchmarks.harness.retrieval.options import Questions
from benchmarks.harness.retrieval.report import describe, reciprocal_ranks
from benchmarks.harness.retrieval.task import METRICS, QuestionRanker, RetrievalTask, evaluate
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
    """The same on questions made here, pre-trained a little unless they are not at all."""
    monkeypatch.setattr(baselines, "NGRAMS", (1,))
    untrained = partial(compare, "--root", root)
    return lambda *words: untrained(*(() if "no" in words else PRETRAINING), *words)


def questions(root: Path) -> Questions:
    return Questions(data=("askubuntu",), root=str(root), vectors="none")


class Compared(NamedTuple):
    """A results folder, not to be changed, and the weights that networks started from."""

    root: Path
    out: Path
    starts: dict[tuple[str, int], dict[str, Tensor]]


@pytest.fixture(scope="module")
def compared(tmp_path_factory) -> Compared:
    """RCNN and CNN, with and without pre-training, of two seeds."""
    folder = tmp_path_factory.mktemp("compared")
    root, out = write_askubuntu(folder / "askubuntu"), folder / "out"
    starts: dict[tuple[str, int], dict[str, Tensor]] = {}
    begin = QuestionRanker.on_train_epoch_start

    def recorded(ranker: QuestionRanker) -> None:
        name, weights = ranker.net.config.name, ranker.net.state_dict()
        starts[name, int((name, 0) in starts)] = {k: v.clone() for k, v in weights.items()}
        begin(ranker)

    models = ("--models", "rcnn", "cnn", "--seeds", 0, 1, "--root", root, "--out", out)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(baselines, "NGRAMS", (1,))
        patch.setattr(QuestionRanker, "on_train_epoch_start", recorded)
        done(PROGRAM, *SMALL, "--device", "cpu", *PRETRAINING, *models)
    return Compared(root, out, starts)


def test_compares_encoders_with_and_without_pretraining(compared) -> None:
    out, records = compared.out, metrics_of(compared.out)
    names = ["rcnn-last", "rcnn-pt-last", "cnn-mean", "cnn-pt-mean"]
    assert [(r["model"], r["seed"]) for r in records] == list(product(names, (0, 1)))
    table = table_of(out, dtype={"query": str, "candidate": str})
    columns = "model seed part query candidate relevant score"
    assert list(table) == columns.split()
    task = RetrievalTask(load_questions(questions(compared.root)))
    for record, run in runs_of(out, table):
        for part in ("valid", "test"):
            lists = [rows for _, rows in run[run["part"] == part].groupby("query", sort=False)]
            assert [len(rows) for rows in lists] == [8] * len(TOPICS)
            scores = [torch.tensor(rows["score"].to_numpy()) for rows in lists]
            found = evaluate(scores, [torch.tensor([*rows["relevant"]]).bool() for rows in lists])
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
    for (encoder, pooling), seed in product((("rcnn", "last"), ("cnn", "mean")), (0, 1)):
        path = compared.out / "pretraining" / "runs" / f"{encoder}-seed{seed}" / "best.ckpt"
        written = torch.load(path, weights_only=True)["state_dict"]
        untrained = compared.starts[f"{encoder}-{pooling}", seed]
        for name, weight in compared.starts[f"{encoder}-pt-{pooling}", seed].items():
            assert torch.equal(weight, written[f"net.question.{name}"])
            assert not torch.equal(weight, untrained[name])


def test_checkpoint_alone_rebuilds_the_network(compared) -> None:
    path = compared.out / "runs" / "cnn-pt-mean-seed1" / "best.ckpt"
    ranker = QuestionRanker.load_from_checkpoint(path, map_location="cpu", weights_only=True).eval()
    data = load_questions(questions(compared.root))
    loader = question_batches(data, "title+body", 20, 40, 0).parts["test"]
    with torch.no_grad():
        scores = torch.cat([ranker(batch) for batch in loader])
    table = table_of(compared.out)
    run = table[(table["model"] == "cnn-pt-mean") & (table["seed"] == 1)]
    expected = run[run["part"] == "test"]["score"].to_numpy()
    torch.testing.assert_close(scores, torch.tensor(expected).float())


def test_own_pairs_from_training_to_ranking(call, tmp_path, drawn) -> None:
    things = ("apple", "bicycle", "candle", "door", "engine", "flute")
    rows = [
        {"q1": f"where is the {a} w{k}", "q2": f"the {b} w{k % 7} is where ?", "same": int(a == b)}
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
    assert call(*ranked, "--best", 3, "--batch-size", 1, "--overwrite")[0] == 0
    again = pandas.read_csv(tmp_path / "ranked.csv")
    assert again["cosine"].tolist() == pytest.approx(table["cosine"].tolist(), abs=1e-6)
    (tmp_path / "texts.csv").write_text("text\nthe\nqqq zzz\n")
    assert "1 of 2 texts has no known word: lines 3" in call(*ranked, "--overwrite")[2]
    (tmp_path / "texts.csv").write_text("text\na\n.\n \n")
    assert_refused(call(*ranked, "--overwrite"), "texts.csv, line 4: no words")


def test_learns_which_words_matter(compare, tmp_path) -> None:
    words = ("--models", "rcnn", "cnn", "--pretraining", "no", "--pooling", "mean")
    words = (*words, "--dropout", 0, "--batch-size", 12, "--lr", 0.03, "--epochs", 10)
    assert compare(*words, "--hidden", 12, "--embedding", 12, "--seed", 2)[0] == 0
    records = metrics_of(tmp_path / "out")
    assert len(records) == 2
    assert all(min(record["train"], record["test"]) > 85 for record in records)


def test_pretraining_lowers_the_perplexity(compare, tmp_path) -> None:
    words = ("--models", "gru", "--pretraining", "yes", "--lr", 0.02, "--hidden", 16)
    words = (*words, "--pretraining-batch-size", 16, "--pretraining-epochs", 6)
    assert compare(*words)[0] == 0
    record = tmp_path / "out" / "pretraining" / "runs" / "gru-seed0" / "record.json"
    history = json.loads(record.read_text())["history"]
    assert history[-1]["valid_perplexity"] < 0.8 * history[0]["valid_perplexity"]
    assert all(0 < epoch["valid_MRR"] <= 100 for epoch in history)


def test_what_is_refused_changes_nothing_and_computes_nothing(compare, compared, monkeypatch):
    monkeypatch.setattr(baselines, "Baselines", None)  # cannot be computed
    words = ("--models", "rcnn", "lstm", "--root", compared.root, "--out", compared.out, "--resume")
    before = {path: path.read_bytes() for path in compared.out.rglob("*") if path.is_file()}
    for more, error in (
        (("--pretraining-epochs", 2), "pretraining was made with --epochs 1, not 2"),
        (("--hidden", 6), "holds rcnn-last of another size"),
    ):
        assert_refused(compare(*words, *more), error)
        after = {path: path.read_bytes() for path in compared.out.rglob("*") if path.is_file()}
        assert after == before


def test_a_lost_checkpoint_gives_one_line_and_models_are_added(compare, compared, tmp_path) -> None:
    out, before = tmp_path / "out", metrics_of(compared.out)
    shutil.copytree(compared.out, out)
    words = ("--models", "rcnn", "--pretraining", "yes", "--resume")
    shutil.rmtree(out / "runs" / "rcnn-pt-last-seed0")  # needs what is lost
    path = out / "pretraining" / "runs" / "rcnn-seed0" / "best.ckpt"
    path.write_bytes(b"nothing")
    for why in ("damaged", "missing"):
        hint = f"remove {path.parent}, and --resume does this run again"
        assert_refused(compare(*words), f"{path} is {why}; {hint}")
        path.unlink(missing_ok=True)
    shutil.rmtree(path.parent)
    assert compare(*words)[::2] == (0, "")
    assert outcome(out) == outcome(compared.out)
    assert compare("--models", "gru", "--pretraining", "no", "--resume")[::2] == (0, "")
    records = metrics_of(out)
    assert [record["model"] for record in records[::2]][:4] == [r["model"] for r in before[::2]]
    assert [record["model"] for record in records[8:]] == ["gru-last"]


def test_word_vectors_are_kept_as_they_are_and_bad_ids_left_out(
    call, compare, root, tmp_path
) -> None:
    with (root / "train_random.txt").open("a") as file:
        file.write("999\t001\t010\n")
    said = "train_random.txt: id without a question, 999 (--leave-out leaves"
    assert_refused(compare(), said)
    known = [*TOPICS, *(f"w{k}" for k in range(6))]
    lines = [f"{word} {k / 9:.3f} {1 - k / 5:.3f} 0.5" for k, word in enumerate(known)]
    (root / "vector").mkdir()  # where the published corpus has it
    (root / "vector" / "vectors_pruned.200.txt").write_text("\n".join(lines) + "\n")
    choice = Questions(data=("askubuntu",), root=str(root), leave_out=True)
    text = describe(load_questions(choice))
    assert "left out: id without a question (1)" in text
    assert "with fixed vectors of 3 numbers from vectors_pruned.200.txt" in text
    shares = ", ".join(rf"\d+ of \d+ in {part} \(\d+\.\d%\)" for part in PARTS)
    assert re.search(f"Words of the texts that are without a vector in the file: {shares}$", text)
    words = ("--data", "askubuntu", "--root", root, "--leave-out", "--hidden", 5, "--epochs", 1)
    words = (*words, "--vectors", root / "vector" / "vectors_pruned.200.txt", "--quiet")
    words = (*words, "--models", "gru", "--pretraining", "no", "--device", "cpu")
    printed(call(*words, "--out", tmp_path / "o"))
    checkpoint = torch.load(tmp_path / "o" / "runs/gru-last-seed0/best.ckpt", weights_only=True)
    vectors = checkpoint["state_dict"]["net.embedding.weight"]
    numbers = ["<pad>", "<unk>", *checkpoint["hyper_parameters"]["words"]]
    assert set(numbers[3:]) == set(known)
    for k, word in enumerate(known):
        expected = torch.tensor([round(k / 9, 3), round(1 - k / 5, 3), 0.5])
        torch.testing.assert_close(vectors[numbers.index(word)], expected)


def test_learned_words_are_those_of_the_questions_to_train_on(root) -> None:
    path = root / "text_tokenized.txt"
    path.write_text(path.read_text() + "900\tunseen unseen\tunseen\n901\tdrawn\tdrawn\n")
    train, dev = root / "train_random.txt", root / "dev.txt"
    train.write_text(train.read_text() + "000\t001\t901\n")
    dev.write_text(dev.read_text() + "900\t000\t000 010\t2 1\n")
    data = load_questions(questions(root))
    assert "drawn" in data.vocabulary and "unseen" not in data.vocabulary
    unknown = re.findall(r"(\d+) of", data.describe_unknown(data.word_numbers()))
    assert unknown == ["0", "3", "0"]


def test_a_dev_part_too_small_for_a_reranker_has_none(call, tmp_path, drawn) -> None:
    """Its words with dollar signs are drawn as they are."""
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
