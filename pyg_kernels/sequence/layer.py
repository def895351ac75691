"""The base of the sequence layers: stacked cells in one or two directions, all forms of texts."""

from __future__ import annotations

import warnings
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import Any, ClassVar, Generic, TypeVar, cast

import torch
from torch import Tensor
from torch.nn import Module, ModuleList
from torch.nn.utils.rnn import PackedSequence
from torch_geometric.data import Data

from pyg_kernels.checks import check_flags, checked_count
from pyg_kernels.nn.activation import precision_of
from pyg_kernels.nn.arguments import checked_dropout, differing
from pyg_kernels.nn.linear import Resettable
from pyg_kernels.ops.operator import is_readable
from pyg_kernels.ops.ragged import Layout
from pyg_kernels.sequence.precision import check_dtype, in_autocast
from pyg_kernels.sequence.texts import Texts, read_texts

State = TypeVar("State", bound=tuple[Tensor, ...])
_START = "None to begin the texts"


class SequenceCell(Resettable, Module, ABC, Generic[State]):
    """One step of a layer, and the layer on whole texts."""

    #: By the name of a state's tensor, the dimension of the texts; 0 for tensors not listed.
    text_dims: ClassVar[dict[str, int]] = {}

    @property
    @abstractmethod
    def input_size(self) -> int:
        """The number of features of a token; -1 until the first input shows it."""

    @property
    @abstractmethod
    def state_type(self) -> type[State]:
        """The named tuple in which the state is carried; the output is its first entry."""

    @abstractmethod
    def start(self, num_texts: int, like: Tensor) -> tuple[Tensor, ...]:
        """The state before the first token."""

    @abstractmethod
    def state_shapes(
        self, state: tuple[Tensor, ...], num_texts: int, num_features: int
    ) -> list[tuple[int, ...]]:
        """The shapes that a given state should have."""

    @abstractmethod
    def read(
        self, x: Tensor, layout: Layout, state: tuple[Tensor, ...]
    ) -> tuple[Tensor, tuple[Tensor, ...]]:
        """Reads whole texts.

        Args:
            x: The tokens, :obj:`(N, F)`.
            layout: Where the tokens of each text are.
            state: The state before the first token.

        Returns:
            The outputs, :obj:`(N, H)`, and the state after the last token of each text.
        """

    @abstractmethod
    def described(self) -> list[str]:
        """The sizes, and the arguments that differ from their defaults."""

    def extra_repr(self) -> str:
        return ", ".join(self.described())

    def __repr__(self) -> str:
        return f"{self.__class__.__name__}({self.extra_repr()})"

    def forward(self, x: Tensor, state: State | tuple[Tensor, ...] | None = None) -> State:
        if not isinstance(x, Tensor) or x.dim() not in (1, 2):
            found = tuple(x.shape) if isinstance(x, Tensor) else type(x).__name__
            raise ValueError(f"x: {found}, expected a tensor of shape (B, F) or (F)")
        batched = x.dim() == 2
        dims = [self.text_dims.get(name, 0) for name in self._names]
        x = x if batched else x.unsqueeze(0)
        count, size = x.shape

        def shapes(given: tuple[Tensor, ...]) -> list[tuple[int, ...]]:
            return self.state_shapes(given, count, size)

        if state is None:
            before = self.start(count, x)
        else:
            before = self.checked_state(state, None if batched else dims, shapes)
        _, after = self.read(x, Layout.of_grid(1, count, x.device), before)
        if not batched:
            after = tuple(t.squeeze(dim) for t, dim in zip(after, dims, strict=True))
        return self.state_type(*map(in_autocast, after))

    def check_tokens(self, x: Tensor) -> None:
        """Refuses tokens of another size, or in another precision than the weights'."""
        if x.size(-1) != self.input_size and self.input_size != -1:
            raise ValueError(f"x has {x.size(-1)} features: expected {self.input_size}")
        check_dtype(x, precision_of(self, x))

    @property
    def _names(self) -> tuple[str, ...]:
        return cast(Any, self.state_type)._fields

    def named_parts(self, state: Sequence[Tensor]) -> dict[str, Tensor]:
        """The tensors of a state by their names."""
        names = self._names
        if not isinstance(state, (tuple, list)) or len(state) != len(names):
            raise ValueError(f"state: expected ({', '.join(names)}), or {_START}")
        for name, tensor in zip(names, state, strict=True):
            if not isinstance(tensor, Tensor):
                found = type(tensor).__name__
                raise ValueError(f"state: {name} is {found}, expected a tensor, or {_START}")
        return dict(zip(names, state, strict=True))

    def checked_state(
        self,
        state: Sequence[Tensor],
        alone: Sequence[int] | None,
        shapes_of: Callable[[tuple[Tensor, ...]], list[tuple[int, ...]]],
    ) -> tuple[Tensor, ...]:
        """The tensors of a state, with the dimension of texts that a state of one text lacks.

        Refuses shapes that `shapes_of` does not give, and precisions above the layer's and float32.
        """
        parts = self.named_parts(state)
        given = tuple(parts.values())
        if alone is not None:
            given = tuple(t.unsqueeze(min(d, t.dim())) for t, d in zip(given, alone, strict=True))
        shapes = shapes_of(given)
        if alone is not None:
            shapes = [(*s[:d], *s[d + 1 :]) for s, d in zip(shapes, alone, strict=True)]
        weights = precision_of(self, given[0])
        widest = torch.promote_types(weights, torch.float32)
        for (name, tensor), shape in zip(parts.items(), shapes, strict=True):
            if tensor.shape != shape:
                raise ValueError(
                    f"state: {name} has shape {tuple(tensor.shape)}, expected {shape}, or {_START}"
                )
            if torch.promote_types(tensor.dtype, widest) != widest:
                raise ValueError(
                    f"state: {name} has dtype {tensor.dtype}, but the weights have {weights}: "
                    f"convert it, {name}.to({weights})"
                )
        return given


class SequenceLayer(Resettable, Module, Generic[State]):
    """Layers of cells, in one or two directions, called like :class:`torch.nn.LSTM`.

    Args:
        cells: The cells, layer by layer, direction by direction.
        num_layers: The number of layers.
        batch_first: Whether texts are the first dimension of inputs and outputs.
        dropout: The probability of dropout on the outputs of each layer but the last.
        bidirectional: Whether each layer has a second cell, which reads each text from its end.
    """

    def __init__(
        self,
        cells: Sequence[SequenceCell[State]],
        num_layers: int,
        batch_first: bool,
        dropout: float,
        bidirectional: bool,
    ) -> None:
        super().__init__()
        self.num_layers = num_layers
        check_flags(batch_first=batch_first, bidirectional=bidirectional)
        self.batch_first, self.bidirectional = batch_first, bidirectional
        self.dropout = checked_dropout(dropout)
        if dropout and num_layers == 1:
            warnings.warn(
                f"dropout={dropout} with num_layers=1: it acts on the outputs of all layers but "
                "the last, so it does nothing here",
                stacklevel=3,
            )
        self.cells = ModuleList(cells)

    def flatten_parameters(self) -> None:
        """Does nothing; it exists so that the layer can replace an ``nn.LSTM``."""

    def forward(
        self,
        x: Tensor | PackedSequence | Data,
        state: State | tuple[Tensor, ...] | None = None,
        *,
        ptr: Tensor | None = None,
        mask: Tensor | None = None,
        lengths: Tensor | Sequence[int] | None = None,
    ) -> tuple[Tensor | PackedSequence, State]:
        return self._read_texts(read_texts(x, self.batch_first, ptr, mask, lengths), state)

    def _read_texts(
        self,
        texts: Texts,
        state: State | tuple[Tensor, ...] | None,
        selection: Tensor | None = None,
    ) -> tuple[Tensor | PackedSequence, State]:
        if not texts.rows.is_floating_point():
            raise ValueError(
                f"x has dtype {texts.rows.dtype}: expected features; embed word ids first"
            )
        states = self._given_states(state, texts)
        weights = None if selection is None else _weights(selection, texts)
        rows, after = texts.rows, []
        for layer in range(self.num_layers):
            if layer and self.dropout and self.training:
                rows = torch.nn.functional.dropout(rows, self.dropout)
            rows, ends = self._read_layer(layer, rows, texts, states, weights)
            after.extend(ends)
        return texts.restore(rows), self._returned_state(after, texts.batched)

    def _read_layer(
        self,
        layer: int,
        rows: Tensor,
        texts: Texts,
        states: list[tuple[Tensor, ...]] | None,
        selection: Tensor | None,
    ) -> tuple[Tensor, list[tuple[Tensor, ...]]]:
        outs, ends = [], []
        directions = 2 if self.bidirectional else 1
        for direction in range(directions):
            number = layer * directions + direction
            cell = self._cell(number)
            layout = texts.layout.reversed() if direction else texts.layout
            before = cell.start(layout.num_texts, rows) if states is None else states[number]
            out, end = self._read_cell(cell, rows, layout, before, selection)
            outs.append(in_autocast(out))
            ends.append(tuple(map(in_autocast, end)))
        return outs[0] if directions == 1 else torch.cat(outs, dim=1), ends

    def _read_cell(
        self,
        cell: SequenceCell[State],
        x: Tensor,
        layout: Layout,
        before: tuple[Tensor, ...],
        selection: Tensor | None,
    ) -> tuple[Tensor, tuple[Tensor, ...]]:
        """Reads whole texts with one cell; a selection comes only to layers that take one."""
        return cell.read(x, layout, before)

    def _given_states(
        self, state: State | tuple[Tensor, ...] | None, texts: Texts
    ) -> list[tuple[Tensor, ...]] | None:
        if state is None:
            return None
        cell = self._cell(0)
        alone = None if texts.batched else [1] * len(cell._names)
        given = cell.checked_state(state, alone, lambda given: self._state_shapes(given, texts))
        # Where values cannot be read, the state is used without this check.
        if self.bidirectional and is_readable(*given) and any(bool(t.any()) for t in given):
            raise ValueError(
                "state: a text can be read in segments in one direction only, expected zeros, "
                f"or {_START}, where bidirectional=True"
            )
        size = texts.rows.size(1)
        named = zip(cell._names, given, strict=True)
        by_name = [self._parted(name, t, size) for name, t in named]
        return list(zip(*by_name, strict=True))

    def _state_shapes(self, state: tuple[Tensor, ...], texts: Texts) -> list[tuple[int, ...]]:
        """The shapes that a given state should have, with a dimension for the texts."""
        shapes = self._cell(0).state_shapes(state, texts.layout.num_texts, texts.rows.size(1))
        return [(len(self.cells), *shape) for shape in shapes]

    def initial_state(self, batch_size: int) -> State:
        """The state of zeros that texts begin with; passing None as the state is equivalent.

        Args:
            batch_size: The number of texts B.
        """
        count, like = checked_count(batch_size, "batch_size", 0), next(self.parameters())
        return self._returned_state(
            [
                cell.start(count, torch.empty(0, max(cell.input_size, 0), device=like.device))
                for cell in map(self._cell, range(len(self.cells)))
            ],
            batched=True,
        )

    def _returned_state(self, layers: list[tuple[Tensor, ...]], batched: bool) -> State:
        cell = self._cell(0)
        parts = []
        for name, tensors in zip(cell._names, zip(*layers, strict=True), strict=True):
            part = self._joined(name, tensors)
            parts.append(part if batched else part.squeeze(1))
        return cell.state_type(*parts)

    def _joined(self, name: str, layers: Sequence[Tensor]) -> Tensor:
        """One tensor of the state, for all cells; texts are its second dimension."""
        return torch.stack(list(layers))

    def _parted(self, name: str, state: Tensor, num_features: int) -> Sequence[Tensor]:
        """The inverse of `_joined`."""
        return state.unbind(0)

    @property
    def input_size(self) -> int:
        """The number of features of a token; -1 until the first input shows it."""
        return self._cell(0).input_size

    def _cell(self, number: int) -> SequenceCell[State]:
        return cast("SequenceCell[State]", self.cells[number])

    def extra_repr(self) -> str:
        own = differing(
            num_layers=(self.num_layers, 1),
            state_dropout=(getattr(self, "state_dropout", 0.0), 0.0),
            dropout=(self.dropout, 0.0),
            batch_first=(self.batch_first, False),
            bidirectional=(self.bidirectional, False),
        )
        return ", ".join([*self._cell(0).described(), *own])

    def __repr__(self) -> str:
        return f"{self.__class__.__name__}({self.extra_repr()})"


def layer_sizes(
    input_size: int, hidden_size: int, num_layers: int, bidirectional: bool
) -> list[int]:
    """The number of features that each cell reads, layer by layer, direction by direction."""
    directions = 2 if bidirectional else 1
    above = checked_count(hidden_size, "hidden_size") * directions
    sizes = [input_size, *[above] * (checked_count(num_layers, "num_layers") - 1)]
    return [size for size in sizes for _ in range(directions)]


def _weights(selection: Tensor, texts: Texts) -> Tensor:
    """The weight of each row, (N, 1)."""
    weights = texts.arrange(selection, "selection").to(texts.rows.dtype)
    if is_readable(weights) and not bool(((weights >= 0) & (weights <= 1)).all()):
        raise ValueError("selection: expected a weight in [0, 1] for each token")
    return weights.unsqueeze(1)
