"""Small sets of real molecules with targets that are easy to learn."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from rdkit import Chem
from rdkit.Chem import Crippen

from pyg_kernels.molecules import MoleculeRegressor
from pyg_kernels.molecules.command import main

RINGS = ("c1ccccc1", "C1CCCCC1", "c1ccncc1", "c1ccsc1")
TAILS = ("C", "CC", "CO", "CCN", "C(=O)O", "C(F)(F)F", "CCl", "C#N", "CC(C)C", "OC")
SMILES = [ring + tail for tail in TAILS for ring in RINGS]
LOGP: NDArray[Any] = np.array([Crippen.MolLogP(Chem.MolFromSmiles(text)) for text in SMILES])
AROMATIC: NDArray[Any] = np.array(["yes" if text.startswith("c") else "no" for text in SMILES])

# The fewest parameters and epochs with which a network runs.
SMALL: dict[str, Any] = {
    "epochs": 2,
    "hidden_channels": 6,
    "num_layers": 2,
    "progress": False,
    "device": "cpu",
}


def regressor(model: Any, **options: Any) -> Any:
    """A regressor whose networks are small."""
    return MoleculeRegressor(model, **{**SMALL, **options})


def run(folder: Path, words: str, *others: str) -> int:
    """Runs words of the command, those with a + before them as paths in the folder."""
    given = [str(folder / word[1:]) if word[0] == "+" else word for word in words.split()]
    return main([*given, *others])
