"""The neighbour sum in Triton, one program per node: no atomics, the same bits in every run.

For gradients of tables, each program goes through a part of the nodes and adds up the gradients of
its edges by edge type; the parts are added up afterwards.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import Any

import torch
import triton
from torch import Tensor

from pyg_kernels.ops.expression import Row
from pyg_kernels.ops.neighbor_sum.definition import PART, TABLES, traced
from pyg_kernels.ops.triton_source import kernel_of, statements

_MOST_PARTS = 8192
_NUMBERS = ("u", "v", "e", "r", "at")  # of the rows of source, target, edge, type and part
_SOURCE = """\
def kernel(
    offset, order, source, target, edge_type, {tensors}, nodes, types, D, BLOCK: tl.constexpr
):
    part, parts = tl.program_id(0).to(tl.int64), tl.num_programs(0)
    k = tl.arange(0, BLOCK)
    inside = k < D
    for node in range(nodes * part // parts, nodes * (part + 1) // parts):
        {before}
        for i in range(tl.load(offset + node), tl.load(offset + node + 1)):
            e = tl.load(order + i)
            u, v = tl.load(source + e).to(tl.int64), tl.load(target + e).to(tl.int64)
            r = {edge_type}
            at = part * types + r
            {body}
        {after}
"""


def sums(
    side: int,
    order: Sequence[Any],
    tensors: Sequence[Any],
    index: Sequence[Any],
    act: str,
    grad: Tensor | None = None,
    of: tuple[int, ...] = (),
) -> list[Tensor]:
    """The sums of messages at targets, or the gradients of some tensors: see the package."""
    given = [t.contiguous() for t in (*tensors, grad) if t is not None]
    z, nodes, channels, edge_type = given[0], len(order[0]) - 1, given[0].size(1), index[2]
    types = max((len(tensors[k]) for k in TABLES if tensors[k] is not None), default=0)
    tables = [k in TABLES and edge_type is not None for k in of]
    parts = nodes
    if any(tables):  # so that their sums hold no more than the messages
        parts = max(1, min(nodes, _MOST_PARTS, len(index[0]) // max(types, 1)))
    outs = [
        z.new_zeros(parts * types, channels) if by_part else z.new_empty(tensors[k].shape)
        for k, by_part in zip(of, tables, strict=True)
    ] or [z.new_empty(nodes, channels)]
    there = tuple(t is not None for t in tensors)
    kernel = _kernel(there, act, of, z.dtype, edge_type is not None)
    if nodes and channels:
        _run(kernel, parts, *order, *index, *given, *outs, nodes, types, channels)
    for i, k in enumerate(of):
        if tables[i]:
            outs[i] = outs[i].view(parts, types, channels).sum(0)[: len(tensors[k])]
    return outs


def _run(kernel: Any, parts: int, *args: Any) -> None:
    with torch.cuda.device_of(args[0]):
        kernel[(parts,)](*args, BLOCK=triton.next_power_of_2(args[-1]))


@cache
def _kernel(
    there: tuple[bool, ...], act: str, of: tuple[int, ...], dtype: torch.dtype, typed: bool
) -> Any:
    inputs, outputs = traced(there, act, of, typed)
    name = {id(value): f"x{j}" for j, value in enumerate(inputs)}
    kind = str(dtype).replace("torch", "tl")
    before, body, after = list[str](), list[str](), list[str]()
    for j, row in enumerate(value.data for value in inputs):
        mask = ", mask=inside, other=0.0" if row.wide else ""
        body.append(f"x{j} = tl.load({_place(f'in{j}', _NUMBERS[row.index], row)}{mask})")
    body += statements([value for _, value in outputs], name, kind)
    for j, (row, value) in enumerate(outputs):
        found, to, number = name[id(value)], body, _NUMBERS[row.index]
        place = _place(f"out{j}", number, row)
        mask = ", mask=inside" if row.wide else ""
        if row.adds and row.index == PART:
            found = f"tl.load({place}{mask}) + {found}"
        elif row.adds:
            before.append(f"sum{j} = tl.zeros([BLOCK], {kind})")
            body.append(f"sum{j} += {found}")
            found, to, place = f"sum{j}", after, _place(f"out{j}", "node", row)
        if not row.wide:
            found = f"tl.sum(tl.where(inside, {found}, 0.0), axis=0)"
        to.append(f"tl.store({place}, {found}{mask})")
    tensors = [f"in{j}" for j in range(len(inputs))] + [f"out{j}" for j in range(len(outputs))]
    source = _SOURCE.format(
        tensors=", ".join(tensors),
        edge_type="tl.load(edge_type + e).to(tl.int64)" if typed else "e",
        before="\n        ".join(before),
        body="\n            ".join(body),
        after="\n        ".join(after),
    )
    return kernel_of(source, ["nodes", "types"])


def _place(tensor: str, number: str, row: Row) -> str:
    return f"{tensor} + {number} * D + k" if row.wide else f"{tensor} + {number}"
