"""The atom and bond features of the Open Graph Benchmark."""

from __future__ import annotations

from typing import Any

from rdkit import Chem

from pyg_kernels.chem.encoding import CodeReader
from pyg_kernels.chem.features import Feature, bond_type, indicator, named, numbers
from pyg_kernels.chem.featurizer import Featurizer

OGB_ATOM_FEATURES: tuple[Feature, ...] = (
    numbers("atomic number", range(1, 119), Chem.Atom.GetAtomicNum),
    named(
        "chirality",
        Chem.ChiralType,
        ("CHI_UNSPECIFIED", "CHI_TETRAHEDRAL_CW", "CHI_TETRAHEDRAL_CCW", "CHI_OTHER"),
        Chem.Atom.GetChiralTag,
    ),
    numbers("degree", range(11), Chem.Atom.GetTotalDegree),
    numbers("formal charge", range(-5, 6), Chem.Atom.GetFormalCharge),
    numbers("hydrogens", range(9), Chem.Atom.GetTotalNumHs),
    numbers("radical electrons", range(5), Chem.Atom.GetNumRadicalElectrons),
    named(
        "hybridization",
        Chem.HybridizationType,
        ("SP", "SP2", "SP3", "SP3D", "SP3D2"),
        Chem.Atom.GetHybridization,
    ),
    indicator("aromatic", Chem.Atom.GetIsAromatic, one_hot=True),
    indicator("in ring", Chem.Atom.IsInRing, one_hot=True),
)

OGB_BOND_FEATURES: tuple[Feature, ...] = (
    bond_type("SINGLE", "DOUBLE", "TRIPLE", "AROMATIC"),
    named(
        "stereo",
        Chem.BondStereo,
        ("STEREONONE", "STEREOZ", "STEREOE", "STEREOCIS", "STEREOTRANS", "STEREOANY"),
        Chem.Bond.GetStereo,
        has_unknown=False,
    ),
    indicator("conjugated", Chem.Bond.GetIsConjugated, one_hot=True),
)

STEREO = frozenset(OGB_BOND_FEATURES[1].values)


class OGBReader(CodeReader):
    """Reads the properties of atoms and bonds that ogb's ``smiles2graph`` reads."""

    def refusal(self, mol: Chem.Mol) -> str:
        """Names a bond stereo that newer versions of RDKit have and ogb does not know."""
        for bond in mol.GetBonds():
            if int(bond.GetStereo()) not in STEREO:
                return f"the Open Graph Benchmark has no code for the stereo {bond.GetStereo()}"
        return ""


class OGBFeaturizer(Featurizer):
    r"""Atom and bond features of the Open Graph Benchmark (Hu et al. 2020), as one-hots.

    The codes are ogb's integer features, nine per atom and three per bond. The float features are
    the one-hots :math:`e_i` of all codes, concatenated. Then a linear map without bias,

    .. math:: W f = \sum_i W_i e_i(\text{code}_i),

    is ogb's ``AtomEncoder`` (or ``BondEncoder``) with the transpose of the i-th block of columns of
    W as its i-th embedding table. So a network whose first map is linear has ogb's encoders as its
    input layer.

    Atoms, 174 columns, in this order; *misc* is ogb's slot for all other values:

    ================= ===== =====================================================
    feature           width choices
    ================= ===== =====================================================
    atomic number     119   1 to 118, then misc
    chirality         5     unspecified, clockwise, counter-clockwise, other, misc
    degree            12    0 to 10 bonded atoms with hydrogens, then misc
    formal charge     12    -5 to 5, then misc
    hydrogens         10    0 to 8, then misc
    radical electrons 6     0 to 4, then misc
    hybridization     6     SP, SP2, SP3, SP3D, SP3D2, then misc
    aromatic          2     no, yes
    in ring           2     no, yes
    ================= ===== =====================================================

    Bonds, 13 columns:

    ================= ===== =====================================================
    type              5     single, double, triple, aromatic, then misc
    stereo            6     none, Z, E, cis, trans, any
    conjugated        2     no, yes
    ================= ===== =====================================================

    The package ogb itself is not needed.

    Example:
        >>> from pyg_kernels.chem import OGBFeaturizer
        >>> data = OGBFeaturizer()("CCO")
        >>> data.x.shape, data.edge_index.shape, data.edge_attr.shape
        (torch.Size([3, 174]), torch.Size([2, 4]), torch.Size([4, 13]))

    See Also:
        :class:`DefaultFeaturizer` and :class:`MolFeaturizer`; :func:`featurizer_by_name`;
        :func:`~pyg_kernels.datasets.ogb_dataset`.
    """

    name = "ogb"
    version = 1
    reader = OGBReader
    atom_features = OGB_ATOM_FEATURES
    bond_features = OGB_BOND_FEATURES

    def description(self) -> dict[str, Any]:
        """The source, the version and every feature with its choices, in plain JSON types."""
        return {"source": "ogb", **super().description()}
