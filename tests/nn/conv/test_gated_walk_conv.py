"""Gates: every walk is weighted by the product of the gates along it."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from pyg_kernels.nn import GatedWalkConv
from tests.graphs import SMILES, Graph, molecule, random_graph
from tests.walk_kernels import walk_kernel


def edge_weights(conv: GatedWalkConv, graph: Graph) -> list[Tensor]:
    """sigmoid(U [f_u, f_v, e_uv] + b), with U put together from its blocks, times bonds."""
    if conv.order == 1:
        return []
    gate = conv.weighting
    blocks = [gate.lin_source.weight, gate.lin_target.weight]
    rows = [graph.x[graph.edge_index[0]], graph.x[graph.edge_index[1]]]
    if conv.edge_dim is not None:
        blocks.append(gate.lin_edge.weight)
        rows.append(graph.edge_attr)
    opened = torch.sigmoid(torch.cat(rows, 1) @ torch.cat(blocks, 1).t() + gate.bias)
    if conv.edge_dim is None:
        return [opened] * (conv.order - 1)
    return [opened * (graph.edge_attr @ lin.weight.t()) for lin in conv.edge_lins]


def assert_equals_its_kernel(conv: GatedWalkConv, graph: Graph) -> None:
    attr = None if conv.edge_dim is None else graph.edge_attr
    expected = walk_kernel(
        graph.x,
        graph.edge_index,
        [lin.weight for lin in conv.lins],
        edge_weights(conv, graph),
        conv.combine,
        conv.non_backtracking,
    )
    total = conv(graph.x, graph.edge_index, attr).sum(dim=0)
    torch.testing.assert_close(total, expected, rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("order", [1, 2, 3, 4, 5])
@pytest.mark.parametrize("combine", ["mul", "add"])
@pytest.mark.parametrize("bonds", [False, True])
@pytest.mark.parametrize("non_backtracking", [False, True])
def test_random_graphs(order: int, combine: str, bonds: bool, non_backtracking: bool) -> None:
    torch.manual_seed(order)
    options = {"edge_dim": 3 if bonds else None, "non_backtracking": non_backtracking}
    conv = GatedWalkConv(4, 6, order, combine, **options).double()
    if order > 1:
        torch.nn.init.normal_(conv.weighting.bias)
    for seed in range(3):
        assert_equals_its_kernel(conv, random_graph(seed, kinds=2 if seed == 0 else None))


@pytest.mark.parametrize("order", [1, 2, 3, 4, 5])
@pytest.mark.parametrize("smiles", SMILES)
def test_molecules(order: int, smiles: str) -> None:
    torch.manual_seed(order)
    graph = molecule(smiles)
    conv = GatedWalkConv(5, 3, order, edge_dim=graph.edge_attr.size(1)).double()
    assert_equals_its_kernel(conv, graph)
