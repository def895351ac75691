"""``python -m benchmarks.text_classification`` from end to end, on texts made here."""

import json
import os
import random
import re
import signal
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest
import torch

pytest.importorskip("lightning", reason="the benchmark needs the extra 'bench'")

import pandas

from benchmarks.corpora.trec import TREC
from benchmarks.harness import sizes
from benchmarks.harness.arguments import training_config
from benchmarks.harness.errors import InputError
from benchmarks.harness.learner import OptimizerConfig
from benchmarks.harness.progress import EpochHistory
from benchmarks.harness.text import choices, encoders, model_config, models, names
from benchmarks.harness.text import options as text_options
from benchmarks.harness.text.classifier import TextClassifier
from benchmarks.harness.text.data import CORPORA, TextChoice, load_texts
from benchmarks.harness.text.model_config import TextModelConfig
from benchmarks.harness.text.models import build_text_model
from benchmarks.harness.text.task import text_model_configs
from benchmarks.harness.text.variants import variant_plots
from benchmarks.harness.training import Run
from benchmarks.text_classification import main
from pyg_kernels.datasets.text import TextBatch
from tests.benchmarks.interruption import interrupt_once, results

KEYS = [
    *("dataset", "split", "model", "seed", "num_parameters", "metric"),
    *("train", "valid", "test", "epochs", "seconds_per_epoch"),
]
ROOT = Path(__file__).parents[2]


def write_questions(root: Path, train: int = 120, test: int = 30) -> Path:
    """Questions whose class is the order of two words: no bag of words tells them apart."""
    root.mkdir()
    generator = random.Random(0)
    for name, number in (("train_5500.label", train), ("TREC_10.label", test)):
        lines = []
        for k in range(number):
            label, pair = (("NUM:a", "many how"), ("LOC:b", "how many"))[k % 2]
            left, right = (
                " ".join(f"w{generator.randrange(30)}" for _ in range(generator.randrange(4)))
                for _ in range(2)
            )
            lines.append(f"{label} {' '.join(f'{left} {pair} {right}'.split())}\n")
        (root / name).write_text("".join(lines))
    return root


def write_glove(path: Path, words: list[str], size: int = 6) -> Path:
    generator = random.Random(1)
    path.parent.mkdir(exist_ok=True)
    path.write_text(
        "".join(f"{w} {' '.join(f'{generator.gauss():.3f}' for _ in range(size))}\n" for w in words)
    )
    return path


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return write_questions(tmp_path / "trec")


@pytest.fixture
def call(call_main) -> Callable[..., tuple[int, str, str]]:
    return partial(call_main, main)


@pytest.fixture
def compare(call, root: Path, tmp_path: Path) -> Callable[..., tuple[int, str, str]]:
    """Trains small models for 2 epochs into ``out`` unless the words say otherwise."""

    def run(*words: object) -> tuple[int, str, str]:
        small = ("--device", "cpu", "--hidden", 5, "--embedding", 4, "--batch-size", 16)
        data = ("--root", root, "--vectors", "none")
        return call(*data, *small, "--epochs", 2, "--out", tmp_path / "out", "--quiet", *words)

    return run


def test_compares_all_models_over_seeds(compare, root, tmp_path) -> None:
    status, out, err = compare("--seeds", 0, 1)
    assert (status, err) == (0, "")
    records = json.loads((tmp_path / "out" / "metrics.json").read_text())
    assert [list(record) for record in records] == [KEYS] * 6
    assert [(r["model"], r["seed"]) for r in records] == [
        (name, seed) for name in ("rcnn", "lstm", "cnn") for seed in (0, 1)
    ]
    assert {(r["dataset"], r["metric"], r["epochs"]) for r in records} == {("trec", "accuracy", 2)}
    split = "official test part, 10% of each class held out of training (seed 0)"
    assert {r["split"] for r in records} == {split}

    table = pandas.read_csv(tmp_path / "out" / "predictions.csv")
    assert list(table) == ["model", "seed", "part", "row", "text", "label", "predicted"]
    for record in records:
        run = table[(table["model"] == record["model"]) & (table["seed"] == record["seed"])]
        assert sorted(run["row"]) == list(range(150))
        assert run["part"].value_counts().to_dict() == {"train": 108, "valid": 12, "test": 30}
        for part in ("train", "valid", "test"):
            rows = run[run["part"] == part]
            accuracy = 100 * (rows["label"] == rows["predicted"]).mean()
            assert record[part] == pytest.approx(accuracy)
    lines = [
        line
        for name in ("train_5500.label", "TREC_10.label")
        for line in (root / name).read_text().splitlines()
    ]
    for row, text, label in table[["row", "text", "label"]].head(150).itertuples(index=False):
        assert lines[row] == f"{label}:{'a' if label == 'NUM' else 'b'} {text}"

    assert "108 train, 12 valid, 30 test" in out
    assert "with learned vectors" in out
    for text in (out, (tmp_path / "out" / "table.md").read_text()):
        for name in ("rcnn", "lstm", "cnn"):
            assert re.search(rf"{name} .* \d+\.\d\d ± \d+\.\d\d", text)
        assert "seeds 0, 1" in text
    for name in ("confusion.png", "learning_curves.png"):
        assert (tmp_path / "out" / name).read_bytes().startswith(b"\x89PNG")


@pytest.mark.parametrize("model", ["rcnn", "lstm", "cnn"])
def test_learns_the_order_of_words(compare, tmp_path, model) -> None:
    words = ("--model", model, "--epochs", 25, "--lr", 0.02, "--dropout", 0, "--patience", 25)
    status, _, err = compare(*words, "--hidden", 12)
    assert (status, err) == (0, "")
    (record,) = json.loads((tmp_path / "out" / "metrics.json").read_text())
    assert record["valid"] > 85
    assert record["test"] > 85


def test_glove_is_found_beside_the_root_and_kept_as_it_is(call, root, tmp_path) -> None:
    known = ["how", "many", *[f"w{k}" for k in range(20)], "elsewhere"]
    glove = write_glove(tmp_path / "glove" / "glove.6d.txt", known)
    (root / "TREC_10.label").write_text("NUM:a elsewhere nowhere many how w1\n")
    words = ("--root", root, "--model", "lstm", "--hidden", 5, "--epochs", 1, "--device", "cpu")
    status, out, err = call(*words, "--out", tmp_path / "out")
    assert (status, err) == (0, "")
    assert "with fixed vectors of 6 numbers from glove.6d.txt" in out
    assert "lstm (seed 0): epoch 1/1, valid accuracy" in out
    data = load_texts(TextChoice(root=str(root)))
    assert data.glove == glove
    assert "elsewhere" in data.vocabulary  # in no training text, but it has a vector
    assert "nowhere" not in data.vocabulary
    checkpoint = torch.load(
        tmp_path / "out" / "runs" / "lstm-seed0" / "best.ckpt", weights_only=True
    )
    weight = checkpoint["state_dict"]["net.embedding.weight"]
    assert data.vectors is not None
    torch.testing.assert_close(weight, data.vectors.vectors, rtol=0, atol=0)
    (record,) = json.loads((tmp_path / "out" / "metrics.json").read_text())
    lstm = 4 * 5 * (6 + 5 + 2) + 4 * 5 * (5 + 5 + 2)
    assert record["num_parameters"] == lstm + 2 * (5 + 1)
    # The file may have moved, and is named; other vectors are not taken for the same.
    moved = glove.rename(tmp_path / "vectors.txt")
    resumed = (*words, "--out", tmp_path / "out", "--resume", "--vectors")
    assert call(*resumed, moved)[0] == 0
    other = write_glove(tmp_path / "other.txt", [*known, "w25"])
    status, _, err = call(*resumed, other)
    assert (status, err.count("\n")) == (2, 1)
    assert "vectors" in err


def test_cells_and_widths_in_one_table(compare, tmp_path) -> None:
    words = ("--model", "cnn,rkm-cifg", "ran", "--ngram", "1,3", "--seeds", 0, 1, "--epochs", 1)
    status, out, err = compare(*words)
    assert (status, err) == (0, "")
    records = json.loads((tmp_path / "out" / "metrics.json").read_text())
    cells = [(cell, n) for cell in ("cnn", "rkm-cifg", "ran") for n in (1, 3)]
    assert [(r["model"], r["cell"], r["ngram"], r["seed"]) for r in records] == [
        (f"{cell}-{n}gram", cell, n, seed) for cell, n in cells for seed in (0, 1)
    ]
    maps = {"cnn": (1, 0), "rkm-cifg": (3, 3), "ran": (3, 2)}
    gates = {"cnn": 0, "rkm-cifg": 2, "ran": 2}
    weights = {}
    for record in records:
        assert [key for key in record if key not in KEYS] == [
            *("cell", "ngram", "input_size", "hidden_size", "cell_parameters")
        ]
        assert (record["input_size"], record["hidden_size"]) == (4, 5)
        cell, n = record["cell"], record["ngram"]
        filters, recurrent = maps[cell]
        weights[cell, n] = 5 * (filters * n * 4 + recurrent * 5)
        assert record["cell_parameters"] == weights[cell, n]
        biases_and_norm = 5 * gates[cell] + 2 * 5
        vocabulary = record["num_parameters"] - (weights[cell, n] + biases_and_norm + 30 + 12)
        assert vocabulary > 0
        assert vocabulary % 4 == 0
    table = (tmp_path / "out" / "table.md").read_text()
    header = "| cell | p | r | weights 1-gram | weights 3-gram | test 1-gram | test 3-gram |"
    assert header in table
    for cell, (p, r) in maps.items():
        tests = []
        for n in (1, 3):
            a, b = (x["test"] for x in records if (x["cell"], x["ngram"]) == (cell, n))
            tests.append(f"{(a + b) / 2:.2f} ± {abs(a - b) / 2**0.5:.2f}")
        row = [cell, p, r, weights[cell, 1], weights[cell, 3], *tests]
        assert f"| {' | '.join(map(str, row))} |" in table
    assert (
        "Here m = 4 and d = 5; Liang et al. 2019 have m = d = 300 and so 90,000 and 270,000" in out
    )
    assert "on trec, official test part, 10% of each class held out of training (seed 0)" in out
    assert re.search(r"rkm-cifg-3gram +[\d,]+ +\d+\.\d\d ± ", out)
    # Runs of one folder stand together, also where not every cell has every width and seed.
    assert compare("--model", "linear", "--resume", "--epochs", 1)[0] == 0
    table = (tmp_path / "out" / "table.md").read_text()
    assert re.search(r"\| linear \| 1 \| 1 \| 45 \| - \| \d+\.\d\d \(runs: 1\) \| - \|", table)
    assert compare("--model", "cnn", "--resume", "--epochs", 1)[0] == 0  # Kim's
    table = (tmp_path / "out" / "table.md").read_text()
    assert table.count("| cnn |") == 2


@pytest.mark.parametrize("cell", ["rkm-lstm", "cnn"])
def test_cells_learn_the_order_of_words(compare, tmp_path, cell) -> None:
    words = ("--model", cell, "--ngram", 2, "--epochs", 30, "--lr", 0.03, "--dropout", 0)
    status, _, err = compare(*words, "--patience", 30, "--hidden", 16)
    assert (status, err) == (0, "")
    (record,) = json.loads((tmp_path / "out" / "metrics.json").read_text())
    assert record["valid"] > 85
    assert record["test"] > 85


RCNN_LSTM_LAYERS = "rcnn-1layers rcnn-2layers lstm-1layers lstm-2layers"


@pytest.mark.parametrize(
    ("words", "names"),
    [
        ((), "rcnn lstm cnn"),
        (("--models", "cnn", "rcnn,cnn"), "cnn rcnn"),
        (("--model", "lstm,ran"), "lstm-1gram ran-1gram"),
        (("--model", "cnn", "--ngram", "3", "1,2"), "cnn-3gram cnn-1gram cnn-2gram"),
        (("--ngram", "2"), " ".join(f"{cell}-2gram" for cell in model_config.CELLS)),
        (("--model", "bag-of-vectors,bi-lstm"), "bag-of-vectors bi-lstm"),
        (("--model", "rcnn,lstm", "--layers", "1", "2"), RCNN_LSTM_LAYERS),
        (("--layers", "3", "--decays", "learned"), "rcnn lstm cnn"),
    ],
)
def test_names_of_models(words, names) -> None:
    options = text_options.parser().parse_args(words)
    assert choices.model_names(options) == names.split()


def test_cells_have_300_units_unless_said_otherwise(call, root, tmp_path) -> None:
    shared = ("--root", root, "--vectors", "none", "--epochs", 1, "--device", "cpu", "--quiet")
    sizes = {}
    for name, words in {"paper": (), "budget": ("--parameters", 2000)}.items():
        out = tmp_path / name
        assert call(*shared, "--model", "gated-cnn", "--embedding", 4, "--out", out, *words)[0] == 0
        (sizes[name],) = json.loads((out / "configuration.json").read_text())["models"]
    assert (sizes["paper"]["hidden"], sizes["paper"]["num_layers"]) == (300, 1)
    # 2 filters of 4 H, H gate biases, 2 H of the norm, and two layers: H (H + 1) + 2 (H + 1).
    hidden = sizes["budget"]["hidden"]
    numbers = [11 * d + d * (d + 1) + 2 * (d + 1) for d in (hidden, hidden + 1)]
    assert numbers[0] <= 2000 < numbers[1]


def write_reviews(root: Path) -> Path:
    """SST's files, where the first word tells the class, and those of phrases."""
    root.mkdir()
    generator = random.Random(2)
    marks = ("awful", "bad", "plain", "good", "superb")

    def lines(number: int) -> list[str]:
        return [f"{k % 5} {marks[k % 5]} w{generator.randrange(9)} film\n" for k in range(number)]

    for part, number in (("train", 60), ("dev", 15), ("test", 20)):
        (root / f"stsa.fine.{part}").write_text("".join(lines(number)))
    phrases = [f"{k % 5} {marks[k % 5]}\n" for k in range(10)]
    (root / "stsa.fine.phrases.train").write_text("".join([*lines(60), *phrases]))
    write_glove(root / "glove.6d.txt", [*marks, "film", *[f"w{k}" for k in range(8)]])
    return root


def test_preset_of_the_thesis() -> None:
    preset = names.PRESETS["lei2017-sst"]
    options = text_options.compare_options(["--preset", "lei2017-sst"])
    assert all(getattr(options, name) == value for name, value in preset.items())
    assert choices.model_names(options) == [
        *("rcnn-decay-0.5", "rcnn-decay-input", "rcnn-decay-recurrent"),
        *("lstm", "bi-lstm", "cnn", "bag-of-vectors"),
    ]
    options.dataset = choices.dataset_of(options)
    training = training_config(options, *3 * [dict.fromkeys(names.DATASETS, 0)])
    assert (training.epochs, training.optimizer) == (
        50,
        OptimizerConfig(0.001, "exponential", 0.95, 1e-6),
    )
    words = "--preset lei2017-sst --schedule cosine --models rcnn,cnn --depths 1 2 --decay .30,0"
    options = text_options.compare_options([*words.split(), "--data", "a.csv"])
    assert (choices.dataset_of(options), options.lr_factor, options.phrases) == ("csv", None, None)
    assert choices.model_names(options) == [
        *("rcnn-1layers-decay-0.3", "rcnn-1layers-decay-0"),
        *("rcnn-2layers-decay-0.3", "rcnn-2layers-decay-0", "cnn"),
    ]


@pytest.mark.parametrize(
    ("models", "words", "said"),
    [
        ("cnn", "--decays 0.3 --order 5", r"^--decays goes with rcnn$"),
        ("lstm,cnn", "--order 2", r"^--order goes with rcnn$"),
        ("cnn", "--layers 3", r"^--layers goes with rcnn, lstm, bi-lstm$"),
        ("ran", "--ngram 2 --activation relu", r"^--activation goes with rcnn; the cells"),
        ("ran", "--ngram 2 --rcnn-readout z", r"^--rcnn-readout goes with rcnn; the cells"),
    ],
)
def test_a_preset_may_have_options_without_effect_but_none_are_given(models, words, said) -> None:
    preset = ["--preset", "lei2017-sst", "--models", models]
    assert choices.model_names(text_options.compare_options(preset))
    options = text_options.compare_options([*preset, *words.split()])
    with pytest.raises(InputError, match=said):
        choices.model_names(options)


def test_the_preset_s_models_are_as_large_as_its_rcnn(tmp_path) -> None:
    data = load_texts(TextChoice("sst-fine", str(write_reviews(tmp_path / "sst"))))
    options = text_options.compare_options(["--preset", "lei2017-sst"])
    names = choices.model_names(options)
    settings = choices.model_options(options, cells=False)
    configs = text_model_configs(names, data, **settings)
    sizes = {config.name: models.count_parameters(config) for config in configs}
    assert {c.name: c.hidden for c in configs if "rcnn" in c.name} == dict.fromkeys(names[:3], 200)
    assert {(c.num_layers, c.readout, c.rcnn_readout, c.dropout) for c in configs} == {
        (3, "mean", "sum", 0.35)
    }
    for name in names[3:]:
        assert 0.97 * sizes["rcnn-decay-input"] < sizes[name] <= sizes["rcnn-decay-input"]
    given = text_options.compare_options(["--preset", "lei2017-sst", "--hidden", "7"])
    settings = choices.model_options(given, cells=False)
    assert {c.hidden for c in text_model_configs(names, data, **settings)} == {7}


def test_layers_and_decays_with_pictures_and_an_explanation(call, tmp_path) -> None:
    root, out = write_reviews(tmp_path / "sst"), tmp_path / "out"
    words = ("--preset", "lei2017-sst", "--root", root, "--hidden", 4, "--epochs", 2, "--seed", 0)
    sweep = (*words, "--device", "cpu", "--out", out, "--models", "rcnn", "lstm", "--lr", 0.01)
    status, output, err = call(*sweep, "--layers", 1, 2, "--decays", 0, 0.5)
    assert (status, err) == (0, "")
    assert "official parts, training on phrases too: 70 train, 15 valid, 20 test" in output
    assert "fixed vectors of 6 numbers from glove.6d.txt scaled to length 1" in output
    data = load_texts(TextChoice("sst-fine", str(root), unit_norm=True, phrases=None))
    missing = [
        f"{sum(text.count('w8') for text in data.corpus.part(part))} of {number} in {part}"
        for part, number in (("train", 190), ("valid", 45), ("test", 60))
    ]
    assert f"Words of the texts that are without a vector in the file: {', '.join(missing)}" in (
        output
    )
    assert data.vectors is not None
    lengths = data.vectors.vectors.norm(dim=1)
    torch.testing.assert_close(lengths, data.vectors.found.float())
    records = json.loads((out / "metrics.json").read_text())
    found = {record["model"]: (record["layers"], record.get("decay")) for record in records}
    assert found == {
        "rcnn-1layers-decay-0": (1, 0.0),
        "rcnn-1layers-decay-0.5": (1, 0.5),
        "rcnn-2layers-decay-0": (2, 0.0),
        "rcnn-2layers-decay-0.5": (2, 0.5),
        "lstm-1layers": (1, None),
        "lstm-2layers": (2, None),
    }
    for name in ("accuracy_by_layers.png", "accuracy_by_decay.png"):
        assert (out / name).read_bytes().startswith(b"\x89PNG")
    checkpoint = out / "runs" / "rcnn-2layers-decay-0.5-seed0" / "best.ckpt"
    explained = ("predict", "--text", "A superb, w8 film", "bad", "--checkpoint", checkpoint)
    status, output, err = call(*explained, "--explain", tmp_path / "new" / "folder")
    assert (status, err) == (0, "")
    assert "a superb , w8 film\nclass " in output
    assert "3 of 5 words are unknown: a, ,, w8" in output
    assert re.search(r"\nsuperb +[+-]\d\.\d\d +[.+-]{10}\|[.+-]{10} +[+-]", output)
    assert (tmp_path / "new" / "folder" / "explanation.png").read_bytes().startswith(b"\x89PNG")
    status, _, err = call(*explained, "--explain", tmp_path / "new" / "folder")
    assert (status, err.count("\n")) == (2, 1)
    assert "--overwrite replaces it" in err
    # The pictures go with the results they are of.
    assert call(*sweep, "--overwrite", "--layers", 1, "--decays", 0.5)[0] == 0
    assert not (out / "accuracy_by_layers.png").exists()
    assert not (out / "accuracy_by_decay.png").exists()


def test_figures_group_runs_by_what_is_compared() -> None:
    def run(kind: str, layers: int, decay: object, valid: float) -> Run:
        record = {"kind": kind, "layers": layers, "decay": decay, "valid": valid, "test": 2 * valid}
        return Run(record, [], pandas.DataFrame())

    runs = [run("rcnn", 2, "input", 3), run("rcnn", 2, 0.5, 5), run("rcnn", 2, 0.5, 7)]
    plots = variant_plots([*runs, run("lstm", 1, None, 1)], "sst")
    assert list(plots) == ["accuracy_by_decay.png"]
    (axes,) = plots["accuracy_by_decay.png"].axes
    assert [points.get_label() for points in axes.collections] == [
        "decay 0.5 (runs: 2)",
        "decay input (runs: 1)",
    ]
    assert axes.collections[0].get_offsets().tolist() == [[5, 10], [7, 14]]


def test_own_table_from_training_to_predictions(call, tmp_path) -> None:
    generator = random.Random(3)
    kinds = ("very good", "null")
    rows = [
        {
            "id": k,
            "body": f"w{generator.randrange(9)}, {('sun', 'rain')[k % 2]}",
            "kind": kinds[k % 2],
        }
        for k in range(80)
    ]
    train, new = tmp_path / "train.csv.gz", tmp_path / "new.parquet"
    pandas.DataFrame(rows).to_csv(train, index=False, sep=";")
    texts = ["sun today", "", "Rain w1", None]
    pandas.DataFrame({"body": texts, "n": range(4)}).to_parquet(new)
    columns = ("--text-column", "body", "--label-column", "kind")
    small = ("--model", "cnn", "--hidden", 8, "--embedding", 8, "--epochs", 8, "--lr", 0.03)
    words = (*small, "--batch-size", 8, "--vectors", "none", "--device", "cpu", "--quiet")
    out = tmp_path / "out"
    status, _, err = call("--data", train, *columns, *words, "--out", out)
    assert (status, err) == (0, "")
    (record,) = json.loads((out / "metrics.json").read_text())
    assert record["test"] > 90
    predict = ("predict", "--checkpoint", out, "--data", new, "--text-column", "body")
    pages, file = tmp_path / "explained", tmp_path / "p.csv"
    status, _, err = call(*predict, "--out", file, "--explain", pages, "--limit", 1)
    assert (status, err.count("\n")) == (0, 1)
    assert "2 of 4 texts have no words and no class: rows 2, 4" in err
    table = pandas.read_csv(file, keep_default_na=False)
    scores = ["probability of null", "probability of very good"]
    assert list(table) == ["body", "n", "predicted", *scores]
    assert table["predicted"].tolist() == ["very good", "", "null", ""]
    sums = table[scores].replace("", "0").astype(float).sum(axis=1)
    assert sums.tolist() == pytest.approx([1, 0, 1, 0])
    assert "sun today" in (pages / "explanation.md").read_text()
    assert "Rain" not in (pages / "explanation.md").read_text()
    assert (pages / "explanation.png").read_bytes().startswith(b"\x89PNG")
    # One text at a time gives the same, in Parquet too, and nothing is overwritten.
    status, _, err = call(*predict, "--out", file)
    assert (status, err.count("\n")) == (2, 1)
    again = tmp_path / "p.parquet"
    assert call(*predict, "--out", again, "--batch-size", 1)[0] == 0
    whole = pandas.read_parquet(again)
    assert whole["predicted"].tolist() == table["predicted"].tolist()
    assert whole[scores[0]][[0, 2]].tolist() == pytest.approx(
        [float(table[scores[0]][row]) for row in (0, 2)], abs=1e-6
    )
    status, output, err = call("predict", "--checkpoint", out, "--text", "sun", "rain rain")
    assert (status, err) == (0, "")
    assert re.search(r"sun +very good .*\nrain rain +null ", output)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--text", "a", "--checkpoint", "nowhere.ckpt"), "nowhere.ckpt: no such file"),
        (("--text", "a", "--checkpoint", "."), "has neither best.ckpt nor runs"),
        (("--text", "a"), "required: --checkpoint"),
        (("--checkpoint", "x"), "one of the arguments --data --text is required"),
        (("--data", "x.csv", "--checkpoint", "x"), "--data needs --out FILE, --explain DIR"),
        (("--text=a", "--checkpoint", "x", "--epochs", "3"), "--epochs 3"),
    ],
)
def test_bad_predictions_are_one_line(call, tmp_path, monkeypatch, words, said) -> None:
    monkeypatch.chdir(tmp_path)
    status, output, err = call("predict", *words)
    assert (status, output, err.count("\n")) == (2, "", 1)
    assert said in err
    assert list(tmp_path.iterdir()) == []


def test_vectors_are_tuned_on_request(call, root, tmp_path) -> None:
    glove = write_glove(tmp_path / "glove" / "glove.6d.txt", ["how", "many", "elsewhere"])
    words = ("--root", root, "--model", "linear", "--hidden", 5, "--epochs", 1, "--device", "cpu")
    out = tmp_path / "out"
    status, output, err = call(*words, "--tune-vectors", "--out", out)
    assert (status, err) == (0, "")
    assert "vectors of 6 numbers from glove.6d.txt to start from" in output
    checkpoint = torch.load(out / "runs" / "linear-1gram-seed0" / "best.ckpt", weights_only=True)
    weight = checkpoint["state_dict"]["net.embedding.weight"]
    data = load_texts(TextChoice(root=str(root)))
    assert (data.glove, data.vectors is None) == (glove, False)
    moved = (weight - data.vectors.vectors).norm(dim=1)
    place = data.vocabulary["many"]
    assert 0 < moved[place] < 0.5 * data.vectors.vectors[place].norm()
    (record,) = json.loads((out / "metrics.json").read_text())
    cell = 5 * (6 + 5) + 2 * 5
    assert record["num_parameters"] == weight.numel() + cell + 5 * 6 + 2 * 6
    status, _, err = call(*words, "--out", out, "--resume")
    assert (status, err.count("\n")) == (2, 1)
    assert "tune_vectors True, not False" in err
    status, _, err = call(
        *words, "--tune-vectors", "--vectors", "none", "--out", tmp_path / "other"
    )
    assert (status, err.count("\n")) == (2, 1)
    assert "--tune-vectors goes with a file of word vectors" in err


def write_news(path: Path, number: int, seed: int) -> Path:
    """Texts of two classes that say which they are."""
    generator = random.Random(seed)
    rows = [
        f'"{1 + k % 2}","Title {generator.randrange(9)}","{("Sun", "Rain")[k % 2]} ""today""."\n'
        for k in range(number)
    ]
    path.parent.mkdir(exist_ok=True)
    path.write_text("".join(rows))
    return path


def test_own_texts(call, tmp_path) -> None:
    train = write_news(tmp_path / "news" / "train.csv", 80, 0)
    test = write_news(tmp_path / "news" / "test.csv", 20, 1)
    small = ("--model", "cnn", "--ngram", 1, "--hidden", 16, "--embedding", 8, "--batch-size", 8)
    words = (*small, "--vectors", "none", "--epochs", 6, "--lr", 0.03, "--device", "cpu", "--quiet")
    (tmp_path / "news" / "classes.txt").write_text("Dry\nWet\n")
    official = "official test part, 10% of each class held out of training (seed 0)"
    drawn = (
        "random 20% of each class of train.csv for testing (seed 3), "
        "10% of each class held out of training (seed 3)"
    )
    for name, (data, split) in {
        "folder": (("--data", train.parent), official),
        "files": (("--data", train, test), official),
        "file": (("--data", train, "--split-seed", 3), drawn),
    }.items():
        status, out, err = call(*data, *words, "--out", tmp_path / name)
        assert (status, err) == (0, "")
        assert f"Recurrent kernel machines on csv, {split}\n" in out
        (record,) = json.loads((tmp_path / name / "metrics.json").read_text())
        assert (record["dataset"], record["split"]) == ("csv", split)
        assert record["test"] > 90
    table = pandas.read_csv(tmp_path / "folder" / "predictions.csv")
    assert set(table["label"]) == {"Dry", "Wet"}
    files = json.loads((tmp_path / "files" / "configuration.json").read_text())
    assert files["data"]["csv"] == [str(train), str(test)]
    train.rename(tmp_path / "news" / "moved.csv")
    moved = ("--data", tmp_path / "news" / "moved.csv", test, "--resume")
    assert call(*moved, *words, "--out", tmp_path / "files")[0] == 0


def test_ag_news_and_the_alias_of_sst() -> None:
    options = text_options.parser().parse_args(["--data", "sst"])
    assert choices.dataset_of(options) == "sst-fine"
    assert choices.text_choice(options)["root"] == "data/sst"
    options = text_options.parser().parse_args(["--data", "ag_news"])
    assert choices.text_choice(options)["root"] == "data/ag_news"


def test_without_glove_unseen_words_are_unknown(root) -> None:
    (root / "TREC_10.label").write_text("NUM:a nowhere many how w1\n")
    with (root / "train_5500.label").open("a") as file:
        file.write("NUM:a once many how\n")
    data = load_texts(TextChoice(root=str(root)))
    assert data.vectors is None
    assert data.vocabulary["once"] == data.vocabulary["nowhere"] == data.vocabulary.unknown
    assert data.vocabulary["how"] != data.vocabulary.unknown


def test_without_glove_the_output_says_so(call, root, tmp_path) -> None:
    words = ("--root", root, "--model", "cnn", "--hidden", 2, "--epochs", 1, "--device", "cpu")
    status, out, _ = call(*words, "--out", tmp_path / "out")
    assert status == 0
    assert "with learned vectors (no GloVe file at hand; --vectors FILE names one)" in out


@pytest.mark.parametrize("readout", ["last", "mean"])
@pytest.mark.parametrize("model", [*models.MODELS, "rkm-lstm-1gram", "cnn-3gram"])
def test_a_text_has_the_same_scores_alone_and_among_longer_ones(model, readout) -> None:
    torch.manual_seed(0)
    config = TextModelConfig(model, 20, 6, False, 3, hidden=5, dropout=0.4, readout=readout)
    net = build_text_model(config).double().eval()
    texts = [torch.randint(20, (length,)) for length in (1, 9, 2, 30, 3)]

    def batch(chosen: list[torch.Tensor]) -> TextBatch:
        ptr = torch.tensor([0, *map(len, chosen)]).cumsum(0)
        return TextBatch(torch.cat(chosen), ptr, torch.zeros(len(chosen), dtype=torch.long))

    together = net(batch(texts))
    for text, scores in zip(texts, together, strict=True):
        torch.testing.assert_close(net(batch([text]))[0], scores, rtol=1e-10, atol=1e-12)
    # Nor do the other texts' gradients: those of the longest do not reach the shortest's word.
    net.zero_grad()
    alone = torch.tensor([19])
    others = [text.clamp(max=18) for text in texts[1:]]
    net(batch([alone, *others]))[1:].sum().backward()
    assert not net.embedding.weight.grad[19].any()


def test_cnn_is_the_maximum_over_windows() -> None:
    torch.manual_seed(0)
    config = TextModelConfig("cnn", 9, 4, False, 2, hidden=3)
    encoder = encoders.CNNEncoder(config).double()
    words = torch.randn(2, 4, dtype=torch.double)
    batch = TextBatch(torch.arange(2), torch.tensor([0, 2]), torch.zeros(1))
    expected = []
    for width, conv in zip((3, 4, 5), encoder.convs, strict=True):
        ends = torch.zeros(width - 1, 4, dtype=torch.double)
        padded = torch.cat([ends, words, ends])
        windows = [
            torch.einsum("hdw,wd->h", conv.weight, padded[i : i + width]) + conv.bias
            for i in range(2 + width - 1)
        ]
        expected.append(torch.stack(windows).amax(0).clamp(min=0))
    torch.testing.assert_close(encoder(words, batch)[0], torch.cat(expected), rtol=1e-10, atol=0)


@pytest.mark.parametrize(("encoder", "layer"), [("LSTMEncoder", "lstm"), ("RCNNEncoder", "rcnn")])
def test_recurrent_encoders_give_the_output_at_the_last_word(encoder, layer) -> None:
    torch.manual_seed(0)
    config = TextModelConfig(layer, 9, 4, False, 2, hidden=3)
    encoder = getattr(encoders, encoder)(config).double().eval()
    words = torch.randn(7, 4, dtype=torch.double)
    found = encoder(words, TextBatch(torch.arange(7), torch.tensor([0, 2, 6, 7]), torch.zeros(3)))
    for k, (start, end) in enumerate([(0, 2), (2, 6), (6, 7)]):
        expected = getattr(encoder, layer)(words[start:end])[0][-1]
        torch.testing.assert_close(found[k], expected, rtol=1e-10, atol=0)


def test_recurrent_kernel_machines_give_the_mean_over_words() -> None:
    torch.manual_seed(0)
    config = TextModelConfig("rkm-cifg-2gram", 9, 4, False, 2, hidden=3)
    net = build_text_model(config).double().eval()
    assert isinstance(net.encoder, encoders.RKMEncoder)
    words = torch.randn(7, 4, dtype=torch.double)
    found = net.encoder(
        words, TextBatch(torch.arange(7), torch.tensor([0, 2, 6, 7]), torch.ones(3))
    )
    (cell,) = net.encoder.rkm.cells
    for row, (start, end) in zip(found, [(0, 2), (2, 6), (6, 7)], strict=True):
        state, outputs = None, []
        for word in words[start:end]:
            state = cell(word, state)
            outputs.append(state.h)
        torch.testing.assert_close(row, torch.stack(outputs).mean(0), rtol=1e-10, atol=0)
    first, _, second = net.head
    expected = (found @ first.weight.T + first.bias).clamp(min=0) @ second.weight.T + second.bias
    torch.testing.assert_close(net.head(found), expected, rtol=1e-10, atol=1e-12)
    assert (first.weight.shape, second.weight.shape) == ((3, 3), (2, 3))
    assert isinstance(cell.norm, torch.nn.LayerNorm)


# Thousands of weights of 1-gram and 3-gram cells: table 2 of Liang et al. 2019, and of RAN, which
# it does not have, three filters and two maps of the output before.
PAPER = {
    "lstm": (720, 1440),
    "rkm-lstm": (720, 1440),
    "rkm-cifg": (540, 1080),
    "linear-gated": (360, 720),
    "linear": (180, 360),
    "gated-cnn": (180, 540),
    "cnn": (90, 270),
    "ran": (3 * 90 + 2 * 90, 3 * 270 + 2 * 90),
}


@pytest.mark.parametrize("cell", model_config.CELLS)
def test_cells_have_the_weights_of_the_paper(cell) -> None:
    for ngram, thousands in zip((1, 3), PAPER[cell], strict=True):
        config = TextModelConfig(f"{cell}-{ngram}gram", 9, 300, True, 2, hidden=300)
        with torch.device("meta"):
            encoder = build_text_model(config).encoder
        assert encoder.cell_parameters() == 1000 * thousands
        filters, recurrent = models.maps_of(cell)
        assert 300 * (filters * ngram * 300 + recurrent * 300) == 1000 * thousands


def test_names_of_cells() -> None:
    assert model_config.cell_of("rkm-lstm-12gram") == ("rkm-lstm", 12)
    for name in ("rkm-lstm", "rcnn-1gram", "lstm-0gram", "lstm-3grams", "general-1gram"):
        assert not model_config.is_cell(name)
        with pytest.raises(ValueError, match=f"'{name}' is not one of"):
            model_config.cell_of(name)
    with pytest.raises(ValueError, match="got 'rkm-lstm'"):
        build_text_model(TextModelConfig("rkm-lstm", 9, 3, True, 2, hidden=3))


def test_networks_get_about_the_same_number_of_parameters() -> None:
    config = TextModelConfig("rcnn", 50, 20, True, 6, hidden=1)
    for name in models.MODELS:
        fitted = models.fit_hidden_size(replace(config, name=name), 20_000)
        assert 19_000 < models.count_parameters(fitted) <= 20_000
        wider = replace(fitted, hidden=fitted.hidden + 1)
        assert models.count_parameters(wider) > 20_000
        learned = build_text_model(replace(fitted, fixed_embedding=False))
        assert sizes.num_parameters(learned) == models.count_parameters(fitted) + 50 * 20


def test_command_line_repeats_the_registries() -> None:
    assert tuple(models.MODELS) == names.MODELS
    assert tuple(CORPORA) == names.DATASETS
    assert (*names.ROOTS, "csv") == names.DATASETS
    assert set(names.ALIASES.values()) <= set(CORPORA)
    assert names.PARAMETERS == models.DEFAULT_PARAMETERS


@pytest.mark.parametrize("model", ["rcnn", "lstm", "cnn", "rkm-lstm"])
def test_resumed_run_equals_the_uninterrupted_one(compare, tmp_path, monkeypatch, model) -> None:
    words = ("--model", model, "--epochs", 5, "--lr", 0.02)
    assert compare(*words, "--out", tmp_path / "whole")[0] == 0
    raised = interrupt_once(
        monkeypatch,
        EpochHistory,
        "on_train_epoch_start",
        lambda self, trainer, module: trainer.current_epoch == 3,
    )
    status, _, err = compare(*words)
    assert (status, bool(raised)) == (130, True)
    assert "continue with the same command and --resume" in err
    assert compare(*words, "--resume")[0] == 0
    assert results(tmp_path / "out") == results(tmp_path / "whole")


@pytest.mark.parametrize("step", ["training_step", "predict_step"])
def test_a_request_to_end_is_heard_after_the_last_epoch_too(
    compare, tmp_path, monkeypatch, step
) -> None:
    """SIGTERM in a run's last epoch or in its predictions must not start the next model."""
    words = ("--model", "cnn", "lstm", "--epochs", 1, "--batch-size", 500)  # one batch
    assert compare(*words, "--out", tmp_path / "whole")[0] == 0
    original = getattr(TextClassifier, step)

    def ended(self: TextClassifier, batch: TextBatch, *args: int) -> torch.Tensor:
        assert callable(signal.getsignal(signal.SIGTERM))  # Lightning's; the default ends pytest
        os.kill(os.getpid(), signal.SIGTERM)
        return original(self, batch, *args)

    with monkeypatch.context() as patch:
        patch.setattr(TextClassifier, step, ended)
        status, _, err = compare(*words)
    assert (status, [path.name for path in (tmp_path / "out/runs").iterdir()]) == (
        130,
        ["cnn-seed0"],
    )
    assert "--resume" in err
    assert compare(*words, "--resume")[0] == 0
    assert results(tmp_path / "out") == results(tmp_path / "whole")


def test_results_are_neither_mixed_nor_lost(compare, root, tmp_path) -> None:
    words = ("--model", "cnn")
    assert compare(*words)[0] == 0
    status, _, err = compare(*words)
    assert (status, err.count("\n")) == (2, 1)
    assert "--resume" in err
    status, _, err = compare(*words, "--resume", "--lr", 0.5)
    assert (status, err.count("\n")) == (2, 1)
    assert "optimizer" in err
    assert compare("--model", "lstm", "--resume")[0] == 0
    records = json.loads((tmp_path / "out" / "metrics.json").read_text())
    assert [record["model"] for record in records] == ["cnn", "lstm"]
    with (root / "TREC_10.label").open("a") as file:
        file.write("NUM:a many how\n")
    status, _, err = compare(*words, "--resume")
    assert (status, err.count("\n")) == (2, 1)
    assert "151" in err
    assert compare(*words, "--overwrite")[0] == 0
    assert not (tmp_path / "out" / "runs" / "lstm-seed0").exists()


def test_divergence_is_one_line_and_status_1(compare, monkeypatch) -> None:
    step = TextClassifier.validation_step

    def not_a_number(self, batch, batch_idx):
        step(self, batch, batch_idx)
        self.valid_error.loss.fill_(float("inf"))

    monkeypatch.setattr(TextClassifier, "validation_step", not_a_number)
    status, out, err = compare("--model", "cnn")
    assert (status, out, err.count("\n")) == (1, "", 1)
    assert "cnn (seed 0): the validation error is nan after epoch 1" in err


BAD_INPUT = [
    ("unknown model", ("--models", "transformer"), "transformer"),
    ("unknown model in a list", ("--models", "lstm,gru"), "invalid choice: 'gru'"),
    ("no model after a comma", ("--models", "lstm,"), "invalid choice: ''"),
    ("no window", ("--ngram", "0,1"), "at least 1"),
    ("no number of words", ("--ngram", "1,x"), "at least 1"),
    ("rcnn with a width", ("--models", "rcnn", "--ngram", "2"), "rcnn does not go with --ngram"),
    ("rcnn and a cell", ("--models", "rcnn,ran"), "rcnn does not go with ran"),
    ("layers of cells", ("--models", "ran", "--layers", "2"), "--layers goes with"),
    ("decay of cells", ("--ngram", "2", "--decay", "0.5"), "--decays goes with rcnn"),
    ("decay of an lstm", ("--model", "lstm", "--decay", "0.5"), "--decays goes with rcnn"),
    ("readout of a cnn", ("--model", "cnn", "--readout", "mean"), "--readout goes with rcnn, lstm"),
    ("decay of one", ("--decays", "0.5", "1"), "must be a number from 0 to below 1, learned"),
    ("unknown preset", ("--preset", "lei2015"), "lei2015"),
    (
        "length of no vectors with a preset",
        ("--preset", "lei2017-sst", "--data", "trec", "--unit-norm", "--vectors", "none"),
        "--unit-norm goes with a file",
    ),
    ("phrases of questions", ("--phrases",), "--phrases goes with sst-fine and sst-binary"),
    ("length of no vectors", ("--unit-norm", "--vectors", "none"), "--unit-norm goes with a file"),
    ("vectors of two widths", ("--vectors", "WIDER"), "at line 2: it has more than 2 numbers"),
    ("bi-lstm and a cell", ("--models", "bi-lstm,ran"), "bi-lstm does not go with ran"),
    ("a root of one's own", ("--data", "TRAIN"), "--root goes with trec, "),
    ("unknown data", ("--data", "imdb"), "--root goes with"),
    ("columns of a corpus", ("--text-column", "a"), "go with your own file, not trec"),
    ("unknown option", ("--color", "red"), "--color"),
    ("no epochs", ("--epochs", "0"), "at least 1"),
    ("no width", ("--hidden", "0"), "at least 1"),
    ("negative rate", ("--lr", "-1"), "above 0"),
    ("dropout of all", ("--dropout", "1"), "below 1"),
    ("unknown device", ("--device", "tpu9"), "tpu9"),
    ("missing vectors", ("--vectors", "nowhere.txt"), "--vectors nowhere.txt: no such file"),
    ("size of given vectors", ("--embedding", "4", "--vectors", "GLOVE"), "--embedding goes with"),
    ("not vectors", ("--vectors", "TRAIN"), "is not in GloVe's text format"),
    ("factor without schedule", ("--lr-factor", "0.5"), "--lr-factor goes with"),
    ("resume and overwrite", ("--resume", "--overwrite"), "exclude"),
    ("seed of no split", ("--split-seed", "1", "--data", "sst-fine"), "--split-seed goes with"),
    ("two sizes", ("--hidden", "3", "--parameters", "9999"), "exclude"),
    ("too few parameters", ("--parameters", "3", "--models", "lstm"), "3 parameters"),
    ("too many parameters", ("--hidden", "65536", "--models", "lstm"), "parameters; at most"),
    ("no folder name", ("--out", ""), "--out: must not be empty"),
]


@pytest.mark.parametrize(
    ("words", "said"), [case[1:] for case in BAD_INPUT], ids=[case[0] for case in BAD_INPUT]
)
def test_bad_input_is_one_line_and_leaves_nothing(call, root, tmp_path, words, said) -> None:
    glove = write_glove(tmp_path / "vectors.txt", ["how", "many"])
    (root / "wider.txt").write_text("how 1 2\nmany 1 2 3\n")
    places = {
        "GLOVE": str(glove),
        "TRAIN": str(root / "train_5500.label"),
        "WIDER": str(root / "wider.txt"),
    }
    words = [places.get(word, word) for word in words]
    out = tmp_path / "out"
    status, output, err = call("--root", root, "--device", "cpu", "--out", out, *words)
    assert (status, output) == (2, "")
    assert err.startswith("benchmarks.text_classification: error: ")
    assert err.count("\n") == 1
    assert said in err
    assert sorted(path.name for path in tmp_path.iterdir()) == ["trec", "vectors.txt"]


def test_learned_word_vectors_count_towards_what_is_allowed(compare, tmp_path, monkeypatch) -> None:
    # Without word vectors: (3 + 4 + 5) * 40 * 2 + 6 in the windows, 6 * 2 + 2 in the head.
    monkeypatch.setattr(sizes, "MOST_PARAMETERS", 1000)
    status, out, err = compare("--model", "cnn", "--hidden", 2, "--embedding", 40)
    assert (status, out, err.count("\n")) == (2, "", 1)
    assert re.search(r"width 2 has 2,\d{3} parameters; at most 1,000 .*--embedding", err)
    assert not (tmp_path / "out").exists()


def test_texts_that_are_nowhere_are_one_line(call, tmp_path, monkeypatch) -> None:
    def urlopen(url: str, timeout: float) -> None:
        raise urllib.error.URLError("no route")

    monkeypatch.setattr(urllib.request, "urlopen", urlopen)
    status, out, err = call("--root", tmp_path / "data", "--out", tmp_path / "out")
    assert (status, out, err.count("\n")) == (2, "", 1)
    assert TREC.train_file.url in err
    assert f"put the file at {tmp_path / 'data' / 'raw' / 'train_5500.label'}" in err
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--data", "nowhere.csv"), "--data nowhere.csv: no such file, nor one of trec, "),
        (("--data", "BAD"), "line 2: the class must be"),
        (("--data", "BAD"), "needs the columns text and label, or --text-column"),
        (("--data", "BAD", "BAD", "BAD"), "not 3"),
        (("--data", "FOLDER"), "has no file train.csv"),
        (
            ("--data", "HEADER", "--label-column", "x"),
            "no column named 'x'; its columns",
        ),
        (("--data", "HEADER"), "all texts of .* have the class 'y' in column 'label'"),
        (("--data", "HEADER", "--encoding", "utf-16"), "it is not utf-16"),
    ],
)
def test_bad_texts_are_one_line(call, tmp_path, words, said) -> None:
    bad = tmp_path / "bad.csv"
    bad.write_text("1,text\nno class,text\n")
    header = tmp_path / "header.csv"
    header.write_text("text,label\nÜber,y\nb,y\n")
    places = {"BAD": bad, "FOLDER": tmp_path, "HEADER": header}
    words = [places.get(word, word) for word in words]
    status, output, err = call("--device", "cpu", "--out", tmp_path / "out", *words)
    assert (status, output, err.count("\n")) == (2, "", 1)
    assert re.search(said, err)
    assert {path.name for path in tmp_path.iterdir()} == {"bad.csv", "header.csv"}


def test_help_answers_without_torch() -> None:
    code = (
        "import sys; import benchmarks.text_classification;"
        "from benchmarks.harness.text.options import parser, predict_parser;"
        "parser().format_help(), predict_parser().format_help();"
        "sys.exit('torch' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code], cwd=ROOT).returncode == 0


def test_names_what_is_missing_without_lightning(root) -> None:
    code = (
        "import sys; sys.modules['lightning'] = None\n"
        "from benchmarks.text_classification import main\n"
        f"sys.exit(main(['--root', {str(root)!r}]))"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True)
    said = "error: lightning is not installed: pip install '.[bench]'\n"
    assert (done.returncode, done.stderr) == (2, f"benchmarks.text_classification: {said}")


def test_needs_no_rdkit(root, tmp_path) -> None:
    words = ["--root", str(root), "--models", "cnn", "--epochs", "1", "--hidden", "2", "--quiet"]
    code = (
        "import sys; sys.modules['rdkit'] = None\n"
        "from benchmarks.text_classification import main\n"
        f"sys.exit(main({[*words, '--device', 'cpu', '--out', str(tmp_path / 'out')]!r}))"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")
