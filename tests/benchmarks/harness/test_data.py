"""Splits, batches and what standardisation may see."""

from dataclasses import asdict

import pytest
import torch

from benchmarks.harness.data import DataChoice, MoleculeBatches, load_molecules
from benchmarks.harness.models import ModelConfig
from benchmarks.harness.regressor import OptimiserConfig
from benchmarks.harness.training import new_regressor


def load(path, **options):
    return load_molecules(DataChoice(dataset="csv", csv=str(path), **options))


def test_only_the_training_part_is_standardised(molecules_csv):
    data = load(molecules_csv)
    model = ModelConfig("mean", 65, 7, 1, hidden=1)
    train = data.targets("train")
    regressor = new_regressor(model, data, OptimiserConfig())
    assert regressor.mean.item() == pytest.approx(train.mean().item(), rel=1e-6)
    assert regressor.std.item() == pytest.approx(train.std(unbiased=False).item(), rel=1e-6)
    data.molecules.targets[data.parts["valid"]] += 100
    data.molecules.targets[data.parts["test"]] -= 50
    other = new_regressor(model, data, OptimiserConfig())
    assert other.hparams["targets"] == regressor.hparams["targets"]
    assert asdict(OptimiserConfig()) == regressor.hparams["optimiser"]


def test_parts_cover_every_molecule_once(molecules_csv):
    for split in ("random", "scaffold"):
        data = load(molecules_csv, split=split)
        together = torch.cat([data.parts[part] for part in ("train", "valid", "test")])
        assert together.sort().values.tolist() == list(range(60))


def test_split_seed_changes_the_random_split_and_the_digest(molecules_csv):
    first, again = load(molecules_csv), load(molecules_csv)
    other = load(molecules_csv, split_seed=1)
    assert first.digest() == again.digest() != other.digest()
    assert torch.equal(first.parts["test"], again.parts["test"])
    assert not torch.equal(first.parts["test"], other.parts["test"])


def test_order_depends_on_seed_and_epoch_alone(molecules_csv):
    data = load(molecules_csv)

    def order(seed, epoch):
        batches = MoleculeBatches(data, 16, seed)
        loader = batches.train_dataloader()
        loader.set_epoch(epoch)
        return [smiles for batch in loader for smiles in batch.smiles]

    assert order(0, 3) == order(0, 3)
    orders = [order(0, 0), order(0, 1), order(1, 0), order(1, 1)]
    assert len({tuple(each) for each in orders}) == 4
    assert len({tuple(sorted(each)) for each in orders}) == 1


@pytest.mark.parametrize(
    ("batch_size", "sizes"), [(47, [47]), (16, [16, 16, 16]), (20, [20, 20, 8])]
)
def test_no_training_batch_has_a_single_molecule(molecules_csv, batch_size, sizes):
    loader = MoleculeBatches(load(molecules_csv), batch_size, 0).train_dataloader()
    assert [batch.num_graphs for batch in loader] == sizes
