"""What every layer promises, one function a promise."""

import copy
import io
import pickle
import warnings
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import pytest
import torch
from torch import Tensor
from torch_geometric import EdgeIndex

from tests.graphs import Graph

Out = Tensor | list[Tensor] | tuple[Tensor | None, ...]


def flat(out: Out) -> list[Tensor]:
    """A layer's outputs as a list of tensors."""
    if isinstance(out, Tensor):
        return [out]
    return [t for t in out if t is not None]


def assert_same(a: Out, b: Out, rtol: float = 1e-10, atol: float = 1e-12) -> None:
    first, second = flat(a), flat(b)
    assert len(first) == len(second)
    for x, y in zip(first, second, strict=True):
        torch.testing.assert_close(x, y, rtol=rtol, atol=atol)


def call(layer: torch.nn.Module, graph: Graph, with_attr: bool) -> Out:
    return layer(graph.x, graph.edge_index, graph.edge_attr if with_attr else None)


def assert_permutation_equivariant(layer: torch.nn.Module, graph: Graph, with_attr: bool) -> None:
    """Renaming nodes and reordering edges renames the outputs and changes no number."""
    generator = torch.Generator().manual_seed(1)
    new = torch.randperm(graph.num_nodes, generator=generator)
    order = torch.randperm(graph.edge_index.size(1), generator=generator)
    x = torch.empty_like(graph.x)
    x[new] = graph.x
    moved = Graph(x, new[graph.edge_index][:, order], graph.edge_attr[order])
    after = [t[new] for t in flat(call(layer, moved, with_attr))]
    assert_same(after, call(layer, graph, with_attr))


def assert_batch_invariant(layer: torch.nn.Module, graphs: list[Graph], with_attr: bool) -> None:
    """A graph's outputs do not depend on the graphs beside it."""
    sizes = [g.num_nodes for g in graphs]
    starts = [sum(sizes[:i]) for i in range(len(sizes))]
    union = Graph(
        torch.cat([g.x for g in graphs]),
        torch.cat([g.edge_index + s for g, s in zip(graphs, starts, strict=True)], dim=1),
        torch.cat([g.edge_attr for g in graphs]),
    )
    together = [t.split(sizes) for t in flat(call(layer, union, with_attr))]
    for i, graph in enumerate(graphs):
        assert_same([t[i] for t in together], list(flat(call(layer, graph, with_attr))))


def assert_same_from_every_edge_form(layer: torch.nn.Module, graph: Graph, with_attr: bool) -> None:
    """Index, EdgeIndex and sparse adjacencies give the same numbers."""
    index, n = graph.edge_index, graph.num_nodes
    unique = torch.unique(index, dim=1)  # an adjacency holds an edge once
    attr = graph.edge_attr[: unique.size(1)]
    expected = layer(graph.x, unique, attr if with_attr else None)
    by_target = torch.argsort(unique[1] * n + unique[0])
    unique, attr = unique[:, by_target], attr[by_target]
    passed = attr if with_attr else None
    for sort_order in (None, "col"):
        edges = EdgeIndex(unique, sparse_size=(n, n), sort_order=sort_order)
        assert_same(layer(graph.x, edges, passed), expected)
    values = attr if with_attr else torch.ones(unique.size(1), dtype=graph.x.dtype)
    shape = (n, n, *values.shape[1:])
    coo = torch.sparse_coo_tensor(unique.flip(0), values, shape).coalesce()
    assert_same(layer(graph.x, coo), expected)
    if not with_attr:
        assert_same(layer(graph.x, coo.to_sparse_csr()), expected)
        assert_same(layer(graph.x, coo.to_sparse_csc()), expected)
    else:
        csr = torch.sparse_coo_tensor(unique.flip(0), torch.ones(unique.size(1)), (n, n))
        assert_same(layer(graph.x, csr.coalesce().to_sparse_csr(), passed), expected)


def assert_flow_swaps(build: Callable[..., torch.nn.Module], graph: Graph, with_attr: bool) -> None:
    """``flow='target_to_source'`` reads the rows of the index the other way round."""
    torch.manual_seed(3)
    layer = build()
    torch.manual_seed(3)
    other = build(flow="target_to_source")
    attr = graph.edge_attr if with_attr else None
    assert_same(other(graph.x, graph.edge_index.flip(0), attr), call(layer, graph, with_attr))


def assert_survives_copies(layer: torch.nn.Module, graph: Graph, with_attr: bool) -> None:
    """deepcopy, pickle, torch.save and a state_dict round trip keep the function."""
    expected = call(layer, graph, with_attr)
    assert_same(call(copy.deepcopy(layer), graph, with_attr), expected)
    assert_same(call(pickle.loads(pickle.dumps(layer)), graph, with_attr), expected)
    buffer = io.BytesIO()
    torch.save(layer.state_dict(), buffer)
    buffer.seek(0)
    other = copy.deepcopy(layer)
    other.reset_parameters()  # type: ignore[operator]
    other.load_state_dict(torch.load(buffer, weights_only=True))
    assert_same(call(other, graph, with_attr), expected)


def assert_same_through_messages(layer: torch.nn.Module, graph: Graph, with_attr: bool) -> None:
    """PyG's own propagate, one message an edge, gives the ops' numbers and gradients."""
    from torch_geometric.nn import MessagePassing

    def run() -> tuple[list[Tensor], tuple[Tensor, ...]]:
        out = flat(call(layer, graph, with_attr))
        parameters = [p for p in layer.parameters() if p.requires_grad]
        return out, torch.autograd.grad(_total(out), parameters, allow_unused=True)

    fused, fused_gradients = run()
    hooks = [
        module.register_message_forward_hook(lambda *args: None)
        for module in layer.modules()
        if isinstance(module, MessagePassing)
    ]
    seen, gradients = run()
    for hook in hooks:
        hook.remove()
    assert_same(seen, fused)
    assert_same(gradients, fused_gradients, rtol=1e-9, atol=1e-10)


def assert_same_gradients_with_create_graph(
    layer: torch.nn.Module, graph: Graph, with_attr: bool
) -> None:
    """Gradients that keep their graph equal those that do not."""
    x = graph.x.clone().requires_grad_()
    attr = graph.edge_attr.clone().requires_grad_() if with_attr else None
    inputs = [x, *([attr] if attr is not None else []), *layer.parameters()]

    def gradients(create_graph: bool) -> list[Tensor]:
        total = _total(flat(layer(x, graph.edge_index, attr)))
        found = torch.autograd.grad(total, inputs, create_graph=create_graph, allow_unused=True)
        return [g for g in found if g is not None]

    assert_same(gradients(True), gradients(False))


def assert_torch_func(
    run: Callable[..., Sequence[Tensor]], *leaves: Tensor, rtol: float = 1e-10, atol: float = 1e-12
) -> None:
    """torch.func agrees with plain autograd, of all outputs by all leaves."""
    close: Any = partial(torch.testing.assert_close, rtol=rtol, atol=atol)
    values, places = tuple(t.detach() for t in leaves), tuple(range(len(leaves)))
    tangents = tuple(map(torch.randn_like, values))

    def flat(*given: Tensor) -> Tensor:
        return torch.cat([out.flatten() for out in run(*given)])

    wanted = torch.autograd.functional.jacobian(flat, values)
    close(torch.autograd.functional.jacobian(flat, values, vectorize=True), wanted)
    for transform in (torch.func.jacrev, torch.func.jacfwd):
        close(transform(flat, places)(*values), wanted)
    along = [(slope * t).flatten(1).sum(1) for slope, t in zip(wanted, tangents, strict=True)]
    close(torch.func.jvp(flat, values, tangents)[1], sum(along))

    slopes = torch.func.grad(lambda *given: flat(*given).sin().sum(), places)
    halves = tuple(value / 2 for value in values)
    several = [torch.stack(pair) for pair in zip(values, halves, strict=True)]
    close(torch.func.vmap(flat)(*several), torch.stack([flat(*values), flat(*halves)]))
    by_sample = zip(slopes(*values), slopes(*halves), strict=True)
    close(torch.func.vmap(slopes)(*several), tuple(map(torch.stack, by_sample)))
    of_first = torch.func.vmap(lambda t: flat(t, *values[1:]))(several[0])
    close(of_first, torch.stack([flat(t, *values[1:]) for t in several[0]]))


def assert_transforms(layer: torch.nn.Module, graph: Graph, with_attr: bool) -> None:
    """torch.func's transforms, by the features of the nodes."""
    attr = graph.edge_attr if with_attr else None
    assert_torch_func(lambda x: flat(layer(x, graph.edge_index, attr)), graph.x)


def assert_handles_degenerate_graphs(
    layer: torch.nn.Module, channels: int, edge_dim: int, with_attr: bool
) -> None:
    """No nodes, no edges, one node: finite outputs and gradients of the right shapes."""
    dtype = next(layer.parameters()).dtype
    for num_nodes in (0, 1, 4):
        x = torch.randn(num_nodes, channels, dtype=dtype, requires_grad=True)
        empty = Graph(x, torch.empty(2, 0, dtype=torch.long), torch.empty(0, edge_dim, dtype=dtype))
        out = flat(call(layer, empty, with_attr))
        for t in out:
            assert t.size(0) == num_nodes
        sum((t.sum() for t in out), torch.zeros(())).backward()
        assert x.grad is not None and x.grad.isfinite().all()


def assert_compiles(layer: torch.nn.Module, graphs: list[Graph], with_attr: bool) -> None:
    """One graph of machine code without breaks serves all sizes, forward and backward."""
    torch._dynamo.reset()
    options = {"cpp_cache_precompile_headers": False}  # which take longer than one graph's code
    compiled = torch.compile(layer, fullgraph=True, dynamic=True, options=options)
    for graph in graphs:
        expected = flat(call(layer, graph, with_attr))
        out = flat(call(compiled, graph, with_attr))
        assert_same(out, expected, rtol=1e-8, atol=1e-9)
        wanted = torch.autograd.grad(_total(expected), list(layer.parameters()), allow_unused=True)
        found = torch.autograd.grad(_total(out), list(layer.parameters()), allow_unused=True)
        assert_same(found, wanted, rtol=1e-8, atol=1e-9)


def assert_same_in_onnx(
    module: torch.nn.Module, inputs: tuple[Tensor, ...], sizes: Any, others: Sequence[Any]
) -> None:
    """ONNX Runtime gives the module's numbers, at other sizes than those exported."""
    onnxruntime = pytest.importorskip("onnxruntime")
    pytest.importorskip("onnxscript")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        program = torch.onnx.export(
            module, inputs, dynamo=True, dynamic_shapes=sizes, verbose=False
        )
    assert program is not None
    session = onnxruntime.InferenceSession(program.model_proto.SerializeToString())
    names = [put.name for put in session.get_inputs()]
    for given in others:
        read = {name: t.numpy() for name, t in zip(names, given, strict=False)}
        found = [torch.from_numpy(output) for output in session.run(None, read)]
        assert_same(found, [t.detach() for t in flat(module(*given))], rtol=1e-5, atol=1e-5)


def assert_autocasts(layer: torch.nn.Module, graph: Graph, with_attr: bool) -> None:
    """Under bfloat16 autocast the outputs stay close, and gradients are finite float32."""
    layer = copy.deepcopy(layer).float()
    single = Graph(graph.x.float(), graph.edge_index, graph.edge_attr.float())
    expected = flat(call(layer, single, with_attr))
    with torch.autocast("cpu", dtype=torch.bfloat16):
        out = flat(call(layer, single, with_attr))
    for t, e in zip(out, expected, strict=True):
        scale = e.abs().max().clamp(min=1.0)
        assert (t.float() - e).abs().max() / scale < 0.05
    _total(out).backward()
    for parameter in layer.parameters():
        if parameter.grad is not None:
            assert parameter.grad.dtype == torch.float32 and parameter.grad.isfinite().all()


def _total(out: list[Any]) -> Tensor:
    return sum((t.square().sum() for t in out), torch.zeros(()))
