"""Exact kernels on graphs and texts, with scikit-learn's interface.

They compute exactly what the layers approximate, by sums over all walks or n-grams: Gram matrices
of PyTorch Geometric graphs and of texts, on CPU or GPU, for estimators with a precomputed kernel.
Kernels and neural layers do not depend on each other; the tests check one against the other.
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
