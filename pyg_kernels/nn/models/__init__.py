"""Networks for graphs: those made of kernel layers, and embeddings of latent variable models."""

from pyg_kernels.nn.models.embedded_loopy_bp import EmbeddedLoopyBP
from pyg_kernels.nn.models.embedded_mean_field import EmbeddedMeanField
from pyg_kernels.nn.models.graph_kernel_net import GraphKernelNet
from pyg_kernels.nn.models.random_walk_net import RandomWalkNet
from pyg_kernels.nn.models.wl_kernel_net import WLKernelNet

__all__ = [
    "EmbeddedLoopyBP",
    "EmbeddedMeanField",
    "GraphKernelNet",
    "RandomWalkNet",
    "WLKernelNet",
]
