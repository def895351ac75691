"""``python -m benchmarks.papers.explanations``, and its explainers against their definitions."""

import pytest

pytest.importorskip("rdkit", reason="molecules need the extra 'mol'")
import json
import re
from collections.abc import Callable
from dataclasses import asdict, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn
from torch_geometric.data import Data
from torch_geometric.explain import GNNExplainer

from benchmarks.harness.errors import InputError
from benchmarks.harness.text.options import TextModelConfig
from benchmarks.harness.text.task import TextClassifier
from benchmarks.molecules.data import MoleculeSet, Split
from benchmarks.papers.explanations import measures, task
from benchmarks.papers.explanations.measures import attributed
from benchmarks.papers.explanations.options import METHODS
from pyg_kernels.datasets import MoleculeDataset
from pyg_kernels.datasets.text import TextBatch
from pyg_kernels.explain import model_contributions
from pyg_kernels.explain.text_net import text_contributions
from pyg_kernels.molecules.networks import build_network
from tests.benchmarks.conftest import assert_refused, done, metrics_of, printed

PROGRAM = "benchmarks.papers.explanations"
SMALL = ("--hidden", 3, "--layers", 1, "--epochs", 1, "--molecules", 2, "--drawn", 1, "--quiet")


@pytest.fixture
def explain(compare, molecules_csv: Path, monkeypatch):
    """Calls the command on two molecules of a small file."""
    monkeypatch.setattr(measures, "GNNExplainer", partial(GNNExplainer, epochs=3))
    file = ("--data", molecules_csv, "--target-columns", "pIC50", "--smarts", "cF")
    return partial(compare, *file)


def test_explains_and_reports(explain, tmp_path) -> None:
    out = printed(explain())
    saved = tmp_path / "out" / "runs" / "planted" / "model" / "estimator.npz"
    content = saved.read_bytes()
    saved.write_bytes(b"other")
    assert "and --resume does this run again" in explain("--report")[2]
    saved.write_bytes(content)
    paths = tmp_path.glob("out/runs/*-*/record.json")
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
    """Trains a network on the small file, or on another one; returns the folder of its run."""

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
    # The network may have moved. Results of another network, or of none, are not mixed with it.
    moved = run.rename(tmp_path / "moved")
    assert explain("--run", moved, "--methods", "random", "--resume")[0] == 0
    assert [one["method"] for one in metrics_of(tmp_path / "out")[:2]] == ["walks", "random"]
    for words in (("--run", network("wl-gated")), ()):
        assert_refused(explain(*words, "--resume"), "was made with network of --run")
    out = tmp_path / "refused"
    result = explain("--run", network("gine"), "--out", out)
    assert_refused(result, "model='gine' is not a sum over walks")
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
    """On short sentences in the format of the Stanford Sentiment Treebank."""
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
    assert "&lt;" in page and page.count("base64,") == 2
    # With fewer sentences, no picture of an earlier sentence is left behind.
    assert explain(*texts, "--resume")[0] == 0
    assert metrics_of(out)[-1]["text"] == "this bad film is a film ."
    assert not (out / "sentence-2.png").exists()


SMILES = (
    *("c1ccccc1F", "Fc1ccc(F)cc1", "c1ccccc1", "CC(F)(F)F", "CCO", "Cc1ccc(F)cc1C(F)(F)F"),
    *("c1ccncc1", "Fc1ccncc1", "CC(=O)N", "c1cc(F)c(F)c(F)c1"),
)
WORDS = ["a", "good", "bad", "film", "silent"]
TEXT = ("a", "good", "silent", "unheard", "film")


def molecules() -> Any:
    return MoleculeDataset.from_smiles(SMILES, torch.arange(10.0), ["size"])


def split(*test: int) -> Split:
    parts = {"train": np.arange(6), "valid": np.array([8]), "test": np.array(test)}
    return Split(MoleculeSet("small", molecules(), "rmse"), "random", parts)


def small_network() -> nn.Module:
    torch.manual_seed(0)
    features = molecules().featurizer
    sizes = features.atom_dim, 1, features.bond_dim, 4, 2
    return build_network("wl-gated", *sizes, options={"norm": None}).eval()


def predicted(net: nn.Module, graph: Data) -> float:
    with torch.no_grad():
        return net(graph.x, graph.edge_index, **measures.graph_arguments(graph)).item()


def test_every_method_repeats_itself_whatever_ran_before(monkeypatch: pytest.MonkeyPatch) -> None:
    """GNNExplainer leaves parameters in the network that it explains."""
    monkeypatch.setattr(measures, "GNNExplainer", partial(GNNExplainer, epochs=20))
    net, molecule = small_network(), molecules()[5]
    first, again = (
        {name: measures.explain(measures.explainer_of(name, net), molecule, 3) for name in METHODS}
        for _ in range(2)
    )
    for method, (nodes, seconds) in first.items():
        assert nodes.shape == (molecule.num_nodes,) and seconds > 0
        torch.testing.assert_close(again[method][0], nodes, rtol=0, atol=0)
    # The method "walks" gives the exact attribution.
    exact = model_contributions(net, molecule.x, molecule.edge_index, molecule.edge_attr)
    torch.testing.assert_close(first["walks"][0], exact.nodes)


class WithAtoms(nn.Module):
    """A network that also counts what isolated atoms have, which a sum over walks does not see."""

    def __init__(self) -> None:
        super().__init__()
        self.net = small_network()

    def forward(self, x: torch.Tensor, edge_index: torch.Tensor, **graph: Any) -> torch.Tensor:
        return self.net(x, edge_index, **graph) + x.sum() / 400


@pytest.mark.parametrize("place", [0, 1, 5, 9], ids=[SMILES[i] for i in (0, 1, 5, 9)])
def test_fidelity_is_the_network_on_what_is_left(place: int) -> None:
    """Without normalisation, masking atoms removes them: the network reads the rest as a graph."""
    net, molecule = measures.NumberNet(WithAtoms(), -2.8, 8.0), molecules()[place]
    selected = torch.zeros(molecule.num_nodes, dtype=torch.bool)
    selected[[0, 2, 3]] = True
    whole, without, alone = (
        predicted(net, molecule.subgraph(kept))
        for kept in (torch.ones_like(selected), ~selected, selected)
    )

    def changes(number: float) -> bool:
        return min(3, max(0, round(number))) != min(3, max(0, round(whole)))

    found = measures.fidelities(net, 3, molecule, selected)
    assert found["change_without"] == pytest.approx(abs(without - whole), abs=1e-4)
    assert found["change_alone"] == pytest.approx(abs(alone - whole), abs=1e-4)
    assert found["fid-"] == changes(alone) == (place != 0)
    # PyG's complement keeps the edges between selected and other atoms.
    joined = ~selected[molecule.edge_index].all(dim=0)
    x = molecule.x * ~selected.unsqueeze(1)
    rest = Data(x, molecule.edge_index[:, joined], molecule.edge_attr[joined])
    assert found["fid+"] == changes(predicted(net, rest)) == (place != 0)
    assert predicted(net, molecule) == whole  # no mask is left behind


def test_explained_molecules_have_the_group() -> None:
    test = split(6, 7, 9)
    _, evidence = task.planted(test, "cF")
    assert task.places_with_evidence(test, evidence, 10, seed=0) == [7, 9]
    one, again = (task.places_with_evidence(test, evidence, 1, seed=0) for _ in range(2))
    assert again == one and one in ([7], [9])
    with pytest.raises(InputError, match="no molecule of the test part has the group"):
        task.places_with_evidence(split(2, 3), evidence, 1, seed=0)


def classifier(seed: int) -> TextClassifier:
    torch.manual_seed(seed)
    options = {"activation": "relu", "rcnn_readout": "sum", "decay": "input", "dropout": 0.5}
    config = TextModelConfig("rcnn", len(WORDS) + 2, 4, True, 2, 5, num_layers=1, **options)
    learner = TextClassifier(asdict(config), WORDS, ["bad", "good"])
    for parameter in learner.net.parameters():  # biases are zero at the start
        if parameter.dim() == 1:
            nn.init.normal_(parameter)
    return learner.eval()


@pytest.mark.parametrize(("seed", "predicted"), [(2, "bad"), (3, "good")])
def test_words_and_constant_are_the_score(seed: int, predicted: str) -> None:
    learner, ids = classifier(seed), torch.tensor([2, 3, 6, 1, 5])
    with torch.no_grad():
        batch = TextBatch(ids, torch.tensor([0, 5]), torch.zeros(1))
        first, last = learner.net(batch)[0].tolist()
        cell = learner.net.encoder.layers[0].cells[0]
        gates = (cell.decay_lin(learner.net.embedding(ids)) + cell.decay_bias).sigmoid()
    found = attributed(learner, TEXT)
    assert found.score == pytest.approx(last - first, abs=1e-5)
    assert found.gap < 1e-10
    assert found.title.startswith(f"score of class good over class bad: {found.score:+.2f}; ")
    assert found.title.endswith(f"predicted {predicted}")
    record = found.record()
    assert record["text"] == " ".join(TEXT)
    assert len(record["tokens"]) == 5
    torch.testing.assert_close(found.gates, gates.double(), atol=1e-6, rtol=0)


def test_a_sum_that_is_not_the_score_is_no_attribution(monkeypatch: pytest.MonkeyPatch) -> None:
    def shifted(*arguments: object) -> object:
        found = text_contributions(*arguments)
        return replace(found, remainder=found.remainder + 1e-4)

    monkeypatch.setattr(measures, "text_contributions", shifted)
    with pytest.raises(InputError, match=r"words add up to .*, the classifier's score is"):
        attributed(classifier(2), TEXT)
