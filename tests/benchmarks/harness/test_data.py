"""Splits, batches and what standardisation may see."""

from dataclasses import asdict

import pytest
import torch

pytest.importorskip("lightning", reason="the benchmark needs the extra 'bench'")
pytest.importorskip("rdkit", reason="the benchmark's molecules need the extra 'mol'")

from benchmarks.harness.data import DataChoice, MoleculeBatches, load_molecules
from benchmarks.harness.errors import InputError
from benchmarks.harness.learner import OptimiserConfig
from benchmarks.harness.models import ModelConfig
from benchmarks.harness.molecules import new_regressor
from benchmarks.harness.regressor import TargetScale
from pyg_kernels.datasets import scaffold_split


def load(path, **options):
    return load_molecules(DataChoice(dataset="csv", csv=str(path), **options))


def loader(data, batch_size, seed):
    scale = TargetScale.fit(data.molecules.target_names, data.targets("train"))
    y = scale.standardise(data.molecules.targets)
    return MoleculeBatches(data, y, batch_size, seed).train_dataloader()


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
        batches = loader(data, 16, seed)
        batches.set_epoch(epoch)
        return [smiles for batch in batches for smiles in batch.smiles]

    assert order(0, 3) == order(0, 3)
    orders = [order(0, 0), order(0, 1), order(1, 0), order(1, 1)]
    assert len({tuple(each) for each in orders}) == 4
    assert len({tuple(sorted(each)) for each in orders}) == 1


@pytest.mark.parametrize(
    ("batch_size", "sizes"), [(47, [47]), (16, [16, 16, 16]), (20, [20, 20, 8])]
)
def test_no_training_batch_has_a_single_molecule(molecules_csv, batch_size, sizes):
    batches = loader(load(molecules_csv), batch_size, 0)
    assert [batch.num_graphs for batch in batches] == sizes


def test_batches_carry_each_molecules_standardised_target(molecules_csv):
    data = load(molecules_csv)
    of = dict(zip(data.molecules.smiles, data.molecules.targets.flatten().tolist(), strict=True))
    train = data.targets("train")
    for batch in loader(data, 16, 0):
        expected = torch.tensor([of[smiles] for smiles in batch.smiles], dtype=torch.float64)
        expected = (expected - train.mean()) / train.std(unbiased=False)
        torch.testing.assert_close(batch.y.flatten(), expected.float())
        assert batch.y.dtype == torch.float32


@pytest.mark.parametrize("seed", [None, 3])
def test_scaffold_split_is_that_of_the_library(molecules_csv, seed):
    data = load(molecules_csv, split="scaffold", split_seed=seed)
    expected = scaffold_split(data.molecules.smiles, seed=seed)
    for part in ("train", "valid", "test"):
        assert torch.equal(data.parts[part], getattr(expected, part))


@pytest.mark.parametrize("part", ["train", "valid", "test"])
def test_every_part_needs_every_target(tmp_path, part):
    rows = ["CO,1,1,train", "CC,2,2,train", "CCO,3,3,valid", "CCC,4,4,test"]
    rows = [row.replace(f",{k},{part}", f",,{part}") for k, row in enumerate(rows, 1)]
    (tmp_path / "m.csv").write_text("\n".join(["smiles,a,b,part", *rows]))
    with pytest.raises(InputError, match=f"{part} part has no measured value of target 'b'"):
        load(tmp_path / "m.csv", split="column", split_column="part")
