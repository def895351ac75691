"""What the layers on sequences share: layers and directions of cells, all forms of texts."""

from __future__ import annotations

import warnings
from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any, ClassVar, Generic, TypeVar, cast

import torch
from torch import Tensor
from torch.nn import Module, ModuleList
from torch.nn.utils.rnn import PackedSequence
from torch_geometric.data import Data

from pyg_kernels.nn.arguments import checked_count, checked_dropout
from pyg_kernels.ops.ragged import Layout
from pyg_kernels.sequence.texts import Texts, read_texts

State = TypeVar("State", bound=tuple[Tensor, ...])


class SequenceCell(Module, ABC, Generic[State]):
    """One step of a layer, and the layer on whole texts."""

    #: The dimension of a cell's state, by name, in which the texts are; 0 for those not named.
    text_dims: ClassVar[dict[str, int]] = {}

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
        self, x: Tensor, layout: Layout, state: tuple[Tensor, ...], masks: Any = None
    ) -> tuple[Tensor, tuple[Tensor, ...]]:
        """Reads whole texts.

        Args:
            x: The tokens, :obj:`(N, F)`.
            layout: Where those of each text are.
            state: The state before the first token.
            masks: Dropout's factors.

        Returns:
            The outputs, :obj:`(N, H)`, and the state after the last token of each text.
        """

    def forward(self, x: Tensor, state: State | tuple[Tensor, ...] | None = None) -> State:
        if not isinstance(x, Tensor) or x.dim() not in (1, 2):
            found = tuple(x.shape) if isinstance(x, Tensor) else type(x).__name__
            raise ValueError(f"x: {found}, expected a tensor of shape (B, F) or (F)")
        batched = x.dim() == 2
        dims = [self.text_dims.get(name, 0) for name in self._names]
        if not batched:
            x = x.unsqueeze(0)
            if state is not None:
                parts = self.named_parts(state).values()
                state = tuple(
                    t.unsqueeze(min(dim, t.dim())) for t, dim in zip(parts, dims, strict=True)
                )
        layout = Layout.of_grid(1, x.size(0), x.device)
        _, after = self.read(x, layout, self.checked_state(state, x.size(0), x))
        if not batched:
            after = tuple(t.squeeze(dim) for t, dim in zip(after, dims, strict=True))
        return self.state_type(*after)

    @property
    def _names(self) -> tuple[str, ...]:
        return cast(Any, self.state_type)._fields

    def named_parts(self, state: Sequence[Tensor]) -> dict[str, Tensor]:
        """The tensors of a state by their names."""
        names = self._names
        if not isinstance(state, (tuple, list)) or len(state) != len(names):
            raise ValueError(f"state: expected ({', '.join(names)})")
        for name, tensor in zip(names, state, strict=True):
            if not isinstance(tensor, Tensor):
                raise ValueError(f"state: {name} is {type(tensor).__name__}, expected a tensor")
        return dict(zip(names, state, strict=True))

    def checked_state(
        self, state: Sequence[Tensor] | None, num_texts: int, like: Tensor
    ) -> tuple[Tensor, ...]:
        """The state before the first token: zeros, or what was given."""
        if state is None:
            return self.start(num_texts, like)
        parts = self.named_parts(state)
        given = tuple(parts.values())
        shapes = self.state_shapes(given, num_texts, like.size(-1))
        for (name, tensor), shape in zip(parts.items(), shapes, strict=True):
            if tensor.shape != shape:
                raise ValueError(
                    f"state: {name} has shape {tuple(tensor.shape)} for a layer and a direction, "
                    f"expected {shape}"
                )
        return given


class SequenceLayer(Module, Generic[State]):
    """Layers of cells, in one direction or two, called as :class:`torch.nn.LSTM`.

    Args:
        cells: The cells, those of one layer after each other.
        num_layers: The number of layers.
        batch_first: Whether texts are the first dimension of tensors.
        dropout: The probability of dropout on the outputs of each layer but the last.
        bidirectional: Whether a second cell a layer reads each text from its end.
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
        self.batch_first, self.bidirectional = batch_first, bidirectional
        self.dropout = checked_dropout(dropout)
        if dropout and num_layers == 1:
            warnings.warn(
                f"dropout={dropout} with num_layers=1: it acts on the outputs of all layers but "
                "the last, so it does nothing here",
                stacklevel=3,
            )
        self.cells = ModuleList(cells)

    def reset_parameters(self) -> None:
        for cell in self.cells:
            cast(Any, cell).reset_parameters()

    def flatten_parameters(self) -> None:
        """Does nothing; there so that the layer takes the place of an ``nn.LSTM``."""

    def forward(
        self,
        x: Tensor | PackedSequence | Data,
        state: State | tuple[Tensor, ...] | None = None,
        *,
        ptr: Tensor | None = None,
        mask: Tensor | None = None,
        lengths: Tensor | Sequence[int] | None = None,
    ) -> tuple[Tensor | PackedSequence, State]:
        return self._read_texts(x, state, ptr, mask, lengths, None)

    def _read_texts(
        self,
        x: Tensor | PackedSequence | Data,
        state: State | tuple[Tensor, ...] | None,
        ptr: Tensor | None,
        mask: Tensor | None,
        lengths: Tensor | Sequence[int] | None,
        selection: Tensor | None,
    ) -> tuple[Tensor | PackedSequence, State]:
        if state is not None and self.bidirectional:
            raise ValueError(
                "state: a text can be read in pieces in one direction only, expected None where "
                "bidirectional=True"
            )
        texts = read_texts(x, self.batch_first, ptr, mask, lengths)
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
        return texts.restore(rows), self._returned_state(after, texts)

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
            given = None if states is None else states[number]
            before = cell.checked_state(given, layout.num_texts, rows)
            out, end = self._read_cell(cell, rows, layout, before, selection)
            outs.append(out)
            ends.append(end)
        return outs[0] if directions == 1 else torch.cat(outs, dim=1), ends

    def _read_cell(
        self,
        cell: SequenceCell[State],
        x: Tensor,
        layout: Layout,
        before: tuple[Tensor, ...],
        selection: Tensor | None,
    ) -> tuple[Tensor, tuple[Tensor, ...]]:
        """Whole texts through one cell; only layers that take a selection are given one."""
        return cell.read(x, layout, before, self._masks(x, layout.num_texts))

    def _masks(self, x: Tensor, num_texts: int) -> Any:
        """What `read` takes of dropout; None for none."""

    def _given_states(
        self, state: State | tuple[Tensor, ...] | None, texts: Texts
    ) -> list[tuple[Tensor, ...]] | None:
        if state is None:
            return None
        parts = self._cell(0).named_parts(state)
        if not texts.batched:
            parts = {name: t.unsqueeze(min(1, t.dim())) for name, t in parts.items()}
        num_texts = texts.layout.num_texts
        for name, tensor in parts.items():
            if tensor.dim() < 2 or tensor.size(1) != num_texts:
                raise ValueError(
                    f"state: {name} has shape {tuple(tensor.shape)}, expected {num_texts} texts in "
                    "the second dimension"
                )
        by_name = [self._parted(name, t) for name, t in parts.items()]
        return list(zip(*by_name, strict=True))

    def _returned_state(self, layers: list[tuple[Tensor, ...]], texts: Texts) -> State:
        cell = self._cell(0)
        parts = []
        for name, tensors in zip(cell._names, zip(*layers, strict=True), strict=True):
            part = self._joined(name, tensors)
            parts.append(part if texts.batched else part.squeeze(1))
        return cell.state_type(*parts)

    def _joined(self, name: str, layers: Sequence[Tensor]) -> Tensor:
        """One tensor of the state of all cells; texts in its second dimension."""
        return torch.stack(list(layers))

    def _parted(self, name: str, state: Tensor) -> Sequence[Tensor]:
        """The inverse of `_joined`."""
        if len(state) != len(self.cells):
            raise ValueError(
                f"state: {name} has shape {tuple(state.shape)}, expected {len(self.cells)} "
                "layers in the first dimension"
            )
        return state.unbind(0)

    def _cell(self, number: int) -> SequenceCell[State]:
        return cast("SequenceCell[State]", self.cells[number])

    def _described(self) -> list[str]:
        """The arguments that differ from their defaults."""
        words = [] if self.num_layers == 1 else [f"num_layers={self.num_layers}"]
        for name in ("state_dropout", "dropout", "batch_first", "bidirectional"):
            if getattr(self, name, None):
                words.append(f"{name}={getattr(self, name)}")
        return words

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
    if not torch.compiler.is_compiling() and not bool(((weights >= 0) & (weights <= 1)).all()):
        raise ValueError("selection: expected a weight in [0, 1] for each token")
    return weights.unsqueeze(1)
