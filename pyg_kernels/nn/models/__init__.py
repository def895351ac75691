"""Whole networks over graphs, built from the kernel layers."""

from pyg_kernels.nn.models.graph_kernel_net import GraphKernelNet
from pyg_kernels.nn.models.random_walk_net import RandomWalkNet
from pyg_kernels.nn.models.wl_kernel_net import WLKernelNet

__all__ = ["GraphKernelNet", "RandomWalkNet", "WLKernelNet"]
