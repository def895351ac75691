"""Exact kernels on graphs and texts, called in scikit-learn's way.

What the layers approximate, computed by sums over all walks or n-grams: Gram matrices on PyTorch
Geometric's graphs and on texts, on CPU or GPU, for any estimator that takes a precomputed kernel.
Nothing here depends on the neural layers, nor they on it: they check each other in the tests.
"""

from pyg_kernels.kernels.activations import arc_cosine, inverse_polynomial, polynomial
from pyg_kernels.kernels.count_kernel import CountKernel
from pyg_kernels.kernels.explanation import Explanation, explain
from pyg_kernels.kernels.gp import KernelGP, KernelGPClassifier
from pyg_kernels.kernels.kernel import Kernel
from pyg_kernels.kernels.molecules import VectorKernel, molecule_graphs, molecule_kernels
from pyg_kernels.kernels.node_pairs import DeepGraphKernel
from pyg_kernels.kernels.random_walk import RandomWalkKernel
from pyg_kernels.kernels.similarity import MoleculeSimilarity, Nearest
from pyg_kernels.kernels.string import DeepStringKernel, GatedSequenceKernel, StringKernel
from pyg_kernels.kernels.walk_counts import LabelSequenceKernel, ShortestPathKernel
from pyg_kernels.kernels.wl import (
    DiscreteRelabeling,
    GeneralizedRelabeling,
    WLKernel,
    WLSubtreeKernel,
)

__all__ = [
    "CountKernel",
    "DeepGraphKernel",
    "DeepStringKernel",
    "DiscreteRelabeling",
    "Explanation",
    "GatedSequenceKernel",
    "GeneralizedRelabeling",
    "Kernel",
    "KernelGP",
    "KernelGPClassifier",
    "LabelSequenceKernel",
    "MoleculeSimilarity",
    "Nearest",
    "RandomWalkKernel",
    "ShortestPathKernel",
    "StringKernel",
    "VectorKernel",
    "WLKernel",
    "WLSubtreeKernel",
    "arc_cosine",
    "explain",
    "inverse_polynomial",
    "molecule_graphs",
    "molecule_kernels",
    "polynomial",
]
