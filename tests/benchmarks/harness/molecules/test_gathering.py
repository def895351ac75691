"""Results folders below a folder, gathered into one report."""

import base64
import json
import os
import re
import shutil
import statistics
from html.parser import HTMLParser
from pathlib import Path

import numpy
import pytest

pytest.importorskip("lightning", reason="the benchmark needs the extra 'bench'")
pytest.importorskip("rdkit", reason="the benchmark's molecules need the extra 'mol'")

from benchmarks.harness.molecules.command_line import main
from benchmarks.harness.molecules.gathering import contents
from benchmarks.harness.molecules.gathering.comparison import mark, ordered
from benchmarks.harness.molecules.gathering.folders import FoundRun
from benchmarks.harness.molecules.gathering.sections import Row
from tests.benchmarks.harness.molecules.written_results import (
    DATA,
    SIZES,
    TRAINING,
    record,
    write_json,
    write_results,
)


@pytest.fixture
def gather(gather_drawn, monkeypatch):
    """As ``gather_drawn``, without pictures."""
    monkeypatch.setattr(contents, "section_pictures", lambda *words: [])
    return gather_drawn


@pytest.fixture
def gather_drawn(call_main, tmp_path):
    """Reports on the folder ``runs``; gives status, standard output, standard error."""

    def run(*words):
        return call_main(main, "report", tmp_path / "runs", *words)

    return run


def sections_of(text):
    """Of each section its title and the lines of its table as dictionaries."""
    found = {}
    for block in re.split(r"^## ", text, flags=re.MULTILINE)[1:]:
        lines = [line[2:-2] for line in block.splitlines() if line.startswith("| ")]
        cells = [re.split(r" (?<!\\)\| ", line) for line in lines]
        found[block.splitlines()[0]] = [dict(zip(cells[0], row, strict=True)) for row in cells[2:]]
    return found


class Page(HTMLParser):
    """Tags with their attributes, text, and whether every element is closed."""

    def __init__(self, text):
        super().__init__()
        self.tags, self.words, self.open = [], [], []
        self.feed(text)
        self.close()

    def handle_starttag(self, tag, attributes):
        self.tags.append((tag, dict(attributes)))
        if tag not in ("meta", "img"):
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.words.append(data)


def test_rows_have_means_and_deviations_of_seeds(gather, tmp_path):
    errors = {"gine": [0.81, 0.93, 0.88], "wl": [1.2, 1.0, 1.1]}
    records = [
        record(name, seed, test)
        for name, values in errors.items()
        for seed, test in enumerate(values)
    ]
    write_results(tmp_path / "runs" / "a", records)
    write_results(tmp_path / "runs" / "b" / "c", [record("mean", 4, 2.5, epochs=0)])
    status, out, err = gather()
    assert (status, err) == (0, "")
    found = sections_of((tmp_path / "runs" / "report.md").read_text())
    assert list(found) == ["chembl, random split (seed 0)"]
    (rows,) = found.values()
    assert [row["model"] for row in rows] == ["gine", "wl", "mean"]
    for row in rows[:2]:
        values = numpy.array(errors[row["model"]])
        for part, factor in (("train", 0.5), ("valid", 0.75), ("test", 1)):
            mean, std = (factor * values).mean(), (factor * values).std(ddof=1)
            assert row[f"{part} RMSE"].strip("* †") == f"{mean:.3f} ± {std:.3f}"
        assert (row["bond features"], row["parameters"], row["seeds"]) == (
            "yes",
            "1,000",
            "0, 1, 2",
        )
        assert (row["epochs"], row["s/epoch"], row["folder"]) == ("3", "0.25", "a")
    assert rows[2] == {
        "model": "mean",
        "bond features": "no",
        "parameters": "1,000",
        "train RMSE": "1.250",
        "valid RMSE": "1.875",
        "test RMSE": "2.500",
        "seeds": "4",
        "epochs": "-",
        "s/epoch": "-",
        "folder": "b/c",
    }
    assert "2 results folders, 7 finished runs, 0 unfinished." in out


def row_of(name, *tests):
    runs = [FoundRun(record(name, seed, test), [], ()) for seed, test in enumerate(tests)]
    return Row(name, {}, runs, ["a"])


@pytest.mark.parametrize(
    ("tests", "metric", "marks"),
    [
        # 1, 2, 3: mean 2, standard deviation 1
        ([(1, 2, 3), (3.0,), (3.001,), (2.5, 2.7)], "rmse", ["best", "near", "", "near"]),
        ([(1, 2, 3), (1.0,), (0.999,), (1.2, 1.4)], "rocauc", ["best", "near", "", "near"]),
        ([(1, 2, 3), (1.0,)], "ap", ["best", "near"]),
        ([(2.0,), (2.001, 2.002), (2.0,)], "rmse", ["best", "", "best"]),
        ([(2.0,), (1, 2, 3), (2.5,)], "rmse", ["best", "best", "near"]),
        ([(2.0,), (1.0,)], "unheard of", ["", ""]),
    ],
    ids=["lower", "higher", "average precision", "one seed", "tie", "unknown"],
)
def test_marks_are_the_best_and_those_within_its_deviation(tests, metric, marks):
    rows = [row_of(f"m{k}", *values) for k, values in enumerate(tests)]
    found, legend = mark(ordered(rows, metric), metric)
    names = [row.model for row in ordered(rows, metric)]
    assert dict(zip(names, found, strict=True)) == {f"m{k}": each for k, each in enumerate(marks)}
    known = any(len(row.runs) > 1 and each == "best" for row, each in zip(rows, marks, strict=True))
    assert ("≤ 1.000" in legend) == known
    assert ("no spread is known" in legend) == (not known and metric == "rmse")
    assert ("not known" in legend) == (metric == "unheard of")


def test_marks_are_shown_in_both_forms(gather, tmp_path):
    records = [record("wl", seed, test) for seed, test in enumerate((1.0, 2.0, 3.0))]
    write_results(tmp_path / "runs" / "a", [*records, record("gine", 0, 2.5), record("gin", 0, 4)])
    assert gather("--out", tmp_path / "out" / "new")[0] == 0
    (rows,) = sections_of((tmp_path / "out" / "new" / "report.md").read_text()).values()
    tests = [row["test RMSE"] for row in rows]
    assert tests == ["**2.000 ± 1.000**", "2.500 †", "4.000"]
    text = (tmp_path / "out" / "new" / "report.html").read_text()
    assert '<td class="best"><strong>2.000 ± 1.000</strong></td>' in text
    assert '<td class="near">2.500 †</td>' in text
    assert "|mean - best mean| ≤ 1.000" in text
    assert "report.md" not in os.listdir(tmp_path / "runs")


def test_a_higher_score_is_better_where_it_is(gather, tmp_path):
    records = [
        record(name, seed, test, metric="rocauc")
        for name, values in {"gine": (0.70, 0.72), "wl": (0.80, 0.84)}.items()
        for seed, test in enumerate(values)
    ]
    write_results(tmp_path / "runs", records)
    assert gather()[0] == 0
    (rows,) = sections_of((tmp_path / "runs" / "report.md").read_text()).values()
    assert [row["test ROC-AUC"] for row in rows] == ["**0.820 ± 0.028**", "0.710 ± 0.014"]
    assert rows[0]["folder"] == "runs"


def test_settings_that_differ_name_rows_apart(gather, tmp_path):
    runs = tmp_path / "runs"
    write_results(runs / "a", [record("gine", 0, 1.0)])
    write_results(runs / "wide", [record("gine", 0, 1.1)], sizes=SIZES | {"hidden": 16})
    faster = TRAINING["optimizer"] | {"learning_rate": 0.01}
    write_results(
        runs / "fast", [record("gine", 0, 1.2)], training=TRAINING | {"optimizer": faster}
    )
    write_results(runs / "more", [record("gine", 1, 2.0)], training=TRAINING | {"device": "cuda"})
    write_results(runs / "code", [record("gine", 0, 1.3)], commit="abcdef0123456789" * 2 + "+")
    write_results(runs / "new", [record("gine", 0, 1.4)], sizes=SIZES | {"flavor": "sour"})
    older = {name: size for name, size in SIZES.items() if name != "num_layers"}
    write_results(runs / "old", [record("gine", 2, 3.0)], sizes=older)
    assert gather()[0] == 0
    (rows,) = sections_of((runs / "report.md").read_text()).values()
    notes = {row["folder"]: row["model"] for row in rows}
    names = ("hidden", "learning rate", "commit", "flavor")
    values = {
        "a, more, old": ("8", "0.001", "not recorded", "not recorded"),
        "code": ("8", "0.001", "abcdef0123+", "not recorded"),
        "fast": ("8", "0.01", "not recorded", "not recorded"),
        "new": ("8", "0.001", "not recorded", "sour"),
        "wide": ("16", "0.001", "not recorded", "not recorded"),
    }
    assert notes == {
        folder: f"gine ({', '.join(map(' '.join, zip(names, each, strict=True)))})"
        for folder, each in values.items()
    }
    (merged,) = [row for row in rows if row["folder"] == "a, more, old"]
    assert (merged["seeds"], merged["test RMSE"]) == ("0, 1, 2", "2.000 ± 1.000")


def test_what_has_no_epochs_does_not_depend_on_them(gather, tmp_path):
    for name, epochs in (("a", 3), ("b", 9)):
        training = TRAINING | {"epochs": epochs}
        fitted = record("wl-subtree-3", 0, 0.7, epochs=0, seconds=1.25, fitted_on=5)
        records = [record("mean", 0, 2.0, epochs=0), fitted]
        write_results(tmp_path / "runs" / name, records, training=training)
    assert gather()[0] == 0
    text = (tmp_path / "runs" / "report.md").read_text()
    (rows,) = sections_of(text).values()
    assert [row["model"] for row in rows] == ["wl-subtree-3", "mean"]
    assert [row["fitted on"] for row in rows] == ["5", "6"]
    assert [row["s/epoch"] for row in rows] == ["1.2 to fit", "-"]
    assert "mean with seed 0 (in b), wl-subtree-3 with seed 0 (in b): there more than once" in text


def test_unequal_results_of_one_run_stand_apart_and_a_copy_counts_once(gather, tmp_path):
    runs = tmp_path / "runs"
    write_results(runs / "a", [record("gine", 0, 1.0), record("gine", 1, 2.0)])
    shutil.copytree(runs / "a", runs / "copy")
    write_results(runs / "other", [record("gine", 0, 1.5)])
    assert gather()[0] == 0
    text = (runs / "report.md").read_text()
    (rows,) = sections_of(text).values()
    assert {row["model"]: row["seeds"] for row in rows} == {
        "gine (in a)": "0, 1",
        "gine (in other)": "0",
    }
    assert "gine with seed 0 (in copy), gine with seed 1 (in copy): there more than once" in text


def test_sections_are_of_the_same_molecules_and_conflicts_are_said(gather, tmp_path):
    runs = tmp_path / "runs"
    mine = DATA | {"dataset": "csv", "csv": "/somewhere/mine.csv"}
    moved = mine | {"csv": "/elsewhere/mine.csv", "root": "data/cep"}
    renamed = mine | {"csv": "renamed.csv"}
    write_results(runs / "a", [record("gine", 0, 1.0)], data=mine, digest="1" * 16)
    write_results(runs / "b", [record("wl", 0, 2.0)], data=moved, digest="1" * 16)
    write_results(runs / "c", [record("wl", 0, 3.0)], data=renamed, digest="1" * 16)
    write_results(runs / "d", [record("wl", 0, 4.0)], data=mine, digest="2" * 16)
    scaffold = DATA | {"split": "scaffold", "split_seed": None}
    write_results(runs / "e", [record("wl", 0, 5.0, split="scaffold")], data=scaffold, digest="3")
    assert gather()[0] == 0
    text = (runs / "report.md").read_text()
    found = sections_of(text)
    one, two = "csv mine.csv, random split (seed 0)", "csv renamed.csv, random split (seed 0)"
    assert {title: {row["folder"] for row in rows} for title, rows in found.items()} == {
        "chembl, scaffold split": {"e"},
        f"{one}, identity {'2' * 16}": {"d"},
        f"{one}, also {two}, identity {'1' * 16}": {"a", "b", "c"},
    }
    assert text.count("the two do not compare") == 2
    assert f"identity {'2' * 16}; here {'1' * 16}" in text
    assert f"identity {'1' * 16}; here {'2' * 16}" in text


def test_names_are_escaped_and_the_page_stands_alone(gather_drawn, tmp_path):
    runs = tmp_path / "runs"
    target = '<script>alert(1)</script>|a$b$*c*_d_ & "e" `f` [g](http://h)'
    data = DATA | {"dataset": "csv", "csv": "<b>mine.csv"}
    write_results(runs / "<i>a", [record("gine", 0, 1.0)], data=data, targets=[target])
    assert gather_drawn()[0] == 0
    text = (runs / "report.html").read_text()
    page = Page(text)
    assert page.open == []
    words = "".join(page.words)
    assert f"RMSE of {target}" in words
    assert "csv <b>mine.csv, random split" in words
    assert "<i>a" in words
    tags = {tag for tag, _ in page.tags}
    assert not tags & {"script", "link", "iframe", "a", "b", "i", "base", "object", "embed"}
    for tag, attributes in page.tags:
        assert not any(name.startswith("on") or name == "href" for name in attributes)
        if tag == "img":
            assert attributes["src"].startswith("data:image/png;base64,")
            assert attributes["alt"]
    assert "url(" not in text and "@import" not in text
    assert ("meta", {"name": "viewport", "content": "width=device-width, initial-scale=1"}) in (
        page.tags
    )
    markdown = (runs / "report.md").read_text()
    outside = r"RMSE of \<script\>alert(1)\</script\>|a\$b\$\*c\*\_d\_ \& " + (
        r'"e" \`f\` \[g\](http://h)'
    )
    assert outside in markdown
    assert r"| \<i\>a |" in markdown
    assert "<script>" not in markdown


def test_pictures_lie_beside_the_text_and_inside_the_page(gather_drawn, tmp_path):
    runs = tmp_path / "runs"
    write_results(runs / "a", [record("gine", 0, 1.0), record("mean", 0, 2.0, epochs=0)])
    assert gather_drawn()[0] == 0
    names = re.findall(r"!\[[^\n]*\]\(([^)]*)\)", (runs / "report.md").read_text())
    assert names == [
        "report-chembl-random-0123456789abcdef-rmse-test-1.png",
        "report-chembl-random-0123456789abcdef-rmse-learning-curves.png",
    ]
    embedded = re.findall(r"base64,([^\"]*)\"", (runs / "report.html").read_text())
    assert [base64.b64decode(text) for text in embedded] == [
        (runs / name).read_bytes() for name in names
    ]
    assert all(base64.b64decode(text).startswith(b"\x89PNG") for text in embedded)


def test_the_same_results_give_the_same_report(gather_drawn, tmp_path):
    write_results(tmp_path / "runs" / "b", [record("gine", 1, 1.0)])
    write_results(tmp_path / "runs" / "a", [record("gine", 0, 1.5)])
    assert gather_drawn("--out", tmp_path / "one", "--quiet")[0] == 0
    assert gather_drawn("--out", tmp_path / "two", "--quiet")[0] == 0
    first, second = (
        {path.name: path.read_bytes() for path in (tmp_path / name).iterdir()}
        for name in ("one", "two")
    )
    assert first == second
    assert len(first) == 4


def test_provenance_is_what_is_written_down(gather, tmp_path):
    runs = tmp_path / "runs"
    words = ["--model", "gine", "--out", "my runs"]
    write_results(runs / "a", [record("gine", 0, 1.0)], commit=None, arguments=words, color="red")
    os.utime(runs / "a" / "metrics.json", (0, 86400))
    assert gather()[0] == 0
    text = (runs / "report.md").read_text()
    for line in (
        "written: 1970-01-02 00:00 UTC",
        "molecules: 10 (6 train, 2 valid, 2 test)",
        "identity: digest 0123456789abcdef",
        "data: dataset chembl, split random, split seed 0",
        "arguments: --model gine --out 'my runs'",
        "backend: products torch.mm",
        "color: red",
        "commit: not recorded",
        "seeds: 0",
        "threads: 1",
        "versions: python 3.11.7, torch 2.13.0",
        "device: cpu",
    ):
        assert f"- {line}\n" in text
    assert "learning rate 0.001" in text and "gine (node dim 65" in text


def cut(path):
    path.write_text(path.read_text()[:-20])


def without_score(path):
    content = json.loads(path.read_text())
    content["record"]["test"] = float("nan")
    write_json(path, content)


def beyond_numbers(path):
    content = json.loads(path.read_text())
    content["record"]["test"] = 10**400
    write_json(path, content)


def without_measure(path):
    content = json.loads(path.read_text())
    del content["history"][1]["valid_rmse"]
    write_json(path, content)


def of_another_model(path):
    content = json.loads(path.read_text())
    content["record"]["model"] = "gine-of-old"
    write_json(path, content)


@pytest.mark.parametrize(
    ("file", "damage", "left"),
    [
        ("configuration.json", cut, {"b"}),
        ("configuration.json", lambda path: write_json(path, {"molecules": {}}), {"b"}),
        ("metrics.json", cut, {"a", "b"}),
        ("metrics.json", lambda path: write_json(path, {"test": 1}), {"a", "b"}),
        ("runs/gine-seed0/run.json", cut, {"a", "b"}),
        ("runs/gine-seed0/run.json", without_score, {"a", "b"}),
        ("runs/gine-seed0/run.json", beyond_numbers, {"a", "b"}),
        ("runs/gine-seed0/run.json", without_measure, {"a", "b"}),
        ("runs/gine-seed0/run.json", of_another_model, {"a", "b"}),
        ("runs/gine-seed0/run.json", lambda path: write_json(path, [1]), {"a", "b"}),
    ],
    ids=[
        "configuration cut",
        "configuration empty",
        "metrics cut",
        "metrics of another form",
        "run cut",
        "run without a score",
        "run beyond numbers",
        "run without a measure",
        "run of another model",
        "run of another form",
    ],
)
def test_what_is_damaged_is_named_and_the_rest_reported(gather, tmp_path, file, damage, left):
    runs = tmp_path / "runs"
    write_results(runs / "a", [record("gine", 0, 1.0), record("wl", 0, 2.0)])
    write_results(runs / "b", [record("gin", 0, 3.0)])
    damage(runs / "a" / file)
    status, _, err = gather()
    assert (status, err.count("\n")) == (1, 1)
    assert err.startswith(f"benchmarks.molecules: left out: a/{file} is damaged: ")
    text = (runs / "report.md").read_text()
    assert f"Left out:\n\n- a/{file.replace('_', chr(92) + '_')} is damaged: " in text
    (rows,) = sections_of(text).values()
    assert {row["folder"] for row in rows} == left
    assert ("gine" in {row["model"] for row in rows}) == (file == "metrics.json")
    assert "Left out" in (runs / "report.html").read_text()


def test_damaged_predictions_leave_the_numbers(gather, tmp_path):
    runs = tmp_path / "runs"
    write_results(runs / "a", [record("gine", 0, 1.0), record("wl", 0, 2.0), record("gin", 0, 3.0)])
    (runs / "a" / "runs" / "gine-seed0" / "predictions.csv").write_text("model,seed\n1,2,3,4\n")
    for name in ("wl", "gin"):
        (runs / "a" / "runs" / f"{name}-seed0" / "predictions.csv").unlink()
    table = runs / "a" / "predictions.csv"
    table.write_text("".join(line for line in table.open() if not line.startswith("gin,")))
    status, _, err = gather()
    assert (status, err.count("\n")) == (1, 2)
    assert "left out: a: predictions.csv of gine with seed 0 is damaged" in err
    assert "left out: a: predictions.csv of gin with seed 0 is damaged: no prediction of the" in err
    (rows,) = sections_of((runs / "report.md").read_text()).values()
    assert [row["model"] for row in rows] == ["gine", "wl", "gin"]
    for path in (runs / "a" / "predictions.csv", *(runs / "a").glob("runs/*/predictions.csv")):
        path.unlink()
    assert gather()[0] == 0
    text = (runs / "report.md").read_text()
    assert "No predictions.csv has predictions of gine with seed 0." in text
    assert "test-1.png" not in text


def test_files_of_runs_may_be_missing(gather, tmp_path):
    runs = tmp_path / "runs"
    write_results(runs / "a", [record("gine", 0, 1.0), record("wl", 0, 2.0)])
    shutil.rmtree(runs / "a" / "runs")
    write_results(runs / "b", [record("gin", 0, 3.0), record("gin", 1, 4.0)])
    (runs / "b" / "metrics.json").unlink()
    assert gather()[0] == 0
    (rows,) = sections_of((runs / "report.md").read_text()).values()
    assert {row["model"]: row["seeds"] for row in rows} == {"gine": "0", "wl": "0", "gin": "0, 1"}


def test_a_contradiction_within_a_folder_is_said(gather, tmp_path):
    runs = tmp_path / "runs"
    write_results(runs / "a", [record("gine", 0, 1.0)])
    write_json(runs / "a" / "metrics.json", [record("gine", 0, 9.0)])
    status, _, err = gather()
    said = "a/metrics.json contradicts runs/gine-seed0/run.json, which is taken"
    assert (status, err) == (1, f"benchmarks.molecules: left out: {said}\n")
    (rows,) = sections_of((runs / "report.md").read_text()).values()
    assert rows[0]["test RMSE"] == "**1.000**"


def test_unfinished_runs_and_other_benchmarks_are_counted(gather, tmp_path):
    runs = tmp_path / "runs"
    write_results(runs / "a", [record("gine", 0, 1.0)])
    for name in ("wl-seed0", "wl-seed1"):
        (runs / "a" / "runs" / name).mkdir()
    write_json(runs / "text" / "configuration.json", {"texts": {"digest": "1"}, "data": {}})
    write_json(runs / "lfp" / "configuration.json", {"recordings": {"digest": "1"}})
    status, out, err = gather()
    assert (status, err) == (0, "")
    said = "1 results folder, 1 finished run, 2 unfinished (a/wl-seed0, a/wl-seed1); "
    said += "2 results folders of other benchmarks not read."
    assert said in out
    assert said in "".join(Page((runs / "report.html").read_text()).words)


def test_bad_input_is_one_line(gather, call_main, tmp_path):
    runs = tmp_path / "runs"
    assert gather() == (2, "", f"benchmarks.molecules: error: {runs} is not a folder\n")
    write_json(runs / "text" / "configuration.json", {"texts": {"digest": "1"}})
    (runs / "broken").mkdir()
    (runs / "broken" / "configuration.json").write_text("{")
    status, out, err = gather()
    assert (status, out, err.count("\n")) == (2, "", 1)
    assert f"no finished run of the molecule benchmark below {runs}: 1 results folder of " in err
    assert "broken/configuration.json is damaged" in err
    assert sorted(path.name for path in runs.iterdir()) == ["broken", "text"]
    write_results(runs / "a", [record("gine", 0, 1.0)])
    (tmp_path / "file").write_text("")
    for out_folder in (tmp_path / "file", tmp_path / "file" / "below"):
        status, out, err = gather("--out", out_folder)
        assert (status, out, err.count("\n")) == (2, "", 1)
        assert err.startswith(f"benchmarks.molecules: error: --out {out_folder}: ")
    for words in (("--color", "red"), ("another",)):
        status, out, err = gather(*words)
        assert (status, out, err.count("\n")) == (2, "", 1)
    assert call_main(main, "report")[0] == 2
    status, out, err = call_main(main, "report", "--help")
    assert (status, err) == (0, "") and "--out DIR" in out


def test_folders_are_named_by_their_path_whatever_the_order_on_disk(gather, tmp_path):
    runs = tmp_path / "runs"
    for name in ("z", "a/deep", "m"):
        write_results(runs / Path(name), [record("gine", ord(name[0]), 1.0)])
    assert gather()[0] == 0
    (rows,) = sections_of((runs / "report.md").read_text()).values()
    assert rows[0]["folder"] == "a/deep, m, z"
    assert rows[0]["seeds"] == ", ".join(str(ord(letter)) for letter in "amz")
    assert rows[0]["test RMSE"] == f"**1.000 ± {statistics.stdev([1.0, 1.0, 1.0]):.3f}**"


def test_the_folder_of_shards_divides_nothing(gather, tmp_path):
    for seed in (0, 1):
        data = {**DATA, "dataset": "cep", "shards": f"shards/{seed}"}
        write_results(tmp_path / f"runs/s{seed}", [record("gine", seed, 1.0 + seed)], data=data)
    assert gather()[0] == 0
    (table,) = sections_of((tmp_path / "runs" / "report.md").read_text()).values()
    assert [(line["model"], line["seeds"]) for line in table] == [("gine", "0, 1")]
