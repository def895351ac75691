"""Batches on the scale of training, and what their loss is divided by."""

import pytest
import torch

pytest.importorskip("lightning", reason="the benchmark needs the extra 'bench'")
pytest.importorskip("rdkit", reason="the benchmark's molecules need the extra 'mol'")

from benchmarks.harness.molecules.batches import MoleculeBatches, Standardized
from benchmarks.harness.molecules.data import DataChoice, MoleculeData
from benchmarks.harness.molecules.regressor import TargetScale
from pyg_kernels.datasets import MoleculeDataset

NAN = float("nan")
SMILES = ["C" * k + "O" for k in range(1, 22)]


@pytest.fixture
def data() -> MoleculeData:
    generator = torch.Generator().manual_seed(0)
    y = 1e6 + torch.randn(len(SMILES), 2, generator=generator, dtype=torch.float64)
    y[torch.rand(len(SMILES), 2, generator=generator) < 0.4] = NAN
    y[8:11] = NAN  # a batch without any
    parts = {"train": torch.arange(14), "valid": torch.arange(14, 18), "test": torch.arange(18, 21)}
    return MoleculeData(MoleculeDataset.from_smiles(SMILES, y), parts, DataChoice())


@pytest.fixture
def scale(data: MoleculeData) -> TargetScale:
    return TargetScale.fit(["a", "b"], data.targets("train"))


def test_standardized_batch_by_batch_to_the_last_bit(data, scale):
    standardized = Standardized(data.molecules, scale)
    places = torch.tensor([3, 17, 0, 9])
    batch = standardized.batch(places)
    expected = scale.standardize(data.molecules.targets)[places]
    assert batch.y.dtype == torch.float32
    torch.testing.assert_close(batch.y, expected, rtol=0, atol=0, equal_nan=True)
    assert batch.smiles == [SMILES[k] for k in places]
    assert len(standardized) == 21


def test_what_float32_cannot_hold_is_said_before_training(data, monkeypatch):
    monkeypatch.setattr("benchmarks.harness.molecules.batches.CHECKED", 4)
    data.molecules.targets[20, 1] = 3e38
    scale = TargetScale(["a", "b"], [0.0, 0.0], [1.0, 1e-3])
    with pytest.raises(ValueError, match="target 'b' has values too far"):
        MoleculeBatches(data, scale, 4, seed=0)


@pytest.mark.parametrize("number", [1, 2, 3])
def test_divisor_makes_the_mean_of_the_processes_the_mean_of_the_batch(
    data, scale, monkeypatch, number
):
    monkeypatch.setenv("WORLD_SIZE", str(number))
    monkeypatch.setenv("LOCAL_WORLD_SIZE", str(number))
    loaders = []
    for rank in range(number):
        monkeypatch.setenv("RANK", str(rank))
        monkeypatch.setenv("LOCAL_RANK", str(rank))
        batches = MoleculeBatches(data, scale, 4, seed=0)
        loaders.append(batches.part("train"))
    places = torch.arange(14).split(4)
    for indices, *shares in zip(places, *loaders, strict=True):
        y = scale.standardize(data.molecules.targets[indices])
        measured = y[~y.isnan()]
        expected = measured.square().mean() if len(measured) else torch.tensor(0.0)
        losses = [share.y.nan_to_num().square().sum() / share.divisor for share in shares]
        torch.testing.assert_close(torch.stack(losses).mean(), expected)
        assert all(share.divisor >= 1 / number for share in shares)


def test_a_single_last_molecule_sits_the_epoch_out(data, scale):
    data.parts["train"] = torch.arange(13)
    assert [
        batch.num_graphs for batch in MoleculeBatches(data, scale, 4, 0).train_dataloader()
    ] == [
        4,
        4,
        4,
    ]
    assert [batch.num_graphs for batch in MoleculeBatches(data, scale, 4, 0).part("train")][3] == 1


def test_processes_train_on_two_molecules_at_least(data, scale, monkeypatch):
    for name, value in {"RANK": 2, "WORLD_SIZE": 3, "LOCAL_RANK": 2, "LOCAL_WORLD_SIZE": 3}.items():
        monkeypatch.setenv(name, str(value))
    batches = MoleculeBatches(data, scale, 4, seed=0)
    trained = list(batches.train_dataloader())
    assert [batch.num_graphs for batch in trained] == [2, 2, 2, 2]
    assert trained[-1].y.isnan().all(), "14 molecules in batches of 4 leave it none"
    assert [batch.num_graphs for batch in batches.val_dataloader()] == [1]
