"""What the tests that hold for every layer need to know about each layer."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.nn import Module

from tests.sequence.texts import SIZE, close, random_text

Options = dict[str, Any]


def parts_of(state: Any) -> tuple[Tensor, ...]:
    """The tensors of a state, the output first; a state may be a single tensor."""
    return (state,) if isinstance(state, Tensor) else tuple(state)


def named_parts(state: Any) -> dict[str, Tensor]:
    return {"h": state} if isinstance(state, Tensor) else state._asdict()


def plain(parts: Sequence[Any]) -> Any:
    """A state of these parts without the named tuple: a tensor or a plain tuple."""
    return parts[0] if len(parts) == 1 else tuple(parts)


def drawn(kind: Any, *args: Any, seed: int = 0, scale: float, **kwargs: Any) -> Any:
    """A layer in float64 in which no parameter is left at its initial value."""
    torch.manual_seed(seed)
    layer = kind(*args, **kwargs).double()
    for parameter in layer.parameters():
        torch.nn.init.normal_(parameter, std=scale)
    return layer


@dataclass(frozen=True)
class Family:
    """A layer, and the sets of options with which it is tested, by name.

    Attributes:
        random: Builds a layer of given sizes and options, with ``seed`` and ``scale``, in float64;
            no parameter is left at its initial value.
        hidden_size: The number of its outputs, on inputs of :obj:`SIZE`.
        shapes: The shapes of those parts of a cell's state that do not depend on the text, texts
            first, given the options, the number of texts and the number of features.
        reads: Reads texts by the equations of a cell: see :func:`equations.reading`.
        side_by_side: The indices of the parts of the state that hold the layers of a stack side by
            side in the last dimension, with the texts in the dimension before it.
        uncompared: The parts of the state that depend on how texts are cut or batched.
        in_single: The parts of the state that stay in float32 when the layer has fewer bits.
    """

    name: str
    layer: type[Module]
    cell: type[Module]
    random: Callable[..., Any]
    hidden_size: int
    options: dict[str, Options]
    shapes: Callable[[Options, int, int], list[tuple[int, ...]]]
    reads: Callable[..., tuple[list[Tensor], tuple[Tensor, ...]]]
    side_by_side: tuple[int, ...] = ()
    uncompared: tuple[str, ...] = ()
    in_single: tuple[str, ...] = ()

    def compared(self, state: Any) -> dict[str, Tensor]:
        return {k: part for k, part in named_parts(state).items() if k not in self.uncompared}

    def assert_same_states(self, found: Any, expected: Any, **tolerance: float) -> None:
        assert type(found) is type(expected)
        close(self.compared(found), self.compared(expected), **tolerance)

    def of_cell(self, state: Any) -> Any:
        """The state of a layer of one cell, in the form that the cell takes."""
        if state is None:
            return None
        parts = enumerate(parts_of(state))
        inner = [part if k in self.side_by_side else part[0] for k, part in parts]
        return plain(inner)

    def of_layer(self, state: Any) -> Any:
        """The state of a cell, in the form that a layer of only this cell returns."""
        numbered = enumerate(parts_of(state))
        parts = [part if k in self.side_by_side else part[None] for k, part in numbered]
        return parts[0] if isinstance(state, Tensor) else type(state)(*parts)

    def joined(self, cells: Sequence[Sequence[Tensor]]) -> list[Tensor]:
        """The state of a layer from the states of its cells, whose first dimension is the texts."""
        return [
            torch.cat([part.transpose(0, 1) for part in parts], dim=-1)
            if place in self.side_by_side
            else torch.stack(parts)
            for place, parts in enumerate(zip(*cells, strict=True))
        ]


@dataclass(frozen=True)
class Variant:
    """A family with one of its sets of options."""

    family: Family
    options: Options

    @property
    def hidden(self) -> int:
        return self.family.hidden_size

    @property
    def width(self) -> int:
        """The number of features of an output."""
        return self.hidden * (2 if self.options.get("bidirectional") else 1)

    def build(self, **more: Any) -> Any:
        return self.family.random(SIZE, self.hidden, **{**self.options, **more})

    def fresh(self) -> Any:
        """A layer with its initial values."""
        return self.family.layer(SIZE, self.hidden, **self.options)

    def states(self, count: int) -> list[list[Tensor]]:
        """An arbitrary state for each cell."""
        directions = 2 if self.options.get("bidirectional") else 1
        sizes = [SIZE, *[self.width] * (self.options.get("num_layers", 1) - 1)]
        cells = [size for size in sizes for _ in range(directions)]
        return [
            [
                random_text(*shape, seed=11 * number + k)
                for k, shape in enumerate(self.family.shapes(self.options, count, size))
            ]
            for number, size in enumerate(cells)
        ]

    def assert_shapes(self, state: Any, *count: int) -> None:
        expected = self.family.joined(self.states(*count or (1,)))
        shapes = [tuple(t.shape if count else t.squeeze(1).shape) for t in expected]
        assert [tuple(part.shape) for part in parts_of(state)][: len(shapes)] == shapes
