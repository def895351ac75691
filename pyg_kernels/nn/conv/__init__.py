"""The kernel layers, as PyTorch Geometric ``MessagePassing`` modules."""

from pyg_kernels.nn.conv.gated_walk_conv import GatedWalkConv
from pyg_kernels.nn.conv.graph_kernel_conv import GraphKernelConv
from pyg_kernels.nn.conv.random_walk_conv import RandomWalkConv
from pyg_kernels.nn.conv.wl_kernel_conv import WLKernelConv

__all__ = ["GatedWalkConv", "GraphKernelConv", "RandomWalkConv", "WLKernelConv"]
