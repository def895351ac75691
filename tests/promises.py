"""The promises that every layer keeps, one function for each promise."""

import copy
import warnings
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves
from torch_geometric.data import Batch
from torch_geometric.nn import MessagePassing

from tests.graphs import Graph, batch_of

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


def call(layer: torch.nn.Module, graph: Graph | Batch, with_attr: bool) -> Out:
    return layer(graph.x, graph.edge_index, edge_attr=graph.edge_attr if with_attr else None)


def assert_permutation_equivariant(layer: torch.nn.Module, graph: Graph, with_attr: bool) -> None:
    """Renumbering nodes and reordering edges only renumbers the outputs; no value changes."""
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
    together = [t.split(sizes) for t in flat(call(layer, batch_of(graphs), with_attr))]
    for i, graph in enumerate(graphs):
        assert_same([t[i] for t in together], list(flat(call(layer, graph, with_attr))))


def assert_same_through_messages(layer: torch.nn.Module, graph: Graph, with_attr: bool) -> None:
    """PyG's own propagate, with one message per edge, gives the ops' outputs and gradients."""

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


def assert_torch_func(
    run: Callable[..., Sequence[Tensor]], *leaves: Tensor, rtol: float = 1e-10, atol: float = 1e-12
) -> None:
    """torch.func and autograd agree on the derivatives of all outputs by all leaves."""
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
    """torch.func's transforms agree with autograd with respect to the node features."""
    given = {"edge_attr": graph.edge_attr if with_attr else None}
    assert_torch_func(lambda x: flat(layer(x, graph.edge_index, **given)), graph.x)


def assert_handles_degenerate_graphs(
    layer: torch.nn.Module, channels: int, edge_dim: int, with_attr: bool
) -> None:
    """Graphs of no, one or several nodes without edges: right sizes and finite gradients."""
    dtype = next(layer.parameters()).dtype
    for num_nodes in (0, 1, 4):
        x = torch.randn(num_nodes, channels, dtype=dtype, requires_grad=True)
        empty = Graph(x, torch.empty(2, 0, dtype=torch.long), torch.empty(0, edge_dim, dtype=dtype))
        out = flat(call(layer, empty, with_attr))
        for t in out:
            assert t.size(0) == num_nodes
        sum((t.sum() for t in out), torch.zeros(())).backward()
        assert x.grad is not None and x.grad.isfinite().all()


def assert_same_in_onnx(
    module: torch.nn.Module, inputs: tuple[Tensor, ...], sizes: Any, others: Sequence[Any]
) -> None:
    """ONNX Runtime gives the module's outputs at sizes other than those of the export."""
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
    """Under bfloat16 autocast the outputs stay close, and gradients are finite float32.

    Those of a layer in double precision do not change.
    """
    exact = flat(call(layer, graph, with_attr))
    single = Graph(graph.x.float(), graph.edge_index, graph.edge_attr.float())
    rounded = copy.deepcopy(layer).float()
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert_same(call(layer, graph, with_attr), exact)
        out = flat(call(rounded, single, with_attr))
    for t, e in zip(out, exact, strict=True):
        scale = e.abs().max().clamp(min=1.0)
        assert (t.float() - e).abs().max() / scale < 0.05
    _total(out).backward()
    for parameter in rounded.parameters():
        if parameter.grad is not None:
            assert parameter.grad.dtype == torch.float32 and parameter.grad.isfinite().all()


def _total(out: list[Any]) -> Tensor:
    return sum((t.square().sum() for t in out), torch.zeros(()))


class LargestTensor(TorchDispatchMode):
    """Records the bytes of the largest tensor of numbers that any operation returns."""

    nbytes = 0

    def __torch_dispatch__(
        self, func: Any, types: Any, args: Sequence[Any] = (), kwargs: Any = None
    ) -> Any:
        found = func(*args, **(kwargs or {}))
        for part in tree_leaves(found):
            is_dense = isinstance(part, Tensor) and part.layout == torch.strided
            if is_dense and part.dtype != torch.uint8:
                self.nbytes = max(self.nbytes, part.untyped_storage().nbytes())
        return found
