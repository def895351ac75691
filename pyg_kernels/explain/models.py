"""What walks, nodes and edges add to the output of a whole kernel network."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import NamedTuple, cast

import torch
from torch import Tensor
from torch.nn import Module
from torch_geometric.nn import global_add_pool

from pyg_kernels.checks import checked_count
from pyg_kernels.explain.arguments import (
    as_stored,
    checked_features,
    checked_finite,
    checked_output,
    checked_place,
)
from pyg_kernels.explain.linearized import LinearizedChain, Stage, stages_of
from pyg_kernels.explain.search import Walk, best_walks
from pyg_kernels.explain.walk_sum import GraphWalks, side_by_side
from pyg_kernels.explain.walks import WalkLayer, edges_of, walk_of, walk_sum
from pyg_kernels.nn.arguments import checked_batch
from pyg_kernels.nn.conv import GatedWalkConv, GraphKernelConv, RandomWalkConv, WLKernelConv
from pyg_kernels.nn.models import GraphKernelNet, RandomWalkNet, WLKernelNet
from pyg_kernels.nn.models.wl_kernel_net import iterations
from pyg_kernels.ops.edges import Edges
from pyg_kernels.propagation.graph import EdgeSource


@dataclass(frozen=True, eq=False)
class ModelContributions:
    """What each part of a graph adds to an output of a network.

    Attributes:
        nodes: The share of each node, :obj:`(N,)`; they add up to :obj:`total`.
        edges: The share of each edge, :obj:`(E,)`, in the order of the given index, or of a sparse
            adjacency's entries; they add up to :obj:`total` minus :obj:`single_nodes`.
        walks: The k best walks by absolute value: the nodes, first to last, and the value.
        total: What the graph's walks add to the output.
        remainder: The constant that biases and normalisations add.
        output: The output, the sum of :obj:`total` and :obj:`remainder`.
        single_nodes: The part of :obj:`total` that walks of one node add. They have no edge.
    """

    nodes: Tensor
    edges: Tensor
    walks: list[Walk]
    total: Tensor
    remainder: Tensor
    output: Tensor
    single_nodes: Tensor


class Graphs(NamedTuple):
    """The inputs of a network, named as its arguments."""

    x: Tensor
    edge_index: EdgeSource
    edge_attr: Tensor | None = None
    batch: Tensor | None = None
    batch_size: int | None = None
    edge_weight: Tensor | None = None


@torch.no_grad()
def model_contributions(
    model: RandomWalkNet | GraphKernelNet | WLKernelNet,
    x: Tensor,
    edge_index: EdgeSource,
    edge_attr: Tensor | None = None,
    target: int = 0,
    k: int = 10,
    *,
    edge_weight: Tensor | None = None,
) -> ModelContributions:
    r"""Shares out an output of a network for one graph over nodes, edges and walks, exactly.

    The layers are sums over walks (:func:`walk_contributions`). All that follows the graph vector
    :math:`h_G` is linearized at the input, so that :math:`y = \langle \theta, h_G \rangle + b`.
    The network runs in evaluation mode: batch normalisation by running statistics, no dropout.

    A walk passes through the states that its layer reads. In a
    :class:`~pyg_kernels.nn.RandomWalkNet` these are the features of the nodes. In a
    :class:`~pyg_kernels.nn.WLKernelNet` they are the labels of each iteration, in which a node
    stands for its neighbourhood. The value of a walk, node or edge is then a sum over the
    iterations that are read out. In a :class:`~pyg_kernels.nn.GraphKernelNet` they are the states
    that its last layer reads.

    Args:
        model: The network. Activations after the walks must be piecewise linear, and only batch
            normalisation is supported. The labels of a ``WLKernelNet`` are not restricted.
        x: Node features, :obj:`(N, F)`.
        edge_index: The edges, in any form that the model takes.
        edge_attr: Edge features, if the model takes them.
        target: The index of the output to explain.
        k: How many walks to find, as in :func:`walk_contributions`.
        edge_weight: The number that multiplies every message along an edge, :obj:`(E,)`.

    Raises:
        ValueError: For a model with an unsupported layer, activation or normalisation, which the
            message names; a target that does not exist; and as :func:`walk_contributions`.

    Example:
        >>> import torch
        >>> from pyg_kernels.explain import model_contributions
        >>> from pyg_kernels.nn import RandomWalkNet
        >>> x, edge_index = torch.randn(3, 5), torch.tensor([[0, 1, 1, 2], [1, 0, 2, 1]])
        >>> net = RandomWalkNet(5, 16, 1, act="relu").eval()
        >>> found = model_contributions(net, x, edge_index)
        >>> found.nodes.shape, found.edges.shape
        (torch.Size([3]), torch.Size([4]))
        >>> torch.allclose(found.nodes.sum() + found.remainder, net(x, edge_index), atol=1e-4)
        True
    """
    k = checked_count(k, "k", 0)

    def of_target(outputs: Tensor) -> Tensor:
        place = checked_place(target, outputs.size(1), "target", "outputs")
        weights = torch.zeros_like(outputs)
        weights[:, place] = 1.0
        return weights

    graphs = Graphs(x, edge_index, edge_attr, edge_weight=edge_weight)
    return contributions_to(model, graphs, of_target, k)


@contextmanager
def evaluating(model: Module) -> Iterator[None]:
    """Puts all modules into evaluation mode, and restores their modes afterwards."""
    training = [module for module in model.modules() if module.training]
    model.eval()
    try:
        yield
    finally:
        for module in training:
            module.training = True


@torch.no_grad()
def contributions_to(
    model: Module, graphs: Graphs, weigh: Callable[[Tensor], Tensor], k: int
) -> ModelContributions:
    """The attribution of a weighted sum of a network's outputs.

    Args:
        model: The network.
        graphs: One graph, or several with ``batch``.
        weigh: Maps the outputs to their weights, both :obj:`(B, out)`.
        k: How many walks to find.
    """
    with evaluating(model), as_stored(graphs.x):
        reading = _read(model, graphs)
        head = LinearizedChain(reading.stages, reading.pooled)
        others = graphs._asdict()
        given = others.pop("x"), others.pop("edge_index")
        checked_output(head.output, model(*given, **others))
        weights = weigh(head.output)
        theta, constants = head.pull_back(weights)
        constant = constants.sum()
        count, sums = len(reading.layers), []
        parts = theta.chunk(count, dim=1) if reading.concat else [theta] * count
        for of_graphs, layer in zip(parts, reading.layers, strict=True):
            ends = _on_nodes(of_graphs, graphs)
            if layer.after is not None:
                ends, more = layer.after.pull_back(ends)
                constant = constant + more.sum()
            sums.append(walk_sum(layer.walk, layer.x, reading.edges, ends))
    walks = side_by_side(sums)
    total, output = checked_finite(walks.total()), (weights * head.output).sum()
    nodes = walks.nodes()
    size = nodes.abs().sum() + constant.abs()  # parts may cancel
    checked_output(torch.stack([total, size]), torch.stack([output - constant, size]))
    best = best_walks(GraphWalks(walks), k)
    edges, single = walks.edges(), walks.single_nodes()
    return ModelContributions(nodes, edges, best, total, constant, output, single)


class _Layer(NamedTuple):
    """A walk of a network: what it reads, and what follows it on each node."""

    walk: WalkLayer
    x: Tensor
    after: LinearizedChain | None = None


class _Reading(NamedTuple):
    """A network's pass over graphs, up to the graph vectors.

    Attributes:
        layers: The walks that are read out, and what they read.
        edges: The edges.
        pooled: The graph vectors, :obj:`(B, H)`.
        stages: The stages that follow the graph vectors.
        concat: Whether each layer has its own channels of the graph vector.
    """

    layers: Sequence[_Layer]
    edges: Edges
    pooled: Tensor
    stages: list[Stage]
    concat: bool = False


def _read(model: Module, graphs: Graphs) -> _Reading:
    if isinstance(model, RandomWalkNet):
        _check_layers(model, (RandomWalkConv, GatedWalkConv))
        return _read_random_walk_net(model, graphs)
    if isinstance(model, GraphKernelNet):
        _check_layers(model, (GraphKernelConv,))
        return _read_graph_kernel_net(model, graphs)
    if isinstance(model, WLKernelNet):
        _check_layers(model, (WLKernelConv,))
        return _read_wl_kernel_net(model, graphs)
    raise ValueError(
        f"model is a {type(model).__name__}: expected a RandomWalkNet, a GraphKernelNet or a "
        "WLKernelNet; layers alone are explained by walk_contributions"
    )


def _read_random_walk_net(model: RandomWalkNet, graphs: Graphs) -> _Reading:
    conv = walk_of(model.convs[0])
    checked_features(graphs.x, conv.lins[0])
    edges = _edges(conv, graphs)
    pooled = _pooled(conv(graphs.x, edges), graphs)
    stages = [("norm", model.norm), ("act", model.act), *stages_of("head", model.head)]
    return _Reading([_Layer(conv, graphs.x)], edges, pooled, stages)


def _read_graph_kernel_net(model: GraphKernelNet, graphs: Graphs) -> _Reading:
    *before, last = cast("list[GraphKernelConv]", list(model.convs))
    checked_features(graphs.x, (*before, last)[0].walk.lins[0])
    edges = _edges(last.walk, graphs)
    x = graphs.x
    for conv in before:
        x = conv(x, edges)
    name = f"convs.{len(before)}"
    stages: list[Stage] = [
        (f"{name}.lin", last.lin),
        (f"{name}.norm", last.norm),
        (f"{name}.walk.act", last.walk.act),
    ]
    after = LinearizedChain(stages, last.walk(x, edges))
    layer = _Layer(last.walk, x, after)
    return _Reading([layer], edges, _pooled(after.output, graphs), stages_of("head", model.head))


def _read_wl_kernel_net(model: WLKernelNet, graphs: Graphs) -> _Reading:
    checked_features(graphs.x, model.embedding)
    convs = cast("list[WLKernelConv]", list(model.convs))
    edges = _edges(convs[0].walk, graphs)
    model.share()
    layers, pooled = [], []
    passes = iterations(convs, model.embedding(graphs.x), edges)
    for conv, (label, state) in zip(convs, passes, strict=True):
        layers.append(_Layer(conv.walk, label))
        pooled.append(_pooled(state, graphs))
    stages = stages_of("head", model.head)
    if model.readout == "last":
        return _Reading(layers[-1:], edges, pooled[-1], stages)
    if model.readout == "concat":
        return _Reading(layers, edges, torch.cat(pooled, 1), stages, concat=True)
    return _Reading(layers, edges, torch.stack(pooled).sum(0), stages)


def _edges(conv: WalkLayer, graphs: Graphs) -> Edges:
    edges = edges_of(conv, graphs.x, graphs.edge_index, graphs.edge_attr, graphs.edge_weight)
    checked_batch(graphs.batch, graphs.x.size(0), graphs.batch_size)
    return edges


def _pooled(states: Tensor, graphs: Graphs) -> Tensor:
    return global_add_pool(states, graphs.batch, graphs.batch_size)


def _on_nodes(of_graphs: Tensor, graphs: Graphs) -> Tensor:
    """For each node, the row of its graph."""
    if graphs.batch is None:
        return of_graphs.expand(graphs.x.size(0), -1)
    return of_graphs.index_select(0, graphs.batch)


def _check_layers(model: Module, kinds: tuple[type[Module], ...]) -> None:
    for name, layer in model.convs.named_children():  # type: ignore[union-attr]
        if not isinstance(layer, kinds):
            raise ValueError(
                f"model has {type(layer).__name__} (convs.{name}), which is not a sum over walks: "
                f"expected {kinds[0].__name__}"
            )
