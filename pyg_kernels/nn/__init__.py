"""Kernel layers and models for PyTorch Geometric."""

from pyg_kernels.nn.activation import KernelActivation
from pyg_kernels.nn.conv import GatedWalkConv, GraphKernelConv, RandomWalkConv, WLKernelConv
from pyg_kernels.nn.models import GraphKernelNet, RandomWalkNet, WLKernelNet

__all__ = [
    "GatedWalkConv",
    "GraphKernelConv",
    "GraphKernelNet",
    "KernelActivation",
    "RandomWalkConv",
    "RandomWalkNet",
    "WLKernelConv",
    "WLKernelNet",
]
