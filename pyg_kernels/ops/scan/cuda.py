"""Scans of recurrences on CUDA, in Triton: kernels are written out from traced expressions.

A program reads one text and one block of channels through time and carries states in registers.
No two programs write to the same place, and sums over programs are made afterwards, so that results
are bitwise reproducible. If products of the previous outputs are needed, a program takes all
channels of several texts and makes the products itself, with their map in shared memory. If the map
is too large for that, programs take one step at a time, with states in memory, and the products are
made between the steps.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache, partial
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
_STEPS, _LOADS, _BYTES = 12, 48, 2**16  # at most: steps ahead, loads in all, bytes of these
# For a program that makes products: its texts; the bytes per number of its map, which in single
# precision is a sum of two numbers; and the bytes that are held beside the map.
_TEXTS, _NUMBER_BYTES, _OTHER_BYTES = 16, 8, 2**15
# Compute capabilities for which Triton makes fast products of doubles, from 3.5 on.
_IS_NEW = tuple(map(int, triton.__version__.split(".")[:2])) >= (3, 5)
_DOUBLE_PRODUCTS = ((8, 0), (9, 0), (10, 0)) if _IS_NEW else ()

_CARRIED = {"out": "h", "after": "c", "to_h": "g_h", "to_c": "g_c"}  # from token to token
_NUMBER = {Index.ALL: "0", Index.TOKEN: "token", Index.BEFORE: "before"}  # else the text's
_SIZES = ("stride", "B", "N", "D")  # rows from token to token; texts, rows of all tokens, channels
_PRODUCT = 'tl.dot({}, {}, input_precision="tf32x3")'  # as exact as single precision
_BETWEEN = ("begin", "end")  # the first step, and the one after the last
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
_SOURCE_OF_TEXTS = """\
def kernel({arguments}, BLOCK: tl.constexpr, STAGES: tl.constexpr, TEXTS: tl.constexpr):
    text = (tl.program_id(0).to(tl.int64) * TEXTS + tl.arange(0, TEXTS))[:, None]
    row, column = tl.arange(0, BLOCK)[:, None], tl.arange(0, BLOCK)[None, :]
    zeros = tl.zeros([TEXTS, BLOCK], {dtype})
    k = tl.zeros([TEXTS, BLOCK], tl.int32) + column
    there = text < B
    inside = there & (k < D)
    first = tl.load(start + text, mask=there, other=0)
    steps = tl.load(length + text, mask=there, other=0)
    last = tl.max(tl.max(steps, 1), 0)
    before = N + text
    {ahead}
    for i in tl.range(begin, last, num_stages=STAGES):
        t = {step}
        there = t < steps
        inside = there & (k < D)
        token = first + t * stride
        before = tl.where(t > 0, token - stride, N + text)
        {body}
    there = text < B
    inside = there & (k < D)
    {after}
"""


class Kernel:
    """A step in Triton, in a loop through time.

    Args:
        inputs: The leaves, in lists by name.
        outputs: Rows and their values, in lists by other names; rows of one number get sums.
        dtype: The precision of all rows, float32 or float64.

    Attributes:
        whole: Whether a program must hold all channels.
    """

    _source, _backwards = _SOURCE, "begin + steps - 1 - i"
    _shape, _axes, _mask = (
        "[BLOCK]",
        "",
        "",
    )  # of all numbers; of sums over channels, and their mask

    def __init__(self, inputs: Inputs, outputs: Written, dtype: torch.dtype) -> None:
        written = [one for some in outputs.values() for one in some]
        every = list(in_order([value for _, value in written]))
        self.whole = any(value.op in ("sum", "count") for value in every)
        self.whole = self.whole or not all(row.wide for row, _ in written)
        self._of, self._back = (inputs, outputs, dtype), "to_c" in outputs
        self._rows = {name: len(some) for name, some in (*inputs.items(), *outputs.items()) if some}
        self._size, self._dtype = dtype.itemsize, str(dtype).replace("torch", "tl")
        self._ahead, self._body, self._after = list[str](), list[str](), list[str]()
        self._name: dict[int, str] = {}
        self._read(inputs, outputs, {id(value) for value in every})
        self._body += statements(every, self._name, self._dtype, self._shape, self._axes)
        for name, some in outputs.items():
            for j, (row, value) in enumerate(some):
                self._write(name, j, row, self._name[id(value)])
        self._carry(
            [
                (f"{before}_{j}", self._name[id(value)])
                for name, before in _CARRIED.items()
                for j, (_, value) in enumerate(outputs.get(name, ())[: len(inputs.get(before, ()))])
            ]
        )
        self._function = self._compiled()

    def along(
        self, layout: Layout, memory: Memory, stages: int = _STEPS
    ) -> Callable[[int, int], None]:
        """A launcher along texts, from a step until another; loads are at most `stages` ahead."""
        channels = memory["c"][0][0].size(1)
        if not (layout.num_texts and channels):
            return lambda begin, end: None
        args: list[Any] = [layout.start.contiguous(), layout.length.contiguous()]
        args += [layout.stride, layout.num_texts, layout.num_rows, channels]
        for name, count in self._rows.items():
            table = memory[name][0][0]
            args += [table, table.stride(0), *(column for _, column in memory[name][:count])]
        texts, block = self._tile(channels)
        loads = max(1, sum("tl.load" in line for line in self._body))
        bytes_ahead = self._bytes_ahead(block, layout.start.device)
        ahead = min(stages, _LOADS // loads, bytes_ahead // (loads * texts * block * self._size))
        return launcher(
            self._function,
            (triton.cdiv(layout.num_texts, texts), triton.cdiv(channels, block), 1),
            args,
            BLOCK=block,
            STAGES=max(1, ahead),
            **self._options(block),
            enable_fp_fusion=not self.whole,  # equal values differ by exactly 0
        )

    @cache  # noqa: B019 (kept as long as the kernels are)
    def of_texts(self, masked: bool) -> KernelOfTexts:
        """The kernel that reads several texts and makes the products, with factors if `masked`."""
        return KernelOfTexts(*self._of, masked)

    def makes_products(self, feed: Tensor) -> bool:
        """Whether the kernel of `of_texts` can hold the map."""
        fed, channels = self._of[0]["kept"], feed.size(1)
        map_bytes = _NUMBER_BYTES * len(fed) * _block_of_texts(channels) ** 2
        fits = map_bytes + _OTHER_BYTES <= _shared_bytes(feed.device, self._of[2])
        return fits and channels > 0 and all(value.data.wide for value in fed)

    def _tile(self, channels: int) -> tuple[int, int]:
        """The texts and the channels of a program."""
        return 1, max(_BLOCK, triton.next_power_of_2(channels)) if self.whole else _BLOCK

    def _bytes_ahead(self, block: int, device: torch.device) -> int:
        """The bytes that loads ahead of their use may take."""
        return _BYTES

    def _options(self, block: int) -> dict[str, int]:
        return {"num_warps": max(1, min(8, block // 128))}

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
        place, mask = _place(name, j, row), ", mask=inside" if row.wide else self._mask
        if not row.wide:
            found = f"tl.sum(tl.where(inside, {found}, 0.0){self._axes})"
        if row.index == Index.PART:
            found = f"tl.load({place}{mask}) + {found}"
        to.append(f"tl.store({place}, {found}{mask})")

    def _carry(self, pairs: Sequence[tuple[str, str]]) -> None:
        """Hands what is computed to the next token, or to the stores after the loop."""
        self._body.append(" = ".join(", ".join(side) for side in zip(*pairs, strict=True)))

    def _compiled(self) -> Any:
        sizes = [*_SIZES, *_BETWEEN]
        arguments = ["start", "length", *_SIZES]
        for name, count in self._rows.items():
            sizes += [f"{name}_row", *(f"{name}_at{j}" for j in range(count))]
            arguments += [f"{name}_base", *sizes[-1 - count :]]
        arguments += _BETWEEN
        source = self._source.format(
            arguments=", ".join(arguments),
            dtype=self._dtype,
            step=self._backwards if self._back else "i",
            ahead="\n    ".join(self._ahead),
            body="\n        ".join(self._body),
            after="\n    ".join(self._after),
        )
        return kernel_of(source, sizes)


class KernelOfTexts(Kernel):
    """A kernel for all channels of several texts, with products of the previous outputs.

    Args:
        inputs: The leaves.
        outputs: What is written.
        dtype: The precision of all rows.
        masked: Whether there are factors on the previous outputs.
    """

    _source, _backwards = _SOURCE_OF_TEXTS, "last - 1 - i"
    _shape, _axes, _mask = "[TEXTS, BLOCK]", ", 1, keep_dims=True", ", mask=there"

    def __init__(self, inputs: Inputs, outputs: Written, dtype: torch.dtype, masked: bool) -> None:
        self._masked = masked
        super().__init__(inputs, outputs, dtype)

    def _tile(self, channels: int) -> tuple[int, int]:
        return _TEXTS, _block_of_texts(channels)

    def _bytes_ahead(self, block: int, device: torch.device) -> int:
        map_bytes = _NUMBER_BYTES * len(self._of[0]["kept"]) * block**2
        return _shared_bytes(device, self._of[2]) - map_bytes - _OTHER_BYTES

    def _options(self, block: int) -> dict[str, int]:
        warps = max(4, block // 8)
        return {"TEXTS": _TEXTS, "num_warps": warps, "maxnreg": min(255, 2**11 // warps)}

    def _read(self, inputs: Inputs, outputs: Written, used: set[int]) -> None:
        """Computes the products instead of reading them, and keeps them for the derivative."""
        fed, own = inputs["kept"], dict(inputs)
        entry = "(row + {0} * D) * D + column" if self._back else "(column + {0} * D) * D + row"
        self._rows["feed"] = 1
        for j in range(len(fed)):
            place = f"feed_base + {entry.format(j)}"
            load = f"tl.load({place}, mask=(row < D) & (column < D), other=0.0)"
            self._ahead.append(f"feed_{j} = {load}")
        for name in ["factor"] * self._masked + ["past"] * (not self._back):
            self._rows[name] = 1
            place = _place(name, 0, Row(Index.TEXT))
            self._ahead.append(f"{name}_0 = tl.load({place}, mask=inside, other=0.0)")
        if not self._back:
            del own["kept"]
            self._body.append("read = past_0" + " * factor_0" * self._masked)  # 0 beyond D
            for j, value in enumerate(fed):
                self._name[id(value)] = f"kept_{j}"
                self._body.append(f"kept_{j} = {_PRODUCT.format('read', f'feed_{j}')}")
                self._write("kept", j, value.data, f"kept_{j}")
        super()._read(own, outputs, used)

    def _write(self, name: str, j: int, row: Row, found: str) -> None:
        adds = row.index == Index.PART
        super()._write(name, j, row, f"tl.where(inside, {found}, 0.0)" if adds else found)

    def _carry(self, pairs: Sequence[tuple[str, str]]) -> None:
        inputs, outputs, _ = self._of
        given = dict(pairs)
        if self._back:
            found = [self._name[id(value)] for _, value in outputs["to_x"][: len(inputs["kept"])]]
            for j, one in enumerate(found):
                one = f"tl.where(inside, {one}, 0.0)"
                self._body.append(f"given_{j} = {_PRODUCT.format(one, f'feed_{j}')}")
            total = " + ".join(f"given_{j}" for j in range(len(found)))
            given["g_h_0"] += f" + ({total})" + " * factor_0" * self._masked
        else:
            given["past_0"] = self._name[id(outputs["out"][0][1])]
        pairs = [(name, f"tl.where(inside, {new}, {name})") for name, new in given.items()]
        super()._carry(pairs)


def _place(name: str, j: int, row: Row) -> str:
    """The address of a row's numbers."""
    number = _NUMBER.get(Index(row.index), "text")
    return f"{name}_base + {number} * {name}_row + {name}_at{j}{' + k' if row.wide else ''}"


def _block_of_texts(channels: int) -> int:
    return max(_TEXTS, triton.next_power_of_2(channels))


@cache
def _shared_bytes(device: torch.device, dtype: torch.dtype) -> int:
    """The bytes of shared memory for a program; 0 if its products would not be fast."""
    if device.type != "cuda":  # interpreted, or compiled for an H100
        return 227 * 2**10
    properties = torch.cuda.get_device_properties(device)
    bytes_there: int = getattr(properties, "shared_memory_per_block_optin", 0)
    of_doubles = (properties.major, properties.minor) in _DOUBLE_PRODUCTS
    is_fast = of_doubles if dtype == torch.float64 else properties.major >= 8
    return bytes_there if is_fast else 0


class _Steps:
    """Rows of the texts that have a token at a step: views of a grid, or copies.

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
        """The numbers of the rows, unless they are a grid."""
        return self._first[: len(self.texts[step])] + step * self.layout.stride

    def of_texts(self, step: int, rows: Tensor) -> Tensor:
        """One row for each of these texts."""
        return rows if self.full else rows.index_select(0, self.texts[step])


def _run(kernel: Kernel, layout: Layout, memory: Memory, fed: Sequence[Any], back: bool) -> None:
    with torch.cuda.device_of(layout.start):
        if not fed:
            kernel.along(layout, memory)(0, layout.num_steps)
            return
        feed, mask, past, *_ = fed
        if kernel.makes_products(feed):
            memory |= {"feed": [(feed, 0)], "factor": [(mask, 0)], "past": [(past, 0)]}
            kernel.of_texts(mask is not None).along(layout, memory)(0, layout.num_steps)
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
    """Runs step by step, with products of the previous outputs: see `Kernels`."""
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
    """The derivative of `_along_fed`."""
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
            g_h.index_add_(0, steps.texts[t], given)  # each text occurs once: order is irrelevant


kernels = partial(Kernels, Kernel, _run, lambda layout, together: layout.num_texts)
