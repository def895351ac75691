"""Atom and bond features with charges, radicals and stereochemistry."""

from __future__ import annotations

from itertools import repeat
from typing import Any

import numpy as np
from numpy.typing import NDArray
from rdkit import Chem
from rdkit.Chem import rdCIPLabeler

from pyg_kernels.chem.encoding import BOND_NUMBER, CodeReader, encoded
from pyg_kernels.chem.features import Feature, elements, indicator, named, numbers
from pyg_kernels.chem.featurizer import Featurizer

# fmt: off
ELEMENTS = (
    "*", "C", "N", "O", "S", "F", "Cl", "Br", "I", "P", "Si", "B", "Se", "H",
    "Li", "Na", "K", "Rb", "Cs", "Be", "Mg", "Ca", "Sr", "Ba", "Al", "Ga", "In", "Tl",
    "Ge", "Sn", "Pb", "As", "Sb", "Bi", "Te", "Ti", "Zr", "V", "Cr", "Mo", "W", "Mn", "Tc", "Re",
    "Fe", "Ru", "Os", "Co", "Rh", "Ir", "Ni", "Pd", "Pt", "Cu", "Ag", "Au", "Zn", "Cd", "Hg", "Gd",
)
# fmt: on

CHIRALITY = Feature("chirality", ("none", "R", "S", "r", "s"), tuple(range(5)), has_unknown=True)
STEREO = Feature("stereo", ("none", "E", "Z"), tuple(range(3)), has_unknown=True)

DEFAULT_ATOM_FEATURES: tuple[Feature, ...] = (
    elements(ELEMENTS),
    numbers("degree", range(7)),
    numbers("hydrogens", range(5)),
    numbers("formal charge", range(-2, 5)),
    numbers("radical electrons", range(4)),
    CHIRALITY,
    indicator("aromatic"),
    indicator("in ring"),
)

DEFAULT_BOND_FEATURES: tuple[Feature, ...] = (
    named("type", Chem.BondType, ("SINGLE", "DOUBLE", "TRIPLE", "AROMATIC", "DATIVE")),
    STEREO,
    indicator("conjugated"),
    indicator("in ring"),
)

_LABEL = "_CIPCode"
_ATOM_LABELS = {"R": 1, "S": 2, "r": 3, "s": 4}
# Lower case: the bond keeps its label in the mirror image by way of chiral substituents.
_BOND_LABELS = {"E": 1, "Z": 2, "e": 1, "z": 2}
_UNKNOWN = 5
# What a SMILES with stereochemistry contains: of atoms, of bonds, or an extension behind it.
_SIGNS_OF_STEREO = frozenset("@/\\|")
# Of comparisons of substituents. A molecule that needs more has no label and takes the unknown
# slot; those of natural products need some hundred.
_MOST_COMPARISONS = 100_000
# A bond's order is read in half the time of its type, and is as good as that for the bonds of
# SMILES but dative ones: those have a sign of their own, or an atom of a metal.
_TYPE_OF_ORDER = {
    1.0: int(Chem.BondType.SINGLE),
    2.0: int(Chem.BondType.DOUBLE),
    3.0: int(Chem.BondType.TRIPLE),
    1.5: int(Chem.BondType.AROMATIC),
}
_SIGNS_OF_TYPES = frozenset("<>|")
_NO_METALS = frozenset((1, 5, 6, 7, 8, 9, 14, 15, 16, 17, 34, 35, 53))


class DefaultReader(CodeReader):
    """Reads the properties of `DEFAULT_ATOM_FEATURES` and `DEFAULT_BOND_FEATURES`.

    Degrees, and which atoms are in rings, follow from the bonds.
    """

    def __init__(self) -> None:
        super().__init__()
        self._atoms: tuple[list[int], ...] = ([], [], [], [], [], [])
        self._bonds: tuple[list[int], ...] = ([], [], [], [])
        self._has_stereo, self._has_orders = True, False  # of the molecule that is read

    def read(self, mol: Chem.Mol, smiles: str | None = None) -> None:
        """Appends one sanitised molecule, after its stereochemistry has been labeled."""
        self._has_stereo = smiles is None or not _SIGNS_OF_STEREO.isdisjoint(smiles)
        self._has_orders = smiles is not None and _SIGNS_OF_TYPES.isdisjoint(smiles)
        if self._has_stereo:
            label_stereo(mol)
        super().read(mol, smiles)

    def read_atoms(self, atoms: list[Any]) -> None:
        """Appends the atoms of one molecule."""
        element, hydrogens, charge, radicals, chirality, aromatic = self._atoms
        elements = list(map(Chem.Atom.GetAtomicNum, atoms))
        self._has_orders = self._has_orders and _NO_METALS.issuperset(elements)
        element += elements
        hydrogens.extend(map(Chem.Atom.GetTotalNumHs, atoms))
        charge.extend(map(Chem.Atom.GetFormalCharge, atoms))
        radicals.extend(map(Chem.Atom.GetNumRadicalElectrons, atoms))
        chirality.extend(map(chirality_of, atoms) if self._has_stereo else [0] * len(atoms))
        aromatic.extend(map(Chem.Atom.GetIsAromatic, atoms))

    def read_bonds(self, bonds: list[Any]) -> None:
        """Appends its bonds, each once."""
        bond_type, stereo, conjugated, in_ring = self._bonds
        if self._has_orders:
            orders = map(Chem.Bond.GetBondTypeAsDouble, bonds)
            bond_type.extend(map(_TYPE_OF_ORDER.get, orders, repeat(0)))
        else:
            bond_type.extend(map(BOND_NUMBER.__getitem__, map(Chem.Bond.GetBondType, bonds)))
        stereo.extend(map(stereo_of, bonds) if self._has_stereo else [0] * len(bonds))
        conjugated.extend(map(Chem.Bond.GetIsConjugated, bonds))
        in_ring.extend(map(Chem.Bond.IsInRing, bonds))

    def atom_codes(self) -> NDArray[np.uint8]:
        """The codes of all atoms so far, a row each."""
        element, *others, aromatic = self._atoms
        ends, size = self.bond_ends(), len(element)
        degree = np.bincount(ends.ravel(), minlength=size)
        in_ring = np.zeros(size, dtype=bool)
        in_ring[ends[:, np.array(self._bonds[3], dtype=bool)]] = True
        columns = (element, degree, *others, aromatic, in_ring)
        return encoded(DEFAULT_ATOM_FEATURES, columns)

    def bond_codes(self) -> NDArray[np.uint8]:
        """The codes of all bonds so far, a row each."""
        return encoded(DEFAULT_BOND_FEATURES, self._bonds)


def label_stereo(mol: Chem.Mol) -> None:
    """Labels atoms and bonds by the rules of Cahn, Ingold and Prelog, in place."""
    Chem.AssignStereochemistry(mol, cleanIt=True)  # done already where the molecule was a SMILES
    _clear_labels(mol)
    try:
        rdCIPLabeler.AssignCIPLabels(mol, maxRecursiveIterations=_MOST_COMPARISONS)
    except RuntimeError:
        _clear_labels(mol)


def _clear_labels(mol: Chem.Mol) -> None:
    labeled: list[Any] = [*mol.GetAtoms(), *mol.GetBonds()]
    for atom_or_bond in labeled:
        atom_or_bond.ClearProp(_LABEL)


def chirality_of(atom: Any) -> int:
    """The code of an atom's label."""
    if atom.HasProp(_LABEL):
        return _ATOM_LABELS.get(atom.GetProp(_LABEL), _UNKNOWN)
    return 0 if atom.GetChiralTag() == Chem.ChiralType.CHI_UNSPECIFIED else _UNKNOWN


def stereo_of(bond: Any) -> int:
    """The code of a bond's label."""
    if bond.HasProp(_LABEL):
        return _BOND_LABELS.get(bond.GetProp(_LABEL), _UNKNOWN)
    return 0 if bond.GetStereo() == Chem.BondStereo.STEREONONE else _UNKNOWN


class DefaultFeaturizer(Featurizer):
    """Atom and bond features that tell charges, radicals and stereoisomers apart.

    Atoms, 96 columns, in this order:

    ================= ===== ==========================================================
    feature           width choices
    ================= ===== ==========================================================
    element           61    the wildcard ``*``, 59 elements, then unknown
    degree            8     0 to 6 bonded atoms in the graph, then unknown
    hydrogens         6     0 to 4 attached hydrogens outside the graph, then unknown
    formal charge     8     -2 to 4, then unknown
    radical electrons 5     0 to 3, then unknown
    chirality         6     none, R, S, r, s, then unknown
    aromatic          1     0 or 1
    in ring           1     0 or 1
    ================= ===== ==========================================================

    Bonds, 12 columns:

    ================= ===== ==========================================================
    type              6     single, double, triple, aromatic, dative, then unknown
    stereo            4     none, E, Z, then unknown
    conjugated        1     0 or 1
    in ring           1     0 or 1
    ================= ===== ==========================================================

    Stereo labels are those of Cahn, Ingold and Prelog, by RDKit's ``rdCIPLabeler`` (the algorithm
    of Hanson et al. 2018): other than RDKit's chiral tags they depend on the molecule alone, not on
    the order of its atoms; r and s are pseudoasymmetric centers, such as those of cis- and
    trans-1,4-dimethylcyclohexane. *None* is a center or bond without stereo, or whose stereo the
    molecule does not specify; *unknown* one whose stereo has no such label, as that of
    square-planar platinum, atropisomers and bonds that are marked as either.

    Example:
        >>> featurizer = DefaultFeaturizer()
        >>> data = featurizer("C[C@H](N)C(=O)O")
        >>> data.x.shape, data.edge_index.shape, data.edge_attr.shape
        (torch.Size([6, 96]), torch.Size([2, 10]), torch.Size([10, 12]))
    """

    name = "default"
    version = 1
    reader = DefaultReader

    @property
    def atom_features(self) -> tuple[Feature, ...]:
        """The atom features in the order of their columns, 96 in all."""
        return DEFAULT_ATOM_FEATURES

    @property
    def bond_features(self) -> tuple[Feature, ...]:
        """The bond features in the order of their columns, 12 in all."""
        return DEFAULT_BOND_FEATURES
