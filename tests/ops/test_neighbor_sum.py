"""The neighbour sum against its definition: outputs and every gradient, on each path."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import cache
from typing import Any, NamedTuple

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from pyg_kernels.ops import edges as edges_module
from pyg_kernels.ops import neighbor_sum as module
from pyg_kernels.ops.edges import Edges, distinct_rows, sort_by_node
from pyg_kernels.ops.neighbor_sum import definition, neighbor_sum
from tests.nn.activation_equations import assert_same_function, close
from tests.ops.conftest import compiled_kernels
from tests.ops.scans import check, gradients, leaf, some

PARTS = ("gate_source", "gate_target", "gate_edge", "factor", "shift", "weight")
PLAIN, GATE, EVERY = (), PARTS[:2], PARTS
SOME = [PLAIN, GATE, PARTS[:3], ("factor",), ("weight",), (*GATE, "factor"), ("shift",), EVERY]
TOLERANCE = {torch.float64: 1e-10, torch.float32: 1e-5, torch.bfloat16: 3e-2}


@cache
def random_edges(sources: int, targets: int, count: int, types: int | None) -> Edges:
    torch.manual_seed(0)
    source, target, kind = (torch.randint(n, (count,)) for n in (sources, targets, types or 1))
    return Edges(source, target, sources, targets, None, None if types is None else kind)


class Sum(NamedTuple):
    """A sum over neighbours and its inputs; the sizes are numbers of sources, targets, edges."""

    parts: tuple[str, ...] = PARTS
    types: int | None = 3
    act: Any = None
    sizes: tuple[int, int, int] = (11, 9, 37)
    channels: int = 5
    dtype: torch.dtype = torch.float64
    op = module._OPERATOR.op

    @property
    def edges(self) -> Edges:
        return random_edges(*self.sizes, self.types)

    def tensors(self) -> list[Tensor | None]:
        torch.manual_seed(1)
        sources, targets, count = self.sizes
        rows = {"gate_source": sources, "gate_target": targets}
        shapes = [(rows.get(part, self.types or count), self.channels) for part in PARTS[:-1]]
        every = zip(PARTS, [*shapes, (count,)], strict=True)
        given = [torch.randn(shape) if part in self.parts else None for part, shape in every]
        z = torch.randn(sources, self.channels)
        return [None if t is None else leaf(t, self.dtype) for t in (z, *given)]

    def arguments(self, tensors: Sequence[Tensor | None]) -> tuple[Any, ...]:
        edges = self.edges
        order = *edges.by_target(), *edges.by_source()
        return *tensors, *edges.index, *order, edges.num_targets, self.act or "none"

    def run(self, tensors: Sequence[Tensor | None]) -> tuple[Tensor]:
        z, *gate, factor, shift, weight = tensors
        edges = replace(self.edges, weight=weight)
        given = None if gate[0] is None else tuple(gate)
        return (neighbor_sum(z, edges, given, factor, shift, self.act),)

    def define(self, tensors: Sequence[Tensor | None]) -> tuple[Tensor]:
        edges, act = self.edges, self.act or "none"
        return (definition.neighbor_sum(*tensors, *edges.index, edges.num_targets, act),)


@pytest.mark.parametrize("dtype", list(TOLERANCE), ids=str)
@pytest.mark.parametrize("types", [None, 3])
@pytest.mark.parametrize("parts", SOME, ids="-".join)
def test_every_part(parts: tuple[str, ...], types: int | None, dtype: torch.dtype) -> None:
    for edges, channels in ((37, 5), (1, 33)):
        check(Sum(parts, types, None, (11, 9, edges), channels, dtype), TOLERANCE[dtype])


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32], ids=str)
@pytest.mark.parametrize("act", ["relu", torch.tanh, "sigmoid", torch.nn.ELU()])
@pytest.mark.parametrize("parts", [PLAIN, ("shift",), EVERY], ids="-".join)
def test_activations(parts: tuple[str, ...], act: Any, dtype: torch.dtype) -> None:
    for types in (None, 3):
        check(Sum(parts, types, act, channels=19, dtype=dtype), TOLERANCE[dtype])


@settings(max_examples=30, deadline=None)
@given(*(st.integers(low, high) for low, high in ((1, 8), (1, 8), (1, 40), (0, 4))), st.booleans())
def test_any_size(sources: int, targets: int, edges: int, channels: int, typed: bool) -> None:
    check(Sum(EVERY, 2 if typed else None, "tanh", (sources, targets, edges), channels))


@pytest.mark.parametrize("sources", [0, 3])
def test_no_edges(sources: int) -> None:
    none = torch.zeros(0, dtype=torch.long)
    x = torch.randn(sources, 4, requires_grad=True)
    table = torch.randn(2, 4, requires_grad=True)
    for edges, rows in (
        (Edges(none, none, sources, 2, None, none), table),
        (Edges(none, none, sources, 2), table[:0]),
    ):
        out = neighbor_sum(x, edges, (x, table, rows), rows, rows, "relu")
        out.sum().backward()
        assert out.shape == (2, 4) and not out.any() and not x.grad.any()


@pytest.mark.usefixtures("threads")
def test_many_edges_on_several_threads() -> None:
    """The sum over parts of the sources, on several threads, gives the same bits every time."""
    case = Sum(EVERY, 4, "relu", (3000, 2500, 6000), 9, torch.float32)
    check(case, 1e-5)
    tensors = case.tensors()
    runs = [gradients(case.run(tensors), tensors) for _ in range(3)]
    for grads in runs[1:]:
        assert all(map(torch.equal, grads, runs[0]))


def test_only_the_gradients_that_are_needed() -> None:
    case = Sum(act="tanh")
    for wanted in range(7):
        tensors = case.tensors()
        given = [t.requires_grad_(k == wanted) for k, t in enumerate(tensors)]
        check(case, tensors=given)


def test_strided_operands_and_one_tensor_in_several_roles() -> None:
    case = Sum(GATE, sizes=(11, 11, 37))
    wide = torch.randn(11, 12, dtype=torch.float64, requires_grad=True)
    for parts in (wide.split(4, dim=1), [wide[:, ::3]] * 3):
        both = (f([*parts, *[None] * 4])[0] for f in (case.run, case.define))
        close(*(torch.autograd.grad(out.sum(), wide)[0] for out in both))


@pytest.mark.parametrize("act", [None, "relu", "tanh", "sigmoid"])
@pytest.mark.parametrize("value", [float("nan"), float("inf"), -float("inf")])
def test_nan_and_infinity_go_through(value: float, act: str | None) -> None:
    case = Sum(("factor", "shift", "weight"), None, act, dtype=torch.float32)
    source = case.edges.source[0]
    for operand in (0, 4, 5, 6):
        tensors = case.tensors()
        tensors[operand].detach().view(-1)[3 if operand else source * 5] = value
        found, wanted = case.run(tensors), case.define(tensors)
        torch.testing.assert_close(found, wanted, rtol=1e-5, atol=1e-5, equal_nan=True)
    gated = Sum(GATE, None)
    tensors = gated.tensors()
    tensors[1].detach()[source] = value
    torch.testing.assert_close(gated.run(tensors), gated.define(tensors), equal_nan=True)


@pytest.mark.traces
@pytest.mark.parametrize("parts", [PLAIN, EVERY], ids="-".join)
@pytest.mark.parametrize("types", [None, 3])
def test_compiled_by_pytorch(parts: tuple[str, ...], types: int | None) -> None:
    case = Sum(parts, types)
    edges = case.edges

    @torch.compile(fullgraph=True, dynamic=True, backend="aot_eager")
    def run(z: Tensor, *rest: Any) -> Tensor:
        *gate, factor, shift, weight = rest
        own = Edges(edges.source, edges.target, 11, 9, None, edges.edge_type, weight)
        return neighbor_sum(z, own, tuple(gate) if parts else None, factor, shift)

    tensors = case.tensors()
    assert_same_function(run(*tensors), case.define(tensors)[0], some(tensors))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({1: (10, 5)}, r"gate\[0\] has shape \(10, 5\): expected \(11, 5\)"),
        ({2: (11, 5)}, r"gate\[1\] has shape \(11, 5\): expected \(9, 5\)"),
        ({4: (3, 4)}, r"factor has shape \(3, 4\): expected \(T, 5\)"),
        ({4: (1, 5)}, "an edge type that does not exist"),
        ({6: (36,)}, r"weight has shape \(36,\): expected \(37,\)"),
    ],
)
def test_bad_operands(change: dict[int, tuple[int, ...]], message: str) -> None:
    tensors = Sum().tensors()
    for operand, shape in change.items():
        tensors[operand] = torch.randn(shape)
    with pytest.raises(ValueError, match=message):
        Sum().run(tensors)
    with pytest.raises(ValueError, match="act='gelu': expected one of"):
        Sum(act="gelu").run(Sum().tensors())


# Edges sorted by target and by source, and edge features whose rows repeat


def test_sorted_without_numba_in_inference_and_in_pytorch(monkeypatch: pytest.MonkeyPatch) -> None:
    node = torch.tensor([[3, 9], [0, 9], [3, 9], [1, 9]])[:, 0]
    torch.library.opcheck(sort_by_node, (node, 5))
    edges = Edges(node, node, 5, 5)
    assert edges.by_target() is edges.by_target()
    with torch.inference_mode():
        assert not edges.by_target()[0].is_inference()
        torch.compile(edges.by_source, backend="eager")()  # keeps what no backward may read
    assert not edges.by_source()[0].is_inference()
    monkeypatch.setattr(edges_module, "cpu_backend", lambda: "definition")
    for found in (sort_by_node(node, 5), edges.by_target()):
        assert [t.tolist() for t in found] == [[0, 1, 2, 2, 4, 4], [1, 3, 0, 2]]


def test_nodes_that_are_not_there() -> None:
    node = torch.tensor([0, 5])
    with pytest.raises(ValueError, match="names source node 5, but there are 5 source nodes"):
        Edges(node, node, 5, 6)
    with pytest.raises(ValueError, match="names target node -1"):
        Edges(node, -torch.ones_like(node), 6, 6)
    with pytest.raises(ValueError, match="names a node that does not exist"):
        sort_by_node(node, 5)


def test_distinct_rows() -> None:
    """Finds the distinct rows of bond types, and a rare row that lies between the sampled rows."""
    torch.manual_seed(0)
    rare = torch.zeros(10_000, 3)
    rare[7] = 1.0
    for rows, count in ((torch.eye(5)[:, :4][torch.randint(5, (1000,))], 5), (rare, 2)):
        distinct, index = distinct_rows(rows)
        assert distinct.size(0) == count
        assert torch.equal(distinct[index], rows)


def test_rows_without_types() -> None:
    torch.manual_seed(0)
    with_nan = torch.zeros(100, 2)
    with_nan[3, 1] = float("nan")
    for rows in (torch.randn(5000, 3), torch.randn(3, 3), torch.zeros(100, 0), with_nan):
        assert distinct_rows(rows) is None


def test_rows_that_project_to_the_same_number_stay_apart() -> None:
    """Equality is checked on the rows themselves, not on their projections."""
    width = torch.exp(torch.linspace(1.0, 2.0, 2, dtype=torch.float64)).frac()
    rows = torch.zeros(100, 2, dtype=torch.float64)
    rows[0] = torch.tensor([width[1].item(), 0.0])
    rows[1] = torch.tensor([0.0, width[0].item()])
    found = distinct_rows(rows)
    assert found is None or torch.equal(found[0][found[1]], rows)


def test_operands_of_other_shapes() -> None:
    two, one = torch.tensor([0, 1]), torch.tensor([1])
    for message, operands in {
        "target has shape": (two, one, 3, 3),
        "edge_type has shape": (two, two, 3, 3, torch.ones(1, 4), one),
        "dtype": (two.float(), two, 3, 3),
    }.items():
        with pytest.raises(ValueError, match=message):
            Edges(*operands)
    with pytest.raises(ValueError, match="z has shape"):
        neighbor_sum(torch.randn(4000, 2), Edges(two, two, 3, 3))


# On GPUs


@pytest.mark.cuda
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32], ids=str)
@pytest.mark.parametrize("types", [None, 3, 300])
@pytest.mark.parametrize("act", ["none", "tanh"])
@pytest.mark.parametrize("parts", SOME, ids="-".join)
def test_on_a_cuda_device(parts: Any, act: str, types: int | None, dtype: torch.dtype) -> None:
    with torch.device("cuda"):
        for edges, channels in ((0, 5), (2000, 33), (700, 175)):
            check(Sum(parts, types, act, (900, 500, edges), channels, dtype), TOLERANCE[dtype])


def interpreted() -> None:
    """Runs Triton's kernels on CPU, in a process whose Triton interprets them."""
    acts = ("none", "relu", "tanh", "sigmoid")
    cases = [(parts, (None, 3)[k % 2], "none") for k, parts in enumerate(SOME)]
    cases += [(EVERY, (3, None)[k % 2], act) for k, act in enumerate(acts)]
    for parts, types, act in [*cases, (("shift",), 3, "relu"), (("shift",), None, "tanh")]:
        dtype = torch.float64 if types else torch.float32
        check(Sum(parts, types, act, (5, 4, 9), 5, dtype), TOLERANCE[dtype])


def compiled() -> None:
    """Compiles Triton's kernels for a GPU that may be absent."""
    made = compiled_kernels()
    for parts, types in ((PLAIN, None), (GATE, 3), (EVERY, None), (EVERY, 3)):
        dtype = torch.float64 if types else torch.float32
        case = Sum(parts, types, "tanh", channels=40, dtype=dtype)
        case.run(case.tensors())[0].sum().backward()
    assert len(made) == 11 and not any("atom." in kernel.asm["ptx"] for kernel in made)
