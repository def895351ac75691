"""Every exact kernel by brute force, in float64: n-grams, walks and patterns one by one.

:func:`defined` reads the arguments of a kernel and evaluates its formula, pair by pair. Nothing
here is the package's own code.
"""

import math
from collections import Counter
from collections.abc import Callable, Sequence
from functools import cache
from itertools import accumulate, product
from math import inf, prod
from typing import Any

import networkx as nx
import torch
from sklearn.base import clone
from torch import Tensor
from torch_geometric.data import Data
from torch_geometric.utils import to_networkx

from pyg_kernels.kernels import (
    CountKernel,
    DeepGraphKernel,
    DeepStringKernel,
    DiscreteRelabeling,
    GatedSequenceKernel,
    GeneralizedRelabeling,
    LabelSequenceKernel,
    RandomWalkKernel,
    ShortestPathKernel,
    StringKernel,
    WLKernel,
    WLSubtreeKernel,
)
from pyg_kernels.kernels.activations import ArcCosine, InversePolynomial, Polynomial
from tests.string_kernels import Table, enumerated, ngrams, similarities, weight
from tests.walk_kernels import walks


def defined(kernel: Any, xs: Sequence[Any], ys: Sequence[Any] | None = None) -> Tensor:
    """The Gram matrix, (n, m), with 0 where a normalisation would divide by 0."""
    ys = xs if ys is None else ys
    found = unnormalized(kernel, xs, ys)
    if kernel.normalize == "weights":
        return found * torch.outer(*(_inverse_weights(kernel, part) for part in (xs, ys)))
    if not kernel.normalize:
        return found
    if ys is xs:
        return cosine(found, found.diagonal(), found.diagonal())
    return cosine(found, *(unnormalized(kernel, part, part).diagonal() for part in (xs, ys)))


def cosine(values: Tensor, rows: Tensor, columns: Tensor) -> Tensor:
    """K(x, y) / sqrt(K(x, x) K(y, y)), or 0 where the root is 0."""
    root = torch.outer(rows, columns).sqrt()
    return torch.where(root > 0, values / root.where(root > 0, 1.0), 0.0)


def unnormalized(kernel: Any, xs: Sequence[Any], ys: Sequence[Any]) -> Tensor:
    if isinstance(kernel, WLKernel):
        return _relabelled(kernel, xs, ys)
    if isinstance(kernel, CountKernel):
        counts = [[counted(kernel, graph) for graph in part] for part in (xs, ys)]
        rows = [[compared(kernel.compare, x, y) for y in counts[1]] for x in counts[0]]
        return torch.tensor(rows, dtype=torch.float64).reshape(len(xs), len(ys))
    found = torch.zeros(len(xs), len(ys), dtype=torch.float64)
    for (i, x), (j, y) in product(enumerate(xs), enumerate(ys)):
        mirrored = ys is xs and j < i
        found[i, j] = found[j, i] if mirrored else VALUES[type(kernel)](kernel, x, y)
    return found


# Activations -------------------------------------------------------------------------------------


def activated(activation: Any, k_xy: float, k_xx: float, k_yy: float) -> float:
    """The kernel of an activation; where a diagonal is 0, t and arc-cosine kernels are 0."""
    known = k_xx > 0 and k_yy > 0
    t = max(-1.0, min(1.0, k_xy / math.sqrt(k_xx * k_yy))) if known else 0.0
    if activation is None or isinstance(activation, InversePolynomial):
        return 1 / (2 - (t if activation is None or activation.normalize else k_xy))
    if isinstance(activation, Polynomial):
        return sum(b * k_xy**k for k, b in enumerate(activation.coefficients))
    assert isinstance(activation, ArcCosine)
    if not known:
        return 0.0
    angle = math.acos(t)
    if activation.degree == 0:
        return 1 - angle / math.pi
    j = math.sin(angle) + (math.pi - angle) * t
    return math.sqrt(k_xx * k_yy) * j / math.pi


# Texts -------------------------------------------------------------------------------------------


def _inverse_weights(kernel: StringKernel, texts: Sequence[Any]) -> Tensor:
    """1 / Z' of Lei et al. 2017, table 5: Z' is the sum of the weights of all n-grams of a text."""
    options = kernel.decay, kernel.weighting
    totals = [sum(weight(n, len(x), *options) for n in ngrams(len(x), kernel.order)) for x in texts]
    return torch.tensor([1 / total if total else 0.0 for total in totals], dtype=torch.float64)


def _string(kernel: StringKernel, x: Any, y: Any) -> float:
    """Every n-gram of one text with every n-gram of the other."""
    options = kernel.order, kernel.decay, kernel.combine, kernel.weighting
    return enumerated(similarities(x, y), len(y), *options)


def _deep_string(kernel: DeepStringKernel, x: Any, y: Any) -> float:
    """The recursion of theorem 2 over prefixes; 0 if a text has no tokens."""
    if not len(x) or not len(y):
        return 0.0
    texts = [x, y]
    bases = {(a, b): similarities(texts[a], texts[b]) for a, b in product((0, 1), repeat=2)}

    @cache
    def before(a: int, s: int, b: int, t: int, layer: int) -> float:
        """The kernel of the first s tokens of text a and the first t tokens of text b."""
        table = [[after(a, i + 1, b, k + 1, layer - 1) for k in range(t)] for i in range(s)]
        return enumerated(table, t, kernel.order, kernel.decay)

    @cache
    def after(a: int, s: int, b: int, t: int, layer: int) -> float:
        if layer == 0:
            return bases[a, b][s - 1][t - 1]
        pairs = ((a, s, b, t), (a, s, a, s), (b, t, b, t))
        return activated(kernel.activation, *(before(*pair, layer) for pair in pairs))

    last = after if kernel.post else before
    return last(0, len(x), 1, len(y), kernel.num_layers)


def _gated(kernel: GatedSequenceKernel, x: Any, y: Any) -> float:
    """Lei 2017 (thesis), section 2.4.4, from the last tokens backwards; 0 if a text is empty."""
    if not len(x) or not len(y):
        return 0.0
    ends = x[-1:], y[-1:]
    match, x_x, y_y = (similarities(*pair)[0][0] for pair in (ends, ends[:1] * 2, ends[1:] * 2))
    return activated(kernel.activation, match, x_x, y_y) * _gated(kernel, x[:-1], y[:-1]) + match


# Walks -------------------------------------------------------------------------------------------


def base_kernels(kernel: Any, first: Data, second: Data) -> list[Table]:
    """The base kernels of all pairs of nodes, and of all pairs of edges."""
    return [base_kernel(kernel, of, first, second) for of in ("node", "edge")]


def base_kernel(kernel: Any, of: str, first: Data, second: Data) -> Table:
    """Inner products where all labels are equal, and 0 elsewhere."""
    sizes = [graph.num_nodes if of == "node" else graph.num_edges for graph in (first, second)]
    labels, features = (listed(getattr(kernel, f"{of}_{role}")) for role in ("label", "feature"))
    known = [name for name in features if name in first]
    vectors = [n for n in known if isinstance(first[n], Tensor) and first[n].is_floating_point()]
    labels += [name for name in known if name not in vectors]
    alike = similarities(
        *(spelled(g, labels, k) for g, k in zip((first, second), sizes, strict=True))
    )
    tables = [similarities(first[name], second[name]) for name in vectors]
    return [
        [equal * (sum(t[i][k] for t in tables) if tables else 1) for k, equal in enumerate(row)]
        for i, row in enumerate(alike)
    ]


def _walk(kernel: RandomWalkKernel, first: Data, second: Data) -> float:
    """Lei et al. 2017, eq. 5, with edge features: pairs of walks, one by one."""
    if kernel.order is None:
        base, along = product_graph(kernel, first, second)
        system = torch.eye(len(base)) - kernel.decay * along
        return torch.linalg.solve(system, base).sum().item()
    nodes, edges = base_kernels(kernel, first, second)
    total = 0.0
    for order in range(1 if kernel.sum_orders else kernel.order, kernel.order + 1):
        own, others = (
            walks(g.edge_index, g.num_nodes, order, kernel.non_backtracking)
            for g in (first, second)
        )
        for (path, steps), (other_path, other_steps) in product(own, others):
            value = prod(nodes[v][w] for v, w in zip(path, other_path, strict=True))
            value *= prod(edges[e][d] for e, d in zip(steps, other_steps, strict=True))
            total += kernel.decay ** (order - 1) * value
    return total


def product_graph(kernel: RandomWalkKernel, first: Data, second: Data) -> tuple[Tensor, Tensor]:
    """The labelled direct product graph: the features of its nodes, and its weighted adjacency."""
    nodes, edges = base_kernels(kernel, first, second)
    size = (first.num_nodes, second.num_nodes)
    base = torch.tensor(nodes, dtype=torch.float64).reshape(size)
    along = torch.zeros(*size, *size, dtype=torch.float64)
    for e, (u, v) in enumerate(first.edge_index.t().tolist()):
        for d, (s, t) in enumerate(second.edge_index.t().tolist()):
            along[v, t, u, s] += edges[e][d]
    return base.flatten(), (base[:, :, None, None] * along).reshape(base.numel(), base.numel())


def incoming(graph: Data) -> list[list[tuple[int, int]]]:
    """For each node, the edges that end there, as pairs of their source and number."""
    found: list[list[tuple[int, int]]] = [[] for _ in range(graph.num_nodes)]
    for edge, (source, target) in enumerate(graph.edge_index.t().tolist()):
        found[target].append((source, edge))
    return found


def _deep_graph(kernel: DeepGraphKernel, first: Data, second: Data) -> float:
    """Lei et al. 2017, section 3.3 and supplement E: the sum of the local kernels K_σ^(L, n).

    K_σ^(0) = <f, f'>; K^(l, 1) = K_σ^(l - 1);
    K^(l, j)(v, v') = K_σ^(l - 1)(v, v') o λ Σ_u Σ_u' <e, e'> K_σ^(l, j - 1)(u, u'). With
    ``empty_walks='zero'`` it is 0 where no walk of j nodes ends in v, or in v'.
    """
    graphs = (first, second)
    arriving = [incoming(graph) for graph in graphs]

    @cache
    def ends(a: int, step: int) -> set[int]:
        """The nodes in which a walk of `step` nodes ends."""
        return {path[-1] for path, _ in walks(graphs[a].edge_index, graphs[a].num_nodes, step)}

    bases = {(a, b): base_kernels(kernel, graphs[a], graphs[b]) for a in (0, 1) for b in (0, 1)}

    @cache
    def before(a: int, v: int, b: int, w: int, layer: int, step: int) -> float:
        if kernel.empty_walks == "zero" and not (v in ends(a, step) and w in ends(b, step)):
            return 0.0
        own = after(a, v, b, w, layer - 1, kernel.order)
        if step == 1:
            return own
        total = 0.0
        for (u, e), (s, d) in product(arriving[a][v], arriving[b][w]):
            total += bases[a, b][1][e][d] * after(a, u, b, s, layer, step - 1)
        return own * kernel.decay * total if kernel.combine == "mul" else own + kernel.decay * total

    @cache
    def after(a: int, v: int, b: int, w: int, layer: int, step: int) -> float:
        if layer == 0:
            return bases[a, b][0][v][w]
        nodes = ((a, v, b, w), (a, v, a, v), (b, w, b, w))
        return activated(kernel.activation, *(before(*pair, layer, step) for pair in nodes))

    pairs = product(range(first.num_nodes), range(second.num_nodes))
    return sum(after(0, v, 1, w, kernel.num_layers, kernel.order) for v, w in pairs)


VALUES: dict[type[Any], Callable[[Any, Any, Any], float]] = {
    StringKernel: _string,
    DeepStringKernel: _deep_string,
    GatedSequenceKernel: _gated,
    RandomWalkKernel: _walk,
    DeepGraphKernel: _deep_graph,
}


# Patterns ----------------------------------------------------------------------------------------

Counts = dict[Any, float]


def listed(names: Any) -> list[str]:
    """Attribute names as a list: of one name, of several, or none for None."""
    return [] if names is None else [names] if isinstance(names, str) else list(names)


def spelled(graph: Data, names: Any, count: int | None) -> list[str]:
    """One string for all labels of each node or edge; rows of numbers are labels too, -0.0 is 0."""
    assert count is not None
    found = [""] * count
    for name in listed(names):
        values = graph[name]
        values = (values + 0).tolist() if isinstance(values, Tensor) else values
        found = [f"{text}{value};" for text, value in zip(found, values, strict=True)]
    return found


def patterns(
    graph: Data, num_iterations: int, node_label: Any, edge_label: Any = None
) -> list[list[str]]:
    """The pattern of every node at each iteration 0..h; each pattern contains earlier ones."""
    labels = spelled(graph, node_label, graph.num_nodes)
    bonds = spelled(graph, edge_label, graph.num_edges)
    found = [labels]
    for _ in range(num_iterations):
        labels = [
            f"<{labels[v]} | {' & '.join(sorted(f'{bonds[e]}: {labels[u]}' for u, e in edges))}>"
            for v, edges in enumerate(incoming(graph))
        ]
        found.append(labels)
    return found


def counted(kernel: CountKernel, graph: Data) -> Counts:
    """How often each pattern occurs, times its weight."""
    if isinstance(kernel, WLSubtreeKernel):
        rounds = patterns(graph, kernel.num_iterations, kernel.node_label, kernel.edge_label)
        counts = Counter((i, pattern) for i, labels in enumerate(rounds) for pattern in labels)
        weights = kernel.iteration_weights or [1.0] * len(rounds)
        root = kernel.compare == "dot"
        return {p: n * (weights[p[0]] ** 0.5 if root else weights[p[0]]) for p, n in counts.items()}
    labels = spelled(graph, kernel.node_label, graph.num_nodes)
    if isinstance(kernel, ShortestPathKernel):
        lengths, longest = nx.all_pairs_shortest_path_length(to_networkx(graph)), kernel.max_length
        found = ((u, v, length) for u, to in lengths for v, length in to.items() if u != v)
        known = (pair for pair in found if pair[2] <= (longest or inf))
        return dict(Counter((labels[u], labels[v], length) for u, v, length in known))
    assert isinstance(kernel, LabelSequenceKernel)
    bonds = spelled(graph, kernel.edge_label, graph.num_edges)
    return dict(
        Counter(
            (*(labels[v] for v in nodes), *(bonds[e] for e in edges))
            for number in range(kernel.min_nodes, kernel.num_nodes + 1)
            for nodes, edges in walks(
                graph.edge_index, graph.num_nodes, number, kernel.non_backtracking
            )
        )
    )


def compared(compare: str, a: Counts, b: Counts) -> float:
    if compare == "dot":
        return float(sum(a[pattern] * b[pattern] for pattern in a.keys() & b.keys()))
    pairs = [(a.get(pattern, 0.0), b.get(pattern, 0.0)) for pattern in a.keys() | b.keys()]
    least, most = sum(map(min, pairs)), sum(map(max, pairs))
    if compare == "min":
        return float(least)
    return least / most if most else 0.0


# Relabelling -------------------------------------------------------------------------------------


def generalized(graph: Data, relabel: GeneralizedRelabeling) -> Data:
    """Lei et al. 2017, eq. 10, node by node: σ(U_1 f_v o U_2 Σ_u σ(V [f_u, e_uv]))."""
    act = getattr(torch, relabel.act or "clone") if not callable(relabel.act) else relabel.act
    own, aggregated, neighbour = (m.double() for m in (relabel.U1, relabel.U2, relabel.V))
    labels = []
    for v, edges in enumerate(incoming(graph)):
        total = torch.zeros(len(neighbour), dtype=torch.float64)
        for u, edge in edges:
            message = graph.x[u]
            if relabel.edge_feature is not None:
                message = torch.cat([message, graph[relabel.edge_feature][edge].reshape(-1)])
            total = total + act(neighbour @ message)
        f, rest = own @ graph.x[v], aggregated @ total
        labels.append(act(f + rest if relabel.combine == "add" else f * rest))
    found = graph.clone()
    found.x = torch.stack(labels) if labels else torch.zeros(0, len(own), dtype=torch.float64)
    return found


def discrete(graph: Data, num_iterations: int, *labels: Any) -> list[Data]:
    """The graph of each iteration; a node's `label` is the number of its pattern."""
    found = []
    for of_nodes in patterns(graph, num_iterations, *labels):
        other = graph.clone()
        other.label = torch.tensor([_NUMBERS.setdefault(p, len(_NUMBERS)) for p in of_nodes]).long()
        found.append(other)
    return found


_NUMBERS: dict[str, int] = {}


def _relabelled(kernel: WLKernel, xs: Sequence[Data], ys: Sequence[Data]) -> Tensor:
    """Eq. 11: the sum over iterations of the base kernel of the relabelled graphs."""
    base, parts = clone(kernel.base or RandomWalkKernel()), (xs,) if ys is xs else (xs, ys)
    relabel, number = kernel.relabel, kernel.num_iterations
    if relabel == "discrete":
        names = (getattr(base, name, None) for name in ("node_label", "node_feature"))
        relabel = DiscreteRelabeling([name for several in names for name in listed(several)])
    if isinstance(relabel, DiscreteRelabeling):
        names = relabel.node_label, relabel.edge_label
        base.set_params(node_label="label")
        if not isinstance(base, CountKernel):
            base.set_params(node_feature=None)
        rounds = [[discrete(graph, number, *names) for graph in part] for part in parts]
    else:
        if not isinstance(relabel, GeneralizedRelabeling):
            relabel = GeneralizedRelabeling(*relabel)
        steps = [relabel] * number
        rounds = [[list(accumulate(steps, generalized, initial=g)) for g in part] for part in parts]
    by_round = (([graphs[i] for graphs in part] for part in rounds) for i in range(number + 1))
    return torch.stack([defined(base, *graphs) for graphs in by_round]).sum(0)
