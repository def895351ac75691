"""The neighbour sum against its definition: outputs and every gradient, on each path."""

from __future__ import annotations

from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from dataclasses import replace
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from pyg_kernels.ops import backend, operator
from pyg_kernels.ops import neighbor_sum as module
from pyg_kernels.ops.edges import Edges
from pyg_kernels.ops.neighbor_sum import definition, neighbor_sum
from tests.nn.activation_equations import assert_same_function, close
from tests.promises import assert_torch_func


@pytest.fixture(autouse=True)
def seed() -> None:
    torch.manual_seed(0)


PARTS = ("gate_source", "gate_target", "gate_edge", "factor", "shift", "weight")
PLAIN, GATE, EVERY = (), PARTS[:2], PARTS
SOME = [PLAIN, GATE, PARTS[:3], ("factor",), ("weight",), (*GATE, "factor"), ("shift",), EVERY]
TOLERANCE = {torch.float64: 1e-10, torch.float32: 1e-5, torch.bfloat16: 3e-2}


def random_edges(
    num_sources: int = 11, num_targets: int = 9, num_edges: int = 37, types: int | None = 3
) -> Edges:
    source, target = (torch.randint(n, (num_edges,)) for n in (num_sources, num_targets))
    edge_type = None if types is None else torch.randint(types, (num_edges,))
    return Edges(source, target, num_sources, num_targets, None, edge_type)


def inputs_of(
    edges: Edges, parts: tuple[str, ...] = EVERY, channels: int = 5, dtype: Any = torch.float64
) -> dict[str, Tensor]:
    types = edges.num_edges
    if edges.edge_type is not None:
        types = int(edges.edge_type.max()) + 1 if types else 1
    rows = dict.fromkeys(PARTS, types)
    rows |= {"gate_source": edges.num_sources, "gate_target": edges.num_targets}
    shapes = {"z": (edges.num_sources, channels)} | {p: (rows[p], channels) for p in parts}
    if "weight" in parts:
        shapes["weight"] = (edges.num_edges,)
    return {k: torch.randn(s, dtype=dtype).requires_grad_() for k, s in shapes.items()}


def call(edges: Edges, act: Any = None, **x: Tensor) -> Tensor:
    gate = None if "gate_source" not in x else tuple(x.get(p) for p in PARTS[:3])
    edges = replace(edges, weight=x.get("weight"))
    return neighbor_sum(x["z"], edges, gate, x.get("factor"), x.get("shift"), act)


def defined(edges: Edges, act: Any = None, **x: Tensor) -> Tensor:
    tensors = (x["z"], *(x.get(p) for p in PARTS))
    return definition.neighbor_sum(*tensors, *edges.index, edges.num_targets, act or "none")


def check(edges: Edges, x: dict[str, Tensor], act: Any = None, run: Any = call) -> None:
    found, wanted = run(edges, act, **x), defined(edges, act, **x)
    inputs = [t for t in x.values() if t.requires_grad]
    assert_same_function(found, wanted, inputs, TOLERANCE[found.dtype])


@pytest.mark.parametrize("dtype", list(TOLERANCE), ids=str)
@pytest.mark.parametrize("types", [None, 3])
@pytest.mark.parametrize("parts", SOME, ids="-".join)
def test_every_part(parts: tuple[str, ...], types: int | None, dtype: torch.dtype) -> None:
    for num_edges, channels in ((37, 5), (1, 33)):
        edges = random_edges(num_edges=num_edges, types=types)
        check(edges, inputs_of(edges, parts, channels, dtype))


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32], ids=str)
@pytest.mark.parametrize("act", ["relu", torch.tanh, "sigmoid", torch.nn.ELU()])
@pytest.mark.parametrize("parts", [PLAIN, ("shift",), EVERY], ids="-".join)
def test_activations(parts: tuple[str, ...], act: Any, dtype: torch.dtype) -> None:
    for types in (None, 3):
        edges = random_edges(types=types)
        check(edges, inputs_of(edges, parts, 19, dtype), act)


@settings(max_examples=30, deadline=None)
@given(*(st.integers(low, high) for low, high in ((1, 8), (1, 8), (1, 40), (0, 4), (0, 2**16))))
def test_any_size(sources: int, targets: int, num_edges: int, channels: int, seed: int) -> None:
    torch.manual_seed(seed)
    edges = random_edges(sources, targets, num_edges, 2 if seed % 2 else None)
    check(edges, inputs_of(edges, channels=channels), "tanh")


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
    edges = random_edges(3000, 2500, 6000, types=4)
    x = inputs_of(edges, dtype=torch.float32, channels=9)
    check(edges, x, "relu")
    runs = [torch.autograd.grad(call(edges, "relu", **x).sum(), x.values()) for _ in range(3)]
    for grads in runs[1:]:
        assert all(torch.equal(a, b) for a, b in zip(grads, runs[0], strict=True))


def test_two_python_threads() -> None:
    edges = [random_edges(300, 250, 4000, types=t) for t in (3, None)]
    xs = [inputs_of(e, channels=16) for e in edges]
    with ThreadPoolExecutor(2) as pool:
        for _ in pool.map(lambda k: check(edges[k % 2], xs[k % 2], "tanh"), range(16)):
            pass


def test_only_the_gradients_that_are_needed() -> None:
    edges = random_edges()
    x = inputs_of(edges)
    for wanted in x:
        for name, tensor in x.items():
            tensor.requires_grad_(name == wanted)
        check(edges, x, "tanh")


def test_strided_operands_and_one_tensor_in_several_roles() -> None:
    edges = random_edges(11, 11)
    wide = torch.randn(11, 12, dtype=torch.float64, requires_grad=True)
    for parts in (wide.split(4, dim=1), [wide[:, ::3]] * 3):
        x = dict(zip(("z", "gate_source", "gate_target"), parts, strict=True))
        grads = [torch.autograd.grad(f(edges, **x).sum(), wide)[0] for f in (call, defined)]
        close(*grads)


@pytest.mark.parametrize("act", [None, "relu", "tanh", "sigmoid"])
@pytest.mark.parametrize("value", [float("nan"), float("inf"), -float("inf")])
def test_nan_and_infinity_go_through(value: float, act: str | None) -> None:
    edges = random_edges(types=None)
    for name in ("z", "factor", "shift", "weight"):
        x = inputs_of(edges, ("factor", "shift", "weight"), dtype=torch.float32)
        with torch.no_grad():
            x[name].view(-1)[edges.source[0] * 5 if name == "z" else 3] = value
        found, wanted = call(edges, act, **x), defined(edges, act, **x)
        torch.testing.assert_close(found, wanted, rtol=1e-5, atol=1e-5, equal_nan=True)
    gated = inputs_of(edges, GATE)
    with torch.no_grad():
        gated["gate_source"][edges.source[0]] = value
    torch.testing.assert_close(call(edges, **gated), defined(edges, **gated), equal_nan=True)


def test_derivatives_of_derivatives_and_transforms() -> None:
    edges = random_edges(4, 3, 7, types=2)
    x = inputs_of(edges, channels=2)

    def run(*values: Tensor) -> Tensor:
        return call(edges, "tanh", **dict(zip(x, values, strict=True)))

    assert torch.autograd.gradgradcheck(run, tuple(x.values()), fast_mode=True)
    assert_torch_func(lambda *values: [run(*values)], *x.values())


@pytest.mark.traces
@pytest.mark.parametrize("parts", [PLAIN, EVERY], ids="-".join)
@pytest.mark.parametrize("types", [None, 3])
def test_registered_with_pytorch(parts: tuple[str, ...], types: int | None) -> None:
    edges = random_edges(types=types)
    x = inputs_of(edges, parts)
    tensors = (x["z"], *(x.get(p) for p in PARTS), *edges.index)
    args = (*tensors, *edges.by_target(), *edges.by_source(), edges.num_targets, "none")
    torch.library.opcheck(module._OPERATOR.op, args)

    @torch.compile(fullgraph=True, dynamic=True, backend="aot_eager")
    def compiled(edges: Edges, act: None, **x: Tensor) -> Tensor:
        source, target, _ = edges.index
        return call(Edges(source, target, 11, 9, None, edges.edge_type), **x)

    check(edges, x, run=compiled)


def test_without_numba(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(operator, "cpu_backend", lambda: "definition")
    assert set(backend().values()) == {"definition"}
    edges = random_edges()
    check(edges, inputs_of(edges), "relu")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"gate_source": (10, 5)}, r"gate\[0\] has shape \(10, 5\): expected \(11, 5\)"),
        ({"gate_target": (11, 5)}, r"gate\[1\] has shape \(11, 5\): expected \(9, 5\)"),
        ({"factor": (3, 4)}, r"factor has shape \(3, 4\): expected \(T, 5\)"),
        ({"factor": (1, 5)}, "an edge type that does not exist"),
        ({"weight": (36,)}, r"weight has shape \(36,\): expected \(37,\)"),
    ],
)
def test_bad_operands(change: dict[str, tuple[int, ...]], message: str) -> None:
    edges = random_edges()
    x = inputs_of(edges) | {name: torch.randn(shape) for name, shape in change.items()}
    with pytest.raises(ValueError, match=message):
        call(edges, **x)
    with pytest.raises(ValueError, match="act='gelu': expected one of"):
        call(edges, "gelu", **inputs_of(edges))


@pytest.mark.cuda
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32], ids=str)
@pytest.mark.parametrize("types", [None, 3, 300])
@pytest.mark.parametrize("act", ["none", "tanh"])
@pytest.mark.parametrize("parts", SOME, ids="-".join)
def test_on_a_cuda_device(parts: Any, act: str, types: int | None, dtype: torch.dtype) -> None:
    with torch.device("cuda"):
        for num_edges, channels in ((0, 5), (2000, 33), (700, 175)):
            edges = random_edges(900, 500, num_edges, types)
            check(edges, inputs_of(edges, parts, channels, dtype), act)


def interpreted() -> None:
    """Runs Triton's kernels on CPU, in a process whose Triton interprets them."""
    torch.manual_seed(0)
    acts = ("none", "relu", "tanh", "sigmoid")
    cases = [(parts, (None, 3)[k % 2], "none") for k, parts in enumerate(SOME)]
    cases += [(EVERY, (3, None)[k % 2], act) for k, act in enumerate(acts)]
    for parts, types, act in [*cases, (("shift",), 3, "relu"), (("shift",), None, "tanh")]:
        edges = random_edges(5, 4, 9, types)
        check(edges, inputs_of(edges, parts, 5, torch.float64 if types else torch.float32), act)


def compiled() -> None:
    """Compiles Triton's kernels for a GPU that may be absent."""
    from pyg_kernels.ops.neighbor_sum import cuda

    made: list[Any] = []

    def warm_up(kernel: Any, parts: int, *args: Any) -> None:
        made.append(kernel.warmup(*args, BLOCK=64, grid=(parts,)).asm["ptx"])

    cuda._run = warm_up
    for parts, types in ((PLAIN, None), (GATE, 3), (EVERY, None), (EVERY, 3)):
        edges = random_edges(types=types)
        x = inputs_of(edges, parts, 40, torch.float64 if types else torch.float32)
        call(edges, "tanh", **x).sum().backward()
    assert len(made) == 11 and not any("atom." in ptx for ptx in made)


def test_triton_interpreted(interpreter: ProcessPoolExecutor) -> None:
    interpreter.submit(interpreted).result()


def test_triton_compiled(compiler: ProcessPoolExecutor) -> None:
    compiler.submit(compiled).result()
