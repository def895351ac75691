"""Sums by distinct messages against the definition: outputs, gradients, and when they are taken."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from pyg_kernels.ops.edges import Edges
from pyg_kernels.ops.neighbour_sum import (
    cpu,
    gated_messages,
    messages,
    neighbour_activation_sum,
    neighbour_sum,
    reference,
)
from pyg_kernels.ops.neighbour_sum.gated_messages import gates_fit
from pyg_kernels.ops.neighbour_sum.messages import distinct_messages

TOLERANCE = {"rtol": 1e-5, "atol": 1e-5}


def sharing_edges(ordered: bool = True, num_kinds: int = 3, num_targets: int = 11) -> Edges:
    """Some nodes send one kind to many, one nothing, one target gets nothing; a kind is unused."""
    generator = torch.Generator().manual_seed(0)
    source = torch.randint(5, (60,), generator=generator) * 2
    target = torch.randint(num_targets - 1, (60,), generator=generator)
    if ordered:
        target = target.sort().values
    kind = torch.randint(num_kinds - 1, (60,), generator=generator)
    return Edges(source, target, 10, num_targets, torch.zeros(num_kinds, 2), kind)


def leaves(edges: Edges, channels: int = 4) -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(1)
    sizes = (edges.num_sources, edges.attr.size(0))
    first, second = (torch.randn(n, channels, generator=generator) for n in sizes)
    return first.requires_grad_(), second.requires_grad_()


def assert_equal_with_gradients(fast: Tensor, slow: Tensor, inputs: tuple[Tensor, ...]) -> None:
    torch.testing.assert_close(fast, slow, **TOLERANCE)
    grad = torch.randn(fast.shape, generator=torch.Generator().manual_seed(2))
    for wanted in (inputs, inputs[:1], inputs[1:]):
        found = torch.autograd.grad(fast, wanted, grad, retain_graph=True)
        expected = torch.autograd.grad(slow, wanted, grad, retain_graph=True)
        for f, e in zip(found, expected, strict=True):
            torch.testing.assert_close(f, e, **TOLERANCE)


@pytest.fixture
def no_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Fails where the sums of one message an edge are taken."""
    monkeypatch.delattr(cpu, "NeighbourSum")
    monkeypatch.delattr(cpu, "NeighbourActivationSum")


def test_what_is_distinct() -> None:
    """A message for each pair of a node and a kind that it sends, by kind, then by node."""
    edges = sharing_edges(ordered=False)
    found = distinct_messages(edges)
    pairs = sorted(set(zip(edges.kind.tolist(), edges.source.tolist(), strict=True)))
    kinds = [kind for kind, first, end in found.spans for _ in range(first, end)]
    assert list(zip(kinds, found.source.tolist(), strict=True)) == pairs
    numbers = torch.arange(1.0, found.number + 1)[:, None]
    arrived = torch.zeros(edges.num_targets)
    for kind, source, target in zip(edges.kind, edges.source, edges.target, strict=True):
        arrived[target] += 1 + pairs.index((int(kind), int(source)))
    torch.testing.assert_close(found.to_targets(numbers)[:, 0], arrived)
    left = [sum(n + 1 for n, (_, u) in enumerate(pairs) if u == node) for node in range(10)]
    assert found.to_sources(numbers)[:, 0].tolist() == left


@pytest.mark.usefixtures("no_blocks")
@pytest.mark.parametrize("ordered", [True, False])
def test_sum_of_products(ordered: bool) -> None:
    edges = sharing_edges(ordered)
    z, bond = leaves(edges)
    assert_equal_with_gradients(
        neighbour_sum(z, edges, None, bond),
        reference.neighbour_sum(z, edges, None, bond),
        (z, bond),
    )


def gated_leaves(edges: Edges) -> tuple[Tensor, ...]:
    """z, the gate's parts on sources, targets and kinds, and the bond factors."""
    z, bond = leaves(edges)
    generator = torch.Generator().manual_seed(3)
    sizes = (edges.num_sources, edges.num_targets, edges.attr.size(0))
    gate = [torch.randn(n, 4, generator=generator).requires_grad_() for n in sizes]
    return z, *gate, bond


def gated(run, z: Tensor, edges: Edges, *parts: Tensor) -> Tensor:
    *gate, bond = parts
    return run(z, edges, tuple(gate), bond)


@pytest.mark.usefixtures("no_blocks")
@pytest.mark.parametrize("num_targets", [11, 17])
@pytest.mark.parametrize("ordered", [True, False])
def test_gated_sum(ordered: bool, num_targets: int) -> None:
    edges = sharing_edges(ordered, num_targets=num_targets)
    z, *parts = inputs = gated_leaves(edges)
    fast, slow = (gated(run, z, edges, *parts) for run in (neighbour_sum, reference.neighbour_sum))
    assert_equal_with_gradients(fast, slow, inputs)
    for k in range(5):
        assert_equal_with_gradients(fast, slow, inputs[k : k + 1] * 2)


def test_gates_that_are_not_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    """Gates without a part of their kind, and more numbers than are kept: one message an edge."""
    monkeypatch.delattr("pyg_kernels.ops.neighbour_sum.GatedMessageSum")
    edges = sharing_edges()
    z, source, target, kind, bond = gated_leaves(edges)
    assert gates_fit((source, target, kind), edges)
    for gate, most in (((source, target, None), 2**22), ((source, target, kind), 239)):
        monkeypatch.setattr(gated_messages, "_MOST_NUMBERS", most)
        assert not gates_fit(gate, edges)
        expected = reference.neighbour_sum(z, edges, gate, bond)
        torch.testing.assert_close(neighbour_sum(z, edges, gate, bond), expected, **TOLERANCE)


@pytest.mark.usefixtures("no_blocks")
@pytest.mark.parametrize("act", [torch.relu, torch.tanh, torch.sigmoid], ids=lambda f: f.__name__)
@pytest.mark.parametrize("ordered", [True, False])
def test_sum_of_activations(ordered: bool, act) -> None:
    edges = sharing_edges(ordered)
    a, kind = leaves(edges)
    assert_equal_with_gradients(
        neighbour_activation_sum(a, edges, act, kind),
        reference.neighbour_activation_sum(a, edges, act, kind),
        (a, kind),
    )


@pytest.mark.usefixtures("no_blocks")
def test_second_derivatives() -> None:
    edges = sharing_edges()
    for fast, slow in (
        (
            lambda a, k: neighbour_sum(a, edges, None, k),
            lambda a, k: reference.neighbour_sum(a, edges, None, k),
        ),
        (
            lambda a, k: neighbour_activation_sum(a, edges, torch.tanh, k),
            lambda a, k: reference.neighbour_activation_sum(a, edges, torch.tanh, k),
        ),
    ):
        second = []
        for run in (fast, slow):
            inputs = leaves(edges)
            out = run(*inputs).square().sum()
            first = torch.autograd.grad(out, inputs, create_graph=True)
            norm = sum(g.square().sum() for g in first)
            second.append(torch.autograd.grad(norm, inputs))
        for f, e in zip(*second, strict=True):
            torch.testing.assert_close(f, e, rtol=1e-4, atol=1e-3)


@pytest.mark.usefixtures("no_blocks")
def test_second_derivatives_of_gated_sums() -> None:
    edges = sharing_edges()
    second = []
    for run in (neighbour_sum, reference.neighbour_sum):
        z, *parts = inputs = gated_leaves(edges)
        out = gated(run, z, edges, *parts).square().sum()
        first = torch.autograd.grad(out, inputs, create_graph=True)
        second.append(torch.autograd.grad(sum(g.square().sum() for g in first), inputs))
    for f, e in zip(*second, strict=True):
        torch.testing.assert_close(f, e, rtol=1e-4, atol=1e-2)


@pytest.mark.usefixtures("no_blocks")
def test_non_contiguous_input_and_gradient() -> None:
    edges = sharing_edges()
    z, bond = leaves(edges)
    wide = z.detach().repeat_interleave(2, dim=1).requires_grad_()
    out = neighbour_sum(wide[:, ::2], edges, None, bond)
    (found,) = torch.autograd.grad(out, wide, torch.ones(4, edges.num_targets).t())
    expected = torch.autograd.grad(reference.neighbour_sum(z, edges, None, bond).sum(), z)[0]
    torch.testing.assert_close(found[:, ::2], expected, **TOLERANCE)


def test_where_messages_are_not_shared() -> None:
    """Every edge of its own, too many kinds, no edges, large tables and float64: one an edge."""
    own = Edges(torch.arange(9), torch.zeros(9, dtype=torch.long), 9, 1, torch.zeros(2, 1))
    own.kind = torch.zeros(9, dtype=torch.long)
    assert distinct_messages(own) is None
    kinds = torch.arange(60) % (messages._MOST_SPANS + 1)
    many = sharing_edges()
    many.kind, many.attr = kinds, torch.zeros(messages._MOST_SPANS + 1, 2)
    assert distinct_messages(many) is None
    nothing = torch.zeros(0, dtype=torch.long)
    assert distinct_messages(Edges(nothing, nothing, 3, 3, torch.zeros(2, 1), nothing)) is None
    edges = sharing_edges()
    assert messages.shared_messages(torch.zeros(10, 4), edges) is not None
    assert messages.shared_messages(torch.zeros(10, 4, dtype=torch.float64), edges) is None
    assert messages.shared_messages(torch.zeros(10, messages._MOST_NUMBERS // 8), edges) is None
    bare = Edges(edges.source, edges.target, 10, 11)
    assert messages.shared_messages(torch.zeros(10, 4), bare) is None


def test_found_once_an_edges(monkeypatch: pytest.MonkeyPatch) -> None:
    edges = sharing_edges()
    z, bond = leaves(edges)
    first = messages.shared_messages(z, edges)
    neighbour_sum(z, edges, None, bond)
    assert messages.shared_messages(z, edges) is first
