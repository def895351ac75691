"""``python -m benchmarks.rationales`` from end to end, on texts made here.

What every command promises is in ``test_commands.py``.
"""

import re
from functools import partial
from itertools import product
from pathlib import Path

import pandas
import pytest

from benchmarks.rationales import report
from benchmarks.rationales.selections import read_spans
from pyg_kernels import datasets
from tests.benchmarks.conftest import assert_refused, done, metrics_of, printed, runs_of, table_of
from tests.benchmarks.small_data import write_askubuntu, write_beer, write_own

PROGRAM = "benchmarks.rationales"
COLUMNS = ("--text-column", "body", "--target-column", "kind", "--evidence-column", "why")
SMALL = ("--vectors", "none", "--embedding", 8, "--samples", 2, "--quiet", "--hidden", 4)
SMALL += ("--epochs", 1)


@pytest.fixture
def own(compare, tmp_path: Path):
    """The same on own texts."""
    return partial(compare, "--data", write_own(tmp_path), *COLUMNS, "--batch-size", 16)


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Own texts, and in ``out`` the results of all models with two seeds."""
    folder = tmp_path_factory.mktemp("whole")
    words = (*SMALL, "--data", write_own(folder, 80), *COLUMNS, "--batch-size", 16, "--rate", 0.3)
    done(PROGRAM, *words, "--device", "cpu", "--seeds", 0, 1, "--out", folder / "out")
    return folder


def test_compares_all_models_over_seeds(whole: Path) -> None:
    out, rows = whole / "out", pandas.read_csv(whole / "own.csv", keep_default_na=False)
    records, table = metrics_of(out), table_of(out, keep_default_na=False)
    kinds = ("dependent", "independent", "attention", "svm", "full")
    names = [(kind, seed) for kind in kinds for seed in (0, 1) if (kind, seed) != ("svm", 1)]
    assert [(r["model"], r["seed"]) for r in records] == names
    for record, run in runs_of(out, table):
        assert sorted(run["row"]) == list(range(len(rows)))
        assert (run["text"] == rows["body"].iloc[run["row"]].to_numpy()).all()
        for part in ("train", "valid", "test"):
            some = run[run["part"] == part]
            for key, column in ((part, "predicted"), (f"{part}_full", "full")):
                assert record[key] == pytest.approx(100 * (some["label"] != some[column]).mean())
        right = selected = known = words = 0
        tested = run[run["part"] == "test"]
        for place, spans in tested[["row", "selection"]].itertuples(index=False):
            tokens = rows["body"][place].split()
            chosen = {k for k, c in enumerate(read_spans(spans, len(tokens)).tolist()) if c}
            words, selected = words + len(tokens), selected + len(chosen)
            if rows["why"][place]:  # precision is that of the texts whose evidence is known
                known += len(chosen)
                right += sum(tokens[k] in ("awful", "superb", "film") for k in chosen)
        assert record["test_share"] == pytest.approx(100 * selected / words)
        precision = pytest.approx(100 * right / known) if known else None
        assert record.get("test_precision") == precision
    text = (out / "table.md").read_text()
    for kind in kinds:
        assert re.search(rf"^\| {kind} \| [\d,]+ ", text, re.MULTILINE)
    assert re.search(r"of the words selected of the 1\d texts with evidence", text)
    assert text.count("\n| independent ") == 2  # its own table, and as read by the full network
    html = (out / "rationales.html").read_text()
    assert {"<mark>", "<u>"} <= set(re.findall(r"<\w+>", html))
    assert "attention (seed 0): " in html and "full (seed" not in html
    svm = next(record for record in records if record["model"] == "svm")
    assert svm["test"] == svm["test_full"] == 0 < svm["test_rest"]  # one word says it
    assert {"precision@0.02", "precision@0.4"} <= set(svm)


def test_learns_which_word_says_it(own, tmp_path: Path) -> None:
    words = ("--models", "independent", "--rate", 0.2, "--epochs", 14, "--lr", 0.03)
    assert own(*words, "--dropout", 0, "--samples", 4, "--hidden", 8)[0] == 0
    (record,) = metrics_of(tmp_path / "out")
    assert record["test"] <= 10 and record["test_precision"] > 80 and record["test_share"] < 30
    assert (record["estimator"], record["rate"]) == ("reinforce", 0.2)


def test_models_and_shares_are_added_to_a_folder(own, tmp_path: Path) -> None:
    assert own("--models", "full", "--estimator", "gumbel")[0] == 2  # nothing is selected
    assert own("--models", "full")[0] == 0
    more = ("--models", "independent", "svm", "full", "--resume", "--seeds", 3)
    text = printed(own(*more, "--rates", 0.1, 0.3, "--estimator", "hardkuma"))
    assert "which has learned from whole texts" in text
    names = [record["model"] for record in metrics_of(tmp_path / "out")]
    assert names == ["full", "full", "independent-rate-0.1", "independent-rate-0.3", "svm"]
    other = own(*more, "--rates", 0.1, 0.3)
    assert_refused(other, "holds independent-rate-0.1 of another size or with other options")
    assert "({'estimator': 'hardkuma'})" in other[2]
    lost = tmp_path / "out" / "runs" / "full-seed3" / "best.ckpt"
    lost.unlink()
    again = own(*more[:4], "--report", "--rates", 0.1, 0.3, "--estimator", "hardkuma")
    assert_refused(again, f"{lost} is missing; remove {lost.parent}")


def test_ratings_of_beer(compare, tmp_path: Path) -> None:
    words = ("--data", "beer", "--root", write_beer(tmp_path / "beer"), "--batch-size", 8)
    text = printed(compare(*words, "--models", "dependent", "attention", "svm"))
    for record, run in runs_of(tmp_path / "out"):
        rows = run[run["part"] == "test"]
        assert record["metric"] == "MSE"
        error = ((rows["y"] - rows["prediction"]) ** 2).mean()
        assert record["test"] == pytest.approx(error, rel=1e-5)
    assert "16.7% of the words of the test part say it" in text
    record = (tmp_path / "out" / "runs" / "attention-seed0" / "record.json").read_text()
    assert '"precision"' in record  # on the only part that is annotated


@pytest.mark.parametrize("dataset", ["molecules", "chembl"])
def test_molecules(call, tmp_path: Path, dataset: str, assay, monkeypatch, drawn) -> None:
    monkeypatch.setattr(datasets, "ChEMBLSulfonamides", lambda: assay[:200])
    monkeypatch.setattr(report, "EXAMPLES", 3)
    monkeypatch.setattr(report, "DRAWN", 2)
    words = ("--data", dataset, "--layers", 1, "--batch-size", 512, "--samples", 1, "--rate", 0.6)
    small = ("--device", "cpu", "--hidden", 4, "--epochs", 1, "--quiet", "--out", tmp_path / "out")
    text = printed(call(*words, *small, "--models", "independent"))
    (record,) = metrics_of(tmp_path / "out")
    assert (record["kind"], record["metric"]) == ("independent", "MSE")
    html = (tmp_path / "out" / "rationales.html").read_text()
    assert html.count("<svg") == 3
    assert (tmp_path / "out" / "rationales.png").exists()
    assert ("Atoms that say it" in html) == (dataset == "molecules")
    assert ("is not known" in text) == (dataset == "chembl")


def test_questions_by_words_of_their_bodies(compare, tmp_path: Path) -> None:
    root = write_askubuntu(tmp_path / "forum")
    printed(compare("--data", "askubuntu", "--root", root, "--rate", 0.4))
    records = metrics_of(tmp_path / "out")
    names = [(record["model"], record["fields"]) for record in records]
    assert names == [*product(("dependent", "independent", "full"), ["body"]), ("title", "title")]
    *_, full, title = (record["test_share"] for record in records)
    assert full + title == pytest.approx(100)
    table = table_of(tmp_path / "out", dtype={"query": str})
    rows = table[(table["model"] == "title") & (table["part"] == "test")]
    assert len(rows) == 6 * 8
    lines = (root / "text_tokenized.txt").read_text().splitlines()
    lengths = {line.split("\t")[0]: len(line.split("\t")[1].split()) for line in lines}
    for query, spans in rows[["query", "query_selection"]].itertuples(index=False):
        assert spans == f"0:{lengths[query]}"
    assert (tmp_path / "out" / "rationales.html").read_text().count("<section>") == 6


def test_new_texts_are_explained(whole: Path, call, tmp_path: Path) -> None:
    new = tmp_path / "new.parquet"
    texts = ["a superb film", "", "w1 awful film w2", "qqqq zzzz"]
    pandas.DataFrame({"body": texts, "n": range(4)}).to_parquet(new)
    run = whole / "out" / "runs" / "independent-seed0"
    explain = ("explain", "--data", new, "--text-column", "body", "--checkpoint")
    for name, size in (("explained", 256), ("again", 1)):
        words = (run, "--out", tmp_path / name, "--batch-size", size)
        status, _, err = call(*explain, *words)
        assert (status, err.count("\n")) == (0, 2)
        assert "1 of 4 texts has no words and no rationale: lines 2" in err
        assert "1 of 4 texts has no known word: lines 4" in err
    written = [(tmp_path / name / "rationales.csv").read_text() for name in ("explained", "again")]
    assert written[0] == written[1]
    table = pandas.read_csv(tmp_path / "again" / "rationales.csv", keep_default_na=False)
    assert list(table) == ["body", "n", "predicted", "full", "rest", "selection", "words"]
    assert table["n"].tolist() == [0, 1, 2, 3]
    assert table.loc[1, "predicted"] == table.loc[1, "words"] == ""
    for row in (0, 2):
        words = texts[row].split()
        marks = read_spans(table["selection"][row], len(words)).tolist()
        chosen = [word for word, mark in zip(words, marks, strict=True) if mark]
        assert table["words"][row] == " ".join(chosen)
        assert {table["predicted"][row], table["full"][row]} <= {"n", "c"}
    page = (tmp_path / "again" / "rationales.html").read_text()
    assert re.sub("</?mark>", "", page).count("awful film") == 1
    for checkpoint, out, said in (
        (run, "again", "--overwrite replaces it"),
        (whole / "out", "no", "has 9 runs: name one"),
        (run.with_name("svm-seed0"), "no", "not a checkpoint of this module"),
    ):
        assert_refused(call(*explain, checkpoint, "--out", tmp_path / out), said)
    pandas.DataFrame({"body": texts, "words": texts}).to_parquet(new)
    assert_refused(call(*explain, run, "--out", tmp_path / "no"), "'words'")
