"""Published sets of molecules: a sample for solar cells, and an assay that ships with RDKit."""

from __future__ import annotations

import csv
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from rdkit import RDConfig
from torch_geometric.data import Data

from pyg_kernels.chem import Featurizer
from pyg_kernels.datasets.molecules import MoleculeCSV, MoleculeDataset
from pyg_kernels.datasets.public_file import PublicFile
from pyg_kernels.datasets.table import MoleculeTable


class CEP(MoleculeCSV):
    """29,978 organic molecules of the Harvard Clean Energy Project (Hachmann et al. 2011).

    The public sample that Duvenaud et al. 2015 and Lei et al. 2017 measure on. The target ``PCE``
    is the power conversion efficiency that the project computed, in percent: mean 3.90, standard
    deviation 2.54.

    Args:
        root: a folder. The file ``root/cep-processed.csv`` or ``root/raw/cep-processed.csv``, plain
            or gzipped, is used as it is; if there is none, it is downloaded.
        options: transform, num_workers, progress, featurizer, as in :class:`MoleculeCSV`.

    Raises:
        OSError: if the raw file is not there and cannot be downloaded.
        InvalidMolecules: if the raw file has been changed and a SMILES cannot be read.
        ValueError: if the raw file does not have the columns ``smiles`` and ``PCE``.
    """

    file = PublicFile(
        "cep-processed.csv",
        "https://raw.githubusercontent.com/HIPS/neural-fingerprint/master/"
        "data/2015-06-02-cep-pce/cep-processed.csv",
        "99c3def57a412e0ac3922194d0605b6a8a9056938706a44bc4ba1d35fe8bc8c0",
    )

    def __init__(self, root: str | Path, **options: Any) -> None:
        super().__init__(self.file.obtain(root), target_columns=["PCE"], **options)


class ChEMBLSulfonamides(MoleculeDataset):
    """1,017 aryl sulfonamides with measured potency, from inside the RDKit package: no download.

    The assay ``CHEMBL2321810`` of RDKit's Free-Wilson example. The target ``potency`` is the
    file's ``Act``: the negative decimal logarithm of a molar concentration (like a pIC50), from
    4.27 to 9.22, mean 6.55, standard deviation 1.09. ``row_numbers`` are lines of the SMILES file,
    which has no header: its first molecule is line 1.

    Args:
        transform, featurizer: as in :class:`MoleculeCSV`.

    Raises:
        FileNotFoundError: if RDKit was installed without its ``Contrib`` folder.

    Example:
        >>> from pyg_kernels.datasets import ChEMBLSulfonamides
        >>> molecules = ChEMBLSulfonamides()
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
        transform: Callable[[Data], Any] | None = None,
        featurizer: str | Featurizer | None = None,
    ) -> None:
        super().__init__(transform=transform, featurizer=featurizer)
        folder = Path(RDConfig.RDContribDir) / "FreeWilson" / "data"
        with open(folder / f"{self.assay}_act.csv", encoding="utf-8", newline="") as file:
            potency = {row["Name"]: float(row["Act"]) for row in csv.DictReader(file)}
        lines = (folder / f"{self.assay}.smi").read_text(encoding="utf-8").splitlines()
        smiles, names = zip(*(line.split() for line in lines), strict=True)
        targets = torch.tensor([[potency[name]] for name in names], dtype=torch.float64)
        rows = list(range(1, len(lines) + 1))
        self._read(MoleculeTable(list(smiles), targets, ["potency"], rows), f"{self.assay}.smi")
