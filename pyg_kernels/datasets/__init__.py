"""Data sets of molecules and of texts, their splits and fast loaders.

Data sets of molecules need RDKit (``pip install 'pyg_kernels[mol]'``), which is imported when the
first of them is used. Those of texts, :mod:`pyg_kernels.datasets.text`, do not.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from pyg_kernels.datasets.loaders import MoleculeLoader, TextLoader, UniformBins
from pyg_kernels.datasets.splits import Split, column_split, random_split, scaffold_split
from pyg_kernels.datasets.text import TextCorpus, TextCSV, Vocabulary

if TYPE_CHECKING:
    from pyg_kernels.datasets.molecules import InvalidMolecules, MoleculeCSV, MoleculeDataset
    from pyg_kernels.datasets.ogb import OGBMolecules, ogb_dataset
    from pyg_kernels.datasets.published import CEP, ChEMBLSulfonamides
    from pyg_kernels.datasets.shards import MoleculeShards

__all__ = [
    "CEP",
    "ChEMBLSulfonamides",
    "InvalidMolecules",
    "MoleculeCSV",
    "MoleculeDataset",
    "MoleculeLoader",
    "MoleculeShards",
    "OGBMolecules",
    "Split",
    "TextCSV",
    "TextCorpus",
    "TextLoader",
    "UniformBins",
    "Vocabulary",
    "column_split",
    "ogb_dataset",
    "random_split",
    "scaffold_split",
]

_MODULES = ("molecules", "ogb", "published", "shards")  # of the names that need RDKit


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    import_module("pyg_kernels.chem")  # if RDKit is missing, says what to install
    for module in _MODULES:
        found = vars(import_module(f"{__name__}.{module}"))
        globals().update({key: found[key] for key in __all__ if key in found})
    return globals()[name]


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
