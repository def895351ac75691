"""Layers on sequences: texts as path graphs, read by the walk of the graph layers."""

from pyg_kernels.sequence.filters import DenseFilters, SyncNetFilters
from pyg_kernels.sequence.kbrn import KBRN
from pyg_kernels.sequence.kbrn_cell import KBRNCell
from pyg_kernels.sequence.path_graph import PathGraph, path_batch
from pyg_kernels.sequence.rcnn import RCNN
from pyg_kernels.sequence.rcnn_cell import (
    RCNNCell,
    RCNNProductState,
    RCNNState,
    RCNNTableState,
)
from pyg_kernels.sequence.rkm import RKM
from pyg_kernels.sequence.rkm_cell import RKMCell, RKMState, RKMWindowState

__all__ = [
    "KBRN",
    "RCNN",
    "RKM",
    "DenseFilters",
    "KBRNCell",
    "PathGraph",
    "RCNNCell",
    "RCNNProductState",
    "RCNNState",
    "RCNNTableState",
    "RKMCell",
    "RKMState",
    "RKMWindowState",
    "SyncNetFilters",
    "path_batch",
]
