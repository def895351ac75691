"""One step of a recurrent kernel machine, and one layer of it on a whole batch of texts."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, ClassVar, Literal, NamedTuple, cast

import torch
from torch import Tensor
from torch.nn import LayerNorm, Module, ModuleDict, Parameter, ParameterDict

from pyg_kernels.checks import check_flags, checked_choice, checked_count
from pyg_kernels.nn.activation import precision_of
from pyg_kernels.nn.arguments import differing
from pyg_kernels.nn.linear import Hookable, StateLinear, weight_of
from pyg_kernels.ops.activations import function_name
from pyg_kernels.ops.ragged import Layout
from pyg_kernels.ops.scan.memory import Form, memory_scan
from pyg_kernels.sequence.filters import (
    DenseFilters,
    Filters,
    SyncNetFilters,
    checked_widths,
    filtered,
)
from pyg_kernels.sequence.layer import SequenceCell
from pyg_kernels.sequence.precision import place
from pyg_kernels.sequence.rkm_kinds import (
    CELLS,
    Pointwise,
    Static,
    checked_feedback,
    checked_q,
    checked_static,
    described_q,
)

_FILTERS: dict[str, type[Filters]] = {"dense": DenseFilters, "syncnet": SyncNetFilters}


class RKMState(NamedTuple):
    """The state of a recurrent kernel machine, from one segment of a text to the next.

    Attributes:
        h: The output at the last token, :obj:`(num_layers * num_directions, B, H)`.
        c: The memory, :obj:`(num_layers * num_directions, B, H)`.
    """

    h: Tensor
    c: Tensor


class RKMWindowState(NamedTuple):
    """The state of a recurrent kernel machine on n-grams.

    Attributes:
        h: The output at the last token, :obj:`(num_layers * num_directions, B, H)`.
        c: The memory, :obj:`(num_layers * num_directions, B, H)`.
        x: The last :math:`(n - 1) d` tokens that each cell has read, with zeros before the
            first; the features of all cells are side by side, :obj:`((n - 1) * d, B, S)`.
    """

    h: Tensor
    c: Tensor
    x: Tensor


State = RKMState | RKMWindowState


class OutputNorm(Hookable, LayerNorm):
    """The normalization of the memory, applied for the output."""


class RKMCell(SequenceCell[State]):
    r"""One step of :class:`~pyg_kernels.sequence.RKM`, like :class:`torch.nn.LSTMCell` for LSTMs.

    Formulas, arguments and errors are those of RKM. :obj:`filters` holds the filters over n-grams,
    :obj:`recurrent` the maps of the previous output, and :obj:`biases` the biases. Their keys are
    the names of the gates: ``'output'``, ``'input'``, ``'forget'``, and also ``'candidate'``, as
    far as the cell has them.

    Shapes:
        - **input:** one token of each text, :math:`(B, F)` or :math:`(F)`, and the previous state.
        - **output:** the state after: an :class:`~pyg_kernels.sequence.RKMState` of the output h
          and the memory c, :math:`(B, H)`; if a window is wider than one token, an
          :class:`~pyg_kernels.sequence.RKMWindowState`, which also has the last tokens x,
          :math:`((n - 1) d, B, F)`. Without B if the input has none.

    Example:
        >>> import torch
        >>> from pyg_kernels.sequence import RKMCell
        >>> cell, state = RKMCell(5, 3, cell="ran"), None
        >>> for token in torch.rand(7, 2, 5):  # two texts of seven tokens
        ...     state = cell(token, state)
        >>> torch.equal(state.h, state.c)  # this cell's output is its memory
        True

    See Also:
        :class:`~pyg_kernels.sequence.RKM`, which reads whole texts.
    """

    text_dims: ClassVar[dict[str, int]] = {"x": 1}
    log_input: Tensor | None
    forget_logit: Tensor | None

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        *,
        cell: str = "rkm-lstm",
        ngram: int | Sequence[int] = 1,
        dilation: int = 1,
        filters: Literal["dense", "syncnet"] = "dense",
        layer_norm: bool = False,
        feedback: bool | None = None,
        static: Static = None,
        learn_static: bool = False,
        q: str | Pointwise | None = None,
        bias: bool = True,
        device: torch.device | str | int | None = None,
        dtype: torch.dtype | None = None,
    ) -> None:
        super().__init__()
        self.hidden_size = checked_count(hidden_size, "hidden_size")
        self.cell = checked_choice(cell, "cell", CELLS)
        check_flags(bias=bias, layer_norm=layer_norm, learn_static=learn_static)
        self.kind = CELLS[cell]
        self.ngram = checked_widths(ngram, hidden_size)
        self.dilation = checked_count(dilation, "dilation")
        if dilation > 1 and max(self.ngram) == 1:
            raise ValueError(f"dilation={dilation} with ngram=1: one token has no spacing")
        self.filter_kind = checked_choice(filters, "filters", _FILTERS)
        self.feedback = checked_feedback(feedback, cell, self.kind)
        given = checked_q(q, cell)
        if isinstance(given, Module):
            self.register_module("q", None)  # reserves its place among the parameters
        else:
            self.q = given
        self.history = (max(self.ngram) - 1) * dilation

        gates = self._gates
        self.filters = ModuleDict(
            {gate: _FILTERS[filters](input_size, hidden_size, self.ngram) for gate in gates}
        )
        reading = gates if self.kind.feeds_candidate else gates[:-1]
        self.recurrent = ModuleDict(
            {gate: StateLinear(hidden_size) for gate in reading} if self.feedback else {}
        )
        biased = gates if self.kind.candidate else gates[:-1]
        self.biases = ParameterDict(
            {gate: Parameter(torch.empty(hidden_size)) for gate in biased} if bias else {}
        )
        self.norm = OutputNorm(hidden_size) if layer_norm else None
        self._init_static(static, learn_static)
        self.reset_parameters()
        place(self, device, dtype)
        if isinstance(given, Module):
            self.q = given.to(device=device, dtype=dtype)  # keeps what it has learned

    def reset_parameters(self) -> None:
        super().reset_parameters()
        for bias in self.biases.values():
            torch.nn.init.zeros_(bias)
        with torch.no_grad():
            if self.log_input is not None:
                self.log_input.fill_(math.log(self._start[0]))
            if self.forget_logit is not None:
                self.forget_logit.fill_(math.log(self._start[1] / (1.0 - self._start[1])))

    @property
    def input_size(self) -> int:
        return cast(Filters, self.filters["candidate"]).input_size

    @property
    def static(self) -> tuple[float | Tensor, float | Tensor] | None:
        """The factors of the candidate and of the previous memory; None for cells without them."""
        if self.kind.static is None:
            return None
        s_i = self._start[0] if self.log_input is None else torch.exp(self.log_input)
        s_f = self._start[1] if self.forget_logit is None else torch.sigmoid(self.forget_logit)
        return s_i, s_f

    @property
    def state_type(self) -> type[State]:
        return RKMWindowState if self.history else RKMState

    def start(self, num_texts: int, like: Tensor) -> tuple[Tensor, ...]:
        zeros = like.new_zeros(num_texts, self.hidden_size, dtype=precision_of(self, like))
        if not self.history:
            return zeros, zeros
        return zeros, zeros, zeros.new_zeros(self.history, num_texts, like.size(-1))

    def state_shapes(
        self, state: tuple[Tensor, ...], num_texts: int, num_features: int
    ) -> list[tuple[int, ...]]:
        memory = (num_texts, self.hidden_size)
        return [memory, memory, (self.history, num_texts, num_features)][: len(state)]

    def read(
        self, x: Tensor, layout: Layout, state: tuple[Tensor, ...]
    ) -> tuple[Tensor, tuple[Tensor, ...]]:
        self.check_tokens(x)
        for gate in self._gates:
            cast(Filters, self.filters[gate]).take_size(x.size(-1))
        h, c, *before = state
        past = before[0].to(x.dtype) if before else x.new_empty(0, layout.num_texts, x.size(-1))
        filters = [cast(Filters, self.filters[gate])() for gate in self._gates]
        logits = filtered(layout, x, past, filters, self.dilation)
        maps = [weight_of(self.recurrent[g]) for g in self._gates if g in self.recurrent]
        feed = torch.cat(maps) if maps else None
        form, norm, q = self._form()
        out, _, end = memory_scan(form, layout, logits, self._rows(form), h, c, feed, norm, q)
        after = (layout.last(out, h), end)
        return out, (*after, layout.tail(x, past)) if before else after

    @property
    def _gates(self) -> tuple[str, ...]:
        return (*self.kind.gates, "candidate")

    def _form(self) -> tuple[Form, Pointwise | None, Pointwise | None]:
        """The form of the op; and norm and q, if the op has to call them as functions."""
        kind, norm, q = self.kind, self.norm, self.q
        name = q if isinstance(q, str) else "none" if q is None else function_name(q)
        form = Form(
            output="output" in kind.gates,
            input="input" in kind.gates,
            forget="forget" in kind.gates,
            coupled=kind.coupled,
            memory=kind.memory,
            candidate=kind.candidate or "none",
            carried=name or "none",
            out=(name if self.cell == "general" else kind.out) or "none",
        )
        if (
            isinstance(norm, LayerNorm)
            and type(norm).forward is LayerNorm.forward
            and not getattr(norm, "hooked", False)
            and norm.elementwise_affine
            and norm.bias is not None
        ):
            form, norm = form._replace(norm=True, eps=norm.eps), None
        return form, norm, q if name is None and callable(q) else None

    def _rows(self, form: Form) -> Tensor:
        """The op's parameters: biases, the norm's scale and shift, and static factors."""
        like = next(self.filters.parameters())
        zeros = like.new_zeros(self.hidden_size)
        rows = [self.biases.get(g, zeros) for g in self._gates]
        norm = cast(LayerNorm, self.norm)
        rows += [norm.weight, norm.bias] if form.norm else [zeros, zeros]
        rows += [zeros + factor for factor in self.static or (1.0, 1.0)]
        return torch.stack([row.to(zeros) for row in rows])

    def _init_static(self, static: Static, learn: bool) -> None:
        default, learned = self.kind.static, learn and self.kind.static is not None
        if default is None:
            if static is not None or learn:
                name = "static" if static is not None else "learn_static"
                value = static if static is not None else learn
                raise ValueError(
                    f"{name}={value!r} with cell={self.cell!r}: its memory has no static factors"
                )
            self._start = (1.0, 1.0)
        else:
            self._start = checked_static(static, self.cell, default, self.kind.memory, learn)
        self.log_input = Parameter(torch.empty(())) if learned else None
        self.forget_logit = Parameter(torch.empty(())) if learned and self.kind.memory else None

    def described(self) -> list[str]:
        widths = self.ngram[0] if len(self.ngram) == 1 else list(self.ngram)
        static: Any = self._start
        default: Any = self.kind.static or static
        if not self.kind.memory:
            static, default = static[0], default[0]
        return [
            f"{self.input_size}, {self.hidden_size}, cell={self.cell!r}, ngram={widths}",
            *differing(
                dilation=(self.dilation, 1),
                filters=(self.filter_kind, "dense"),
                layer_norm=(self.norm is not None, False),
                feedback=(self.feedback, self.kind.memory),
                static=(static, default),
                learn_static=(self.log_input is not None, False),
                bias=(bool(self.biases), bool(self.kind.gates or self.kind.candidate)),
            ),
            *([f"q={described_q(self.q)}"] if self.cell == "general" else []),
        ]
