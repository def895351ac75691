"""The sums over neighbours that propagate walks along the edges of a graph."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from pyg_kernels.ops.activations import name_of
from pyg_kernels.ops.dtypes import common_dtype
from pyg_kernels.ops.edges import Edges
from pyg_kernels.ops.neighbour_sum import cpu, reference
from pyg_kernels.ops.neighbour_sum.gated_messages import GatedMessageSum, gates_fit
from pyg_kernels.ops.neighbour_sum.messages import (
    MessageActivationSum,
    MessageSum,
    shared_messages,
)
from pyg_kernels.ops.neighbour_sum.reference import Gate, edge_weight
from pyg_kernels.ops.transforms import transforms_active

__all__ = ["Gate", "edge_weight", "neighbour_activation_sum", "neighbour_sum", "path_in_use"]


def neighbour_sum(
    z: Tensor, edges: Edges, gate: Gate | None = None, bond: Tensor | None = None
) -> Tensor:
    r"""Sums the neighbours' states, each weighted by its edge.

    .. math::
        S(z)_v = \sum_{e = (u \to v)} \sigma(a_u + b_v + k_e) \odot B_e \odot z_u

    with the sigmoid :math:`\sigma` there only for a gate and :math:`B_e` only for bond factors.

    Args:
        z: The states of the source nodes, shape :obj:`(num_sources, D)`.
        edges: The edges.
        gate: The gate's logits: a on source nodes, :obj:`(num_sources, D)`, b on target nodes,
            :obj:`(num_targets, D)`, and k on kinds of edges, :obj:`(T, D)`, or None.
        bond: The bond factors B, one row a kind of edge, :obj:`(T, D)`.

    Returns:
        The sums, of shape :obj:`(num_targets, D)`.
    """
    dtype = common_dtype(z, bond, *(gate or ()))
    z, bond = z.to(dtype), None if bond is None else bond.to(dtype)
    if gate is not None:
        source, target, kind = gate
        gate = (source.to(dtype), target.to(dtype), None if kind is None else kind.to(dtype))
    if path_in_use(z.device) == "definition":
        return reference.neighbour_sum(z, edges, gate, bond)
    messages = None if bond is None else shared_messages(z, edges)
    if messages is not None and gate is None:
        return MessageSum.apply(z, bond, edges, messages)
    if messages is not None and gate is not None and gates_fit(gate, edges):
        return GatedMessageSum.apply(z, *gate, bond, edges, messages)[0]
    return cpu.NeighbourSum.apply(z, *(gate or (None, None, None)), bond, edges)


def neighbour_activation_sum(
    a: Tensor, edges: Edges, act: Callable[[Tensor], Tensor], kind: Tensor | None = None
) -> Tensor:
    r"""Sums an activation of the neighbours: :math:`\sum_{e = (u \to v)} \sigma(a_u + k_e)`.

    Args:
        a: One row a source node, shape :obj:`(num_sources, D)`.
        edges: The edges.
        act: The activation :math:`\sigma`, elementwise; relu, tanh and sigmoid are fused.
        kind: One row k a kind of edge, :obj:`(T, D)`, or None.

    Returns:
        The sums, of shape :obj:`(num_targets, D)`.
    """
    if kind is None:
        return neighbour_sum(act(a), edges)
    dtype = common_dtype(a, kind)
    a, kind = a.to(dtype), kind.to(dtype)
    name = name_of(act)
    if name is None or path_in_use(a.device) == "definition":
        return reference.neighbour_activation_sum(a, edges, act, kind)
    messages = shared_messages(a, edges)
    if messages is not None:
        return MessageActivationSum.apply(a, kind, edges, messages, name)[0]
    return cpu.NeighbourActivationSum.apply(a, kind, edges, name)


def path_in_use(device: torch.device) -> str:
    """``'blocks'`` (CPU, hand-written backward) or ``'definition'`` (PyTorch ops).

    The definition also serves ``torch.compile`` and the transforms of ``torch.func``.
    """
    if device.type != "cpu" or torch.compiler.is_compiling() or transforms_active():
        return "definition"
    return "blocks"
