"""The ChEMBL assay that ships with RDKit."""

from __future__ import annotations

import csv
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from rdkit import RDConfig
from torch_geometric.data import Data

from pyg_kernels.chem import Featurizer
from pyg_kernels.datasets.molecules import MoleculeDataset
from pyg_kernels.datasets.table import MoleculeTable


class ChEMBLSulfonamides(MoleculeDataset):
    """1,017 aryl sulfonamides with measured potency, from inside the RDKit package: no download.

    The assay ``CHEMBL2321810`` of RDKit's Free-Wilson example. The target ``potency`` is the
    file's ``Act``: the negative decimal logarithm of a molar concentration (like a pIC50), from
    4.27 to 9.22, mean 6.55, standard deviation 1.09. ``row_numbers`` are lines of the SMILES file,
    which has no header: its first molecule is line 1.

    Args:
        num_workers, progress, transform, featurizer: as of :class:`MoleculeCSV`.

    Raises:
        FileNotFoundError: if RDKit was installed without its ``Contrib`` folder.

    Example:
        >>> from pyg_kernels.datasets import ChEMBLSulfonamides
        >>> molecules = ChEMBLSulfonamides(num_workers=0)
        >>> molecules, molecules.target_names
        (ChEMBLSulfonamides(1017), ['potency'])
        >>> round(molecules.targets.mean().item(), 2)
        6.55

    See Also:
        :class:`MoleculeDataset`, what can be done with it; :func:`scaffold_split`.
    """

    assay = "CHEMBL2321810"

    def __init__(
        self,
        num_workers: int | None = None,
        progress: bool = False,
        transform: Callable[[Data], Any] | None = None,
        featurizer: Featurizer | None = None,
    ) -> None:
        super().__init__(transform=transform, featurizer=featurizer)
        folder = Path(RDConfig.RDContribDir) / "FreeWilson" / "data"
        with open(folder / f"{self.assay}_act.csv", encoding="utf-8", newline="") as file:
            potency = {row["Name"]: float(row["Act"]) for row in csv.DictReader(file)}
        lines = (folder / f"{self.assay}.smi").read_text(encoding="utf-8").splitlines()
        smiles, names = zip(*(line.split() for line in lines), strict=True)
        table = MoleculeTable(
            smiles=list(smiles),
            targets=torch.tensor([[potency[name]] for name in names], dtype=torch.float64),
            target_names=["potency"],
            row_numbers=list(range(1, len(lines) + 1)),
        )
        source = f"{self.assay}.smi"
        self._hold(*self._read(table, source, num_workers=num_workers, progress=progress))
