"""The sums over neighbours that propagate walks along the edges of a graph."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from importlib import import_module
from importlib.util import find_spec
from types import ModuleType
from typing import Any

import torch
from torch import Tensor

from pyg_kernels.ops.checks import check_shapes
from pyg_kernels.ops.dtypes import common_dtype
from pyg_kernels.ops.edges import Edges
from pyg_kernels.ops.neighbor_sum import definition
from pyg_kernels.ops.neighbor_sum.definition import Gate, message_weight
from pyg_kernels.ops.operator import Operator, cpu_backend, is_plain

__all__ = ["Gate", "message_weight", "neighbor_sum", "path_in_use"]

_NAMES = ("z", "gate[0]", "gate[1]", "gate[2]", "factor", "shift")

_Act = str | Callable[[Tensor], Tensor] | None


def neighbor_sum(
    z: Tensor,
    edges: Edges,
    gate: Gate | None = None,
    factor: Tensor | None = None,
    shift: Tensor | None = None,
    act: _Act = None,
) -> Tensor:
    r"""Sums the neighbours' states, each weighted by its edge.

    .. math::
        S(z)_v = \sum_{e = (u \to v)} w_e\, \mathrm{sigmoid}(a_u + b_v + k_{t(e)}) \odot
        B_{t(e)} \odot \sigma(z_u + s_{t(e)})

    with w the weights of the edges, t(e) the type of edge e, and each part there only where it is
    given: the messages of Lei et al., `"Deriving Neural Architectures from Sequence and Graph
    Kernels" <https://arxiv.org/abs/1705.09037>`_ (2017), section 3, and of its relabelling.

    Args:
        z: The states of the source nodes, shape :obj:`(num_sources, D)`.
        edges: The edges.
        gate: The gate's logits: a on source nodes, :obj:`(num_sources, D)`, b on target nodes,
            :obj:`(num_targets, D)`, and k on edge types, :obj:`(T, D)`, or None.
        factor: The factors B, one row an edge type, :obj:`(T, D)`.
        shift: The shifts s, one row an edge type, :obj:`(T, D)`.
        act: The activation :math:`\sigma`, elementwise: ``'relu'``, ``'tanh'`` and ``'sigmoid'``
            are fused, and so are PyTorch's functions of these names.

    Returns:
        The sums, of shape :obj:`(num_targets, D)`.

    Raises:
        ValueError: For operands of other shapes, or another name of an activation.
    """
    if act is not None and shift is None:  # once a node
        z, act = definition.activation(act)(z), None
    check_shapes(z=(z, (edges.num_sources, z.size(-1))))
    given = (*(gate or (None, None, None)), factor, shift)
    dtype = common_dtype(z, *given)
    wide = torch.promote_types(dtype, torch.float32)
    z, tensors = z.to(wide), [None if t is None else t.to(wide) for t in (*given, edges.weight)]
    name = definition.name_of(act)
    if name is None:
        out = _definition(z, *tensors, *edges.index, edges.num_targets, act)[0]
    else:
        order = _order(edges, z, tensors)
        out = _OPERATOR(z, *tensors, *edges.index, *order, edges.num_targets, name)[0]
    return out.to(dtype)


def path_in_use(device: torch.device) -> str:
    """``'numba'`` on CPU, ``'triton'`` on CUDA, or ``'definition'``: PyTorch's own ops.

    The definition also serves ONNX, the transforms of ``torch.func`` and second derivatives.
    """
    if device.type == "cuda" and _has_triton():
        return "triton"
    return cpu_backend() if device.type == "cpu" else "definition"


def _path(z: Tensor) -> str:
    known = z.dtype in (torch.float32, torch.float64)
    return path_in_use(z.device) if known else "definition"


@cache
def _has_triton() -> bool:
    return find_spec("triton") is not None


def _kernels(z: Tensor) -> ModuleType | None:
    """The kernels for a tensor; None for the definition."""
    path = _path(z)
    if path == "definition":
        return None
    return import_module(f"{__name__}.{'cuda' if path == 'triton' else 'cpu'}")


def _check_shapes(
    tensors: Sequence[Tensor | None], index: Sequence[Tensor | None], num_targets: int
) -> None:
    z, source, edge_type = tensors[0], index[0], index[2]
    assert z is not None and source is not None
    edges = source.numel()
    rows = (z.size(0), z.size(0), num_targets, *(3 * [edges if edge_type is None else None]))
    for name, tensor, count in zip(_NAMES, tensors, rows, strict=False):
        known = count if count is not None or tensor is None else tensor.size(0)
        if tensor is not None and tensor.shape != (known, z.size(-1)):
            wanted = f"({'T' if count is None else count}, {z.size(-1)})"
            raise ValueError(f"{name} has shape {tuple(tensor.shape)}: expected {wanted}")
    weight = tensors[6]
    if weight is not None and weight.shape != (edges,):
        raise ValueError(f"weight has shape {tuple(weight.shape)}: expected ({edges},)")


def _order(edges: Edges, z: Tensor, others: Sequence[Tensor | None]) -> Sequence[Tensor | None]:
    """The edges by target and, where a backward may follow, by source; None for the definition."""
    if torch.compiler.is_compiling():
        needed = not torch.onnx.is_in_onnx_export()
    else:
        needed = _path(z) != "definition" and is_plain(z, *others)
    if not needed:
        return None, None, None, None
    backward = torch.is_grad_enabled() and any(
        t is not None and t.requires_grad for t in (z, *others)
    )
    return *edges.by_target(), *(edges.by_source() if backward else (None, None))


def _forward(*args: Any) -> tuple[Tensor, Tensor]:
    tensors, index, (num_targets, act) = args[:7], args[7:10], args[-2:]
    _check_shapes(tensors, index, num_targets)
    kernels, by_target = _kernels(tensors[0]), args[10:12]
    if kernels is None or by_target[0] is None:
        (out,) = _definition(*args)
    else:
        out = kernels.forward(tensors, index, by_target, num_targets, act)
    return out, out.new_empty(0)


def _backward(
    grads: Sequence[Tensor | None],
    tensors: Sequence[Tensor | None],
    outputs: Sequence[Tensor],
    settings: Sequence[int | str],
    needed: Sequence[bool],
) -> Sequence[Tensor | None]:
    grad, by_target, by_source = grads[0], tensors[10:12], tensors[12:14]
    kernels = _kernels(outputs[0])
    if grad is None or kernels is None or by_source[0] is None:
        return _OPERATOR.by_definition(tensors, settings, needed, grads)
    parts = (tensors[:7], tensors[7:10], by_target, by_source, needed)
    return *kernels.backward(grad, *parts, settings[1]), *([None] * 7)


def _definition(*args: Any) -> tuple[Tensor]:
    return (definition.neighbor_sum(*args[:10], *args[-2:]),)


def _fake(z: Tensor, *rest: Tensor | int | str | None) -> tuple[Tensor, Tensor]:
    return z.new_empty(rest[-2], z.size(1)), z.new_empty(0)  # type: ignore[arg-type]


_OPERATOR = Operator(
    "neighbor_sum",
    "Tensor z, Tensor? gate_source, Tensor? gate_target, Tensor? gate_edge, Tensor? factor, "
    "Tensor? shift, Tensor? weight, Tensor source, Tensor target, Tensor? edge_type, "
    "Tensor? target_offset, Tensor? target_order, Tensor? source_offset, Tensor? source_order, "
    "SymInt num_targets, str act",
    _forward,
    _backward,
    _definition,
    _fake,
    num_outputs=2,
)
