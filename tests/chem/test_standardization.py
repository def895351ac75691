import pytest
from rdkit import Chem

from pyg_kernels.chem import InvalidSmiles, StandardizedRow, standardize, standardize_many

# What it is, what it becomes, and by which steps: written by hand.
KNOWN = {
    "CC(=O)[O-].[Na+]": ("CC(=O)O", ("fragment", "charge")),
    "CC(=O)O[Na]": ("CC(=O)O", ("cleanup", "fragment", "charge")),
    "CC[NH3+].[Cl-]": ("CCN", ("fragment", "charge")),
    "C[N+](C)(C)C.[Cl-]": ("C[N+](C)(C)C", ("fragment",)),
    "CCO.O": ("CCO", ("fragment",)),
    "C[C@H]([NH3+])C(=O)[O-]": ("C[C@H](N)C(=O)O", ("charge",)),
    "CS(C)=O": ("C[S+](C)[O-]", ("cleanup",)),
    "F/C=C/F": ("F/C=C/F", ()),
    "OCC": ("CCO", ()),
    "*C": ("*C", ()),
}


@pytest.mark.parametrize("smiles", KNOWN)
def test_known_molecules(smiles: str) -> None:
    after, steps = KNOWN[smiles]
    assert standardize(smiles) == after
    mol = Chem.MolFromSmiles(smiles)
    assert Chem.MolToSmiles(standardize(mol)) == after
    assert Chem.MolToSmiles(mol) == Chem.CanonSmiles(smiles)  # left as it was
    assert standardize(after) == after
    found, changes = standardize_many([smiles])
    assert (found, changes) == (
        ([after], [StandardizedRow(0, smiles, after, steps)]) if steps else ([smiles], [])
    )


def test_many_at_once_on_two_processes(capfd: pytest.CaptureFixture[str]) -> None:
    smiles = ["C(C", *KNOWN, ""] * 43  # two chunks
    found, changes = standardize_many(smiles, num_workers=2)
    assert (found, changes) == standardize_many(smiles, num_workers=0)
    assert [change.row for change in changes] == [
        k for k, text in enumerate(smiles) if text in KNOWN and KNOWN[text][1]
    ]
    for k, (text, after) in enumerate(zip(smiles, found, strict=True)):
        expected, steps = KNOWN.get(text, (text, ()))
        assert after == (expected if steps else text), k
    assert capfd.readouterr() == ("", "")
    assert standardize_many([]) == ([], [])


def test_what_cannot_be_read_is_named() -> None:
    with pytest.raises(InvalidSmiles, match=r"C\(C"):
        standardize("C(C")
    with pytest.raises(TypeError, match="not 3"):
        standardize(3)  # type: ignore[call-overload]
