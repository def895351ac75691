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
    """Makes a text a path graph: tokens are nodes in their order, each with an edge to the next.

    A layer of :mod:`pyg_kernels.sequence` reads the graph as a text, any layer of PyG as a graph,
    and PyG's own ``DataLoader`` puts such graphs into batches. As every transform it may be given
    to a dataset.

    Shapes:
        - **input:** a text's tokens: features, :math:`(L, F)`, or whole numbers such as word ids,
          :math:`(L)`, as a tensor or a list; or a ``Data`` object that has them as ``x``. An empty
          text is an ordinary one.
        - **output:** a ``Data`` object with ``x``, ``num_nodes`` and ``edge_index``, and with all
          other attributes of the input but edges.

    Raises:
        ValueError: Where there are no tokens ``x``, or they have another shape.

    Example:
        >>> from pyg_kernels.sequence import PathGraph
        >>> graph = PathGraph()([7, 2, 5])  # the numbers of three words
        >>> graph.x, graph.edge_index
        (tensor([7, 2, 5]), tensor([[0, 1], [1, 2]]))

    See Also:
        :func:`path_batch`, many texts at once.
    """

    def __call__(self, data: Text) -> Data:
        return super().__call__(_as_graph(data))  # which copies the graph, but no tensor

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
        texts: One text each, in any form that :class:`PathGraph` takes.

    Returns:
        The batch: ``x`` with all tokens, ``ptr`` with where each text begins, ``batch`` with the
        text of each token.

    Raises:
        ValueError: Where there is no text, or one has no tokens ``x`` of the right shape.

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
