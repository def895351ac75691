"""The training epoch beside its products: each is recorded once, and repeated as it was."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.utils.flop_counter import FlopCounterMode

pytest.importorskip("lightning", reason="training needs the extra 'bench'")
pytest.importorskip("rdkit", reason="the benchmark's molecules need the extra 'mol'")

from benchmarks.molecules.data import Split
from benchmarks.molecules.models import Model
from benchmarks.speed.__main__ import main
from benchmarks.speed.epoch_timing import AlternatingClock, measure_epochs, recorded
from benchmarks.speed.products import BareProducts, Operand, Product, RecordProducts
from benchmarks.speed.training import BatchClock, comparison, train_batches
from pyg_kernels.nn import WLKernelNet

CPU = torch.device("cpu")
Call = Callable[..., tuple[int, str, str]]
Shapes = Counter[tuple[tuple[int, ...], tuple[int, ...]]]


def shapes(products: list[Product]) -> Shapes:
    return Counter((product.left.shape, product.right.shape) for product in products)


def linear(rows: int, inputs: int, outputs: int, grad_input: bool = True) -> Shapes:
    """The products of a linear map by hand: forward, weight's gradient, input's gradient."""
    return Counter(
        [((rows, inputs), (inputs, outputs)), ((outputs, rows), (rows, inputs))]
        + [((rows, outputs), (outputs, inputs))] * grad_input
    )


def test_products_of_a_perceptron() -> None:
    net = nn.Sequential(nn.Linear(3, 4), nn.ReLU(), nn.Linear(4, 2, bias=False))
    with RecordProducts() as recording:
        net(torch.randn(5, 3)).sum().backward()
    assert shapes(recording.products) == linear(5, 3, 4, grad_input=False) + linear(5, 4, 2)
    assert sum(product.flop for product in recording.products) == 2 * 5 * (2 * 3 * 4 + 3 * 4 * 2)


def test_every_form_of_a_product_counts_once() -> None:
    a, b = torch.randn(2, 3), torch.randn(3, 4)
    out, batched = torch.zeros(2, 4), torch.randn(5, 2, 3)
    calls: list[Callable[[], Tensor]] = [
        lambda: torch.mm(a, b),
        lambda: torch.mm(a, b, out=out),
        lambda: torch.addmm(out, a, b),
        lambda: out.addmm_(a, b),
        lambda: a @ b,
        lambda: torch.bmm(batched, batched.transpose(1, 2)),
        lambda: torch.baddbmm(torch.zeros(5, 2, 2), batched, batched.transpose(1, 2)),
        lambda: nn.functional.linear(batched, b.t().contiguous()),
    ]
    flop = [2 * 2 * 3 * 4] * 5 + [2 * 5 * 2 * 3 * 2] * 2 + [2 * 5 * 2 * 3 * 4]
    for call, expected in zip(calls, flop, strict=True):
        with RecordProducts() as recording:
            call()
        assert [product.flop for product in recording.products] == [expected]


def test_vectors_and_sums_of_rows_are_no_products() -> None:
    table, rows = torch.randn(4, 3), torch.tensor([0, 2, 2])
    with RecordProducts() as recording:
        nn.functional.embedding_bag(rows, table, torch.tensor([0, 1]), mode="sum")
        table @ torch.randn(3)
        torch.mm(torch.zeros(0, 3), torch.zeros(3, 2))
    assert recording.products == []


def test_operands_keep_shape_and_layout() -> None:
    x = torch.randn(3, 5)
    assert Operand.of(x) == Operand((3, 5), torch.float32)
    assert Operand.of(x.t()) == Operand((5, 3), torch.float32, transposed=True)
    assert Operand.of(x, transpose=True) == Operand.of(x.t())
    assert Operand.of(x.t(), transpose=True) == Operand.of(x)
    view = Operand((2, 5, 3), torch.float32, transposed=True).view(torch.arange(30.0))
    assert view.shape == (2, 5, 3)
    assert view.stride() == (15, 1, 5)


def test_repeated_products_are_the_recorded_ones() -> None:
    net = nn.Sequential(nn.Linear(3, 4), nn.ReLU(), nn.Linear(4, 2))
    sets = []
    for rows in (5, 7):
        with RecordProducts() as recording:
            x = torch.randn(rows, 3, requires_grad=True)
            net(x).sum().backward()
            torch.bmm(x.view(rows, 3, 1), x.view(rows, 1, 3))
        sets.append(recording.products)
    bare = BareProducts(sets, CPU)
    for products in sets:
        step = bare.step(products)
        with RecordProducts() as again:
            step()
        assert again.products == products
    needed = [sum(p.left.size + p.right.size for p in products) for products in sets]
    assert bare._memory[torch.float32].numel() == max(needed)  # no two factors share an entry


def test_products_of_a_network_agree_with_a_flop_counter() -> None:
    net = WLKernelNet(5, 8, 1, gated=True, edge_dim=3, tie_weights=None)
    edge_index = torch.tensor([[0, 1, 1, 2, 3, 4], [1, 0, 2, 1, 4, 3]])
    batch = torch.tensor([0, 0, 0, 1, 1])
    arguments = {"edge_attr": torch.randn(6, 3), "batch": batch}
    x = torch.randn(5, 5)

    def step() -> None:
        net(x, edge_index, **arguments).sum().backward()

    with FlopCounterMode(display=False) as counter:
        step()
    with RecordProducts() as recording:
        step()
    assert sum(product.flop for product in recording.products) == counter.get_total_flops()


@pytest.fixture
def found(molecules_csv: Path) -> tuple[Split, Model]:
    words = ["--data", str(molecules_csv), "--model", "gin", "--hidden", "4", "--layers", "1"]
    split, (model,) = comparison(words)
    return split, model


def test_products_of_the_batches_of_an_epoch(found: tuple[Split, Model]) -> None:
    """Those that the Trainer trains on, counted by hand: 48 molecules in batches of 20."""
    record = recorded(*found, batch_size=20)
    assert record.molecules == [20, 20, 8]
    atoms, graphs = [], []

    class Sizes(BatchClock):
        def on_train_batch_start(self, trainer: Any, module: Any, batch: Any, place: int) -> None:
            atoms.append(batch.num_nodes)
            graphs.append(batch.num_graphs)

    train_batches(*found, 20, Sizes())
    for n, m, products in zip(atoms, graphs, record.batches, strict=True):
        by_hand = linear(n, 65, 4, grad_input=False)  # features have no gradient
        by_hand += linear(n, 4, 4) + linear(n, 4, 4)  # the layer's perceptron
        by_hand += linear(m, 4, 4) + linear(m, 4, 1)  # the head
        assert shapes(products) == by_hand


def test_products_run_once_after_each_batch(found: tuple[Split, Model]) -> None:
    done: list[int] = []
    steps = [lambda k=k: done.append(k) for k in range(3)]  # type: ignore[misc]
    clock = AlternatingClock(steps)
    train_batches(*found, 20, clock)
    assert done == [0, 1, 2]
    assert len(clock.seconds) == len(clock.products_seconds) == 3


def test_rows(found: tuple[Split, Model]) -> None:
    (row,) = measure_epochs(found[0], [found[1]], batch_size=20, num_batches=2, rounds=1)
    assert (row["batches"], row["molecules"], row["products"]) == (2, 40, 14)
    seconds = row["epoch_seconds"]
    assert row["milliseconds"] == pytest.approx(1e3 * seconds / 2)
    assert row["molecules_a_second"] == pytest.approx(40 / seconds)
    ratio = row["milliseconds"] / row["products_milliseconds"]
    assert row["over_products"] == pytest.approx(ratio)
    flop = [p.flop for batch in recorded(*found, 20, 2).batches for p in batch]
    assert row["gigaflop"] == pytest.approx(sum(flop) / 2 / 1e9)
    assert row["gigaflop_a_second"] == pytest.approx(sum(flop) / seconds / 1e9)
    assert row["products_gigaflop_a_second"] == pytest.approx(row["gigaflop_a_second"] * ratio)


def test_command(tmp_path: Path, call_main: Call) -> None:
    words = ["--dataset", "chembl", "--model", "gin", "--batch-size", 16, "--batches", 2]
    status, out, _ = call_main(
        main, "epoch", *words, "--rounds", 1, "--threads", 1, "--out", tmp_path / "new"
    )
    assert status == 0
    content = json.loads((tmp_path / "new" / "metrics.json").read_text())
    assert [row["model"] for row in content["models"]] == ["gin"]
    assert content["batch_size"] == 16
    for row in content["models"]:
        assert row["molecules"] == 32
        assert row["num_parameters"] <= 260_000
        assert f"{row['num_parameters']:,}" in out


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--model", "nonsense"], "--model nonsense: expected one of"),
        (["--model", "mean"], "--model mean: expected one of"),
        (["--device", "nonsense"], "got 'nonsense'"),
        (["--rounds", "0"], "--rounds: must be an integer of at least 1"),
        (["--dataset", "chembl", "--out", __file__], "File exists"),
    ],
)
def test_bad_input(words: list[str], message: str, call_main: Call) -> None:
    status, _, errors = call_main(main, "epoch", *words)
    assert status == 2
    assert message in errors
    assert len(errors.strip().splitlines()) == 1
