"""The speed benchmark runs, counts its products right, and compares two results."""

import json
from collections import Counter
from dataclasses import replace
from functools import partial
from importlib.metadata import version
from itertools import count
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn
from torch.nn.utils import parameters_to_vector
from torch_geometric.utils import contains_self_loops, is_undirected

from benchmarks.harness import memory
from benchmarks.harness.language_model.models import LanguageModel, fitted
from benchmarks.harness.language_model.options import PRESETS
from benchmarks.harness.options import parse
from benchmarks.speed import cases, scale
from benchmarks.speed.__main__ import COMMANDS, TABLES
from benchmarks.speed.timing import Case, Contestant, medians, table
from pyg_kernels import datasets
from pyg_kernels.nn import KernelActivation
from pyg_kernels.ops import backend
from pyg_kernels.sequence import RKM
from tests.benchmarks.conftest import assert_refused, metrics_of, printed

CPU = torch.device("cpu")
PROGRAM = "benchmarks.speed"
SMALL = ("--shapes", "3x2x8", "--rounds", 1, "--threads", 1)


def test_tables_of_a_file(tmp_path) -> None:
    (tmp_path / "speed.yaml").write_text("tables: [kbrn, epoch]\nthreads: 1\n")
    given, file = partial(parse, "", COMMANDS[""]), ["--config", str(tmp_path / "speed.yaml")]
    assert given([]).tables == TABLES[:6]
    assert given(["scan", *file]).tables == ("scan",)
    found = given([*file, "--models", "wl"])  # a list takes no tables
    assert (found.tables, found.models) == (("kbrn", "epoch"), ("wl",))


@pytest.mark.parametrize("device", ["cpu", pytest.param("cuda", marks=pytest.mark.cuda)])
def test_all_tables_and_their_comparison(device: str, tmp_path, call, monkeypatch) -> None:
    monkeypatch.setattr(memory.gc, "collect", lambda: 0)  # slow with all that tests hold
    language_case = partial(cases.language_case, num_words=9, hidden=4)
    monkeypatch.setattr(cases, "language_case", language_case)
    for sizes, size in ((cases.MOLECULES, 4), (cases.INPUTS, (30, 4)), (cases.CENTERS, (3,))):
        monkeypatch.setitem(sizes, device, size)
    names, out = TABLES[:7], tmp_path / "new" / "folder"
    words = (*names, *SMALL, "--device", device, "--out", out)
    shown = printed(call(*words))
    content = metrics_of(out)
    assert list(dict.fromkeys(table["table"] for table in content["tables"])) == list(names)
    assert content["ops"] == backend(device)
    assert content["versions"]["torch"] == version("torch")
    name = "cpu" if device == "cpu" else torch.cuda.get_device_name()
    assert f"device: {name}, " in shown
    assert_refused(call(*words), "holds a metrics.json; give another --out")
    assert metrics_of(out) == content
    for one in content["tables"]:
        times = {row["name"]: row["milliseconds"] for row in one["rows"]}
        for row in one["rows"]:
            assert row["name"] in shown
            times["products"] = row.get("products_milliseconds")
            for key in row:
                if key.startswith("over_"):
                    ratio = row["milliseconds"] / times[key.removeprefix("over_")]
                    assert row[key] == pytest.approx(ratio)

    assert "left out" not in printed(call("compare", out, out))
    first, *others = content["tables"]
    measured = [row for one in others for row in one["rows"]]
    for row in measured:
        row["milliseconds"] *= 1.25
    threads = content.pop("options")["threads"]  # as in the documentation's form
    slower = tmp_path / "slower.json"
    slower.write_text(json.dumps({**content, "threads": threads, "tables": others}))
    shown = printed(call("compare", out, slower))
    assert [line.split()[-1] for line in shown.splitlines()[6:]] == ["1.250"] * len(measured)
    assert f"{len(first['rows'])} rows that only one of them has are left out" in shown
    measured[-1]["milliseconds"] = 0
    slower.write_text(json.dumps({**content, "threads": threads, "tables": others}))
    assert_refused(call("compare", out, slower), "is damaged or no result")


def test_random_molecules() -> None:
    edge_index, edge_attr = cases.random_molecules(5, CPU)
    bonds = cases.ATOMS - 1 + cases.RINGS
    assert edge_index.unique(dim=1).shape == edge_index.shape == (2, 5 * 2 * bonds)
    atoms = edge_index // cases.ATOMS
    assert torch.equal(atoms[0], atoms[1]) and atoms.unique().tolist() == list(range(5))
    assert is_undirected(edge_index, edge_attr) and not contains_self_loops(edge_index)


def test_a_step_is_the_gradient_of_input_and_parameters() -> None:
    linear, x, seed = nn.Linear(3, 2), torch.randn(4, 3), torch.randn(4, 2)
    found = cases.backward_step(linear, x, linear.parameters(), seed)()
    expected = (seed @ linear.weight, seed.t() @ x, seed.sum(0))
    for one, other in zip(found, expected, strict=True):
        torch.testing.assert_close(one, other)
    squared = cases.backward_step(torch.square, x, (), seed @ linear.weight)()
    torch.testing.assert_close(squared[0], 2 * x * (seed @ linear.weight))


def test_sums_that_are_timed_are_the_same() -> None:
    ours, anew, plain = (c.step() for c in cases.sum_case(3, CPU, 5).contestants)
    for found, again, expected in zip(ours, anew, plain, strict=True):
        assert torch.equal(found, again)
        torch.testing.assert_close(found, expected)
    a = torch.randn(20, 3)
    for green in ("relu", "abs", "gaussian"):
        act = KernelActivation(3, 9, green)
        torch.testing.assert_close(act(a), cases.direct_sum(a, act), rtol=1e-4, atol=1e-5)


def test_rounds_and_work_in_a_second() -> None:
    """Two rounds do not count; after them come those that the time limit allows, at least one."""
    for limit, last in ((0.0, 2), (1e6, 6)):
        timers = [partial(next, count()) for _ in range(2)]  # the n-th call takes n seconds
        assert medians(timers, 5, limit) == [(2 + last) / 2] * 2
    case = Case("t", "s", [Contestant("a", lambda: None, work=6.0)], ("a",), unit="words")
    (row,) = case.measure(1, CPU)
    assert row["words_a_second"] == pytest.approx(6e3 / row["milliseconds"])
    assert table("c", [row]).header == ["name", "ms", "words a s", "/ a"]
    contestants = cases.scan_case((4, 2, 8), CPU).contestants
    size = 4 * 2 * 8 * 4 / 1e9
    assert [c.work / size for c in contestants] == pytest.approx([2, 4, 6, 8])


def test_products_are_those_of_the_layers() -> None:
    """They have as many entries as a layer's matrices, without biases, bonds and activations."""
    channels, edge_dim = 8, 3
    for name, layers in cases.TEXT_LAYERS.items():
        for title, layer, products in layers(channels):
            entries = sum(
                weight.numel()
                for key, weight in layer.named_parameters()
                if weight.dim() > 1 and not (name == "kbrn" and "activation" in key)
            )
            assert entries == sum(products) * channels**2, title
    wide = (channels, channels + edge_dim)  # PyG's ResGatedGraphConv: node and bond features
    for name, layer, products in cases.graph_layers(channels, edge_dim):
        shapes = [tuple(p.shape) for p in layer.parameters()]
        assert shapes.count((channels, channels)) + shapes.count(wide) == sum(products), name
    # All cells take part except the general one, whose q the user chooses.
    layers = [layer for _, layer, _ in cases.rkm_layers(4) if isinstance(layer, RKM)]
    assert len({layer.cells[0].cell for layer in layers}) == 8


def test_the_language_step_is_one_of_training() -> None:
    """It is plain gradient descent, by the clipped gradient of the loss summed over steps."""
    preset = PRESETS["rcnn-5m"]
    model = LanguageModel(fitted(preset, 9, hidden=4))
    before = parameters_to_vector(model.parameters()).detach().clone()
    cases.language_step(model, preset.training)()
    moved = before - parameters_to_vector(model.parameters()).detach()
    gradients = [p.grad for p in model.parameters() if p.grad is not None]
    torch.testing.assert_close(moved, torch.cat([grad.flatten() for grad in gradients]))
    assert moved.norm() <= preset.training.clip + 1e-5


@pytest.fixture
def epoch():
    pytest.importorskip("rdkit", reason="the benchmark's molecules need the extra 'mol'")
    from benchmarks.speed import epoch

    return epoch


def linear(rows: int, inputs: int, outputs: int, grad_input: bool = True) -> Counter:
    """The products of a linear map by hand: forward, weight's gradient, input's gradient."""
    products = [((rows, inputs), (inputs, outputs)), ((outputs, rows), (rows, inputs))]
    return Counter(products + [((rows, outputs), (outputs, inputs))] * grad_input)


def test_every_form_of_a_product_counts_once(epoch) -> None:
    a, b = torch.randn(2, 3), torch.randn(3, 4)
    batched = torch.randn(5, 2, 3)
    with epoch.RecordProducts() as recording:
        torch.mm(a, b)
        torch.addmm(torch.zeros(2, 4), a, b)
        torch.bmm(batched, batched.transpose(1, 2))
        torch.baddbmm(torch.zeros(5, 2, 2), batched, batched.transpose(1, 2))
        nn.functional.linear(batched, b.t().contiguous())
    expected = [2 * 2 * 3 * 4] * 2 + [2 * 5 * 2 * 3 * 2] * 2 + [2 * 5 * 2 * 3 * 4]
    assert [epoch.flop(product) for product in recording.products] == expected
    with epoch.RecordProducts() as recording:  # sums of rows and empty products do not count
        rows = torch.tensor([0, 2, 2])
        nn.functional.embedding_bag(rows, torch.randn(4, 3), torch.tensor([0, 1]), mode="sum")
        torch.mm(torch.zeros(0, 3), torch.zeros(3, 2))
    assert recording.products == []


def test_epoch(epoch, molecules_csv: Path, tmp_path: Path, call, monkeypatch) -> None:
    def comparison(options, compare=epoch.comparison):
        own = replace(options, data=(str(molecules_csv),), target_columns=("pIC50",))
        return compare(own)

    monkeypatch.setattr(epoch, "comparison", comparison)
    words = ("--model", "gin", "--rounds", 1, "--threads", 1)
    out = printed(call("epoch", *words, "--out", tmp_path))
    (found,) = metrics_of(tmp_path)["tables"]
    (row,) = found["rows"]
    assert (row["batches"], row["molecules"]) == (1, 48)
    assert row["parameters"] <= 260_000 and f"{row['parameters']:,}" in out
    ratio = row["milliseconds"] / row["products_milliseconds"]
    assert row["over_products"] == pytest.approx(ratio)
    assert row["molecules_a_second"] == pytest.approx(48e3 / row["milliseconds"])
    assert row["products_gigaflop_a_second"] == pytest.approx(row["gigaflop_a_second"] * ratio)


def test_products_are_those_of_all_batches(epoch, molecules_csv: Path) -> None:
    sizes = {"model": ("gin",), "hidden": 4, "layers": 1}
    options = epoch.Options(data=(str(molecules_csv),), target_columns=("pIC50",), **sizes)
    split, (gin,) = epoch.comparison(options)
    features = split.data.source.featurizer
    clock = epoch.BatchClock()
    with epoch.RecordProducts() as recording:
        epoch.train_batches(split, gin, clock, batch_size=20)
    assert clock.molecules == [20, 20, 8] and len(clock.seconds) == 3
    by_hand: Counter = Counter()
    _, batches = epoch._prepared(split, gin, 20)
    for batch in batches:
        atoms, graphs = batch.num_nodes, batch.num_graphs
        by_hand += linear(atoms, features.atom_dim, 4, grad_input=False)
        by_hand += linear(atoms, 4, 4) + linear(atoms, 4, 4)  # the layer's perceptron
        by_hand += linear(graphs, 4, 4) + linear(graphs, 4, 1)  # the head
    assert Counter(recording.products) == by_hand
    with epoch.RecordProducts() as again:
        epoch.products_alone(recording.products, CPU)()
    assert again.products == recording.products


MIB = 2**20


@pytest.fixture
def few_molecules(assay: Any, monkeypatch: pytest.MonkeyPatch) -> Any:
    molecules = assay[:50]
    monkeypatch.setattr(datasets, "ChEMBLSulfonamides", lambda: molecules)
    return molecules


@pytest.mark.parametrize("number", [7, 130])
def test_copies_follow_each_other_in_other_orders_of_atoms(few_molecules, number, tmp_path) -> None:
    from rdkit import Chem

    scale.replicate(tmp_path / "file.csv", "chembl", "", number)
    molecules = datasets.MoleculeCSV(tmp_path / "file.csv")
    assert len(molecules) == number
    canonical = {Chem.CanonSmiles(one): place for place, one in enumerate(few_molecules.smiles)}
    found = [canonical[Chem.CanonSmiles(one)] for one in molecules.smiles]
    assert found == sorted(found)
    counts = [found.count(place) for place in range(len(few_molecules))]
    assert max(counts) - min(counts) <= 1
    assert len(set(molecules.smiles)) == number
    assert molecules.targets.equal(few_molecules.targets[found])


def test_all_featurised_molecules_and_bytes_are_counted(few_molecules, tmp_path: Path) -> None:
    path, shards = tmp_path / "molecules.csv", tmp_path / "shards"
    scale.replicate(path, "chembl", "", 60)
    found = scale.featurise(path, shards, 60, 1)
    files = [file.stat().st_size for file in shards.rglob("*") if file.is_file()]
    assert found["bytes"] == sum(files)
    with pytest.raises(RuntimeError, match="59 molecules were written, 60 are in the shards"):
        scale.featurise(path, tmp_path / "other", 59, 1)


def test_scale_is_begun_anew_after_a_failed_stage(
    few_molecules, tmp_path: Path, call, monkeypatch
) -> None:
    """Runs in this process; the tests of the kernels' benchmark cover separate processes."""

    def fail(path: Path, shards: Path, *others: Any) -> None:
        (shards / "of-the-first-time").write_bytes(bytes(MIB))
        raise RuntimeError("it fails")

    monkeypatch.setattr(scale, "in_own_process", lambda work, *arguments: work(*arguments))
    small = ("--molecules", 300, "--model", "gin", "--steps", 2, "--workers", 1, "--threads", 1)
    words = ("scale", *small, "--out", tmp_path / "out")
    with monkeypatch.context() as patch:
        patch.setattr(scale, "train", fail)
        said = "benchmarks.speed scale: error: fail: RuntimeError: it fails\n"
        assert call(*words) == (1, "", said)
    shown = printed(call(*words, "--resume"))
    (record,) = metrics_of(tmp_path / "out")
    featurised, trained = record["featurise"], record["train"]
    assert featurised["bytes"] < MIB and trained["training_share"] == 0.8
    assert min(featurised["peak"], trained["peak"]) > 100 * MIB  # PyTorch takes more
    numbers = (
        *(300, featurised["molecules_a_second"], featurised["bytes"] / 300),
        *(trained["molecules_a_second"], featurised["peak"] / MIB, trained["peak"] / MIB),
    )
    assert " ".join(f"{number:,.0f}" for number in numbers) in " ".join(shown.split())
    assert [path.name for path in (tmp_path / "out/runs/000000300").iterdir()] == ["record.json"]
