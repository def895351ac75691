"""Writes expressions as Triton source, and makes kernels from it."""

from __future__ import annotations

import hashlib
import linecache
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import torch
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
    "sum": "zeros + tl.sum(tl.where(inside, {}, 0.0){axes})",
    "count": "zeros + D",
}


def statements(
    values: Sequence[Value],
    name: dict[int, str],
    dtype: str,
    shape: str = "[BLOCK]",
    axes: str = "",
) -> list[str]:
    """Lines that compute values for a block of channels; adds the names of the values to `name`.

    Sums and counts are over the `D` channels `inside`, and use `zeros` of the block's shape; `axes`
    are further arguments of sums.
    """
    found = []
    for value in in_order(values, name):
        if id(value) not in name:
            args = [name[id(arg)] for arg in value.args]
            name[id(value)] = f"v{len(name)}"
            full = f"tl.full({shape}, {value.data!r}, {dtype})"
            made = full if value.op == "constant" else _OPS[value.op].format(*args, axes=axes)
            found.append(f"{name[id(value)]} = {made}")
    return found


def kernel_of(source: str, sizes: Sequence[str] = ()) -> Any:
    """The kernel named ``kernel`` in some source; it is not specialised to values of `sizes`."""
    file = f"<pyg_kernels {hashlib.sha256(source.encode()).hexdigest()}>"
    linecache.cache[file] = len(source), None, source.splitlines(True), file  # for Triton
    space = {"tl": tl, "__name__": __name__}
    exec(compile(source, file, "exec"), space)
    return triton.jit(space["kernel"], do_not_specialize=sizes)


def launcher(
    kernel: Any, grid: tuple[int, int, int], args: Sequence[Any], **given: Any
) -> Callable[..., None]:
    """A function that launches a kernel again and again, each time with further arguments.

    Steps that take longer than a launch are done once: inspecting the other arguments, and the
    device and its stream, which must be the current ones.

    Args:
        kernel: The kernel, which does not depend on values of the further arguments.
        grid: The numbers of programs.
        args: The first arguments.
        given: The last arguments, which are constants, and Triton's own options.
    """
    constants = [given[parameter] for parameter in kernel.arg_names if parameter in given]
    run: Any = None

    def launch(*further: Any) -> None:
        nonlocal run
        if run:
            run(*args, *further, *constants)
        elif compiled := kernel[grid](*args, *further, **given):  # the interpreter compiles nothing
            run = partial(compiled[grid], stream=torch.cuda.current_stream().cuda_stream)

    return launch
