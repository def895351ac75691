"""The NCI molecules that RDKit ships, as ordinary and odd inputs."""

from functools import cache
from pathlib import Path

from rdkit import Chem, RDConfig, rdBase


@cache
def nci_smiles() -> list[str]:
    """4,999 SMILES, some of which RDKit cannot read."""
    path = Path(RDConfig.RDDataDir) / "NCI" / "first_5K.smi"
    return [line.split("\t")[0] for line in path.read_text().splitlines()]


@cache
def readable_nci_smiles() -> list[str]:
    """The SMILES of :func:`nci_smiles` that RDKit can read."""
    with rdBase.BlockLogs():
        return [smiles for smiles in nci_smiles() if Chem.MolFromSmiles(smiles) is not None]
