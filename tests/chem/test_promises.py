"""What every featurizer keeps: one or many, here or in processes, the same codes and errors."""

import json
import pickle

import numpy as np
import pytest
import torch
from rdkit import Chem

from pyg_kernels.chem import (
    DefaultFeaturizer,
    Featurizer,
    InvalidRow,
    MolFeaturizer,
    OGBFeaturizer,
    featurizer_by_name,
)
from tests.chem.nci import nci_smiles, readable_nci_smiles

SIZES = {"default": (96, 12, 8, 4), "duvenaud": (65, 7, 5, 3), "ogb": (174, 13, 9, 3)}
KINDS = {"default": DefaultFeaturizer, "duvenaud": MolFeaturizer, "ogb": OGBFeaturizer}
STEREO = ["C[C@H](N)C(=O)O", "F/C=C/F", "F[Pt@SP1](Cl)(Br)I", "[Cu]<-N", "[nH]1cccc1", "[Fe+2]"]


@pytest.fixture(params=SIZES)
def featurizer(request: pytest.FixtureRequest) -> Featurizer:
    return featurizer_by_name(request.param)


def test_many_at_once_are_one_by_one_also_in_processes(featurizer: Featurizer) -> None:
    smiles = [*STEREO, *nci_smiles()[::8]]  # two chunks
    alone, invalid = featurizer.encode_many(smiles, num_workers=0)
    together, also_invalid = featurizer.encode_many(smiles, num_workers=2)
    assert invalid == also_invalid and len(alone) + len(invalid) == len(smiles)
    for name, array in vars(alone).items():
        assert np.array_equal(array, getattr(together, name)), name
    expected, same = MolFeaturizer().encode_many(smiles, num_workers=0)
    assert invalid == same and np.array_equal(alone.edge_index, expected.edge_index)
    for k in (*range(0, len(alone), 17), -1):
        one = featurizer.encode(smiles[alone.positions[k]])
        for name in ("atoms", "edge_index", "bonds"):
            assert np.array_equal(getattr(one, name), getattr(alone[k], name))
    with pytest.raises(IndexError, match="out of range"):
        alone[len(alone)]


def test_molecules_and_their_smiles_have_equal_codes(featurizer: Featurizer) -> None:
    for smiles in [*readable_nci_smiles()[::501], *STEREO, "C[C@H]1CC[C@@H](C)CC1", "CC/C=C(/C)C"]:
        one, raw = featurizer.encode(smiles), Chem.MolFromSmiles(smiles, sanitize=False)
        # OGB's features are those of the stereo that RDKit finds while it reads a SMILES.
        for mol in (Chem.MolFromSmiles(smiles), *([raw] if featurizer.name != "ogb" else [])):
            before, other = Chem.MolToSmiles(mol), featurizer.encode(mol)
            assert np.array_equal(one.atoms, other.atoms)
            assert np.array_equal(one.bonds, other.bonds)
            assert Chem.MolToSmiles(mol) == before


def test_molecules_that_are_not_sanitized_have_the_same(featurizer: Featurizer) -> None:
    for smiles in ("F/C=C/F", "C[C@H](C)C", "C[C@H](N)C(=O)O", "c1ccccc1O"):
        given, expected = featurizer(Chem.MolFromSmiles(smiles, sanitize=False)), featurizer(smiles)
        assert torch.equal(given.x, expected.x), smiles
        assert torch.equal(given.edge_attr, expected.edge_attr), smiles


def test_what_cannot_be_read_is_listed(featurizer: Featurizer) -> None:
    smiles = ["CCO", "C(C", "", "[Na+].[Cl-]", "FF(F)", "C"]
    store, invalid = featurizer.encode_many(smiles)
    assert store.positions.tolist() == [0, 3, 5]
    assert store.atom_ptr.tolist() == [0, 3, 5, 6]
    assert store.edge_ptr.tolist() == [0, 4, 4, 4]
    assert [row.row for row in invalid] == [1, 2, 4]
    assert invalid[1] == InvalidRow(2, "", "it is empty")


def test_nothing_has_no_codes(featurizer: Featurizer) -> None:
    atom_dim, bond_dim, atoms, bonds = SIZES[featurizer.name]
    for smiles in ([], ["C(C"], ["", ""]):
        store, invalid = featurizer.encode_many(smiles)
        assert (len(store), len(invalid)) == (0, len(smiles))
        shapes = (store.atoms.shape, store.edge_index.shape, store.bonds.shape)
        assert shapes == ((0, atoms), (2, 0), (0, bonds))
        assert store.atom_ptr.tolist() == [0]
        assert featurizer.expand_atoms(torch.from_numpy(store.atoms)).shape == (0, atom_dim)
        assert featurizer.expand_bonds(torch.from_numpy(store.bonds)).shape == (0, bond_dim)


def test_types_widths_and_names(featurizer: Featurizer) -> None:
    assert type(featurizer) is KINDS[featurizer.name]
    assert featurizer_by_name(featurizer) is featurizer
    with pytest.raises(ValueError, match=r"'ecfp'.*'default', 'duvenaud', 'ogb'"):
        featurizer_by_name("ecfp")
    with pytest.raises(TypeError, match="3: expected a name"):
        featurizer_by_name(3)  # type: ignore[arg-type]
    atom_dim, bond_dim, *codes = SIZES[featurizer.name]
    data = featurizer("CCO")
    assert (data.x.dtype, data.edge_attr.dtype) == (torch.float32, torch.float32)
    assert data.edge_index.dtype == torch.int64
    assert (featurizer.atom_dim, featurizer.bond_dim) == (atom_dim, bond_dim)
    assert (data.num_node_features, data.num_edge_features) == (atom_dim, bond_dim)
    assert [featurizer.atom_code_dim, featurizer.bond_code_dim] == codes
    found = featurizer.encode("CCO")
    assert {str(found.atoms.dtype), str(found.bonds.dtype)} == {"uint8"}
    assert str(found.edge_index.dtype) == "int32"
    assert (found.num_atoms, found.num_edges) == (3, 4)
    kind = type(featurizer).__name__
    assert repr(featurizer) == f"{kind}(atom_dim={atom_dim}, bond_dim={bond_dim})"


def test_description_tells_featurizers_apart(
    featurizer: Featurizer, monkeypatch: pytest.MonkeyPatch
) -> None:
    description = featurizer.description()
    assert json.loads(json.dumps(description)) == description
    again = pickle.loads(pickle.dumps(featurizer))
    assert again == featurizer and hash(again) == hash(featurizer) and featurizer != "CCO"
    assert torch.equal(again("CCO").x, featurizer("CCO").x)
    fingerprints = {featurizer_by_name(name).fingerprint for name in SIZES}
    before = featurizer.fingerprint
    assert before in fingerprints and len(fingerprints) == 3 and len(before) == 12
    monkeypatch.setattr(type(featurizer), "version", featurizer.version + 1)
    assert featurizer.fingerprint != before
