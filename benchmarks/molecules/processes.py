"""The rival on RDKit's fingerprints: its counts in the Gaussian process of the package."""

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import numpy as np
from rdkit import Chem
from rdkit.Chem import rdFingerprintGenerator
from scipy import sparse
from torch_geometric.data import Data

from pyg_kernels.kernels.count_kernel import CountKernel, LabelCounts
from pyg_kernels.molecules.methods import ProcessMethod

GENERATORS: Mapping[str, Callable[[], Any]] = {
    **{
        f"Morgan {radius}": partial(rdFingerprintGenerator.GetMorganGenerator, radius=radius)
        for radius in range(4)
    },
    "atom pairs": rdFingerprintGenerator.GetAtomPairGenerator,
    "torsions": rdFingerprintGenerator.GetTopologicalTorsionGenerator,
}


class FingerprintKernel(CountKernel):
    """Min-max of one kind of RDKit's counts, of items with ``smiles``."""

    def __init__(self, kind: str) -> None:
        self.kind = kind
        self.compare, self.output, self.normalize = "minmax", "gram", False
        self.dtype, self.max_memory, self.verbose = None, 2**28, False

    def _count(self, items: Any, dtype: Any) -> LabelCounts:
        rows, labels, values = [], [], []
        generator = GENERATORS[self.kind]()
        for row, item in enumerate(items):
            molecule: Any = Chem.MolFromSmiles(item.smiles)
            found = generator.GetSparseCountFingerprint(molecule).GetNonzeroElements()
            rows += [row] * len(found)
            labels += found.keys()
            values += found.values()
        known, columns = np.unique(np.array(labels, np.int64), return_inverse=True)
        shape = (len(items), len(known))
        matrix = sparse.csr_matrix((np.array(values, dtype), (rows, columns)), shape=shape)
        return LabelCounts([known], matrix, "cpu")


class FingerprintMethod(ProcessMethod):
    """``fingerprint-gp``: a process of six of RDKit's fingerprint counts."""

    def kernels(self) -> list[Any]:
        """One for each kind of count."""
        return [FingerprintKernel(kind) for kind in GENERATORS]

    def graphs(self, molecules: Any) -> list[Any]:
        """The SMILES, of which RDKit counts."""
        return [Data(smiles=smiles) for smiles in molecules.smiles]
