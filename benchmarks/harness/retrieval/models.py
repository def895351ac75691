"""The networks that turn questions into vectors, and the one that writes titles.

An encoder maps the words of a text to a state at each word; the states are pooled into a vector of
the text. It also returns its final state, from which a decoder of the same type can start.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch_geometric.utils import scatter

from benchmarks.harness.retrieval.data import QuestionBatch, TitleBatch
from benchmarks.harness.sizes import count_parameters
from benchmarks.harness.text.models import recurrent_outputs, text_means, word_embedding
from pyg_kernels.datasets.text import TextBatch
from pyg_kernels.sequence import RCNN

CNN_WIDTH = 3  # thesis Table 2.8


class RecurrentEncoder(nn.Module):
    """An RCNN, ``nn.LSTM`` or ``nn.GRU``."""

    def __init__(self, layer: nn.Module) -> None:
        super().__init__()
        self.layer = layer

    def forward(self, x: Tensor, words: TextBatch, state: Any = None) -> tuple[Tensor, Any]:
        """Words ``(N, D)`` to outputs ``(N, H)``, and the layer's state."""
        return recurrent_outputs(self.layer, x, words, state)


class CNNEncoder(nn.Module):
    """Windows of three words that end at each word, like those of an RCNN with decay 0.

    Its state is the mean over a text. A given state is added to every output.
    """

    def __init__(self, input_size: int, hidden: int) -> None:
        super().__init__()
        self.windows = RCNN(input_size, hidden, order=CNN_WIDTH, combine="add", decay=0.0)

    def forward(self, x: Tensor, words: TextBatch, state: Any = None) -> tuple[Tensor, Any]:
        """The activated windows, ``(N, H)``, and their mean."""
        output, _ = self.windows(x, ptr=words.ptr)
        if state is not None:
            output = output + state.index_select(0, words.text)
        return output, text_means(output, words)


# The thesis's RCNN is additive and normalised; its decay is gated on the word and the output.
THESIS: dict[str, Any] = {"order": 2, "combine": "add", "decay": "recurrent"}
ENCODERS: dict[str, Callable[[int, int], nn.Module]] = {
    "rcnn": lambda *sizes: RecurrentEncoder(RCNN(*sizes, **THESIS)),
    "lstm": lambda *sizes: RecurrentEncoder(nn.LSTM(*sizes)),
    "gru": lambda *sizes: RecurrentEncoder(nn.GRU(*sizes)),
    "cnn": CNNEncoder,
}


@dataclass(frozen=True)
class QuestionModelConfig:
    """Everything that builds a network; plain values, so a checkpoint can carry it."""

    name: str  # in tables and folders
    encoder: str  # A key of :data:`ENCODERS`
    pooling: str  # 'last', 'mean' or 'max'
    fields: str  # 'title', or 'title+body' for the mean of both vectors
    pretrained: bool  # whether the encoder is initialised by learning to write titles
    num_words: int  # size of the vocabulary
    embedding_dim: int  # size of a word vector
    fixed_embedding: bool  # whether word vectors are kept as they are
    hidden: int  # width
    dropout: float = 0.1  # of word vectors and of the vectors of texts
    num_negatives: int = 20  # random questions for each similar one in training
    margin: float = 1.0  # of the hinge loss

    def new_encoder(self) -> nn.Module:
        """A new encoder, or a decoder of its type."""
        return ENCODERS[self.encoder](self.embedding_dim, self.hidden)

    def encoder_parameters(self) -> int:
        return count_parameters(self.new_encoder)


class QuestionNet(nn.Module):
    """Word vectors, an encoder, and the mean of the vectors of title and body."""

    def __init__(self, config: QuestionModelConfig) -> None:
        super().__init__()
        self.config = config
        size, fixed = config.embedding_dim, config.fixed_embedding
        self.embedding = word_embedding(config.num_words, size, fixed)
        self.encoder = config.new_encoder()

    def embed(self, ids: Tensor) -> Tensor:
        """The vectors of words, ``(N, D)``, with dropout in training."""
        return F.dropout(self.embedding(ids), self.config.dropout, self.training)

    def texts(self, words: TextBatch) -> Tensor:
        """The vectors of B texts of at least one word each, ``(B, H)``."""
        states, _ = self.encoder(self.embed(words.ids), words)
        # States are scaled to unit length as in the authors' code: title and body weigh the same.
        vectors = pooled(F.normalize(states, dim=1), words, self.config.pooling)
        return F.dropout(vectors, self.config.dropout, self.training)

    @torch.no_grad()
    def gates(self, words: TextBatch) -> Tensor:
        r"""The share :math:`1 - \lambda_t` of each of N words that an RCNN takes in."""
        encoder: Any = self.encoder
        (cell,), x = encoder.layer.cells, self.embedding(words.ids)
        output, _ = encoder(x, words)
        before = output.roll(1, dims=0)
        before[words.ptr[:-1]] = 0
        return 1 - torch.sigmoid(cell.decay_lin(x) + cell.decay_recurrent(before) + cell.decay_bias)

    def forward(self, batch: QuestionBatch) -> Tensor:
        """The cosine between the first question of each group and the others, ``(B, K - 1)``."""
        return question_cosines(self.texts(batch.words), batch)


class TitleGenerator(nn.Module):
    """The probability of a title given a text, by an encoder and a decoder of its type.

    Words that are rare in titles are predicted as one word, the unknown word.
    """

    word_class: Tensor

    def __init__(self, config: QuestionModelConfig, title_words: Sequence[int]) -> None:
        super().__init__()
        self.question = QuestionNet(config)
        self.decoder = config.new_encoder()
        self.output = nn.Linear(config.hidden, 1 + len(title_words))
        word_class = torch.zeros(config.num_words, dtype=torch.long)
        word_class[list(title_words)] = torch.arange(1, 1 + len(title_words))
        self.register_buffer("word_class", word_class, persistent=False)

    def forward(self, batch: TitleBatch) -> Tensor:
        """Minus the log-probability of each word of the titles and of their ends, ``(N,)``."""
        question, context, before = self.question, batch.context, batch.before
        _, state = question.encoder(question.embed(context.ids), context)
        states, _ = self.decoder(question.embed(before.ids), before, state)
        states = F.dropout(states, question.config.dropout, self.training)
        scores = self.output(states).float()
        return F.cross_entropy(scores, self.word_class[batch.after], reduction="none")


def question_cosines(vectors: Tensor, batch: QuestionBatch) -> Tensor:
    """The cosines of the first question of each group with the others, ``(..., B, K - 1)``.

    A question's vector is the mean of its texts' vectors, ``(..., T, H)``; 0 if it has no text.
    """
    questions = scatter(vectors, batch.question, -2, batch.num_questions, "mean")
    unit = F.normalize(questions.float(), dim=-1)
    grouped = unit.index_select(-2, batch.groups.flatten()).unflatten(-2, batch.groups.shape)
    # Not a matrix product: in mixed precision it would be too coarse to tell candidates apart.
    return (grouped[..., 1:, :] * grouped[..., :1, :]).sum(dim=-1)


def pooled(states: Tensor, words: TextBatch, pooling: str) -> Tensor:
    """Pools states ``(N, H)`` to one vector per text, ``(B, H)``, by last, mean or max."""
    if pooling == "last":
        return states.index_select(0, words.ptr[1:] - 1)
    if pooling == "mean":
        return text_means(states, words)
    return scatter(states, words.text, dim_size=words.num_texts, reduce=pooling)
