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

# More than other networks may have: of large vocabularies word vectors alone have 100 millions.
MOST_PARAMETERS = 500_000_000
AWD_RANGE = 0.1  # of word vectors at the start (Merity et al. 2018)


# Those of a configuration that are arguments of its layers.
RCNN_FIELDS = (
    *("num_layers", "order", "combine", "decay", "readout", "act", "output_gate", "highway"),
    "state_dropout",
)


def drop(x: Tensor, probability: float, training: bool, locked: bool) -> Tensor:
    """Dropout of ``(T, B, F)``, locked with one mask for all steps (Gal and Ghahramani 2016)."""
    if not training or not probability:
        return x
    if not locked:
        return F.dropout(x, probability)
    return x * torch.empty_like(x[:1]).bernoulli_(1 - probability).div_(1 - probability)


def drop_words(vectors: Tensor, probability: float, training: bool) -> Tensor:
    """Dropout of whole words: their vectors are zero wherever they stand in the batch."""
    return drop(vectors.t(), probability, training, locked=True).t()


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


class RCNNEncoder(nn.Module):
    """Layers of the string-kernel recurrent convolution.

    As all encoders from ``(T, B, F)`` and a state to ``(T, B, out_features)`` and the state after.
    """

    def __init__(self, config: LanguageModelConfig) -> None:
        super().__init__()
        self.out_features = config.hidden
        options: dict[str, Any] = {name: getattr(config, name) for name in RCNN_FIELDS}
        options |= {"bias": False, "dropout": config.hidden_dropout}
        self.rcnn = RCNN(config.embedding_size, config.hidden, **options)

    def reset_parameters(self) -> None:
        self.rcnn.reset_parameters()

    def forward(self, x: Tensor, state: Any = None) -> tuple[Tensor, Any]:
        return cast(Any, self.rcnn(x, state))


class LSTMEncoder(nn.Module):
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
            x, state, weights, has_biases=True, num_layers=1, dropout=0.0, train=self.training,
            bidirectional=False, batch_first=False,
        )  # fmt: skip
        return output, (h, c)


def dropped_rkm(input_size: int, hidden_size: int, cell: str, weight_dropout: float) -> RKM:
    """A layer of recurrent kernel machines with dropped recurrent weights."""
    rkm = RKM(input_size, hidden_size, cell=cell)
    if weight_dropout:
        for layer in rkm.cells:
            for lin in cast(RKMCell, layer).recurrent.values():
                parametrize.register_parametrization(lin, "weight", WeightDrop(weight_dropout))
    return rkm


class AWDEncoder(nn.Module):
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


ENCODERS = {"rcnn": RCNNEncoder, "lstm": LSTMEncoder, "awd": AWDEncoder}


class Reading(NamedTuple):
    """What a model makes of T words of B streams."""

    hidden: Tensor  # (T, B, D), what the scores of the next words are of
    state: Any  # to go on from
    output: Tensor  # (T, B, D), the same before dropout


class LanguageModel(nn.Module):
    r"""The distribution of each next word of a stream, given those before.

    .. math::
        x_t = E_{w_t}, \qquad h_1, \ldots, h_T = \mathrm{encoder}(x_1, \ldots, x_T), \qquad
        p(w_{t+1} = v) \propto \exp(\langle S_v, h_t \rangle + b_v)

    with S = E where the vectors are tied (Press and Wolf 2017); ``output`` is ``None`` then.
    """

    def __init__(self, config: LanguageModelConfig) -> None:
        super().__init__()
        self.config = config
        self.embedding = nn.Embedding(config.num_words, config.embedding_size)
        self.encoder: Any = ENCODERS[config.encoder](config)
        width = cast(int, self.encoder.out_features)
        if config.tied and width != config.embedding_size:
            sizes_of = f"outputs of {width} features and word vectors of {config.embedding_size}"
            raise ValueError(f"tied=True with {sizes_of}: expected equal sizes")
        self.output = None if config.tied else nn.Parameter(torch.empty(config.num_words, width))
        self.bias = nn.Parameter(torch.empty(config.num_words))
        self.reset_parameters()

    def reset_parameters(self) -> None:
        r"""Draws fresh weights.

        :math:`\mathcal{U}(\pm\sqrt{3 / d})` for each matrix with inputs of d features, word vectors
        of d features as well, and zero biases (Lei 2017, appendix B.1); with ``encoder='awd'``
        :math:`\mathcal{U}(\pm 0.1)` for word vectors, and layers as they come (Merity et al. 2018).
        """
        self.encoder.reset_parameters()
        for vectors in (self.embedding.weight, self.output):
            if vectors is not None:
                awd = self.config.encoder == "awd"
                bound = AWD_RANGE if awd else math.sqrt(3.0 / vectors.size(1))
                nn.init.uniform_(vectors, -bound, bound)
        nn.init.zeros_(self.bias)

    def read(self, ids: Tensor, state: Any = None) -> Reading:
        config, training = self.config, self.training
        vectors = drop_words(self.embedding.weight, config.word_dropout, training)
        x = drop(F.embedding(ids, vectors), config.input_dropout, training, config.locked)
        output, state = self.encoder(x, state)
        hidden = drop(output, config.output_dropout, training, config.locked)
        return Reading(hidden, state, output)

    def forward(self, ids: Tensor, state: Any = None) -> tuple[Tensor, Any]:
        reading = self.read(ids, state)
        return reading.hidden, reading.state

    def scores(self, hidden: Tensor) -> Tensor:
        vectors = self.embedding.weight if self.output is None else self.output
        return F.linear(hidden, vectors, self.bias)

    @staticmethod
    def detach(state: Any) -> Any:
        """The state without the graph of what it was computed from: tuples of tensors as given."""
        if isinstance(state, Tensor):
            return state.detach()
        parts = [LanguageModel.detach(part) for part in state]
        return type(state)(*parts) if hasattr(state, "_fields") else type(state)(parts)


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
    """Number of learned numbers; tied vectors count once."""
    return sizes.count_parameters(lambda: LanguageModel(config))


def fitted(
    preset: Preset, num_words: int, hidden: int | None = None, parameters: int | None = None
) -> LanguageModelConfig:
    """A preset's configuration for a vocabulary."""
    config = replace(preset.model, num_words=num_words)
    budget = parameters or (None if config.hidden else preset.parameters)

    def sized(width: int) -> LanguageModelConfig:
        # Word vectors of a size of their own keep its proportion to the width.
        embedding = max(1, config.embedding * width // config.hidden) if config.embedding else 0
        return replace(config, hidden=width, embedding=embedding)

    found = sized(hidden) if hidden else config
    if budget is not None and not hidden:
        name = f"{preset.name} with {num_words:,} words"
        found = sizes.fit_hidden_size(name, sized, budget, count_parameters)
    number, options = count_parameters(found), "--hidden, --parameters, --layers"
    sizes.check_parameters(preset.name, found.hidden, number, options, MOST_PARAMETERS)
    return found
