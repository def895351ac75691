"""The explainers that are compared."""

import pytest
import torch

pytest.importorskip("lightning", reason="the benchmark needs the extra 'bench'")
pytest.importorskip("rdkit", reason="molecules need the extra 'mol'")
pytest.importorskip("captum", reason="the benchmark needs the extra 'bench'")

from benchmarks.harness.explanations import methods, options
from benchmarks.harness.explanations.methods import METHODS, explain, explainer_of
from pyg_kernels.explain import model_contributions
from tests.benchmarks.harness.explanations.small import molecules, network

FEW = (3, 4)


def test_the_command_line_names_all_methods() -> None:
    assert tuple(METHODS) == options.METHODS


@pytest.mark.parametrize("name", METHODS)
def test_every_method_explains_and_repeats_itself(name: str) -> None:
    net, molecule = network(), molecules()[5]
    explainer = explainer_of(name, net, *FEW)
    found = explain(explainer, molecule, seed=3)
    assert found.nodes.shape == (molecule.num_nodes,)
    assert found.edges.shape == (molecule.num_edges,)
    assert found.seconds > 0
    again = explain(explainer, molecule, seed=3)
    torch.testing.assert_close(again.nodes, found.nodes, rtol=0, atol=0)


def test_walks_are_the_exact_attribution() -> None:
    net, molecule = network(), molecules()[1]
    found = explain(explainer_of("walks", net, *FEW), molecule, seed=0)
    attribution = model_contributions(net, molecule.x, molecule.edge_index, molecule.edge_attr)
    torch.testing.assert_close(found.nodes, attribution.nodes)
    torch.testing.assert_close(found.edges, attribution.edges)


def test_integrated_gradients_add_up_to_the_difference_from_nothing() -> None:
    net, molecule = network(), molecules()[1]
    explainer = explainer_of("integrated-gradients", net, ig_steps=200)
    found = explain(explainer, molecule, seed=0)
    batch = torch.zeros(molecule.num_nodes, dtype=torch.long)
    with torch.no_grad():
        whole = net(molecule.x, molecule.edge_index, edge_attr=molecule.edge_attr, batch=batch)
        nothing = net(
            torch.zeros_like(molecule.x),
            molecule.edge_index[:, :0],
            edge_attr=molecule.edge_attr[:0],
            batch=batch,
        )
    total = (found.nodes.sum() + found.edges.sum()).item()
    assert total == pytest.approx((whole - nothing).item(), abs=0.01)


def test_methods_do_not_disturb_each_other() -> None:
    """GNNExplainer leaves parameters in what it explains."""
    net, molecule = network(), molecules()[1]
    alone = explain(explainer_of("integrated-gradients", net, *FEW), molecule, seed=0)
    explain(explainer_of("gnn-explainer", net, *FEW), molecule, seed=0)
    after = explain(explainer_of("integrated-gradients", net, *FEW), molecule, seed=0)
    torch.testing.assert_close(after.nodes, alone.nodes, rtol=0, atol=0)
    assert methods.graph_arguments(molecule)["batch"].tolist() == [0] * molecule.num_nodes
