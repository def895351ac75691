"""Features of molecules against RDKit and OGB, and what every featurizer promises."""

import json
import pickle
import random
from typing import Any

import numpy as np
import pytest
import torch
from rdkit import Chem, rdBase
from rdkit.Chem import rdCIPLabeler

from pyg_kernels.chem import (
    BOND_FEATURES,
    DefaultFeaturizer,
    Feature,
    Featurizer,
    InvalidRow,
    InvalidSmiles,
    MolFeaturizer,
    OGBFeaturizer,
    default_featurizer,
    featurizer_by_name,
    murcko_scaffolds,
    ogb_featurizer,
)
from tests.chem.nci import nci_smiles, readable_nci_smiles

MOL, DEFAULT, OGB = MolFeaturizer(), DefaultFeaturizer(), OGBFeaturizer()
# Salts, isotopes, unknown elements, degrees, hydrogens and bonds, atoms without bonds, stereo.
ODD_SMILES = r"""
    CCO CC#N C1CC1 c1cc[nH]c1 [Na+].[Cl-] C [13CH4] [2H]O[2H] *C *[CH2] C[CH]C [OH] [CH3] [Li]
    [Og] [Zr+5] [P-3] [U] [Fe+2] N->[Pt] C$C FS(F)(F)(F)(F)F [BiH5] O=[Se]=O [O-][N+](=O)c1ccccc1
    C[C@H](N)[O-] C[C@H](N)C(=O)O C[C@@H](N)C(=O)O C[C@H]1CC[C@@H](C)CC1 [C@SP1](F)(Cl)(Br)I
    F/C=C/F F/C=C\F C1CCCCCCC/C=C\1
    C[C@]12CC[C@H]3[C@@H](CC[C@@H]4C[C@@H](O)CC[C@]34C)[C@@H]1CC[C@@H]2O
    OC[C@H]1OC(O)[C@H](O)[C@@H](O)[C@@H]1O C/C=C/C(=O)/C=C\C[C@@H](N)C(=O)O C[S@](=O)CC
    C/C=C/[C@H](O)/C=C\C [O-][N+](=O)c1ccc(cc1)[C@@H](C)[N+](C)(C)C Cl[Pt@SP1](Cl)(N)N
"""
ODD = ODD_SMILES.split()


# Every featurizer: the same codes and errors for one or many, here or in processes

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
    """Also without sanitization, where stereo is not yet what OGB reads off a SMILES."""
    plain = ["F/C=C/F", "C[C@H](C)C", "C[C@H](N)C(=O)O", "c1ccccc1O"]
    odd = [*STEREO, "C[C@H]1CC[C@@H](C)CC1", "CC/C=C(/C)C"]
    for smiles in [*readable_nci_smiles()[::501], *odd, *plain]:
        one, raw = featurizer.encode(smiles), Chem.MolFromSmiles(smiles, sanitize=False)
        is_same = smiles in plain or featurizer.name != "ogb"
        for mol in (Chem.MolFromSmiles(smiles), *([raw] if is_same else [])):
            before, other = Chem.MolToSmiles(mol), featurizer.encode(mol)
            assert np.array_equal(one.atoms, other.atoms)
            assert np.array_equal(one.bonds, other.bonds)
            assert Chem.MolToSmiles(mol) == before


def test_atom_maps_change_nothing(featurizer: Featurizer) -> None:
    for mapped, plain in (
        ("[CH3:1][C:2]([OH:3])=[C:4]1[CH2:5][CH2:6]1", "CC(O)=C1CC1"),
        ("C[CH:1]=C1OC(=O)c2ccccc21", "CC=C1OC(=O)c2ccccc21"),
        ("[cH:1]1[nH:2][cH:3]c[cH:9]1", "c1[nH]ccc1"),
        ("[CH3:1][C@H](O)[CH3:2]", "C[C@H](O)C"),
        ("[CH3:1][C@H:4](O)[CH3:2]", "CC(O)C"),
        ("[13CH3:1][NH3+:2]", "[13CH3][NH3+]"),
        ("C[C@H:3](O)[F:1]", "C[C@H](O)F"),
        ("[PH:1](=[O:2])([OH:3])[OH:4]", "[PH](=O)(O)O"),
    ):
        molecule = Chem.MolFromSmiles(mapped)
        for one in (featurizer.encode(mapped), featurizer.encode(molecule)):
            other = featurizer.encode(plain)
            np.testing.assert_array_equal(one.atoms, other.atoms)
            np.testing.assert_array_equal(one.bonds, other.bonds)
        assert any(atom.GetAtomMapNum() for atom in molecule.GetAtoms())  # a copy was read
    assert murcko_scaffolds(["C[CH:1]=C1OC(=O)c2ccccc21"]) == ["C=C1OC(=O)c2ccccc21"]


def test_what_cannot_be_read_is_listed(featurizer: Featurizer) -> None:
    store, invalid = featurizer.encode_many(["CCO", "C(C", "", "[Na+].[Cl-]", "FF(F)", "C"])
    assert store.positions.tolist() == [0, 3, 5]
    assert store.atom_ptr.tolist() == [0, 3, 5, 6]
    assert store.edge_ptr.tolist() == [0, 4, 4, 4]
    assert [row.row for row in invalid] == [1, 2, 4]
    assert invalid[1] == InvalidRow(2, "", "it is empty")
    atom_dim, bond_dim, atoms, bonds = SIZES[featurizer.name]
    for smiles in ([], ["C(C"], ["", ""]):
        store, invalid = featurizer.encode_many(smiles)
        assert (len(store), len(invalid)) == (0, len(smiles))
        shapes = (store.atoms.shape, store.edge_index.shape, store.bonds.shape)
        assert shapes == ((0, atoms), (2, 0), (0, bonds))
        assert featurizer.expand_atoms(torch.from_numpy(store.atoms)).shape == (0, atom_dim)
        assert featurizer.expand_bonds(torch.from_numpy(store.bonds)).shape == (0, bond_dim)


def test_types_widths_and_names(featurizer: Featurizer) -> None:
    assert type(featurizer) is KINDS[featurizer.name]
    assert featurizer_by_name(featurizer) is featurizer
    with pytest.raises(ValueError, match=r"'ecfp'.*'default', 'duvenaud', 'ogb'"):
        featurizer_by_name("ecfp")
    with pytest.raises(TypeError, match="3: expected a name"):
        featurizer_by_name(3)  # type: ignore[arg-type]
    atom_dim, bond_dim, atoms, bonds = SIZES[featurizer.name]
    data = featurizer("CCO")
    assert (data.x.dtype, data.edge_attr.dtype) == (torch.float32, torch.float32)
    assert data.edge_index.dtype == torch.int64
    assert (featurizer.atom_dim, featurizer.bond_dim) == (atom_dim, bond_dim)
    assert (data.num_node_features, data.num_edge_features) == (atom_dim, bond_dim)
    found = featurizer.encode("CCO")
    assert (found.atoms.shape, found.atoms.dtype) == ((3, atoms), np.uint8)
    assert (found.bonds.shape, found.bonds.dtype) == ((4, bonds), np.uint8)
    assert found.edge_index.dtype == np.int32
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


# Against RDKit, atom by atom and bond by bond; how SMILES are read


def label(item: Any, is_without_stereo: bool) -> str:
    """The Cahn-Ingold-Prelog label of an atom or a bond."""
    return item.GetProp("_CIPCode") if item.HasProp("_CIPCode") else "none" * is_without_stereo


def atom_label(atom: Chem.Atom) -> str:
    return label(atom, atom.GetChiralTag() == Chem.ChiralType.CHI_UNSPECIFIED)


def bond_label(bond: Chem.Bond) -> str:
    return label(bond, bond.GetStereo() == Chem.BondStereo.STEREONONE).replace("z", "Z")


TYPES = [getattr(Chem.BondType, name) for name in ("SINGLE", "DOUBLE", "TRIPLE", "AROMATIC")]
LAST = [(Chem.Bond.GetIsConjugated, [True]), (Chem.Bond.IsInRing, [True])]
DEFINITIONS: dict[str, tuple[list[Any], list[Any]]] = {
    "duvenaud": (
        [
            (Chem.Atom.GetSymbol, MOL.atom_features[0].choices),
            (Chem.Atom.GetDegree, range(6)),
            (Chem.Atom.GetTotalNumHs, range(5)),
            (Chem.Atom.GetNumImplicitHs, range(6)),
            (Chem.Atom.GetIsAromatic, [True]),
        ],
        [(Chem.Bond.GetBondType, TYPES), *LAST],
    ),
    "default": (
        [
            (Chem.Atom.GetSymbol, DEFAULT.atom_features[0].choices),
            (Chem.Atom.GetDegree, range(7)),
            (Chem.Atom.GetTotalNumHs, range(5)),
            (Chem.Atom.GetFormalCharge, range(-2, 5)),
            (Chem.Atom.GetNumRadicalElectrons, range(4)),
            (atom_label, ["none", "R", "S", "r", "s"]),
            (Chem.Atom.GetIsAromatic, [True]),
            (Chem.Atom.IsInRing, [True]),
        ],
        [
            (Chem.Bond.GetBondType, [*TYPES, Chem.BondType.DATIVE]),
            (bond_label, ["none", "E", "Z"]),
            *LAST,
        ],
    ),
}


def columns_of(item: Any, definition: list[Any]) -> list[float]:
    """One-hots with a slot for all other values; a feature that is true or not has one column."""
    columns: list[float] = []
    for read, choices in definition:
        value = read(item)
        columns += [float(value == choice) for choice in choices]
        columns += [float(value not in choices)] * (len(choices) > 1)
    return columns


@pytest.mark.parametrize("name", DEFINITIONS)
def test_features_are_rdkits_in_any_order_of_atoms(name: str) -> None:
    shuffle, featurizer = random.Random(0), featurizer_by_name(name)
    of_atoms, of_bonds = DEFINITIONS[name]
    for smiles in [*ODD, *readable_nci_smiles()[::23]]:
        given = Chem.MolFromSmiles(smiles)
        order = shuffle.sample(range(given.GetNumAtoms()), given.GetNumAtoms())
        moved = Chem.RenumberAtoms(given, order)
        for mol, data in ((given, featurizer(smiles)), (moved, featurizer(moved))):
            rdCIPLabeler.AssignCIPLabels(mol)
            assert data.x.tolist() == [columns_of(atom, of_atoms) for atom in mol.GetAtoms()]
            pairs = [
                (u.GetIdx(), v.GetIdx())
                for v in mol.GetAtoms()
                for u in sorted(v.GetNeighbors(), key=Chem.Atom.GetIdx)
            ]
            assert [tuple(pair) for pair in data.edge_index.T.tolist()] == pairs
            bonds = [mol.GetBondBetweenAtoms(u, v) for u, v in pairs]
            assert data.edge_attr.tolist() == [columns_of(bond, of_bonds) for bond in bonds]
        assert featurizer(smiles).smiles == smiles


def test_invalid_smiles_and_molecules() -> None:
    for smiles, reason in (
        ("  ", "empty"),
        ("C1CC", "not well-formed"),
        ("FF(F)", "valence"),
        ("c1cccc1", "kekulize"),
        ("é", "not well-formed"),
        ("CC\nO", "not well-formed"),
        ("\ud800", "not well-formed"),
        ("(" * 30000, "not well-formed"),
    ):
        with pytest.raises(InvalidSmiles, match=reason) as caught:
            MOL.encode(smiles)
        assert isinstance(caught.value, ValueError)
        assert "\n" not in str(caught.value) and len(str(caught.value)) < 200
        again = pickle.loads(pickle.dumps(caught.value))
        assert (again.smiles, str(again)) == (smiles, str(caught.value))
    too_many = Chem.MolFromSmiles("C(C)(C)(C)(C)C", sanitize=False)
    for mol, reason in ((too_many, "valence"), (Chem.Mol(), "no atoms")):
        with pytest.raises(InvalidSmiles, match=reason):
            MOL(mol)
    assert MOL(Chem.AddHs(Chem.MolFromSmiles("C"))).num_nodes == 5
    for text in (" CCO", "CCO ", "CCO ethanol", "CCO\t17"):
        assert MOL(text).num_nodes == 3


def test_features_of_ones_own() -> None:
    """Values without a slot give zeros, and the first bond feature is what its `read` returns."""
    halogen = Feature("halogen", ("F", "Cl"), (9, 17), False, read=Chem.Atom.GetAtomicNum)
    degree = Feature("degree", (1, 2), (1, 2), True, read=Chem.Atom.GetDegree)
    ring = Feature("ring", (False, True), (0, 1), False, read=Chem.Bond.IsInRing)

    class Own(Featurizer):
        name, version = "own", 1
        atom_features, bond_features = (halogen, degree, halogen), (ring, *BOND_FEATURES)

    found = Own()("ClC1CC1")
    expected = [[0, 1, 1, 0, 0, 0, 1], *[[0, 0, 0, 0, 1, 0, 0]] * 3]
    expected[2:] = [[0, 0, 0, 1, 0, 0, 0]] * 2
    assert found.x.tolist() == expected
    assert found.edge_attr[:, 0].tolist() == [0.0, 0.0, *[1.0] * 6]
    assert torch.equal(found.edge_attr[:, 1:], MolFeaturizer()("ClC1CC1").edge_attr)
    single = Feature("type", ("SINGLE",), (1,), True)  # a bond type needs no `read`
    found = type("Types", (Own,), {"bond_features": (single,)})()("CC=C")
    assert found.edge_attr.tolist() == [*[[1.0, 0.0]] * 2, *[[0.0, 1.0]] * 2]
    for name in ("atom_features", "bond_features"):
        with pytest.raises(ValueError, match="at least one feature of atoms and one of bonds"):
            type("None", (Own,), {name: ()})()("C")
        unread = (Feature("ring", (False, True), (0, 1), False),)
        with pytest.raises(ValueError, match="the feature 'ring' has no read"):
            type("Unread", (Own,), {name: unread})()("CC")


def test_a_count_of_0_or_1_is_no_yes_or_no() -> None:
    for choices, widths in (((0, 1), (2, 3)), ((False, True), (1, 3))):
        for has_unknown, width in enumerate(widths):
            feature = Feature("some", choices, (0, 1), bool(has_unknown))
            assert (feature.width, feature.is_indicator) == (width, width == 1)


def test_wrong_types_are_named() -> None:
    codes: Any = torch.zeros(4, 3, dtype=torch.uint8)
    for call, argument, error, said in (
        (MOL.encode, 3, TypeError, "SMILES string or an RDKit Mol, not 3"),
        (MOL.encode_many, ["C", float("nan")], TypeError, r"smiles\[1\] must be a string, not nan"),
        (MOL.encode_many, "CCO", TypeError, "not the string 'CCO'"),
        (MOL.expand_atoms, codes, ValueError, r"\(n, 5\).*element, degree.*not \(4, 3\)"),
        (MOL.expand_bonds, codes[0], ValueError, r"\(n, 3\)"),
    ):
        with pytest.raises(error, match=said):
            call(argument)
    with pytest.raises(ValueError, match="num_workers"):
        MOL.encode_many(["C"], num_workers=-1)


def test_rdkit_is_quiet_while_reading_and_progress_is_shown_on_request(
    capfd: pytest.CaptureFixture[str],
) -> None:
    MOL.encode_many(["FF(F)", "C(C", *readable_nci_smiles()[:200]])
    with pytest.raises(InvalidSmiles):
        MOL("c1cccc1")
    assert capfd.readouterr() == ("", "")
    Chem.MolFromSmiles("FF(F)")
    assert "valence" in capfd.readouterr().err
    MOL.encode_many(["C"] * 700, progress=True)
    assert "700/700" in capfd.readouterr().err


# DefaultFeaturizer: which molecules it tells apart


def rows_of(smiles: str) -> list[tuple[list[int], list[list[int]]]]:
    """The codes of every atom and of its bonds, sorted, so that the order of atoms is lost."""
    codes = DEFAULT.encode(smiles)
    atoms = range(len(codes.atoms))
    bonds = [codes.bonds[codes.edge_index[1] == atom].tolist() for atom in atoms]
    return sorted(zip(codes.atoms.tolist(), map(sorted, bonds), strict=True))


def test_stereoisomers_have_different_features() -> None:
    for one, other in (
        ("C[C@H](N)C(=O)O", "C[C@@H](N)C(=O)O"),  # enantiomers
        ("C[C@H](N)C(=O)O", "CC(N)C(=O)O"),  # one enantiomer, and unspecified
        ("O[C@H](C)[C@H](O)C(=O)O", "O[C@H](C)[C@@H](O)C(=O)O"),  # diastereomers
        ("C[C@H]1CC[C@H](C)CC1", "C[C@H]1CC[C@@H](C)CC1"),  # pseudoasymmetric centers
        ("C[S@](=O)CC", "C[S@@](=O)CC"),  # sulfoxides
        ("Cl[Pt@SP1](Cl)(N)N", "Cl[Pt](Cl)(N)N"),  # stereo without a label
        ("F/C=C/F", "F/C=C\\F"),
        ("F/C=C/F", "FC=CF"),
    ):
        assert rows_of(one) != rows_of(other), (one, other)
    assert rows_of("CCC |^1:1|") == rows_of("C[CH]C")  # an extension follows the SMILES


def test_stereo_is_that_of_the_molecule_as_it_is_now() -> None:
    for smiles, code in ((r"C/C=C(\[C@H](C)F)[C@@H](C)F", 1), (r"C/C=C([C@H](C)F)\[C@@H](C)F", 2)):
        assert set(DEFAULT.encode(smiles).bonds[:, 1]) == {0, code}  # E and Z by chirality alone
        assert DEFAULT.bond_features[1].choices[code] == "_EZ"[code]
    assert DEFAULT.atom_features[5].choices == ("none", *"RSrs")
    changed = Chem.RWMol(Chem.MolFromSmiles("C[C@H](F)Cl"))
    assert 1 in DEFAULT.encode(changed).atoms[:, 5]
    changed.GetAtomWithIdx(3).SetAtomicNum(9)  # no center any more, whatever RDKit has noted
    assert not DEFAULT.encode(changed).atoms[:, 5].any()
    either = Chem.MolFromSmiles("FC=CF")
    either.GetBondWithIdx(1).SetStereo(Chem.BondStereo.STEREOANY)
    assert DEFAULT.encode(either).bonds[:, 1].tolist() == [0, 0, 3, 3, 0, 0]


def test_a_molecule_too_hard_to_label_is_unknown(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(default_featurizer, "_MOST_COMPARISONS", 1)
    smiles = "OC[C@H]1OC(O)[C@H](O)[C@@H](O)[C@@H]1O"
    chiral = [a.GetChiralTag() != 0 for a in Chem.MolFromSmiles(smiles).GetAtoms()]
    codes = DEFAULT.encode(smiles).atoms[:, 5]
    assert any(chiral) and codes.tolist() == [5 * is_chiral for is_chiral in chiral]


# OGBFeaturizer against the package ogb, atom by atom, and against its encoders


def test_codes_are_those_of_smiles2graph() -> None:
    ogb = pytest.importorskip("ogb.utils", reason="the reference is of the extra 'test'")
    for smiles in [*ODD, *readable_nci_smiles()[::25]]:
        with rdBase.BlockLogs():
            codes, graph = OGB.encode(smiles), ogb.smiles2graph(smiles)
        order = np.lexsort(graph["edge_index"])  # by target and source
        assert np.array_equal(codes.atoms, graph["node_feat"]), smiles
        assert np.array_equal(codes.edge_index, graph["edge_index"][:, order]), smiles
        assert np.array_equal(codes.bonds, graph["edge_feat"][order].reshape(-1, 3)), smiles


def test_features_are_named_as_ogb_lists_them() -> None:
    ogb = pytest.importorskip("ogb.utils.features")
    features = [*OGB.atom_features, *OGB.bond_features]
    dims = ogb.get_atom_feature_dims() + ogb.get_bond_feature_dims()
    assert [feature.num_codes for feature in features] == dims
    assert [feature.width for feature in features] == dims
    for feature, choices in zip(features, ogb.allowable_features.values(), strict=True):
        assert [*feature.choices, *["misc"] * feature.has_unknown] == choices


@pytest.mark.parametrize("kind", ["atom", "bond"])
def test_a_linear_map_of_the_one_hots_is_ogbs_encoder(kind: str) -> None:
    ogb = pytest.importorskip("ogb.graphproppred.mol_encoder")
    torch.manual_seed(0)
    features = getattr(OGB, f"{kind}_features")
    codes = torch.stack([torch.randint(f.num_codes, (500,)) for f in features], dim=1)
    encoder = getattr(ogb, f"{kind.title()}Encoder")(20).double()
    tables = list(getattr(encoder, f"{kind}_embedding_list"))
    linear = torch.nn.Linear(getattr(OGB, f"{kind}_dim"), 20, bias=False).double()
    with torch.no_grad():
        linear.weight.copy_(torch.cat([table.weight for table in tables]).t())
    x = getattr(OGB, f"expand_{kind}s")(codes.to(torch.uint8))
    assert torch.equal(x.sum(dim=1), torch.full((500,), float(len(features))))
    torch.testing.assert_close(linear(x.double()), encoder(codes), rtol=0, atol=1e-12)


def test_a_stereo_that_ogb_does_not_know_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    # RDKit's newer stereo, of atropisomers, cannot be written in SMILES: E stands in for it.
    monkeypatch.setattr(ogb_featurizer, "STEREO", {int(Chem.BondStereo.STEREONONE)})
    with pytest.raises(InvalidSmiles, match=r"'F/C=C/F': .* no code for the stereo STEREOE"):
        OGB.encode("F/C=C/F")
    store, ((row, text, reason),) = OGB.encode_many(["CC", "F/C=C/F", "C=C"])
    assert (row, text) == (1, "F/C=C/F")
    assert "STEREOE" in reason
    assert store.positions.tolist() == [0, 2]
