"""A few molecules with and without fluorine on a ring, and an untrained network on them."""

from dataclasses import asdict
from typing import Any

import torch

from benchmarks.harness.molecules.model_config import ModelConfig
from benchmarks.harness.molecules.regressor import MoleculeRegressor

SMILES = (
    *("c1ccccc1F", "Fc1ccc(F)cc1", "c1ccccc1", "CC(F)(F)F", "CCO", "Cc1ccc(F)cc1C(F)(F)F"),
    *("c1ccncc1", "Fc1ccncc1", "CC(=O)N", "c1cc(F)c(F)c(F)c1"),
)


def molecules() -> Any:
    from pyg_kernels.datasets import MoleculeDataset

    return MoleculeDataset.from_smiles(SMILES, torch.arange(10.0), ["size"])


def regressor(name: str = "wl-gated", seed: int = 0, **options: object) -> MoleculeRegressor:
    """In evaluation mode, of targets with mean 1.5 and standard deviation 2."""
    torch.manual_seed(seed)
    features = molecules().featurizer
    config = ModelConfig(
        name,
        features.atom_dim,
        features.bond_dim,
        num_targets=1,
        hidden=4,
        num_layers=2,
        **{"norm": None, **options},
    )
    targets = {"names": ["size"], "mean": [1.5], "std": [2.0]}
    return MoleculeRegressor(asdict(config), targets, features.description()).eval()
