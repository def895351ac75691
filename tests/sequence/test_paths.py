"""Texts as path graphs, through PyG's own batches and loaders."""

from __future__ import annotations

import pytest
import torch
from torch_geometric.data import Batch, Data
from torch_geometric.loader import DataLoader

from pyg_kernels.sequence import PathGraph, path_batch
from tests.sequence.rcnn import random_rcnn
from tests.sequence.texts import SIZE, close, texts


def test_a_text_as_a_graph() -> None:
    """Other edges are dropped, everything else is kept, and the given graph does not change."""
    edges = {
        "edge_index": torch.tensor([[0, 2, 1], [2, 1, 0]]),
        "edge_attr": torch.ones(3, 2),
        "edge_weight": torch.ones(3),
        "adj_t": torch.eye(3),
    }
    others = {"x": texts(3)[0], "y": torch.tensor([1]), "pos": torch.zeros(3, 2)}
    others |= {"knowledge": torch.tensor([2]), "adjusted_y": torch.tensor([3])}
    given = Data(**others, **edges)
    graph = PathGraph()(given)
    assert isinstance(graph, Data) and graph.validate()
    assert set(graph.keys()) == {*others, "edge_index", "num_nodes"}
    assert all(torch.equal(graph[name], value) for name, value in others.items())
    assert graph.num_nodes == 3 and graph.edge_index.tolist() == [[0, 1], [1, 2]]
    assert graph.edge_index.dtype == torch.long
    assert set(given.keys()) == {*others, *edges}


def test_word_ids() -> None:
    """Also in texts that are too short to have edges."""
    for given in (torch.zeros(0, SIZE), torch.zeros(1, SIZE), [7]):
        graph = PathGraph()(given)
        assert graph.num_nodes == len(given) and graph.validate()
        assert graph.edge_index.shape == (2, 0) and graph.edge_index.dtype == torch.long
    graph = PathGraph()([7, 3, 3])
    assert graph.x.tolist() == [7, 3, 3] and graph.x.dtype == torch.long
    assert PathGraph()([]).num_nodes == 0 and PathGraph()([]).x.dtype == torch.long
    batch = path_batch([[7, 3, 3], [], [5], torch.tensor([1, 2])])
    assert isinstance(batch, Batch) and batch.num_graphs == 4 and batch.x.dtype == torch.long
    assert batch.x.tolist() == [7, 3, 3, 5, 1, 2]
    assert batch.ptr.tolist() == [0, 3, 3, 4, 6]
    assert batch.batch.tolist() == [0, 0, 0, 2, 3, 3]
    assert batch.edge_index.tolist() == [[0, 1, 4], [1, 2, 5]]


def test_edges_of_any_form_may_be_none() -> None:
    rcnn, x = random_rcnn(SIZE, 5), texts(3)[0]
    for edges in (None, torch.tensor([]), torch.empty(0, 2).long(), torch.empty(2, 0).long()):
        close(rcnn(Data(x=x, edge_index=edges))[0], rcnn(x)[0])


def test_data_loader() -> None:
    """PyG's DataLoader batches texts with their labels, including empty texts."""
    rcnn, pieces = random_rcnn(SIZE, 5, decay="input"), texts(4, 0, 1, 3, 2, 6)
    graphs = [PathGraph()(Data(x=piece, y=torch.tensor([i]))) for i, piece in enumerate(pieces)]
    seen = []
    for batch in DataLoader(graphs, batch_size=4):
        output, (h, _) = rcnn(batch)
        assert h.shape == (1, len(batch.y), 5)
        for i, found in zip(batch.y.tolist(), output.split(batch.ptr.diff().tolist()), strict=True):
            close(found, rcnn(pieces[i])[0])
            seen.append(i)
    assert seen == list(range(len(pieces)))


def test_errors() -> None:
    for given in (torch.zeros(2, 3, 4), Data(y=torch.tensor([1]))):
        with pytest.raises(ValueError, match="x"):
            PathGraph()(given)
    with pytest.raises(ValueError, match="text"):
        path_batch([])
