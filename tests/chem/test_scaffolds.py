import pytest
from rdkit import Chem

from pyg_kernels.chem import InvalidSmiles, murcko_scaffolds

from .nci import readable_nci_smiles


def rings_and_linkers(smiles: str) -> int:
    """How many atoms are left when atoms with one neighbour are stripped again and again."""
    mol = Chem.MolFromSmiles(smiles)
    neighbors = {a.GetIdx(): {b.GetIdx() for b in a.GetNeighbors()} for a in mol.GetAtoms()}
    while leaves := [atom for atom, others in neighbors.items() if len(others) <= 1]:
        for leaf in leaves:
            for other in neighbors.pop(leaf):
                if other in neighbors:
                    neighbors[other].discard(leaf)
    return len(neighbors)


@pytest.mark.parametrize(
    ("smiles", "scaffold"),
    [
        ("Cc1ccccc1", "c1ccccc1"),
        ("c1ccccc1CCc1ccncc1O", "c1ccc(CCc2ccncc2)cc1"),
        ("CCO", ""),
        ("C[C@H]1CCCCN1", "C1CCNCC1"),
        ("[Na+].[O-]C(=O)C1CC1", "C1CC1"),
    ],
)
def test_known_scaffolds(smiles: str, scaffold: str) -> None:
    assert murcko_scaffolds([smiles]) == [scaffold]


def test_scaffolds_have_no_loose_ends() -> None:
    smiles = readable_nci_smiles()[::37]
    for scaffold in murcko_scaffolds(smiles):
        mol = Chem.MolFromSmiles(scaffold)
        if mol is not None and mol.GetNumAtoms() > 0:
            ends = [a for a in mol.GetAtoms() if a.GetDegree() == 1]
            # What is left beside rings and linkers is an atom doubly bonded to one of them.
            assert all(a.GetBonds()[0].GetBondTypeAsDouble() == 2 for a in ends)
            assert rings_and_linkers(scaffold) == mol.GetNumAtoms() - len(ends)


def test_an_invalid_smiles_is_named() -> None:
    with pytest.raises(InvalidSmiles, match=r"C\(C"):
        murcko_scaffolds(["C", "C(C"])
