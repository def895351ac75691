"""What the command line of the molecule benchmark makes of presets and options of the networks."""

import pytest
import torch

from benchmarks.harness.arguments import FACTOR
from benchmarks.harness.molecules import command_line
from benchmarks.harness.molecules.command_line import PRESETS, compare_options


def test_preset_is_the_paper_s_set_up():
    options = compare_options(["--preset", "lei2017"])
    assert options.dataset == "cep"
    assert options.resample == 0.05
    assert options.schedule == "exponential"
    assert options.lr_factor is None
    assert FACTOR["exponential"] == 0.9
    assert options.layers == 4
    assert (options.parameters or command_line.PARAMETERS) == 260_000
    assert options.model[:3] == ["mean", "wl-subtree-3", "wl-subtree-6"]
    assert {"embedded-mean-field", "embedded-loopy-bp", "neural-fingerprint"} < set(options.model)
    assert {"wl", "wl-gated", "graph-kernel", "gated-walk"} < set(options.model)


def test_preset_gives_way_to_what_is_given():
    words = "--preset lei2017 --model wl --schedule cosine --dataset chembl --resample 0.5"
    options = compare_options(words.split())
    assert (options.model, options.schedule, options.dataset) == (["wl"], "cosine", "chembl")
    assert options.resample == 0.5
    assert compare_options(["--preset=lei2017", "--hidden=8"]).hidden == 8
    assert compare_options(["--preset", "lei2017", "--csv", "mine.csv"]).dataset == "csv"
    assert compare_options(["--preset", "lei2017", "--resample", "0"]).resample == 0


def test_without_a_preset_nothing_is_resampled():
    options = compare_options([])
    assert options.resample == 0
    assert options.model == ["wl-gated", "gine", "mean"]


def test_presets_name_models_that_exist():
    from benchmarks.harness.molecules.baselines import BASELINES
    from benchmarks.harness.molecules.models import MODELS

    for preset in PRESETS.values():
        assert set(preset["model"]) <= set(MODELS) | set(BASELINES)


def test_resampling_draws_for_training_alone(sulfonamides, write_csv):
    from benchmarks.harness.molecules.batches import MoleculeBatches
    from benchmarks.harness.molecules.data import DataChoice, load_molecules
    from benchmarks.harness.molecules.task import target_scale

    rows = [dict(row, pIC50="1.0" if k % 10 else "9.0") for k, row in enumerate(sulfonamides)]
    choice = DataChoice("csv", csv=str(write_csv(rows)), target_columns=["pIC50"], resample=0.05)
    data = load_molecules(choice)
    batches = MoleculeBatches(data, target_scale(data), batch_size=8, seed=0)
    high = []
    for epoch in range(30):
        loader = batches.train_dataloader()
        loader.set_epoch(epoch)
        y = torch.cat([batch.y for batch in loader]).flatten()
        assert len(y) == len(data.parts["train"])
        high.append((y > 0).double().mean())
    assert torch.stack(high).mean().item() == pytest.approx(0.5, abs=0.06)
    for name, loader in zip(data.parts, batches.all_parts(), strict=True):
        smiles = [text for batch in loader for text in batch.smiles]
        assert smiles == [data.molecules.smiles[i] for i in data.parts[name].tolist()]


def test_resampling_needs_one_target(sulfonamides, write_csv, call):
    rows = [dict(row, other="1.0") for row in sulfonamides]
    words = ["--csv", write_csv(rows), "--target-columns", "pIC50", "other", "--resample", "0.1"]
    status, _, said = call(*words)
    assert status == 2
    assert "--resample needs one target, not 2" in said


def test_readout_is_that_of_the_networks_that_have_it(molecules_csv):
    from benchmarks.harness.molecules.data import DataChoice, load_molecules
    from benchmarks.harness.molecules.task import model_configs

    data = load_molecules(DataChoice("csv", csv=str(molecules_csv)))
    names = ["wl", "gine", "mean", "wl-subtree-3"]
    wl, gine, mean, _ = model_configs(names, data, hidden=8, readout="concat", dropout=0.1)
    assert (wl.readout, gine.readout, mean.readout) == ("concat", "sum", "sum")
    assert (wl.dropout, gine.dropout) == (0.1, 0.1)


def test_resampling_needs_every_target(sulfonamides, write_csv, call, tmp_path):
    rows = [dict(row, pIC50=row["pIC50"] if k % 9 else "") for k, row in enumerate(sulfonamides)]
    words = ["--csv", write_csv(rows), "--target-columns", "pIC50", "--resample", "0.1"]
    status, _, said = call(*words, "--model", "wl", "--out", tmp_path / "out")
    assert status == 2
    assert said.count("\n") == 1
    assert "an item without a value is in no bin" in said


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--model", "gine", "--readout", "last"), "--readout last goes with --model wl-gated, wl"),
        (("--model", "gated-walk", "--dropout", "0.2"), "gated-walk with dropout=0.2"),
        (("--model", "attentive-fp", "--norm", "layer"), "attentive-fp with norm='layer'"),
        (("--dropout", "1"), "below 1"),
        (("--resample", "-1"), "at least 0"),
    ],
    ids=["readout", "dropout", "norm", "dropout of all", "bins without width"],
)
def test_options_without_effect_are_refused(call, molecules_csv, tmp_path, words, said):
    status, out, err = call("--csv", molecules_csv, "--out", tmp_path / "out", *words)
    assert (status, out) == (2, "")
    assert said in err
    assert not (tmp_path / "out").exists()
