"""Records unpacked against the codes that they were packed from."""

import numpy as np
import pytest

pytest.importorskip("rdkit", reason="molecules need the extra 'mol'")

from pyg_kernels.chem import DefaultFeaturizer, MolCodeStore, MolFeaturizer, OGBFeaturizer
from pyg_kernels.chem.codes import pointers
from pyg_kernels.datasets.molecule_records import (
    SEPARATOR,
    KindTable,
    pack,
    ranges,
    unpack,
    unpack_smiles,
)
from tests.chem.nci import readable_nci_smiles

SMILES = ["C", "[Na+].[Cl-]", "c1ccccc1", "*", "[2H]O[2H]", "C" * 300, *readable_nci_smiles()[:60]]


def tables(featurizer):
    return KindTable(featurizer.atom_features), KindTable(featurizer.bond_features)


def chain(num_atoms):
    """A store of one molecule, a chain whose atoms come in a random order."""
    generator = np.random.default_rng(num_atoms)
    order = generator.permutation(num_atoms)
    source = np.concatenate([order[:-1], order[1:]])
    target = np.concatenate([order[1:], order[:-1]])
    kinds = generator.integers(0, 2, (num_atoms - 1, 1)).repeat(3, axis=1).astype(np.uint8)
    return MolCodeStore.of_directed_bonds(
        atoms=generator.integers(0, 2, (num_atoms, 5), dtype=np.uint8),
        source=source,
        target=target,
        bonds=np.concatenate([kinds, kinds]),
        atom_ptr=np.array([0, num_atoms]),
        edge_ptr=np.array([0, 2 * (num_atoms - 1)]),
        positions=np.array([0]),
    )


def assert_unpacked(store, graphs, order, atom_kinds, bond_kinds):
    """Every molecule of the graphs is that of the store at its place in the order."""
    for place, number in enumerate(order):
        atoms = slice(*graphs.atom_ptr[place : place + 2])
        edges = slice(*graphs.edge_ptr[place : place + 2])
        expected = store[int(number)]
        assert np.array_equal(atom_kinds.codes[graphs.atoms[atoms]], expected.atoms)
        assert np.array_equal(graphs.edge_index[:, edges] - atoms.start, expected.edge_index)
        assert np.array_equal(bond_kinds.codes[graphs.bonds[edges]], expected.bonds)


EVERY = [DefaultFeaturizer(), MolFeaturizer(), OGBFeaturizer()]


@pytest.mark.parametrize("featurizer", EVERY, ids=repr)
def test_molecules_come_back_in_any_order(featurizer):
    store, _ = featurizer.encode_many(SMILES)
    kinds = tables(featurizer)
    records, starts = pack(store, SMILES, *kinds)
    order = np.random.default_rng(0).integers(0, len(SMILES), 100)
    assert_unpacked(store, unpack(records, starts[order]), order, *kinds)


@pytest.mark.parametrize(("num_atoms", "width"), [(255, 1), (256, 2), (65_535, 2), (65_536, 4)])
def test_large_molecules_have_wider_numbers(num_atoms, width):
    stores = [chain(3), chain(num_atoms), chain(5)]
    store = MolCodeStore.concatenate(stores)
    kinds = tables(MolFeaturizer())
    records, starts = pack(store, ["", "x", "yz"], *kinds)
    assert records[starts[:-1]].tolist() == [1, width, 1]
    total = num_atoms + 3 * (num_atoms - 1)
    assert np.diff(starts).tolist() == [12, 1 + width * (2 + total) + 1, 3 + 5 + 12 + 2]
    for order in ([0, 1, 2], [1], [2, 0], [1, 1]):
        assert_unpacked(store, unpack(records, starts[order]), order, *kinds)


def test_smiles_come_back():
    texts = ["C", "", "a\nb", "é€", "x" * 400]
    store = MolCodeStore.concatenate([chain(n) for n in (1, 2, 300, 4, 5)])
    records, starts = pack(store, texts, *tables(MolFeaturizer()))
    for k in range(len(texts)):
        raw = np.append(records[: starts[k + 1]], np.uint8(SEPARATOR))
        assert unpack_smiles(raw, starts[k : k + 1], starts[k + 1 : k + 2]) == [texts[k]]


def test_a_few_bytes_a_molecule():
    store, _ = MolFeaturizer().encode_many(["c1ccccc1"])
    records, starts = pack(store, ["c1ccccc1"], *tables(MolFeaturizer()))
    # width, 6 atoms, 6 bonds; a byte an atom, three a bond, one a letter.
    assert starts.tolist() == [0, 3 + 6 + 18 + 8]
    assert len(records) == starts[-1]
    assert records[:3].tolist() == [1, 6, 6]


def test_no_molecules():
    featurizer = MolFeaturizer()
    store, _ = featurizer.encode_many([])
    records, starts = pack(store, [], *tables(featurizer))
    assert (len(records), starts.tolist()) == (0, [0])


def test_kinds_are_numbered_by_how_common_they_are_and_then_stay():
    features = MolFeaturizer().bond_features
    table = KindTable(features)
    rows = np.array([[0, 1, 0], [2, 0, 1], [2, 0, 1], [4, 1, 1]], dtype=np.uint8)
    assert table.numbers(rows).tolist() == [1, 0, 0, 2]
    assert table.rows == [[2, 0, 1], [0, 1, 0], [4, 1, 1]]
    more = np.array([[3, 0, 0], [4, 1, 1], [0, 1, 0]], dtype=np.uint8)
    again = KindTable(features, table.rows)
    assert again.numbers(more).tolist() == [3, 2, 1]
    assert again.codes.tolist() == [*table.rows, [3, 0, 0]]


def test_ranges():
    places, owner = ranges(np.array([5, 0, 9]), np.array([2, 0, 3]))
    assert places.tolist() == [5, 6, 9, 10, 11]
    assert owner.tolist() == [0, 0, 2, 2, 2]
    assert pointers([2, 0, 3]).tolist() == [0, 2, 2, 5]
