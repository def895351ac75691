"""What is timed: the Gram matrices and the features of both libraries, each from its own input."""

from collections.abc import Callable
from importlib import import_module
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch_geometric.data import Batch, Data
from torch_geometric.utils import unbatch, unbatch_edge_index

from benchmarks.harness.errors import InputError
from benchmarks.kernels.labels import labeled
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
from pyg_kernels.kernels import (
    LabelSequenceKernel,
    RandomWalkKernel,
    ShortestPathKernel,
    WLSubtreeKernel,
)

Call = Callable[[], Any]
SPLIT_SEED = 0
PARTS = ("train", "valid", "test")  # task.PARTS, repeated: no process here imports Lightning


def load(options: Kernels) -> Any:
    """The data set of a options."""
    from pyg_kernels.datasets import CEP, ChEMBLSulfonamides

    return CEP(options.root) if options.dataset == "cep" else ChEMBLSulfonamides()


def parts_of(number: int) -> dict[str, Tensor]:
    """The places of training, validation and test molecules, as in ``benchmarks.molecules``."""
    from pyg_kernels.datasets import random_split

    split = random_split(number, seed=SPLIT_SEED)
    return {part: getattr(split, part) for part in PARTS}


def prepared(measurement: Measurement, options: Kernels) -> Call:
    """The call that is measured, with its input ready in the library's own form."""
    molecules = load(options)
    device = torch.device(options.device)
    if measurement.task == "wl-features":
        batch = repeated(labeled(molecules), measurement.size, SEED).to(device)
        kernel = WLSubtreeKernel(ITERATIONS, **_labels(options), verbose=False)
        return lambda: kernel.fit_transform(batch)
    batch = labeled(molecules, drawn(len(molecules), measurement.size, SEED))
    if measurement.method == GRAKEL:
        graphs = grakel_graphs(batch)
        kernel = _of_grakel(measurement.task)
        return lambda: kernel.fit_transform(graphs)
    ours = as_list(batch) if measurement.method == OURS_FROM_LIST else batch.to(device)
    if measurement.task == "walk-gram":
        return lambda: walk_gram(ours, options)
    kernel = _of_counts(measurement.task, options)
    return lambda: kernel(ours).cpu().numpy()


def _of_counts(task: str, options: Kernels) -> Any:
    choices: dict[str, Any] = {"output": "gram", "verbose": False}
    labels = _labels(options)
    if task == "sequences":
        return LabelSequenceKernel(EDGES + 1, **labels, **choices)
    if task == "paths":
        return ShortestPathKernel(node_label="element", **choices)
    compare = {"wl-gram": "dot", "wl-min": "min", "wl-minmax": "minmax"}[task]
    return WLSubtreeKernel(ITERATIONS, **labels, compare=compare, **choices)


def drawn(number: int, size: int, seed: int) -> Tensor:
    """Places of `size` molecules drawn at random; a smaller draw is part of a larger one."""
    return torch.randperm(number, generator=torch.Generator().manual_seed(seed))[:size]


def walk_gram(batch: Batch, options: Kernels) -> np.ndarray:
    """GraKeL's ``RandomWalkLabeled(p=edges)`` in terms of the random-walk kernel.

    GraKeL sums walks of 1 to p edges whose atoms have the same labels, each with ``lamda`` to the
    number of its edges, and counts every pair of atoms, whatever their labels, as a walk of none.
    """
    walks = RandomWalkKernel(
        EDGES + 1,
        DECAY,
        sum_orders=True,
        node_feature="element",
        edge_feature="bond" if options.bond_labels else None,
        verbose=False,
    )
    single = RandomWalkKernel(1, node_feature="element", edge_feature=None, verbose=False)
    atoms = (batch.ptr[1:] - batch.ptr[:-1]).double().cpu().numpy()
    return walks.fit_transform(batch) - single.fit_transform(batch) + np.outer(atoms, atoms)


def repeated(batch: Batch, copies: int, seed: int) -> Batch:
    """The graphs of a batch, and copies of each with its nodes in other orders, `copies` in all."""
    generator = torch.Generator().manual_seed(seed)
    number = batch.num_nodes
    parts = []
    for copy in range(copies):
        place = torch.arange(number)
        if copy:
            mixed = torch.rand(number, generator=generator, dtype=torch.float64)
            order = torch.argsort(batch.batch + mixed)  # within each graph
            place[order] = torch.arange(number)  # the new place of each node
        inverse = torch.empty_like(place)
        inverse[place] = torch.arange(number)
        edges = place[batch.edge_index]
        sorted_edges = torch.argsort(edges[1] * number + edges[0])
        parts.append(
            {
                "atom": batch.atom[inverse],
                "element": batch.element[inverse],
                "bond": batch.bond[sorted_edges],
                "edge_index": edges[:, sorted_edges] + copy * number,
                "batch": batch.batch + copy * batch.num_graphs,
                "ptr": batch.ptr[min(copy, 1) :] + copy * number,
            }
        )
    joined = {key: torch.cat([part[key] for part in parts], dim=-1) for key in parts[0]}
    return Batch(_base_cls=Data, num_nodes=copies * number, **joined)


def as_list(batch: Batch) -> list[Data]:
    """The graphs of a batch one by one."""
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
    _grakel()  # whether it is installed
    graphs = []
    for graph in as_list(batch):
        neighbors: dict[int, list[int]] = {node: [] for node in range(graph.num_nodes)}
        for source, target in graph.edge_index.t().tolist():
            neighbors[source].append(target)
        graphs.append([neighbors, dict(enumerate(graph.element.tolist()))])
    return graphs


def _labels(options: Kernels) -> dict[str, Any]:
    return {"node_label": "element", "edge_label": "bond" if options.bond_labels else None}


def _grakel() -> Any:
    """GraKeL's kernels."""
    try:
        return import_module("grakel.kernels")
    except ImportError as error:
        raise InputError("GraKeL is not installed: pip install grakel") from error


def _of_grakel(task: str) -> Any:
    kernels = _grakel()
    if task == "walk-gram":
        return kernels.RandomWalkLabeled(p=EDGES, lamda=DECAY)
    if task == "paths":
        return kernels.ShortestPath(with_labels=True)
    if task == "wl-min":
        return kernels.WeisfeilerLehmanOptimalAssignment(n_iter=ITERATIONS)
    return kernels.WeisfeilerLehman(n_iter=ITERATIONS, base_graph_kernel=kernels.VertexHistogram)
