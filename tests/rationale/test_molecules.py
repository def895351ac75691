"""Graphs: the encoder sees the subgraph that selected atoms induce, and coherence is over bonds."""

import copy
from typing import Any

import pytest
import torch
from torch_geometric.utils import subgraph

from pyg_kernels.nn import WLKernelNet
from pyg_kernels.rationale import Generator, Rationalizer, WLStates
from tests import promises
from tests.graphs import SMILES, Graph, batch_of, molecule, random_graph
from tests.rationale.cases import assert_finite_gradients, randomized
from tests.sequence.texts import close


def model(in_channels: int, edge_dim: int | None, seed: int = 0, **options: Any) -> Rationalizer:
    generator = Generator(WLStates(in_channels, 5, num_iterations=2, edge_dim=edge_dim), 5)
    encoder = WLKernelNet(in_channels, 5, 2, num_iterations=2, edge_dim=edge_dim, norm=None)
    found = Rationalizer(generator, encoder, **{"sparsity": 0.05, "coherence": 0.03, **options})
    return randomized(found, seed, scale=0.4)


EMPTY = Graph(torch.zeros(0, 4).double(), torch.zeros(2, 0).long(), torch.zeros(0, 3).double())


def molecules() -> list[Graph]:
    return [molecule(smiles) for smiles in SMILES]


def awkward() -> list[Graph]:
    """Directed graphs with self-loops, parallel edges, isolated nodes, and graphs without atoms."""
    return [EMPTY, random_graph(0), random_graph(1, 2, 3), random_graph(2, 8, 20), EMPTY]


def union(graphs: list[Graph]) -> dict[str, Any]:
    """The graphs side by side, in the form that a rationalizer takes."""
    whole = batch_of(graphs)
    given = {name: whole[name] for name in ("x", "edge_index", "edge_attr", "batch")}
    return {**given, "batch_size": len(graphs)}


def bonds(graph: Graph) -> set[tuple[int, int]]:
    pairs = {(min(u, v), max(u, v)) for u, v in graph.edge_index.t().tolist()}
    return {(u, v) for u, v in pairs if u != v}


@pytest.mark.parametrize("build", [molecules, awkward], ids=["molecules", "awkward"])
@pytest.mark.parametrize("training", [True, False], ids=["training", "evaluation"])
def test_induced_subgraphs(build: Any, training: bool) -> None:
    """Equals the encoder on each induced subgraph, as PyG cuts it, by itself."""
    graphs = build()
    given, sizes = union(graphs), [graph.num_nodes for graph in graphs]
    rationalizer = model(given["x"].size(1), given["edge_attr"].size(1), num_samples=3)
    rationalizer.train(training)
    torch.manual_seed(1)
    found = rationalizer(**given)
    samples, count = (3 if training else 1), len(graphs)
    assert found.output.shape == (samples * count, 2)
    outputs = found.output.view(samples, count, 2)
    for s in range(samples):
        parts = found.selection[s].split(sizes)
        for b, (graph, z) in enumerate(zip(graphs, parts, strict=True)):
            index, attr = subgraph(
                z, graph.edge_index, graph.edge_attr, relabel_nodes=True, num_nodes=graph.num_nodes
            )
            expected = rationalizer.encoder(graph.x[z], index, edge_attr=attr)
            close(outputs[s, b], expected[0])
            assert found.size[s, b] == z.sum()
            assert found.transitions[s, b] == sum(bool(z[u] != z[v]) for u, v in bonds(graph))
    edges = {name: given[name] for name in ("x", "edge_index", "edge_attr")}
    log_prob = rationalizer.generator(**edges).log_prob(found.selection)
    sums = [part.sum(dim=1) for part in log_prob.split(sizes, dim=1)]
    close(found.log_prob, torch.stack(sums, dim=1))
    assert_finite_gradients(rationalizer, found)
    assert not training or all(p.grad is not None for p in rationalizer.parameters())


def test_unselected_atoms_leave_no_trace() -> None:
    given, rationalizer = union(awkward()), model(4, 3)
    z = torch.rand(len(given["x"]), generator=torch.Generator().manual_seed(0)) < 0.5
    found = rationalizer.encode(z, **given)
    source, target = given["edge_index"]
    for name, kept in (("x", z), ("edge_attr", z[source] & z[target])):
        given[name] = torch.where(kept.unsqueeze(1), given[name], float("nan"))
    assert torch.equal(found, rationalizer.encode(z, **given))


def test_graphs_without_edge_features() -> None:
    given, rationalizer = union(awkward()), model(4, None)
    z = torch.arange(len(given["x"])) % 3 > 0
    index, given["edge_attr"] = subgraph(z, given["edge_index"], relabel_nodes=True)
    batch = {"batch": given["batch"][z], "batch_size": given["batch_size"]}
    close(rationalizer.encode(z, **given), rationalizer.encoder(given["x"][z], index, **batch))


@pytest.mark.parametrize("norm", [None, "batch", "head"])
@pytest.mark.parametrize("training", [True, False], ids=["training", "evaluation"])
def test_nothing_selected(norm: Any, training: bool) -> None:
    """If no atom is selected, each graph's output is that of a graph without atoms."""
    given = union(molecules())
    edge_dim = given["edge_attr"].size(1)
    encoder = WLKernelNet(5, 4, 2, edge_dim=edge_dim, norm=norm).double()
    rationalizer = Rationalizer(Generator(WLStates(5, 4, edge_dim=edge_dim), 4), encoder, 0.1)
    rationalizer = rationalizer.double().train(training)
    found = rationalizer.encode(torch.zeros(len(given["x"])), **given)
    assert found.shape == (len(SMILES), 2) and found.isfinite().all()
    assert (found == found[0]).all()


@pytest.mark.parametrize("num_graphs", [0, 3])
def test_no_atoms(num_graphs: int) -> None:
    rationalizer, none = model(4, 3, num_samples=2), torch.zeros(0).long()
    found = rationalizer(**vars(EMPTY), batch=none, batch_size=num_graphs)
    assert found.output.shape == (2 * num_graphs, 2)
    assert found.size.shape == found.transitions.shape == (2, num_graphs)
    assert_finite_gradients(rationalizer, found)


# Node states for generators: the terms whose sum is the network's graph vector

OPTIONS: dict[str, dict[str, Any]] = {
    "default": {},
    "gated": {"order": 3, "num_iterations": 2, "norm": None},
    "plain": {"gated": False, "decay": "learned", "relabel": "mul", "act": "tanh"},
    "one": {"num_iterations": 1, "norm": None, "gated": False, "decay": 0.3},
}
of_every = pytest.mark.parametrize("options", OPTIONS.values(), ids=OPTIONS)


def build(with_attr: bool, **options: Any) -> WLStates:
    return randomized(WLStates(4, 5, edge_dim=3 if with_attr else None, **options), scale=0.4)


@of_every
def test_sums_to_the_graph_vector(options: dict[str, Any]) -> None:
    """Without norm, the sum over a graph's nodes is what WLKernelNet's head reads."""
    given = {**options, "norm": None}
    of_net = {"num_iterations": 3, "tie_weights": None, **given}
    for with_attr in (False, True):
        layer = build(with_attr, **given)
        net = WLKernelNet(4, 5, 1, edge_dim=layer.edge_dim, **of_net).double()
        net.embedding, net.convs = copy.deepcopy(layer.embedding), copy.deepcopy(layer.convs)
        seen = []
        net.head.register_forward_pre_hook(lambda module, inputs, seen=seen: seen.append(inputs[0]))
        graph = random_graph(0)
        attr = graph.edge_attr if with_attr else None
        net(graph.x, graph.edge_index, edge_attr=attr)
        states = layer(graph.x, graph.edge_index, attr)
        assert states.shape == (6, 5)
        close(states.sum(dim=0, keepdim=True), seen[0])


@pytest.mark.parametrize(
    ("name", "with_attr"),
    [("default", True), ("gated", False), ("plain", True), ("plain", False), ("one", True)],
)
def test_promises(name: str, with_attr: bool) -> None:
    layer = build(with_attr, **OPTIONS[name])
    promises.assert_permutation_equivariant(layer, random_graph(0), with_attr)
    promises.assert_batch_invariant(layer, [random_graph(s, 3 + s, 4) for s in range(3)], with_attr)
    promises.assert_handles_degenerate_graphs(layer, 4, 3, with_attr)


def test_norms_and_dropout() -> None:
    torch.manual_seed(0)
    graph = random_graph(0)
    for norm, dim in (("layer", 1), ("batch", 0)):
        means = WLStates(4, 8, norm=norm).double()(graph.x, graph.edge_index).mean(dim)
        close(means, torch.zeros_like(means), atol=1e-10)
    layer = WLStates(-1, 20, dropout=0.5).double()
    assert not torch.equal(layer(graph.x, graph.edge_index), layer(graph.x, graph.edge_index))
    layer.eval()
    assert torch.equal(layer(graph.x, graph.edge_index), layer(graph.x, graph.edge_index))
