"""The operators S that carry states along walks: on graphs and on paths."""

from pyg_kernels.propagation.graph import GraphPropagation, as_edges
from pyg_kernels.propagation.path import PathPropagation

__all__ = ["GraphPropagation", "PathPropagation", "as_edges"]
