"""The operators S that carry states along walks: on graphs."""

from pyg_kernels.propagation.graph import GraphPropagation, as_edges

__all__ = ["GraphPropagation", "as_edges"]
