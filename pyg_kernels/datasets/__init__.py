"""Data sets of molecules and of texts, their splits and fast loaders.

Those of molecules need RDKit (``pip install 'pyg_kernels[mol]'``), which is imported when the first
of them is asked for; those of texts, :mod:`pyg_kernels.datasets.text`, do not.
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

# The modules of the names that need RDKit.
_MODULES = {
    "CEP": "published",
    "ChEMBLSulfonamides": "published",
    "MoleculeCSV": "molecules",
    "InvalidMolecules": "molecules",
    "MoleculeDataset": "molecules",
    "OGBMolecules": "ogb",
    "ogb_dataset": "ogb",
    "MoleculeShards": "shards",
}


def __getattr__(name: str) -> Any:
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    import_module("pyg_kernels.chem")  # says what to install where RDKit is not
    value = getattr(import_module(f"{__name__}.{_MODULES[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
