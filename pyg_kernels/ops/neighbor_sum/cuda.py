"""The neighbour sum in Triton, a program a node: no atomics, the same bits every run.

What belongs to edge types is written edge by edge, and added up by type after that.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import Any

import torch
import triton
from torch import Tensor

from pyg_kernels.ops.expression import Row
from pyg_kernels.ops.neighbor_sum.definition import TABLES, traced
from pyg_kernels.ops.triton_source import kernel_of, statements

_NUMBERS = ("u", "v", "e", "r")  # of rows of a source, a target, an edge and a type
_SOURCE = """\
def kernel(offset, order, source, target, edge_type, {tensors}, D, BLOCK: tl.constexpr):
    node = tl.program_id(0).to(tl.int64)
    k = tl.arange(0, BLOCK)
    inside = k < D
    {before}
    for i in range(tl.load(offset + node), tl.load(offset + node + 1)):
        e = tl.load(order + i)
        u, v = tl.load(source + e).to(tl.int64), tl.load(target + e).to(tl.int64)
        r = {edge_type}
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
    nodes, channels, edge_type = len(order[0]) - 1, given[0].size(1), index[2]
    rows = [len(index[0]) if k in TABLES else len(tensors[k]) for k in of]
    shapes = [(n, *tensors[k].shape[1:]) for n, k in zip(rows, of, strict=True)]
    outs = [given[0].new_empty(shape) for shape in shapes or [(nodes, channels)]]
    there = tuple(t is not None for t in tensors)
    kernel = _kernel(there, act, of, given[0].dtype, edge_type is not None)
    if nodes and channels:
        _run(kernel, nodes, channels, *order, *index, *given, *outs)
    for i, k in enumerate(of):
        if edge_type is not None and k in TABLES:
            table = torch.zeros_like(tensors[k])
            # Sorts on CUDA, where `index_add_` would add in any order.
            outs[i] = table.index_put_((edge_type,), outs[i], accumulate=True)
    return outs


def _run(kernel: Any, nodes: int, channels: int, *args: Tensor | None) -> None:
    with torch.cuda.device_of(args[0]):
        kernel[(nodes,)](*args, channels, BLOCK=triton.next_power_of_2(channels))


@cache
def _kernel(
    there: tuple[bool, ...], act: str, of: tuple[int, ...], dtype: torch.dtype, typed: bool
) -> Any:
    inputs, outputs = traced(there, act, of)
    name = {id(value): f"x{j}" for j, value in enumerate(inputs)}
    kind = str(dtype).replace("torch", "tl")
    before, body, after = list[str](), list[str](), list[str]()
    for j, row in enumerate(value.data for value in inputs):
        mask = ", mask=inside, other=0.0" if row.wide else ""
        body.append(f"x{j} = tl.load({_place(f'in{j}', _NUMBERS[row.index], row)}{mask})")
    body += statements([value for _, value in outputs], name, kind)
    for j, (row, value) in enumerate(outputs):
        found, to, number = name[id(value)], body, _NUMBERS[row.index]
        if row.adds:
            before.append(f"sum{j} = tl.zeros([BLOCK], {kind})")
            body.append(f"sum{j} += {found}")
            found, to, number = f"sum{j}", after, "node"
        if not row.wide:
            found = f"tl.sum(tl.where(inside, {found}, 0.0), axis=0)"
        mask = ", mask=inside" if row.wide else ""
        to.append(f"tl.store({_place(f'out{j}', number, row)}, {found}{mask})")
    tensors = [f"in{j}" for j in range(len(inputs))] + [f"out{j}" for j in range(len(outputs))]
    source = _SOURCE.format(
        tensors=", ".join(tensors),
        edge_type="tl.load(edge_type + e).to(tl.int64)" if typed else "e",
        before="\n    ".join(before),
        body="\n        ".join(body),
        after="\n    ".join(after),
    )
    return kernel_of(source)


def _place(tensor: str, number: str, row: Row) -> str:
    return f"{tensor} + {number} * D + k" if row.wide else f"{tensor} + {number}"
