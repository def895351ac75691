"""Equation 9 of Lei et al. 2017, written out node by node."""

from __future__ import annotations

import pytest
import torch

from pyg_kernels.nn import GraphKernelConv
from tests.graphs import random_graph


@pytest.mark.parametrize("order", [1, 2, 3])
@pytest.mark.parametrize("combine", ["mul", "add"])
def test_equation_9(order: int, combine: str) -> None:
    torch.manual_seed(order)
    graph = random_graph(2)
    conv = GraphKernelConv(4, 5, order, 0.3, combine, act="tanh", edge_dim=3).double()
    state = [conv.lins[0].weight @ f for f in graph.x]
    for step in range(1, order):
        own = [conv.lins[step].weight @ f for f in graph.x]
        total = [torch.zeros(5, dtype=torch.float64) for _ in graph.x]
        for (source, target), bond in zip(
            graph.edge_index.t().tolist(), graph.edge_attr, strict=True
        ):
            factor = conv.edge_lins[step - 1].weight @ bond
            total[target] = total[target] + 0.3 * factor * torch.tanh(state[source])
        state = [p * t if combine == "mul" else p + t for p, t in zip(own, total, strict=True)]
    expected = torch.stack([torch.tanh(conv.lin.weight @ c) for c in state])
    out = conv(graph.x, graph.edge_index, graph.edge_attr)
    torch.testing.assert_close(out, expected, rtol=1e-10, atol=1e-12)
