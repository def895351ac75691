import pytest
import torch

pytest.importorskip("rdkit", reason="molecules need the extra 'mol'")

from benchmarks.corpora.planted_substructure import PlantedSubstructure
from pyg_kernels.chem import OGBFeaturizer
from pyg_kernels.datasets import MoleculeDataset

SMILES = [
    *("CCO", "c1ccsc1", "c1ccc2nsnc2c1", "c1cc2sccc2s1", "Cc1cscc1-c1cccs1", "C1CCSC1"),
    *("c1cc2ccsc2cc1.c1ccsc1", "[Na+].[Cl-]", "CC", "S"),
]
# From the drawings: thiophene rings, and the atoms in one.
COUNTS = [0, 1, 0, 2, 2, 0, 2, 0, 0, 0]
IN_A_RING = {1: range(5), 3: range(8), 4: range(1, 11), 6: [*range(2, 7), *range(9, 14)]}
MEMBERS = [list(IN_A_RING.get(k, [])) for k in range(10)]
THIOPHENE = "c1ccsc1"


@pytest.fixture(scope="module")
def molecules() -> MoleculeDataset:
    return MoleculeDataset.from_smiles(SMILES, torch.arange(10))


@pytest.mark.parametrize("rows", [list(range(10)), [6, 1, 0, 3, 8, 2, 9, 7, 5, 4]])
def test_counts_groups_and_knows_their_atoms(molecules: MoleculeDataset, rows: list[int]) -> None:
    planted = PlantedSubstructure(molecules[rows], THIOPHENE)
    assert planted.target_names == [THIOPHENE]
    assert planted.smiles == [SMILES[k] for k in rows]
    assert planted.row_numbers == rows
    view = planted[[3, 0]]
    assert isinstance(view, PlantedSubstructure)
    for made, places in ((planted, rows), (view, [rows[3], rows[0]])):
        assert made.targets.flatten().tolist() == [COUNTS[k] for k in places]
        assert len(made.evidence) == len(places)
        for data, marks, k in zip(made, made.evidence, places, strict=True):
            assert marks.dtype == torch.bool
            assert marks.shape == (data.num_nodes,)
            assert marks.nonzero().flatten().tolist() == MEMBERS[k]
            assert float(data.y) == COUNTS[k]


def test_matches_overlap_and_count_once_for_the_same_atoms() -> None:
    few = ["CCCC", "CC", "C", "CCO", "C" * 1501, *"COSNPFIBCO"]
    molecules = MoleculeDataset.from_smiles(few, featurizer=OGBFeaturizer())
    planted = PlantedSubstructure(molecules, "CC")
    assert planted.featurizer is molecules.featurizer
    assert planted.targets.flatten().tolist() == [3, 1, 0, 1, 1500] + [0] * 10
    assert [int(marks.sum()) for marks in planted.evidence[:4]] == [4, 2, 0, 2]


def test_the_chembl_assay(assay) -> None:
    planted = PlantedSubstructure(assay)
    assert len(planted) == 1017
    assert planted.targets.flatten().long().bincount().tolist() == [516, 313, 161, 27]
    share = torch.cat(planted.evidence).double().mean().item()
    assert share == pytest.approx(0.043, abs=0.0005)


def test_what_cannot_be_planted(molecules: MoleculeDataset) -> None:
    for rows, smarts, said in (
        *((range(10), s, "with at least one atom") for s in ("", "c1cc", "not a pattern")),
        (range(10), "P", "smarts 'P' must occur more often .* 10 molecules have it 0 times each"),
        ([1, 5], "[#16]~1~*~*~*~*1", "the 2 molecules have it 1 times each"),
        ([0, 1, 2], THIOPHENE, "leaves no molecules for"),
    ):
        with pytest.raises(ValueError, match=said):
            PlantedSubstructure(molecules[list(rows)], smarts)
