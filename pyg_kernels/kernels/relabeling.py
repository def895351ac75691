"""Weisfeiler-Lehman relabelling: discrete, by hashing, and generalised to vectors."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch_geometric.nn.resolver import activation_resolver

from pyg_kernels.kernels.arguments import Names, checked_choice
from pyg_kernels.kernels.graphs import Graphs
from pyg_kernels.kernels.hashing import ALIKE, ODD, ODDER, mixed
from pyg_kernels.kernels.reading import Attributes, read_graphs


@dataclass(frozen=True)
class DiscreteRelabeling:
    r"""The relabelling of Shervashidze et al. 2011 on discrete labels.

    The new label of a node stands for its label and the multiset of the labels of its neighbours,
    each with the label of its edge. Labels are 64-bit hashes that depend on nothing but what they
    stand for: not on the order of nodes, graphs or batches, nor on the graphs beside them. Two
    different neighbourhoods have the same label with probability about :math:`2^{-64}`.

    Args:
        node_label: The attribute of labels, ``(N,)``, or ``(N, F)``, whose distinct rows are the
            labels; a list of names: their tuples; None: nodes are all alike.
        edge_label: The same for edges, ``(E,)`` or ``(E, D)``; None: edges are all alike.
    """

    node_label: Names = "x"
    edge_label: Names = None

    def read(
        self, graphs: Any, node_feature: Names = None, dtype: torch.dtype | None = None
    ) -> Graphs:
        """The graphs with their labels as hashes; the attribute is :attr:`node_label`."""
        attributes = Attributes(node_label=self.node_label, edge_label=self.edge_label)
        return read_graphs(graphs, attributes, dtype)

    def step(self, x: Tensor, graphs: Graphs) -> Tensor:
        """The labels of the next iteration, ``(N,)`` int64."""
        source, target = graphs.edge_index
        arriving = mixed(x * ODD + ALIKE).index_select(0, source)
        if graphs.edge_attr is not None:
            arriving = mixed(arriving + graphs.edge_attr * ODDER)
        sums = torch.zeros_like(x).index_add_(0, target, arriving)
        return mixed(x + sums * ODD + ALIKE)


@dataclass(frozen=True, eq=False)
class GeneralizedRelabeling:
    r"""The relabelling of vectors, with given matrices.

    .. math::
        r(v) = \sigma\Big(U_1 f_v \circ U_2 \sum_{u \to v} \sigma(V [f_u, e_{uv}])\Big)

    (Lei et al. 2017, eq. 10), as :class:`~pyg_kernels.nn.WLKernelConv` computes it.

    Args:
        U1: ``(F', F)``, applied to a node's own features as the weight of a linear layer; F' is F
            where there is more than one iteration.
        U2: ``(F', H)``, applied to the sum over its neighbours.
        V: ``(H, F)``, or ``(H, F + D)`` with edge features.
        act: The activation, by name or as a function; None: the identity.
        combine: ``'add'`` or ``'mul'``.
        edge_feature: The attribute of :math:`e`, ``(E, D)`` or ``(E,)``, or several; None: none.

    Raises:
        ValueError: If the matrices do not go together, or `combine` is neither.
    """

    U1: Tensor
    U2: Tensor
    V: Tensor
    act: str | Callable[[Tensor], Tensor] | None = "relu"
    combine: str = "add"
    edge_feature: Names = None

    def __post_init__(self) -> None:
        checked_choice(self.combine, "combine", ("add", "mul"))
        for name in ("U1", "U2", "V"):
            matrix = getattr(self, name)
            if not isinstance(matrix, Tensor) or matrix.dim() != 2:
                raise ValueError(f"{name} must be a matrix, as the weight of a linear layer")
        first, second, width = self.U1.shape, self.U2.shape, self.V.size(0)
        if second != (first[0], width):
            shapes = ", ".join(str(tuple(m.shape)) for m in (self.U1, self.U2, self.V))
            raise ValueError(f"U1, U2, V of shapes {shapes}: expected (F', F), (F', H), (H, F + D)")

    def read(self, graphs: Any, node_feature: Names, dtype: torch.dtype | None) -> Graphs:
        """The graphs with their vectors."""
        attributes = Attributes(node_feature=node_feature, edge_feature=self.edge_feature)
        read = read_graphs(graphs, attributes, dtype)
        for name, values in ((node_feature, read.x), (self.edge_feature, read.edge_attr)):
            if values is not None and values.dim() != 2:
                raise ValueError(f"{name!r} has labels: the generalised relabelling needs vectors")
        nodes, edges = read.x.size(1), 0 if read.edge_attr is None else read.edge_attr.size(1)
        if self.U1.size(1) != nodes or self.V.size(1) != nodes + edges:
            raise ValueError(
                f"graph 0 has {nodes} node and {edges} edge features, but U1 is "
                f"{tuple(self.U1.shape)} and V {tuple(self.V.shape)}"
            )
        return read

    def step(self, x: Tensor, graphs: Graphs) -> Tensor:
        """The features of the next iteration, ``(N, F')``."""
        if x.size(1) != self.U1.size(1):
            raise ValueError(
                f"U1 of shape {tuple(self.U1.shape)}: more than one iteration needs F' = F"
            )
        act = activation_resolver(self.act) or (lambda values: values)
        source, target = graphs.edge_index
        U1, U2, V = (matrix.to(x) for matrix in (self.U1, self.U2, self.V))
        arriving = x.index_select(0, source)
        if graphs.edge_attr is not None:
            arriving = torch.cat([arriving, graphs.edge_attr], dim=1)
        messages = act(arriving @ V.t())
        sums = x.new_zeros(len(x), len(V)).index_add(0, target, messages) @ U2.t()
        own = x @ U1.t()
        return act(own + sums if self.combine == "add" else own * sums)
