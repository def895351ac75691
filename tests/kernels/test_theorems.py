"""Theorems of Lei et al. 2017: a network computes a kernel, evaluated against its weights.

One side of each test is the layers' own code, the other side is the kernels'.
For polynomial activations feature maps are finite. With σ(t) = Σ a_k t^k and K_σ(t) = Σ b_k t^k,
φ_σ(x) = (+) √b_k x^{(x)k} and ψ_σ(w) = (+) (a_k / √b_k) w^{(x)k} give <φ_σ(x), ψ_σ(w)> = σ(<x, w>)
and <φ_σ(x), φ_σ(y)> = K_σ(<x, y>).
"""

import math
from collections.abc import Iterable, Sequence
from functools import reduce
from typing import Any

import pytest
import torch
from torch import Tensor
from torch_geometric.data import Data

from pyg_kernels.kernels import (
    DeepGraphKernel,
    DeepStringKernel,
    GeneralizedRelabeling,
    RandomWalkKernel,
    StringKernel,
    inverse_polynomial,
    polynomial,
)
from pyg_kernels.nn import GraphKernelConv, GraphKernelNet, RandomWalkConv, WLKernelNet
from pyg_kernels.sequence import RCNN
from tests.covering import covering
from tests.graphs import SMILES, molecule
from tests.kernels.cases import both_ways, changed, close_sums, graph_collection, random_data
from tests.kernels.definitions import generalized, incoming
from tests.sequence.rcnn import random_rcnn
from tests.sequence.texts import random_text
from tests.string_kernels import string_features

FEATURES, HIDDEN = 3, 4
BARE: dict[str, Any] = {"act": None, "bias": False}


def references(layers: Iterable[Any]) -> list[Tensor]:
    """The i-th rows of W^(1), ..., W^(n): one reference text or walk for each channel i."""
    return list(torch.stack([lin.weight.detach() for lin in layers], dim=1))


def chains(conv: Any, bonds: bool) -> list[Data]:
    """The directed reference walk of each channel; rows of edge weights are its edge features."""
    first, found = torch.arange(len(conv.lins) - 1), []
    for k, nodes in enumerate(references(conv.lins)):
        found.append(Data(x=nodes, edge_index=torch.stack([first, first + 1])))
        if bonds:
            none = torch.zeros(0, 2, dtype=torch.float64)
            found[-1].edge_attr = references(conv.edge_lins)[k] if len(first) else none
    return found


def walked(name: str) -> tuple[list[Data], dict[str, Any], str | None]:
    """Graphs, the sizes of their features, and the name of their edge features."""
    if name == "molecules":
        graphs = [molecule(smiles) for smiles in SMILES]
        data = [Data(x=g.x, edge_index=g.edge_index, edge_attr=g.edge_attr) for g in graphs]
        return data, {"in_channels": 5, "edge_dim": graphs[0].edge_attr.size(1)}, "edge_attr"
    data = graph_collection() + [both_ways(graph) for graph in graph_collection()]
    if name == "edge features":
        return data, {"in_channels": 3, "edge_dim": 2}, "edge_attr"
    return [changed(graph, edge_attr=None) for graph in data], {"in_channels": 3}, None


ON_GRAPHS = ["nodes", "edge features", "molecules"]


@pytest.mark.parametrize(
    ("order", "decay"), [(1, 0.4), (2, 0.0), (2, 0.9), (3, 0.4), (4, 0.4), (4, 1.0)]
)
def test_theorem_1(order: int, decay: float) -> None:
    """c_j[t][i] is K_j of the first t tokens and the i-th reference, for every j and t.

    Normalised aggregation multiplies this by (1 - λ)^n. Σ_t z_n[t] weights an n-gram by the tokens
    that it skips (thesis, eq. 2.5).
    """
    options = {"order": order, "decay": decay, "seed": order, **BARE}
    rcnn = random_rcnn(FEATURES, HIDDEN, normalize=False, **options)
    x = random_text(7, FEATURES, seed=order)
    outputs, _ = rcnn(x)
    lins = rcnn.cells[0].lins
    kernels = [StringKernel(j, decay) for j in range(1, order + 1)]
    strings = references(lins)
    for i, reference in enumerate(strings):
        close_sums(outputs[:, i], kernels[-1].prefixes(x, reference)[:, -1])
    for t in range(1, len(x) + 1):
        _, (_, c) = rcnn(x[:t])
        for j, kernel in enumerate(kernels, start=1):
            close_sums(c[0, j - 1], kernel([x[:t]], references(lins[:j]))[0])
    if decay < 1:
        normalised = random_rcnn(FEATURES, HIDDEN, normalize=True, **options)(x)[0]
        close_sums(normalised, (1 - decay) ** order * outputs)
    ending = random_rcnn(FEATURES, HIDDEN, normalize=False, readout="z", **options)(x)[0]
    spans = StringKernel(order, decay, weighting="span")
    close_sums(ending.sum(dim=0), spans([x], strings)[0])


@pytest.mark.parametrize("order", [1, 2, 3])
def test_additive_layer_after_many_zero_tokens(order: int) -> None:
    """Table 5(c): the additive, normalised kernel equals the recurrence only in this limit."""
    options = {"order": order, "combine": "add", "decay": 0.5, "normalize": True}
    rcnn = random_rcnn(FEATURES, HIDDEN, **options, **BARE)
    x = random_text(5, FEATURES)
    padded = torch.cat([torch.zeros(60, FEATURES, dtype=x.dtype), x])
    kernel = StringKernel(order, 0.5, combine="add", normalize="weights")
    found = kernel([padded, x], references(rcnn.cells[0].lins))
    output = rcnn(x)[0][-1].detach()
    close_sums(found[0], output)
    if order > 1:
        assert (found[1] - output).abs().max() > 1e-3


class Sigma(torch.nn.Module):
    """An activation Σ a_k t^k, and a kernel K_σ = Σ b_k t^k whose space contains it."""

    def __init__(self, a: Sequence[float], b: Sequence[float]) -> None:
        super().__init__()
        self.a, self.b, self.kernel = a, b, polynomial(b)

    def forward(self, t: Tensor) -> Tensor:
        return sum((a * t**k for k, a in enumerate(self.a)), torch.zeros_like(t))

    def phi(self, x: Tensor) -> Tensor:
        return self._powers(x, [math.sqrt(b) for b in self.b])

    def psi(self, w: Tensor) -> Tensor:
        pairs = zip(self.a, self.b, strict=True)
        return self._powers(w, [a / math.sqrt(b) if b else 0.0 for a, b in pairs])

    def _powers(self, vector: Tensor, coefficients: Sequence[float]) -> Tensor:
        """The direct sum of the tensor powers c_k v^{(x)k}, except those where b_k is 0."""
        parts, power = [], torch.ones(1, dtype=torch.float64)
        for k, (coefficient, b) in enumerate(zip(coefficients, self.b, strict=True)):
            power = torch.kron(power, vector) if k else power
            parts += [coefficient * power] if b else []
        return torch.cat(parts)


SIGMAS = {
    "quadratic": Sigma([0.3, 0.8, -0.5], [0.5, 0.25, 0.125]),
    "no-constant": Sigma([0.0, -0.7, 0.4], [0.0, 0.6, 0.3]),
    "even": Sigma([0.4, 0.0, 0.6], [0.9, 0.0, 0.2]),
    "cubic": Sigma([0.1, 0.6, 0.0, -0.3], [0.5, 0.25, 0.125, 0.0625]),
    "larger-space": Sigma([0.0, 1.0, 0.0], [0.5, 0.25, 0.125]),
}


def deep_string_features(
    x: Tensor, num_layers: int, order: int, decay: float, sigma: Sigma
) -> list[Tensor]:
    """φ^(L) of every prefix, by supplement C."""
    tokens = x
    for _ in range(num_layers):
        found = [string_features(tokens[: t + 1], order, decay) for t in range(len(x))]
        tokens = torch.stack([sigma.phi(f) for f in found])
    return found


def deep_string_references(rcnn: RCNN, sigma: Sigma) -> list[Tensor]:
    """ψ^(L)_{i, n} of every channel i, by supplement C, from the layers' matrices."""
    mixed = torch.eye(rcnn.cells[0].lins[0].weight.size(1), dtype=torch.float64)
    for cell in rcnn.cells:
        rows = torch.stack([lin.weight.detach() @ mixed for lin in cell.lins], dim=1)
        found = [reduce(torch.kron, row) for row in rows]
        mixed = torch.stack([sigma.psi(psi) for psi in found])  # M
    return found


STRING_CASES = [  # activation, features, order, layers, decay
    *((name, 1 if name == "cubic" else 2, 2, 2, 0.6) for name in SIGMAS),
    ("quadratic", 2, 2, 2, 0.0),
    ("quadratic", 1, 3, 2, 0.6),
    ("quadratic", 2, 1, 2, 0.6),
    ("quadratic", 1, 1, 3, 0.6),
]


@pytest.mark.parametrize(("name", "features", "order", "num_layers", "decay"), STRING_CASES)
def test_theorem_2(name: str, features: int, order: int, num_layers: int, decay: float) -> None:
    """c^(L)[t] and h^(L)[t] are inner products in the spaces of K^(L) and K_σ^(L)."""
    sigma = SIGMAS[name]
    options = {"order": order, "normalize": False, "decay": decay, "bias": False}
    rcnn = random_rcnn(features, 2, num_layers, act=sigma, **options)
    x, y = random_text(5, features, seed=1), random_text(4, features, seed=2)
    maps = [deep_string_features(text, num_layers, order, decay, sigma) for text in (x, y)]
    psi = deep_string_references(rcnn, sigma)
    outputs, _ = rcnn(x)
    for t, phi in enumerate(maps[0]):
        _, (h, c) = rcnn(x[: t + 1])
        for i, reference in enumerate(psi):
            state = torch.dot(phi, reference)
            close_sums(c[-1, -1, i], state)
            close_sums(h[-1, i], torch.dot(sigma.phi(phi), sigma.psi(reference)))
            close_sums(outputs[t, i], h[-1, i].detach())

    before = DeepStringKernel(num_layers, order, decay, sigma.kernel)
    after = DeepStringKernel(num_layers, order, decay, sigma.kernel, post=True)
    first, second = map(torch.stack, maps)
    close_sums(before.prefixes(x, y), first @ second.t())
    close_sums(before([x, y])[0, 1], torch.dot(first[-1], second[-1]))
    activated = torch.stack([sigma.phi(f) for f in first]) @ sigma.phi(second[-1])
    close_sums(after.prefixes(x, y)[:, -1], activated)
    close_sums(after([x], [y])[0, 0], activated[-1])


def test_theorem_2_with_the_inverse_polynomial() -> None:
    """1 / (2 - t) = Σ t^k / 2^(k + 1): the limit of polynomial activation kernels."""
    texts = [0.3 * random_text(length, 2, seed=length) for length in (2, 3, 4)]
    series = polynomial([0.5 ** (k + 1) for k in range(60)])
    limit = DeepStringKernel(2, 2, 0.2, inverse_polynomial(normalize=False), post=True)
    assert DeepStringKernel(2, 2, 0.2, series)(texts).max() < 1.2  # then 60 terms are enough
    close_sums(DeepStringKernel(2, 2, 0.2, series, post=True)(texts), limit(texts))


WALKS = covering(
    graphs=ON_GRAPHS, order=[1, 2, 3, 4], decay=[0.0, 0.4, 1.0], non_backtracking=[False, True]
)


@pytest.mark.parametrize("options", WALKS, ids=str)
def test_theorem_3(options: dict[str, Any]) -> None:
    """Σ_v c_n[v][k] is K_W^n of the graph and the directed reference walk of channel k.

    Both sides sum over all walks, or both over those that never turn back.
    """
    options = dict(options)
    data, sizes, edges = walked(options.pop("graphs"))
    torch.manual_seed(options["order"])
    conv = RandomWalkConv(out_channels=HIDDEN, **options, **sizes).double()
    expected = RandomWalkKernel(**options)(data, chains(conv, edges is not None))
    for graph, row in zip(data, expected, strict=True):
        close_sums(conv(graph.x, graph.edge_index, graph.edge_attr).sum(dim=0), row)


def combined(own: Tensor, arrived: Tensor, combine: str) -> Tensor:
    """Combines feature maps: sums of kernels concatenate them, products take tensor products."""
    return torch.cat([own, arrived]) if combine == "add" else torch.kron(own, arrived)


def deep_graph_features(
    graph: Data, num_layers: int, order: int, decay: float, combine: str, sigma: Sigma
) -> list[Tensor]:
    """φ^(L, n)(v) of every node v, by supplement E, with edge features as further factors."""
    posts, bonds = list(graph.x), graph.edge_attr
    bonds = torch.ones(graph.num_edges, 1, dtype=torch.float64) if bonds is None else bonds
    for _ in range(num_layers):
        state = posts
        for _ in range(order - 1):
            activated = [math.sqrt(decay) * sigma.phi(phi) for phi in state]
            arrived = [torch.kron(0 * bonds.new_ones(bonds.size(1)), phi) for phi in activated]
            for v, edges in enumerate(incoming(graph)):
                for u, e in edges:
                    arrived[v] = arrived[v] + torch.kron(bonds[e], activated[u])
            state = [combined(f, a, combine) for f, a in zip(posts, arrived, strict=True)]
        last, posts = state, [sigma.phi(phi) for phi in state]
    return last


def deep_graph_references(
    convs: Sequence[GraphKernelConv], decay: float, combine: str, sigma: Sigma
) -> tuple[list[Tensor], list[Tensor]]:
    """ψ of every channel: for the last layer's c_n, and for U c_n, whose σ is h."""
    mixed = torch.eye(convs[0].lins[0].weight.size(1), dtype=torch.float64)
    for conv in convs:
        first, *others = (lin.weight.detach() @ mixed for lin in conv.lins)
        state, none = list(first), [torch.ones(len(first), 1).double()] * len(others)
        edges = [lin.weight.detach() for lin in conv.edge_lins] or none
        for own, rows in zip(others, edges, strict=True):
            arrived = [math.sqrt(decay) * sigma.psi(psi) for psi in state]
            arrived = [torch.kron(w, a) for w, a in zip(rows, arrived, strict=True)]
            state = [combined(f, a, combine) for f, a in zip(own, arrived, strict=True)]
        mapped = list(conv.lin.weight.detach() @ torch.stack(state))
        mixed = torch.stack([sigma.psi(psi) for psi in mapped]) if conv is not convs[-1] else mixed
    return state, mapped


GRAPH_CASES = [  # activation, combine, order, layers, edge features
    ("quadratic", "add", 2, 2, None),
    ("quadratic", "add", 2, 2, 1),
    ("no-constant", "mul", 2, 2, None),
    ("even", "mul", 2, 2, 1),
    ("quadratic", "mul", 2, 1, 2),
    ("quadratic", "add", 2, 1, 2),
    ("quadratic", "add", 3, 1, None),
    ("no-constant", "mul", 3, 1, None),
    ("cubic", "add", 3, 1, 1),
    ("quadratic", "mul", 1, 2, None),
]


def small_graphs(edge_dim: int | None) -> list[Data]:
    """Graphs with one feature per node, loops, parallel edges, and nodes where no walk ends."""
    graphs = [
        random_data(0, 4, [(0, 1), (1, 0), (1, 2), (1, 2), (2, 2)], 1),
        random_data(1, 3, [(0, 1), (1, 2)], 1),
        random_data(2, 1, [], 1),
    ]
    for graph in graphs:
        graph.edge_attr = None if edge_dim is None else graph.edge_attr[:, :edge_dim]
    return graphs


@pytest.mark.parametrize(("name", "combine", "order", "num_layers", "edge_dim"), GRAPH_CASES)
def test_theorem_4(
    name: str, combine: str, order: int, num_layers: int, edge_dim: int | None
) -> None:
    """c_n^(L)[v], h^(L)[v] and Σ_v h^(L)[v] are inner products in the deep kernel's spaces."""
    sigma, decay = SIGMAS[name], 0.6
    torch.manual_seed(0)
    options = {"order": order, "decay": decay, "combine": combine, "edge_dim": edge_dim}
    net = GraphKernelNet(1, 2, 1, num_layers, act=sigma, norm=None, **options).double()
    net.head = torch.nn.Identity()
    reference, mapped = deep_graph_references(net.convs, decay, combine, sigma)
    sums = []
    graphs = small_graphs(edge_dim)
    for graph in graphs:
        phis = deep_graph_features(graph, num_layers, order, decay, combine, sigma)
        inputs = (graph.edge_index, graph.edge_attr)
        h = graph.x
        for conv in net.convs[:-1]:
            h = conv(h, *inputs)
        states, outputs = net.convs[-1].walk(h, *inputs), net.convs[-1](h, *inputs)
        posts = [sigma.phi(phi) for phi in phis]
        sums.append(sum(posts))
        for i in range(2):
            psi = sigma.psi(mapped[i])
            close_sums(states[:, i], torch.stack([phi @ reference[i] for phi in phis]))
            close_sums(outputs[:, i], torch.stack([post @ psi for post in posts]))
            whole = net(graph.x, inputs[0], edge_attr=inputs[1])[0, i]
            close_sums(whole, torch.dot(sums[-1], psi))

    edges = None if edge_dim is None else "edge_attr"
    kernel = DeepGraphKernel(num_layers, order, decay, combine, sigma.kernel, edge_feature=edges)
    maps = torch.stack(sums)
    close_sums(kernel(graphs), maps @ maps.t())


WL_NETS = covering(
    graphs=ON_GRAPHS, tie_weights=["all", "relabel", None], order=[1, 2, 3], relabel=["add", "mul"]
)


@pytest.mark.parametrize("options", WL_NETS, ids=str)
def test_proposition_2(options: dict[str, Any]) -> None:
    """Channel k before the head is Σ_i K_W^n(r^i(G), chain of the k-th rows of layer i + 1).

    The r^i are those of eq. 11 by its definition, with which test_definitions.py compares WLKernel.
    """
    options = dict(options)
    data, sizes, edges = walked(options.pop("graphs"))
    torch.manual_seed(0)
    options |= {"hidden_channels": HIDDEN, "out_channels": 1, "num_iterations": 3, **sizes}
    net = WLKernelNet(**options, gated=False, decay=0.4, norm=None).double()
    net.head = torch.nn.Identity()
    kernel = RandomWalkKernel(options["order"], 0.4)
    labelled = [graph.clone() for graph in data]
    for graph in labelled:
        graph.x = net.embedding(graph.x).detach()
    expected = torch.zeros(len(data), HIDDEN, dtype=torch.float64)
    for layer, conv in enumerate(net.convs):
        if layer > 0:
            maps = net.convs[layer - 1].relabeling
            own, aggregated = maps.lin_self.weight, maps.lin_aggregated.weight
            parts = [lin.weight for lin in (maps.lin_neighbor, maps.lin_edge) if lin is not None]
            relabel = [m.detach() for m in (own, aggregated, torch.cat(parts, 1))]  # U_1, U_2, V
            step = GeneralizedRelabeling(*relabel, "relu", options["relabel"], edges)
            labelled = [generalized(graph, step) for graph in labelled]
        expected += kernel(labelled, chains(conv, edges is not None))
    for graph, row in zip(data, expected, strict=True):
        close_sums(net(graph.x, graph.edge_index, edge_attr=graph.edge_attr)[0], row)
