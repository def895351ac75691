import pytest
import torch

pytest.importorskip("rdkit", reason="molecules need the extra 'mol'")

from benchmarks.corpora.planted_substructure import planted_substructure
from pyg_kernels.chem import OGBFeaturizer
from pyg_kernels.datasets import MoleculeDataset

THIOPHENE = "c1ccsc1"
# The atoms in thiophene rings, read off drawings of the molecules.
IN_A_RING = {
    "CCO": [],
    "c1ccsc1": range(5),
    "Cc1cscc1-c1cccs1": range(1, 11),
    "c1cc2sccc2s1": range(8),
    "c1ccc2nsnc2c1": [],
    "C1CCSC1": [],
    "c1cc2ccsc2cc1.c1ccsc1": [*range(2, 7), *range(9, 14)],
    "[Na+].[Cl-]": [],
    "S": [],
}
COUNTS = [0, 1, 2, 2, 0, 0, 2, 0, 0]


@pytest.fixture(scope="module")
def molecules() -> MoleculeDataset:
    return MoleculeDataset.from_smiles(list(IN_A_RING), torch.arange(9))


def test_counts_groups_and_knows_their_atoms(molecules: MoleculeDataset) -> None:
    rows = [6, 1, 0, 3, 8, 2, 7, 5, 4]
    planted, evidence = planted_substructure(molecules[rows], THIOPHENE)
    assert planted.target_names == [THIOPHENE]
    assert planted.smiles == [molecules.smiles[k] for k in rows]
    assert planted.targets.flatten().tolist() == [COUNTS[k] for k in rows]
    for data, marks, smiles in zip(planted, evidence, planted.smiles, strict=True):
        assert (marks.dtype, marks.shape) == (torch.bool, (data.num_nodes,))
        assert marks.nonzero().flatten().tolist() == list(IN_A_RING[smiles])


def test_matches_overlap_and_count_once_for_the_same_atoms() -> None:
    few = ["CCCC", "CC", "C", "CCO", "C" * 1501]
    molecules = MoleculeDataset.from_smiles(few, featurizer=OGBFeaturizer())
    planted, evidence = planted_substructure(molecules, "CC")
    assert planted.featurizer is molecules.featurizer
    assert planted.targets.flatten().tolist() == [3, 1, 0, 1, 1500]
    assert [int(marks.sum()) for marks in evidence] == [4, 2, 0, 2, 1501]


def test_the_chembl_assay(assay) -> None:
    planted, evidence = planted_substructure(assay)
    assert len(planted) == 1017
    assert planted.targets.flatten().long().bincount().tolist() == [516, 313, 161, 27]
    assert torch.cat(evidence).double().mean().item() == pytest.approx(0.043, abs=0.0005)


@pytest.mark.parametrize(
    ("smarts", "said"),
    [
        *((smarts, "with at least one atom") for smarts in ("", "c1cc", "not a pattern")),
        ("P", "smarts 'P' must occur more often .* 9 molecules have it 0 times each"),
    ],
)
def test_what_cannot_be_planted(molecules: MoleculeDataset, smarts: str, said: str) -> None:
    with pytest.raises(ValueError, match=said):
        planted_substructure(molecules, smarts)
