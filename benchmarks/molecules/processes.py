"""Gaussian processes of the comparison's own, fitted on the training part alone."""

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import numpy as np
from rdkit import Chem
from rdkit.Chem import rdFingerprintGenerator
from scipy import sparse
from torch_geometric.data import Data

from pyg_kernels.kernels import (
    KernelGP,
    LabelSequenceKernel,
    ShortestPathKernel,
    WLSubtreeKernel,
    molecule_kernels,
)
from pyg_kernels.kernels.count_kernel import CountKernel, LabelCounts

BONDS: Mapping[str, Any] = {"edge_label": "edge_attr", "compare": "minmax"}
NUM_LAYERS = 3  # iterations of wl-gp, as the package's
GENERATORS: Mapping[str, Callable[[], Any]] = {
    "Morgan 0": partial(rdFingerprintGenerator.GetMorganGenerator, radius=0),
    "Morgan 1": partial(rdFingerprintGenerator.GetMorganGenerator, radius=1),
    "Morgan 2": partial(rdFingerprintGenerator.GetMorganGenerator, radius=2),
    "Morgan 3": partial(rdFingerprintGenerator.GetMorganGenerator, radius=3),
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


#: Of each process, from its number of iterations.
KERNELS: Mapping[str, Callable[[int], list[Any]]] = {
    "gp": lambda _: molecule_kernels(),
    "wl-gp": lambda number: [WLSubtreeKernel(number, **BONDS)],
    "small-gp": lambda _: [
        WLSubtreeKernel(4, **BONDS),
        LabelSequenceKernel(6, **BONDS),
        ShortestPathKernel(compare="minmax"),
    ],
    "fingerprint-gp": lambda _: [FingerprintKernel(kind) for kind in GENERATORS],
}


class Process:
    """An exact Gaussian process as an estimator; it cannot be saved."""

    ensemble_size = 1

    def __init__(self, model: str, num_layers: int | None, seed: int) -> None:
        self.model = model
        self._process = KernelGP(KERNELS[model](num_layers or NUM_LAYERS), random_state=seed)

    @property
    def members_(self) -> list["Process"]:
        """Itself."""
        return [self]

    def fit(self, molecules: Any, y: Any, validation: Any) -> "Process":
        """Learns from the molecules at all positions but some."""
        train = np.setdiff1d(np.arange(len(molecules)), validation)
        self._process.fit(self._items(molecules.part(train)), y[train])
        return self

    def predict(self, molecules: Any, return_std: bool = True) -> Any:
        """Means and standard deviations of new measurements."""
        return self._process.predict(self._items(molecules), return_std=return_std)

    def _items(self, molecules: Any) -> Any:
        if self.model == "fingerprint-gp":
            return [Data(smiles=smiles) for smiles in molecules.smiles]
        return molecules.graphs()
