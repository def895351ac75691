"""``python -m benchmarks.rationales`` from end to end, on texts made here."""

import gzip
import json
import random
import re
import subprocess
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch

pytest.importorskip("lightning", reason="the benchmark needs the extra 'bench'")
pytest.importorskip("bm25s", reason="the benchmark needs the extra 'bench'")

import pandas

from benchmarks.corpora.planted_evidence import PlantedEvidence
from benchmarks.harness.progress import EpochHistory
from benchmarks.harness.rationale import ranking_report, report
from benchmarks.harness.rationale.learner import RationaleLearner
from benchmarks.harness.rationale.names import COHERENCE, DATASETS, MODELS_OF, RATE
from benchmarks.harness.rationale.spans import read_spans
from benchmarks.rationales import main
from tests.benchmarks.askubuntu_format import write_questions as write_forum
from tests.benchmarks.interruption import interrupt_once, results

KEYS = [
    *("dataset", "split", "model", "seed", "num_parameters", "metric", "train", "valid", "test"),
    *("train_full", "valid_full", "test_full", "train_rest", "valid_rest", "test_rest"),
]
ROOT = Path(__file__).parents[2]


def write_planted(root: Path, polar: int = 40, questions: int = 60) -> Path:
    """Sentences whose polarity is one word, and questions of other words."""
    generator = random.Random(0)

    def words(letter: str, number: int) -> str:
        return " ".join(f"{letter}{generator.randrange(12)}" for _ in range(number))

    for folder in ("mr", "trec"):
        (root / folder).mkdir(parents=True)
    for name, word in (("neg", "awful"), ("pos", "lovely")):
        lines = [f"{words('m', 1)} {word} {words('m', 1)} no{k}" for k in range(polar)]
        (root / "mr" / f"rt-polarity.{name}").write_text("\n".join(lines) + "\n")
    for name, number in (("train_5500.label", questions), ("TREC_10.label", questions // 3)):
        lines = [f"NUM:a what {words('q', 2)} {name[:4].lower()}{k} ?" for k in range(number)]
        (root / "trec" / name).write_text("\n".join(lines) + "\n")
    return root


def write_beer(root: Path) -> Path:
    """Reviews that rate the look by one word; the annotation is that word."""
    root.mkdir()
    generator = random.Random(0)

    def review() -> tuple[list[str], list[float], int]:
        rating = generator.random()
        text = [f"w{generator.randrange(9)}" for _ in range(6)]
        place = generator.randrange(6)
        text[place] = "clear" if rating > 0.5 else "murky"
        return text, [rating, *(generator.random() for _ in range(4))], place

    for name, number in (("train", 40), ("heldout", 12)):
        lines = []
        for _ in range(number):
            text, ratings, _ = review()
            lines.append(f"{' '.join(f'{rating:.2f}' for rating in ratings)}\t{' '.join(text)}\n")
        file = root / f"reviews.aspect0.{name}.txt.gz"
        file.write_bytes(gzip.compress("".join(lines).encode()))
    lines = []
    for _ in range(9):
        text, ratings, place = review()
        spans: dict[str, Any] = {str(k): [] for k in range(5)}
        record = {"x": text, "y": ratings, **spans, "0": [[place, place + 1]]}
        lines.append(json.dumps(record) + "\n")
    (root / "annotations.json").write_text("".join(lines))
    return root


@pytest.fixture(autouse=True)
def _pictures_are_not_drawn(request, monkeypatch) -> None:
    """But for one test that looks at them: they take longer than the small models."""
    if "over_seeds" not in request.node.name:
        for module in (report, ranking_report):
            monkeypatch.setattr(module, "png", lambda figure: b"")


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return write_planted(tmp_path / "data")


@pytest.fixture
def call(call_main) -> Callable[..., tuple[int, str, str]]:
    return partial(call_main, main)


@pytest.fixture
def compare(call, tmp_path: Path) -> Callable[..., tuple[int, str, str]]:
    """Trains small models for 1 epoch into ``out`` unless the words say otherwise."""

    def run(*words: object) -> tuple[int, str, str]:
        small = ("--device", "cpu", "--hidden", 4, "--epochs", 1, "--samples", 2, "--quiet")
        return call(*small, "--out", tmp_path / "out", *words)

    return run


@pytest.fixture
def planted(compare, root: Path) -> Callable[..., tuple[int, str, str]]:
    """The same on planted evidence, two questions a document."""
    words = ("--root", root, "--vectors", "none", "--embedding", 4, "--questions", 2, 2)
    return lambda *more: compare(*words, "--batch-size", 16, *more)


def records_of(out: Path) -> list[dict[str, Any]]:
    return json.loads((out / "metrics.json").read_text())


def test_compares_all_models_over_seeds(planted, root, tmp_path) -> None:
    status, text, err = planted("--seeds", 0, 1, "--rate", 0.2)
    assert (status, err) == (0, "")
    out = tmp_path / "out"
    records = records_of(out)
    names = [(r["model"], r["seed"]) for r in records]
    kinds = ("dependent", "independent", "attention", "svm", "full")
    assert names == [
        (kind, seed) for kind in kinds for seed in (0, 1) if (kind, seed) != ("svm", 1)
    ]
    table = pandas.read_csv(out / "predictions.csv", keep_default_na=False)
    corpus = PlantedEvidence(root / "mr", root / "trec", questions=(2, 2))
    for record in records:
        assert list(record)[: len(KEYS)] == KEYS
        assert (record["dataset"], record["metric"]) == ("planted", "error_rate")
        run = table[(table["model"] == record["model"]) & (table["seed"] == record["seed"])]
        assert sorted(run["row"]) == list(range(80))
        for part, places in corpus.parts.items():
            rows = run[run["part"] == part]
            assert rows["row"].tolist() == places.tolist()
            assert rows["text"].tolist() == [" ".join(words) for words in corpus.part(part)]
            for key, column in (
                (part, "predicted"),
                *((f"{part}_{k}", k) for k in ("full", "rest")),
            ):
                assert record[key] == pytest.approx(100 * (rows["label"] != rows[column]).mean())
        rows = run[run["part"] == "test"]
        right = selected = words = 0
        for place, spans in rows[["row", "selection"]].itertuples(index=False):
            chosen = read_spans(spans, len(corpus.texts[place]))
            right += int((chosen & corpus.evidence[place]).sum())
            selected, words = selected + int(chosen.sum()), words + len(chosen)
        assert record["test_share"] == pytest.approx(100 * selected / words)
        assert ("test_precision" in record) == (selected > 0)
        if selected:
            assert record["test_precision"] == pytest.approx(100 * right / selected)
    for kind in kinds:
        assert re.search(rf"^{kind} +[\d,]+ ", text, re.MULTILINE)
        assert f"| {kind} |" in (out / "table.md").read_text()
    assert text.count("\nindependent") == 2  # its own table, and as read by the full network
    for name in ("learning_curves.png", "precision_by_share.png", "error_by_share.png"):
        assert (out / name).read_bytes().startswith(b"\x89PNG")
    html = (out / "rationales.html").read_text()
    assert "<mark>" in html
    assert "<u>" in html
    assert "attention (seed 0): " in html
    assert "full (seed" not in html


def test_words_with_the_largest_weights_are_the_rationale(planted, tmp_path) -> None:
    status, _, err = planted("--models", "attention", "svm", "--rate", 0.25)
    assert (status, err) == (0, "")
    table = pandas.read_csv(tmp_path / "out" / "predictions.csv", keep_default_na=False)
    for text, spans in table[["text", "selection"]].itertuples(index=False):
        length = len(text.split())
        assert int(read_spans(spans, length).sum()) == max(1, int(0.25 * length + 0.5))
    attention, svm = records_of(tmp_path / "out")
    for record in (attention, svm):
        assert record["rate"] == 0.25
        assert {"precision@0.02", "precision@0.1", "precision@0.4"} <= set(record)
    assert svm["test_precision"] > 20
    assert svm["test"] == svm["test_full"] == 0  # one word says it
    assert svm["test_rest"] > 0


def test_learns_which_word_says_it(planted, tmp_path) -> None:
    words = ("--models", "independent", "--rate", 0.2, "--epochs", 20, "--lr", 0.03)
    status, _, err = planted(*words, "--dropout", 0, "--samples", 4, "--hidden", 8)
    assert (status, err) == (0, "")
    (record,) = records_of(tmp_path / "out")
    assert record["test"] <= 10
    assert record["test_precision"] > 80
    assert record["test_share"] < 25
    assert (record["estimator"], record["rate"]) == ("reinforce", 0.2)
    assert isinstance(record["sparsity"], float)


def test_a_model_for_each_share(planted, tmp_path) -> None:
    words = ("--models", "independent", "full", "--rates", 0.1, 0.3, 0.1)
    assert planted(*words)[0] == 0
    records = records_of(tmp_path / "out")
    names = ["independent-rate-0.1", "independent-rate-0.3", "full"]
    assert [record["model"] for record in records] == names
    assert [record.get("rate") for record in records] == [0.1, 0.3, None]
    assert planted(*words, "--resume")[0] == 0


def test_a_price_in_place_of_a_share(planted, tmp_path) -> None:
    assert planted("--models", "independent", "--sparsity", 0.01, 1.5)[0] == 0
    records = records_of(tmp_path / "out")
    names = ["independent-sparsity-0.01", "independent-sparsity-1.5"]
    assert [record["model"] for record in records] == names
    assert [record["sparsity"] for record in records] == [0.01, 1.5]
    assert [record["rate"] for record in records] == [None, None]


@pytest.mark.parametrize("kind", ["dependent", "independent"])
@pytest.mark.parametrize("estimator", ["gumbel", "hardkuma"])
def test_relaxed_estimators(planted, tmp_path, kind, estimator) -> None:
    status, _, err = planted("--models", kind, "--estimator", estimator)
    assert (status, err) == (0, "")
    (record,) = records_of(tmp_path / "out")
    assert record["estimator"] == estimator


@pytest.mark.parametrize("kind", ["dependent", "attention"])
def test_a_resumed_run_is_the_uninterrupted_one(planted, tmp_path, monkeypatch, kind) -> None:
    words = ("--models", kind, "--epochs", 3, "--seeds", 0)
    assert planted(*words, "--out", tmp_path / "whole")[0] == 0
    raised = interrupt_once(
        monkeypatch,
        RationaleLearner,
        "training_step",
        lambda learner, *_: learner.current_epoch == 2,
    )
    status, _, err = planted(*words)
    assert (status, len(raised)) == (130, 1)
    assert "--resume" in err
    assert planted(*words, "--resume")[0] == 0
    assert results(tmp_path / "out") == results(tmp_path / "whole")


def test_a_run_added_later_is_read_by_the_full_network(planted, tmp_path) -> None:
    assert planted("--models", "full")[0] == 0
    status, text, _ = planted("--models", "svm", "--resume", "--seeds", 3)
    assert status == 0
    assert "which has learned from whole texts" in text


def test_ratings_of_beer(compare, tmp_path) -> None:
    root = write_beer(tmp_path / "beer")
    words = ("--data", "beer", "--root", root, "--vectors", "none", "--batch-size", 8)
    models = ("dependent", "attention", "svm")
    status, text, err = compare(*words, "--embedding", 3, "--models", *models)
    assert (status, err) == (0, "")
    records = records_of(tmp_path / "out")
    assert [record["model"] for record in records] == list(models)
    table = pandas.read_csv(tmp_path / "out" / "predictions.csv", keep_default_na=False)
    for record in records:
        assert record["metric"] == "MSE"
        rows = table[(table["model"] == record["model"]) & (table["part"] == "test")]
        error = ((rows["y"] - rows["prediction"]) ** 2).mean()
        assert record["test"] == pytest.approx(error, rel=1e-5)
    assert "16.7% of the words of the test part say it" in text
    run = json.loads((tmp_path / "out" / "runs" / "attention-seed0" / "record.json").read_text())
    assert "precision" in run["history"][0]


@pytest.mark.parametrize("dataset", ["molecules", "chembl"])
def test_molecules(compare, tmp_path, dataset) -> None:
    pytest.importorskip("rdkit", reason="molecules need the extra 'mol'")
    words = ("--data", dataset, "--layers", 1, "--batch-size", 512, "--samples", 1)
    status, text, err = compare(*words, "--models", "independent", "--sparsity", 0)
    assert (status, err) == (0, "")
    (record,) = records_of(tmp_path / "out")
    assert (record["kind"], record["metric"]) == ("independent", "MSE")
    assert ("test_precision" in record) == (dataset == "molecules" and record["test_share"] > 0)
    html = (tmp_path / "out" / "rationales.html").read_text()
    assert html.count("<svg") == 20
    assert (tmp_path / "out" / "rationales.png").exists()
    assert ("Atoms that say it" in html) == (dataset == "molecules")
    assert ("is not known" in text) == (dataset == "chembl")


def test_questions_by_words_of_their_bodies(compare, tmp_path) -> None:
    root = write_forum(tmp_path / "askubuntu")
    words = ("--data", "askubuntu", "--root", root, "--vectors", "none", "--embedding", 3)
    status, text, err = compare(*words, "--negatives", 3, "--rate", 0.4)
    assert (status, err) == (0, "")
    records = records_of(tmp_path / "out")
    names = ["dependent", "independent", "full", "title"]
    assert [record["model"] for record in records] == names
    assert [record["fields"] for record in records] == ["body", "body", "body", "title"]
    *_, full, title = (record["test_share"] for record in records)
    assert full + title == pytest.approx(100)
    assert "full (body)" in text
    assert "title (title)" in text
    table = pandas.read_csv(tmp_path / "out" / "predictions.csv", dtype={"query": str})
    rows = table[(table["model"] == "title") & (table["part"] == "test")]
    assert len(rows) == 6 * 8
    lines = (root / "text_tokenized.txt").read_text().splitlines()
    lengths = {line.split("\t")[0]: len(line.split("\t")[1].split()) for line in lines}
    for query, spans in rows[["query", "query_selection"]].itertuples(index=False):
        assert spans == f"0:{lengths[query]}"
    assert (tmp_path / "out" / "rationales.html").read_text().count("<section>") == 6


def test_resumed_ranking(compare, tmp_path, monkeypatch) -> None:
    root = write_forum(tmp_path / "askubuntu", bodies=False)
    words = ("--data", "askubuntu", "--root", root, "--vectors", "none", "--models")
    words = (*words, "independent", "--embedding", 3, "--negatives", 2, "--epochs", 3)
    words = (*words, "--estimator", "reinforce")
    assert compare(*words, "--out", tmp_path / "whole")[0] == 0
    interrupt_once(
        monkeypatch,
        EpochHistory,
        "on_train_epoch_start",
        lambda history, trainer, _: trainer.current_epoch == 2,
    )
    assert compare(*words)[0] == 130
    assert compare(*words, "--resume")[0] == 0
    assert results(tmp_path / "out") == results(tmp_path / "whole")
    assert records_of(tmp_path / "out")[0]["fields"] == "title"  # there are no bodies


BAD = {
    "no such model": ("--models", "title", "planted has dependent"),
    "atoms without order": ("--data", "molecules", "--models", "dependent", "no order"),
    "rate and price": ("--rate", 0.1, "--sparsity", 0.1, "exclude each other"),
    "rate of all": ("--rate", 1, "above 0 and below 1"),
    "negative price": ("--sparsity", -1, "at least 0"),
    "relaxed atoms": ("--data", "chembl", "--estimator", "gumbel", "--estimator goes with"),
    "smarts of texts": ("--smarts", "cF", "--smarts goes with --data molecules"),
    "aspect of films": ("--aspect", "smell", "--aspect goes with --data beer"),
    "margin of texts": ("--margin", 1, "--margin goes with --data askubuntu, msrp"),
    "questions of beer": ("--data", "beer", "--questions", 1, 2, "goes with --data planted"),
    "falling numbers": ("--questions", 3, 2, "must not be larger"),
    "temperature": ("--temperature", 2, "--temperature goes with --estimator gumbel"),
    "temperature of all": (
        "--data",
        "msrp",
        "--models",
        "full",
        "--temperature",
        2,
        "dependent",
    ),
    "anneal a price": ("--anneal", 0.1, "--sparsity", 1, "--anneal goes with --rate"),
    "no selection": ("--models", "svm", "--coherence", 1, "dependent or independent"),
    "warm-up of all": ("--warm-up", 1, "below 1"),
    "never short": ("--warm-up", 0.5, "--anneal", 0.6, "at most 1"),
    "nothing to warm up for": ("--models", "svm", "--warm-up", 0.1, "--warm-up goes with"),
    "root of chembl": ("--data", "chembl", "--root", "x", "inside RDKit"),
    "unknown": ("--wrong", "unrecognized arguments"),
    "no glove": ("--vectors", "nowhere.txt", "nowhere.txt: no such file"),
    "no beer": ("--data", "beer", "--root", "nowhere", "nowhere"),
    "bad smarts": ("--data", "molecules", "--smarts", "((", "SMARTS"),
    "absent group": ("--data", "molecules", "--smarts", "[U]", "[U]"),
}


@pytest.mark.parametrize("words", BAD.values(), ids=BAD)
def test_bad_input_is_said_in_one_line(compare, words, tmp_path) -> None:
    *words, reason = words
    if "smarts" in str(reason).lower() or "[U]" in str(reason):
        pytest.importorskip("rdkit", reason="molecules need the extra 'mol'")
    status, text, err = compare(*words)
    assert (status, text) == (2, "")
    assert err.startswith("benchmarks.rationales: error: ")
    assert err.count("\n") == 1
    assert str(reason) in err
    assert not (tmp_path / "out").exists()


def test_other_rationales_are_not_resumed(planted, tmp_path) -> None:
    assert planted("--models", "independent", "--rate", 0.2)[0] == 0
    status, _, err = planted("--models", "independent", "--rate", 0.3, "--resume")
    assert status == 2
    assert "other options" in err


def test_help_needs_no_torch() -> None:
    code = "import sys; from benchmarks.rationales import main\n"
    code += "try: main(['--help'])\nfinally: assert 'torch' not in sys.modules"
    ran = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, cwd=ROOT, check=False
    )
    assert (ran.returncode, ran.stderr) == (0, "")
    assert "--rates" in ran.stdout


def test_every_data_set_has_defaults() -> None:
    assert set(RATE) == set(COHERENCE) == set(MODELS_OF) == set(DATASETS)
    assert torch.tensor(list(RATE.values())).lt(1).all()


def own_rows(number: int) -> list[dict[str, object]]:
    """Texts whose class one of their words says."""
    generator = random.Random(4)
    rows = []
    for k in range(number):
        words = [f"w{generator.randrange(9)}" for _ in range(6)]
        words.insert(generator.randrange(6), mark := ("awful film", "superb film")[k % 2])
        rows.append({"body": " ".join(words), "kind": "nc"[k % 2], "why": mark, "stars": k / 8})
    return rows


def test_own_texts_from_training_to_explanations(call, tmp_path) -> None:
    file = tmp_path / "own.csv"
    pandas.DataFrame(own_rows(120)).to_csv(file, index=False)
    columns = ("--text-column", "body", "--target-column", "kind")
    small = ("--hidden", 8, "--embedding", 8, "--epochs", 2, "--device", "cpu", "--vectors", "none")
    words = (*small, "--models", "independent", "--rate", 0.3, "--quiet", "--out", tmp_path / "out")
    status, _, err = call("--data", file, *columns, "--evidence-column", "why", *words)
    assert (status, err) == (0, "")
    (record,) = json.loads((tmp_path / "out" / "metrics.json").read_text())
    assert (record["dataset"], record["metric"]) == ("texts", "error_rate")
    assert "test_precision" in record or record["test_share"] == 0

    new = tmp_path / "new.parquet"
    texts = ["a superb film", "", "w1 awful film w2"]
    pandas.DataFrame({"body": texts, "n": range(3)}).to_parquet(new)
    explain = ("explain", "--checkpoint", tmp_path / "out", "--data", new, "--text-column", "body")
    status, _, err = call(*explain, "--out", tmp_path / "explained")
    assert (status, err.count("\n")) == (0, 1)
    assert "1 of 3 texts have no words and no rationale: 2" in err
    table = pandas.read_csv(tmp_path / "explained" / "rationales.csv", keep_default_na=False)
    assert list(table) == ["body", "n", "predicted", "full", "rest", "selection", "words"]
    assert table["n"].tolist() == [0, 1, 2]
    assert table.loc[1, "predicted"] == table.loc[1, "words"] == ""
    table = table.drop(index=1)
    assert set(table["predicted"]) | set(table["full"]) <= {"n", "c"}
    for body, selection, chosen in table[["body", "selection", "words"]].itertuples(index=False):
        words = body.split()
        marks = read_spans(selection, len(words)).tolist()
        assert chosen == " ".join(w for w, mark in zip(words, marks, strict=True) if mark)
    page = (tmp_path / "explained" / "rationales.html").read_text()
    assert re.sub("</?mark>", "", page).count("awful film") == 1
    assert "--overwrite replaces it" in call(*explain, "--out", tmp_path / "explained")[2]
    taken = tmp_path / "taken.csv"
    taken.write_text("body,full\na film,1\n")
    words = ("explain", "--checkpoint", tmp_path / "out", "--data", taken, "--text-column", "body")
    assert "has a column 'full' already" in call(*words, "--out", tmp_path / "no")[2]
    again = (*explain, "--out", tmp_path / "again", "--batch-size", 1)
    assert call(*again)[0] == 0
    assert (tmp_path / "again" / "rationales.csv").read_text() == (
        tmp_path / "explained" / "rationales.csv"
    ).read_text()


def test_own_numbers(call, tmp_path) -> None:
    file = tmp_path / "own.csv"
    pandas.DataFrame(own_rows(60)).to_csv(file, index=False)
    small = ("--hidden", 4, "--embedding", 4, "--epochs", 1, "--device", "cpu", "--vectors", "none")
    columns = ("--text-column", "body", "--target-column", "stars")
    words = (*small, "--models", "full", "--quiet", "--out", tmp_path / "out")
    assert call("--data", file, *columns, *words)[0] == 0
    (record,) = json.loads((tmp_path / "out" / "metrics.json").read_text())
    assert record["metric"] == "MSE"
    assert record["split"].startswith("random 20% for testing (seed 0), 10% held out")


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--data", "nowhere.csv"), "--data nowhere.csv: no such file, nor one of planted, beer"),
        (("--data", "OWN"), "has no column 'text'"),
        (("--data", "OWN", "--text-column", "a", "--target-column", "c"), "row 2 .* has no target"),
        (
            ("--data", "OWN", "--text-column", "a", "--target-column", "b", "--task", "regression"),
            "could not convert string to float: 'x'",
        ),
        (
            (
                *("--data", "OWN", "--text-column", "a", "--target-column", "b"),
                *("--evidence-column", "c"),
            ),
            "row 1 of .*: its text does not have the words 'far'",
        ),
        (("--data", "OWN", "--root", "x"), "--root goes with planted, beer, "),
        (("--evidence-column", "c"), "--evidence-column goes with your own file, not planted"),
        (("explain", "--checkpoint", "x", "--data", "y"), "required: --out"),
        (("explain", "--checkpoint", "x", "--data", "y", "--out", "z"), "x: no such file"),
    ],
)
def test_bad_texts_of_one_s_own_are_one_line(call, tmp_path, words, said) -> None:
    (tmp_path / "own.csv").write_text("a,b,c\nnear,x,far\nb,y,\n")
    words = [tmp_path / "own.csv" if word == "OWN" else word for word in words]
    status, out, err = call(*words)
    assert (status, out, err.count("\n")) == (2, "", 1)
    assert re.search(said, err)
