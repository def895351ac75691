"""OGB's features against the package ogb, atom by atom, and against its encoders."""

import numpy as np
import pytest
import torch
from rdkit import Chem, rdBase

from pyg_kernels.chem import InvalidSmiles, OGBFeaturizer, ogb_featurizer

from .nci import readable_nci_smiles

pytest.importorskip("ogb", reason="the reference is the package ogb, of the extra 'test'")

featurizer = OGBFeaturizer()
ODD = [
    *("C", "[Na+].[Cl-]", "C[C@H](N)C(=O)O", "C[C@@H](N)C(=O)O", "F/C=C/F", "F/C=C\\F", "[CH3]"),
    *("*C", "[U]", "N->[Pt]", "FS(F)(F)(F)(F)F", "[2H]O[2H]", "c1cc[nH]c1", "[O-][N+](=O)c1ccccc1"),
    *("C1CCCCCCC/C=C\\1", "[C@SP1](F)(Cl)(Br)I", "C$C", "O=[Se]=O", "[Fe+2]", "[Li]"),
]


def ogb_graph(smiles):
    """Its atoms, and its directed bonds sorted by target and source."""
    from ogb.utils import smiles2graph

    with rdBase.BlockLogs():
        graph = smiles2graph(smiles)
    order = np.lexsort(graph["edge_index"])
    return graph["node_feat"], graph["edge_index"][:, order], graph["edge_feat"][order]


def test_codes_are_those_of_smiles2graph() -> None:
    for smiles in [*ODD, *readable_nci_smiles()[::25]]:
        codes = featurizer.encode(smiles)
        atoms, edge_index, bonds = ogb_graph(smiles)
        assert np.array_equal(codes.atoms, atoms), smiles
        assert np.array_equal(codes.edge_index, edge_index), smiles
        assert np.array_equal(codes.bonds, bonds.reshape(-1, 3)), smiles
        assert codes.atoms.dtype == codes.bonds.dtype == np.uint8


def test_features_are_named_as_ogb_lists_them() -> None:
    from ogb.utils.features import allowable_features as listed
    from ogb.utils.features import get_atom_feature_dims, get_bond_feature_dims

    atoms, bonds = featurizer.atom_features, featurizer.bond_features
    dims = get_atom_feature_dims() + get_bond_feature_dims()
    assert [feature.num_codes for feature in [*atoms, *bonds]] == dims
    assert [feature.width for feature in [*atoms, *bonds]] == dims
    for feature, choices in zip([*atoms, *bonds], listed.values(), strict=True):
        assert [*feature.choices, *["misc"] * feature.has_unknown] == choices


@pytest.mark.parametrize("kind", ["atom", "bond"])
def test_a_linear_map_of_the_one_hots_is_ogbs_encoder(kind: str) -> None:
    from ogb.graphproppred.mol_encoder import AtomEncoder, BondEncoder

    torch.manual_seed(0)
    features = getattr(featurizer, f"{kind}_features")
    generator = torch.Generator().manual_seed(1)
    codes = torch.stack(
        [torch.randint(f.num_codes, (500,), generator=generator) for f in features], dim=1
    )
    encoder = (AtomEncoder if kind == "atom" else BondEncoder)(20).double()
    tables = list(getattr(encoder, f"{kind}_embedding_list"))
    linear = torch.nn.Linear(getattr(featurizer, f"{kind}_dim"), 20, bias=False).double()
    with torch.no_grad():
        linear.weight.copy_(torch.cat([table.weight for table in tables]).t())
    x = getattr(featurizer, f"expand_{kind}s")(codes.to(torch.uint8))
    assert torch.equal(x.sum(dim=1), torch.full((500,), float(len(features))))
    found, expected = linear(x.double()), encoder(codes)
    torch.testing.assert_close(found, expected, rtol=0, atol=1e-12)
    gradient = torch.randn(500, 20, dtype=torch.float64)
    found.backward(gradient)
    expected.backward(gradient)
    together = torch.cat([table.weight.grad for table in tables]).t()
    torch.testing.assert_close(linear.weight.grad, together, rtol=0, atol=1e-12)


def test_a_stereo_that_ogb_does_not_know_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    # RDKit's newer ones, of atropisomers, cannot be written in SMILES: E stands in for them.
    monkeypatch.setattr(ogb_featurizer, "STEREO", {int(Chem.BondStereo.STEREONONE)})
    with pytest.raises(InvalidSmiles, match=r"'F/C=C/F': .* no code for the stereo STEREOE"):
        featurizer.encode("F/C=C/F")
    store, ((row, text, reason),) = featurizer.encode_many(["CC", "F/C=C/F", "C=C"])
    assert (row, text) == (1, "F/C=C/F")
    assert "STEREOE" in reason
    assert store.positions.tolist() == [0, 2]
