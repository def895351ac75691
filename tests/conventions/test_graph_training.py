"""Networks train as printed in the README and docs, and with their default arguments."""

import functools
import re
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.nn.functional as F
import torch_geometric.datasets
from torch import Tensor
from torch.nn import Module
from torch_geometric.data import Batch, Data
from torch_geometric.loader import DataLoader
from torch_geometric.nn import GCN

from pyg_kernels.nn import GraphKernelConv
from tests.conventions.graph_layers import NETS
from tests.pages import code_blocks, run

ROOT = Path(__file__).parents[2]
KINDS = 3


@functools.cache
def graphs(seed: int, count: int) -> list[Data]:
    """Random trees of typed nodes and edges; in class 1 an edge joins nodes of types 0 and 1."""
    generator = torch.Generator().manual_seed(seed)

    def draw(high: int, *size: int) -> Tensor:
        return torch.randint(high, size, generator=generator)

    found = []
    for _ in range(count):
        nodes = int(draw(3, 1)) + 4
        kind = draw(KINDS, nodes)
        parent = torch.stack([draw(child, 1)[0] for child in range(1, nodes)])
        down = torch.stack([parent, torch.arange(1, nodes)])
        mixed = (kind[down].sort(dim=0).values == torch.tensor([[0], [1]])).all(0).sum()
        bond = F.one_hot(draw(KINDS, nodes - 1), KINDS).float().repeat(2, 1)
        index = torch.cat([down, down.flip(0)], dim=1)
        x = F.one_hot(kind, KINDS).float()
        found.append(Data(x=x, edge_index=index, edge_attr=bond, y=(mixed > 0).long()[None]))
    return found


class TypedTrees(list):
    """Replaces TUDataset, so that nothing is downloaded."""

    num_features, num_classes, num_edge_features = KINDS, 2, KINDS

    def __init__(self, root: str, name: str) -> None:
        super().__init__(graphs(0, 200))


def accuracy(model: Module) -> float:
    """The share of new trees that are classified correctly."""
    data = Batch.from_data_list(graphs(1, 300))
    with torch.no_grad():
        out = model.eval()(data.x, data.edge_index, edge_attr=data.edge_attr, batch=data.batch)
    return (out.argmax(dim=1) == data.y).double().mean().item()


@pytest.fixture(scope="module")
def printed() -> dict[str, Any]:
    """The names defined by docs/index.rst's first snippet and by the network of docs/choose.rst."""
    torch.manual_seed(0)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(torch_geometric.datasets, "TUDataset", TypedTrees)
        return run(code_blocks("index.rst")[0], *code_blocks("choose.rst"))


def test_docs_index(printed: dict[str, Any]) -> None:
    share = torch.cat([graph.y for graph in graphs(1, 300)]).double().mean().item()
    assert max(share, 1 - share) < 0.7
    assert accuracy(printed["model"]) > 0.9


def communities(seed: int = 0, nodes: int = 1200, degree: int = 8) -> Data:
    """Two communities with hubs, noisy features, and 80% of the edges within a community."""
    generator = torch.Generator().manual_seed(seed)
    y = torch.arange(nodes) % 2
    weight = torch.rand(nodes, generator=generator) ** -0.5
    source, target = (
        torch.multinomial(weight, nodes * degree, replacement=True, generator=generator)
        for _ in range(2)
    )
    kept = (y[source] == y[target]) | (torch.rand(len(source), generator=generator) < 0.25)
    index = torch.stack([source, target])[:, kept]
    x = torch.randn(nodes, 8, generator=generator)
    x[:, 0] += 1.5 * (y - 0.5)
    return Data(x=x, edge_index=torch.cat([index, index.flip(0)], 1), y=y)


def train(
    model: Module, loss: Callable[[Data], Tensor], batches: Iterable[Data], epochs: int, lr: float
) -> None:
    optimizer = torch.optim.Adam(model.parameters(), lr=lr)
    for _ in range(epochs):
        for batch in batches:
            optimizer.zero_grad()
            loss(batch).backward()
            optimizer.step()


def trained(model: Module, data: Data) -> float:
    """The accuracy on three quarters of the nodes after training on the other quarter."""
    seen = torch.arange(len(data.y)) % 8 < 2

    def loss(data: Data) -> Tensor:
        return F.cross_entropy(model(data.x, data.edge_index)[seen], data.y[seen])

    model(data.x, data.edge_index)  # sets lazy sizes
    train(model, loss, [data], epochs=20, lr=0.01)
    with torch.no_grad():
        found = model.eval()(data.x, data.edge_index).argmax(dim=1)
    return (found == data.y)[~seen].double().mean().item()


def test_stacked_layers_of_docs(printed: dict[str, Any]) -> None:
    data = communities()
    torch.manual_seed(0)
    gcn = trained(GCN(8, 64, 2, 2), data)
    found = trained(printed["network"], data)
    assert found > gcn - 0.05
    assert found > 0.85


def test_readme_net() -> None:
    """Regression of a count: the error falls far below that of predicting the mean."""
    code = re.findall(r"```python\n(.*?)```", (ROOT / "README.md").read_text(), flags=re.S)[0]
    torch.manual_seed(0)
    model = run(code)["Net"](edge_dim=KINDS)
    for data in (found := [data.clone() for data in graphs(0, 200)]):
        data.y = data.x[:, 0].sum().reshape(1, 1) - data.x[data.edge_index[0], 1].sum()
    batches = DataLoader(found, batch_size=32, shuffle=True)
    train(model, lambda batch: F.mse_loss(model(batch), batch.y), batches, epochs=30, lr=3e-3)
    whole = Batch.from_data_list(found)
    error = F.mse_loss(model.eval()(whole), whole.y).item()
    assert error < 0.1 * whole.y.var().item()


@pytest.mark.parametrize("net", sorted(NETS.keys() - {"WLKernelNet"}))  # that is in docs/index.rst
def test_networks_train_with_their_defaults(net: str) -> None:
    torch.manual_seed(0)
    model = NETS[net](KINDS, 32, 2, edge_dim=KINDS)

    def loss(data: Data) -> Tensor:
        out = model(data.x, data.edge_index, edge_attr=data.edge_attr, batch=data.batch)
        return F.cross_entropy(out, data.y)

    batches = DataLoader(graphs(0, 200), batch_size=32, shuffle=True)
    train(model, loss, batches, epochs=20, lr=3e-3)
    assert accuracy(model) > 0.8


@pytest.mark.parametrize("gated", [False, True])
def test_six_layers_stay_in_range(gated: bool) -> None:
    """With a norm in each layer, outputs keep their scale and gradients stay finite."""
    data = communities()
    torch.manual_seed(0)
    layers = torch.nn.ModuleList(
        GraphKernelConv(-1, 32, gated=gated, norm=torch.nn.BatchNorm1d(32)) for _ in range(6)
    )
    x = data.x
    for layer in layers:
        x = layer(x, data.edge_index)
        assert 0.3 < x.std() < 1.5
    x.square().mean().backward()
    assert all(p.grad.isfinite().all() for p in layers.parameters())
