"""How good an explanation is: precision, and PyG's fidelity by hand."""

import pytest
import torch
from torch_geometric.data import Data

pytest.importorskip("lightning", reason="the benchmark needs the extra 'bench'")
pytest.importorskip("rdkit", reason="molecules need the extra 'mol'")
pytest.importorskip("captum", reason="the benchmark needs the extra 'bench'")

from benchmarks.harness.explanations.measures import (
    Fidelity,
    NearestNumber,
    NumberNet,
    precision,
    selected_atoms,
)
from tests.benchmarks.harness.explanations.small import SMILES, molecules, network


def test_the_atoms_with_the_largest_values_are_selected() -> None:
    values = torch.tensor([0.1, 0.7, -9.0, 0.7, 0.2])
    assert selected_atoms(values, 2).tolist() == [False, True, False, True, False]
    assert selected_atoms(values, 1).tolist() == [False, True, False, False, False]
    assert selected_atoms(torch.zeros(3), 2).tolist() == [True, True, False]
    assert not selected_atoms(values, 0).any()


def test_precision_is_the_share_of_selected_atoms() -> None:
    selected = torch.tensor([True, True, False, True])
    assert precision(selected, torch.tensor([True, False, True, True])) == pytest.approx(2 / 3)


def test_scores_are_best_at_the_nearest_number() -> None:
    molecule = molecules()[0]
    batch = torch.zeros(molecule.num_nodes, dtype=torch.long)
    for predicted, nearest in ((-1.0, 0), (0.4, 0), (0.6, 1), (2.4, 2), (9.0, 3)):

        class Constant(torch.nn.Module):
            def __init__(self, value: float) -> None:
                super().__init__()
                self.value = value

            def forward(self, x, edge_index, batch, edge_attr):
                return torch.full((1, 1), self.value)

        net = NearestNumber(NumberNet(Constant((predicted - 1.5) / 2), 1.5, 2.0), most=3)
        scores = net(molecule.x, molecule.edge_index, edge_attr=molecule.edge_attr, batch=batch)
        assert scores.shape == (1, 4)
        assert int(scores.argmax()) == nearest


@pytest.mark.parametrize("place", [0, 1, 5, 9], ids=[SMILES[i] for i in (0, 1, 5, 9)])
def test_fidelity_is_the_network_on_what_is_left(place: int) -> None:
    """Without normalisation a masked atom is no atom: the network reads the rest as a graph."""
    net = NumberNet(network(), 1.5, 8.0)
    molecule = molecules()[place]
    selected = torch.zeros(molecule.num_nodes, dtype=torch.bool)
    selected[[0, 2, 3]] = True

    def number(kept: torch.Tensor) -> float:
        return read(net, molecule.subgraph(kept))

    found = Fidelity(net, most=3)(molecule, selected)
    whole, without, alone = (
        number(kept) for kept in (torch.ones_like(selected), ~selected, selected)
    )
    assert found["change without"] == pytest.approx(abs(without - whole), abs=1e-4)
    assert found["change alone"] == pytest.approx(abs(alone - whole), abs=1e-4)
    assert found["fid-"] == (nearest(alone) != nearest(whole))
    # PyG's complement leaves the edges that join the two.
    joined = ~selected[molecule.edge_index].all(dim=0)
    x = molecule.x * ~selected.unsqueeze(1)
    rest = Data(x, molecule.edge_index[:, joined], molecule.edge_attr[joined])
    assert found["fid+"] == (nearest(read(net, rest)) != nearest(whole))


def read(net: NumberNet, graph: Data) -> float:
    batch = torch.zeros(graph.x.size(0), dtype=torch.long)
    with torch.no_grad():
        return net(graph.x, graph.edge_index, edge_attr=graph.edge_attr, batch=batch).item()


def nearest(number: float) -> int:
    return min(3, max(0, round(number)))


def test_masks_leave_the_network_as_it_was() -> None:
    molecule = molecules()[1]
    batch = torch.zeros(molecule.num_nodes, dtype=torch.long)
    net = NumberNet(network(), 0.0, 1.0)
    graph = {"x": molecule.x, "edge_index": molecule.edge_index, "batch": batch}
    graph["edge_attr"] = molecule.edge_attr
    before = net(**graph)
    Fidelity(net, 3)(molecule, torch.ones(molecule.num_nodes, dtype=torch.bool))
    torch.testing.assert_close(net(**graph), before, rtol=0, atol=0)
