"""From SMILES to graphs: atom and bond features computed with RDKit."""

try:
    import rdkit  # noqa: F401
except ImportError as error:
    raise ImportError(
        "pyg_kernels.chem reads molecules with RDKit, which is not installed; "
        "install the extra 'mol': pip install 'pyg_kernels[mol]'"
    ) from error

from pyg_kernels.chem.codes import InvalidRow, InvalidSmiles, MolCodes, MolCodeStore
from pyg_kernels.chem.default_featurizer import DefaultFeaturizer
from pyg_kernels.chem.duplicates import (
    DuplicateMolecule,
    MergedMolecules,
    canonical_smiles,
    find_duplicates,
    merge_duplicates,
    murcko_scaffolds,
)
from pyg_kernels.chem.features import Feature
from pyg_kernels.chem.featurizer import Featurizer
from pyg_kernels.chem.featurizers import FEATURIZERS, featurizer_by_name
from pyg_kernels.chem.mol_featurizer import ATOM_FEATURES, BOND_FEATURES, MolFeaturizer
from pyg_kernels.chem.ogb_featurizer import OGBFeaturizer
from pyg_kernels.chem.standardization import StandardizedRow, standardize, standardize_many

__all__ = [
    "ATOM_FEATURES",
    "BOND_FEATURES",
    "FEATURIZERS",
    "DefaultFeaturizer",
    "DuplicateMolecule",
    "Feature",
    "Featurizer",
    "InvalidRow",
    "InvalidSmiles",
    "MergedMolecules",
    "MolCodeStore",
    "MolCodes",
    "MolFeaturizer",
    "OGBFeaturizer",
    "StandardizedRow",
    "canonical_smiles",
    "featurizer_by_name",
    "find_duplicates",
    "merge_duplicates",
    "murcko_scaffolds",
    "standardize",
    "standardize_many",
]
