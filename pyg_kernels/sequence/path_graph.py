"""Texts as graphs: each token a node, joined to the next."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, TypeAlias

import torch
from torch import Tensor
from torch_geometric.data import Batch, Data
from torch_geometric.data.datapipes import functional_transform
from torch_geometric.transforms import BaseTransform

Text: TypeAlias = Tensor | Sequence[Any] | Data


@functional_transform("path_graph")
class PathGraph(BaseTransform):
    """Turns a text into a path graph: the tokens are nodes, each with an edge to the next.

    Layers of :mod:`pyg_kernels.sequence` read the graph as a text; PyG's layers read it as a
    graph. PyG's own ``DataLoader`` puts such graphs into batches. Like any transform, it can be
    passed to a dataset.

    Shapes:
        - **input:** a text's tokens: features, :math:`(L, F)`, or whole numbers such as word ids,
          :math:`(L)`, as a tensor or a list; or a ``Data`` object with them as ``x``. Texts may
          be empty.
        - **output:** a ``Data`` object with ``x``, ``num_nodes`` and ``edge_index``, and with all
          other attributes of the input except those of edges.

    Raises:
        ValueError: If there are no tokens ``x``, or they have another shape.

    Example:
        >>> from pyg_kernels.sequence import PathGraph
        >>> graph = PathGraph()([7, 2, 5])  # the numbers of three words
        >>> graph.x, graph.edge_index
        (tensor([7, 2, 5]), tensor([[0, 1], [1, 2]]))

    See Also:
        :func:`path_batch`, many texts at once.
    """

    def __call__(self, data: Text) -> Data:
        return super().__call__(_as_graph(data))  # this copies the graph, but no tensor

    def forward(self, data: Text) -> Data:
        graph = _as_graph(data)
        if not isinstance(graph.x, Tensor) or graph.x.dim() not in (1, 2):
            found = tuple(graph.x.shape) if isinstance(graph.x, Tensor) else graph.x
            raise ValueError(f"x: {found}, expected tokens of shape (L, F) or (L,)")
        tokens = torch.arange(graph.x.size(0), device=graph.x.device)
        names: list[str] = graph.keys()
        for name in [name for name in names if {"edge", "edges", "adj"} & {*name.split("_")}]:
            del graph[name]
        graph.edge_index = torch.stack((tokens[:-1], tokens[1:]))
        graph.num_nodes = tokens.numel()
        return graph


def path_batch(texts: Iterable[Text]) -> Batch:
    """Puts texts of any lengths, empty ones too, into one PyG batch of path graphs.

    Args:
        texts: The texts, each in any form that :class:`PathGraph` takes.

    Returns:
        The batch: ``x`` holds all tokens, ``ptr`` where each text begins, and ``batch`` the text
        of each token.

    Raises:
        ValueError: If there is no text, or a text has no tokens ``x`` of the right shape.

    Example:
        >>> import torch
        >>> from pyg_kernels.sequence import path_batch
        >>> batch = path_batch([torch.randn(3, 8), torch.randn(1, 8)])
        >>> batch.ptr.tolist(), batch.batch.tolist()
        ([0, 3, 4], [0, 0, 0, 1])
    """
    graphs = [PathGraph()(text) for text in texts]
    if not graphs:
        raise ValueError("texts: expected at least one")
    return Batch.from_data_list(graphs)


def _as_graph(text: Text) -> Data:
    if isinstance(text, Data):
        return text
    if not isinstance(text, Tensor):
        try:
            text = torch.tensor(text, dtype=None if len(text) else torch.long)
        except (TypeError, ValueError) as error:
            expected = "a tensor (T, F) or (T,), numbers, or vectors of one size"
            raise ValueError(f"texts: {error}; expected of each {expected}") from error
    return Data(x=text)
