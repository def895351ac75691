"""Expressions written out in Triton, and kernels made of such source."""

from __future__ import annotations

import hashlib
import linecache
from collections.abc import Sequence
from typing import Any

import triton
import triton.language as tl

from pyg_kernels.ops.expression import Value, in_order

_OPS = {
    "add": "{} + {}",
    "sub": "{} - {}",
    "mul": "{} * {}",
    "div": "{} / {}",
    "sqrt": "tl.sqrt({})",
    "tanh": "2 * tl.sigmoid(2 * {}) - 1",
    "sigmoid": "tl.sigmoid({})",
    "lt": "{} < {}",
    "le": "{} <= {}",
    "isnan": "{0} != {0}",
    "and": "{} & {}",
    "or": "{} | {}",
    "select": "tl.where({}, {}, {})",
    "sum": "zeros + tl.sum(tl.where(inside, {}, 0.0))",
    "count": "zeros + D",
}


def statements(values: Sequence[Value], name: dict[int, str], dtype: str) -> list[str]:
    """What computes values for a block of channels; adds their names to those that are known.

    Sums and counts are of the `D` channels `inside`, and take `zeros` of the block.
    """
    found = []
    for value in in_order(values, name):
        if id(value) not in name:
            args = [name[id(arg)] for arg in value.args]
            name[id(value)] = f"v{len(name)}"
            full = f"tl.full([BLOCK], {value.data!r}, {dtype})"
            made = full if value.op == "constant" else _OPS[value.op].format(*args)
            found.append(f"{name[id(value)]} = {made}")
    return found


def kernel_of(source: str, sizes: Sequence[str] = ()) -> Any:
    """The kernel of the name ``kernel`` in some source; it does not depend on values of sizes."""
    file = f"<pyg_kernels {hashlib.sha256(source.encode()).hexdigest()}>"
    linecache.cache[file] = len(source), None, source.splitlines(True), file  # for Triton
    space = {"tl": tl, "__name__": __name__}
    exec(compile(source, file, "exec"), space)
    return triton.jit(space["kernel"], do_not_specialize=sizes)
