"""Small sets of real molecules with targets that are easy to learn."""

from contextlib import redirect_stderr
from io import StringIO
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from rdkit import Chem
from rdkit.Chem import Crippen

from pyg_kernels.molecules import MoleculeRegressor, load
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
# The same as options of the command.
NETWORK = "--epochs 2 --hidden-channels 6 --num-layers 2 --device cpu"


def regressor(model: Any, **options: Any) -> Any:
    """A regressor whose networks are small."""
    return MoleculeRegressor(model, **{**SMALL, **options})


def reloaded(fitted: Any, folder: Path, trust: bool = False) -> Any:
    """Saves an estimator in the subfolder `run` and loads it again."""
    fitted.save(folder / "run")
    return load(folder / "run", trust=trust)


def run(folder: Path, words: str, *others: str, status: int = 0) -> str:
    """Runs a command; gives its messages. Words that begin with + are paths in the folder."""
    given = [str(folder / word[1:]) if word[0] == "+" else word for word in words.split()]
    with redirect_stderr(StringIO()) as said:
        try:
            found: Any = main([*given, *others])
        except SystemExit as stop:
            found = stop.code
    assert found == status, said.getvalue()
    return said.getvalue()


def train(folder: Path, out: str, words: str, status: int = 0) -> str:
    """Runs ``train`` on the table `m.csv` of the folder; gives its messages."""
    return run(folder, f"train +m.csv --out +{out} --target-columns {words}", status=status)
