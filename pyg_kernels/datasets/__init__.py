"""Molecule data sets, their splits and a fast loader."""

from pyg_kernels.datasets.cep import CEP
from pyg_kernels.datasets.chembl import ChEMBLSulfonamides
from pyg_kernels.datasets.loader import MoleculeLoader
from pyg_kernels.datasets.molecule_csv import MoleculeCSV
from pyg_kernels.datasets.molecules import InvalidMolecules, MoleculeDataset
from pyg_kernels.datasets.splits import Split, column_split, random_split, scaffold_split

__all__ = [
    "CEP",
    "ChEMBLSulfonamides",
    "InvalidMolecules",
    "MoleculeCSV",
    "MoleculeDataset",
    "MoleculeLoader",
    "Split",
    "column_split",
    "random_split",
    "scaffold_split",
]
