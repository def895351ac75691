"""A few molecules with and without fluorine on a ring, and networks and splits of them."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch import nn

from benchmarks.molecules.data import MoleculeSet, Split
from pyg_kernels.molecules.networks import Sizes, build_network

SMILES = (
    *("c1ccccc1F", "Fc1ccc(F)cc1", "c1ccccc1", "CC(F)(F)F", "CCO", "Cc1ccc(F)cc1C(F)(F)F"),
    *("c1ccncc1", "Fc1ccncc1", "CC(=O)N", "c1cc(F)c(F)c(F)c1"),
)


def molecules() -> Any:
    from pyg_kernels.datasets import MoleculeDataset

    return MoleculeDataset.from_smiles(SMILES, torch.arange(10.0), ["size"])


def split(test: Sequence[int] = (6, 7, 9)) -> Split:
    """Six molecules to learn from, one for validation."""
    parts = {"train": np.arange(6), "valid": np.array([8]), "test": np.array(test)}
    return Split(MoleculeSet("small", molecules(), "rmse"), "random", parts)


def network(name: str = "wl-gated") -> nn.Module:
    """An untrained network in evaluation mode."""
    torch.manual_seed(0)
    features = molecules().featurizer
    sizes = Sizes(features.atom_dim, 1, features.bond_dim, 4, 2, options={"norm": None})
    return build_network(name, sizes).eval()
