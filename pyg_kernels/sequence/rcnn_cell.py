"""One step of the string-kernel RCNN, and one layer of it on a whole batch of texts."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal, NamedTuple, cast

import torch
from torch import Tensor
from torch.nn import ModuleList, Parameter
from torch_geometric.nn.dense.linear import is_uninitialized_parameter

from pyg_kernels.nn.arguments import (
    Act,
    build_activation,
    checked_combine,
    checked_count,
    checked_decay,
    checked_lazy_count,
)
from pyg_kernels.nn.linear import UnitLinear, apply_all
from pyg_kernels.ops.activations import name_of
from pyg_kernels.ops.linear_scan import fuses_products
from pyg_kernels.ops.packing import Packing
from pyg_kernels.ops.recurrent_scan import Form, Gates, recurrent_scan
from pyg_kernels.ops.transforms import transforms_active
from pyg_kernels.propagation.path import PathPropagation
from pyg_kernels.sequence.layer import SequenceCell, last_rows
from pyg_kernels.sequence.pooling import (
    STATES,
    Carried,
    Pooling,
    ProductMaxPooling,
    State,
    SumMaxPooling,
    SumPooling,
)

GATED = ("input", "recurrent")


class Masks(NamedTuple):
    """Dropout's factors, one row a text: on what the maps read, and on h as the gates read it."""

    x: Tensor
    h: Tensor


class Tokens(NamedTuple):
    r"""What a cell makes of the tokens before it walks, one row each; None where it has no such.

    Attributes:
        projections: :math:`P_1, \ldots, P_n`; none where they are part of the walk.
        decay: The decay's logits.
        output: The output gate's logits.
        highway: The highway's gate.
        passed: What the highway carries past the layer.
    """

    projections: tuple[Tensor, ...]
    decay: Tensor | None
    output: Tensor | None
    highway: Tensor | None
    passed: Tensor | None


class RCNNCell(SequenceCell[State]):
    r"""One step of :class:`~pyg_kernels.sequence.RCNN`, as :class:`torch.nn.LSTMCell` is of the
    LSTM.

    .. math::
        c_1 &= \lambda \odot c_1' + (1 - \lambda)^\nu \odot W^{(1)} x \\
        c_j &= \lambda \odot c_j' + (1 - \lambda)^\nu \odot (c_{j-1}' \circ W^{(j)} x),
        \quad j = 2, \ldots, n

    with :math:`c'` the states before the step; formulas, arguments and errors as there.

    Shapes:
        - **input:** one token of each text, :math:`(B, F)` or :math:`(F)`, and the state before.
        - **output:** the state after: :class:`~pyg_kernels.sequence.RCNNState` of the output h,
          :math:`(B, H)`, and c, :math:`(B, n, H)`; with max-pooling
          :class:`~pyg_kernels.sequence.RCNNProductState` or
          :class:`~pyg_kernels.sequence.RCNNTableState`. Without B where the input has none.
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
        order: int = 2,
        mapping: Literal["mul", "add"] = "mul",
        normalize: bool | None = None,
        decay: float | str = 0.5,
        scalar_decay: bool = False,
        state: Literal["c", "z", "sum"] = "c",
        output_map: bool = False,
        output_gate: bool = False,
        highway: bool = False,
        pooling: Literal["sum", "max"] = "sum",
        act: Act = "tanh",
        bias: bool = True,
    ) -> None:
        super().__init__()
        self.input_size = checked_lazy_count(input_size, "input_size")
        self.hidden_size = checked_count(hidden_size, "hidden_size")
        self.order = checked_count(order, "order")
        self.mapping = checked_combine(mapping, "mapping")
        self.normalize = pooling != "max" if normalize is None else normalize
        self.gate = decay if isinstance(decay, str) and decay in GATED else None
        self._constant = None if self.gate else _checked_decay(decay)
        self.scalar_decay = scalar_decay
        self.state, self.pooling = state, pooling
        self.highway = highway
        self.act = build_activation(act)
        self._check(decay, output_map)
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
        self.pool = self._build_pooling()
        self.reset_parameters()

    def reset_parameters(self) -> None:
        for module in (*self.lins, *self.children()):
            reset = getattr(module, "reset_parameters", None)
            if reset is not None:
                reset()
        for parameter in self._parameters.values():
            if parameter is not None:
                torch.nn.init.zeros_(parameter)

    @property
    def num_features(self) -> int:
        """The number of features of a token; -1 while it is not known."""
        return cast(UnitLinear, self.lins[0]).in_channels

    @property
    def decay(self) -> float | Tensor | None:
        r"""The decay: a number, or what was learned of it, or None where it is a gate."""
        if self.decay_logit is not None:
            return torch.sigmoid(self.decay_logit)
        return self._constant

    @property
    def state_type(self) -> type[State]:
        return STATES[type(self.pool)]

    def start(self, num_texts: int, like: Tensor) -> tuple[Tensor, ...]:
        like = like.new_empty(0, dtype=next(self.lins[0].parameters(), like).dtype)
        return like.new_zeros(num_texts, self.hidden_size), *self.pool.start(num_texts, like)

    def state_shapes(
        self, state: tuple[Tensor, ...], num_texts: int, num_features: int
    ) -> list[tuple[int, ...]]:
        return [(num_texts, self.hidden_size), *self.pool.shapes(state[1:], num_texts)]

    def read(
        self,
        x: Tensor,
        packing: Packing,
        state: tuple[Tensor, ...],
        masks: Masks | None = None,
        selection: Tensor | None = None,
    ) -> tuple[Tensor, tuple[Tensor, ...]]:
        """Reads whole texts; with a selection, :obj:`(N, 1)`, tokens count for as much as that."""
        self._check_selection(selection)
        h, *rest = state
        carried: Carried = tuple(rest)
        if x.size(-1) != self.num_features and self.num_features != -1:
            raise ValueError(f"x has {x.size(-1)} features: expected {self.num_features}")
        if self.highway and x.size(-1) != self.hidden_size:
            raise ValueError(_HIGHWAY.format(x.size(-1), self.hidden_size))
        read = x if masks is None else x * _by_row(masks.x, packing)
        fused = selection is None and self._fuses(read, packing, carried)
        tokens = self._tokens(x, read, fused)
        if self.gate == "recurrent":
            mask = None if masks is None else masks.h
            if selection is None and self._steps_in_one_op():
                return self._read_recurrent(tokens, packing, h, carried, mask)
            return self._read_token_by_token(tokens, packing, h, carried, mask, selection)
        output = None if tokens.output is None else _sigmoid(tokens.output)
        if fused:
            u, carried = self._activated_products(read, packing, carried)
            out = self._gated(u, output, tokens.highway, x)
        else:
            decay = self.decay if tokens.decay is None else _sigmoid(tokens.decay)
            assert decay is not None
            found, carried = self._pooled(tokens.projections, decay, packing, carried, selection)
            out = self._output(found, output, tokens.highway, x)
            out = _held(out, h, packing, selection)
        return out, (last_rows(out, h, packing), *carried)

    def _tokens(self, x: Tensor, read: Tensor, fused: bool) -> Tokens:
        """The products with all maps of the tokens: `read`, or x as the highway carries it."""
        gates = (
            (None if fused else self.decay_lin, self.decay_bias),
            (self.output_gate_lin, self.output_gate_bias),
            (self.highway_lin, self.highway_bias),
        )
        lins = [*(() if fused else self.lins), *(lin for lin, _ in gates if lin is not None)]
        (*products,) = apply_all(read, lins)
        projections = () if fused else tuple(products[: self.order])
        logits = iter(products[len(projections) :])
        decay, output, highway = (
            None if lin is None or bias is None else _added(next(logits), bias, lin)
            for lin, bias in gates
        )
        highway = None if highway is None else _sigmoid(highway)
        return Tokens(projections, decay, output, highway, None if highway is None else x)

    def _fuses(self, x: Tensor, packing: Packing, carried: Carried) -> bool:
        """Whether products and scan are one op: nobody asks for what lies between."""
        if self.gate == "recurrent" or not isinstance(self.pool, SumPooling):
            return False
        if self.state != "c" or self.output_lin is not None:
            return False
        if self.act is not None and name_of(self.act) not in ("tanh", "relu"):
            return False
        lins = [*self.lins, *(() if self.decay_lin is None else (self.decay_lin,))]
        if not all(isinstance(lin, UnitLinear) and lin.plain for lin in lins):
            return False
        weights = [cast(UnitLinear, lin).weight for lin in lins]
        if any(is_uninitialized_parameter(weight) for weight in weights):
            return False
        others = [t for t in (self.decay_bias, self.decay_logit, self.bias) if t is not None]
        return fuses_products(x, packing, *weights, *others, *carried)

    def _activated_products(
        self, x: Tensor, packing: Packing, carried: Carried
    ) -> tuple[Tensor, Carried]:
        weights = [cast(UnitLinear, lin).weight for lin in self.lins]
        gate = None
        if self.decay_lin is not None:
            assert self.decay_bias is not None
            gate = (self.decay_lin.weight, self.decay_bias)
        pool = cast(SumPooling, self.pool)
        act = None if self.act is None else name_of(self.act)
        return pool.of_products(x, weights, gate, self.decay, packing, carried, act, self.bias)

    def _pooled(
        self,
        projections: Sequence[Tensor],
        decay: float | Tensor,
        packing: Packing,
        carried: Carried,
        selection: Tensor | None,
    ) -> tuple[Tensor, Carried]:
        if selection is None:
            return self.pool(projections, decay, packing, carried)
        pool = cast(SumPooling, self.pool)
        return pool.of_selected(projections, decay, packing, carried, selection)

    def _steps_in_one_op(self) -> bool:
        """Whether the maps that are read token by token are their weights and nothing else."""
        if not isinstance(self.pool, SumPooling):
            return False
        lins = (self.decay_recurrent, self.output_gate_recurrent, self.output_lin)
        return all(lin is None or (isinstance(lin, UnitLinear) and lin.unheard) for lin in lins)

    def _read_recurrent(
        self,
        tokens: Tokens,
        packing: Packing,
        h: Tensor,
        carried: Carried,
        mask: Tensor | None,
    ) -> tuple[Tensor, tuple[Tensor, ...]]:
        assert tokens.decay is not None
        act = None if self.act is None else name_of(self.act) or self.act
        form = Form(self.mapping, self.normalize, self.state, act)
        gates = Gates(
            tokens.decay,
            self._recurrent_weight(),
            tokens.output,
            None if self.output_lin is None else self.output_lin.weight,
            self.bias,
            tokens.highway,
            tokens.passed,
            mask,
        )
        initial = carried[0].transpose(0, 1)
        out, *states = recurrent_scan(form, packing, gates, h, initial, tokens.projections)
        ends = [last_rows(c, initial[j], packing) for j, c in enumerate(states)]
        return out, (last_rows(out, h, packing), torch.stack(ends, 1))

    def _read_token_by_token(
        self,
        tokens: Tokens,
        packing: Packing,
        h: Tensor,
        carried: Carried,
        mask: Tensor | None,
        selection: Tensor | None,
    ) -> tuple[Tensor, tuple[Tensor, ...]]:
        """The recurrent gates with maxima, a selection, or maps that are more than weights."""
        assert self.decay_recurrent is not None
        projections, *others = tokens
        steps = [packing.split(p) for p in projections]
        rows = [None if t is None else packing.split(t) for t in (*others, selection)]
        outs, ended_h, ended = [], [], []
        for t, texts in enumerate(packing.batch_sizes):
            if texts != h.size(0):
                ended_h.append(h[texts:])
                ended.append(tuple(c[texts:] for c in carried))
                h, carried = h[:texts], tuple(c[:texts] for c in carried)
            decay, output, highway, passed, weight = (None if r is None else r[t] for r in rows)
            read = h if mask is None else h * mask[:texts]
            decay = torch.sigmoid(decay + self.decay_recurrent(read))
            if output is not None and self.output_gate_recurrent is not None:
                output = torch.sigmoid(output + self.output_gate_recurrent(read))
            one = Packing.of_equal_lengths(1, texts)
            state, carried = self._pooled([p[t] for p in steps], decay, one, carried, weight)
            h = _held(self._output(state, output, highway, passed), h, one, weight)
            outs.append(h)
        h = torch.cat((h, *reversed(ended_h)))
        carried = tuple(torch.cat(parts) for parts in zip(carried, *reversed(ended), strict=True))
        return torch.cat(outs) if outs else projections[0], (h, *carried)

    def _output(
        self, state: Tensor, output: Tensor | None, highway: Tensor | None, x: Tensor | None
    ) -> Tensor:
        u = state if self.output_lin is None else self.output_lin(state)
        if self.bias is not None:
            u = u + self.bias
            name = None if self.act is None else name_of(self.act)
            if name in ("tanh", "relu") and not transforms_active():
                # The sum is nobody else's: no new memory, which costs more than the activation.
                return self._gated(getattr(torch, f"{name}_")(u), output, highway, x)
        if self.act is not None:
            u = self.act(u)
        return self._gated(u, output, highway, x)

    def _gated(
        self, u: Tensor, output: Tensor | None, highway: Tensor | None, x: Tensor | None
    ) -> Tensor:
        if output is not None:
            u = output * u
        if highway is not None:
            assert x is not None
            dtype = torch.promote_types(u.dtype, torch.promote_types(x.dtype, highway.dtype))
            u = torch.lerp(x.to(dtype), u.to(dtype), highway.to(dtype))
        return u

    def _recurrent_weight(self) -> Tensor:
        assert self.decay_recurrent is not None
        if self.output_gate_recurrent is None:
            return self.decay_recurrent.weight
        return torch.cat((self.decay_recurrent.weight, self.output_gate_recurrent.weight))

    def _build_pooling(self) -> Pooling:
        if self.pooling == "sum":
            return SumPooling(
                self.order, self.hidden_size, self.mapping, self.state, self.normalize
            )
        kind = ProductMaxPooling if self.mapping == "mul" else SumMaxPooling
        return kind(self.order, self.hidden_size, self.mapping, self.state)

    def _check_selection(self, selection: Tensor | None) -> None:
        if selection is not None and self.pooling == "max":
            raise ValueError(
                "selection with pooling='max': a maximum has no weights by which tokens could "
                "count in part; expected pooling='sum'"
            )

    def _parameter(self, name: str, size: int | None) -> None:
        self.register_parameter(name, None if size is None else Parameter(torch.zeros(size)))

    def _check(self, decay: float | str, output_map: bool) -> None:
        if self.state not in ("c", "z", "sum"):
            raise ValueError(f"state={self.state!r}: expected 'c', 'z' or 'sum'")
        if self.pooling not in ("sum", "max"):
            raise ValueError(f"pooling={self.pooling!r}: expected 'sum' or 'max'")
        if self.normalize and self._constant == 1.0:
            raise ValueError(
                "decay=1.0 with normalize=True: every token would have the weight 1 - decay = 0"
            )
        if self.highway and self.input_size not in (-1, self.hidden_size):
            raise ValueError(_HIGHWAY.format(self.input_size, self.hidden_size))
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
        if self.mapping == "add" and self.gate:
            raise ValueError(
                f"decay={decay!r} with pooling='max' and mapping='add': no recurrence is known for "
                "the maximum of sums under a gated decay; expected a number or 'learned'"
            )

    def __repr__(self) -> str:
        return f"{self.__class__.__name__}({described(self)})"


_HIGHWAY = (
    "highway=True with input_size={} and hidden_size={}: it adds the input to the output, expected "
    "equal sizes"
)


def described(layer: Any) -> str:
    """The arguments of a layer that differ from the default."""
    decay = layer.gate or ("learned" if layer.decay_logit is not None else layer._constant)
    words = [f"{layer.num_features}, {layer.hidden_size}, order={layer.order}"]
    words.append(f"mapping={layer.mapping!r}, decay={decay!r}")
    if layer.normalize != (layer.pooling == "sum"):
        words.append(f"normalize={layer.normalize}")
    if layer.state != "c":
        words.append(f"state={layer.state!r}")
    flags = {
        "scalar_decay": layer.scalar_decay,
        "output_map": layer.output_lin is not None,
        "output_gate": layer.output_gate_lin is not None,
        "highway": layer.highway,
    }
    words.extend(f"{name}=True" for name, on in flags.items() if on)
    if layer.pooling != "sum":
        words.append(f"pooling={layer.pooling!r}")
    if name_of(layer.act) != "tanh":
        words.append(f"act={name_of(layer.act) or layer.act!r}")
    if layer.bias is None:
        words.append("bias=False")
    return ", ".join(words)


def _checked_decay(decay: float | str) -> float | None:
    try:
        return checked_decay(decay)
    except ValueError as error:
        raise ValueError(f"{error}, 'input' or 'recurrent'") from None


def _held(out: Tensor, h: Tensor, packing: Packing, selection: Tensor | None) -> Tensor:
    """The outputs, each held from the token before for as much as its token is not selected."""
    if selection is None:
        return out
    if packing.num_steps == 1:
        return torch.lerp(h.to(out.dtype), out, selection.to(out.dtype).expand_as(out))
    path = PathPropagation(1.0 - selection, packing, h.unsqueeze(0), normalize=True)
    return path.aggregate(out, 1)


def _added(logits: Tensor, bias: Tensor, lin: Any) -> Tensor:
    """The logits plus a bias, in place where they are nobody else's."""
    own = isinstance(lin, UnitLinear) and lin.plain and logits.dtype == bias.dtype
    return logits.add_(bias) if own and not transforms_active() else logits + bias


def _sigmoid(logits: Tensor) -> Tensor:
    """The gate of logits that are not needed any more."""
    return torch.sigmoid(logits) if transforms_active() else torch.sigmoid_(logits)


def _by_row(mask: Tensor, packing: Packing) -> Tensor:
    """The factors of each row's text."""
    if packing.uniform:
        return mask.repeat(packing.num_steps, 1)
    rows = torch.cat([torch.arange(texts) for texts in packing.batch_sizes])
    return mask.index_select(0, rows.to(mask.device))
