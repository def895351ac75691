"""The order in which a SMILES names a molecule's atoms changes no prediction."""

import pytest
import torch

pytest.importorskip("lightning", reason="the benchmark needs the extra 'bench'")
pytest.importorskip("rdkit", reason="molecules need the extra 'mol'")

from rdkit import Chem

from benchmarks.harness.molecules.models import MODELS, ModelConfig, build_model
from pyg_kernels.datasets import MoleculeDataset

SMILES = ["CC(=O)Nc1ccc(O)cc1", "c1ccc2c(c1)[nH]c1ccsc12", "C", "C#CC1CC1[Si](C)C", "[Na+].[Cl-]"]


def permuted(smiles: str, seed: int) -> str:
    """The same molecule with its atoms in another order."""
    molecule = Chem.MolFromSmiles(smiles)
    generator = torch.Generator().manual_seed(seed)
    order = torch.randperm(molecule.GetNumAtoms(), generator=generator).tolist()
    return Chem.MolToSmiles(Chem.RenumberAtoms(molecule, order), canonical=False)


@pytest.mark.parametrize("name", MODELS)
def test_permuted_atoms_have_the_same_prediction(name):
    torch.manual_seed(0)
    molecules = MoleculeDataset.from_smiles(SMILES)
    featurizer = molecules.featurizer
    config = ModelConfig(name, featurizer.atom_dim, featurizer.bond_dim, num_targets=2, hidden=8)
    model = build_model(config).eval()
    seen = set()
    for seed in range(4):
        texts = [permuted(smiles, seed) for smiles in SMILES]
        seen.add(tuple(texts))
        batches = [molecules, MoleculeDataset.from_smiles(texts)]
        batches = [one.batch(torch.arange(len(SMILES))) for one in batches]
        with torch.no_grad():
            expected, found = (model(batch) for batch in batches)
        torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-5)
    assert len(seen) > 1
