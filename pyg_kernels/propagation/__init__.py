"""How states travel along walks: edges in the forms that PyG has, sums of messages on them."""

from pyg_kernels.propagation.graph import as_edges

__all__ = ["as_edges"]
