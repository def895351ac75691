"""Attributions of whole networks add up to the output and equal those by brute force."""

import copy
from collections import Counter
from dataclasses import replace
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor
from torch.nn import BatchNorm1d, Dropout, LeakyReLU, Linear, Module, ReLU, Sequential, Tanh
from torch.nn.utils import prune

from pyg_kernels.explain import ModelContributions, model_contributions
from pyg_kernels.nn import GraphKernelNet, RandomWalkNet, WLKernelNet
from pyg_kernels.nn.conv.walk_conv import WalkConv
from tests.explain.values import Value, assert_attributed, close, edgeless, walk_values
from tests.graphs import Graph, random_graph

CHANNELS, OUT = 5, 2
MODELS: dict[str, tuple[type[Module], dict[str, Any]]] = {
    "walk": (RandomWalkNet, {"order": 3, "act": "relu"}),
    "walk-linear": (RandomWalkNet, {"order": 2, "act": None, "gated": True, "norm": None}),
    "walk-add": (RandomWalkNet, {"order": 3, "act": "leaky_relu", "combine": "add"}),
    "deep-one": (GraphKernelNet, {"num_layers": 1, "norm": None}),
    "deep": (GraphKernelNet, {"num_layers": 3, "order": 3, "combine": "mul", "dropout": 0.3}),
    "deep-gated": (GraphKernelNet, {"num_layers": 2, "gated": True, "norm": "head"}),
    "wl": (WLKernelNet, {"num_iterations": 3, "dropout": 0.2}),
    "wl-layer": (WLKernelNet, {"num_iterations": 2, "order": 3, "tie_weights": None, "norm": None}),
    "wl-last": (WLKernelNet, {"num_iterations": 3, "readout": "last", "gated": False}),
    "wl-concat": (WLKernelNet, {"num_iterations": 3, "readout": "concat", "norm": "head"}),
    "wl-mul": (WLKernelNet, {"num_iterations": 2, "relabel": "mul", "tie_weights": "relabel"}),
}


def build(name: str, **more: Any) -> Module:
    """A network in float64 and training mode, with running statistics unlike the initial ones."""
    kind, options = MODELS[name]
    torch.manual_seed(len(name))
    model = kind(4, CHANNELS, OUT, edge_dim=3, **{**options, **more}).double()
    for module in model.modules():
        if isinstance(module, BatchNorm1d):
            torch.nn.init.normal_(module.running_mean)
            torch.nn.init.uniform_(module.running_var, 0.5, 2.0)
            torch.nn.init.normal_(module.weight)
            torch.nn.init.normal_(module.bias)
    return model


def explain(model: Module, graph: Graph, target: int = 0, **given: Any) -> ModelContributions:
    inputs = graph.x, graph.edge_index, graph.edge_attr
    return model_contributions(model, *inputs, target, 6, **given)


def assert_adds_up(model: Module, graph: Graph, target: int, **given: Any) -> ModelContributions:
    found = explain(model, graph, target, **given)
    output = model.eval()(graph.x, graph.edge_index, edge_attr=graph.edge_attr, **given)
    close(found.output, output[0, target].detach())
    close(found.total + found.remainder, found.output)
    close(found.nodes.sum(), found.total)
    close(found.edges.sum() + found.single_nodes, found.total)
    assert found.nodes.shape == (graph.num_nodes,)
    assert found.edges.shape == (graph.edge_index.size(1),)
    return found


@pytest.mark.parametrize("name", MODELS)
def test_adds_up_to_the_output(name: str) -> None:
    """Also with weights of edges, without edges, and under autocast, where weights decide."""
    model = build(name)
    assert_adds_up(model, random_graph(1), 1, edge_weight=torch.rand(9).double())
    for graph in [random_graph(0, kinds=2), random_graph(1), *map(edgeless, [0, 1, 3])]:
        for target in (0, 1):
            expected = assert_adds_up(model.train(), graph, target)
    with torch.autocast("cpu", torch.bfloat16):
        found = explain(model, graph, target)
    assert found.nodes.equal(expected.nodes) and found.output.equal(expected.output)


def other_heads() -> dict[str, Module]:
    """Heads other than the networks' own."""
    first, second, act = Linear(CHANNELS, CHANNELS), Linear(CHANNELS, CHANNELS), ReLU()
    last = Linear(CHANNELS, OUT)
    return {
        "bare": last,
        "tied": Sequential(first, ReLU(), first, ReLU(), last),
        "shared": Sequential(first, act, second, act, last),
        "nested": Sequential(Sequential(first, LeakyReLU(), Dropout()), last),
    }


HEADS: list[tuple[str, str | None]] = [(name, None) for name in MODELS]
HEADS += [(name, head) for name in ("walk", "deep", "wl-last") for head in other_heads()]


@pytest.mark.parametrize(("name", "head"), HEADS)
def test_equals_all_walks(name: str, head: str | None, monkeypatch: pytest.MonkeyPatch) -> None:
    """All walks of the layers that the head reads, weighted by the output's slope at each state."""
    model, graph = build(name).eval(), random_graph(1)
    if head is not None:
        model.head = other_heads()[head].double().eval()
    take, taken = WalkConv.states, []

    def keep(walk: WalkConv, x: Tensor, *others: Any) -> list[Tensor]:
        *before, last = take(walk, x, *others)
        taken.append((walk, x.detach(), last.detach().requires_grad_()))
        return [*before, taken[-1][2]]

    with monkeypatch.context() as patch:
        patch.setattr(WalkConv, "states", keep)
        output = model(graph.x, graph.edge_index, edge_attr=graph.edge_attr)[0, 1]
    read = taken[-1:] if name.startswith("deep") or name == "wl-last" else taken
    slopes = torch.autograd.grad(output, [states for *_, states in read])
    totals: Counter[tuple[Any, Any]] = Counter()
    for (walk, x, _), slope in zip(read, slopes, strict=True):
        act = "identity" if walk.act is None else "relu"
        for w in walk_values(walk, replace(graph, x=x), slope, act):
            totals[w.nodes, w.edges] += w.value
    every = [Value(*parts, value) for parts, value in totals.items()]
    found = explain(model, graph, 1)
    assert_attributed(found, found.single_nodes, every, walk.combine, graph, 6)


def test_leaves_the_model_as_it_was() -> None:
    model = build("wl").float()
    model.convs[0].eval()
    modes = [module.training for module in model.modules()]
    before = {name: value.clone() for name, value in model.state_dict().items()}
    found = explain(model, random_graph(0, dtype=torch.float32))
    assert modes == [module.training for module in model.modules()]
    for name, value in model.state_dict().items():
        torch.testing.assert_close(value, before[name])
    assert found.nodes.dtype == torch.float32 and not found.output.requires_grad


def test_networks_that_were_changed_add_up() -> None:
    """A tied layer replaced; labels, which need not be piecewise linear; activations in place."""
    replaced, labelled, in_place = (build(name).eval() for name in ("wl", "wl", "walk-linear"))
    replaced.convs[0].walk = copy.deepcopy(replaced.convs[0].walk)
    replaced.convs[0].walk.lins[0].weight.data.mul_(2)
    for conv in labelled.convs[:-1]:
        conv.act = Tanh()
    in_place.head = Sequential(LeakyReLU(0.2, inplace=True), in_place.head)
    for model in (replaced, labelled, in_place):
        assert_adds_up(model, random_graph(0), 0)


def test_half_precision_is_no_other_model() -> None:
    graph = random_graph(2)
    for seed in range(8):
        torch.manual_seed(seed)
        net = WLKernelNet(4, 16, 1).bfloat16().eval()
        model_contributions(net, graph.x.bfloat16(), graph.edge_index)


def doubled(module: Module, given: Any, out: Any) -> Any:
    return 2 * out if isinstance(out, Tensor) else (out[0], 2 * out[1])


WALKS = {"walk": "convs.0", "wl": "convs.0.walk", "deep": "convs.2.walk"}
LAST = {"walk": "head", "wl": "head.3", "deep": "head.3"}
HOOKED = [
    *(("walk", part) for part in ("convs.0", "norm", "head")),
    *(("wl", part) for part in ("convs.0", "head.0", "head.3", "head")),
    *(("deep", part) for part in ("convs.2.lin", "head.0", "head.3", "head")),
]


def test_hooks_on_what_is_explained_are_refused() -> None:
    """Those on layers, messages and the head; inputs and earlier layers may be hooked."""
    graph, models = random_graph(0), []
    for name, part in HOOKED:
        models.append(build(name).eval())
        models[-1].get_submodule(part).register_forward_hook(doubled)
    for name, part in WALKS.items():
        models.append(build(name).eval())
        models[-1].get_submodule(part).register_message_forward_hook(doubled)
    for model in models:
        with pytest.raises(ValueError, match="hooks change what passes"):
            explain(model, graph)
    for name in WALKS:
        model = build(name).eval()
        known = explain(model, graph)
        model.register_forward_pre_hook(lambda module, given: (given[0].clone(), *given[1:]))
        close(explain(model, graph).nodes, known.nodes)
    deep = build("deep").eval()
    deep.convs[0].register_forward_hook(doubled)
    explain(deep, graph)


@pytest.mark.parametrize(("name", "act"), [("walk", abs), ("wl", F.relu), ("deep", F.leaky_relu)])
def test_pruned_weights_and_activations_that_are_functions(name: str, act: Any) -> None:
    graph, model = random_graph(0), build(name, act=act).eval()
    last = model.get_submodule(LAST[name])
    prune.l1_unstructured(last, "weight", 0.5)
    last.weight_orig.data.mul_(5)  # the weight is stale until it is called
    first = assert_adds_up(model, graph, 0)
    close(explain(model, graph).nodes, first.nodes)


def test_what_cancels_is_explained() -> None:
    """Large values of walks have a sum near 0, in single precision."""
    torch.manual_seed(0)
    model = RandomWalkNet(5, 8, 1, order=1, act=None, norm=None).eval()
    torch.nn.init.zeros_(model.head.bias)
    half = 100 * torch.randn(2000, 5)
    x, no_edges = torch.cat([half, -half])[torch.randperm(4000)], torch.zeros(2, 0).long()
    found = model_contributions(model, x, no_edges, k=0)
    assert found.total.abs() < 1e-4 * found.nodes.abs().sum()
