"""Attributions in the target's own units."""

import pytest
import torch

pytest.importorskip("lightning", reason="the benchmark needs the extra 'bench'")
pytest.importorskip("rdkit", reason="molecules need the extra 'mol'")

from benchmarks.harness.errors import InputError
from benchmarks.harness.explanations.attributions import Attributor, scale_of
from benchmarks.harness.molecules.classifier import MoleculeClassifier
from tests.benchmarks.harness.explanations.small import molecules, regressor


@pytest.mark.parametrize("norm", [None, "batch"], ids=["plain", "batch-norm"])
@pytest.mark.parametrize("name", ["wl-gated", "wl"])
def test_atoms_and_offset_are_the_prediction(name: str, norm: str | None) -> None:
    learner, data = regressor(name, norm=norm), molecules()
    if norm:  # statistics of their own
        learner.train()
        learner.outputs(data.batch(list(range(10))))
        learner.eval()
    attributor = Attributor(learner, best=3)
    for place in (1, 4, 5):
        found = attributor(data[place])
        with torch.no_grad():
            expected = learner(data.batch([place])).item()
        assert found.prediction == pytest.approx(expected, abs=1e-5)  # the learner's is float32
        assert found.nodes.sum().item() + found.offset == pytest.approx(found.prediction, abs=1e-10)
        assert found.gap < 1e-10
        assert found.measured == place
        assert len(found.walks) == 3
        assert len(found.edges) == found.edge_index.size(1)
    assert next(learner.parameters()).dtype == torch.float32


@pytest.mark.parametrize(
    ("name", "message"),
    [("gine", "IsomorphismNet|GINEConv"), ("gin", "GINConv"), ("neural-fingerprint", "MFConv")],
    ids=["gine", "gin", "neural-fingerprint"],
)
def test_networks_that_are_no_sums_over_walks_are_named(name: str, message: str) -> None:
    with pytest.raises(InputError, match=f"no attribution for this network: .*({message})"):
        Attributor(regressor(name), best=1)(molecules()[0])


def test_of_a_class_the_attribution_is_that_of_its_log_odds() -> None:
    learner, data = regressor(), molecules()
    assert scale_of(learner) == (1.5, 2.0)
    classifier = MoleculeClassifier(
        learner.hparams["model"],
        {"names": ["active"], "log_odds": [0.75]},
        learner.hparams["features"],
        "rocauc",
    ).eval()
    found = Attributor(classifier, best=1)(data[5])
    with torch.no_grad():
        probability = classifier(data.batch([5])).item()
    assert torch.tensor(found.prediction).sigmoid().item() == pytest.approx(probability, abs=1e-6)
