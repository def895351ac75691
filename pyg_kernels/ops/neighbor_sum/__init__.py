"""The sums over neighbours that propagate walks along the edges of a graph."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

from pyg_kernels.ops.activations import function_name
from pyg_kernels.ops.checks import check_shapes
from pyg_kernels.ops.dtypes import common_dtype
from pyg_kernels.ops.edges import Edges
from pyg_kernels.ops.neighbor_sum import definition
from pyg_kernels.ops.neighbor_sum.definition import Gate, message_weight
from pyg_kernels.ops.operator import Operator, Outputs, is_plain

__all__ = ["Gate", "message_weight", "neighbor_sum"]

_NAMES = ("z", "gate[0]", "gate[1]", "gate[2]", "factor", "shift")
_GATE_TARGET = 2

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

    where w are the edge weights and t(e) is the type of edge e; parts that are not given are left
    out. These are the messages of Lei et al., `"Deriving Neural Architectures from Sequence and
    Graph Kernels" <https://arxiv.org/abs/1705.09037>`_ (2017), section 3, and of its relabelling.

    Args:
        z: The states of the source nodes, shape :obj:`(num_sources, D)`.
        edges: The edges.
        gate: The gate's logits: a on source nodes, :obj:`(num_sources, D)`, b on target nodes,
            :obj:`(num_targets, D)`, and k on edge types, :obj:`(T, D)`, or None.
        factor: The factors B, one row per edge type, :obj:`(T, D)`.
        shift: The shifts s, one row per edge type, :obj:`(T, D)`.
        act: The activation :math:`\sigma`, elementwise: ``'relu'``, ``'tanh'`` and ``'sigmoid'``
            are fused, and so are PyTorch's functions of these names.

    Returns:
        The sums, of shape :obj:`(num_targets, D)`.

    Raises:
        ValueError: For operands of other shapes, or an activation of another name.
    """
    name = act if isinstance(act, str) else "none" if act is None else function_name(act)
    if act is not None and shift is None:  # once per node
        z, name = definition.activation(act)(z), "none"
    check_shapes(z=(z, (edges.num_sources, z.size(-1))))
    given = (*(gate or (None, None, None)), factor, shift)
    dtype = common_dtype(z, *given)
    wide = torch.promote_types(dtype, torch.float32)
    tensors = [None if t is None else t.to(wide) for t in (z, *given, edges.weight)]
    if name is None:
        out = definition.neighbor_sum(*tensors, *edges.index, edges.num_targets, act)
    else:
        definition.activation(name)  # raises for one that is not known
        order = _order(edges, tensors)
        out = _OPERATOR(*tensors, *edges.index, *order, edges.num_targets, name)[0]
    return out.to(dtype)


def _check_shapes(tensors: Sequence[Any], index: Sequence[Any], num_targets: int) -> None:
    (sources, channels), edges = tensors[0].shape, index[0].numel()
    types = edges if index[2] is None else None
    rows = (sources, sources, num_targets, types, types, types)
    for name, tensor, count in zip(_NAMES, tensors, rows, strict=False):
        if tensor is None:
            continue
        if tensor.dim() != 2 or tensor.size(1) != channels or count not in (None, tensor.size(0)):
            wanted = f"({'T' if count is None else count}, {channels})"
            raise ValueError(f"{name} has shape {tuple(tensor.shape)}: expected {wanted}")
    check_shapes(weight=(tensors[6], (edges,)))


def _order(edges: Edges, tensors: Sequence[Any]) -> Sequence[Tensor | None]:
    """The edges by target and, where a backward may follow, by source; None for the definition."""
    if torch.compiler.is_compiling():
        needed = not torch.onnx.is_in_onnx_export()
    else:
        needed = _OPERATOR.module_for(tensors[0]) is not None and is_plain(*tensors)
    if not needed:
        return None, None, None, None
    learns = torch.is_grad_enabled() and any(t is not None and t.requires_grad for t in tensors)
    return *edges.by_target(), *(edges.by_source() if learns else (None, None))


# Messages and gates are never kept: the backward computes them again. Each path has one function,
# `sums(side, order, tensors, index, act, grad, of)`. It goes through the edges of each source (side
# 0) or target (side 1) and computes the sums or, for tensors whose numbers are in `of`, gradients.


def _forward(*args: Any) -> Outputs:
    tensors, index, by_target = args[:7], args[7:10], args[10:12]
    _check_shapes(tensors, index, args[-2])
    kernels = _OPERATOR.kernels_for(tensors[0])
    if kernels is None or by_target[0] is None:
        return _OPERATOR.padded(_definition(*args))
    return _OPERATOR.padded(tuple(kernels.sums(1, by_target, tensors, index, args[-1])))


def _backward(
    grads: Sequence[Tensor | None],
    tensors: Sequence[Any],
    outputs: Sequence[Tensor],
    settings: Sequence[Any],
    needed: Sequence[bool],
) -> Sequence[Tensor | None]:
    kernels, orders = _OPERATOR.kernels_for(outputs[0]), {1: tensors[10:12], 0: tensors[12:14]}
    if grads[0] is None or kernels is None or orders[0][0] is None:
        return _OPERATOR.by_definition(tensors, settings, needed, grads)
    found: list[Tensor | None] = [None] * len(tensors)
    for side, order in orders.items():
        of = tuple(k for k in range(7) if needed[k] and (k == _GATE_TARGET) == (side == 1))
        if of:
            own = kernels.sums(side, order, tensors[:7], tensors[7:10], settings[1], grads[0], of)
            for k, gradient in zip(of, own, strict=True):
                found[k] = gradient
    return found


def _definition(*args: Any) -> Outputs:
    return (definition.neighbor_sum(*args[:10], *args[-2:]),)


def _fake(z: Tensor, *rest: Any) -> Outputs:
    return z.new_empty(rest[-2], z.size(1)), z.new_empty(0)


_OPERATOR = Operator(
    "neighbor_sum",
    "Tensor z, Tensor? gate_source, Tensor? gate_target, Tensor? gate_edge, Tensor? factor, "
    "Tensor? shift, Tensor? weight, Tensor source, Tensor target, Tensor? edge_type, "
    "Tensor? target_offset, Tensor? target_order, Tensor? source_offset, Tensor? source_order, "
    "SymInt num_targets, str act",
    _forward,
    _backward,
    {"numba": f"{__name__}.cpu", "triton": f"{__name__}.cuda"},
    _definition,
    _fake,
    num_outputs=2,
    first_kept=1,
)
