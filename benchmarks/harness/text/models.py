"""The networks that the text benchmark compares, by name.

Each embeds words, encodes a text as one vector and maps it to the scores of the classes. There are
two families. The models of :data:`MODELS` differ in the encoder alone; their sizes are chosen so
that encoders and heads have about the same number of parameters, unless a width is given. The
recurrent kernel machines of :data:`CELLS`, called ``CELL-Ngram``, differ in the cell and the width
of its filters alone.
"""

import re
from collections.abc import Callable
from dataclasses import dataclass, replace

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.nn.utils.rnn import pack_padded_sequence

from benchmarks.harness import sizes
from pyg_kernels.datasets.text import TextBatch
from pyg_kernels.sequence import RCNN, RKM, RKMCell

DEFAULT_PARAMETERS = 300_000
EMBEDDING_SCALE = 0.5  # standard deviation of learned vectors at the start, about GloVe's
WIDTHS = (3, 4, 5)  # of the CNN's windows (Kim 2014)
CELLS = ("lstm", "rkm-lstm", "rkm-cifg", "linear-gated", "linear", "gated-cnn", "cnn", "ran")
CELL_NAME = re.compile(r"(.+)-([1-9]\d*)gram")


@dataclass(frozen=True)
class TextModelConfig:
    """Everything that :func:`build_text_model` needs; plain values, so a checkpoint can carry it.

    Args:
        name (str): A key of :data:`MODELS`, or one of :data:`CELLS` with a width: ``ran-3gram``.
        num_words (int): Size of the vocabulary.
        embedding_dim (int): Size of a word vector.
        fixed_embedding (bool): Whether word vectors are kept as they are.
        num_classes (int): Number of classes.
        hidden (int): Width.
        num_layers (int): Layers of ``'rcnn'`` and ``'lstm'``; the others have one.
        dropout (float): Of word vectors, between layers, and of the text's vector.
    """

    name: str
    num_words: int
    embedding_dim: int
    fixed_embedding: bool
    num_classes: int
    hidden: int
    num_layers: int = 2
    dropout: float = 0.2


class Encoder(nn.Module):
    """From the words ``(N, D)`` of B texts and their batch to ``(B, out_features)``."""

    out_features: int

    def classifier(self, num_classes: int) -> nn.Module:
        """From ``(B, out_features)`` to the scores of the classes: a linear map."""
        return nn.Linear(self.out_features, num_classes)


class RCNNEncoder(Encoder):
    """An RCNN of order 2 with input-gated decay: its output at the last word of a text."""

    def __init__(self, config: TextModelConfig) -> None:
        super().__init__()
        self.out_features = config.hidden
        self.rcnn = RCNN(
            config.embedding_dim,
            config.hidden,
            order=2,
            num_layers=config.num_layers,
            decay="input",
            dropout=config.dropout,
        )

    def forward(self, x: Tensor, batch: TextBatch) -> Tensor:
        """Words ``(N, D)`` of B texts to ``(B, H)``."""
        output, _ = self.rcnn(x, ptr=batch.ptr)
        return output.index_select(0, batch.ptr[1:] - 1)


class LSTMEncoder(Encoder):
    """``nn.LSTM`` on packed texts: its output at the last word of a text."""

    def __init__(self, config: TextModelConfig) -> None:
        super().__init__()
        self.out_features = config.hidden
        between = config.dropout if config.num_layers > 1 else 0.0
        self.lstm = nn.LSTM(config.embedding_dim, config.hidden, config.num_layers, dropout=between)

    def forward(self, x: Tensor, batch: TextBatch) -> Tensor:
        """Words ``(N, D)`` of B texts to ``(B, H)``."""
        texts, _ = padded(x, batch)
        packed = pack_padded_sequence(
            texts, batch.lengths.cpu(), batch_first=True, enforce_sorted=False
        )
        _, (h, _) = self.lstm(packed)
        return h[-1]


class CNNEncoder(Encoder):
    """Windows of 3, 4 and 5 words and the maximum over a text (Kim 2014).

    A window may reach beyond either end of a text, where it sees zeros, so that the shortest text
    has windows of every width; windows that lie in padding alone are left out.
    """

    def __init__(self, config: TextModelConfig) -> None:
        super().__init__()
        self.out_features = len(WIDTHS) * config.hidden
        self.convs = nn.ModuleList(
            nn.Conv1d(config.embedding_dim, config.hidden, width, padding=width - 1)
            for width in WIDTHS
        )

    def forward(self, x: Tensor, batch: TextBatch) -> Tensor:
        """Words ``(N, D)`` of B texts to ``(B, 3 H)``."""
        texts, mask = padded(x, batch)
        texts = (texts * mask.unsqueeze(-1)).transpose(1, 2)
        steps = torch.arange(mask.size(1) + max(WIDTHS) - 1, device=x.device)
        pooled = []
        for width, conv in zip(WIDTHS, self.convs, strict=True):
            windows = conv(texts)
            present = steps[: windows.size(2)] < (batch.lengths + width - 1).unsqueeze(1)
            windows = windows.masked_fill(~present.unsqueeze(1), -torch.inf)
            pooled.append(windows.amax(dim=2).relu())
        return torch.cat(pooled, dim=1)


class RKMEncoder(Encoder):
    """A recurrent kernel machine and the mean of its outputs (Liang et al. 2019, section 6).

    One layer in one direction, with layer normalisation after the cell, then two fully connected
    layers. The first has as many units as the cell, and a ReLU, as in the authors' code.
    """

    def __init__(self, config: TextModelConfig) -> None:
        super().__init__()
        self.out_features = config.hidden
        cell, ngram = cell_of(config.name)
        self.rkm = RKM(config.embedding_dim, config.hidden, cell=cell, ngram=ngram, layer_norm=True)

    def forward(self, x: Tensor, batch: TextBatch) -> Tensor:
        """Words ``(N, D)`` of B texts to ``(B, H)``."""
        output, _ = self.rkm(x, ptr=batch.ptr)
        total = output.new_zeros(batch.num_texts, self.out_features)
        return total.index_add(0, batch.text, output) / batch.lengths.unsqueeze(1)

    def classifier(self, num_classes: int) -> nn.Module:
        """From ``(B, H)`` to the scores of the classes: two fully connected layers."""
        return nn.Sequential(
            nn.Linear(self.out_features, self.out_features),
            nn.ReLU(),
            nn.Linear(self.out_features, num_classes),
        )

    def cell_parameters(self) -> int:
        """Number of weights of filters and recurrent maps, as Table 1 of the paper counts them."""
        (cell,) = self.rkm.cells
        assert isinstance(cell, RKMCell)
        maps = (*cell.filters.parameters(), *cell.recurrent.parameters())
        return sum(weights.numel() for weights in maps)


class TextNet(nn.Module):
    """Word vectors, an encoder, and its classifier.

    Args:
        config: Sizes.
        encoder: From words to a vector of the text.
    """

    def __init__(self, config: TextModelConfig, encoder: Encoder) -> None:
        super().__init__()
        self.embedding = nn.Embedding(config.num_words, config.embedding_dim)
        self.embedding.weight.data.mul_(EMBEDDING_SCALE)
        self.embedding.weight.requires_grad_(not config.fixed_embedding)
        self.encoder = encoder
        self.head = encoder.classifier(config.num_classes)
        self.dropout = config.dropout

    def forward(self, batch: TextBatch) -> Tensor:
        """Scores of the classes, ``(B, C)``."""
        words = F.dropout(self.embedding(batch.ids), self.dropout, self.training)
        text = F.dropout(self.encoder(words, batch), self.dropout, self.training)
        return self.head(text)


def padded(x: Tensor, batch: TextBatch) -> tuple[Tensor, Tensor]:
    """Words ``(N, D)`` of B texts side by side, ``(B, T, D)``, and where there are any, ``(B, T)``.

    Where there is none, the first word of the batch stands.
    """
    rows = batch._replace(ids=torch.arange(len(batch.ids), device=batch.ids.device))
    places, mask = rows.padded(fill=0)
    return x.index_select(0, places.flatten()).view(*places.shape, -1), mask


MODELS: dict[str, Callable[[TextModelConfig], Encoder]] = {
    "rcnn": RCNNEncoder,
    "lstm": LSTMEncoder,
    "cnn": CNNEncoder,
}


def is_cell(name: str) -> bool:
    """Whether a name is that of a recurrent kernel machine, a cell with a width."""
    match = CELL_NAME.fullmatch(name)
    return match is not None and match[1] in CELLS


def cell_of(name: str) -> tuple[str, int]:
    """The cell and the width that a name such as ``'rkm-lstm-3gram'`` says.

    Raises:
        ValueError: If it says none.
    """
    match = CELL_NAME.fullmatch(name)
    if match is None or match[1] not in CELLS:
        raise ValueError(
            f"{name!r} is not one of {', '.join(CELLS)} followed by -1gram, -2gram, ..."
        )
    return match[1], int(match[2])


def maps_of(cell: str) -> tuple[int, int]:
    """The number of filter sets that a cell applies to the input, and of maps of the output."""
    with torch.device("meta"):
        (built,) = RKM(1, 1, cell=cell).cells
    assert isinstance(built, RKMCell)
    return len(built.filters), len(built.recurrent)


def build_text_model(config: TextModelConfig) -> TextNet:
    """The network of a configuration, with fresh weights from torch's global generator.

    Raises:
        ValueError: If there is no model of that name.
    """
    if is_cell(config.name):
        return TextNet(config, RKMEncoder(config))
    if config.name not in MODELS:
        raise ValueError(
            f"model must be one of {', '.join(MODELS)} or CELL-Ngram, got {config.name!r}"
        )
    return TextNet(config, MODELS[config.name](config))


def count_parameters(config: TextModelConfig) -> int:
    """Number of trained numbers of a configuration's network, without those of word vectors."""
    bare = replace(config, fixed_embedding=True)
    return sizes.count_parameters(lambda: build_text_model(bare))


def fit_hidden_size(config: TextModelConfig, budget: int = DEFAULT_PARAMETERS) -> TextModelConfig:
    """The configuration with the largest width within a number of parameters besides word vectors.

    Raises:
        ValueError: If even width 1 exceeds `budget`.
    """
    width = sizes.largest_width(
        lambda width: count_parameters(replace(config, hidden=width)) <= budget
    )
    if not width:
        raise ValueError(f"no width of {config.name!r} has at most {budget} parameters")
    return replace(config, hidden=width)
