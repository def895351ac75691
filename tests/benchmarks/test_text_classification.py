"""``python -m benchmarks.text_classification`` from end to end, on texts made here."""

import os
import random
import re
import signal
import sys
from functools import partial
from pathlib import Path
from typing import Any, get_args

import pandas
import pytest
import torch
from matplotlib.figure import Figure

from benchmarks.__main__ import main as show_any
from benchmarks.harness import sizes
from benchmarks.harness.errors import InputError
from benchmarks.harness.learner import OptimizerConfig
from benchmarks.harness.options import parse
from benchmarks.harness.text import models, options, prediction, report
from benchmarks.harness.text.data import CORPORA, load_texts
from benchmarks.harness.text.options import Texts
from benchmarks.harness.text.task import TextClassifier, TextTask, text_model_configs
from benchmarks.text_classification import COMMANDS, PROGRAM, TextClassification
from pyg_kernels.datasets.text import TextBatch, TextCorpus, TextCSV, TextTable
from tests.benchmarks import conftest, small_data
from tests.benchmarks.conftest import assert_refused, metrics_of, printed, table_of
from tests.benchmarks.small_data import write_file, write_glove

SMALL = ("--hidden", 5, "--embedding", 4, "--batch-size", 16, "--vectors", "none", "--epochs", 2)
SMALL += ("--quiet",)
LEARNING = ("--model", "cnn", "--hidden", 8, "--embedding", 8, "--epochs", 8, "--lr", 0.03)
LEARNING += ("--batch-size", 8, "--vectors", "none", "--device", "cpu")
OWN = ("--device", "cpu", "--epochs", 1, "--text-column", "body", "--label-column", "kind")
OWN += ("--data",)
OFFICIAL = "official test part, 10% of each class held out of training (seed 0)"
PRESET = "--preset lei2017-sst"


def parsed(words: str) -> TextClassification:
    return parse(PROGRAM, COMMANDS[""], words.split())


def names_of(options: TextClassification) -> list[str]:
    return [each["name"] for each in options.variants()]


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return small_data.write_trec(tmp_path / "trec")


@pytest.fixture
def compare(compare, root: Path):
    """Calls the command on questions of two classes."""
    return partial(compare, "--root", root)


def vectors_of(run: Path) -> torch.Tensor:
    checkpoint = torch.load(run / "best.ckpt", weights_only=True)
    return checkpoint["state_dict"]["net.embedding.weight"]


def test_compares_all_models_over_seeds(compare, root, tmp_path) -> None:
    out = printed(compare("--seeds", 0, 1))
    records, table = metrics_of(tmp_path / "out"), table_of(tmp_path / "out")
    names = [(name, seed) for name in ("rcnn", "lstm", "cnn") for seed in (0, 1)]
    assert [(r["model"], r["seed"]) for r in records] == names
    found = {(r["dataset"], r["metric"], r["epochs"], r["split"]) for r in records}
    assert found == {("trec", "accuracy", 2, OFFICIAL)}
    assert list(table) == ["model", "seed", "part", "row", "text", "label", "predicted"]
    for record, run in conftest.runs_of(tmp_path / "out", table):
        assert sorted(run["row"]) == list(range(150))
        assert run["part"].value_counts().to_dict() == {"train": 108, "valid": 12, "test": 30}
        right = (100.0 * (run["label"] == run["predicted"])).groupby(run["part"]).mean()
        for part in ("train", "valid", "test"):
            assert record[part] == pytest.approx(right[part])
    files = (root / name for name in ("train_5500.label", "TREC_10.label"))
    lines = "".join(file.read_text() for file in files).splitlines()
    for row, text, label in table[["row", "text", "label"]].head(150).itertuples(index=False):
        assert lines[row] == f"{label}:{'a' if label == 'NUM' else 'b'} {text}"
    assert "108 train, 12 valid, 30 test" in out and "with learned vectors" in out
    for text in (out, (tmp_path / "out" / "table.md").read_text()):
        for name in ("rcnn", "lstm", "cnn"):
            assert re.search(rf"{name} .* \d+\.\d\d ± \d+\.\d\d", text)
        assert len(re.findall(r"[-+]\d+\.\d\d to [-+]\d+\.\d\d", text)) == 2


def test_folds_of_own_texts_in_turn(call, tmp_path) -> None:
    """Each fold has its own words and n-grams; the table covers all folds."""
    small_data.write_own(tmp_path, 60)
    write_glove(tmp_path / "glove.txt", ["awful", "superb", "film", "w0", "w3"])
    words = (*OWN, tmp_path / "own.csv", "--hidden", 4, "--folds", 3, "--split-seed", 5, "--quiet")
    words = (*words, "--out", tmp_path / "out", "--model", "rcnn", "cnn")
    assert "over 3 folds and seed 0" in printed(call(*words))
    records, table = metrics_of(tmp_path / "out"), table_of(tmp_path / "out")
    assert [r["model"] for r in records] == ["rcnn"] * 3 + ["cnn"] * 3
    assert len({r["split"] for r in records}) == 3
    assert all("(seed 5)" in r["split"] for r in records)
    tested = table[(table["model"] == "rcnn") & (table["part"] == "test")]["row"]
    assert len(set(tested)) == len(tested) == 18
    assert list(table["fold"].unique()) == ["fold0", "fold1", "fold2"]
    for k in range(3):
        data = torch.load(tmp_path / "out" / f"runs/fold{k}-rcnn-seed0" / "best.ckpt")
        number = data["hyper_parameters"]["model"]["num_ngrams"]
        assert len(data["state_dict"]["net.counts.ngrams"]) == number > 0
    assert call(*words, "--resume")[0] == 0


def test_models_are_the_same_where_options_of_others_differ(call, tmp_path) -> None:
    out = tmp_path / "out"
    words = (*OWN, small_data.write_own(tmp_path, 40), "--hidden", 2, "--out", out)
    words = (*words, "--vectors", "none", "--counts", 0, "--models")
    assert "over seeds 0, 1\n" in printed(call(*words, "lstm", "--seeds", 0, 1))
    given = ("rcnn", "lstm", "--order", 1, "--decays", 0.5, "--resume")
    assert "seeds 0, 1; lstm: 0, 1; rcnn: 0" in printed(call(*words, *given))
    table = (out / "table.md").read_text()
    (out / "table.md").unlink()
    with pytest.raises(SystemExit) as ended:
        show_any(["report", str(out)])
    assert ended.value.code == 0 and (out / "table.md").read_text() == table
    for content in ('{"program": "os"}', '{"program": ""}', "{}", "[]", "{"):
        (tmp_path / "configuration.json").write_text(content)
        assert show_any(["report", str(tmp_path)]) == 2
    assert show_any(["report", str(out), str(tmp_path)]) == 2
    own = ("predict", "--checkpoint", out / "runs/rcnn-seed0", "--data", tmp_path / "own.csv")
    assert_refused(
        call(*own, "--out", tmp_path / "own.csv" / "new" / "p.csv"),
        "p.csv: not a file in a folder that can be written",
    )


def test_learns_the_order_of_words_and_has_cells_beside_networks(compare, tmp_path) -> None:
    words = ("--epochs", 8, "--lr", 0.1, "--dropout", 0, "--hidden", 12)
    printed(compare("--model", "rcnn", "cnn", *words))
    out = printed(compare("--model", "rkm-lstm", "--ngram", 2, *words, "--resume"))
    records = metrics_of(tmp_path / "out")
    for record in records:
        assert min(record["valid"], record["test"]) > 85
    weights = 12 * (4 * 2 * 4 + 4 * 12)
    keys = ("model", "cell", "ngram", "input_size", "hidden_size", "cell_parameters")
    assert [records[2][key] for key in keys] == ["rkm-lstm-2gram", "rkm-lstm", 2, 4, 12, weights]
    assert re.search(rf"\nrkm-lstm-2gram .* {weights} .*\n", out)
    assert re.search(r"\| cnn \| .* \| - \|", (tmp_path / "out" / "table.md").read_text())


def test_glove_is_found_beside_the_root_and_kept_as_it_is(call, root, tmp_path) -> None:
    known = ["how", "many", *[f"w{k}" for k in range(20)], "elsewhere"]
    (root / "TREC_10.label").write_text("NUM:a elsewhere nowhere many how w1\n")
    with (root / "train_5500.label").open("a") as file:
        file.write("NUM:a once many how\n")
    learned = load_texts(Texts(root=str(root)))
    assert learned.vectors is None
    unseen = {learned.vocabulary[word] for word in ("once", "nowhere", "elsewhere")}
    assert unseen == {learned.vocabulary.unknown} != {learned.vocabulary["how"]}
    glove = write_glove(tmp_path / "glove" / "glove.6d.txt", known)
    out, tuned = tmp_path / "out", tmp_path / "tuned"
    words = ("--root", root, "--model", "lstm", "--hidden", 5, "--epochs", 1, "--device", "cpu")
    said = printed(call(*words, "--out", out))
    assert "with fixed vectors of 6 numbers from glove.6d.txt" in said
    assert "lstm (seed 0): epoch 1/1, valid accuracy" in said
    data = load_texts(Texts(root=str(root)))
    assert data.file == glove
    assert "elsewhere" in data.vocabulary  # it is in no training text, but has a vector
    assert "nowhere" not in data.vocabulary
    assert torch.equal(vectors_of(out / "runs/lstm-seed0"), data.vectors.vectors)
    # A file that has moved can be named; other vectors are not accepted in its place.
    moved = glove.rename(tmp_path / "vectors.txt")
    resumed = (*words, "--out", out, "--resume", "--vectors")
    assert call(*resumed, moved)[0] == 0
    other = write_glove(tmp_path / "other.txt", [*known, "w25"])
    assert_refused(call(*resumed, other), "vectors")
    # On request, the vectors are trained too.
    words = (*words, "--model", "linear", "--vectors", moved, "--out", tuned)
    said = printed(call(*words, "--tune-vectors"))
    assert "with vectors to start from of 6 numbers from vectors.txt, trained" in said
    weight, place = vectors_of(tuned / "runs/linear-1gram-seed0"), data.vocabulary["many"]
    moved_by = (weight - data.vectors.vectors)[place].norm()
    assert 0 < moved_by < 0.5 * data.vectors.vectors[place].norm()
    assert_refused(call(*words, "--resume"), "--tune-vectors True, not False")


def test_names_of_models_folders_of_corpora_and_sizes(root, monkeypatch) -> None:
    for words, names in (
        ("", "rcnn lstm cnn"),
        ("--models cnn rcnn cnn", "cnn rcnn"),
        ("--model lstm ran", "lstm-1gram ran-1gram"),
        ("--model cnn --ngram 3 1 2", "cnn-3gram cnn-1gram cnn-2gram"),
        ("--ngram 2", " ".join(f"{cell}-2gram" for cell in options.CELLS)),
        ("--model bag-of-vectors bi-lstm", "bag-of-vectors bi-lstm"),
        ("--model rcnn lstm --layers 1 2", "rcnn-1layers rcnn-2layers lstm-1layers lstm-2layers"),
        ("--layers 3 --decays learned", "rcnn lstm cnn"),
    ):
        assert names_of(parsed(words)) == names.split()
    assert (parsed("--data sst").dataset, parsed("--data sst").folder) == ("sst-fine", "data/sst")
    assert parsed("--data ag_news").folder == "data/ag_news"
    assert {*options.MODELS, *options.CELLS} == set(get_args(options.ModelName))
    assert tuple(CORPORA) == (*options.ROOTS, options.OWN)
    # Cells have 300 units unless said otherwise.
    data = load_texts(Texts(root=str(root), vectors="none"))
    words = "--model gated-cnn --embedding 4"
    (paper,) = text_model_configs(parsed(words), data)
    assert (paper.hidden, paper.num_layers) == (300, 1)
    (fitted,) = text_model_configs(parsed(f"{words} --parameters 2000"), data)
    assert 1900 < models.count_parameters(fitted) <= 2000
    # Learned word vectors count; the rest has (3 + 4 + 5) * 40 * 2 + 6, and 6 * 2 + 2.
    monkeypatch.setattr(sizes, "MOST_PARAMETERS", 1000)
    with pytest.raises(InputError, match=r"width 2 has 2,\d{3} parameters; at most 1,000 "):
        text_model_configs(parsed("--model cnn --hidden 2 --embedding 40"), data)


def write_reviews(root: Path) -> Path:
    """Writes SST's files of sentences, whose first word tells the class, and of phrases."""
    generator = random.Random(2)
    marks = ("awful", "bad", "plain", "good", "superb")

    def lines(number: int) -> str:
        words = (f"{marks[k % 5]} w{generator.randrange(9)} film" for k in range(number))
        return "".join(f"{k % 5} {text}\n" for k, text in enumerate(words))

    for part, number in (("train", 60), ("dev", 15), ("test", 20)):
        write_file(root / f"stsa.fine.{part}", lines(number))
    phrases = "".join(f"{k % 5} {marks[k % 5]}\n" for k in range(10))
    write_file(root / "stsa.fine.phrases.train", lines(60) + phrases)
    write_glove(root / "glove.6d.txt", [*marks, "film", *[f"w{k}" for k in range(8)]])
    return root


def test_preset_of_the_thesis(tmp_path) -> None:
    """Its other models are about as large as its RCNN."""
    given = parsed(PRESET)
    names = "rcnn-decay-0.5 rcnn-decay-input rcnn-decay-recurrent lstm bi-lstm cnn bag-of-vectors"
    names = names.split()
    assert names_of(given) == names
    training = given.training()
    assert (training.epochs, training.patience) == (50, 16)
    assert training.optimizer == OptimizerConfig(0.001, "exponential", 0.95, 1e-6)
    assert (given.dataset, given.seeds, given.phrases) == ("sst-fine", (0, 1, 2, 3, 4), "auto")

    data = load_texts(Texts(data=("sst-fine",), root=str(write_reviews(tmp_path / "sst"))))
    configs = text_model_configs(given, data)
    assert [config.name for config in configs] == names
    sizes = {config.name: models.count_parameters(config) for config in configs}
    assert {c.name: c.hidden for c in configs if "rcnn" in c.name} == dict.fromkeys(names[:3], 200)
    settings = {(c.num_layers, c.readout, c.rcnn_readout, c.dropout) for c in configs}
    assert settings == {(3, "mean", "sum", 0.35)}
    for name in names[3:]:
        assert 0.97 * sizes["rcnn-decay-input"] < sizes[name] <= sizes["rcnn-decay-input"]
    narrow = text_model_configs(parsed(f"{PRESET} --hidden 7"), data)
    assert {config.hidden for config in narrow} == {7}
    several = text_model_configs(
        parsed(f"{PRESET} --models rcnn lstm --layers 1 2 --decays input"), data
    )
    sizes = {config.name: models.count_parameters(config) for config in several}
    for k in (1, 2):  # compared with an rcnn of as many layers
        largest = sizes[f"rcnn-{k}layers"]
        assert 0.97 * largest < sizes[f"lstm-{k}layers"] <= largest


def test_options_take_those_of_a_preset_back() -> None:
    words = f"{PRESET} --schedule cosine --models rcnn cnn --depths 1 2 --decay .30 0"
    with pytest.raises(InputError, match=r"--lr-factor goes with --schedule .* \(null takes"):
        parsed(words)
    with pytest.raises(InputError, match="--batch-size null: expected a value"):
        parsed(f"{words} --lr-factor null --batch-size null").training()
    given = parsed(f"{words} --lr-factor null --data {__file__}")
    assert (given.dataset, given.lr_factor) == ("csv", None)
    names = [f"rcnn-{n}layers-decay-{decay}" for n in (1, 2) for decay in ("0.3", "0")]
    assert names_of(given) == [*names, "cnn"]


def test_layers_and_decays_with_pictures_and_an_explanation(
    call, tmp_path, monkeypatch, drawn
) -> None:
    monkeypatch.setattr(report, "confusion_plot", lambda runs, data: Figure())  # takes longest
    root, out = write_reviews(tmp_path / "sst"), tmp_path / "out"
    words = ("--preset", "lei2017-sst", "--root", root, "--hidden", 4, "--epochs", 1, "--seed", 0)
    sweep = (*words, "--device", "cpu", "--out", out, "--models", "rcnn", "lstm", "--lr", 0.01)
    output = printed(call(*sweep, "--layers", 1, 2, "--decays", 0, 0.5))
    assert "official parts, training on phrases too: 70 train, 15 valid, 20 test" in output
    assert "fixed vectors of 6 numbers from glove.6d.txt scaled to length 1" in output
    data = load_texts(Texts(data=("sst-fine",), root=str(root), unit_norm=True, phrases="auto"))
    said = []
    for part, number in (("train", 190), ("valid", 45), ("test", 60)):
        count = sum(text.count("w8") for text in data.corpus.part(part))
        said.append(rf"{count} of {number} in {part} \(.*%\)")
    unknown = "Words of the texts that are without a vector in the file: "
    assert re.search(unknown + ", ".join(said), output)
    lengths = data.vectors.vectors.norm(dim=1)
    torch.testing.assert_close(lengths, data.vectors.found.float())
    found = {record["model"]: (record["layers"], record.get("decay")) for record in metrics_of(out)}
    rcnn = {f"rcnn-{n}layers-decay-{d:g}": (n, d) for n in (1, 2) for d in (0.0, 0.5)}
    assert found == rcnn | {f"lstm-{n}layers": (n, None) for n in (1, 2)}
    for name in ("accuracy_by_layers.png", "accuracy_by_decay.png"):
        assert (out / name).read_bytes().startswith(b"\x89PNG")
    checkpoint = out / "runs" / "rcnn-2layers-decay-0.5-seed0" / "best.ckpt"
    explained = ("predict", "--text", "A superb, w8 film", "bad", "--checkpoint", checkpoint)
    output = printed(call(*explained, "--explain", tmp_path / "new" / "folder"))
    assert "3 of 5 words are unknown: a, ,, w8" in output
    assert re.search(r"\nsuperb +[+-]\d\.\d\d +[+-]\d\.\d\d\n", output)


def test_own_table_from_training_to_predictions(call, tmp_path, monkeypatch) -> None:
    generator = random.Random(3)
    texts = [f"w{generator.randrange(9)}, {('sun', 'rain')[k % 2]}" for k in range(80)]
    rows = {"id": range(80), "body": texts, "kind": ("very good", "null") * 40}
    train, new = tmp_path / "train.csv.gz", tmp_path / "new.parquet"
    pandas.DataFrame(rows).to_csv(train, index=False, sep=";")
    texts = ["sun today", "", "Rain w1", None, "zzz qqq"]
    pandas.DataFrame({"body": texts, "n": range(5)}).to_parquet(new)
    columns = ("--text-column", "body", "--label-column", "kind")
    out, pages, file = tmp_path / "out", tmp_path / "explained", tmp_path / "p.csv"
    _, _, err = call("--data", train, *columns, *LEARNING, "--unit-norm", "--quiet", "--out", out)
    assert err == "--unit-norm: there are no word vectors, which it would scale\n"
    (record,) = metrics_of(out)
    assert record["test"] > 90
    predict = ("predict", "--checkpoint", out, "--text-column", "body", "--data")
    status, _, err = call(*predict, new, "--out", file, "--explain", pages, "--limit", 1)
    assert (status, err.count("\n")) == (0, 2)
    assert "2 of 5 texts have no words and no class: lines 2, 4" in err
    assert "1 of 5 texts has no known word: lines 5" in err
    table = pandas.read_csv(file, keep_default_na=False)
    scores = ["probability of null", "probability of very good"]
    assert list(table) == ["body", "n", "predicted", *scores]
    assert table["predicted"].tolist()[:4] == ["very good", "", "null", ""]
    sums = table[scores].replace("", "0").astype(float).sum(axis=1)
    assert sums.tolist() == pytest.approx([1, 0, 1, 0, 1])
    assert "sun today" in (pages / "explanation.md").read_text()
    assert "Rain" not in (pages / "explanation.md").read_text()
    assert (pages / "explanation.png").read_bytes().startswith(b"\x89PNG")
    # Reading one text at a time gives the same, also as Parquet.
    again = tmp_path / "new" / "p.parquet"
    assert call(*predict, new, "--out", again, "--batch-size", 1)[0] == 0
    whole = pandas.read_parquet(again)
    assert whole["predicted"].tolist() == table["predicted"].tolist()
    assert whole[scores[0]][0] == pytest.approx(float(table[scores[0]][0]), abs=1e-6)
    output = printed(call("predict", "--checkpoint", out, "--text", "sun", "rain rain"))
    assert re.search(r"sun +very good .*\nrain rain +null ", output)
    with monkeypatch.context() as short:
        short.setattr(prediction, "MOST_WORDS", 2)
        long = ("predict", "--checkpoint", out, "--text", "sun sun rain", "--explain")
        said = printed(call(*long, tmp_path / "long"))
    assert "texts explained as far as their first 2 words: 1" in said
    assert "rain" not in (tmp_path / "long" / "explanation.md").read_text()
    # Existing files and impossible outputs are refused before anything is written.
    assert_refused(call(*predict, new, "--out", file), "p.csv exists; --overwrite replaces it")
    into = ("--out", tmp_path / "q.csv", "--explain", file, "--overwrite")
    assert_refused(call(*predict, new, *into), "p.csv is a file: expected a folder")
    twice = write_file(tmp_path / "twice.csv", "body,n,n\nsun,1,2\n")
    refused = call(*predict, twice, "--out", tmp_path / "q.parquet")
    assert_refused(refused, "Parquet has no two columns named 'n'")
    blank = write_file(tmp_path / "blank.csv", "body,n\n ,1\n")
    assert "--explain: no text has words" in call(*predict, blank, "--explain", tmp_path / "r")[2]
    # Without pyarrow, one line of error comes before any work.
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    said = "pip install 'pyg_kernels[scale]'"
    assert_refused(call(*predict, new, "--out", file, "--overwrite"), said)
    assert_refused(call("--data", new, *columns, *LEARNING, "--out", tmp_path / "other"), said)


@pytest.mark.parametrize("name", ["ag_news.test.csv", "train.csv"])
def test_new_texts_are_read_as_those_of_the_corpus(tmp_path, name) -> None:
    """AG News and other files without a header write line breaks and escapes in their own ways."""
    texts = [rf"oil\nominee &lt;wins&gt; Smith #39;s C:\new {k}" for k in range(80)]
    rows = pandas.DataFrame({"class": [1 + k % 4 for k in range(80)], "text": texts})
    rows.to_csv(tmp_path / name, header=False, index=False)
    source: dict[str, Any] = {"data": (str(tmp_path / name),)}
    if name.startswith("ag_news"):
        source = {"data": ("ag_news",), "root": str(tmp_path)}
    data = load_texts(Texts(**source, vectors="none"))
    (config,) = text_model_configs(parsed("--model cnn --hidden 4 --embedding 4"), data)
    learner = TextTask(data).learner(config, OptimizerConfig())
    assert [learner.tokens(text) for text in texts] == data.corpus.texts


def test_own_texts_with_and_without_a_header_in_folders_or_named(call, tmp_path) -> None:
    rows = [(1 + k % 2, "Title", f'{("Sun", "Rain")[k % 2]} "today".') for k in range(80)]
    frame = pandas.DataFrame(rows, columns=["label", "title", "text"])
    bare, named = tmp_path / "bare", tmp_path / "named"
    for part, some in (("train", frame), ("test", frame[:20])):
        write_file(bare / f"{part}.csv", some.to_csv(header=False, index=False))
        write_file(named / f"{part}.csv.gz", some.to_csv(index=False))

    def corpus(*data: Path, **choice: Any) -> TextCorpus:
        return load_texts(Texts(data=tuple(map(str, data)), **choice)).corpus

    train, test = bare / "train.csv", bare / "test.csv"
    for data in ((bare,), (train, test)):
        assert (type(corpus(*data)), corpus(*data).split) == (TextCSV, OFFICIAL)
    drawn = "random 20% of each class of train.csv for testing (seed 3), 10%"
    assert corpus(train, split_seed=3).split.startswith(drawn)
    found = corpus(named, text_column=("title", "text"))
    assert (type(found), found.split) == (TextTable, OFFICIAL.replace("official", "given"))
    assert (found.texts[0][0], corpus(named).texts[0][0]) == ("title", "sun")

    words = (*SMALL, "--model", "cnn", "--device", "cpu", "--out", tmp_path / "out")
    out = printed(call("--data", train, test, *words))
    assert f"csv: 100 texts of 2 classes, {OFFICIAL}: " in out
    moved = train.rename(bare / "moved.csv")
    assert call("--data", moved, test, "--resume", *words)[0] == 0


def test_a_request_to_end_is_heard_after_the_last_epoch_too(compare, tmp_path, monkeypatch) -> None:
    """SIGTERM in a run's predictions must not start the next model."""
    words = ("--model", "cnn", "lstm", "--epochs", 1, "--batch-size", 500)  # one batch
    assert compare(*words, "--out", tmp_path / "whole")[0] == 0
    original = TextClassifier.predict_step

    def ended(self: TextClassifier, batch: TextBatch, *args: int) -> torch.Tensor:
        assert callable(signal.getsignal(signal.SIGTERM))  # Lightning's; the default ends pytest
        os.kill(os.getpid(), signal.SIGTERM)
        return original(self, batch, *args)

    with monkeypatch.context() as patch:
        patch.setattr(TextClassifier, "predict_step", ended)
        status, _, err = compare(*words)
    assert status == 130 and "--resume" in err
    assert [path.name for path in (tmp_path / "out/runs").iterdir()] == ["cnn-seed0"]
    assert compare(*words, "--resume")[0] == 0
    assert conftest.outcome(tmp_path / "out") == conftest.outcome(tmp_path / "whole")
