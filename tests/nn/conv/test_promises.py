"""Checks that every layer keeps every promise."""

from __future__ import annotations

import copy
import re
from collections.abc import Callable
from functools import partial, wraps
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.utils.prune
from torch_geometric import EdgeIndex

from pyg_kernels.nn import (
    EmbeddedMeanField,
    GatedWalkConv,
    GraphKernelConv,
    GraphKernelNet,
    RandomWalkConv,
    WLKernelConv,
    WLKernelNet,
)
from tests import promises
from tests.conventions.graph_layers import CONVS, NETS, OTHERS, C, E, every_layer, layer_of, wl
from tests.graphs import random_graph


class WLWithStates(WLKernelConv):
    """The layer with both of its outputs."""

    def forward(self, x, edge_index, edge_attr=None):
        return super().forward(x, edge_index, edge_attr, return_states=True)


def with_states(in_channels: int, out_channels: int, **kwargs: Any) -> WLWithStates:
    return WLWithStates(out_channels, **kwargs)


LAYERS: dict[str, Callable[..., torch.nn.Module]] = {
    **CONVS,
    **OTHERS,
    "order-1": partial(GatedWalkConv, order=1),
    "states": partial(RandomWalkConv, order=3, combine="add", act="relu", return_states=True),
    "wl-states": partial(with_states, order=3, decay="learned", act="sigmoid"),
    "wl-gated-states": partial(with_states, gated=True, relabel="mul", act="elu"),
    "wl-linear": partial(wl, act=None),
    "wl-no-relabel": partial(wl, relabel=None),
}
GRAPHS = [random_graph(0), random_graph(1, num_nodes=9, num_edges=20, kinds=2)]


@pytest.fixture(params=LAYERS.values(), ids=list(LAYERS))
def build(request: pytest.FixtureRequest) -> Callable[..., torch.nn.Module]:
    return request.param


@pytest.fixture(params=[False, True], ids=["bare", "bonds"])
def bonds(request: pytest.FixtureRequest) -> bool:
    return request.param


@pytest.fixture
def layer(build: Callable[..., torch.nn.Module], bonds: bool) -> torch.nn.Module:
    return layer_of(build, (C, C), bonds)


@pytest.mark.parametrize(
    "promise",
    [
        promises.assert_permutation_equivariant,
        promises.assert_same_through_messages,
        promises.assert_autocasts,
        promises.assert_transforms,
    ],
    ids=lambda promise: promise.__name__.removeprefix("assert_"),
)
def test_promises_of_one_graph(layer, bonds: bool, promise: Any) -> None:
    for graph in GRAPHS:
        promise(layer, graph, bonds)


def test_promises_of_other_graphs(layer, bonds: bool) -> None:
    promises.assert_batch_invariant(layer, GRAPHS, bonds)
    promises.assert_handles_degenerate_graphs(layer, C, E, bonds)


def test_flow(layer, build, bonds: bool) -> None:
    """Swapping the two rows of the index gives the same outputs with the other flow."""
    graph, other = GRAPHS[1], layer_of(partial(build, flow="target_to_source"), (C, C), bonds)
    back = promises.Graph(graph.x, graph.edge_index.flip(0), graph.edge_attr)
    promises.assert_same(promises.call(other, back, bonds), promises.call(layer, graph, bonds))
    promises.assert_same_through_messages(other, GRAPHS[0], bonds)


def test_gradcheck(layer, bonds: bool) -> None:
    graph = random_graph(5, num_nodes=5, num_edges=7, kinds=2)
    names, parameters = zip(*layer.named_parameters(), strict=True)

    def run(x: torch.Tensor, attr: torch.Tensor, *values: torch.Tensor):
        given = {"edge_attr": attr if bonds else None}
        state = dict(zip(names, values, strict=True))
        call = torch.func.functional_call(layer, state, (x, graph.edge_index), given)
        return tuple(promises.flat(call))

    inputs = (graph.x.requires_grad_(), graph.edge_attr.requires_grad_(bonds))
    assert torch.autograd.gradcheck(run, (*inputs, *parameters), fast_mode=True)
    values = (graph.x, graph.edge_attr.detach(), *parameters)  # repeated rows: edge types
    assert torch.autograd.gradgradcheck(run, values, fast_mode=True)


def test_bipartite_adjacency() -> None:
    layer, x = RandomWalkConv((4, 6), 5), (torch.randn(7, 4), torch.randn(3, 6))
    sparse = torch.eye(3, 7).roll(2, 1).to_sparse()
    promises.assert_same(layer(x, sparse), layer(x, sparse.indices().flip(0)), 1e-5, 1e-6)


def test_plain_calls_take_the_fused_path(monkeypatch: pytest.MonkeyPatch) -> None:
    layer = WLWithStates(C, gated=True)
    graph = random_graph(0, dtype=torch.float32)

    def fail(*args: object, **kwargs: object) -> None:
        raise AssertionError("propagate was called")

    monkeypatch.setattr(layer, "propagate", fail)
    monkeypatch.setattr(layer.walk, "propagate", fail)
    layer(graph.x, graph.edge_index)


def test_hooks_and_replacements_of_the_linear_maps_are_called() -> None:
    graph, layer = random_graph(0, dtype=torch.float32), WLWithStates(C, gated=True)
    expected, seen = layer(graph.x, graph.edge_index), list[str]()
    layer.lins[1].register_forward_hook(lambda *args: seen.append("hook"))
    for change in (
        lambda: None,
        lambda: torch.nn.utils.prune.identity(layer.lins[0], "weight"),
        lambda: layer.walk.lins.__setitem__(1, torch.nn.Sequential(layer.lins[1])),
    ):
        change()
        promises.assert_same(layer(graph.x, graph.edge_index), expected, 1e-5, 1e-6)
    assert seen == ["hook"] * 3


def test_hooks_and_methods_of_messages_are_called() -> None:
    """This includes those of a walk inside another layer."""

    class Halved(RandomWalkConv):
        @wraps(RandomWalkConv.message)
        def message(self, z_j, weight, edge_weight):
            return z_j / 2

    class Negated(WLKernelConv):
        def update(self, inputs):
            return -inputs

    graph = random_graph(0, dtype=torch.float32)
    args = graph.x, graph.edge_index
    walk, halved = RandomWalkConv(C, C, combine="add"), Halved(C, C, combine="add")
    halved.load_state_dict(walk.state_dict())
    own = walk.lins[1](graph.x)
    torch.testing.assert_close(halved(*args) - own, (walk(*args) - own) / 2)
    relabeling, negated = WLKernelConv(C), Negated(C)
    negated.load_state_dict(relabeling.state_dict())
    assert not torch.equal(negated(*args), relabeling(*args))
    layer, calls = GraphKernelConv(C, C, norm=None), list[torch.nn.Module]()
    expected = layer(*args)
    layer.register_message_forward_hook(lambda module, inputs, out: calls.append(module))
    torch.testing.assert_close(layer(*args), expected)
    copied = copy.deepcopy(layer)
    torch.testing.assert_close(copied(*args), expected)
    assert calls[0] is layer and calls[1] is copied and len(calls) == 2


def test_a_users_own_activation_is_called() -> None:
    class Shifted(torch.nn.ReLU):
        def forward(self, x):
            return super().forward(x) + 1.0

    graph = random_graph(0)
    layer = WLKernelConv(C, act=Shifted(), edge_dim=E).double()
    promises.assert_same_through_messages(layer, graph, True)
    calls: list[int] = []
    layer = WLKernelConv(C, act=torch.nn.ReLU(), edge_dim=E).double()
    layer.act.register_forward_hook(lambda *args: calls.append(1))
    layer(graph.x, graph.edge_index, graph.edge_attr)
    assert len(calls) == 2


def test_numbers_and_functions_of_other_libraries() -> None:
    made = RandomWalkConv(np.int64(C), C, order=3, decay=np.float32(0.5))
    assert (made.in_channels, made.order) == (C, 3)
    for net in (GraphKernelNet, WLKernelNet, EmbeddedMeanField):
        called, given = (net(C, 8, 2, 2, act=act).eval() for act in (torch.tanh, "tanh"))
        called.load_state_dict(given.state_dict())
        x, edge_index = random_graph(0).x.float(), random_graph(0).edge_index
        torch.testing.assert_close(called(x, edge_index), given(x, edge_index))


@every_layer
def test_lazy_sizes(build: Any, sizes: tuple[int, ...]) -> None:
    graph = random_graph(0, dtype=torch.float32)
    lazy, fresh, given = (build(n, *sizes[1:], edge_dim=e) for n, e in [(-1, -1)] * 2 + [(C, E)])
    lazy.reset_parameters()
    out = promises.call(lazy.eval(), graph, True)
    shapes, wanted = ({k: v.shape for k, v in m.state_dict().items()} for m in (lazy, given))
    assert shapes == wanted
    fresh.load_state_dict(lazy.state_dict())
    promises.assert_same(promises.call(fresh.eval(), graph, True), out)
    with torch.device("meta"):
        assert all(p.is_meta for p in build(*sizes, edge_dim=E).parameters())


def test_reset_draws_everything_anew() -> None:
    for layer in (
        GatedWalkConv(C, C, order=2, edge_dim=E, act=torch.nn.PReLU()),
        GraphKernelConv(C, C, decay="learned", edge_dim=E, norm=torch.nn.LayerNorm(C)),
        WLKernelConv(C, gated=True, edge_dim=E, norm=torch.nn.LayerNorm(C), act=torch.nn.PReLU()),
    ):
        for parameter in layer.parameters():
            torch.nn.init.constant_(parameter, 7.0)
        layer.reset_parameters()
        assert all((parameter != 7.0).all() for parameter in layer.parameters())


def test_changing_edges_before_backward_is_an_error() -> None:
    layer, x = RandomWalkConv(C, C), torch.randn(4, C)
    edge_index = torch.tensor([[0, 1], [1, 2]])
    out = layer(x, edge_index)
    edge_index[0, 0] = 3
    with pytest.raises(RuntimeError, match="inplace operation"):
        out.sum().backward()


WALK, GATED, DEEP = (
    partial(conv, in_channels=4, out_channels=4)
    for conv in (RandomWalkConv, GatedWalkConv, GraphKernelConv)
)
WL = partial(WLKernelConv, channels=4)
WALKS, DEEP_NET, WL_NET, *EMBEDDED = (
    partial(net, in_channels=4, hidden_channels=6, out_channels=1) for net in NETS.values()
)
OF_EMBEDDED = {"hidden_channels": [0], "out_channels": [0], "num_iterations": [0]}
REFUSED: list[tuple[Callable[..., object], dict[str, list[Any]]]] = [
    (WALK, {"order": [0, 2.0], "decay": [1.5, "gated", float("nan"), None], "combine": ["max"]}),
    (WALK, {"aggr": ["mean"], "edge_dim": [0], "non_backtracking": [1]}),
    (WALK, {"in_channels": [0, (4, 4, 4)], "out_channels": [-1]}),
    (GATED, {"edge_dim": ["a"], "out_channels": [0]}),
    (DEEP, {"norm": ["batch"]}),
    (partial(DEEP, gated=True), {"decay": [0.3]}),
    (WL, {"edge_dim": [-3], "relabel": ["max"], "channels": [0]}),
    (partial(WL, gated=True), {"decay": ["learned"]}),
    (WALKS, {"out_channels": [0], "order": [0]}),
    (DEEP_NET, {"hidden_channels": [0], "num_layers": [0]}),
    (WL_NET, {"tie_weights": ["none"], "readout": ["mean"], "num_iterations": [0]}),
    (WL_NET, {"norm": ["graph"], "decay": [0.1], "relabel": [None], "dropout": [2.0]}),
    (partial(WL_NET, num_iterations=1), {"relabel": ["max"]}),
    *((net, OF_EMBEDDED) for net in EMBEDDED),
    *((net, {"edge_dim": [0], "norm": ["graph"], "dropout": [1.0]}) for net in EMBEDDED),
]


@pytest.mark.parametrize(("build", "refused"), REFUSED)
def test_bad_arguments(build: Callable[..., object], refused: dict[str, list[Any]]) -> None:
    """The error names the argument and its value."""
    for name, values in refused.items():
        for value in values:
            with pytest.raises(ValueError, match=re.escape(f"{name}={value!r}")):
                build(**{name: value})


GRAPH = random_graph(0, dtype=torch.float32)
X, INDEX, ATTR = GRAPH.x, GRAPH.edge_index, GRAPH.edge_attr
PLAIN, BONDS, PAIR = WALK(), WALK(edge_dim=E), RandomWalkConv((C, C), 5)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: RandomWalkConv((4, 4), 4, order=3), "order=3"),
        (lambda: WALK(act=torch.nn.ReLU), "act=ReLU"),
        (lambda: WALK(act=torch.nn.ReLU(inplace=True)), "inplace"),
        (lambda: WL(relabel=None, norm=torch.nn.LayerNorm(4)), "relabel=None"),
        (lambda: GATED(decay=0.5), "decay"),
        (lambda: BONDS(X, INDEX, ATTR[:, :2]), "2 features: expected edge_dim=3"),
        (lambda: BONDS(X, INDEX, ATTR[:-1]), "one row for each"),
        (lambda: PLAIN(X, INDEX.t()), r"expected \(2, num_edges\)"),
        (lambda: PLAIN(X, INDEX.float()), "dtype"),
        (lambda: PLAIN(X[:5], torch.tensor([[0], [5]])), "names target node 5"),
        (lambda: PLAIN(X[:5], torch.tensor([[-1], [0]])), "names source node -1"),
        (lambda: PAIR((X, X[:2]), torch.ones(6, 2).to_sparse_csr()), "the transposed one"),
        (lambda: PLAIN(X, EdgeIndex(INDEX, sparse_size=(7, 7))), "sparse size"),
        (lambda: PLAIN(X[None], INDEX), r"expected \(N, F\)"),
        (lambda: PLAIN((X, None), INDEX), "x_target"),
    ],
    ids=range(15),
)
def test_bad_inputs(call: Callable[[], object], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        call()


def test_repr() -> None:
    for layer, expected in (
        (GatedWalkConv(8, 16, 3, "add"), "GatedWalkConv(8, 16, order=3, combine='add')"),
        (GraphKernelConv(8, 9), "GraphKernelConv(8, 9, order=2, combine='add', gated=False)"),
        (WLKernelConv(8, gated=True), "WLKernelConv(8, order=2, gated=True, relabel='add')"),
    ):
        assert repr(layer) == expected
