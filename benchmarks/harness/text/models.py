"""The networks that the text benchmark compares, by name.

Each embeds words, encodes a text as one vector and maps it to the scores of the classes. There are
two families. The models of :data:`MODELS` differ in the encoder alone; their sizes are chosen so
that encoders and heads have about the same number of parameters, unless a width is given. The
recurrent kernel machines of ``options.CELLS``, called ``CELL-Ngram``, differ in the cell and
the width of its filters alone.
"""

from collections.abc import Callable
from dataclasses import replace
from functools import partial

import torch.nn.functional as F
from torch import Tensor, nn

from benchmarks.harness import sizes
from benchmarks.harness.text.encoders import (
    BagEncoder,
    CNNEncoder,
    Encoder,
    RKMEncoder,
    lstm_encoder,
    rcnn_encoder,
    word_embedding,
)
from benchmarks.harness.text.options import TextModelConfig
from pyg_kernels.datasets.text import TextBatch

DEFAULT_PARAMETERS = 300_000


class TextNet(nn.Module):
    """Word vectors, an encoder, and its classifier."""

    def __init__(self, config: TextModelConfig, encoder: Encoder) -> None:
        super().__init__()
        size, fixed = config.embedding_dim, config.fixed_embedding
        self.embedding = word_embedding(config.num_words, size, fixed)
        self.encoder = encoder
        self.head = encoder.classifier(config.num_classes)
        self.dropout = config.dropout

    def forward(self, batch: TextBatch) -> Tensor:
        words = F.dropout(self.embedding(batch.ids), self.dropout, self.training)
        text = F.dropout(self.encoder(words, batch), self.dropout, self.training)
        return self.head(text)

    def at_words(self, batch: TextBatch) -> Tensor:
        """Scores of the classes where each word stands, ``(N, C)``: the classifier on its features.

        Lei 2017, section 2.5.2: softmax of these is the local sentiment.
        """
        return self.head(self.encoder.at_words(self.embedding(batch.ids), batch))


MODELS: dict[str, Callable[[TextModelConfig], Encoder]] = {
    "rcnn": rcnn_encoder,
    "lstm": lstm_encoder,
    "cnn": CNNEncoder,
    "bi-lstm": partial(lstm_encoder, bidirectional=True),
    "bag-of-vectors": BagEncoder,
}


def build_text_model(config: TextModelConfig) -> TextNet:
    """The network of a configuration, with fresh weights from torch's global generator."""
    build = RKMEncoder if config.ngram else MODELS[config.kind or config.name]
    return TextNet(config, build(config))


def count_parameters(config: TextModelConfig) -> int:
    """Number of trained numbers of a configuration's network, without those of word vectors."""
    bare = replace(config, fixed_embedding=True)
    return sizes.count_parameters(lambda: build_text_model(bare))


def fit_hidden_size(config: TextModelConfig, budget: int = DEFAULT_PARAMETERS) -> TextModelConfig:
    """The largest width within a number of parameters besides word vectors."""
    return sizes.fit_hidden_size(
        config.name, lambda width: replace(config, hidden=width), budget, count_parameters
    )
