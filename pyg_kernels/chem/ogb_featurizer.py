"""The atom and bond features of the Open Graph Benchmark."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from rdkit import Chem

from pyg_kernels.chem.encoding import BOND_NUMBER, CodeReader, encoded
from pyg_kernels.chem.features import Feature, named, numbers
from pyg_kernels.chem.featurizer import Featurizer


def _yes_or_no(name: str) -> Feature:
    return Feature(name, (False, True), (0, 1), has_unknown=False, one_hot=True)


OGB_ATOM_FEATURES: tuple[Feature, ...] = (
    numbers("atomic number", range(1, 119)),
    named(
        "chirality",
        Chem.ChiralType,
        ("CHI_UNSPECIFIED", "CHI_TETRAHEDRAL_CW", "CHI_TETRAHEDRAL_CCW", "CHI_OTHER"),
    ),
    numbers("degree", range(11)),
    numbers("formal charge", range(-5, 6)),
    numbers("hydrogens", range(9)),
    numbers("radical electrons", range(5)),
    named("hybridization", Chem.HybridizationType, ("SP", "SP2", "SP3", "SP3D", "SP3D2")),
    _yes_or_no("aromatic"),
    _yes_or_no("in ring"),
)

OGB_BOND_FEATURES: tuple[Feature, ...] = (
    named("type", Chem.BondType, ("SINGLE", "DOUBLE", "TRIPLE", "AROMATIC")),
    named(
        "stereo",
        Chem.BondStereo,
        ("STEREONONE", "STEREOZ", "STEREOE", "STEREOCIS", "STEREOTRANS", "STEREOANY"),
        has_unknown=False,
    ),
    _yes_or_no("conjugated"),
)

STEREO = frozenset(OGB_BOND_FEATURES[1].values)


class OGBReader(CodeReader):
    """Reads what ogb's ``smiles2graph`` reads of atoms and bonds."""

    def __init__(self) -> None:
        super().__init__()
        self._atoms: list[tuple[int, ...]] = []
        self._bonds: list[tuple[int, ...]] = []

    def refusal(self, mol: Chem.Mol) -> str:
        """Names a bond stereo that newer versions of RDKit have and ogb does not know."""
        for bond in mol.GetBonds():
            if int(bond.GetStereo()) not in STEREO:
                return f"the Open Graph Benchmark has no code for the stereo {bond.GetStereo()}"
        return ""

    def read_atoms(self, atoms: list[Any]) -> None:
        """Appends the atoms of one molecule."""
        self._atoms += [
            (
                atom.GetAtomicNum(),
                int(atom.GetChiralTag()),
                atom.GetTotalDegree(),
                atom.GetFormalCharge(),
                atom.GetTotalNumHs(),
                atom.GetNumRadicalElectrons(),
                int(atom.GetHybridization()),
                atom.GetIsAromatic(),
                atom.IsInRing(),
            )
            for atom in atoms
        ]

    def read_bonds(self, bonds: list[Any]) -> None:
        """Appends its bonds, each once."""
        self._bonds += [
            (BOND_NUMBER[bond.GetBondType()], int(bond.GetStereo()), bond.GetIsConjugated())
            for bond in bonds
        ]

    def atom_codes(self) -> NDArray[np.uint8]:
        """The codes of all atoms so far, a row each."""
        return _encoded(OGB_ATOM_FEATURES, self._atoms)

    def bond_codes(self) -> NDArray[np.uint8]:
        """The codes of all bonds so far, a row each."""
        return _encoded(OGB_BOND_FEATURES, self._bonds)


def _encoded(features: Sequence[Feature], rows: Sequence[tuple[int, ...]]) -> NDArray[np.uint8]:
    values = np.array(rows, dtype=np.int64).reshape(len(rows), len(features))
    return encoded(features, list(values.T))


class OGBFeaturizer(Featurizer):
    r"""Atom and bond features of the Open Graph Benchmark (Hu et al. 2020), as one-hots.

    The codes are ogb's integer features, nine an atom and three a bond. The float features are the
    one-hots :math:`e_i` of all of them side by side, so that a linear map without bias,

    .. math:: W f = \sum_i W_i e_i(\text{code}_i),

    is ogb's ``AtomEncoder`` (``BondEncoder``) whose i-th embedding table is the transpose of the
    i-th block of columns of W: a network whose first map is linear has ogb's encoders as its input
    layer.

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
        >>> data = OGBFeaturizer()("CCO")
        >>> data.x.shape, data.edge_index.shape, data.edge_attr.shape
        (torch.Size([3, 174]), torch.Size([2, 4]), torch.Size([4, 13]))
    """

    name = "ogb"
    version = 1
    reader = OGBReader

    @property
    def atom_features(self) -> tuple[Feature, ...]:
        """The atom features in the order of their columns, 174 in all."""
        return OGB_ATOM_FEATURES

    @property
    def bond_features(self) -> tuple[Feature, ...]:
        """The bond features in the order of their columns, 13 in all."""
        return OGB_BOND_FEATURES

    def description(self) -> dict[str, Any]:
        """The source, the version and every feature with its choices, in plain JSON types."""
        return {"source": "ogb", **super().description()}
