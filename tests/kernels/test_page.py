"""The snippets of "Exact kernels" run as printed."""

import numpy as np
import pytest
import torch
from torch_geometric import datasets
from torch_geometric.data import Data

from tests.kernels.cases import labelled_graph
from tests.pages import code_blocks, run


def instead_of_mutag(root: str, name: str) -> list[Data]:
    """Graphs with one-hot labels and classes, in place of MUTAG."""
    assert name == "MUTAG"
    graphs = [labelled_graph(3 + i % 4, i) for i in range(24)]
    for i, graph in enumerate(graphs):
        graph.x, graph.edge_attr = torch.eye(3)[graph.x], torch.eye(2)[graph.edge_attr]
        graph.y = torch.tensor([i % 2])
    return graphs


def test_snippets(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(datasets, "TUDataset", instead_of_mutag)
    blocks = (block for block in code_blocks("kernels.rst") if "gpytorch" not in block)
    names = run(*blocks)  # test_gpytorch.py runs GPyTorch's
    assert names["gram"].shape == (24, 24) and names["rows"].shape == (2, 24)
    assert names["mean"].shape == names["std"].shape == (10,)
    np.testing.assert_allclose(names["probabilities"].sum(1), np.ones(10))
    np.testing.assert_allclose(names["expected"], names["mean"], atol=1e-9)
    assert names["scores"].shape == (3,)
