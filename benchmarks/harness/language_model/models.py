"""Language models: word vectors, an encoder of the words so far, scores of the next word."""

from __future__ import annotations

import math
from dataclasses import replace
from functools import partial
from itertools import pairwise
from typing import Any, NamedTuple, cast

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.nn.utils import parametrize

from benchmarks.harness import sizes
from benchmarks.harness.language_model.options import LanguageModelConfig, Preset
from pyg_kernels.sequence import RCNN, RKM, RKMCell

# A higher limit than for other networks: word vectors of large vocabularies alone have 100 million.
MOST_PARAMETERS = 500_000_000
AWD_RANGE = 0.1  # of word vectors at the start (Merity et al. 2018)
# Fields of a configuration that are arguments of its layers.
RCNN_FIELDS = (
    *("num_layers", "order", "combine", "decay", "readout", "act", "output_gate", "highway"),
    "state_dropout",
)


def drop(x: Tensor, probability: float, training: bool, locked: bool) -> Tensor:
    """Dropout of ``(T, B, F)``; locked: one mask for all steps (Gal and Ghahramani 2016)."""
    if not training or not probability:
        return x
    if not locked:
        return F.dropout(x, probability)
    return x * F.dropout(torch.ones_like(x[:1]), probability)


def drop_weight(module: nn.Module, name: str, probability: float) -> None:
    """Applies dropout to the entries of a recurrent matrix, with a new mask for each reading.

    The mask of Merity et al. (2018) holds for all steps, so fused recurrences remain possible.
    """
    if probability:
        parametrize.register_parametrization(module, name, nn.Dropout(probability))


class DroppedLSTM(nn.Module):
    """A layer of torch's LSTM with dropped recurrent weights.

    ``nn.LSTM`` keeps references to its weights, so parametrizing them has no effect. Here the
    weights of an ``nn.LSTMCell`` are passed to the same fused operation.
    """

    def __init__(self, input_size: int, hidden_size: int, weight_dropout: float) -> None:
        super().__init__()
        self.cell = nn.LSTMCell(input_size, hidden_size)
        drop_weight(self.cell, "weight_hh", weight_dropout)

    def forward(self, x: Tensor, state: Any = None) -> tuple[Tensor, Any]:
        cell = self.cell
        if state is None:
            zeros = x.new_zeros(1, x.size(1), cell.hidden_size)
            state = (zeros, zeros)
        weights = [cell.weight_ih, cell.weight_hh, cell.bias_ih, cell.bias_hh]
        output, h, c = torch.lstm(
            x, state, weights, has_biases=True, num_layers=1, dropout=0.0, train=self.training,
            bidirectional=False, batch_first=False,
        )  # fmt: skip
        return output, (h, c)


def dropped_rkm(input_size: int, hidden_size: int, cell: str, weight_dropout: float) -> RKM:
    """A layer of recurrent kernel machines with dropped recurrent weights."""
    rkm = RKM(input_size, hidden_size, cell=cell)
    for lin in cast(RKMCell, rkm.cells[0]).recurrent.values():
        drop_weight(lin, "weight", weight_dropout)
    return rkm


class AWDEncoder(nn.Module):
    """Layers of one cell with dropped recurrent weights (Merity et al. 2018).

    The last layer is as wide as the word vectors. The cell ``'lstm'`` is torch's, the others are
    :class:`~pyg_kernels.sequence.RKM`.
    """

    def __init__(self, config: LanguageModelConfig) -> None:
        super().__init__()
        self.dropout = config.hidden_dropout
        between = [config.hidden] * (config.num_layers - 1)
        sizes = [config.embedding_size, *between, config.embedding_size]
        make = DroppedLSTM if config.cell == "lstm" else partial(dropped_rkm, cell=config.cell)
        self.layers = nn.ModuleList(
            make(read, given, weight_dropout=config.weight_dropout)
            for read, given in pairwise(sizes)
        )

    def forward(self, x: Tensor, state: Any = None) -> tuple[Tensor, Any]:
        states = []
        for number, layer in enumerate(self.layers):
            if number:
                x = drop(x, self.dropout, self.training, locked=True)
            x, after = layer(x, None if state is None else state[number])
            states.append(after)
        return x, tuple(states)


def build_encoder(config: LanguageModelConfig) -> nn.Module:
    """The encoder, from ``(T, B, F)`` and a state to ``(T, B, D)`` and the next state."""
    if config.encoder == "awd":
        return AWDEncoder(config)
    sizes = config.embedding_size, config.hidden
    if config.encoder == "lstm":
        lstm = nn.LSTM(*sizes, config.num_layers, dropout=config.hidden_dropout)
        for weight in lstm.parameters():
            start(weight)
        return lstm
    options: dict[str, Any] = {name: getattr(config, name) for name in RCNN_FIELDS}
    return RCNN(*sizes, bias=False, dropout=config.hidden_dropout, **options)


def start(weight: Tensor, bound: float = 0.0) -> None:
    r"""Draws a matrix, by default :math:`\mathcal{U}(\pm\sqrt{3 / d})` for inputs of d features.

    A bias becomes 0.
    """
    if weight.dim() > 1:
        bound = bound or math.sqrt(3.0 / weight.size(1))
        nn.init.uniform_(weight, -bound, bound)
    else:
        nn.init.zeros_(weight)


class Reading(NamedTuple):
    """A model's outputs for T words of B streams."""

    hidden: Tensor  # (T, B, D), from which the next words are scored
    state: Any  # the state from which to go on
    output: Tensor  # (T, B, D), `hidden` before dropout


class LanguageModel(nn.Module):
    r"""The distribution of each next word of a stream, given those before.

    .. math::
        x_t = E_{w_t}, \qquad h_1, \ldots, h_T = \mathrm{encoder}(x_1, \ldots, x_T), \qquad
        p(w_{t+1} = v) \propto \exp(\langle S_v, h_t \rangle + b_v)

    with S = E if the vectors are tied (Press and Wolf 2017); ``output`` is ``None`` then.

    Matrices with inputs of d features and word vectors of d features are initialised from
    :math:`\mathcal{U}(\pm\sqrt{3 / d})`, biases with zero (Lei 2017, appendix B.1). With
    ``encoder='awd'``, word vectors are initialised from :math:`\mathcal{U}(\pm 0.1)`, and layers
    keep their own initialisation (Merity et al. 2018).
    """

    def __init__(self, config: LanguageModelConfig) -> None:
        super().__init__()
        self.config = config
        self.embedding = nn.Embedding(config.num_words, config.embedding_size)
        self.encoder = build_encoder(config)
        self.bias = nn.Parameter(torch.zeros(config.num_words))
        self.output: nn.Parameter | None = None
        start(self.embedding.weight, AWD_RANGE if config.encoder == "awd" else 0.0)
        if not config.tied:
            self.output = nn.Parameter(torch.empty(config.num_words, config.hidden))
            start(self.output)

    def forward(self, ids: Tensor, state: Any = None) -> Reading:
        config, training = self.config, self.training
        locked = config.encoder == "awd"
        # A dropped word's vector is zero wherever it occurs in the batch.
        vectors = F.dropout1d(self.embedding.weight, config.word_dropout, training)
        x = drop(F.embedding(ids, vectors), config.input_dropout, training, locked)
        output, state = self.encoder(x, state)
        hidden = drop(output, config.output_dropout, training, locked)
        return Reading(hidden, state, output)

    def scores(self, hidden: Tensor) -> Tensor:
        vectors = self.embedding.weight if self.output is None else self.output
        return F.linear(hidden, vectors, self.bias)


def penalty(reading: Reading, alpha: float, beta: float) -> Tensor | float:
    r"""Activation regularisation (Merity et al. 2017), to be added to the mean loss.

    .. math::
        \alpha \, \mathrm{mean}(\mathrm{hidden}^2)
        + \beta \, \mathrm{mean}((\mathrm{output}_{t+1} - \mathrm{output}_t)^2)
    """
    total: Tensor | float = 0.0
    if alpha:
        total = total + alpha * reading.hidden.square().mean()
    if beta and reading.output.size(0) > 1:
        total = total + beta * reading.output.diff(dim=0).square().mean()
    return total


def count_parameters(config: LanguageModelConfig) -> int:
    """The number of learned parameters; tied vectors count once."""
    return sizes.count_parameters(lambda: LanguageModel(config))


def fitted(
    preset: Preset, num_words: int, hidden: int | None = None, parameters: int | None = None
) -> LanguageModelConfig:
    """A preset's configuration for a vocabulary."""
    config = replace(preset.model, num_words=num_words)
    budget = parameters or (None if config.hidden else preset.parameters)

    def sized(width: int) -> LanguageModelConfig:
        # If word vectors have their own size, it stays in proportion to the width.
        embedding = max(1, config.embedding * width // config.hidden) if config.embedding else 0
        return replace(config, hidden=width, embedding=embedding)

    found = sized(hidden) if hidden else config
    if budget is not None and not hidden:
        name = f"{preset.name} with {num_words:,} words"
        found = sizes.fit_hidden_size(name, sized, budget, count_parameters)
    number, options = count_parameters(found), "--hidden, --parameters, --layers"
    sizes.check_parameters(preset.name, found.hidden, number, options, MOST_PARAMETERS)
    return found
