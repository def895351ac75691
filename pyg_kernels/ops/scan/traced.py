"""The parts of kernels of recurrences: traced expressions, and the memory they read and write.

A kernel is made from leaves and outputs, both by name: see `Traced`. Each kind of device has a
class that makes kernels from these, and a function that runs them along texts.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from enum import IntEnum
from functools import cache
from typing import Any

import torch
from torch import Tensor

from pyg_kernels.ops.expression import Row, Value, apart, as_value, gradients, in_order, leaf
from pyg_kernels.ops.ragged import Layout
from pyg_kernels.ops.scan.recurrence import Recurrence, Token

Inputs = Mapping[str, Sequence[Value]]
Written = Mapping[str, Sequence[tuple[Row, Value]]]
Make = Callable[[Inputs, Written, torch.dtype], Any]
Memory = dict[str, list[tuple[Tensor, int]]]  # tensors, each read from a column on


class Index(IntEnum):
    """What a row belongs to: all, a token, the token before it (for a first one, the number of all
    rows plus that of its text), its text, or the part of the texts that one task goes through."""

    ALL = 0
    TOKEN = 1
    BEFORE = 2
    TEXT = 3
    PART = 4


class Traced:
    """The kernels of a recurrence of some form.

    Args:
        make: ``make(inputs, outputs, dtype)``: a kernel, whose attribute `whole` says whether it
            needs all channels at once.
        recurrence: The recurrence.
        form: The settings of the recurrence.
        order: The number of states.
        num_params: The number of parameters.
        num_fed: The number of parts of the inputs to which products are added.
        weighs: Whether each token has a number, `weight`.
        beside: Whether tokens have another row, and whether it has one number per channel.
        dtype: The precision of all numbers.
    """

    def __init__(
        self,
        make: Make,
        recurrence: Recurrence,
        form: Any,
        order: int,
        num_params: int,
        num_fed: int,
        weighs: bool,
        beside: tuple[bool, bool],
        dtype: torch.dtype,
    ) -> None:
        columns, narrow = recurrence.columns(form), recurrence.narrow(form)
        self.num_fed, self._make, self._dtype, self._columns = num_fed, make, dtype, columns
        token = [Row(Index.TOKEN, wide) for wide in columns]
        self._leaves = {
            "x": [leaf(row) for row in token],
            "kept": [leaf(row) for row in token[:num_fed]],
            "params": [leaf(Row(Index.ALL, k not in narrow)) for k in range(num_params)],
            "weight": [leaf(Row(Index.TOKEN, wide=False))] * weighs,
            "beside": [leaf(Row(Index.TOKEN, beside[1]))] * beside[0],
            "h": [leaf(Row(Index.BEFORE))],
            "c": [leaf(Row(Index.BEFORE)) for _ in range(order)],
        }
        of = self._leaves
        x = [x + fed for x, fed in zip(of["x"], of["kept"], strict=False)] + of["x"][num_fed:]
        weight, beside_it = (next(iter(of[name]), None) for name in ("weight", "beside"))
        read = Token(x, of["params"], weight, beside_it, of["h"][0], of["c"])
        self._h, self._c = apart(recurrence.step)(form, read)
        self.holds = any(value is of["h"][0] for value in in_order([self._h, *self._c]))
        self.reads = self.holds or num_fed > 0
        if not self.holds:
            of["h"] = []
        row = Row(Index.TOKEN)
        outputs = {"out": [(row, self._h)], "after": [(row, c) for c in self._c]}
        self.forward = make(of, outputs, dtype)

    @cache  # noqa: B019 (kept as long as the kernels are)
    def backward(self, has_out: bool, has_states: bool) -> Any:
        """The kernel of the derivative, for the output gradients that are given."""
        of = self._leaves
        given = {
            "g_out": [leaf(Row(Index.TOKEN))] * has_out,
            "g_states": [leaf(Row(Index.TOKEN)) for _ in self._c if has_states],
            "g_h": [leaf(Row(Index.TEXT))] * self.reads,
            "g_c": [leaf(Row(Index.TEXT)) for _ in self._c],
        }
        seeds = [(self._h, g) for name in ("g_out", "g_h") for g in given[name]]
        for name in ("g_states", "g_c"):
            seeds += zip(self._c, given[name], strict=False)
        names = ("x", "params", "weight", "beside", "h", "c")
        found = iter(gradients(seeds, [value for name in names for value in of[name]]))
        outputs, places = {}, {"params": Index.PART, "h": Index.TEXT, "c": Index.TEXT}
        for name in names:
            index, adds = places.get(name, Index.TOKEN), name == "params"
            rows = (Row(index, value.data.wide, adds) for value in of[name])
            given_back = [(row, next(found)) for row in rows]
            outputs[f"to_{name}"] = [
                (row, as_value(g or 0.0)) for row, g in given_back if g or name != "weight"
            ]
        if self.num_fed and not self.holds:
            outputs["to_h"] = [(Row(Index.TEXT), as_value(0.0))]
        return self._make({**of, **given}, outputs, self._dtype)

    def memory(self, tensors: Sequence[Any], h: Tensor, c: Tensor, kept: list[Tensor]) -> Memory:
        """The rows of the leaves; h and c end with those before the texts."""
        x, params, weight, beside, *_ = tensors
        widths = [c.size(2) if wide else 1 for wide in self._columns]
        columns = [sum(widths[:k]) for k in range(len(widths))]
        return {
            "x": [(x, column) for column in columns],
            "kept": [(rows, column) for rows in kept for column in columns[: self.num_fed]],
            "params": [(params, k * c.size(2)) for k in range(len(params))],
            "weight": _first(weight),
            "beside": _first(beside),
            "h": [(h, 0)] * self.holds,
            "c": _blocks(c),
        }


_traced = cache(Traced)


class Kernels:
    """The scans on a kind of device.

    Args:
        make: See `Traced`.
        run: ``run(kernel, layout, memory, fed, back)`` runs a kernel along texts. `memory` has the
            rows of its inputs and outputs by name; `back` says whether it goes from the last tokens
            to the first. Without products, `fed` is empty. Otherwise it holds their map and the
            factors on the previous outputs; then, forward, the outputs before the texts, and the
            outputs and the products of all tokens; backward, the gradients of the products and of
            the previous outputs.
        parts: The number of rows in which gradients of the parameters along texts are collected,
            to be added up, with products or without.
        recurrence: The scan.
    """

    def __init__(
        self,
        make: Make,
        run: Callable[..., None],
        parts: Callable[[Layout, bool], int],
        recurrence: Recurrence,
    ) -> None:
        self.make, self._run, self._parts, self._recurrence = make, run, parts, recurrence

    def forward(self, form: Any, layout: Layout, tensors: Sequence[Any]) -> list[Tensor]:
        """h and c of all tokens (c with c0 below), c after each text, products of the outputs."""
        x, _, _, _, feed, mask, h0, c0 = tensors = _contiguous(tensors)
        rows, (order, texts, channels) = layout.num_rows, c0.shape
        traced = self._traced_as(form, tensors)
        new = x.new_zeros if layout.form == "padded" else x.new_empty
        h = new(rows + texts * traced.holds, channels)
        c = new(order, rows + texts, channels)
        c[:, rows:] = c0
        if traced.holds:
            h[rows:] = h0
        kept = [] if feed is None else [new(rows, len(feed))]
        memory = traced.memory(tensors, h, c, kept)
        memory["out"], memory["after"] = [(h, 0)], memory["c"]
        self._run(traced.forward, layout, memory, [feed, mask, h0, h, *kept] if kept else (), False)
        last = layout.start + (layout.length - 1) * layout.stride
        if not (layout.full and layout.num_steps):
            before = torch.arange(rows, rows + texts, device=last.device)
            last = torch.where(layout.length > 0, last, before)
        end = c.index_select(1, last)
        h = h[:rows].clone() if traced.holds else h  # a view could not be changed in place
        return [h, c, end, *kept]

    def backward(
        self,
        form: Any,
        layout: Layout,
        tensors: Sequence[Any],
        outputs: Sequence[Tensor],
        grads: Sequence[Tensor | None],
        needed: Sequence[bool],
    ) -> list[Tensor | None]:
        """The gradients of the tensors."""
        x, params, weight, beside, feed, mask, h0, c0 = tensors = _contiguous(tensors)
        h, c, _, *kept = _contiguous(outputs)
        rows = layout.num_rows
        parts = self._parts(layout, feed is not None)
        g_out, g_states, g_end, *_ = _contiguous(grads)
        traced = self._traced_as(form, tensors)
        new = x.new_zeros if layout.form == "padded" else x.new_empty
        g_x, g_h = new(x.shape), x.new_zeros(h0.shape)
        g_params = x.new_zeros(parts, *params.shape)
        g_weight = None if weight is None else x.new_zeros(weight.shape)  # not written if constant
        g_beside = None if beside is None else new(beside.shape)
        g_c = x.new_zeros(c0.shape) if g_end is None else g_end.clone()
        before = torch.cat((h, h0)) if traced.holds else h
        memory = traced.memory(tensors, before, c, kept[: traced.num_fed])
        memory["g_out"], memory["g_states"] = _first(g_out), _blocks(g_states)
        memory["g_h"] = memory["to_h"] = _first(g_h)
        memory["g_c"] = memory["to_c"] = _blocks(g_c)
        memory["to_x"] = [(g_x, column) for _, column in memory["x"]]
        memory["to_params"] = [(g_params, column) for _, column in memory["params"]]
        memory["to_weight"], memory["to_beside"] = _first(g_weight), _first(g_beside)
        fed = () if feed is None else (feed, mask, g_x, g_h)
        kernel = traced.backward(g_out is not None, g_states is not None)
        self._run(kernel, layout, memory, fed, True)
        if g_states is not None:
            g_c += g_states[:, rows:]
        g_feed = g_mask = None
        if feed is not None:
            read, g_fed = layout.before(h, h0), g_x[:, : len(feed)]
            g_feed = g_fed.t() @ (read if mask is None else read * layout.spread(mask))
            if needed[5]:
                text = layout.places()[0]
                g_mask = mask.new_zeros(mask.shape).index_add(0, text, (g_fed @ feed) * read)
        return [g_x, g_params.sum(0), g_weight, g_beside, g_feed, g_mask, g_h, g_c]

    def _traced_as(self, form: Any, tensors: Sequence[Any]) -> Traced:
        x, params, weight, beside, feed, *_, c0 = tensors
        channels, fed, columns = c0.size(2), 0, 0
        while feed is not None and columns < len(feed):
            columns += channels if self._recurrence.columns(form)[fed] else 1
            fed += 1
        other = beside is not None, beside is not None and beside.size(1) == channels
        given = len(c0), len(params), fed, weight is not None, other, x.dtype
        return _traced(self.make, self._recurrence, form, *given)


def _contiguous(tensors: Sequence[Any]) -> list[Any]:
    return [
        t if t is None or (t.is_contiguous() and not t.is_neg()) else t.contiguous().resolve_neg()
        for t in tensors
    ]


def _first(rows: Tensor | None) -> list[tuple[Tensor, int]]:
    """The rows from their first column on, if there are any."""
    return [] if rows is None else [(rows, 0)]


def _blocks(states: Tensor | None) -> list[tuple[Tensor, int]]:
    """The rows of some states, and where the matrix of each state begins."""
    if states is None:
        return []
    rows = states.flatten(0, 1)
    return [(rows, j * states[0].numel()) for j in range(len(states))]
