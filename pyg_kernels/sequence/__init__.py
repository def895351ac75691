"""Layers on sequences: texts as path graphs, read by the walk of the graph layers."""

from pyg_kernels.sequence.path_graph import PathGraph, path_batch
from pyg_kernels.sequence.pooling import RCNNProductState, RCNNState, RCNNTableState
from pyg_kernels.sequence.rcnn import RCNN
from pyg_kernels.sequence.rcnn_cell import RCNNCell

__all__ = [
    "RCNN",
    "PathGraph",
    "RCNNCell",
    "RCNNProductState",
    "RCNNState",
    "RCNNTableState",
    "path_batch",
]
