"""Scans of recurrences on CUDA, in Triton: kernels are written out from traced expressions.

A program takes one text and one block of channels through time, with what is carried in registers.
No two programs write to the same place, and what they share is added up after them, so that results
are the same bits every run. Where products of the outputs before are needed, programs take a step
at a time, with what is carried in memory, and the products are made between them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import torch
import triton
from torch import Tensor

from pyg_kernels.ops.expression import Row, in_order
from pyg_kernels.ops.ragged import Layout
from pyg_kernels.ops.scan.traced import Index, Inputs, Kernels, Memory, Written
from pyg_kernels.ops.triton_source import kernel_of, launcher, statements

_BLOCK = 32  # channels of a program, which is one warp, unless channels depend on each other
# Loads are issued some steps ahead of their use. Of eight settings none was better on an H100.
_STEPS, _LOADS, _BYTES = 12, 48, 2**16  # at most: steps, loads of all of them, what these hold

_CARRIED = {"out": "h", "after": "c", "to_h": "g_h", "to_c": "g_c"}  # from token to token
_NUMBER = {Index.ALL: "0", Index.TOKEN: "token", Index.BEFORE: "before"}  # else the text's
_SIZES = ("stride", "N", "D")  # the rows from token to token, those of all tokens; the channels
_BETWEEN = ("begin", "end")  # the first step, and that after the last
_SOURCE = """\
def kernel({arguments}, BLOCK: tl.constexpr, STAGES: tl.constexpr):
    text = tl.program_id(0).to(tl.int64)
    k = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    inside = k < D
    zeros = tl.zeros([BLOCK], {dtype})
    first, steps = tl.load(start + text), tl.minimum(tl.load(length + text), end)
    before = tl.where((begin > 0) & (begin < steps), first + (begin - 1) * stride, N + text)
    {ahead}
    for i in tl.range(begin, steps, num_stages=STAGES):
        t = {step}
        token = first + t * stride
        before = tl.where(t > 0, token - stride, N + text)
        {body}
    {after}
"""


class Kernel:
    """A step in Triton, in a loop through time.

    Args:
        inputs: The leaves, by a name for those of one kind.
        outputs: What is written where, by other names; for one number for all channels, their sum.
        dtype: Of all rows, float32 or float64.

    Attributes:
        whole: Whether a program must hold all channels.
    """

    def __init__(self, inputs: Inputs, outputs: Written, dtype: torch.dtype) -> None:
        written = [one for some in outputs.values() for one in some]
        every = list(in_order([value for _, value in written]))
        self.whole = any(value.op in ("sum", "count") for value in every)
        self.whole = self.whole or not all(row.wide for row, _ in written)
        self._rows = {name: len(some) for name, some in (*inputs.items(), *outputs.items()) if some}
        self._size, self._dtype = dtype.itemsize, str(dtype).replace("torch", "tl")
        self._ahead, self._body, self._after = list[str](), list[str](), list[str]()
        self._name: dict[int, str] = {}
        self._read(inputs, outputs, {id(value) for value in every})
        self._body += statements(every, self._name, self._dtype)
        for name, some in outputs.items():
            for j, (row, value) in enumerate(some):
                self._write(name, j, row, self._name[id(value)])
        self._carry(inputs, outputs)
        self._function = self._compiled("to_c" in outputs)

    def along(
        self, layout: Layout, memory: Memory, stages: int = _STEPS
    ) -> Callable[[int, int], None]:
        """What runs it along texts, from a step until another, with loads at most so far ahead."""
        channels = memory["c"][0][0].size(1)
        if not (layout.num_texts and channels):
            return lambda begin, end: None
        args: list[Any] = [layout.start.contiguous(), layout.length.contiguous()]
        args += [layout.stride, layout.num_rows, channels]
        for name, count in self._rows.items():
            table = memory[name][0][0]
            args += [table, table.stride(0), *(column for _, column in memory[name][:count])]
        block = max(_BLOCK, triton.next_power_of_2(channels)) if self.whole else _BLOCK
        loads = max(1, sum("tl.load" in line for line in self._body))
        ahead = max(1, min(stages, _LOADS // loads, _BYTES // (loads * block * self._size)))
        return launcher(
            self._function,
            (layout.num_texts, triton.cdiv(channels, block), 1),
            args,
            BLOCK=block,
            STAGES=ahead,
            num_warps=max(1, min(8, block // 128)),
            enable_fp_fusion=not self.whole,  # equal values differ by exactly 0
        )

    def _read(self, inputs: Inputs, outputs: Written, used: set[int]) -> None:
        after = {_CARRIED.get(name) for name in outputs}
        for name, some in inputs.items():
            carried = name in after
            for j, value in enumerate(some):
                if carried or id(value) in used:
                    ahead = carried or value.data.index == Index.ALL
                    where = _place(name, j, value.data) + ("" if value.data.wide else " + k * 0")
                    self._name[id(value)] = f"{name}_{j}"
                    load = f"{name}_{j} = tl.load({where}, mask=inside, other=0.0)"
                    (self._ahead if ahead else self._body).append(load)

    def _write(self, name: str, j: int, row: Row, found: str) -> None:
        """Stores each token's numbers in the loop, and sums over tokens after it."""
        to = self._body if row.index == Index.TOKEN else self._after
        if row.index == Index.PART:
            self._ahead.append(f"{name}_{j} = zeros")
            self._body.append(f"{name}_{j} += {found}")
        if row.index != Index.TOKEN:
            found = f"{_CARRIED.get(name, name)}_{j}"
        place, mask = _place(name, j, row), ", mask=inside" if row.wide else ""
        if not row.wide:
            found = f"tl.sum(tl.where(inside, {found}, 0.0))"
        if row.index == Index.PART:
            found = f"tl.load({place}{mask}) + {found}"
        to.append(f"tl.store({place}, {found}{mask})")

    def _carry(self, inputs: Inputs, outputs: Written) -> None:
        """Hands what is computed to the next token, or to what is stored after the loop."""
        pairs = [
            (f"{before}_{j}", self._name[id(value)])
            for name, before in _CARRIED.items()
            for j, (_, value) in enumerate(outputs.get(name, ())[: len(inputs.get(before, ()))])
        ]
        self._body.append(" = ".join(", ".join(side) for side in zip(*pairs, strict=True)))

    def _compiled(self, backwards: bool) -> Any:
        sizes = [*_SIZES, *_BETWEEN]
        arguments = ["start", "length", *_SIZES]
        for name, count in self._rows.items():
            sizes += [f"{name}_row", *(f"{name}_at{j}" for j in range(count))]
            arguments += [f"{name}_base", *sizes[-1 - count :]]
        arguments += _BETWEEN
        source = _SOURCE.format(
            arguments=", ".join(arguments),
            dtype=self._dtype,
            step="begin + steps - 1 - i" if backwards else "i",
            ahead="\n    ".join(self._ahead),
            body="\n        ".join(self._body),
            after="\n    ".join(self._after),
        )
        return kernel_of(source, sizes)


def _place(name: str, j: int, row: Row) -> str:
    """Where numbers lie."""
    number = _NUMBER.get(Index(row.index), "text")
    return f"{name}_base + {number} * {name}_row + {name}_at{j}{' + k' if row.wide else ''}"


class _Steps:
    """Rows of the texts that have a token at a step: views of a grid's, or copies.

    Args:
        layout: The texts.
    """

    def __init__(self, layout: Layout) -> None:
        self.layout, self.full, self.number = layout, layout.full, layout.num_steps
        if not self.full:
            order = layout.order()
            self.texts = [order[:count] for count in layout.active()]
            self._first = layout.start.index_select(0, order)

    def rows(self, step: int) -> Tensor:
        """The numbers of the rows, of no grid."""
        return self._first[: len(self.texts[step])] + step * self.layout.stride

    def of_texts(self, step: int, rows: Tensor) -> Tensor:
        """One row a text."""
        return rows if self.full else rows.index_select(0, self.texts[step])


def _run(kernel: Kernel, layout: Layout, memory: Memory, fed: Sequence[Any], back: bool) -> None:
    with torch.cuda.device_of(layout.start):
        if not fed:
            kernel.along(layout, memory)(0, layout.num_steps)
            return
        launch, steps = kernel.along(layout, memory, stages=1), _Steps(layout)
        if back:
            _back_fed(launch, steps, *fed)
        else:
            _along_fed(launch, steps, *fed)


def _along_fed(
    launch: Callable[[int, int], None],
    steps: _Steps,
    feed: Tensor,
    mask: Tensor | None,
    h0: Tensor,
    h: Tensor,
    kept: Tensor,
) -> None:
    """From step to step, with the products of the outputs before: see `Kernels`."""
    layout, across = steps.layout, feed.t()
    if steps.full:
        read, write = layout.steps(h[: layout.num_rows]), layout.steps(kept)
    for t in range(steps.number):
        if t == 0:
            past = steps.of_texts(t, h0)
        else:
            past = read[t - 1] if steps.full else h.index_select(0, steps.rows(t) - layout.stride)
        if mask is not None:
            past = past * steps.of_texts(t, mask)
        if steps.full:
            torch.mm(past, across, out=write[t])
        else:
            kept.index_copy_(0, steps.rows(t), past @ across)
        launch(t, t + 1)


def _back_fed(
    launch: Callable[[int, int], None],
    steps: _Steps,
    feed: Tensor,
    mask: Tensor | None,
    g_x: Tensor,
    g_h: Tensor,
) -> None:
    """Its derivative."""
    layout, fed = steps.layout, len(feed)
    if steps.full:
        read = layout.steps(g_x)
    for t in range(steps.number - 1, -1, -1):
        launch(t, t + 1)
        given = read[t] if steps.full else g_x.index_select(0, steps.rows(t))
        if steps.full and mask is None:
            g_h.addmm_(given[:, :fed], feed)
            continue
        given = given[:, :fed] @ feed
        if mask is not None:
            given *= steps.of_texts(t, mask)
        if steps.full:
            g_h += given
        else:
            g_h.index_add_(0, steps.texts[t], given)  # a text once: in no order of its own


kernels = partial(Kernels, Kernel, _run, int)
