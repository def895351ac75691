"""The walks' scan, block by block of time steps, with its own backward.

What depends on the time step before is one op a step, on that step's rows; everything else is
one op a block, on rows that are still in cache.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from functools import partial
from typing import Any

import torch
from torch import Tensor

from pyg_kernels.ops.linear_scan import reference
from pyg_kernels.ops.packing import Packing
from pyg_kernels.ops.transforms import by_definition, is_batched, transforms_active

BLOCK_ROWS = 1024
_MOST_KEPT = 2**24  # numbers; larger blocks, of very many texts, take new memory


def blocks_of(packing: Packing) -> list[Block]:
    """Runs of time steps of about as many tokens as a block holds, in the order of time."""
    found = []
    stop = packing.num_steps
    while stop:
        start = stop - 1
        while start and packing.offsets[stop] - packing.offsets[start - 1] <= BLOCK_ROWS:
            start -= 1
        found.append(Block(packing, start, stop))
        stop = start
    return found[::-1]


class Block:
    """The time steps from `start` to `stop`, and the rows of their tokens."""

    def __init__(self, packing: Packing, start: int, stop: int) -> None:
        self.packing, self.start, self.stop = packing, start, stop
        self.rows = slice(packing.offsets[start], packing.offsets[stop])
        self.sizes = packing.batch_sizes[start:stop]
        self.num_rows = self.rows.stop - self.rows.start

    def before(self, c: Tensor, initial: Tensor, out: Tensor) -> Tensor:
        """c[t-1] of each row: a view where the rows allow it, written to `out` otherwise."""
        packing, rows, first = self.packing, self.rows, self.sizes[0]
        if self.start and packing.uniform:
            return c[rows.start - first : rows.stop - first]
        begun = 0 if self.start else first
        if begun:
            out[:begun] = initial[:begun]
        if packing.uniform:
            out[begun:] = c[: rows.stop - first]
        else:
            torch.index_select(c, 0, self._rows_before(rows.start + begun, c), out=out[begun:])
        return out

    def add_one_step_back(self, passed: Tensor, onto: Tensor) -> None:
        """Adds what each row passes to the token before it; the first step's goes elsewhere."""
        first = self.sizes[0]
        if self.packing.uniform:
            onto[: self.num_rows - first].add_(passed[first:])
        elif self.num_rows > first:
            index = self._rows_before(self.rows.start + first, onto) - self.rows.start
            onto.index_add_(0, index, passed[first:])

    def _rows_before(self, start: int, like: Tensor) -> Tensor:
        before = self.packing.rows(like.device).before
        begun = self.packing.batch_sizes[0]
        return before[start - begun : self.rows.stop - begun]


class WalkBlocks:
    r"""Walks of all orders through the blocks of a packing, and back.

    Args:
        packing: The texts.
        combine: ``'mul'`` or ``'add'``.
        normalize: Whether inputs are weighted by one minus the decay.
        initial: The states before the first token, :obj:`(n, num_texts, D)`.
        states: :math:`c_1, \ldots, c_n`, :obj:`(N, D)`, which the way forward writes.
    """

    def __init__(
        self,
        packing: Packing,
        combine: str,
        normalize: bool,
        initial: Tensor,
        states: Sequence[Tensor],
    ) -> None:
        self.packing, self.mul, self.normalize = packing, combine == "mul", normalize
        self.initial, self.states = initial.unbind(0), states
        self.blocks = blocks_of(packing)
        self.longest = max((block.num_rows for block in self.blocks), default=0)
        self._steps = [packing.split(c) for c in states]

    def forward(self, block: Block, p: Sequence[Tensor], decay: Tensor) -> None:
        """Writes the states of a block.

        Args:
            block: The block; the states of the one before must be there.
            p: The block's projections, one tensor an order.
            decay: The block's decays, row by row, or one for all.
        """
        weights = _by_step(decay, block)
        (scratch,) = workspace(p[0], [(block.num_rows, p[0].size(1))])
        for j, (c, projection) in enumerate(zip(self._steps, p, strict=True)):
            z = projection
            if j:
                below = block.before(self.states[j - 1], self.initial[j - 1], scratch)
                combined = torch.mul if self.mul else torch.add
                z = combined(below, projection, out=scratch)
            state = c[block.start - 1] if block.start else self.initial[j]
            for t, z_t, weight in zip(
                range(block.start, block.stop), z.split(block.sizes), weights, strict=True
            ):
                if len(state) != len(z_t):
                    state = state[: len(z_t)]
                if self.normalize:
                    torch.lerp(z_t, state, weight, out=c[t])
                else:
                    torch.addcmul(z_t, state, weight, out=c[t])
                state = c[t]

    def start_backward(self) -> None:
        """Before the last block: nothing is carried back yet."""
        self.carried = [torch.zeros_like(c) for c in self.initial]

    def backward(
        self,
        block: Block,
        p: Sequence[Tensor],
        decay: Tensor,
        upstream: Sequence[Tensor | None],
        grad_p: Sequence[Tensor],
        grad_decay: Tensor | None,
    ) -> None:
        """Writes the gradients of a block, after those of the block behind it.

        Args:
            block: The block.
            p: Its projections.
            decay: Its decays, row by row, or one for all.
            upstream: What reaches the block's states of each order from outside, or None.
            grad_p: Where the projections' gradients go. The last may be the last of `upstream`.
            grad_decay: Where the decays' go, row by row, channel by channel, or None.
        """
        last = len(p) - 1
        shape = (block.num_rows, p[0].size(1))
        gathered, shared, passed, below, here = workspace(p[0], [shape] * 5)
        arriving = False  # whether `passed` holds what order j + 1 passes on to order j
        for j in range(last, -1, -1):
            g = self._gathered(block, upstream[j], passed if arriving else None, gathered)
            self.scan_back(block, g, decay, j, passed if arriving else None)
            reached = before = block.before(self.states[j], self.initial[j], here)
            if j:
                before = block.before(self.states[j - 1], self.initial[j - 1], below)
            if grad_decay is not None:
                reached = self._reached(j, reached, before, p[j], shared)
                if j == last:
                    torch.mul(g, reached, out=grad_decay)
                else:
                    grad_decay.addcmul_(g, reached)
            plain = j == 0 or not self.mul
            share = g
            if self.normalize:
                share = torch.addcmul(g, g, decay, value=-1, out=grad_p[j] if plain else shared)
            elif plain:
                share = grad_p[j].copy_(g)
            if not plain:
                torch.mul(share, before, out=grad_p[j])
            if j:
                if self.mul:
                    torch.mul(share, p[j], out=passed)
                else:
                    passed.copy_(share)
                arriving = True

    def _gathered(
        self, block: Block, upstream: Tensor | None, passed: Tensor | None, out: Tensor
    ) -> Tensor:
        """What reaches the states of one order but for later steps of the same order."""
        if upstream is None:
            out.zero_()
        else:
            out.copy_(upstream)
        if passed is not None:
            block.add_one_step_back(passed, out)
        return out

    def scan_back(
        self,
        block: Block,
        g: Tensor,
        decay: Tensor,
        order: int = 0,
        passed: Tensor | None = None,
    ) -> None:
        """Adds to each gradient what the same order's later states pass back."""
        steps, weights = g.split(block.sizes), _by_step(decay, block)
        carried = self.carried[order]
        steps[-1].add_(carried[: len(steps[-1])])
        for t in range(len(steps) - 2, -1, -1):
            later = steps[t + 1]
            g_t = steps[t] if len(steps[t]) == len(later) else steps[t][: len(later)]
            torch.addcmul(g_t, later, weights[t + 1], out=g_t)
        first = steps[0]
        back = carried[: len(first)]
        torch.mul(first, weights[0], out=back)
        if passed is not None:
            back.add_(passed[: len(first)])

    def _reached(self, j: int, here: Tensor, below: Tensor, p: Tensor, out: Tensor) -> Tensor:
        """What a larger decay adds to c_j[t], from c_j[t-1] and c_{j-1}[t-1]."""
        if not self.normalize:
            return here
        if j == 0:
            return torch.sub(here, p, out=out)
        if self.mul:
            return torch.addcmul(here, below, p, value=-1, out=out)
        return torch.sub(here, below, out=out).sub_(p)


class WalkScan(torch.autograd.Function):
    """Inputs: the packing, combine, normalize, the decay, the initial states, P_1..P_n."""

    @staticmethod
    def forward(
        packing: Packing,
        combine: str,
        normalize: bool,
        decay: Tensor,
        initial: Tensor,
        *projections: Tensor,
    ) -> tuple[Tensor, ...]:
        states = tuple(torch.empty_like(p, memory_format=_ROWS) for p in projections)
        walk = WalkBlocks(packing, combine, normalize, initial, states)
        for block in walk.blocks:
            rows = block.rows
            walk.forward(block, [p[rows] for p in projections], _at(decay, rows))
        return states

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, ...]) -> None:
        ctx.packing, ctx.combine, ctx.normalize, decay, initial, *projections = inputs
        ctx.save_for_backward(decay, initial, *projections, *output)
        ctx.set_materialize_grads(False)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor | None) -> tuple[Tensor | None, ...]:
        decay, initial, *rest = ctx.saved_tensors
        projections, states = rest[: len(rest) // 2], rest[len(rest) // 2 :]
        if torch.is_grad_enabled() or transforms_active() or any(map(is_batched, grads)):
            run = partial(_definition, ctx.packing, ctx.combine, ctx.normalize)
            inputs = (None, None, None, decay, initial, *projections)
            return by_definition(run, inputs, ctx.needs_input_grad, grads)
        needs_decay, needs_initial = ctx.needs_input_grad[3:5]
        walk = WalkBlocks(ctx.packing, ctx.combine, ctx.normalize, initial, states)
        walk.start_backward()
        grad_p = [torch.empty_like(p, memory_format=_ROWS) for p in projections]
        total = DecayGradient(decay, grad_p[0], walk.longest) if needs_decay else None
        for block in reversed(walk.blocks):
            rows = block.rows
            walk.backward(
                block,
                [p[rows] for p in projections],
                _at(decay, rows),
                [None if g is None else g[rows] for g in grads],
                [g[rows] for g in grad_p],
                None if total is None else total.at(block),
            )
            if total is not None:
                total.add(block)
        return (
            *(None, None, None, None if total is None else total.value),
            torch.stack(walk.carried) if needs_initial else None,
            *grad_p,
        )


class DecayGradient:
    """The decay's gradient: a row a token, or added up over tokens for a vector or a number."""

    def __init__(self, decay: Tensor, like: Tensor, longest: int) -> None:
        self.value = torch.zeros_like(decay, memory_format=_ROWS)
        self.direct = self.value.shape == like.shape
        self.scratch = None if self.direct else like.new_empty(longest, like.size(1))

    def at(self, block: Block) -> Tensor:
        """Where a block's gradients go, row by row and channel by channel."""
        if self.scratch is None:
            return self.value[block.rows]
        return self.scratch[: block.num_rows]

    def add(self, block: Block) -> None:
        """Adds up what was written."""
        if self.scratch is not None:
            onto = _at(self.value, block.rows)
            onto += self.scratch[: block.num_rows].sum_to_size(onto.shape)


_ROWS = torch.contiguous_format
_kept = threading.local()


def workspace(like: Tensor, shapes: Sequence[tuple[int, int]], name: str = "walk") -> list[Tensor]:
    """Memory for one block, kept from call to call: new memory costs more than the work in it.

    Not on other devices, whose streams might use it at the same time; and not for tensors that
    only stand for others, as those of a tracer.
    """
    sizes = [rows * columns for rows, columns in shapes]
    size = sum(sizes)
    plain = like.device.type == "cpu" and type(like) in (Tensor, torch.nn.Parameter)
    if not plain or size > _MOST_KEPT:
        memory = like.new_empty(size)
    else:
        memory = _memory(f"{name} {like.dtype}", like, size)
    parts = memory[:size].split(sizes)
    return [part.view(shape) for part, shape in zip(parts, shapes, strict=True)]


def _memory(key: str, like: Tensor, size: int) -> Tensor:
    memory: Tensor | None = getattr(_kept, key, None)
    if memory is None or memory.numel() < size or memory.is_inference():
        memory = like.new_empty(size)
        setattr(_kept, key, memory)
    return memory


def _at(decay: Tensor, rows: slice) -> Tensor:
    """A block's decays where there is one a token; the decay itself where there is one for all."""
    return decay[rows] if decay.dim() == 2 else decay


def _by_step(decay: Tensor, block: Block) -> Sequence[Tensor]:
    return decay.split(block.sizes) if decay.dim() == 2 else (decay,) * len(block.sizes)


def _definition(
    packing: Packing,
    combine: str,
    normalize: bool,
    *inputs: Any,
) -> tuple[Tensor, ...]:
    decay, initial, *projections = inputs[3:]
    every = decay.expand_as(projections[0])
    return reference.walk_scan(projections, every, packing, initial, combine, normalize)
