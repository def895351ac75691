"""From the vectors of words to the outputs of the last layer, and the dropouts on the way."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from functools import partial
from itertools import pairwise
from typing import Any, cast

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.nn.utils import parametrize

from benchmarks.harness.language_model.config import LanguageModelConfig
from pyg_kernels.sequence import RCNN, RKM, RKMCell


def drop(x: Tensor, probability: float, training: bool, locked: bool) -> Tensor:
    """Dropout of ``(T, B, F)``, locked with one mask for all steps (Gal and Ghahramani 2016)."""
    if not training or not probability:
        return x
    if not locked:
        return F.dropout(x, probability)
    return x * _mask(x[:1], probability)


def drop_words(vectors: Tensor, probability: float, training: bool) -> Tensor:
    """Dropout of whole words: their vectors are zero wherever they stand in the batch."""
    if not training or not probability:
        return vectors
    return vectors * _mask(vectors[:, :1], probability)


class WeightDrop(nn.Module):
    """A parametrization of a matrix whose entries are dropped anew for each reading.

    Recurrent dropout of Merity et al. (2018): the mask holds for all steps, so that a fused
    recurrence stays one.
    """

    def __init__(self, probability: float) -> None:
        super().__init__()
        self.probability = probability

    def forward(self, weight: Tensor) -> Tensor:
        return F.dropout(weight, self.probability, self.training)


def _mask(like: Tensor, probability: float) -> Tensor:
    keep = 1.0 - probability
    return like.new_empty(like.shape).bernoulli_(keep).div_(keep)


class Encoder(nn.Module, ABC):
    """From ``(T, B, F)`` and a state to ``(T, B, out_features)`` and the state after."""

    out_features: int

    @abstractmethod
    def reset_parameters(self) -> None:
        """Draws fresh weights."""


class RCNNEncoder(Encoder):
    """Layers of the string-kernel recurrent convolution."""

    def __init__(self, config: LanguageModelConfig) -> None:
        super().__init__()
        self.out_features = config.hidden
        self.rcnn = RCNN(
            config.embedding_size,
            config.hidden,
            order=config.order,
            num_layers=config.num_layers,
            combine=cast(Any, config.combine),
            decay=config.decay,
            readout=cast(Any, config.readout),
            output_gate=config.output_gate,
            highway=config.highway,
            act=config.act,
            bias=False,
            state_dropout=config.state_dropout,
            dropout=config.hidden_dropout,
        )

    def reset_parameters(self) -> None:
        self.rcnn.reset_parameters()

    def forward(self, x: Tensor, state: Any = None) -> tuple[Tensor, Any]:
        return cast(Any, self.rcnn(x, state))


class LSTMEncoder(Encoder):
    """torch's LSTM."""

    def __init__(self, config: LanguageModelConfig) -> None:
        super().__init__()
        self.out_features = config.hidden
        self.lstm = nn.LSTM(
            config.embedding_size, config.hidden, config.num_layers, dropout=config.hidden_dropout
        )
        self.reset_parameters()

    def reset_parameters(self) -> None:
        for weight in self.lstm.parameters():
            if weight.dim() > 1:
                bound = math.sqrt(3.0 / weight.size(1))
                nn.init.uniform_(weight, -bound, bound)
            else:
                nn.init.zeros_(weight)

    def forward(self, x: Tensor, state: Any = None) -> tuple[Tensor, Any]:
        return cast(Any, self.lstm(x, state))


class DroppedLSTM(nn.Module):
    """A layer of torch's LSTM with dropped recurrent weights.

    ``nn.LSTM`` keeps references to its weights, so that a parametrization of them has no effect;
    those of an ``nn.LSTMCell`` are given to the same fused operation here.
    """

    def __init__(self, input_size: int, hidden_size: int, weight_dropout: float) -> None:
        super().__init__()
        self.cell = nn.LSTMCell(input_size, hidden_size)
        if weight_dropout:
            parametrize.register_parametrization(self.cell, "weight_hh", WeightDrop(weight_dropout))

    def reset_parameters(self) -> None:
        self.cell.reset_parameters()

    def forward(self, x: Tensor, state: Any = None) -> tuple[Tensor, Any]:
        cell = self.cell
        if state is None:
            zeros = x.new_zeros(1, x.size(1), cell.hidden_size)
            state = (zeros, zeros)
        weights = [cell.weight_ih, cell.weight_hh, cell.bias_ih, cell.bias_hh]
        output, h, c = torch.lstm(
            x,
            state,
            weights,
            has_biases=True,
            num_layers=1,
            dropout=0.0,
            train=self.training,
            bidirectional=False,
            batch_first=False,
        )
        return output, (h, c)


def dropped_rkm(input_size: int, hidden_size: int, cell: str, weight_dropout: float) -> RKM:
    """A layer of recurrent kernel machines with dropped recurrent weights."""
    rkm = RKM(input_size, hidden_size, cell=cell)
    if weight_dropout:
        for layer in rkm.cells:
            for lin in cast(RKMCell, layer).recurrent.values():
                parametrize.register_parametrization(lin, "weight", WeightDrop(weight_dropout))
    return rkm


class AWDEncoder(Encoder):
    """Layers of one cell with dropped recurrent weights (Merity et al. 2018).

    The last layer is as wide as the word vectors. The cell ``'lstm'`` is torch's, the others are
    :class:`~pyg_kernels.sequence.RKM`.
    """

    def __init__(self, config: LanguageModelConfig) -> None:
        super().__init__()
        self.out_features = config.embedding_size
        self.dropout, self.locked = config.hidden_dropout, config.locked
        between = [config.hidden] * (config.num_layers - 1)
        sizes = [config.embedding_size, *between, config.embedding_size]
        make = DroppedLSTM if config.cell == "lstm" else partial(dropped_rkm, cell=config.cell)
        self.layers = nn.ModuleList(
            make(read, given, weight_dropout=config.weight_dropout)
            for read, given in pairwise(sizes)
        )

    def reset_parameters(self) -> None:
        training = self.training
        self.eval()  # a dropped weight is the parameter itself, not a copy of it
        for layer in self.layers:
            cast(Any, layer).reset_parameters()
        self.train(training)

    def forward(self, x: Tensor, state: Any = None) -> tuple[Tensor, Any]:
        states = []
        for number, layer in enumerate(self.layers):
            if number:
                x = drop(x, self.dropout, self.training, self.locked)
            x, after = layer(x, None if state is None else state[number])
            states.append(after)
        return x, tuple(states)


ENCODERS: dict[str, type[Encoder]] = {"rcnn": RCNNEncoder, "lstm": LSTMEncoder, "awd": AWDEncoder}
