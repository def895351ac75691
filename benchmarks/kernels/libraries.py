"""What is timed: the Gram matrices and the features of both libraries, each from its own input."""

from collections.abc import Callable
from functools import partial
from importlib import import_module
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch_geometric.data import Batch, Data
from torch_geometric.utils import sort_edge_index, unbatch, unbatch_edge_index

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
    batch = labeled(molecules, drawn(len(molecules), measurement.size, SEED))
    if measurement.method == GRAKEL:
        kernel, graphs = grakel_kernel(task), grakel_graphs(batch)
        return lambda: kernel.fit_transform(graphs)
    ours = as_list(batch) if measurement.method == OURS_FROM_LIST else batch.to(options.device)
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


def labeled(molecules: Any, indices: Tensor | None = None) -> Batch:
    """Molecules with labels: ``atom`` and ``bond`` number the combinations of features that occur,
    and ``element`` numbers the values of an atom's first feature alone.
    """
    batch = molecules.batch(torch.arange(len(molecules)) if indices is None else indices)

    def numbered(x: Tensor) -> Tensor:
        return x.unique(dim=0, return_inverse=True)[1]

    return Batch(
        _base_cls=Data,
        atom=numbered(batch.x),
        element=numbered(batch.x[:, : molecules.featurizer.atom_features[0].width]),
        bond=numbered(batch.edge_attr),
        edge_index=batch.edge_index,
        batch=batch.batch,
        ptr=batch.ptr,
        num_nodes=batch.num_nodes,
    )


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


def repeated(batch: Batch, copies: int, seed: int) -> Batch:
    """`copies` copies of each graph: the first as it is, the others with their nodes permuted."""
    generator, found = torch.Generator().manual_seed(seed), []
    for copy in range(copies):
        for graph in as_list(batch):
            order = torch.arange(graph.num_nodes)
            if copy:
                order = torch.randperm(graph.num_nodes, generator=generator)
            edges = order.argsort()[graph.edge_index]
            edges, bond = sort_edge_index(edges, graph.bond, graph.num_nodes, sort_by_row=False)
            labels = {"atom": graph.atom[order], "element": graph.element[order], "bond": bond}
            found.append(Data(**labels, edge_index=edges, num_nodes=graph.num_nodes))
    return Batch.from_data_list(found)


def as_list(batch: Batch) -> list[Data]:
    """The graphs of a batch as a list."""
    owner = batch.batch[batch.edge_index[0]]
    found = zip(
        unbatch(batch.element, batch.batch),
        unbatch(batch.atom, batch.batch),
        unbatch(batch.bond, owner, batch_size=batch.num_graphs),
        unbatch_edge_index(batch.edge_index, batch.batch, batch.num_graphs),
        strict=True,
    )
    names = ("element", "atom", "bond", "edge_index")
    return [Data(**dict(zip(names, each, strict=True)), num_nodes=len(each[0])) for each in found]


def grakel_graphs(batch: Batch) -> list[list[Any]]:
    """The graphs of a batch as GraKeL takes them: edges and labels in dictionaries."""
    graphs = []
    for graph in as_list(batch):
        neighbors: dict[int, list[int]] = {node: [] for node in range(graph.num_nodes)}
        for source, target in graph.edge_index.t().tolist():
            neighbors[source].append(target)
        graphs.append([neighbors, dict(enumerate(graph.element.tolist()))])
    return graphs


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
