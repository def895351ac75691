"""``python -m benchmarks.papers.explanations`` from end to end, on networks of a few units."""

import json
import re
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest

pytest.importorskip("rdkit", reason="molecules need the extra 'mol'")

from torch_geometric.explain import GNNExplainer

from benchmarks.papers.explanations import measures
from benchmarks.papers.explanations.options import METHODS
from tests.benchmarks.conftest import assert_refused, done, metrics_of, printed

PROGRAM = "benchmarks.papers.explanations"
SMALL = ("--hidden", 3, "--layers", 1, "--epochs", 1, "--molecules", 2, "--drawn", 1, "--quiet")


@pytest.fixture
def explain(compare, molecules_csv: Path, monkeypatch):
    """The same on two molecules of a small file."""
    monkeypatch.setattr(measures, "GNNExplainer", partial(GNNExplainer, epochs=3))
    file = ("--data", molecules_csv, "--target-columns", "pIC50", "--smarts", "cF")
    return partial(compare, *file)


def test_explains_and_reports(explain, tmp_path) -> None:
    out = printed(explain())
    saved = tmp_path / "out" / "runs" / "planted" / "model" / "estimator.npz"
    content = saved.read_bytes()
    saved.write_bytes(b"other")
    assert "and --resume trains it again" in explain("--report")[2]
    saved.write_bytes(content)
    paths = [path for path in tmp_path.glob("out/runs/*/record.json") if "-" in path.parent.name]
    records = {path.parent.name: json.loads(path.read_text()) for path in paths}
    assert len(records) == 8
    *methods, planted, measured = metrics_of(tmp_path / "out")
    assert [one["method"] for one in methods] == list(METHODS)
    for one in methods:
        own = [record for name, record in records.items() if name.startswith(one["method"])]
        assert one["molecules"] == len(own) == 2
        assert one["precision"] == pytest.approx(sum(r["precision"] for r in own) / 2)
        row = rf"^{one['method']} +{one['precision']:.3f} +{one['fid+']:.2f} +{one['fid-']:.2f} "
        assert re.search(row, out, re.MULTILINE)
    assert [planted["cell"], measured["cell"]] == ["planted", "measured"]
    assert "the number of cF in a molecule" in (tmp_path / "out" / "table.md").read_text()
    page = (tmp_path / "out" / "explanations.html").read_text()
    assert page.count("<svg") == page.count("</svg>") == 2  # one of each kind


@pytest.fixture
def network(molecules_csv, tmp_path) -> Callable[..., Path]:
    """The run of a network on the small file, or on another one."""

    def train(model: str, path: Path = molecules_csv, *words: object) -> Path:
        small = ("--device", "cpu", "--quiet", "--epochs", 1, "--hidden", 3, "--layers", 2)
        out = tmp_path / f"{model}-{path.stem}"
        file = ("--data", path, "--model", model, "--out", out)
        done("benchmarks.molecules", *small, *file, *words)
        return out / "runs" / f"{path.stem}-random-{model}-seed0"

    return train


def test_a_trained_network_takes_the_place_of_one(explain, network, tmp_path) -> None:
    run = network("wl")
    assert explain("--run", run, "--methods", "walks")[0] == 0
    assert not (tmp_path / "out" / "runs" / "measured").exists()
    # The same network may lie elsewhere; another one, or none, is not mixed with it.
    moved = run.rename(tmp_path / "moved")
    assert explain("--run", moved, "--methods", "random", "--resume")[0] == 0
    assert [one["method"] for one in metrics_of(tmp_path / "out")[:2]] == ["walks", "random"]
    for words in (("--run", network("wl-gated")), ()):
        assert_refused(explain(*words, "--resume"), "was made with network of --run")
    out = tmp_path / "refused"
    result = explain("--run", network("gine"), "--out", out)
    assert_refused(result, "model='gine' is no sum over walks")
    assert not out.exists()


def test_networks_of_another_target_are_refused(network, sulfonamides, write_csv, explain) -> None:
    named = [{"smiles": row["smiles"], "size": row["pIC50"]} for row in sulfonamides]
    run = network("wl", write_csv(named, "named"))
    said = f"--run {run} was trained on the target 'size', not on 'pIC50'"
    assert_refused(explain("--run", run), said)
    classes = [{**row, "pIC50": str(number % 2)} for number, row in enumerate(sulfonamides)]
    run = network("wl", write_csv(classes, "classes"), "--task", "classification")
    said = f"--run {run} classifies, but 'pIC50' is a number here"
    assert_refused(explain("--run", run), said)


def test_sentences_are_explained(explain, tmp_path, drawn) -> None:
    """On short sentences in the form of the Stanford Sentiment Treebank."""
    root, out = tmp_path / "sst", tmp_path / "out"
    root.mkdir()
    for part, number in (("train", 24), ("dev", 6), ("test", 6)):
        lines = [f"{i % 2} this {('bad', 'good')[i % 2]} film is a film .\n" for i in range(number)]
        (root / f"stsa.binary.{part}").write_text("".join(lines))
    texts = ("--text-root", root, "--methods", "walks")
    assert explain(*texts, "--sentences", "a good film", "a $5 <film>")[0] == 0
    *_, texts_run, one, other = metrics_of(out)
    assert texts_run["cell"] == "texts"
    assert [one["text"], other["text"]] == ["a good film", "a $ 5 < film >"]
    assert max(one["gap"], other["gap"]) < 1e-10
    assert (out / "sentence-2.png").read_bytes().startswith(b"\x89PNG")
    page = (out / "explanations.html").read_text()
    assert "&lt;" in page
    assert page.count("base64,") == 2
    # Fewer sentences leave no picture of others behind.
    assert explain(*texts, "--resume")[0] == 0
    assert metrics_of(out)[-1]["text"] == "this bad film is a film ."
    assert not (out / "sentence-2.png").exists()
