"""The networks that are compared, and the report that gathers runs into tables."""

import pytest

pytest.importorskip("rdkit", reason="molecules need the extra 'mol'")
import io
import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas
import torch
from rdkit import Chem, DataStructs
from sklearn.metrics import average_precision_score, roc_auc_score
from torch import nn
from torch_geometric.data import Data

from benchmarks.harness.summary import minus_best, paired_differences
from benchmarks.harness.training import Run
from benchmarks.molecules.__main__ import main
from benchmarks.molecules.data import MoleculeSet
from benchmarks.molecules.models import (
    GENERATORS,
    WITHOUT_BONDS,
    FingerprintKernel,
    Model,
    models_of,
    named_model,
)
from benchmarks.molecules.options import Options
from benchmarks.molecules.scores import each_score, score
from pyg_kernels.datasets import MoleculeDataset
from pyg_kernels.molecules import NETWORKS
from pyg_kernels.molecules.networks import MoleculeNet, build_network
from pyg_kernels.nn import KernelActivation
from tests.benchmarks.conftest import assert_refused, printed

SMILES = ["CC(=O)Nc1ccc(O)cc1", "c1ccc2c(c1)[nH]c1ccsc12", "C", "C#CC1CC1[Si](C)C", "[Na+].[Cl-]"]
GIN = ("gin-relu", "gin-prelu", "gin-kernel")


def network(name: str, hidden: int = 8, **options: object) -> MoleculeNet:
    torch.manual_seed(0)
    kind, _ = named_model(name)
    return MoleculeNet(build_network(kind, 65, 2, 7, hidden, 2, options=options), 0, name)


def permuted(smiles: str) -> str:
    """The same molecule with its atoms in another order."""
    return Chem.MolToRandomSmilesVect(Chem.MolFromSmiles(smiles), 1, randomSeed=1)[0]


@pytest.mark.parametrize("name", [*NETWORKS, *GIN])
@torch.no_grad()
def test_rows_are_molecules_whatever_the_batch_and_the_order_of_atoms(name):
    net = network(name).eval()
    molecules = MoleculeDataset.from_smiles(SMILES)
    again = MoleculeDataset.from_smiles([permuted(smiles) for smiles in SMILES])
    assert again.smiles != molecules.smiles
    batch = molecules.batch(range(5))
    whole = net(batch)
    single = torch.cat([net(molecules.batch([k])) for k in range(5)])
    other = net(again.batch(range(5)))
    # A network reads bond features unless `WITHOUT_BONDS` has its name.
    batch.edge_attr = 1 - batch.edge_attr
    assert torch.equal(net(batch), whole) == (name in WITHOUT_BONDS)
    assert whole.shape == (5, 2)
    torch.testing.assert_close(single, whole, rtol=1e-4, atol=1e-5)
    torch.testing.assert_close(other, whole, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("name", ["wl", "gated-walk", "graph-kernel", "gine", "neural-fingerprint"])
def test_normalization_is_the_one_asked_for(name):
    assert "BatchNorm" in {type(module).__name__ for module in network(name).modules()}
    for norm in ("layer", "head", None):
        kinds = [type(module).__name__ for module in network(name, norm=norm).modules()]
        assert ("LayerNorm" in kinds) == (norm == "layer")
        assert sum("BatchNorm1d" in kind for kind in kinds) == (norm == "head")


@pytest.mark.parametrize("kind", GENERATORS)
def test_fingerprints_are_compared_by_their_counts(kind):
    smiles = [SMILES[k] for k in (0, 1, 3)]
    make = GENERATORS[kind]().GetSparseCountFingerprint
    counts = [make(Chem.MolFromSmiles(text)) for text in smiles]
    expected = [DataStructs.BulkTanimotoSimilarity(one, counts) for one in counts]
    found = FingerprintKernel(kind).fit_transform([Data(smiles=text) for text in smiles])
    np.testing.assert_allclose(found, expected, rtol=1e-6)


def chosen(*names: str, **options: object) -> list[Model]:
    """The models that these options give for ten molecules."""
    source = MoleculeDataset.from_smiles(["C" * k for k in range(1, 11)], torch.arange(10.0))
    split = MoleculeSet("small", source, "rmse").split("random", None)
    return models_of(Options(model=names, **options), split, "chembl")


def test_networks_are_of_one_size_and_processes_have_a_number_of_molecules():
    for model in chosen(*NETWORKS):
        assert 230_000 < model.num_parameters <= 260_000, model.name
    found = chosen(*GIN, parameters=20_000)
    assert len({model.arguments["hidden_channels"] for model in found}) == 1
    relu, prelu, learned = (model.num_parameters for model in found)
    assert relu <= 20_000 and relu < prelu < learned
    names = ("gp", "pooled", "random-walk-gp", "wl-ridge")
    assert [model.most for model in chosen(*names)] == [None, None, 2000, None]
    assert [model.most for model in chosen(*names, gp_molecules=20)] == [20, 20, 20, None]


@pytest.mark.parametrize(
    ("name", "kind"), [("gin-prelu", nn.PReLU), ("gin-kernel", KernelActivation)]
)
def test_each_place_has_an_activation_of_its_own(name, kind):
    net, batch = network(name), MoleculeDataset.from_smiles(SMILES).batch(range(5))
    acts = [module for module in net.modules() if isinstance(module, kind)]
    assert len(acts) == 2 * 2 + 1
    weights = [weight for act in acts for weight in act.parameters()]
    assert len({id(weight) for weight in weights}) == len(weights)
    net(batch).square().sum().backward()
    assert all(weight.grad is not None and weight.grad.any() for weight in weights)


Y = np.random.default_rng(0).normal(size=(80, 1))


def write(folder: Path, model: str, seed: int, error: float, history=(), **more: Any) -> Path:
    """Writes a finished run whose predictions have random errors of this size."""
    prediction = Y + error * np.random.default_rng([seed, len(model)]).normal(size=Y.shape)
    about = {"program": "benchmarks.molecules", "digest": "d", "molecules": "set: 80"}
    about |= {"targets": ["a<b>"], "bonds": True, "settings": {"lr": 0.1}, **more}
    record = {"dataset": "set", "split": "random", "model": model, "seed": seed, "metric": "rmse"}
    record |= {"train": error, "valid": error, "test": score("rmse", Y, prediction)}
    record |= {"epochs": 1, "seconds_per_epoch": 0.5, "seconds": 1.0, "fitted_on": 9}
    record |= {"num_parameters": 7, "history": history, "about": about}
    run = folder / "runs" / f"set-random-{model}-seed{seed}"
    run.mkdir(parents=True)
    (run / "record.json").write_text(json.dumps(record))
    np.savez(run / "test.npz", y=Y, prediction=prediction)
    made = {"versions": {"torch": "2"}, "commit": "c", "backend": "b"}
    configuration = {**made, "threads": 1, "options": {"model": [model], "root": None}}
    (folder / "configuration.json").write_text(json.dumps(configuration))
    return run


@pytest.fixture
def gather(call_main, tmp_path):
    return lambda *words: call_main(main, "report", tmp_path, *words)


def rows(out: str) -> dict[str, list[str]]:
    lines = [line.split("  ") for line in out.splitlines() if "  " in line]
    found = [[cell.strip() for cell in line if cell.strip()] for line in lines]
    return {line[0]: line[1:] for line in found}


def test_lines_are_models_over_seeds_and_folders_the_best_first(gather, tmp_path, drawn):
    history = [{"epoch": 1, "train_loss": 1.0, "valid_loss": 1.0, "seconds": 0.5}]
    for seed in (0, 1):
        write(tmp_path / "deep" / f"part{seed}", "good", seed, 0.1, history)
        write(tmp_path / "all", "bad", seed, 1.0)
    write(tmp_path / "all", "equal", 0, 0.1)
    found = rows(printed(gather("--out", tmp_path / "report")))
    names = [name for name in found if name in ("good", "bad", "equal")]
    assert names[-1] == "bad" and found[names[0]][-2] == "best"
    assert found["good"][1] == "2" and "±" in found["good"][6]
    assert "*" in found["bad"][-2] and "*" not in found[names[1]][-2]
    report = tmp_path / "report"
    pictures = [f"{kind}-set-random.png" for kind in ("learning", "predictions")]
    names = [*pictures, "report.html", "table.md"]
    assert sorted(path.name for path in report.iterdir()) == names
    page = (report / "report.html").read_text()
    assert "a&lt;b&gt;" in page and "<b>" not in page and "<script" not in page
    assert page.count("data:image/png;base64,") == 2
    assert "commit c; torch 2; backend b; 1 threads; model [&#39;good&#39;]" in page
    first = {path.name: path.read_bytes() for path in report.iterdir()}
    gather("--out", report)
    assert {path.name: path.read_bytes() for path in report.iterdir()} == first


def test_settings_and_folders_that_differ_name_lines_apart(gather, tmp_path):
    write(tmp_path / "a", "net", 0, 0.1)
    write(tmp_path / "b", "net", 0, 0.2, settings={"lr": 0.5})
    for seed in (0, 1):
        write(tmp_path / "z", "net", seed, 0.3)
        write(tmp_path / "old", "wl", seed, 0.3)
        write(tmp_path / "new", "wl", seed, 0.4, settings={"lr": 0.1, "patience": None})
    out = printed(gather())
    found = {name: line[1] for name, line in rows(out).items() if name.startswith("net")}
    a, z = (f"net (lr 0.1) in {tmp_path / name}" for name in "az")
    assert found == {a: "1", "net (lr 0.5)": "1", z: "2"}
    lines = [line.split() for line in out.splitlines() if line.startswith("wl ")]
    assert [line[2] for line in lines] == ["2", "2"]  # runs of a setting that others lack are apart


def test_sections_are_of_the_same_molecules_and_one_kind_of_score(gather, tmp_path):
    write(tmp_path / "a", "net", 0, 0.1)
    run = write(tmp_path / "b", "net", 0, 0.1)
    content = json.loads((run / "record.json").read_text())
    content["metric"] = "roc-auc"
    (run / "record.json").write_text(json.dumps(content))
    np.savez(run / "test.npz", y=(Y > 0).astype(float), prediction=Y)
    for names in (("rmse", "roc-auc"), ("rmse-d", "rmse-e", "roc-auc-d")):
        out = printed(gather("--out", tmp_path / str(len(names))))
        assert "RMSE of a<b>" in out and "ROC-AUC of a<b>" in out
        found = {path.name for path in (tmp_path / str(len(names))).glob("*.png")}
        assert found == {f"predictions-set-random-{name}.png" for name in names}
        if len(names) == 2:
            assert "identity" not in out
            write(tmp_path / "c", "net", 0, 0.1, digest="e")
    assert "set: 80 (identity d)" in out and "set: 80 (identity e)" in out


def test_what_is_damaged_or_unfinished_is_named(gather, call_main, tmp_path):
    write(tmp_path / "a", "net", 0, 0.1)
    (write(tmp_path / "a", "net", 1, 0.1) / "record.json").unlink()
    unequal = io.BytesIO()
    np.savez(unequal, y=np.zeros((3, 1)), prediction=np.zeros((2, 1)))
    for name, file, content in (
        ("record", "record.json", b"{"),
        ("numbers", "test.npz", b"PK"),
        ("shapes", "test.npz", unequal.getvalue()),
    ):
        run = write(tmp_path / name, "net", 2, 0.1)
        (run / file).write_bytes(content)
    (write(tmp_path / "other", "net", 3, 0.1) / "record.json").write_text('{"task": "lfp"}')
    status, out, err = gather()
    assert status == 1
    assert rows(out)["net"][1] == "1"
    assert err.count("is damaged") == 3 and err.count("unfinished: ") == 1
    assert (tmp_path / "report.html").read_text().count("is damaged") == 3
    assert gather("--out", tmp_path / "a" / "configuration.json")[0] == 2
    (tmp_path / "empty").mkdir()
    assert_refused(call_main(main, "report", tmp_path / "empty"), "no finished run")


def test_intervals_of_paired_differences_contain_the_true_one_as_often_as_said():
    """Models share most of their error, so that the difference is known better than the errors."""
    random, inside, widths = np.random.default_rng(0), 0, []
    for _ in range(30):
        y, shared = random.normal(size=(2, 60, 1))
        seeds = [[y + shared + random.normal(size=y.shape) * 0.1 for _ in range(3)] for _ in "ab"]

        def rmse(prediction, drawn, y=y):
            return score("rmse", y, prediction, drawn)

        same, (low, high) = paired_differences(rmse, len(y), seeds, rounds=100)
        assert same == (0, 0)
        inside += low <= 0 <= high
        widths.append(high - low)
    assert inside >= 25
    assert np.mean(widths) < 0.1  # errors are about 1; their own intervals are four times as wide


def test_what_rounding_alone_makes_is_no_difference():
    scores = [[0.1 + 0.2], [0.3]]
    assert paired_differences(lambda seed, drawn: seed, 6, scores)[1] == (0, 0)


def test_what_a_model_has_less_than_the_best_one_on_shared_items():
    """The best has 3 points more on every item, and hence in every draw. Items that one model
    lacks do not count, nor do items of other folds."""
    values = pandas.Series(np.random.default_rng(0).random(40))
    runs = [
        Run({"model": name, "seed": seed, "more": more, "rows": rows}, [], pandas.DataFrame())
        for name, more in (("a", 0.0), ("b", 3.0), ("c", 1.0))
        for seed in (0, 1)
        for rows in (slice(0, 20), slice(20, 30 if name == "c" else 40))
    ]
    models = [[run for run in runs if run.record["model"] == name] for name in "abc"]

    def of_items(run):
        return values[run.record["rows"]] + run.record["more"]

    column = minus_best(models, of_items, ".2f")
    assert [column(each) for each in models] == ["-3.00 to -3.00 *", "best", "-2.00 to -2.00 *"]
    few = minus_best(models, lambda run: of_items(run)[:2], ".2f")
    assert [few(each) for each in models] == ["-", "-", "-"]


@pytest.mark.parametrize(
    ("metric", "definition"), [("roc-auc", roc_auc_score), ("pr-auc", average_precision_score)]
)
def test_scores_of_drawn_molecules_are_those_of_their_copies(metric, definition):
    random = np.random.default_rng(0)
    y = random.integers(2, size=(50, 3)).astype(float)
    y[random.random(y.shape) < 0.2] = np.nan
    y[:, 2] = np.where(np.isnan(y[:, 2]), np.nan, 1.0)  # a single class
    prediction = random.random(y.shape).round(1)  # with ties
    drawn = random.integers(4, size=50)
    found = each_score(metric, y, prediction, drawn)
    for k in (0, 1):
        there = np.repeat(np.arange(50), drawn)
        there = there[~np.isnan(y[there, k])]
        expected = definition(y[there, k], prediction[there, k])
        assert found[k] == pytest.approx(expected)
    assert np.isnan(found[2])
    assert score(metric, y, prediction, drawn) == pytest.approx(found[:2].mean())
