"""The maxima over n-grams stepped through time, all orders at once, with their own backward.

Each step is a few ops on one time step's rows, written in place, which stay in cache. Which
candidate won is seen again from the values in the backward, as a tensor of ones and zeros: PyTorch
multiplies and interpolates with those several times faster than it selects by a mask of booleans.

For sums the pairs of a start and a last token are visited lag by lag, all texts and tokens at
once, and beside each maximum stands which tokens it picked.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

import torch
from torch import Tensor

from pyg_kernels.ops.max_scan import reference
from pyg_kernels.ops.max_scan.reference import decay_powers
from pyg_kernels.ops.packing import Packing
from pyg_kernels.ops.transforms import by_definition, is_batched, transforms_active


class ProductMaxScan(torch.autograd.Function):
    """Inputs: packing, seen, decay, the largest and smallest products before the first token,
    (2, n, num_texts, D), and P_1..P_n.
    Outputs: the n largest, the n smallest, z_n, and the largest and smallest as one tensor.
    """

    @staticmethod
    def forward(
        packing: Packing, seen: Tensor, decay: Tensor, initial: Tensor, *projections: Tensor
    ) -> tuple[Tensor, ...]:
        n, first = len(projections), projections[0]
        states, z = first.new_empty(2, n, *first.shape), torch.empty_like(first)
        missing = _missing(n, seen)
        steps = zip(*(packing.split(p) for p in projections), strict=True)
        outs = zip(states.split(packing.batch_sizes, dim=2), packing.split(z), strict=True)
        offered, best = torch.empty_like(initial), torch.empty_like(initial)
        previous = initial
        for t, (p, (now, z_now), weight) in enumerate(
            zip(steps, outs, _steps(decay, packing), strict=True)
        ):
            texts = now.size(2)
            if texts != previous.size(2):
                previous = previous[:, :, :texts]
                offered, best = offered[:, :, :texts], best[:, :, :texts]
            offered[:, 0] = p[0]
            for j in range(1, n):
                torch.mul(previous[:, j - 1], p[j], out=offered[:, j])
            torch.maximum(offered[0], offered[1], out=best[0])
            torch.minimum(offered[0], offered[1], out=best[1])
            torch.mul(previous, weight, out=now)
            if t < n:
                lacking = missing[:, :texts]
                best.masked_fill_(lacking > t + 1, 0)
                now[0].masked_fill_(lacking > t, -torch.inf)
                now[1].masked_fill_(lacking > t, torch.inf)
            torch.maximum(now[0], best[0], out=now[0])
            torch.minimum(now[1], best[1], out=now[1])
            z_now.copy_(best[0, -1])
            previous = now
        return *states[0].unbind(0), *states[1].unbind(0), z, states

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, ...]) -> None:
        ctx.packing, *tensors = inputs
        ctx.mark_non_differentiable(output[-1])
        ctx.save_for_backward(*tensors, output[-1])
        ctx.set_materialize_grads(False)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor | None) -> tuple[Tensor | None, ...]:
        packing, needed = ctx.packing, ctx.needs_input_grad
        seen, decay, initial, *projections, states = ctx.saved_tensors
        *at_states, at_z, _ = grads
        if torch.is_grad_enabled() or transforms_active() or any(map(is_batched, grads)):
            run = partial(_product_definition, packing, seen)
            inputs = (None, None, decay, initial, *projections)
            return by_definition(run, inputs, needed, [*at_states, at_z])
        n = len(projections)
        outs = [torch.empty_like(p) for p in projections]
        decays = _DecayGradient(decay, packing, initial, needed[2])
        missing = _missing(n, seen)
        steps, out_steps = _transposed(projections, packing), _transposed(outs, packing)
        *given, given_z = [None if g is None else packing.split(g) for g in (*at_states, at_z)]
        weights, nows = _steps(decay, packing), states.split(packing.batch_sizes, dim=2)
        carried, passed = torch.zeros_like(initial), torch.zeros_like(initial)
        scratch = initial.new_empty(3, *initial.shape[2:])
        for t in range(packing.num_steps - 1, -1, -1):
            p, out, texts = steps[t], out_steps[t], packing.batch_sizes[t]
            grad, kept = carried[:, :, :texts], passed[:, :, :texts]
            previous = (nows[t - 1] if t else initial)[:, :, :texts]
            for k, g in enumerate(given):
                if g is not None:
                    grad[k // n, k % n].add_(g[t])
            lacking = missing[:, :texts] if t < n else None
            _part(grad, nows[t], previous, weights[t], lacking, t, kept)
            decays.add(t, kept, previous)
            kept.mul_(weights[t])
            if given_z is not None:
                arrived = given_z[t]
                if lacking is not None:
                    arrived = arrived.masked_fill(lacking[-1] > t + 1, 0)
                grad[0, -1].add_(arrived)
            torch.add(grad[0, 0], grad[1, 0], out=out[0])
            positive, swapped = scratch[0, :texts], scratch[1:, :texts]
            for j in range(1, n):
                # A negative factor makes the largest product of the smallest.
                torch.ge(p[j], 0, out=positive)
                torch.lerp(grad[1, j], grad[0, j], positive, out=swapped[0])
                torch.lerp(grad[0, j], grad[1, j], positive, out=swapped[1])
                torch.mul(swapped[0], previous[0, j - 1], out=out[j])
                out[j].addcmul_(swapped[1], previous[1, j - 1])
                kept[:, j - 1].addcmul_(swapped, p[j])
            carried, passed = passed, carried
        return None, None, decays.total(), carried, *outs


def _product_definition(packing: Packing, seen: Tensor, *inputs: Any) -> tuple[Tensor, ...]:
    decay, (c_max, c_min), *projections = inputs[2:]
    highs, lows, z = reference.product_max_scan(projections, decay, packing, c_max, c_min, seen)
    return *highs, *lows, z


class SumMaxScan(torch.autograd.Function):
    """Inputs: packing, whether gradients will be asked for, seen, decay, the table before the
    first token, (n, S, num_texts, D), c before it, (n, num_texts, D), and P_1..P_n.
    Outputs: c_1..c_n, z_n, the table after the last token, (n, S + T, num_texts, D), c as one
    tensor, and the tokens that z_2..z_n picked.
    """

    @staticmethod
    def forward(
        packing: Packing,
        traces: bool,
        seen: Tensor,
        decay: Tensor,
        table: Tensor,
        c: Tensor,
        *projections: Tensor,
    ) -> tuple[Tensor, ...]:
        sums = _Sums(packing, seen, decay, table, projections, traces)
        sums.run()
        rows, missing = sums.rows(), _missing(len(projections), seen)
        _clear(rows, missing, packing)
        z = rows[-1].clone()
        _decayed_max(rows, c, decay, missing, packing)
        return *rows.unbind(0), z, sums.table, rows, *sums.winners()

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, ...]) -> None:
        ctx.packing, _, *tensors = inputs
        extra = output[len(tensors) - 2 :]
        ctx.mark_non_differentiable(*extra)
        ctx.save_for_backward(*tensors, *extra)
        ctx.set_materialize_grads(False)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor | None) -> tuple[Tensor | None, ...]:
        packing, needed, n = ctx.packing, ctx.needs_input_grad, len(ctx.needs_input_grad) - 6
        seen, decay, table, initial, *rest = ctx.saved_tensors
        projections, states, winners = rest[:n], rest[n], rest[n + 1 :]
        grads = grads[: n + 2]
        if torch.is_grad_enabled() or transforms_active() or any(map(is_batched, grads)):
            run = partial(_sum_definition, packing, seen)
            inputs = (None, None, None, decay, table, initial, *projections)
            return by_definition(run, inputs, needed, grads)
        *at_c, at_z, at_table = grads
        missing = _missing(n, seen)
        decays = _DecayGradient(decay, packing, initial[None], needed[3])
        grad = torch.zeros_like(states)
        for total, g in zip(grad, at_c, strict=True):
            if g is not None:
                total += g
        grad_initial = _decayed_max_backward(grad, states, initial, decay, missing, packing, decays)
        if at_z is not None:
            grad[-1] += at_z
        _clear(grad, missing, packing)
        shares = _Shares(packing, decay, table, projections)
        for j in range(n, 1, -1):
            # One lag for the start and j - 2 for the tokens between: see `_Sums.winners`.
            first = (j - 1) * (j - 2) // 2
            shares.of_sums(grad[j - 1], winners[first : first + j - 1], decays)
        if at_table is not None:
            again = _Sums(packing, seen, decay, table, projections, False, traces_table=True)
            again.run()
            shares.of_table(at_table, again.picked)
        grad_table, (grad_first, *others) = shares.collected()
        grad_first += grad[0]
        return *(None,) * 3, decays.total(), grad_table, grad_initial, grad_first, *others


def _sum_definition(packing: Packing, seen: Tensor, *inputs: Any) -> tuple[Tensor, ...]:
    decay, table, c, *projections = inputs[3:]
    states, z, grown = reference.sum_max_scan(projections, decay, packing, table, c, seen)
    return *states, z, grown


class _Sums:
    """The largest sums that start at each token and that end at each, lag by lag.

    The lag is the distance of a start from the token that is read. Tokens picked are held as
    lags from their n-gram's start, 0 for those before the first token of this scan: for a start,
    the last token picked, then the others in their order; for a token, the n-gram's start, then
    the tokens between.
    """

    def __init__(
        self,
        packing: Packing,
        seen: Tensor,
        decay: Tensor,
        table: Tensor,
        projections: Sequence[Tensor],
        traces: bool,
        traces_table: bool = False,
    ) -> None:
        first, n, self.packing = projections[0], len(projections), packing
        self.steps, (self.old, texts, channels) = packing.num_steps, table.shape[1:]
        self.starts = self.old + self.steps
        self.table = first.new_zeros(n, self.starts, texts, channels)
        self.table[:, : self.old] = table
        self.table[0, self.old :] = _grid(first, packing)
        # Of no use beyond a text's end: the sums of its starts stay as they are.
        self.offered = [_grid(p, packing, fill=-torch.inf) for p in projections]
        self.best = first.new_zeros(n, self.steps, texts, channels)
        self.best[0] = self.table[0, self.old :]
        self.scratch = first.new_empty(3, self.starts, texts, channels)
        lags = torch.arange(self.starts, device=first.device)
        self.powers = decay_powers(decay, lags.unsqueeze(1))
        unread = lags[: self.old].flip(0) + 1 > seen.unsqueeze(1)
        self.unread = unread.t().unsqueeze(2)  # rows of the table that are no token, (S, B, 1)
        shape = (texts, channels)

        def lag_tables(count: int, rows: int) -> list[Tensor]:
            return list(first.new_zeros(count, rows, *shape).unbind(0))

        # One lag for each token but the first. What the last order's table picked is asked for
        # only where the table has a gradient.
        traced = n if traces_table else n - 1 if traces else 0
        counts = [0, *range(n)]
        self.picked = [lag_tables(k if k < traced else 0, self.starts) for k in counts]
        self.won = [lag_tables(k if traces else 0, self.steps) for k in counts]

    def run(self) -> None:
        for lag in range(1, self.starts):
            first, last = max(self.old - lag, 0), self.starts - lag
            token = max(lag - self.old, 0)
            texts = self.packing.batch_sizes[token]
            for order in range(min(len(self.table), lag + 1), 1, -1):
                self._extend(order, lag, slice(first, last), token, texts)

    def _extend(self, order: int, lag: int, starts: slice, token: int, texts: int) -> None:
        """Offers each start the token at a lag from it, and each token that start."""
        gap = lag - order + 1
        shorter = self.table[order - 2, starts, :texts]
        longer = self.table[order - 1, starts, :texts]
        best = self.best[order - 1, token:, :texts]
        sums, wins, lags = self.scratch[:, : starts.stop - starts.start, :texts]
        torch.add(shorter, self.offered[order - 1][token:, :texts], out=sums)
        inner = [picked[starts, :texts] for picked in _in_order(self.picked[order - 1])]
        picked = [picked[starts, :texts] for picked in self.picked[order]]
        won = [won[token:, :texts] for won in self.won[order]]
        if gap == 0:  # the first n-gram of this order that starts there
            longer.copy_(sums)
            _set(picked, lag, inner)
        else:
            if picked:
                _replace(picked, lag, inner, torch.gt(sums, longer, out=wins), lags)
            torch.maximum(longer, sums, out=longer)
            sums.mul_(self.powers[gap])
        old = max(min(self.old, starts.stop) - starts.start, 0)
        if old:
            absent = self.unread[starts.start : starts.start + old, :texts]
            sums[:old].masked_fill_(absent, -torch.inf)
        if gap == 0:
            best.copy_(sums)
            _set(won, lag, inner)
        else:
            if won:
                _replace(won, lag, inner, torch.ge(sums, best, out=wins), lags)
            torch.maximum(best, sums, out=best)

    def rows(self) -> Tensor:
        """z_1..z_n in the packing's order, (n, N, D)."""
        return _from_grid(self.best, self.packing)

    def winners(self) -> list[Tensor]:
        """Of z_2, ..., z_n in turn: the lag of the start, then of the tokens between in their
        order, each (T, num_texts, D), whole numbers.
        """
        return [won for order in self.won for won in order]


def _in_order(picked: Sequence[Tensor]) -> list[Tensor]:
    return [*picked[1:], *picked[:1]]


def _set(tables: Sequence[Tensor], lag: int, inner: Sequence[Tensor]) -> None:
    for table, lags in zip(tables[1:], inner, strict=False):
        table.copy_(lags)
    if tables:
        tables[0].fill_(lag)


def _replace(
    tables: Sequence[Tensor], lag: int, inner: Sequence[Tensor], wins: Tensor, scratch: Tensor
) -> None:
    """Writes the new lags where `wins` is 1. The lag that is visited grows from call to call."""
    for table, lags in zip(tables[1:], inner, strict=True):
        torch.lerp(table, lags, wins, out=table)
    torch.maximum(tables[0], torch.mul(wins, lag, out=scratch), out=tables[0])


class _Shares:
    """Hands the gradients of sums to the tokens that they picked."""

    def __init__(
        self, packing: Packing, decay: Tensor, table: Tensor, projections: Sequence[Tensor]
    ) -> None:
        self.packing, self.steps, self.old = packing, packing.num_steps, table.size(1)
        self.starts = self.steps + self.old
        texts, channels = table.shape[2:]
        self.offered = [_with_row_of_zeros(_grid(p, packing)) for p in projections]
        # Entries of the table of higher orders are handed on only where the scan began with some.
        orders = len(table) if self.old else 1
        entries = table.new_zeros(orders, self.starts, texts, channels)
        entries[:, : self.old] = table[:orders]
        entries[0, self.old :] = self.offered[0][:-1]
        self.offered[0] = entries.flatten(0, 1)
        self.grads = [torch.zeros_like(offered) for offered in self.offered]
        self.lags = torch.arange(self.starts, device=table.device).unsqueeze(1)
        self.decay, self.powers = decay, decay_powers(decay, self.lags)
        self.channels = channels

    def of_sums(self, grad: Tensor, winners: Sequence[Tensor], decays: _DecayGradient) -> None:
        """Takes the gradient of z_j, (N, D), and adds to that of the decay."""
        order = len(winners) + 1
        start, *inner = winners
        lag = start.long()
        gap = (lag - (order - 1)).clamp_(min=0)
        column = self.lags[self.old :].unsqueeze(2) - lag
        picked = self._indices(column, inner)
        grid = _grid(grad, self.packing)
        if decays.wanted:
            total = self.offered[order - 1][:-1].clone()
            for offered, index in zip(self.offered, picked, strict=False):
                total += offered.gather(0, index)
            slopes = self.lags * decay_powers(self.decay, self.lags - 1)
            decays.add_products(total.mul_(self._looked_up(slopes, gap)), grid)
        share = self._looked_up(self.powers, gap).mul_(grid)
        self._hand_out(share, picked)
        self.grads[order - 1][:-1] += share

    def of_table(self, grad: Tensor, picked: Sequence[Sequence[Tensor]]) -> None:
        """Takes the gradient of the table after the last token."""
        column = self.lags.unsqueeze(2).expand(grad.shape[1:])
        for order, share in enumerate(grad, start=1):
            self._hand_out(share, self._indices(column, _in_order(picked[order])))

    def collected(self) -> tuple[Tensor | None, list[Tensor]]:
        """The gradients of the table before the first token, if any, and of P_1..P_n."""
        table = self.grads[0].unflatten(0, (-1, self.starts))
        grids = [table[0, self.old :], *(grad[:-1] for grad in self.grads[1:])]
        rows = [_from_grid(grid[None], self.packing)[0] for grid in grids]
        return (table[:, : self.old] if self.old else None), rows

    def _indices(self, column: Tensor, inner: Sequence[Tensor]) -> list[Tensor]:
        """Rows of `offered` of an n-gram's tokens, given the row of its start in the table.

        Tokens before this scan are part of the table's entry, not of P_2..P_n: they get the row
        of zeros.
        """
        source, indices = column, []
        for lag in inner:
            time = column + lag.long()
            if self.old:
                before = lag == 0
                source = source + before * self.starts
                time = torch.where(before, self.steps, time - self.old)
            indices.append(time)
        return [source, *indices]

    def _hand_out(self, share: Tensor, picked: Sequence[Tensor]) -> None:
        for grad, index in zip(self.grads, picked, strict=False):
            grad.scatter_add_(0, index, share)

    def _looked_up(self, values: Tensor, index: Tensor) -> Tensor:
        values = values.expand(-1, self.channels)
        return values.gather(0, index.flatten(0, 1)).view(index.shape)


def _with_row_of_zeros(grid: Tensor) -> Tensor:
    return torch.cat([grid, grid.new_zeros(1, *grid.shape[1:])])


def _grid(rows: Tensor, packing: Packing, fill: float = 0.0) -> Tensor:
    """Rows in the packing's order, (N, D), with padding: (T, num_texts, D)."""
    shape = (packing.num_steps, packing.num_texts, rows.size(1))
    if packing.uniform:
        return rows.reshape(shape)
    grid = rows.new_full(shape, fill)
    grid.view(-1, rows.size(1)).index_copy_(0, _cells(packing, rows.device), rows)
    return grid


def _from_grid(grids: Tensor, packing: Packing) -> Tensor:
    """Padded grids, (k, T, num_texts, D), as rows, (k, N, D)."""
    rows = grids.flatten(1, 2)
    return rows if packing.uniform else rows.index_select(1, _cells(packing, grids.device))


def _cells(packing: Packing, device: torch.device) -> Tensor:
    texts = torch.arange(packing.num_texts, device=device)
    sizes = enumerate(packing.batch_sizes)
    return torch.cat([texts[:size] + t * packing.num_texts for t, size in sizes])


def _missing(orders: int, seen: Tensor) -> Tensor:
    """How many tokens each text lacks until it has an n-gram, (n, num_texts, 1)."""
    order = torch.arange(1, orders + 1, device=seen.device)
    return order.view(-1, 1, 1) - seen.view(1, -1, 1)


def _clear(rows: Tensor, missing: Tensor, packing: Packing) -> None:
    """Sets to zero, in place, what belongs to n-grams that are not there yet, (k, N, D)."""
    steps = rows.split(packing.batch_sizes, dim=1)
    for t, now in enumerate(steps[: len(missing)]):
        now.masked_fill_(missing[:, : now.size(1)] > t + 1, 0)


def _steps(decay: Tensor, packing: Packing) -> Sequence[Tensor]:
    return packing.split(decay) if decay.dim() == 2 else (decay,) * packing.num_steps


def _transposed(tensors: Sequence[Tensor], packing: Packing) -> list[tuple[Tensor, ...]]:
    """One tuple a time step."""
    return list(zip(*(packing.split(tensor) for tensor in tensors), strict=True))


def _decayed_max(
    rows: Tensor, initial: Tensor, decay: Tensor, missing: Tensor, packing: Packing
) -> None:
    """Turns z into c[t] = max(decay * c[t - 1], z[t]), in place, (n, N, D)."""
    previous, carried = initial, torch.empty_like(initial)
    weights = _steps(decay, packing)
    for t, now in enumerate(rows.split(packing.batch_sizes, dim=1)):
        texts = now.size(1)
        if texts != previous.size(1):
            previous, carried = previous[:, :texts], carried[:, :texts]
        torch.mul(previous, weights[t], out=carried)
        if t < len(missing):
            carried.masked_fill_(missing[:, :texts] > t, -torch.inf)
        previous = torch.maximum(carried, now, out=now)


def _decayed_max_backward(
    grad: Tensor,
    states: Tensor,
    initial: Tensor,
    decay: Tensor,
    missing: Tensor,
    packing: Packing,
    decays: _DecayGradient,
) -> Tensor:
    """Turns the gradient of c into that of z, in place; returns that of the initial state."""
    weights, nows = _steps(decay, packing), states.split(packing.batch_sizes, dim=1)
    grads = grad.split(packing.batch_sizes, dim=1)
    carried = torch.zeros_like(initial)
    for t in range(packing.num_steps - 1, -1, -1):
        texts = packing.batch_sizes[t]
        kept, now = carried[:, :texts], grads[t]
        previous = (nows[t - 1] if t else initial)[:, :texts]
        now.add_(kept)
        lacking = missing[:, :texts] if t < len(missing) else None
        _part(now, nows[t], previous, weights[t], lacking, t, kept)
        decays.add(t, kept[None], previous[None])
        kept.mul_(weights[t])
    return carried


def _part(
    grad: Tensor,
    now: Tensor,
    previous: Tensor,
    weight: Tensor,
    missing: Tensor | None,
    t: int,
    kept: Tensor,
) -> None:
    """Parts the gradient of c[t]: leaves that of z[t], and writes that of weight * c[t - 1]."""
    if missing is not None:
        grad.masked_fill_(missing > t + 1, 0)
    torch.mul(previous, weight, out=kept)
    kept.eq_(now)
    if missing is not None:
        kept.masked_fill_(missing > t, 0)
    kept.mul_(grad)
    grad.sub_(kept)


class _DecayGradient:
    """Adds up the gradient of the decay: one row a token, or one for all."""

    def __init__(self, decay: Tensor, packing: Packing, like: Tensor, wanted: bool) -> None:
        self.wanted, self.shape, self.packing = wanted, decay.shape, packing
        channels = like.size(-1)
        self.rows: Sequence[Tensor] = ()
        if wanted and decay.dim() == 2:
            self.sums = like.new_empty(packing.num_tokens, channels)
            self.rows = packing.split(self.sums)
        elif wanted:
            self.products = torch.zeros_like(like)
            self.sums = like.new_zeros(channels)

    def add(self, t: int, grad: Tensor, previous: Tensor) -> None:
        """Adds the gradients of the decayed states of step t, (2 or 1, n, B, D)."""
        if not self.wanted:
            return
        if self.rows:
            torch.sum(grad * previous, dim=(0, 1), out=self.rows[t])
        else:
            self.products[:, :, : grad.size(2)].addcmul_(grad, previous)

    def add_products(self, grad: Tensor, slope: Tensor) -> None:
        """Adds to the gradient of a decay that all tokens share."""
        self.sums += (grad * slope).sum_to_size(self.sums.shape)

    def total(self) -> Tensor | None:
        if not self.wanted:
            return None
        if not self.rows:
            self.sums += self.products.sum_to_size(self.sums.shape)
        return self.sums.sum_to_size(self.shape)
