"""The atom and bond features of Duvenaud et al. 2015."""

from __future__ import annotations

from rdkit import Chem

from pyg_kernels.chem.features import Feature, bond_type, elements, indicator, numbers
from pyg_kernels.chem.featurizer import Featurizer

# fmt: off
ELEMENTS = (
    "C", "N", "O", "S", "F", "Si", "P", "Cl", "Br", "Mg", "Na", "Ca", "Fe", "As", "Al", "I", "B",
    "V", "K", "Tl", "Yb", "Sb", "Sn", "Ag", "Pd", "Co", "Se", "Ti", "Zn", "H", "Li", "Ge", "Cu",
    "Au", "Ni", "Cd", "In", "Mn", "Zr", "Cr", "Pt", "Hg", "Pb",
)
# fmt: on

ATOM_FEATURES: tuple[Feature, ...] = (
    elements(ELEMENTS),
    numbers("degree", range(6), Chem.Atom.GetDegree),
    numbers("hydrogens", range(5), Chem.Atom.GetTotalNumHs),
    # Read as the number of implicit hydrogens, it is the same in every version of RDKit.
    numbers("implicit valence", range(6), Chem.Atom.GetNumImplicitHs),
    indicator("aromatic", Chem.Atom.GetIsAromatic),
)

BOND_FEATURES: tuple[Feature, ...] = (
    bond_type("SINGLE", "DOUBLE", "TRIPLE", "AROMATIC"),
    indicator("conjugated", Chem.Bond.GetIsConjugated),
    indicator("in ring", Chem.Bond.IsInRing),
)


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

    A wildcard atom ``*`` has an unknown element; a dative or quadruple bond has an unknown type.
    Hydrogens that the SMILES writes as atoms of their own and RDKit keeps (isotopes, H2) are atoms.
    The implicit valence does not count hydrogens within brackets, so ``CO`` and ``[CH3][OH]`` have
    different features. With :class:`DefaultFeaturizer` they have the same features.

    Example:
        >>> from pyg_kernels.chem import MolFeaturizer
        >>> data = MolFeaturizer()("CCO")
        >>> data.x.shape, data.edge_index.shape, data.edge_attr.shape
        (torch.Size([3, 65]), torch.Size([2, 4]), torch.Size([4, 7]))

    See Also:
        :class:`DefaultFeaturizer` and :class:`OGBFeaturizer`; :func:`featurizer_by_name`.
    """

    name = "duvenaud"
    version = 1
    atom_features = ATOM_FEATURES
    bond_features = BOND_FEATURES
