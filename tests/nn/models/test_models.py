"""The whole models: their formulas, their kernels, and how PyG's users call them."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable
from functools import partial

import pytest
import torch
from torch import Tensor
from torch_geometric.data import Batch

from pyg_kernels.nn import (
    EmbeddedLoopyBP,
    EmbeddedMeanField,
    GraphKernelNet,
    RandomWalkConv,
    RandomWalkNet,
    WLKernelNet,
)
from tests.conventions.graph_layers import NETS
from tests.graphs import Graph, batch_of, random_graph
from tests.promises import assert_autocasts
from tests.walk_kernels import edge_weights, walk_kernel

MODELS: dict[str, Callable[..., torch.nn.Module]] = {
    "random-walk": partial(RandomWalkNet, 4, 6, 2),
    "random-walk-gated": partial(RandomWalkNet, 4, 6, 2, order=3, gated=True),
    "random-walk-onwards": partial(RandomWalkNet, 4, 6, 2, order=4, non_backtracking=True),
    "graph-kernel": partial(GraphKernelNet, 4, 6, 2, num_layers=2),
    "graph-kernel-norm": partial(GraphKernelNet, 4, 6, 2, num_layers=2, norm="layer"),
    "wl": partial(WLKernelNet, 4, 6, 2),
    "wl-untied": partial(WLKernelNet, 4, 6, 2, tie_weights=None, gated=False, decay="learned"),
    "wl-paper": partial(WLKernelNet, 4, 6, 2, tie_weights="relabel", gated=False),
    "wl-code": partial(WLKernelNet, 4, 6, 2, readout="last", relabel="mul"),
    "wl-no-norm": partial(WLKernelNet, 4, 6, 2, norm=None, dropout=0.2),
    "wl-concat": partial(WLKernelNet, 4, 6, 2, readout="concat"),
    "mean-field": partial(EmbeddedMeanField, 4, 6, 2, norm=None, dropout=0.2),
    "loopy-bp": partial(EmbeddedLoopyBP, 4, 6, 2, norm=None, dropout=0.2),
}


def predict(model: torch.nn.Module, data: Graph | Batch, bonds: bool, **kwargs: object) -> Tensor:
    attr = data.edge_attr if bonds else None
    batch = data.batch if isinstance(data, Batch) else None
    return model(data.x, data.edge_index, edge_attr=attr, batch=batch, **kwargs)


@pytest.mark.parametrize("bonds", [False, True], ids=["plain", "bonds"])
@pytest.mark.parametrize("build", MODELS.values(), ids=list(MODELS))
class TestModels:
    @pytest.fixture
    def model(self, build, bonds) -> torch.nn.Module:
        torch.manual_seed(0)
        return build(edge_dim=3 if bonds else None).double().eval()

    def test_batching_and_permuting_atoms_change_nothing(self, model, build, bonds) -> None:
        graphs = [random_graph(0), random_graph(1, 9, 20), random_graph(2, 2, 0)]
        first, new = graphs[0], torch.randperm(6)
        graphs.append(Graph(first.x[new.argsort()], new[first.edge_index], first.edge_attr))
        together = predict(model, batch_of(graphs), bonds)
        assert together.shape == (4, 2)
        alone = torch.cat([predict(model, graph, bonds) for graph in graphs])
        torch.testing.assert_close(alone, together, rtol=1e-10, atol=1e-12)
        torch.testing.assert_close(together[3], together[0], rtol=1e-10, atol=1e-12)
        trailing = predict(model, batch_of(graphs), bonds, batch_size=5)  # no atoms in graph 4
        assert trailing.shape == (5, 2) and trailing.isfinite().all()
        torch.testing.assert_close(trailing[:4], together)

    def test_copies(self, model, build, bonds) -> None:
        data = batch_of([random_graph(0), random_graph(1)])
        expected = predict(model, data, bonds)
        other = build(edge_dim=3 if bonds else None).double().eval()
        assert not torch.equal(predict(other, data, bonds), expected)
        other.load_state_dict(model.state_dict())
        for twin in (copy.deepcopy(model), pickle.loads(pickle.dumps(model)), other):
            count, found = (sum(p.numel() for p in m.parameters()) for m in (model, twin))
            assert count == found  # tied weights stay tied
            torch.testing.assert_close(predict(twin, data, bonds), expected)
            twin.reset_parameters()
            assert not torch.equal(predict(twin, data, bonds), expected)
        if hasattr(other, "head"):  # for a new task, only the head is drawn again
            other.load_state_dict(model.state_dict())
            other.head.reset_parameters()
            assert not torch.equal(predict(other, data, bonds), expected)
        torch.testing.assert_close(predict(model, data, bonds), expected)

    def test_autocast(self, model, build, bonds) -> None:
        assert_autocasts(model, random_graph(1, 9, 20), bonds)

    def test_every_parameter_is_read(self, model, build, bonds) -> None:
        """Every parameter that is built is used."""
        out = predict(model.train(), batch_of([random_graph(0), random_graph(1, 9, 20)]), bonds)
        out.sum().backward()
        assert all(p.grad is not None for p in model.parameters())


def settled(norm: str | None, model: torch.nn.Module) -> torch.nn.Module:
    """The model in evaluation mode, with batch statistics that differ from 0 and 1."""
    if norm in ("batch", "head"):
        model.train()
        for seed in range(3):
            graphs = [random_graph(seed, 9, 30), random_graph(seed + 9, 8, 20)]
            predict(model, batch_of(graphs), bonds=True)
    return model.eval()


@pytest.mark.parametrize("norm", [None, "batch", "layer", "head"])
@pytest.mark.parametrize("gated", [False, True])
def test_formulas_of_the_deep_models(norm: str | None, gated: bool, monkeypatch) -> None:
    """Embedding, layers, norms, activations, dropout and head, each by its formula."""
    torch.manual_seed(0)
    monkeypatch.setattr(torch.nn.functional, "dropout", lambda x, p, training: 3.0 * x + p)
    graph = random_graph(0)
    x, index, bonds = graph.x, graph.edge_index, graph.edge_attr
    given = {"gated": gated, "norm": norm, "edge_dim": 3}
    common = {**given, "dropout": 0.25, "act": "tanh"}

    def normed(module: torch.nn.Module | None, value: Tensor) -> Tensor:
        assert (module is None) == (norm in (None, "head"))
        return value if module is None else module(value)

    def head(model: torch.nn.Module, vector: Tensor) -> Tensor:
        first, last = (m for m in model.head if isinstance(m, torch.nn.Linear))
        graph = vector[None] if norm is None else model.head[0](vector[None])
        return last(torch.tanh(first(graph)))

    deep = settled(norm, GraphKernelNet(4, 6, 2, 2, **common).double())
    h = x
    for conv in deep.convs:
        h = torch.tanh(normed(conv.norm, conv.walk(h, index, bonds) @ conv.lin.weight.t()))
        h = 3.0 * h + 0.25
    torch.testing.assert_close(deep(x, index, edge_attr=bonds), head(deep, h.sum(dim=0)))

    def kernel(conv: RandomWalkConv, x: Tensor) -> Tensor:
        weights = [lin.weight for lin in conv.lins]
        return walk_kernel(x, index, weights, edge_weights(conv, Graph(x, index, bonds)))

    for readout in ("sum", "concat"):  # over the kernels of all iterations (proposition 2)
        wl = settled(norm, WLKernelNet(4, 6, 2, 3, readout=readout, **common).double())
        h, terms = x @ wl.embedding.weight.t(), []
        for conv in wl.convs:
            terms.append(kernel(conv.walk, h))
            if conv.relabeling is None:
                break
            maps = conv.relabeling
            message = h[index[0]] @ maps.lin_neighbor.weight.t() + bonds @ maps.lin_edge.weight.t()
            arrived = torch.zeros_like(h).index_add(0, index[1], torch.tanh(message))
            label = h @ maps.lin_self.weight.t() + arrived @ maps.lin_aggregated.weight.t()
            h = 3.0 * torch.tanh(normed(conv.norm, label)) + 0.25
        assert len(terms) == 3
        read = torch.cat(terms) if readout == "concat" else sum(terms)
        out = wl(x, index, edge_attr=bonds)
        torch.testing.assert_close(out, head(wl, read), rtol=1e-10, atol=1e-12)

    walk = settled(norm, RandomWalkNet(4, 6, 2, order=3, **given).double())
    (conv,) = walk.convs
    assert conv.order == 3
    total = kernel(conv, x)[None]  # equation 6
    total = total if norm is None else walk.norm(total)
    torch.testing.assert_close(walk(x, index, edge_attr=bonds), walk.head(torch.tanh(total)))


def test_tying() -> None:
    def size(tie_weights: str | None) -> int:
        model = WLKernelNet(4, 10, 1, 3, gated=False, tie_weights=tie_weights, norm=None)
        return sum(p.numel() for p in model.convs.parameters())

    walk, relabeling = 2 * 100, 3 * 100
    assert size("all") == walk + relabeling
    assert size("relabel") == 3 * walk + relabeling
    assert size(None) == 3 * walk + 2 * relabeling  # nothing reads a last relabelling


@pytest.mark.parametrize("tie_weights", ["all", "relabel", None])
def test_what_is_tied_is_one_submodule(tie_weights: str | None) -> None:
    """This lets torch.func restore it; old state dicts, with a copy for each layer, still load."""
    graph = random_graph(0, dtype=torch.float32)
    model, other = (WLKernelNet(4, 6, 1, tie_weights=tie_weights, norm=None) for _ in range(2))
    expected, names = predict(model, graph, False), [k for k, _ in model.named_parameters()]
    zeros = {name: torch.zeros_like(value) for name, value in model.named_parameters()}
    args = graph.x, graph.edge_index
    assert not torch.func.functional_call(model, zeros, args).any()
    torch.testing.assert_close(predict(model, graph, False), expected, rtol=0, atol=0)
    assert [name for name, _ in model.named_parameters()] == names
    state = model.state_dict()
    copies = {"all": ("walk", "relabeling"), "relabel": ("relabeling",), None: ()}[tie_weights]
    for name in copies:
        for key in [key for key in state if key.startswith(f"convs.0.{name}.")]:
            layers = (1, 2, 3) if name == "walk" else (1, 2)  # the last one relabels nothing
            state |= {key.replace("convs.0", f"convs.{k}"): state[key] for k in layers}
    torch.nn.ModuleList([other]).load_state_dict({f"0.{key}": v for key, v in state.items()})
    unequal = state | {"convs.0.walk.lins.0.weight": torch.full((6, 6), torch.nan)}
    if tie_weights == "all":  # a diverged network, and lazy weights
        unequal |= {
            f"convs.{k}.walk.lins.0.weight": torch.full((6, 6), torch.nan) for k in (1, 2, 3)
        }
        copy.deepcopy(other).load_state_dict(unequal)
        lazy = WLKernelNet(-1, 6, 1, tie_weights="all", edge_dim=-1)
        key, value = next((k, v) for k, v in lazy.state_dict().items() if "edge_lins" in k)
        lazy.load_state_dict(lazy.state_dict() | {key.replace("convs.0", "convs.1"): value})
    for same in (other, copy.deepcopy(model), pickle.loads(pickle.dumps(model))):
        torch.testing.assert_close(predict(same, graph, False), expected, rtol=0, atol=0)
        assert (same.convs[1].walk is same.convs[0].walk) == (tie_weights == "all")
    model.convs[0].walk = copy.deepcopy(model.convs[0].walk)
    predict(model, graph, False)
    assert all(conv.walk in set(model.modules()) for conv in model.convs)
    model.convs[1].walk = own = copy.deepcopy(model.convs[0].walk)  # no longer tied
    expected = predict(model, graph, False)
    assert model.convs[1].walk is own
    own.lins[0].weight.data.mul_(2)
    state = model.state_dict()
    own.lins[0].weight.data.mul_(2)
    model.load_state_dict(state)
    torch.testing.assert_close(own.lins[0].weight, state["convs.1.walk.lins.0.weight"])
    assert not torch.equal(predict(model, graph, False), expected)


@pytest.mark.parametrize("tied", ["all", "relabel"])
def test_a_state_of_other_layers_is_refused_where_they_are_tied(tied: str) -> None:
    state = WLKernelNet(4, 6, 1, tie_weights=None).state_dict()
    with pytest.raises(RuntimeError, match=r"Unexpected key.*convs.1.relabeling"):
        WLKernelNet(4, 6, 1, tie_weights=tied).load_state_dict(state)


def test_misplaced_arguments() -> None:
    graph = random_graph(0, dtype=torch.float32)
    for net in NETS.values():
        model = net(4, 6, 1, edge_dim=3)
        with pytest.raises(ValueError, match=r"batch has shape \(9, 3\) and dtype torch.float32"):
            model(graph.x, graph.edge_index, batch=graph.edge_attr)
        with pytest.raises(ValueError, match="batch_size=3"):
            model(graph.x, graph.edge_index, edge_attr=graph.edge_attr, batch_size=3)
