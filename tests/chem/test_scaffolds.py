import pytest

from pyg_kernels.chem import InvalidSmiles, murcko_scaffolds


def test_known_scaffolds() -> None:
    known = {
        "Cc1ccccc1": "c1ccccc1",
        "c1ccccc1CCc1ccncc1O": "c1ccc(CCc2ccncc2)cc1",
        "CCO": "",
        "C[C@H]1CCCCN1": "C1CCNCC1",
        "[Na+].[O-]C(=O)C1CC1": "C1CC1",
    }
    assert murcko_scaffolds(list(known)) == list(known.values())
    with pytest.raises(InvalidSmiles, match=r"C\(C"):
        murcko_scaffolds(["C", "C(C"])
