"""Atom and bond features with charges, radicals and stereochemistry."""

from __future__ import annotations

from itertools import chain
from typing import Any

from rdkit import Chem
from rdkit.Chem import rdCIPLabeler

from pyg_kernels.chem.encoding import CodeReader, atoms_and_bonds
from pyg_kernels.chem.features import Feature, bond_type, elements, indicator, numbers
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
    numbers("degree", range(7), Chem.Atom.GetDegree),
    numbers("hydrogens", range(5), Chem.Atom.GetTotalNumHs),
    numbers("formal charge", range(-2, 5), Chem.Atom.GetFormalCharge),
    numbers("radical electrons", range(4), Chem.Atom.GetNumRadicalElectrons),
    CHIRALITY,
    indicator("aromatic", Chem.Atom.GetIsAromatic),
    indicator("in ring", Chem.Atom.IsInRing),
)

DEFAULT_BOND_FEATURES: tuple[Feature, ...] = (
    bond_type("SINGLE", "DOUBLE", "TRIPLE", "AROMATIC", "DATIVE"),
    STEREO,
    indicator("conjugated", Chem.Bond.GetIsConjugated),
    indicator("in ring", Chem.Bond.IsInRing),
)

_CHIRALITY = 5  # its place among the features of atoms
_LABEL = "_CIPCode"
_ATOM_LABELS = {"R": 1, "S": 2, "r": 3, "s": 4}
# Lower case: the bond keeps its label in the mirror image by way of chiral substituents.
_BOND_LABELS = {"E": 1, "Z": 2, "e": 1, "z": 2}
_UNKNOWN = 5
# Signs of stereochemistry in a SMILES: of atoms, of bonds, or of an extension behind it.
_SIGNS_OF_STEREO = frozenset("@/\\|")
# Most comparisons of substituents in a molecule. One that needs more has no labels and takes the
# unknown slot. Natural products need some hundred.
_MOST_COMPARISONS = 100_000


class DefaultReader(CodeReader):
    """Adds stereochemistry, which can be read only after the whole molecule is labeled."""

    _has_stereo = True  # whether the molecule being read may have stereochemistry

    def read(self, mol: Chem.Mol, smiles: str | None = None) -> None:
        """Appends one sanitised molecule, after its stereochemistry has been labeled."""
        self._has_stereo = label_stereo(mol, smiles)
        super().read(mol, smiles)

    def read_atoms(self, atoms: list[Any], elements: list[int]) -> None:
        """Appends the atoms of one molecule."""
        super().read_atoms(atoms, elements)
        self.atoms[_CHIRALITY].extend(
            map(chirality_of, atoms) if self._has_stereo else [0] * len(atoms)
        )

    def read_bonds(self, bonds: list[Any]) -> None:
        """Appends its bonds, each once."""
        super().read_bonds(bonds)
        self.bonds[1].extend(map(stereo_of, bonds) if self._has_stereo else [0] * len(bonds))


def label_stereo(mol: Chem.Mol, smiles: str | None = None) -> bool:
    """Labels atoms and bonds by the rules of Cahn, Ingold and Prelog, in place.

    Returns False if the molecule comes from a SMILES that has no stereochemistry to label.
    """
    if smiles is not None and _SIGNS_OF_STEREO.isdisjoint(smiles):
        return False
    Chem.AssignStereochemistry(mol, cleanIt=True)  # done already where the molecule was a SMILES
    _clear_labels(mol)
    try:
        rdCIPLabeler.AssignCIPLabels(mol, maxRecursiveIterations=_MOST_COMPARISONS)
    except RuntimeError:
        _clear_labels(mol)
    return True


def _clear_labels(mol: Chem.Mol) -> None:
    for atom_or_bond in chain(*atoms_and_bonds(mol)):
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
    of Hanson et al. 2018). Unlike RDKit's chiral tags, they depend on the molecule alone, not on
    the order of its atoms. The labels r and s are for pseudoasymmetric centers, such as those of
    cis- and trans-1,4-dimethylcyclohexane. *None* is a center or bond that has no stereo or whose
    stereo is not specified. *Unknown* is one whose stereo has no such label, such as
    square-planar platinum, atropisomers, and bonds that are marked as either.

    Example:
        >>> from pyg_kernels.chem import DefaultFeaturizer
        >>> data = DefaultFeaturizer()("C[C@H](N)C(=O)O")
        >>> data.x.shape, data.edge_index.shape, data.edge_attr.shape
        (torch.Size([6, 96]), torch.Size([2, 10]), torch.Size([10, 12]))

    See Also:
        :class:`MolFeaturizer` and :class:`OGBFeaturizer`; :func:`featurizer_by_name`.
    """

    name = "default"
    version = 1
    reader = DefaultReader
    atom_features = DEFAULT_ATOM_FEATURES
    bond_features = DEFAULT_BOND_FEATURES
