"""Edges in every form that PyG has; ``edge_weight``, which multiplies messages at every step."""

from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import Tensor
from torch_geometric import EdgeIndex
from torch_geometric.explain.algorithm.utils import clear_masks, set_masks
from torch_geometric.nn import MessagePassing
from torch_geometric.typing import WITH_TORCH_SPARSE, SparseTensor
from torch_geometric.utils import to_torch_coo_tensor, to_torch_csc_tensor, to_torch_csr_tensor

from pyg_kernels.propagation.graph import as_edges
from tests.conventions.graph_layers import every_layer, layer_of
from tests.graphs import random_graph

with_or_without_bonds = pytest.mark.parametrize("bonds", [False, True], ids=["bare", "bonds"])


class Stored(SparseTensor):
    """The part of ``SparseTensor`` that layers read, where torch-sparse is not installed."""

    def __init__(self, row: Tensor, col: Tensor, value: Tensor, sparse_sizes: tuple[int, int]):
        self.entries, self.sizes = (row, col, value), sparse_sizes

    def size(self, dim: int) -> int:
        return self.sizes[dim]

    def coo(self) -> tuple[Tensor, Tensor, Tensor | None]:
        return self.entries


sparse_tensor = SparseTensor if WITH_TORCH_SPARSE else Stored


@every_layer
@with_or_without_bonds
def test_a_weight_counts_edges(build, sizes, bonds: bool) -> None:
    """Weight 2 counts an edge twice, 0 not at all; gradients and PyG's messages agree with that."""
    layer, graph = layer_of(build, sizes, bonds), random_graph(0, num_edges=12, kinds=2)

    def run(weight: Tensor | None, index: Tensor = graph.edge_index) -> Tensor:
        attr = graph.edge_attr if index is graph.edge_index else graph.edge_attr[order]
        return layer(graph.x, index, edge_weight=weight, edge_attr=attr if bonds else None)

    count = torch.tensor([0, 1, 2, 3] * 3)
    order = torch.arange(12).repeat_interleave(count)
    expected = run(None, graph.edge_index[:, order])
    torch.testing.assert_close(run(count.double()), expected, rtol=1e-10, atol=1e-12)

    weight = torch.rand(12, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(run, weight, fast_mode=True)
    (grad,) = torch.autograd.grad(run(weight).square().sum(), weight)
    assert (grad != 0).any()

    expected = run(weight)
    convs = [module for module in layer.modules() if isinstance(module, MessagePassing)]
    if convs:  # explainers mask their edges, and see their messages
        set_masks(layer, weight, graph.edge_index, apply_sigmoid=False)
        torch.testing.assert_close(run(None), expected, rtol=1e-10, atol=1e-12)
        clear_masks(layer)
    for conv in convs:
        conv.register_message_forward_hook(lambda *args: None)
    torch.testing.assert_close(run(weight), expected, rtol=1e-10, atol=1e-12)


TO_SPARSE = {"coo": to_torch_coo_tensor, "csr": to_torch_csr_tensor, "csc": to_torch_csc_tensor}


@every_layer
@with_or_without_bonds
@pytest.mark.parametrize("form", [*TO_SPARSE, "EdgeIndex", "SparseTensor"])
def test_forms_of_edges(build, sizes, bonds: bool, form: str) -> None:
    """An adjacency's values are weights; edge features are in the order of its entries."""
    layer, graph = layer_of(build, sizes, bonds), random_graph(0)
    index = graph.edge_index if form == "csc" else graph.edge_index.flip(0)
    index = index.unique(dim=1).contiguous()  # sorted by source, or else by target
    index = index if form == "csc" else index.flip(0)
    weight = torch.rand(index.size(1), dtype=torch.float64, requires_grad=True)
    attr = graph.edge_attr[: index.size(1)] if bonds else None
    expected = layer(graph.x, index, edge_weight=weight, edge_attr=attr)
    inputs: dict[str, Any] = {"edge_attr": attr}
    if form == "EdgeIndex":
        adj_t = EdgeIndex(index, sparse_size=(6, 6), sort_order="col")
        inputs["edge_weight"] = weight
    elif form == "SparseTensor":
        adj_t = sparse_tensor(row=index[1], col=index[0], value=weight, sparse_sizes=(6, 6))
    else:
        adj_t = TO_SPARSE[form](index.flip(0), weight, (6, 6))
    found = layer(graph.x, adj_t, **inputs)
    torch.testing.assert_close(found, expected, rtol=1e-10, atol=1e-12)
    wanted, got = (torch.autograd.grad(t.square().sum(), weight)[0] for t in (expected, found))
    torch.testing.assert_close(got, wanted, rtol=1e-9, atol=1e-12)


@every_layer
@pytest.mark.parametrize("dtype", [torch.float64, torch.int64, torch.bool], ids=str)
def test_weights_of_another_dtype_keep_that_of_the_features(build, sizes, dtype) -> None:
    layer, graph = layer_of(build, sizes).float(), random_graph(0, dtype=torch.float32)
    weight = torch.arange(9).to(dtype)
    found = layer(graph.x, graph.edge_index, edge_weight=weight)
    assert found.dtype == torch.float32
    assert torch.equal(found, layer(graph.x, graph.edge_index, edge_weight=weight.float()))


@every_layer
def test_what_edges_do_not_have_is_refused(build, sizes) -> None:
    layer, graph = layer_of(build, sizes), random_graph(0)
    with pytest.raises(ValueError, match=r"edge_weight has shape \(9, 3\): expected one number"):
        layer(graph.x, graph.edge_index, edge_weight=graph.edge_attr)
    with pytest.raises(ValueError, match=r"edge_weight has shape \(8,\): .* \(9,\)"):
        layer(graph.x, graph.edge_index, edge_weight=torch.ones(8))
    with pytest.raises(ValueError, match=r"edge_weight has dtype torch\.complex64"):
        layer(graph.x, graph.edge_index, edge_weight=torch.full((9,), 1j))
    with pytest.raises(ValueError, match=r"edge_weight has dtype torch\.complex64"):
        layer(graph.x, replace(as_edges(graph.edge_index, 6, 6), weight=torch.full((9,), 1j)))
    with pytest.raises(TypeError, match="edge_weight is a list: expected a tensor"):
        layer(graph.x, graph.edge_index, edge_weight=[1.0] * 9)
    with pytest.raises(ValueError, match="edge_attr is missing"):
        layer_of(build, sizes, bonds=True)(graph.x, graph.edge_index)
    with pytest.raises(ValueError, match="edge_dim"):
        layer(graph.x, graph.edge_index, edge_attr=graph.edge_attr)
