"""Splits, batches and what standardisation may see."""

import json
from dataclasses import asdict

import pytest
import torch

pytest.importorskip("lightning", reason="the benchmark needs the extra 'bench'")
pytest.importorskip("rdkit", reason="the benchmark's molecules need the extra 'mol'")

from benchmarks.harness.errors import InputError
from benchmarks.harness.learner import OptimizerConfig
from benchmarks.harness.molecules.batches import MoleculeBatches
from benchmarks.harness.molecules.data import DataChoice, load_molecules
from benchmarks.harness.molecules.models import ModelConfig
from benchmarks.harness.molecules.regressor import TargetScale
from benchmarks.harness.molecules.task import new_regressor
from benchmarks.harness.task import PARTS
from pyg_kernels.datasets import MoleculeShards, scaffold_split


def load(path, **options):
    return load_molecules(DataChoice(dataset="csv", csv=str(path), **options))


def loader(data, batch_size, seed):
    scale = TargetScale.fit(data.molecules.target_names, data.targets("train"))
    return MoleculeBatches(data, scale, batch_size, seed).train_dataloader()


def test_only_the_training_part_is_standardized(molecules_csv):
    data = load(molecules_csv)
    model = ModelConfig("mean", 65, 7, 1, hidden=1)
    train = data.targets("train")
    regressor = new_regressor(model, data, OptimizerConfig())
    assert regressor.mean.item() == pytest.approx(train.mean().item(), rel=1e-6)
    assert regressor.std.item() == pytest.approx(train.std(unbiased=False).item(), rel=1e-6)
    data.molecules.targets[data.parts["valid"]] += 100
    data.molecules.targets[data.parts["test"]] -= 50
    other = new_regressor(model, data, OptimizerConfig())
    assert other.hparams["targets"] == regressor.hparams["targets"]
    assert asdict(OptimizerConfig()) == regressor.hparams["optimizer"]


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


def test_batches_carry_each_molecules_standardized_target(molecules_csv):
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


def test_shards_are_the_same_molecules(molecules_csv, tmp_path):
    options = {"split": "scaffold", "target_columns": ["pIC50"]}
    held = load(molecules_csv, **options)
    for _ in range(2):  # written, then opened
        data = load(molecules_csv, shards=str(tmp_path / "s"), **options)
        assert isinstance(data.molecules, MoleculeShards)
        assert all(torch.equal(data.parts[part], held.parts[part]) for part in PARTS)
        assert torch.equal(data.targets("train"), held.targets("train"))
        for batch, expected in zip(loader(data, 16, 1), loader(held, 16, 1), strict=True):
            assert batch.smiles == expected.smiles
            for key in ("x", "edge_index", "edge_attr", "y"):
                assert torch.equal(batch[key], expected[key])


def test_the_digest_of_shards_follows_molecules_and_split(molecules_csv, tmp_path):
    def digest(folder, **options):
        return load(molecules_csv, shards=str(tmp_path / folder), **options).digest()

    first = digest("s")
    assert first == digest("s") == digest("t")
    assert first != digest("s", split_seed=1)
    molecules_csv.write_text(molecules_csv.read_text().replace(",7.", ",8.", 1))
    assert first != digest("u")


def test_shards_of_the_clean_energy_project(tmp_path):
    (tmp_path / "raw").mkdir()
    rows = [f"{'C' * k},{k}" for k in range(1, 21)]
    (tmp_path / "raw" / "cep-processed.csv").write_text("\n".join(["smiles,PCE", *rows]))
    choice = DataChoice(dataset="cep", root=str(tmp_path), shards=str(tmp_path / "s"))
    data = load_molecules(choice)
    assert isinstance(data.molecules, MoleculeShards)
    assert data.molecules.target_names == ["PCE"]
    assert data.targets("train").flatten().tolist() == (data.parts["train"] + 1).tolist()


def test_errors_of_shards_name_the_options(tmp_path):
    path = tmp_path / "m.csv"
    path.write_text("smiles,y\nC,1\nC(,2\nCC,3\n")
    with pytest.raises(InputError, match=r"line 3; correct them, or leave them out with --skip-in"):
        load(path, shards=str(tmp_path / "s"))
    with pytest.raises(InputError, match=r"--smiles-column 'smiles', not 'mol'"):
        load(path, shards=str(tmp_path / "s"), smiles_column="mol")
    (tmp_path / "t").write_text("a file")
    with pytest.raises(InputError, match=r"t: File exists"):
        load(path, shards=str(tmp_path / "t"))


def test_damage_within_a_shard_is_an_error_of_input(molecules_csv, tmp_path):
    load(molecules_csv, shards=str(tmp_path / "s"))
    records = tmp_path / "s" / "records.npy"
    content = bytearray(records.read_bytes())
    content[-30] ^= 1  # of the same size, so that the first reading alone can tell
    records.write_bytes(content)
    with pytest.raises(InputError, match=r"shard 0 of .* is damaged: its checksum"):
        load(molecules_csv, shards=str(tmp_path / "s"))


def test_the_command_line_trains_from_shards(compare, molecules_csv, tmp_path):
    words = ("--csv", molecules_csv, "--target-columns", "pIC50", "--model", "gine", "--epochs", 1)
    scores = []
    for out, more in (("held", ()), ("other", ("--shards", tmp_path / "s"))):
        status, _, _ = compare(*words, *more, "--out", tmp_path / out)
        assert status == 0
        (record,) = json.loads((tmp_path / out / "metrics.json").read_text())
        scores.append([record[part] for part in PARTS])
    assert scores[0] == scores[1]


def test_the_size_of_shards_is_told(call, molecules_csv, tmp_path):
    status, _, error = call(
        *("--csv", molecules_csv, "--target-columns", "pIC50", "--shards", tmp_path / "s"),
        *("--model", "mean", "--out", tmp_path / "out", "--device", "cpu"),
    )
    size = sum(path.stat().st_size for path in (tmp_path / "s").iterdir())
    assert status == 0
    assert f"s: 60 molecules, {size / 1e6:.1f} MB, {size / 60:.0f} bytes a molecule" in error


@pytest.mark.parametrize("words", [("--dataset", "chembl"), ("--dataset", "ogbg-molesol")])
def test_shards_need_a_file(call, tmp_path, words):
    status, _, error = call(*words, "--shards", tmp_path / "s")
    assert status == 2
    assert f"--shards goes with --dataset csv or cep, not {words[1]}" in error
