"""networkx's graphs as PyTorch Geometric's data, with the attributes that are read."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import torch
from torch_geometric.data import Data

from pyg_kernels.kernels.arguments import Column


def is_networkx(item: Any) -> bool:
    """Whether an item is a graph of networkx, which is not imported for this."""
    networkx = sys.modules.get("networkx")
    return networkx is not None and isinstance(item, networkx.Graph)


def data_of(graph: Any, i: int, columns: Iterable[Column]) -> Data:
    """The i-th graph of a collection; each undirected edge leads both ways."""
    number = {node: k for k, node in enumerate(graph)}
    edges = list(graph.edges(data=True))
    if not graph.is_directed():
        edges += [(v, u, values) for u, v, values in edges if u != v]
    ends = [(number[u], number[v]) for u, v, _ in edges]
    data = Data(edge_index=torch.tensor(ends, dtype=torch.long).reshape(-1, 2).t().contiguous())
    data.num_nodes = len(number)
    for column in columns:
        places = edges if column.of_edges else list(graph.nodes(data=True))
        values = [place[-1].get(column.name) for place in places]
        lacking = [k for k, value in enumerate(values) if value is None]
        if len(lacking) < len(values):
            if lacking:
                where = places[lacking[0]][:-1]
                what = f"edge {where}" if column.of_edges else f"node {where[0]!r}"
                raise ValueError(f"graph {i} has no {column.name!r} at {what}")
            data[column.name] = _together(values, i, column.name)
    return data


def _together(values: Sequence[Any], i: int, name: str) -> Any:
    """The values of all nodes or edges: a list of strings, or a tensor."""
    if all(isinstance(value, str) for value in values):
        return list(values)
    try:
        return torch.as_tensor(np.array([np.asarray(value) for value in values]))
    except (TypeError, ValueError):
        kinds = ", ".join(sorted({type(value).__name__ for value in values}))
        raise ValueError(
            f"graph {i} has {name!r} of type {kinds}: expected strings, numbers, or vectors of one "
            "size"
        ) from None
