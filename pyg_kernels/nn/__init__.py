"""Kernel layers and models for PyTorch Geometric."""

from pyg_kernels.nn.activation import KernelActivation
from pyg_kernels.nn.conv import GatedWalkConv, GraphKernelConv, RandomWalkConv, WLKernelConv
from pyg_kernels.nn.models import (
    EmbeddedLoopyBP,
    EmbeddedMeanField,
    GraphKernelNet,
    RandomWalkNet,
    WLKernelNet,
)

__all__ = [
    "EmbeddedLoopyBP",
    "EmbeddedMeanField",
    "GatedWalkConv",
    "GraphKernelConv",
    "GraphKernelNet",
    "KernelActivation",
    "RandomWalkConv",
    "RandomWalkNet",
    "WLKernelConv",
    "WLKernelNet",
]
