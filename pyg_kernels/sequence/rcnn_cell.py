"""One step of the string-kernel RCNN, and one layer of it on a whole batch of texts."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Literal, NamedTuple, cast

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.nn import Module, ModuleList, Parameter

from pyg_kernels.checks import check_flags, checked_choice, checked_count
from pyg_kernels.nn.activation import KernelActivation, precision_of
from pyg_kernels.nn.arguments import (
    Act,
    build_activation,
    checked_combine,
    checked_decay,
    checked_lazy_count,
    differing,
)
from pyg_kernels.nn.linear import UnitLinear, apply_stacked, weight_of
from pyg_kernels.ops.activations import activation_name
from pyg_kernels.ops.ragged import Layout
from pyg_kernels.ops.scan.maximum import SumTable, sum_max_scan
from pyg_kernels.ops.scan.walk import Form, extremes, linear_scan, walk_scan
from pyg_kernels.sequence.layer import SequenceCell
from pyg_kernels.sequence.precision import place

GATED = ("input", "recurrent")
Carried = tuple[Tensor, ...]


class RCNNState(NamedTuple):
    """The state of a layer with sum pooling, from one segment of a text to the next.

    Attributes:
        h: The output at the last token, :obj:`(num_layers * num_directions, B, H)`.
        c: The states :math:`c_1, ..., c_n`, :obj:`(num_layers * num_directions, B, n, H)`.
    """

    h: Tensor
    c: Tensor


class RCNNProductState(NamedTuple):
    """The state of a layer with max-pooling over products.

    Attributes:
        h: The output at the last token, :obj:`(num_layers * num_directions, B, H)`.
        c_max: The largest products of each order, :obj:`(num_layers * num_directions, B, n, H)`.
        c_min: The smallest products, in the same shape.
        seen: The number of tokens read, :obj:`(num_layers * num_directions, B)`.
    """

    h: Tensor
    c_max: Tensor
    c_min: Tensor
    seen: Tensor


class RCNNTableState(NamedTuple):
    """The state of a layer with max-pooling over sums; it grows with the text.

    Attributes:
        h: The output at the last token, :obj:`(num_layers * num_directions, B, H)`.
        best: The best sum of each order by its first token s, before decay,
            :obj:`(num_layers * num_directions, B, n, S, H)`.
        seen: The number of tokens read, :obj:`(num_layers * num_directions, B)`.
    """

    h: Tensor
    best: Tensor
    seen: Tensor


State = RCNNState | RCNNProductState | RCNNTableState


class Masks(NamedTuple):
    """Dropout's factors, one row per text: for the x that maps read, the h that gates read."""

    x: Tensor
    h: Tensor


class RCNNCell(SequenceCell[State]):
    r"""One step of :class:`~pyg_kernels.sequence.RCNN`, like :class:`torch.nn.LSTMCell` for LSTMs.

    .. math::
        c_1 &= \lambda \odot c_1' + (1 - \lambda)^\nu \odot W^{(1)} x \\
        c_j &= \lambda \odot c_j' + (1 - \lambda)^\nu \odot (c_{j-1}' \circ W^{(j)} x),
        \quad j = 2, \ldots, n

    where :math:`c'` are the states before the step. Formulas, arguments and errors are those of
    :class:`~pyg_kernels.sequence.RCNN`.

    Shapes:
        - **input:** one token of each text, :math:`(B, F)` or :math:`(F)`, and the previous state.
        - **output:** the state after: an :class:`~pyg_kernels.sequence.RCNNState` of the output h,
          :math:`(B, H)`, and c, :math:`(B, n, H)`; with max-pooling, an
          :class:`~pyg_kernels.sequence.RCNNProductState` or
          :class:`~pyg_kernels.sequence.RCNNTableState`. Without B if the input has none.

    Example:
        >>> import torch
        >>> from pyg_kernels.sequence import RCNNCell
        >>> cell, state = RCNNCell(5, 3, order=2), None
        >>> for token in torch.rand(7, 2, 5):  # two texts of seven tokens
        ...     state = cell(token, state)
        >>> state.h.shape, state.c.shape
        (torch.Size([2, 3]), torch.Size([2, 2, 3]))

    See Also:
        :class:`~pyg_kernels.sequence.RCNN`, which reads whole texts.
    """

    decay_logit: Tensor | None
    decay_bias: Tensor | None
    output_gate_bias: Tensor | None
    highway_bias: Tensor | None
    bias: Tensor | None

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        *,
        order: int = 2,
        combine: Literal["mul", "add"] = "mul",
        normalize: bool | None = None,
        decay: float | str = 0.5,
        scalar_decay: bool = False,
        readout: Literal["c", "z", "sum"] = "c",
        output_map: bool = False,
        output_gate: bool = False,
        highway: bool = False,
        pooling: Literal["sum", "max"] = "sum",
        act: Act = "tanh",
        bias: bool = True,
        device: torch.device | str | int | None = None,
        dtype: torch.dtype | None = None,
    ) -> None:
        super().__init__()
        self._input_size = checked_lazy_count(input_size, "input_size")
        self.hidden_size = checked_count(hidden_size, "hidden_size")
        self.order = checked_count(order, "order")
        self.combine = checked_combine(combine)
        self.normalize = pooling != "max" if normalize is None else normalize
        check_flags(normalize=self.normalize, scalar_decay=scalar_decay, bias=bias)
        check_flags(output_map=output_map, output_gate=output_gate, highway=highway)
        self.gate = decay if isinstance(decay, str) and decay in GATED else None
        self._constant = None if self.gate else _checked_decay(decay)
        self.scalar_decay = scalar_decay
        self.readout = checked_choice(readout, "readout", ("c", "z", "sum"))
        self.pooling = checked_choice(pooling, "pooling", ("sum", "max"))
        self.highway = highway
        made = build_activation(act)
        if isinstance(made, Module):
            self.register_module("act", None)  # reserves its place among the parameters
        else:
            self.act = made
        self._check(input_size, decay, output_map)
        width = 1 if scalar_decay else hidden_size
        recurrent = self.gate == "recurrent"

        def maps(out: int) -> UnitLinear:
            return UnitLinear(input_size, out)

        self.lins = ModuleList(maps(hidden_size) for _ in range(order))
        learned = self.gate is None and self._constant is None
        self._parameter("decay_logit", width if learned else None)
        self.decay_lin = maps(width) if self.gate else None
        self._parameter("decay_bias", width if self.gate else None)
        self.decay_recurrent = UnitLinear(hidden_size, width) if recurrent else None
        self.output_lin = UnitLinear(hidden_size, hidden_size) if output_map else None
        self.output_gate_lin = maps(hidden_size) if output_gate else None
        self._parameter("output_gate_bias", hidden_size if output_gate else None)
        both = recurrent and output_gate
        self.output_gate_recurrent = UnitLinear(hidden_size, hidden_size) if both else None
        self.highway_lin = maps(hidden_size) if highway else None
        self._parameter("highway_bias", hidden_size if highway else None)
        self._parameter("bias", hidden_size if bias else None)
        self.reset_parameters()
        place(self, device, dtype)
        if isinstance(made, Module):
            self.act = made.to(device=device, dtype=dtype)  # keeps what it has learned

    def reset_parameters(self) -> None:
        super().reset_parameters()
        for parameter in self._parameters.values():
            if parameter is not None:
                torch.nn.init.zeros_(parameter)

    @property
    def input_size(self) -> int:
        return int(getattr(self.lins[0], "in_channels", self._input_size))

    @property
    def decay(self) -> float | Tensor | None:
        r"""The decay: a constant, a learned tensor, or None where it is a gate."""
        if self.decay_logit is not None:
            return torch.sigmoid(self.decay_logit)
        return self._constant

    @property
    def state_type(self) -> type[State]:
        if self.pooling == "sum":
            return RCNNState
        return RCNNProductState if self.combine == "mul" else RCNNTableState

    def start(self, num_texts: int, like: Tensor) -> tuple[Tensor, ...]:
        h = like.new_zeros(num_texts, self.hidden_size, dtype=precision_of(self, like))
        c = h.new_zeros(num_texts, self.order, self.hidden_size)
        if self.state_type is RCNNState:
            return h, c
        seen = torch.zeros(num_texts, dtype=torch.long, device=h.device)
        if self.state_type is RCNNProductState:
            return h, c, c, seen
        return h, c.unsqueeze(2)[:, :, :0], seen

    def named_parts(self, state: Sequence[Tensor]) -> dict[str, Tensor]:
        """The tensors of a state by name; at order 1, c may be given without its dimension n."""
        parts = super().named_parts(state)
        if self.order == 1:
            for name in ("c", "c_max", "c_min"):
                if name in parts and parts[name].dim() == parts["h"].dim():
                    parts[name] = parts[name].unsqueeze(-2)
        return parts

    def state_shapes(
        self, state: tuple[Tensor, ...], num_texts: int, num_features: int
    ) -> list[tuple[int, ...]]:
        size, seen = self.hidden_size, (num_texts,)
        h, c = (num_texts, size), (num_texts, self.order, size)
        if self.state_type is RCNNState:
            return [h, c]
        if self.state_type is RCNNProductState:
            return [h, c, c, seen]
        starts = state[1].size(-2) if state[1].dim() >= 4 else 0
        return [h, (num_texts, self.order, starts, size), seen]

    def read(
        self,
        x: Tensor,
        layout: Layout,
        state: tuple[Tensor, ...],
        masks: Masks | None = None,
        selection: Tensor | None = None,
    ) -> tuple[Tensor, tuple[Tensor, ...]]:
        """Reads whole texts; with a selection, :obj:`(N, 1)`, tokens count by their weights."""
        self._check_selection(selection)
        self.check_tokens(x)
        if self.highway and x.size(-1) != self.hidden_size:
            raise ValueError(_HIGHWAY.format(x.size(-1), self.hidden_size))
        read = x if masks is None else x * layout.spread(masks.x)
        mask = None if masks is None else masks.h
        return self.walk(self.products(read), x, layout, state, mask, selection)

    def products(self, x: Tensor) -> Tensor:
        """The outputs of all maps, side by side: gates, projections, highway, (N, K)."""
        return apply_stacked(x, self.maps())

    def walk(
        self,
        products: Tensor,
        x: Tensor | None,
        layout: Layout,
        state: tuple[Tensor, ...],
        mask: Tensor | None = None,
        selection: Tensor | None = None,
    ) -> tuple[Tensor, tuple[Tensor, ...]]:
        """Reads whole texts from the `products` of their tokens; a highway carries x."""
        h, *rest = state
        sums, tables = self.pooling == "sum", self.state_type is RCNNTableState
        given = [products, h, *(rest if sums else ())]
        given += [p for p in self._parameters.values() if p is not None]
        result = functools.reduce(torch.promote_types, (t.dtype for t in given))
        dtype = torch.promote_types(result, torch.float32)
        products, h = products.to(dtype), h.to(dtype)
        x = None if x is None or not self.highway else x.to(dtype)
        mask, selection = (None if t is None else t.to(dtype) for t in (mask, selection))
        if tables:
            out, after = self._largest_sums(products, x, layout, *rest)
        else:
            out, after = self._scanned(products, x, layout, h, rest, mask, selection)
        if sums:  # the states of maxima stay in single precision
            after = tuple(t.to(result) for t in after)
        return out.to(result), (layout.last(out, h).to(result), *after)

    def maps(self) -> list[Module]:
        """The maps of the tokens, in the order of `products`."""
        maps = [self.decay_lin, self.output_gate_lin, *self.lins, self.highway_lin]
        return [lin for lin in maps if lin is not None]

    def _scanned(
        self,
        products: Tensor,
        x: Tensor | None,
        layout: Layout,
        h: Tensor,
        carried: Sequence[Tensor],
        mask: Tensor | None,
        selection: Tensor | None,
    ) -> tuple[Tensor, Carried]:
        """Reads texts by a scan; if no gate reads h, output maps or custom activations follow."""
        weight: Tensor | None
        if self.pooling == "max":
            high, low, seen = (t.transpose(0, 1) if t.dim() > 1 else t for t in carried)
            c0, weight = extremes(layout, high, low, seen, h.dtype)
        else:
            c0, weight = carried[0].to(h.dtype).transpose(0, 1), selection
        act = "none" if self.act is None else activation_name(self.act)
        recurrent = self.gate == "recurrent"
        inside = recurrent or (self.output_lin is None and act is not None)
        form = Form(
            order=self.order,
            combine=self.combine,
            normalize=self.normalize,
            gate="none" if self.gate is None else "logits",
            width=0 if self.decay_bias is None else self.decay_bias.numel(),
            readout=self.readout,
            act=act or "none",
            output_gate=self.output_gate_lin is not None,
            highway=self.highway,
            pooling=self.pooling,
        )
        params = self._params(h)
        feed = None
        if recurrent:
            maps = (self.decay_recurrent, self.output_gate_recurrent)
            feed = torch.cat([weight_of(lin) for lin in maps if lin is not None]).to(h.dtype)
        if inside:
            called = self._activation(h) if act is None else None
            output_map = None if self.output_lin is None else weight_of(self.output_lin).to(h.dtype)
            given = products, params, c0, h, weight, x, feed, mask, called, output_map
            out, _, end = walk_scan(form, layout, *given)
        else:
            gate, output, p, highway = self._columns(products)
            bare = form._replace(act="none", output_gate=False, highway=False, hold=False)
            read = p if gate is None else torch.cat((gate, p), 1)
            only_decay = torch.cat((params[:1], torch.zeros_like(params[1:])))
            state, _, end = walk_scan(bare, layout, read, only_decay, c0, h, weight)
            out = _without_padding(self._output(state, output, highway, x), layout)
            if selection is not None:
                out = linear_scan(1.0 - selection, out, layout, h, normalize=True)
        end = end.transpose(0, 1)
        if self.pooling == "max":
            return out, (*end.chunk(2, 1), seen + layout.length)
        return out, (end,)

    def _largest_sums(
        self, products: Tensor, x: Tensor | None, layout: Layout, best: Tensor, seen: Tensor
    ) -> tuple[Tensor, Carried]:
        """Reads texts with max-pooling over sums, where the decay is constant."""
        _, output, p, highway = self._columns(products)
        table, decay = SumTable(best.transpose(0, 1), seen), cast("float | Tensor", self.decay)
        state, table = sum_max_scan(p, decay, layout, table, self.readout)
        out = _without_padding(self._output(state, output, highway, x), layout)
        return out, (table.best.transpose(0, 1), table.seen)

    def _columns(
        self, products: Tensor
    ) -> tuple[Tensor | None, Tensor | None, Tensor, Tensor | None]:
        """The parts of products: logits of decay and output gate, projections, highway logits."""
        sizes = [
            0 if self.decay_bias is None else self.decay_bias.numel(),
            0 if self.output_gate_lin is None else self.hidden_size,
            self.order * self.hidden_size,
            self.hidden_size if self.highway else 0,
        ]
        parts = zip(products.split(sizes, 1), sizes, strict=True)
        gate, output, p, highway = (part if size else None for part, size in parts)
        assert p is not None
        return gate, output, p, highway

    def _params(self, like: Tensor) -> Tensor:
        """The decay or its bias; and the biases of output, output gate and highway, (4, H)."""
        decay = self.decay if self.decay_bias is None else self.decay_bias
        if not isinstance(decay, Tensor):
            decay = like.new_full((1,), cast(float, decay))
        rows = (decay, self.bias, self.output_gate_bias, self.highway_bias)
        zeros = like.new_zeros(self.hidden_size)
        return torch.stack(
            [zeros if row is None else row.to(like.dtype).expand_as(zeros) for row in rows]
        )

    def _output(
        self, state: Tensor, output: Tensor | None, highway: Tensor | None, x: Tensor | None
    ) -> Tensor:
        """The output of the layer, from its state and the logits of its gates."""
        u = state
        if self.output_lin is not None:
            u = F.linear(u, weight_of(self.output_lin).to(u.dtype))
        u = u if self.bias is None else u + self.bias
        u = u if self.act is None else self._activation(u)(u)
        if output is not None:
            u = torch.sigmoid(output + cast(Tensor, self.output_gate_bias)) * u
        if highway is not None:
            opened = torch.sigmoid(highway + cast(Tensor, self.highway_bias))
            u = opened * u + (1 - opened) * cast(Tensor, x)
        return u

    def _activation(self, like: Tensor) -> Callable[[Tensor], Tensor]:
        """The activation for tensors like this one; modules compute in their own precision."""
        act = self.act
        assert act is not None
        if isinstance(act, Module) and not isinstance(act, KernelActivation):
            own, module = precision_of(act, like), act
            if own != like.dtype:
                return lambda u: cast(Tensor, module(u.to(own))).to(u.dtype)
        return act

    def described(self) -> list[str]:
        decay = self.gate or ("learned" if self.decay_logit is not None else self._constant)
        return [
            f"{self.input_size}, {self.hidden_size}, order={self.order}",
            f"combine={self.combine!r}, decay={decay!r}",
            *differing(
                normalize=(self.normalize, self.pooling == "sum"),
                readout=(self.readout, "c"),
                scalar_decay=(self.scalar_decay, False),
                output_map=(self.output_lin is not None, False),
                output_gate=(self.output_gate_lin is not None, False),
                highway=(self.highway, False),
                pooling=(self.pooling, "sum"),
                act=(activation_name(self.act) or self.act, "tanh"),
                bias=(self.bias is not None, True),
            ),
        ]

    def _check_selection(self, selection: Tensor | None) -> None:
        if selection is not None and self.pooling == "max":
            raise ValueError(
                "selection with pooling='max': a maximum has no weights by which tokens could "
                "count in part; expected pooling='sum'"
            )

    def _parameter(self, name: str, size: int | None) -> None:
        self.register_parameter(name, None if size is None else Parameter(torch.zeros(size)))

    def _check(self, input_size: int, decay: float | str, output_map: bool) -> None:
        if self.normalize and self._constant == 1.0:
            raise ValueError(
                "decay=1.0 with normalize=True: every token would have the weight 1 - decay = 0"
            )
        if self.highway and input_size not in (-1, self.hidden_size):
            raise ValueError(_HIGHWAY.format(input_size, self.hidden_size))
        if self.pooling == "sum":
            return
        if self.normalize:
            raise ValueError(
                "normalize=True with pooling='max': a maximum has no weights to normalise"
            )
        if output_map:
            raise ValueError(
                "output_map=True with pooling='max': no recurrence is known for the maximum over "
                "n-grams of a map of their features"
            )
        if self.combine == "add" and self.gate:
            raise ValueError(
                f"decay={decay!r} with pooling='max' and combine='add': no recurrence is known for "
                "the maximum of sums under a gated decay; expected a number or 'learned'"
            )


_HIGHWAY = (
    "highway=True with input_size={} and hidden_size={}: it adds the input to the output, expected "
    "equal sizes"
)


def _checked_decay(decay: float | str) -> float | None:
    try:
        return checked_decay(decay)
    except ValueError as error:
        raise ValueError(f"{error}, 'input' or 'recurrent'") from None


def _without_padding(out: Tensor, layout: Layout) -> Tensor:
    """Outputs that are zero, and give no gradient, where there is no token."""
    return torch.where(layout.is_token(), out, 0) if layout.form == "padded" else out
