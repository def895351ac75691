"""Graphs that the tests share: random graphs with awkward parts, and molecules."""

from dataclasses import dataclass

import pytest
import torch
from torch import Tensor
from torch_geometric.data import Batch, Data


@dataclass
class Graph:
    x: Tensor
    edge_index: Tensor
    edge_attr: Tensor

    @property
    def num_nodes(self) -> int:
        return self.x.size(0)


def random_graph(
    seed: int,
    num_nodes: int = 6,
    num_edges: int = 9,
    channels: int = 4,
    edge_dim: int = 3,
    dtype: torch.dtype = torch.float64,
    kinds: int | None = None,
) -> Graph:
    """A directed graph with self-loops, parallel edges and one isolated node (the last).

    With `kinds`, the edge features have at most that many different rows.
    """
    generator = torch.Generator().manual_seed(seed)
    x = torch.randn(num_nodes, channels, generator=generator, dtype=dtype)
    edge_index = torch.randint(num_nodes - 1, (2, num_edges), generator=generator)
    if kinds is None:
        edge_attr = torch.randn(num_edges, edge_dim, generator=generator, dtype=dtype)
    else:
        rows = torch.randn(kinds, edge_dim, generator=generator, dtype=dtype)
        edge_attr = rows[torch.randint(kinds, (num_edges,), generator=generator)]
    return Graph(x, edge_index, edge_attr)


def batch_of(graphs: list[Graph]) -> Batch:
    return Batch.from_data_list([Data(**vars(graph)) for graph in graphs])


def molecule(smiles: str, dtype: torch.dtype = torch.float64) -> Graph:
    """A real molecule, with random projections of its features to a few channels."""
    pytest.importorskip("rdkit", reason="molecules need the extra 'mol'")
    from pyg_kernels.chem import MolFeaturizer

    data = MolFeaturizer()(smiles)
    generator = torch.Generator().manual_seed(0)
    project = torch.randn(data.x.size(1), 5, generator=generator, dtype=dtype)
    return Graph(data.x.to(dtype) @ project, data.edge_index, data.edge_attr.to(dtype))


SMILES = ["CCO", "c1ccccc1", "CC(=O)Nc1ccc(O)cc1", "C", "O=C=O", "C1CC1.[Na+]"]
