"""One recurrence: the sequence layer equals the graph layer on the closure of the path."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from pyg_kernels.nn import RandomWalkConv
from pyg_kernels.sequence import RCNN
from tests.sequence.rcnn_equations import decays, random_rcnn
from tests.sequence.texts import F64, random_text

LENGTH, FEATURES, HIDDEN = 8, 3, 4


def closure(decay: Tensor, normalize: bool) -> tuple[Tensor, Tensor]:
    """An edge from every token to every later one, and its weights, (E, D)."""
    edges, weights = [], []
    for t in range(len(decay)):
        for s in range(t):
            weight = (1 - decay[s]) if normalize else torch.ones_like(decay[s])
            for r in range(s + 1, t):
                weight = weight * decay[r]
            edges.append((s, t))
            weights.append(weight)
    return torch.tensor(edges).t(), torch.stack(weights)


def graph_states(rcnn: RCNN, x: Tensor, decay: Tensor, combine: str, normalize: bool) -> list:
    lins = rcnn.cells[0].lins
    conv = RandomWalkConv(
        FEATURES,
        HIDDEN,
        order=len(lins),
        decay=1.0,
        combine=combine,
        act=None,
        edge_dim=HIDDEN,
        return_states=True,
    ).double()
    for lin, other in zip(conv.lins, lins, strict=True):
        lin.weight.data.copy_(other.weight)
    for edge_lin in conv.edge_lins:
        edge_lin.weight.data.copy_(torch.eye(HIDDEN))
    return conv(x, *closure(decay, normalize))


@pytest.mark.parametrize("order", [1, 2, 3, 4])
@pytest.mark.parametrize("combine", ["mul", "add"])
@pytest.mark.parametrize("normalize", [False, True])
@pytest.mark.parametrize("decay", [0.0, 0.7, "learned", "input"])
def test_unity(order: int, combine: str, normalize: bool, decay: float | str) -> None:
    x = random_text(LENGTH, FEATURES, seed=order)
    found = {}
    for readout in ["z", "c", "sum"]:
        rcnn = random_rcnn(
            FEATURES,
            HIDDEN,
            order=order,
            combine=combine,
            normalize=normalize,
            decay=decay,
            readout=readout,
            act=None,
            bias=False,
        )
        found[readout] = rcnn(x)[0]
    lam = decays(rcnn.cells[0], x, decay)
    z = graph_states(rcnn, x, lam, combine, normalize)

    c = []
    for z_j in z:
        rows = []
        for t in range(LENGTH):
            total = torch.zeros(HIDDEN, dtype=F64)
            for s in range(t + 1):
                weight = (1 - lam[s]) if normalize else 1.0
                total = total + weight * lam[s + 1 : t + 1].prod(dim=0) * z_j[s]
            rows.append(total)
        c.append(torch.stack(rows))
    expected = {"z": z[-1], "c": c[-1], "sum": torch.stack(c).sum(dim=0)}
    for readout, value in found.items():
        torch.testing.assert_close(value, expected[readout], rtol=1e-13, atol=1e-14)
