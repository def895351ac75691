"""How states travel along walks: edges in PyG's forms, and sums of messages along edges."""

from pyg_kernels.propagation.graph import as_edges

__all__ = ["as_edges"]
