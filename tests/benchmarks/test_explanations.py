"""``python -m benchmarks.explanations`` from end to end, on networks of a few units."""

import json
import re
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("lightning", reason="the benchmark needs the extra 'bench'")
pytest.importorskip("rdkit", reason="molecules need the extra 'mol'")
pytest.importorskip("captum", reason="the benchmark needs the extra 'bench'")

from benchmarks.explanations import main
from benchmarks.harness.explanations import sentences as texts
from benchmarks.harness.explanations import study
from benchmarks.molecules.__main__ import main as molecules_main

METHODS = ("walks", "gnn-explainer", "integrated-gradients", "random")
FILES = {
    *("configuration.json", "metrics.json", "table.md", "explanations.html"),
    *("planted.png", "molecules.png", "runs", "explained"),
}
SMALL = (
    *("--device", "cpu", "--quiet", "--hidden", 3, "--layers", 1, "--epochs", 1),
    *("--batch-size", 16, "--molecules", 2, "--drawn", 1, "--gnn-epochs", 2, "--ig-steps", 2),
)


@pytest.fixture
def call(call_main) -> Callable[..., tuple[int, str, str]]:
    return partial(call_main, main)


@pytest.fixture
def explain(call, molecules_csv: Path, tmp_path: Path) -> Callable[..., tuple[int, str, str]]:
    """Explains two molecules of a small file into ``out`` unless the words say otherwise."""

    def run(*words: object) -> tuple[int, str, str]:
        file = ("--data", molecules_csv, "--target-columns", "pIC50", "--smarts", "cF")
        return call(*SMALL, *file, "--out", tmp_path / "out", *words)

    return run


@pytest.fixture
def sentences(tmp_path: Path) -> Path:
    """A folder of short sentences in the form of the Stanford Sentiment Treebank."""
    root = tmp_path / "sst"
    root.mkdir()
    for part, number in (("train", 24), ("dev", 6), ("test", 6)):
        lines = [f"{i % 2} this {('bad', 'good')[i % 2]} film is a film .\n" for i in range(number)]
        (root / f"stsa.binary.{part}").write_text("".join(lines))
    return root


def metrics_of(out: Path) -> dict[str, Any]:
    return json.loads((out / "metrics.json").read_text())


def explained(out: Path) -> dict[str, list[dict[str, Any]]]:
    """What the methods say, without their times."""
    found = {}
    for name in METHODS:
        records = json.loads((out / "explained" / f"{name}.json").read_text())
        found[name] = [{k: v for k, v in one.items() if k != "seconds"} for one in records]
    return found


def test_explains_and_reports(explain, tmp_path) -> None:
    status, out, err = explain()
    assert (status, err) == (0, "")
    assert {path.name for path in (tmp_path / "out").iterdir()} == FILES
    metrics = metrics_of(tmp_path / "out")
    assert [one["method"] for one in metrics["methods"]] == list(METHODS)
    assert set(metrics["runs"]) == {"planted", "measured"}
    assert metrics["sentences"] == []
    records = explained(tmp_path / "out")
    for one in metrics["methods"]:
        assert one["molecules"] == len(records[one["method"]]) == 2
        mean = sum(record["precision"] for record in records[one["method"]]) / 2
        assert one["precision"] == pytest.approx(mean)
        row = rf"^{one['method']} +{one['precision']:.3f} +{one['fid+']:.2f} +{one['fid-']:.2f} "
        assert re.search(row, out, re.MULTILINE)
    table = (tmp_path / "out" / "table.md").read_text()
    assert "the number of cF in a molecule" in table
    page = (tmp_path / "out" / "explanations.html").read_text()
    assert page.count("<svg") == 2  # one of each kind
    for name in ("planted.png", "molecules.png"):
        assert (tmp_path / "out" / name).read_bytes().startswith(b"\x89PNG")


def test_interrupted_study_goes_on_where_it_stopped(explain, tmp_path, monkeypatch) -> None:
    assert explain("--out", tmp_path / "whole")[0] == 0
    count: list[int] = []
    explain_one = study.explain

    def interrupted(explainer: Any, molecule: Any, seed: int) -> Any:
        count.append(seed)
        if len(count) == 6:  # of the second method, counting each first one twice
            raise KeyboardInterrupt
        return explain_one(explainer, molecule, seed)

    with monkeypatch.context() as patch:
        patch.setattr(study, "explain", interrupted)
        status, _, err = explain()
    assert status == 130
    assert "continue with the same command and --resume" in err
    assert {path.name for path in (tmp_path / "out" / "explained").iterdir()} == {
        "walks.json",
        "gnn-explainer.json",
    }
    monkeypatch.setattr(study, "explain", lambda *words: (count.append(-1), explain_one(*words))[1])
    count.clear()
    assert explain("--resume")[0] == 0
    assert len(count) == 2 + 3 + 3
    assert explained(tmp_path / "out") == explained(tmp_path / "whole")


@pytest.fixture
def network(call_main, molecules_csv, tmp_path) -> Callable[..., Path]:
    """The run of a network on the small file, or on another one."""

    def train(model: str = "wl", path: Path = molecules_csv, *words: object) -> Path:
        small = ("--device", "cpu", "--quiet", "--epochs", 1, "--hidden", 3, "--layers", 2)
        out = tmp_path / f"{model}-{path.stem}"
        file = ("--data", path, "--model", model, "--out", out)
        assert call_main(molecules_main, *small, *file, *words)[0] == 0
        return out / "runs" / f"{path.stem}-random-{model}-seed0"

    return train


def test_a_trained_network_takes_the_place_of_one(explain, network, tmp_path) -> None:
    run = network("wl")
    assert explain("--run", run, "--methods", "walks")[0] == 0
    metrics = metrics_of(tmp_path / "out")
    assert metrics["runs"]["measured"] == {"run": str(run)}
    assert not (tmp_path / "out" / "runs" / "measured").exists()
    # The same network may lie elsewhere; another one, or none, is not mixed with it.
    moved = run.rename(tmp_path / "moved")
    assert explain("--run", moved, "--methods", "walks", "--resume")[0] == 0
    for words in (("--run", network("wl-gated")), ()):
        status, out, err = explain(*words, "--methods", "walks", "--resume")
        assert (status, out, err.count("\n")) == (2, "", 1)
        assert "of --run" in err


def test_networks_without_an_attribution_are_refused_before_anything_is_trained(
    explain, network, tmp_path
) -> None:
    status, out, err = explain("--run", network("gine"))
    assert (status, out, err.count("\n")) == (2, "", 1)
    assert "model='gine' is no sum over walks" in err
    assert not (tmp_path / "out").exists()


def test_networks_of_another_target_are_refused(
    explain, network, sulfonamides, write_csv, tmp_path
) -> None:
    named = [{"smiles": row["smiles"], "size": row["pIC50"]} for row in sulfonamides]
    of_classes = [
        {"smiles": row["smiles"], "pIC50": str(number % 2)}
        for number, row in enumerate(sulfonamides)
    ]
    for run, said in (
        (network("wl", write_csv(named, "named")), "trained on the target 'size', not on 'pIC50'"),
        (
            network("wl", write_csv(of_classes, "classes"), "--task", "classification"),
            "classifies, but 'pIC50' is a number here",
        ),
    ):
        status, out, err = explain("--run", run)
        assert (status, out, err.count("\n")) == (2, "", 1)
        assert f"--run {run} " in err
        assert said in err
        assert not (tmp_path / "out").exists()


def test_sentences_are_explained(explain, sentences, tmp_path) -> None:
    texts = ("--text-root", sentences, "--text-epochs", 1, "--methods", "walks")
    given = ("--sentences", "a good film", "a $5 <film>")
    assert explain(*texts, *given)[0] == 0
    metrics = metrics_of(tmp_path / "out")
    assert [one["text"] for one in metrics["sentences"]] == ["a good film", "a $ 5 < film >"]
    assert max(one["gap"] for one in metrics["sentences"]) < 1e-10
    assert set(metrics["runs"]) == {"planted", "measured", "texts"}
    for number in (1, 2):
        picture = tmp_path / "out" / f"sentence-{number}.png"
        assert picture.read_bytes().startswith(b"\x89PNG")
    page = (tmp_path / "out" / "explanations.html").read_text()
    assert "&lt;" in page
    # Fewer sentences leave no picture of others behind.
    assert explain(*texts, "--resume")[0] == 0
    assert [one["text"] for one in metrics_of(tmp_path / "out")["sentences"]] == [
        "this bad film is a film ."
    ]
    assert not (tmp_path / "out" / "sentence-2.png").exists()


def test_other_settings_are_never_mixed(explain, tmp_path) -> None:
    assert explain("--methods", "random")[0] == 0
    before = (tmp_path / "out" / "explained" / "random.json").read_bytes()
    for words, said in (
        ((), "already holds results; give --resume"),
        (("--resume", "--hidden", 4), "was made with --hidden 3, not 4"),
        (("--resume", "--smarts", "cCl"), "was made with --smarts cF, not cCl"),
        (("--resume", "--seed", 1), "was made with --seed 0, not 1"),
    ):
        status, out, err = explain(*words)
        assert (status, out, err.count("\n")) == (2, "", 1)
        assert said in err
    assert (tmp_path / "out" / "explained" / "random.json").read_bytes() == before
    (tmp_path / "out" / "notes.txt").write_text("mine")
    assert explain("--overwrite", "--methods", "walks", "--hidden", 4)[0] == 0
    assert {path.name for path in (tmp_path / "out" / "explained").iterdir()} == {"walks.json"}
    assert (tmp_path / "out" / "notes.txt").read_text() == "mine"


@pytest.mark.parametrize("name", ["explained/random.json", "configuration.json"])
def test_damaged_files_are_named(explain, tmp_path, name) -> None:
    assert explain("--methods", "random")[0] == 0
    path = tmp_path / "out" / name
    path.write_bytes(path.read_bytes()[:30])
    status, _, err = explain("--methods", "random", "--resume")
    assert (status, err.count("\n")) == (2, 1)
    assert str(path) in err
    assert "damaged" in err


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--data", "m.csv"), "--data m.csv needs --smarts PATTERN"),
        (("--target-columns", "x"), "--target-columns goes with a CSV in --data, not chembl"),
        (("--root", "data"), "--root goes with --data cep, not chembl"),
        (("--sentences", "a film"), "--sentences goes with --text-root DIR"),
        (("--text-dataset", "trec"), "--text-dataset goes with --text-root DIR"),
        (("--run", "nowhere"), "--run nowhere is no finished run"),
        (("--text-root", ".", "--sentences", " "), "must not be empty"),
        (("--resume", "--overwrite"), "--resume and --overwrite exclude each other"),
        (("--methods", "saliency"), "invalid choice: 'saliency'"),
        (("--model", "gine"), "invalid choice: 'gine'"),
        (("--molecules", "0"), "must be an integer of at least 1"),
        (("--device", "tpu"), "--device must be auto, cpu, cuda"),
        (("--data", "missing.csv", "--smarts", "cF"), "missing.csv: no such file"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, tuple) else "",
)
def test_bad_input_is_one_line(call, tmp_path, monkeypatch, words, said) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "notes.txt").write_text("mine")
    status, out, err = call(*words, "--out", tmp_path / "out")
    assert (status, out, err.count("\n")) == (2, "", 1)
    assert said in err
    assert not (tmp_path / "out").exists()


def test_groups_that_are_not_there_are_one_line(explain, tmp_path) -> None:
    for smarts, said in (("c(", "SMARTS"), ("[Si]", "[Si]")):
        status, out, err = explain("--smarts", smarts)
        assert (status, out, err.count("\n")) == (2, "", 1)
        assert said in err
    assert not (tmp_path / "out").exists()


def test_empty_texts_are_one_line(call, sentences) -> None:
    status, out, err = call("--text-root", sentences, "--sentences", "a film", "  ")
    assert (status, out, err.count("\n")) == (2, "", 1)
    assert "must not be empty" in err


def test_sentences_are_read_before_anything_is_written(
    explain, sentences, tmp_path, monkeypatch
) -> None:
    monkeypatch.setattr(texts, "tokenize", lambda text: [])
    status, out, err = explain("--text-root", sentences, "--sentences", "a film")
    assert (status, out, err.count("\n")) == (2, "", 1)
    assert "--sentences: a text has no words" in err
    assert not (tmp_path / "out").exists()


def test_help_says_everything(call) -> None:
    status, out, err = call("--help")
    assert (status, err) == (0, "")
    shown = "".join(out.split())  # a long line may break at a hyphen
    for word in ("--text-root", "--run", "--smarts", *METHODS):
        assert word in shown
