"""``python -m benchmarks.language_model`` from end to end, on texts made here."""

import json
import math
import re
from functools import partial
from pathlib import Path

import pytest

from benchmarks.corpora.language import LanguageCorpus
from benchmarks.harness import training
from benchmarks.harness.language_model import report, task, trained
from tests.benchmarks.conftest import assert_refused, done, metrics_of, printed, runs_of
from tests.benchmarks.small_data import write_corpus

EPOCH = "epoch train_perplexity valid_perplexity test_perplexity valid_error learning_rate seconds"
PROGRAM = "benchmarks.language_model"
SMALL = ("--hidden", 8, "--batch-size", 4, "--steps", 9, "--epochs", 2)


@pytest.fixture
def corpus(tmp_path: Path) -> Path:
    return write_corpus(tmp_path / "corpus", train=60)


@pytest.fixture
def compare(compare, corpus: Path):
    """Calls the command on the corpus."""
    return partial(compare, "--data", corpus)


@pytest.fixture(scope="module")
def checkpoint(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model validated on one stream; its texts have empty lines, as those of WikiText do."""
    folder = tmp_path_factory.mktemp("checkpoint")
    root = write_corpus(folder / "corpus", "wiki.{}.tokens", train=60)
    for path in root.iterdir():
        path.write_text(path.read_text().replace("\n", "\n\n", 5))
    words = (*SMALL, "--data", root, "--preset", "rcnn-5m", "--lr", 0.3, "--device", "cpu")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(task, "EVALUATION_STREAMS", 1)
        done(PROGRAM, *words, "--quiet", "--out", folder / "out")
    return folder / "out" / "runs" / "rcnn-5m-seed0" / "best.ckpt"


def test_compares_presets(compare, corpus: Path, tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setattr(training, "LINES_PER_RUN", 1)  # yet each epoch prints a line
    out = printed(compare("--preset", "rcnn-5m", "lstm-5m", "--seeds", 0, 1, "--epochs", 3))
    records = metrics_of(tmp_path / "out")
    names = [(name, seed) for name in ("rcnn-5m", "lstm-5m") for seed in (0, 1)]
    assert [(r["model"], r["seed"]) for r in records] == names
    streams = LanguageCorpus(corpus).streams
    found = {(r["dataset"], r["metric"], r["epochs"], r["training_words"]) for r in records}
    assert found == {("ptb", "perplexity", 3, len(streams["train"]))}
    for record, rows in runs_of(tmp_path / "out"):
        for part, stretches in rows.groupby("part"):
            words, losses = stretches["words"], stretches["loss"]
            assert words.sum() == len(streams[part])
            assert stretches["before"].tolist() == [0, *words.cumsum()[:-1]]
            assert record[part] == pytest.approx(math.exp((words * losses).sum() / words.sum()))
        found = report.log_likelihoods(training.Run(record, [], rows))
        assert found.mean() == pytest.approx(-math.log(record["test"]))
    for path in (tmp_path / "out" / "runs").glob("*/record.json"):
        history = json.loads(path.read_text())["history"]
        assert [list(epoch) for epoch in history] == [EPOCH.split()] * 3

    written = (tmp_path / "out" / "table.md").read_text()
    assert f"{len(streams['test']):,} test (1 unknown)" in out
    line = r"lstm-5m \(seed 1\): epoch (\d+)/3, valid perplexity \S+, test \S+ \("
    assert re.findall(line, out) == ["1", "2", "3"]
    assert "| minus best |" in written and "of the log-likelihood in nats a word" in written
    assert "| epoch | rcnn-5m valid | rcnn-5m test | lstm-5m valid | lstm-5m test |" in written
    assert re.search(r"\n\| 2( \| \d+\.\d\d ± \d+\.\d\d){4} \|\n", written)


def test_without_a_corpus_it_is_pythons(call, corpus: Path, tmp_path, monkeypatch) -> None:
    monkeypatch.setattr(task, "PythonDocumentation", lambda: LanguageCorpus(corpus))
    monkeypatch.setattr("benchmarks.harness.language_model.options.DEFAULT_PARAMETERS", 2000)
    monkeypatch.chdir(tmp_path)
    assert call("--device", "cpu", "--quiet")[0] == 0
    records = metrics_of(tmp_path / "runs" / "language-ptb")
    assert [record["model"] for record in records] == ["rcnn-5m", "lstm-5m"]
    assert {record["epochs"] for record in records} == {5}
    assert all(1000 < record["num_parameters"] <= 2000 for record in records)


def test_options_replace_the_presets_settings(compare, tmp_path: Path) -> None:
    words = ("--epochs", 1, "--lr", 0.25, "--clip", 0.5, "--patience", 4, "--layers", 1)
    words = (*words, "--seeds", 2**31 - 1)  # the largest seed
    assert compare("--preset", "rcnn-5m-x", *words)[0] == 0
    configuration = json.loads((tmp_path / "out" / "configuration.json").read_text())
    (setup,) = configuration["models"].values()
    given = {"epochs": 1, "learning_rate": 0.25, "clip": 0.5, "patience": 4}
    given |= {"batch_size": 4, "steps": 9}
    kept = {"decay": 0.9, "decay_after": 10, "optimizer": "sgd", "sum_steps": True}
    assert {name: setup["training"][name] for name in given | kept} == given | kept
    assert (setup["model"]["hidden"], setup["model"]["num_layers"]) == (8, 1)


def test_score_of_the_validation_part(call, checkpoint: Path, monkeypatch) -> None:
    monkeypatch.setattr(trained, "CHUNK", 7)
    out, root = checkpoint.parents[2], checkpoint.parents[3] / "corpus"
    (record,) = metrics_of(out)
    path = root / "wiki.valid.tokens"
    words = ("--checkpoint", out, "--data", path, "--words", "--device", "cpu")
    status, out, err = call("score", *words, "--each-line")
    assert status == 0
    assert err == "benchmarks.language_model: 1 word is not in the vocabulary: 'only-valid'\n"
    words_in_all = len(LanguageCorpus(root).streams["valid"])
    assert re.search(rf" {words_in_all} +1 +{record['valid']:.2f}\n", out)
    lines = path.read_text().splitlines()
    first = [line.split()[:1] for line in out.splitlines()[4:-1] if line[:1] != " "]
    assert first == [line.split()[:1] for line in lines if line]


def test_lines_without_words_end_sentences_in_a_corpus(call, checkpoint, tmp_path) -> None:
    path = tmp_path / "text.txt"
    path.write_text("\ufeffw1\u2028w3\r\n\nw9\n", encoding="utf-8")
    score = partial(call, "score", "--checkpoint", checkpoint)
    tables = []
    for words in (("--text", "w1 w3\n \n,\nw9"), ("--file", path), ("--file", path, "--words")):
        out = printed(score(*words, "--each-line"))
        tables.append([line.split()[-3:] for line in out.splitlines()[4:]])
    assert [row[:2] for row in tables[0]] == [["3", "0"], ["2", "0"], ["5", "0"]]
    assert tables[1] == tables[0]
    assert [row[:2] for row in tables[2]] == [["3", "0"], ["1", "0"], ["2", "0"], ["6", "0"]]
    scores = trained.load_model(checkpoint).score([["w1", "w3"], ["w9"]])
    assert f"{scores.perplexity():.2f}" == tables[0][-1][2]  # as the documentation says
    path.write_text("\n  \n")
    assert_refused(score("--file", path), "the text to score has no words")
    damaged = path.rename(tmp_path / "damaged.gz")
    assert_refused(score("--file", damaged), "damaged.gz cannot be decompressed")


def test_generate(call, checkpoint: Path) -> None:
    words = ("generate", "--checkpoint", checkpoint, "--length", 40, "--device", "cpu", "--prompt")
    out = printed(call(*words, "w3 w9"))
    assert out.startswith("w3 w9")
    drawn = out.replace("\n", " <eos> ").split()
    assert 40 + 2 <= len(drawn) <= 40 + 3  # one more for the end of the last line
    assert set(drawn) <= {*(f"w{k}" for k in range(20)), "<eos>", "only-train"}
    assert printed(call(*words, "w3 w9")) == out != call(*words, "w3 w9", "--seed", 1)[1]
    status, _, err = call(*words, "w3 nowhere")
    said = "--prompt: 1 word is not in the vocabulary: 'nowhere'"
    assert (status, err) == (0, f"benchmarks.language_model: {said}\n")
    assert_refused(call(*words, "zzz"), "vocabulary of 22 words (wikitext) has none of these")
    assert_refused(call(*words, "..."), "--prompt has no words: the vocabulary is without")


def test_a_text_file_of_one_s_own(compare, call, tmp_path: Path) -> None:
    file = tmp_path / "story.txt"
    lines = [f"Once, w{k % 3} said: \u00e9t\u00e9!\n\n" for k in range(40)]
    file.write_text("".join(lines), encoding="latin-1")
    words = ("--data", file, "--preset", "rcnn-5m", "--hidden", 4, "--epochs", 1)
    assert_refused(compare(*words), "story.txt is not in the encoding utf-8: ")
    assert compare(*words, "--encoding", "latin-1")[0] == 0
    (record,) = metrics_of(tmp_path / "out")
    assert (record["dataset"], record["split"]) == ("story", "lines in order")
    scored = ("score", "--checkpoint", tmp_path / "out", "--file", file, "--device", "cpu")
    assert_refused(call(*scored), "is not in the encoding utf-8")
    out = printed(call(*scored, "--encoding", "latin-1"))
    assert "320 " in out  # seven words and an end, 40 times
    file.write_text("a b\n" * 9)
    assert "story.txt has 9 lines with words; 10 or more" in compare(*words)[2]


def test_divergence_is_one_line(compare) -> None:
    status, out, err = compare("--preset", "rcnn-5m-constant", "--lr", 1e30, "--clip", 0, "--quiet")
    assert (status, out, err.count("\n")) == (1, "", 1)
    assert re.search(r"rcnn-5m-constant .*the validation error is .* after epoch 1;", err)
