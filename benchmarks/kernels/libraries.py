"""What is timed: the Gram matrices and the features of both libraries, each from its own input."""

from collections.abc import Callable, Sequence
from functools import partial
from importlib import import_module
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch_geometric.data import Batch, Data
from torch_geometric.utils import sort_edge_index

from benchmarks.harness.errors import InputError
from benchmarks.kernels.options import (
    DECAY,
    EDGES,
    GRAKEL,
    ITERATIONS,
    OURS_FROM_LIST,
    SEED,
    Kernels,
    Measurement,
)
from pyg_kernels import kernels
from pyg_kernels.datasets import CEP, ChEMBLSulfonamides, random_split

Call = Callable[[], Any]
SPLIT_SEED = 0
PARTS = ("train", "valid", "test")  # task.PARTS again, so that no process here imports Lightning


def load(options: Kernels) -> Any:
    """The data set that the options name."""
    return CEP(options.root) if options.data == "cep" else ChEMBLSulfonamides()


def parts_of(number: int) -> dict[str, Tensor]:
    """The positions of training, validation and test molecules, as in ``benchmarks.molecules``."""
    return random_split(number, seed=SPLIT_SEED)._asdict()


def prepared(measurement: Measurement, options: Kernels) -> Call:
    """The call that is measured, with its input ready in the library's own form."""
    molecules, task = load(options), measurement.task
    bonds = "bond" if options.bond_labels else None
    labels: dict[str, Any] = {"node_label": "element", "edge_label": bonds}
    choices: dict[str, Any] = {"output": "gram", "verbose": False}
    if task == "wl-features":
        batch = repeated(labeled(molecules), measurement.size, SEED).to(options.device)
        kernel = kernels.WLSubtreeKernel(ITERATIONS, **labels, verbose=False)
        return lambda: kernel.fit_transform(batch)
    ours = graphs = labeled(molecules, drawn(len(molecules), measurement.size, SEED))
    if measurement.method == GRAKEL:
        kernel, theirs = grakel_kernel(task), grakel_graphs(graphs)
        return lambda: kernel.fit_transform(theirs)
    if measurement.method != OURS_FROM_LIST:
        ours = Batch.from_data_list(graphs).to(options.device)
    if task == "walk-gram":
        return lambda: walk_gram(ours, bonds)
    if task == "sequences":
        kernel = kernels.LabelSequenceKernel(EDGES + 1, **labels, **choices)
    elif task == "paths":
        kernel = kernels.ShortestPathKernel(node_label="element", **choices)
    else:
        compare = {"wl-gram": "dot", "wl-min": "min", "wl-minmax": "minmax"}[task]
        kernel = kernels.WLSubtreeKernel(ITERATIONS, **labels, compare=compare, **choices)
    return lambda: kernel(ours).cpu().numpy()


def labeled(molecules: Any, indices: Any = None) -> list[Data]:
    """Molecules as graphs with labels: ``atom`` and ``bond`` number the combinations of features
    that occur, and ``element`` numbers the values of an atom's first feature alone.
    """
    rows = range(len(molecules)) if indices is None else indices.tolist()
    graphs = [molecules[row] for row in rows]
    width = molecules.featurizer.atom_features[0].width
    features = {
        "atom": [graph.x for graph in graphs],
        "element": [graph.x[:, :width] for graph in graphs],
        "bond": [graph.edge_attr for graph in graphs],
    }
    found = [Data(edge_index=graph.edge_index, num_nodes=graph.num_nodes) for graph in graphs]
    for name, each in features.items():
        numbers = torch.cat(each).unique(dim=0, return_inverse=True)[1]
        for graph, own in zip(found, numbers.split([len(one) for one in each]), strict=True):
            graph[name] = own
    return found


def drawn(number: int, size: int, seed: int) -> Tensor:
    """Positions of `size` random molecules; a larger draw contains a smaller one."""
    return torch.randperm(number, generator=torch.Generator().manual_seed(seed))[:size]


def walk_gram(batch: Batch, bonds: str | None) -> np.ndarray:
    """GraKeL's ``RandomWalkLabeled(p=edges)`` in terms of the random-walk kernel.

    GraKeL sums over walks of 1 to p edges whose atoms have the same labels; a walk of k edges has
    the weight ``lamda ** k``. Every pair of atoms, with any labels, counts as a walk of no edge.
    """
    walk_kernel = partial(kernels.RandomWalkKernel, node_feature="element", verbose=False)
    walks = walk_kernel(EDGES + 1, DECAY, sum_orders=True, edge_feature=bonds)
    single = walk_kernel(1, edge_feature=None)
    atoms = (batch.ptr[1:] - batch.ptr[:-1]).double().cpu().numpy()
    return walks.fit_transform(batch) - single.fit_transform(batch) + np.outer(atoms, atoms)


def repeated(graphs: Sequence[Data], copies: int, seed: int) -> Batch:
    """`copies` copies of each graph: the first as it is, the others with their nodes permuted."""
    generator, found = torch.Generator().manual_seed(seed), [*graphs]
    for graph in [*graphs] * (copies - 1):
        order = torch.randperm(graph.num_nodes, generator=generator)
        copy = graph.clone()
        copy.atom, copy.element = graph.atom[order], graph.element[order]
        edges = order.argsort()[graph.edge_index]
        copy.edge_index, copy.bond = sort_edge_index(
            edges, graph.bond, graph.num_nodes, sort_by_row=False
        )
        found.append(copy)
    return Batch.from_data_list(found)


def grakel_graphs(graphs: Sequence[Data]) -> list[list[Any]]:
    """Graphs as GraKeL takes them: edges and labels in dictionaries."""
    found = []
    for graph in graphs:
        neighbors: dict[int, list[int]] = {node: [] for node in range(graph.num_nodes)}
        for source, target in graph.edge_index.t().tolist():
            neighbors[source].append(target)
        found.append([neighbors, dict(enumerate(graph.element.tolist()))])
    return found


def grakel_kernel(task: str) -> Any:
    """GraKeL's kernel for a task."""
    try:
        theirs = import_module("grakel.kernels")
    except ImportError as error:
        raise InputError("GraKeL is not installed: pip install grakel") from error
    if task == "walk-gram":
        return theirs.RandomWalkLabeled(p=EDGES, lamda=DECAY)
    if task == "paths":
        return theirs.ShortestPath(with_labels=True)
    if task == "wl-min":
        return theirs.WeisfeilerLehmanOptimalAssignment(n_iter=ITERATIONS)
    return theirs.WeisfeilerLehman(n_iter=ITERATIONS, base_graph_kernel=theirs.VertexHistogram)
