"""Language models: word vectors, an encoder of the words so far, scores of the next word."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from benchmarks.harness import sizes
from benchmarks.harness.language_model.config import LanguageModelConfig, Preset
from benchmarks.harness.language_model.encoders import ENCODERS, drop, drop_words

# More than other networks may have: of large vocabularies word vectors alone have 100 millions.
MOST_PARAMETERS = 500_000_000
AWD_RANGE = 0.1  # of word vectors at the start (Merity et al. 2018)


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
        self.encoder = ENCODERS[config.encoder](config)
        width = self.encoder.out_features
        if config.tied and width != config.embedding_size:
            raise ValueError(
                f"tied=True with outputs of {width} features and word vectors of "
                f"{config.embedding_size}: expected equal sizes"
            )
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
