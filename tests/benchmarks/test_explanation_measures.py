"""Explainers of molecules and sentences beside what they are defined as."""

from dataclasses import asdict, replace
from functools import partial
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn
from torch_geometric.data import Data
from torch_geometric.explain import GNNExplainer

pytest.importorskip("rdkit", reason="molecules need the extra 'mol'")

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
from pyg_kernels.molecules.networks import Sizes, build_network

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


def network() -> nn.Module:
    torch.manual_seed(0)
    features = molecules().featurizer
    sizes = Sizes(features.atom_dim, 1, features.bond_dim, 4, 2, options={"norm": None})
    return build_network("wl-gated", sizes).eval()


def predicted(net: nn.Module, graph: Data) -> float:
    with torch.no_grad():
        return net(graph.x, graph.edge_index, **measures.graph_arguments(graph)).item()


def test_every_method_repeats_itself_whatever_ran_before(monkeypatch: pytest.MonkeyPatch) -> None:
    """GNNExplainer leaves parameters in what it explains."""
    monkeypatch.setattr(measures, "GNNExplainer", partial(GNNExplainer, epochs=20))
    net, molecule = network(), molecules()[5]
    first, again = (
        {name: measures.explain(measures.explainer_of(name, net), molecule, 3) for name in METHODS}
        for _ in range(2)
    )
    for method, (nodes, seconds) in first.items():
        assert nodes.shape == (molecule.num_nodes,)
        assert seconds > 0
        torch.testing.assert_close(again[method][0], nodes, rtol=0, atol=0)
    # Walks are the exact attribution.
    exact = model_contributions(net, molecule.x, molecule.edge_index, molecule.edge_attr)
    torch.testing.assert_close(first["walks"][0], exact.nodes)


@pytest.mark.parametrize("place", [0, 1, 5, 9], ids=[SMILES[i] for i in (0, 1, 5, 9)])
def test_fidelity_is_the_network_on_what_is_left(place: int) -> None:
    """Without normalisation a masked atom is no atom: the network reads the rest as a graph."""
    net, molecule = measures.NumberNet(network(), 1.5, 8.0), molecules()[place]
    selected = torch.zeros(molecule.num_nodes, dtype=torch.bool)
    selected[[0, 2, 3]] = True
    whole, without, alone = (
        predicted(net, molecule.subgraph(kept))
        for kept in (torch.ones_like(selected), ~selected, selected)
    )

    def changes(number: float) -> bool:
        return min(3, max(0, round(number))) != min(3, max(0, round(whole)))

    found = measures.Fidelity(net, most=3)(molecule, selected)
    assert found["change_without"] == pytest.approx(abs(without - whole), abs=1e-4)
    assert found["change_alone"] == pytest.approx(abs(alone - whole), abs=1e-4)
    assert found["fid-"] == changes(alone)
    # PyG's complement leaves the edges that join the two.
    joined = ~selected[molecule.edge_index].all(dim=0)
    x = molecule.x * ~selected.unsqueeze(1)
    rest = Data(x, molecule.edge_index[:, joined], molecule.edge_attr[joined])
    assert found["fid+"] == changes(predicted(net, rest))
    assert predicted(net, molecule) == whole  # masks are gone


def test_explained_molecules_have_the_group() -> None:
    test = split(6, 7, 9)
    _, evidence = task.planted(test, "cF")
    assert task.places_with_evidence(test, evidence, 10, seed=0) == [7, 9]
    one = task.places_with_evidence(test, evidence, 1, seed=0)
    assert one in ([7], [9])
    assert task.places_with_evidence(test, evidence, 1, seed=0) == one
    with pytest.raises(InputError, match="no molecule of the test part has the group"):
        task.places_with_evidence(split(2, 3), evidence, 1, seed=0)


def classifier(rcnn_readout: str = "sum", decay: object = "input") -> TextClassifier:
    torch.manual_seed(2)
    options = {"activation": "relu", "rcnn_readout": rcnn_readout, "decay": decay, "dropout": 0.5}
    config = TextModelConfig("rcnn", len(WORDS) + 2, 4, True, 2, 5, num_layers=1, **options)
    learner = TextClassifier(asdict(config), WORDS, ["bad", "good"])
    for parameter in learner.net.parameters():  # biases are zero at the start
        if parameter.dim() == 1:
            nn.init.normal_(parameter)
    return learner.eval()


@pytest.mark.parametrize("rcnn_readout", ["c", "z", "sum"])
@pytest.mark.parametrize("decay", ["input", 0.5, "learned", "recurrent"], ids=str)
def test_words_and_constant_are_the_score(rcnn_readout: str, decay: object) -> None:
    learner, ids = classifier(rcnn_readout, decay), torch.tensor([2, 3, 6, 1, 5])
    ptr = torch.tensor([0, 5])
    with torch.no_grad():
        first, last = learner.net(TextBatch(ids, ptr, torch.zeros(1)))[0].tolist()
        x = learner.net.embedding(ids)
        h, _ = learner.net.encoder.rcnn(x, ptr=ptr)
    found = attributed(learner, TEXT)
    assert found.score == pytest.approx(last - first, abs=1e-5)
    assert found.gap < 1e-10
    assert found.title.startswith(f"score of class good over class bad: {found.score:+.2f}; ")
    assert found.title.endswith("good" if last > first else "bad")
    record = found.record()
    assert record["text"] == " ".join(TEXT)
    assert len(record["tokens"]) == len(found.gates) == 5
    if decay == 0.5:
        assert found.gates.unique().tolist() == [0.5]
    elif decay != "learned":
        cell = learner.net.encoder.rcnn.cells[0].float()
        logits = cell.decay_lin(x) + cell.decay_bias
        if decay == "recurrent":
            logits = logits + cell.decay_recurrent(torch.cat((torch.zeros_like(h[:1]), h[:-1])))
        torch.testing.assert_close(found.gates, logits.sigmoid().double(), atol=1e-6, rtol=0)


def test_a_sum_that_is_not_the_score_is_no_attribution(monkeypatch: pytest.MonkeyPatch) -> None:
    def shifted(*arguments: object) -> object:
        found = text_contributions(*arguments)
        return replace(found, remainder=found.remainder + 1e-4)

    monkeypatch.setattr(measures, "text_contributions", shifted)
    with pytest.raises(InputError, match=r"words add up to .*, the classifier's score is"):
        attributed(classifier(), TEXT)
