"""The atom and bond features of Duvenaud et al. 2015."""

from __future__ import annotations

from pyg_kernels.chem.encoding import MolReader
from pyg_kernels.chem.features import ATOM_FEATURES, BOND_FEATURES, Feature
from pyg_kernels.chem.featurizer import Featurizer


class MolFeaturizer(Featurizer):
    """Atom and bond features of Duvenaud et al. 2015, as Lei et al. 2017, section 6.3, list them.

    Atoms, 65 columns, in this order:

    ================ ===== ==========================================================
    feature          width choices
    ================ ===== ==========================================================
    element          44    43 elements (C, N, O, S, F, Si, ...), then unknown
    degree           7     0 to 5 bonded atoms in the graph, then unknown
    hydrogens        6     0 to 4 attached hydrogens outside the graph, then unknown
    implicit valence 7     0 to 5, then unknown
    aromatic         1     0 or 1
    ================ ===== ==========================================================

    Bonds, 7 columns:

    ================ ===== ==========================================================
    type             5     single, double, triple, aromatic, then unknown
    conjugated       1     0 or 1
    in ring          1     0 or 1
    ================ ===== ==========================================================

    A wildcard atom ``*`` has an unknown element; a dative or quadruple bond an unknown type.
    Hydrogens that the SMILES writes as atoms of their own and RDKit keeps (isotopes, H2) are atoms.

    Example:
        >>> featurizer = MolFeaturizer()
        >>> data = featurizer("CCO")
        >>> data.x.shape, data.edge_index.shape, data.edge_attr.shape
        (torch.Size([3, 65]), torch.Size([2, 4]), torch.Size([4, 7]))
    """

    name = "duvenaud"
    version = 1
    reader = MolReader

    @property
    def atom_features(self) -> tuple[Feature, ...]:
        """The atom features in the order of their columns, 65 in all."""
        return ATOM_FEATURES

    @property
    def bond_features(self) -> tuple[Feature, ...]:
        """The bond features in the order of their columns, 7 in all."""
        return BOND_FEATURES
