"""The networks that turn questions into vectors, and their names.

They differ in the encoder, in how its states are pooled, in what of a question they read and in
whether they have been pre-trained: ``rcnn-pt-last`` is a pre-trained RCNN whose last state stands
for a text, ``cnn-max-title`` a CNN that reads titles alone.
"""

from dataclasses import dataclass, replace

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch_geometric.utils import scatter

from benchmarks.harness.retrieval.batches import QuestionBatch
from benchmarks.harness.retrieval.encoders import ENCODERS, POOLINGS, Encoder, pooled
from benchmarks.harness.sizes import count_parameters, largest_width
from pyg_kernels.datasets.text import TextBatch

EMBEDDING_SCALE = 0.5  # standard deviation of learned vectors at the start, about GloVe's
PRETRAINED = "-pt"
TITLE_ALONE = "-title"


@dataclass(frozen=True)
class QuestionModelConfig:
    """Everything that builds a network; plain values, so a checkpoint can carry it.

    Args:
        name (str): See :func:`model_name`.
        encoder (str): A key of ``encoders.ENCODERS``.
        pooling (str): ``'last'``, ``'mean'`` or ``'max'``.
        fields (str): ``'title'``, or ``'title+body'`` for the mean of both vectors.
        pretrained (bool): Whether the encoder starts as the one that has learned to write titles.
        num_words (int): Size of the vocabulary.
        embedding_dim (int): Size of a word vector.
        fixed_embedding (bool): Whether word vectors are kept as they are.
        hidden (int): Width.
        dropout (float): Of word vectors and of the vectors of texts.
        num_negatives (int): Random questions for each similar one in training.
        margin (float): Of the hinge loss.
    """

    name: str
    encoder: str
    pooling: str
    fields: str
    pretrained: bool
    num_words: int
    embedding_dim: int
    fixed_embedding: bool
    hidden: int
    dropout: float = 0.1
    num_negatives: int = 20
    margin: float = 1.0


class QuestionNet(nn.Module):
    """Word vectors, an encoder, and the mean of the vectors of title and body.

    Args:
        config: Sizes.
    """

    def __init__(self, config: QuestionModelConfig) -> None:
        super().__init__()
        self.config = config
        self.embedding = nn.Embedding(config.num_words, config.embedding_dim)
        self.embedding.weight.data.mul_(EMBEDDING_SCALE)
        self.embedding.weight.requires_grad_(not config.fixed_embedding)
        self.encoder = build_encoder(config)

    def embed(self, ids: Tensor) -> Tensor:
        """The vectors of words, ``(N, D)``, with dropout in training."""
        return F.dropout(self.embedding(ids), self.config.dropout, self.training)

    def texts(self, words: TextBatch) -> Tensor:
        """The vectors of B texts of at least one word each, ``(B, H)``."""
        states, _ = self.encoder(self.embed(words.ids), words)
        # Of unit length as in the authors' code: title and body weigh the same.
        vectors = pooled(F.normalize(states, dim=1), words, self.config.pooling)
        return F.dropout(vectors, self.config.dropout, self.training)

    def forward(self, batch: QuestionBatch) -> Tensor:
        """The cosine between the first question of each group and the others, ``(B, K - 1)``."""
        vectors = self.texts(batch.words)
        questions = scatter(vectors, batch.question, dim_size=batch.num_questions, reduce="mean")
        questions = F.normalize(questions.float(), dim=1)
        groups, size = batch.groups.shape
        grouped = questions.index_select(0, batch.groups.flatten()).view(groups, size, -1)
        # No product of matrices: in mixed precision its digits would not tell candidates apart.
        return (grouped[:, 1:] * grouped[:, :1]).sum(dim=2)


def build_encoder(config: QuestionModelConfig) -> Encoder:
    """A new encoder of a configuration, or a decoder of its type.

    Raises:
        ValueError: If there is none of this name.
    """
    if config.encoder not in ENCODERS:
        raise ValueError(f"encoder must be one of {', '.join(ENCODERS)}, got {config.encoder!r}")
    if config.pooling not in POOLINGS:
        raise ValueError(f"pooling must be one of {', '.join(POOLINGS)}, got {config.pooling!r}")
    return ENCODERS[config.encoder](config.embedding_dim, config.hidden)


def model_name(encoder: str, pretrained: bool, pooling: str, fields: str) -> str:
    """What a network is called in tables and folders."""
    ending = TITLE_ALONE if fields == "title" else ""
    return f"{encoder}{PRETRAINED if pretrained else ''}-{pooling}{ending}"


def is_model_name(name: str) -> bool:
    """Whether a network can be called so."""
    return any(
        name == model_name(encoder, pretrained, pooling, fields)
        for encoder in ENCODERS
        for pretrained in (False, True)
        for pooling in POOLINGS
        for fields in ("title", "title+body")
    )


def fit_hidden_size(config: QuestionModelConfig, budget: int) -> QuestionModelConfig:
    """The configuration with the largest width whose encoder stays within a number of parameters.

    Word vectors and decoders do not count.

    Raises:
        ValueError: If not even a width of 1 does.
    """

    def fits(hidden: int) -> bool:
        return encoder_parameters(replace(config, hidden=hidden)) <= budget

    width = largest_width(fits)
    if not width:
        raise ValueError(f"no width of {config.encoder} stays within {budget:,} parameters")
    return replace(config, hidden=width)


def encoder_parameters(config: QuestionModelConfig) -> int:
    """Number of trained numbers in an encoder."""
    return count_parameters(lambda: build_encoder(config))


def set_word_vectors(embedding: nn.Embedding, vectors: Tensor) -> None:
    """Gives the words of the vocabulary these vectors, ``(V, D)``."""
    with torch.no_grad():
        embedding.weight.copy_(vectors)
