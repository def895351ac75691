"""The networks that the text benchmark compares, by name.

Each embeds words, encodes a text as one vector and maps it to the scores of the classes. There are
two families. Networks of ``options.MODELS`` differ only in the encoder. Unless a width is given,
their sizes are chosen so that encoders and heads have about the same number of parameters.
Recurrent kernel machines of ``options.CELLS``, called ``CELL-Ngram``, differ only in the cell and
the width of its filters.

An encoder maps the words ``(N, D)`` of B texts and their batch to ``(B, out_features)``. Its method
``at_words`` gives the features at each word in its context, ``(N, out_features)``. The vector of a
text is composed of these, so that the classifier can read them, too.
"""

import math
from dataclasses import replace
from typing import Any, cast

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence
from torch_geometric.utils import scatter, to_dense_batch

from benchmarks.harness import sizes
from benchmarks.harness.text.counts import NGramClassifier
from benchmarks.harness.text.options import LAYERED, TextModelConfig
from pyg_kernels.datasets.text import TextBatch
from pyg_kernels.sequence import RCNN, RKM, RKMCell

DEFAULT_PARAMETERS = 300_000
WIDTHS = (3, 4, 5)  # of the CNN's windows (Kim 2014)
EMBEDDING_SCALE = 0.5  # initial standard deviation of learned vectors, about that of GloVe


class RecurrentEncoder(nn.Module):
    r"""Recurrent layers, whose outputs give the vector of a text.

    With the read-out ``'last'`` it is the output of the last layer at the last word, or at both
    ends if bidirectional. With ``'mean'`` it concatenates each layer's mean output over the text,
    with dropout between layers (Lei 2017, appendix B.2, whose initial weights the classifier
    uses):

    .. math::
        v = [\bar h^{(1)}; \ldots; \bar h^{(L)}], \qquad
        \bar h^{(l)} = \frac1T \sum_t h^{(l)}_t
    """

    def __init__(self, config: TextModelConfig) -> None:
        super().__init__()
        self.readout, self.dropout = config.readout, config.dropout
        self.bidirectional = config.kind == "bi-lstm"
        width = (1 + self.bidirectional) * config.hidden
        sizes, at_once = [config.embedding_dim], config.num_layers
        if self.readout == "mean":
            sizes, at_once = [*sizes, *[width] * (config.num_layers - 1)], 1
        self.layers = nn.ModuleList(recurrent_layers(config, size, at_once) for size in sizes)
        self.out_features = len(sizes) * width

    def forward(self, x: Tensor, batch: TextBatch) -> Tensor:
        states = self.at_words(x, batch)
        if self.readout == "mean":
            return text_means(states, batch)
        last = states.index_select(0, batch.ptr[1:] - 1)
        if not self.bidirectional:
            return last
        first = states.index_select(0, batch.ptr[:-1])
        return torch.cat((last.chunk(2, dim=1)[0], first.chunk(2, dim=1)[1]), dim=1)

    def at_words(self, x: Tensor, batch: TextBatch) -> Tensor:
        outputs: list[Tensor] = []
        for layer in self.layers:
            x = F.dropout(outputs[-1], self.dropout, self.training) if outputs else x
            outputs.append(recurrent_outputs(layer, x, batch)[0])
        return torch.cat(outputs, dim=1)


def recurrent_layers(config: TextModelConfig, size: int, number: int) -> nn.Module:
    """A stack of `number` layers of a configuration's kind, with `size` inputs."""
    sizes, dropout = (size, config.hidden), config.dropout if number > 1 else 0.0
    if config.ngram:
        return RKM(*sizes, cell=config.kind, ngram=config.ngram, layer_norm=True)
    if config.kind == "rcnn":
        options: dict[str, Any] = {"readout": config.rcnn_readout, "decay": config.decay}
        options["act"] = None if config.activation == "none" else config.activation
        return RCNN(*sizes, number, order=config.order, dropout=dropout, **options)
    bidirectional = config.kind == "bi-lstm"
    return nn.LSTM(*sizes, number, dropout=dropout, bidirectional=bidirectional)


class RKMEncoder(RecurrentEncoder):
    """A recurrent kernel machine and the mean of its outputs (Liang et al. 2019, section 6).

    One layer in one direction, with layer normalisation after the cell.
    """

    def __init__(self, config: TextModelConfig) -> None:
        super().__init__(replace(config, readout="mean", num_layers=1))

    def cell_parameters(self) -> int:
        """The number of weights of filters and recurrent maps, as in Table 1 of the paper."""
        cell = cast(RKMCell, cast(RKM, self.layers[0]).cells[0])
        maps = (*cell.filters.parameters(), *cell.recurrent.parameters())
        return sum(weights.numel() for weights in maps)


class CNNEncoder(nn.Module):
    """Windows of 3, 4 and 5 words and the maximum over a text (Kim 2014).

    A window may reach beyond either end of a text, where it sees zeros. So the shortest text has
    windows of every width. Windows that contain nothing but padding are left out.
    """

    def __init__(self, config: TextModelConfig) -> None:
        super().__init__()
        self.out_features = len(WIDTHS) * config.hidden
        self.convs = nn.ModuleList(
            nn.Conv1d(config.embedding_dim, config.hidden, width, padding=width - 1)
            for width in WIDTHS
        )

    def forward(self, x: Tensor, batch: TextBatch) -> Tensor:
        found, _ = self._windows(x, batch)
        pooled = []
        for width, windows in zip(WIDTHS, found, strict=True):
            steps = torch.arange(windows.size(2), device=x.device)
            present = steps < (batch.lengths + width - 1).unsqueeze(1)
            windows = windows.masked_fill(~present.unsqueeze(1), -torch.inf)
            pooled.append(windows.amax(dim=2).relu())
        return torch.cat(pooled, dim=1)

    def at_words(self, x: Tensor, batch: TextBatch) -> Tensor:
        found, mask = self._windows(x, batch)
        ends = [windows[:, :, : mask.size(1)].transpose(1, 2)[mask] for windows in found]
        return torch.cat(ends, dim=1).relu()

    def _windows(self, x: Tensor, batch: TextBatch) -> tuple[list[Tensor], Tensor]:
        texts, mask = to_dense_batch(x, batch.text, batch_size=batch.num_texts)
        texts = texts.transpose(1, 2)
        return [conv(texts) for conv in self.convs], mask


class BagEncoder(nn.Module):
    """The mean of the word vectors and a ReLU layer: a deep averaging network (Iyyer et al. 2015).

    The order of words makes no difference.
    """

    def __init__(self, config: TextModelConfig) -> None:
        super().__init__()
        self.out_features = config.hidden
        self.lin = nn.Linear(config.embedding_dim, config.hidden)

    def forward(self, x: Tensor, batch: TextBatch) -> Tensor:
        return self.lin(text_means(x, batch)).relu()

    def at_words(self, x: Tensor, batch: TextBatch) -> Tensor:
        return self.lin(x).relu()


def classifier(config: TextModelConfig, size: int) -> nn.Module:
    """A linear map from ``(B, size)`` to the scores of the classes.

    Recurrent kernel machines have a layer with ReLU before it, as in the code of their authors.
    """
    if config.ngram:
        hidden = nn.Linear(size, size)
        return nn.Sequential(hidden, nn.ReLU(), nn.Linear(size, config.num_classes))
    linear = nn.Linear(size, config.num_classes)
    if config.readout == "mean" and config.kind in LAYERED:
        bound = math.sqrt(3 / size)
        nn.init.uniform_(linear.weight, -bound, bound)
        nn.init.zeros_(linear.bias)
    return linear


def word_embedding(num_words: int, size: int, fixed: bool) -> nn.Embedding:
    """Word vectors, learned or fixed."""
    made = nn.Embedding(num_words, size)
    made.weight.data.mul_(EMBEDDING_SCALE)
    made.weight.requires_grad_(not fixed)
    return made


def text_means(x: Tensor, batch: TextBatch) -> Tensor:
    """The mean over the words of each text: ``(N, D)`` to ``(B, D)``."""
    total = scatter(x, batch.text, dim_size=batch.num_texts)
    return total / batch.lengths.unsqueeze(1)  # scatter's own mean counts in the precision of x


def recurrent_outputs(
    layer: nn.Module, x: Tensor, batch: TextBatch, state: Any = None
) -> tuple[Tensor, Any]:
    """The outputs of a recurrent layer at each word of ragged texts, ``(N, D)`` to ``(N, H)``,
    starting from a state, and the state at the texts' ends.
    """
    if not isinstance(layer, nn.RNNBase):  # a layer of the package, which reads ragged texts
        return layer(x, state, ptr=batch.ptr)
    texts, mask = to_dense_batch(x, batch.text, batch_size=batch.num_texts)
    lengths = batch.lengths.cpu()
    packed = pack_padded_sequence(texts, lengths, batch_first=True, enforce_sorted=False)
    output, state = layer(packed, state)
    rows, _ = pad_packed_sequence(output, batch_first=True)
    return rows[mask], state


class TextNet(nn.Module):
    """Word vectors, an encoder and its classifier, and perhaps a classifier of n-grams.

    The classifier of n-grams is fitted, not trained. The network is trained without it; afterwards
    log-probabilities are the mean of both.
    """

    def __init__(self, config: TextModelConfig) -> None:
        super().__init__()
        kinds = {"cnn": CNNEncoder, "bag-of-vectors": BagEncoder}
        kind = RKMEncoder if config.ngram else kinds.get(config.kind, RecurrentEncoder)
        encoder: Any = kind(config)
        size, fixed = config.embedding_dim, config.fixed_embedding
        self.embedding = word_embedding(config.num_words, size, fixed)
        self.encoder = encoder
        self.head = classifier(config, encoder.out_features)
        self.dropout = config.dropout
        self.counts: NGramClassifier | None = None
        if config.counts:
            sizes = config.num_words, config.num_ngrams, config.num_classes
            self.counts = NGramClassifier(config.counts, *sizes)

    def forward(self, batch: TextBatch) -> Tensor:
        words = F.dropout(self.embedding(batch.ids), self.dropout, self.training)
        text = F.dropout(self.encoder(words, batch), self.dropout, self.training)
        scores = self.head(text)
        if self.counts is None or self.training:
            return scores
        return (scores.log_softmax(1) + self.counts(batch)) / 2

    def at_words(self, batch: TextBatch) -> Tensor:
        """Class scores at each word, ``(N, C)``: the classifier applied to the word's features.

        Their softmax is the local sentiment of Lei 2017, section 2.5.2.
        """
        return self.head(self.encoder.at_words(self.embedding(batch.ids), batch))


def count_parameters(config: TextModelConfig) -> int:
    """The number of trained parameters of a configuration's network, without word vectors."""
    bare = replace(config, fixed_embedding=True, counts=0)
    return sizes.count_parameters(lambda: TextNet(bare))


def fit_hidden_size(config: TextModelConfig, budget: int) -> TextModelConfig:
    """The configuration of the largest width within a budget of parameters besides word vectors."""
    return sizes.fit_hidden_size(
        config.name, lambda width: replace(config, hidden=width), budget, count_parameters
    )
