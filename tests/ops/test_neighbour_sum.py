"""The fast sums against the definition: outputs and every gradient, at awkward sizes."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from pyg_kernels.ops import edges as edges_module
from pyg_kernels.ops.edges import Edges
from pyg_kernels.ops.neighbour_sum import neighbour_activation_sum, neighbour_sum, reference

TOLERANCE = {
    torch.float64: {"rtol": 1e-11, "atol": 1e-12},
    torch.float32: {"rtol": 1e-4, "atol": 1e-5},
    torch.bfloat16: {"rtol": 5e-2, "atol": 2e-1},
}


@pytest.fixture(params=[2**19, 40], ids=["one-block", "many-blocks"])
def block_size(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(edges_module, "_BLOCK_ELEMENTS", request.param)


def random_edges(
    num_sources: int, num_targets: int, num_edges: int, kinds: int | None, ordered: bool
) -> Edges:
    source = torch.randint(num_sources, (num_edges,))
    target = torch.randint(num_targets, (num_edges,))
    if ordered:
        target = target.sort().values
    kind = None if kinds is None else torch.randint(kinds, (num_edges,))
    attr = torch.zeros(num_edges if kinds is None else kinds, 1)
    return Edges(source, target, num_sources, num_targets, attr, kind)


def leaves(*shapes: tuple[int, int], dtype: torch.dtype) -> list[Tensor]:
    return [torch.randn(shape, dtype=dtype, requires_grad=True) for shape in shapes]


def assert_same_with_gradients(fast: Tensor, slow: Tensor, inputs: list[Tensor]) -> None:
    tolerance = TOLERANCE[fast.dtype]
    torch.testing.assert_close(fast, slow, **tolerance)
    grad = torch.randn_like(fast)
    found = torch.autograd.grad(fast, inputs, grad)
    wanted = torch.autograd.grad(slow, inputs, grad)
    for f, w in zip(found, wanted, strict=True):
        torch.testing.assert_close(f, w, **tolerance)


@pytest.mark.usefixtures("block_size")
@pytest.mark.parametrize("dtype", list(TOLERANCE), ids=str)
@pytest.mark.parametrize("gate", ["none", "nodes", "kinds"])
@pytest.mark.parametrize("bond", [False, True])
@pytest.mark.parametrize("kinds", [None, 3])
def test_neighbour_sum(dtype: torch.dtype, gate: str, bond: bool, kinds: int | None) -> None:
    torch.manual_seed(0)
    for num_edges, channels, ordered in [(37, 5, False), (64, 1, True), (1, 7, False)]:
        edges = random_edges(11, 9, num_edges, kinds, ordered)
        rows = edges.attr.size(0)
        z, source, target, kind, factor = leaves(
            *((n, channels) for n in (11, 11, 9, rows, rows)), dtype=dtype
        )
        gates = {"none": None, "nodes": (source, target, None), "kinds": (source, target, kind)}
        factors = factor if bond else None
        given_gate = gates[gate]
        inputs = [z, *(g for g in given_gate or () if g is not None)]
        inputs += [factor] if bond else []
        assert_same_with_gradients(
            neighbour_sum(z, edges, given_gate, factors),
            reference.neighbour_sum(z, edges, given_gate, factors),
            inputs,
        )


@pytest.mark.usefixtures("block_size")
@pytest.mark.parametrize("act", [torch.relu, torch.tanh, torch.sigmoid, torch.nn.functional.elu])
@pytest.mark.parametrize("kinds", [None, 3])
def test_neighbour_activation_sum(act, kinds: int | None) -> None:
    torch.manual_seed(0)
    edges = random_edges(11, 9, 50, kinds, ordered=False)
    a, kind = leaves((11, 6), (edges.attr.size(0), 6), dtype=torch.float64)
    for shift in (kind, None):
        assert_same_with_gradients(
            neighbour_activation_sum(a, edges, act, shift),
            reference.neighbour_activation_sum(a, edges, act, shift),
            [a] if shift is None else [a, shift],
        )


@settings(max_examples=40, deadline=None)
@given(
    num_sources=st.integers(1, 8),
    num_targets=st.integers(1, 8),
    num_edges=st.integers(0, 40),
    channels=st.integers(1, 4),
    seed=st.integers(0, 2**16),
)
def test_any_size(
    num_sources: int, num_targets: int, num_edges: int, channels: int, seed: int
) -> None:
    torch.manual_seed(seed)
    edges = random_edges(num_sources, num_targets, num_edges, 2, ordered=seed % 2 == 0)
    z, source, target, kind, factor = leaves(
        *((n, channels) for n in (num_sources, num_sources, num_targets, 2, 2)),
        dtype=torch.float64,
    )
    gate = (source, target, kind)
    assert_same_with_gradients(
        neighbour_sum(z, edges, gate, factor),
        reference.neighbour_sum(z, edges, gate, factor),
        [z, *gate, factor],
    )


def test_only_the_gradients_that_are_needed() -> None:
    torch.manual_seed(0)
    edges = random_edges(11, 11, 30, 3, ordered=False)
    tensors = [torch.randn(n, 4, dtype=torch.float64) for n in (11, 11, 11, 3, 3)]
    for wanted in range(5):
        inputs = [t.clone().requires_grad_(i == wanted) for i, t in enumerate(tensors)]
        z, source, target, kind, factor = inputs
        gate = (source, target, kind)
        assert_same_with_gradients(
            neighbour_sum(z, edges, gate, factor),
            reference.neighbour_sum(z, edges, gate, factor),
            [inputs[wanted]],
        )


def test_strided_operands() -> None:
    """Columns of one wide product, as they come from a fused projection."""
    torch.manual_seed(0)
    edges = random_edges(11, 11, 30, None, ordered=False)
    wide = torch.randn(11, 12, dtype=torch.float64, requires_grad=True)

    def run(sum_):
        z, source, target = wide.split(4, dim=1)
        return sum_(z, edges, (source, target, None), None)

    assert_same_with_gradients(run(neighbour_sum), run(reference.neighbour_sum), [wide])


def test_one_tensor_in_several_roles_with_create_graph() -> None:
    torch.manual_seed(0)
    edges = random_edges(9, 9, 30, None, ordered=False)
    z = torch.randn(9, 4, dtype=torch.float64, requires_grad=True)
    total = neighbour_sum(z, edges, (z, z, None)).square().sum()
    (plain,) = torch.autograd.grad(total, z, retain_graph=True)
    (kept,) = torch.autograd.grad(total, z, create_graph=True)
    torch.testing.assert_close(kept, plain, rtol=1e-11, atol=1e-12)


def test_tables_of_one_row_an_edge_without_features() -> None:
    torch.manual_seed(0)
    source, target = torch.randint(9, (30,)), torch.randint(9, (30,))
    edges = Edges(source, target, 9, 9)
    z, factor = leaves((9, 4), (30, 4), dtype=torch.float64)
    assert_same_with_gradients(
        neighbour_sum(z, edges, bond=factor),
        reference.neighbour_sum(z, edges, bond=factor),
        [z, factor],
    )


def test_a_hub_in_many_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    """A target with more edges than a block holds."""
    monkeypatch.setattr(edges_module, "_BLOCK_ELEMENTS", 8)
    source = torch.arange(20)
    target = torch.cat([torch.zeros(15, dtype=torch.long), torch.tensor([1, 1, 3, 3, 3])])
    edges = Edges(source, target, 20, 5)
    z = torch.randn(20, 2, dtype=torch.float64)
    expected = reference.neighbour_sum(z, edges)
    torch.testing.assert_close(neighbour_sum(z, edges), expected)


def test_nan_stays_where_it_is() -> None:
    """A NaN reaches the targets of its own edges and no other."""
    edges = Edges(torch.tensor([0, 1, 2]), torch.tensor([0, 1, 1]), 3, 3)
    z = torch.tensor([[float("nan")], [1.0], [2.0]])
    out = neighbour_sum(z, edges)
    assert out[0].isnan() and out[1] == 3 and out[2] == 0
