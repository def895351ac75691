"""How a layer pools the n-grams of a text: the decayed sum, or the maximum, over all of them."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import NamedTuple

import torch
from torch import Tensor

from pyg_kernels.ops.ragged import Layout
from pyg_kernels.ops.scan.maximum import (
    ProductExtremes,
    SumTable,
    product_max_scan,
    sum_max_scan,
)
from pyg_kernels.walk import Combine

Carried = tuple[Tensor, ...]


class Pooling(ABC):
    """Pools the n-grams up to each token of each text.

    Args:
        order: The number of tokens n in an n-gram.
        channels: The number of channels D.
        combine: ``'mul'`` or ``'add'``.
        readout: ``'c'``, ``'z'`` or ``'sum'``.
    """

    def __init__(self, order: int, channels: int, combine: Combine, readout: str) -> None:
        self.order, self.channels = order, channels
        self.combine, self.readout = combine, readout

    @abstractmethod
    def shapes(self, carried: Carried | None, num_texts: int) -> list[tuple[int, ...]]:
        """The shapes of the carried tensors, the texts first."""

    @abstractmethod
    def start(self, num_texts: int, like: Tensor) -> Carried:
        """What is carried into the first token."""

    @abstractmethod
    def __call__(
        self, x: Tensor, decay: float | Tensor, layout: Layout, carried: Carried
    ) -> tuple[Tensor, Carried]:
        r"""The state at each token, :obj:`(N, D)`, and what is carried on from the last.

        Args:
            x: :math:`P_1, \ldots, P_n` side by side, :obj:`(N, n * D)`.
            decay: :math:`\lambda`: a number or a tensor :obj:`(D,)`, :obj:`(N, 1)`, :obj:`(N, D)`.
            layout: The texts.
            carried: What is carried into the first token.
        """


class SumPooling(Pooling):
    r"""The decayed sums :math:`c_1, \ldots, c_n`, carried as :obj:`(B, n, D)`."""

    def __init__(
        self, order: int, channels: int, combine: Combine, readout: str, normalize: bool
    ) -> None:
        super().__init__(order, channels, combine, readout)
        self.normalize = normalize

    def shapes(self, carried: Carried | None, num_texts: int) -> list[tuple[int, ...]]:
        return [(num_texts, self.order, self.channels)]

    def start(self, num_texts: int, like: Tensor) -> Carried:
        return (like.new_zeros(num_texts, self.order, self.channels),)

    def __call__(
        self, x: Tensor, decay: float | Tensor, layout: Layout, carried: Carried
    ) -> tuple[Tensor, Carried]:
        raise TypeError("sums are pooled by the scan itself: see RCNNCell")


class ProductMaxPooling(Pooling):
    """The largest and the smallest product, carried with the number of tokens read."""

    def shapes(self, carried: Carried | None, num_texts: int) -> list[tuple[int, ...]]:
        extremes = (num_texts, self.order, self.channels)
        return [extremes, extremes, (num_texts,)]

    def start(self, num_texts: int, like: Tensor) -> Carried:
        extremes = like.new_zeros(num_texts, self.order, self.channels)
        return extremes, extremes, torch.zeros(num_texts, dtype=torch.long, device=like.device)

    def __call__(
        self, x: Tensor, decay: float | Tensor, layout: Layout, carried: Carried
    ) -> tuple[Tensor, Carried]:
        c_max, c_min, seen = carried
        before = ProductExtremes(c_max.transpose(0, 1), c_min.transpose(0, 1), seen)
        state, after = product_max_scan(x, self.order, decay, layout, before, self.readout)
        c_max, c_min = after.c_max.transpose(0, 1), after.c_min.transpose(0, 1)
        return state, (c_max, c_min, after.seen)


class SumMaxPooling(Pooling):
    """The best sums by their first token, carried with the number of tokens read."""

    def shapes(self, carried: Carried | None, num_texts: int) -> list[tuple[int, ...]]:
        starts = 0 if carried is None or carried[0].dim() < 4 else carried[0].size(-2)
        return [(num_texts, self.order, starts, self.channels), (num_texts,)]

    def start(self, num_texts: int, like: Tensor) -> Carried:
        best = like.new_zeros(num_texts, self.order, 0, self.channels)
        return best, torch.zeros(num_texts, dtype=torch.long, device=like.device)

    def __call__(
        self, x: Tensor, decay: float | Tensor, layout: Layout, carried: Carried
    ) -> tuple[Tensor, Carried]:
        best, seen = carried
        before = SumTable(best.transpose(0, 1), seen)
        state, after = sum_max_scan(x, self.order, decay, layout, before, self.readout)
        return state, (after.best.transpose(0, 1), after.seen)


class RCNNState(NamedTuple):
    """What a layer with sum pooling carries from one segment of a text to the next.

    Attributes:
        h: The output at the last token, :obj:`(num_layers * num_directions, B, H)`.
        c: The states :math:`c_1, ..., c_n`, :obj:`(num_layers * num_directions, B, n, H)`.
    """

    h: Tensor
    c: Tensor


class RCNNProductState(NamedTuple):
    """What a layer with max-pooling over products carries on.

    Attributes:
        h: The output at the last token, :obj:`(num_layers * num_directions, B, H)`.
        c_max: The largest products of each order, :obj:`(num_layers * num_directions, B, n, H)`.
        c_min: The smallest.
        seen: The number of tokens read, :obj:`(num_layers * num_directions, B)`.
    """

    h: Tensor
    c_max: Tensor
    c_min: Tensor
    seen: Tensor


class RCNNTableState(NamedTuple):
    """What a layer with max-pooling over sums carries on; it grows with the text.

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
STATES: dict[type[Pooling], type[State]] = {
    SumPooling: RCNNState,
    ProductMaxPooling: RCNNProductState,
    SumMaxPooling: RCNNTableState,
}
