"""The networks that are compared: word vectors, a generator, an encoder.

All have generator and encoder of one size: what differs is whether and how they select.
"""

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from benchmarks.harness.rationale.attention import AttentionClassifier
from benchmarks.harness.rationale.attention_reader import AttentionReader
from benchmarks.harness.rationale.model_config import RationaleModelConfig
from benchmarks.harness.rationale.names import ATTENTION
from benchmarks.harness.rationale.readers import FullReader, Inputs, RationaleReader, Reader
from pyg_kernels.nn import WLKernelNet
from pyg_kernels.rationale import Generator, Rationalizer, SequenceEncoder, WLStates
from pyg_kernels.sequence import RCNN

ORDER = 2  # words in an n-gram, atoms in a walk
DECAY = "input"
EMBEDDING_SCALE = 0.5  # standard deviation of learned vectors at the start, about GloVe's


class RationaleNet(nn.Module):
    """Word vectors, where items are texts, and a reader.

    Args:
        config: Sizes.
    """

    def __init__(self, config: RationaleModelConfig) -> None:
        super().__init__()
        self.config = config
        self.embedding: nn.Embedding | None = None
        if config.num_words:
            self.embedding = nn.Embedding(config.num_words, config.input_size)
            self.embedding.weight.data.mul_(EMBEDDING_SCALE)
            self.embedding.weight.requires_grad_(not config.fixed_embedding)
        self.reader = _reader(config)

    def set_word_vectors(self, vectors: Tensor) -> None:
        """Gives the words of the vocabulary these vectors, ``(V, D)``."""
        assert self.embedding is not None
        with torch.no_grad():
            self.embedding.weight.copy_(vectors)

    def inputs(self, batch: Any) -> Inputs:
        """What readers are called with, of a batch of texts or molecules."""
        if self.embedding is None:
            names = ("x", "edge_index", "edge_attr", "batch")
            return {name: batch[name] for name in names} | {"batch_size": batch.num_graphs}
        words = F.dropout(self.embedding(batch.ids), self.config.dropout, self.training)
        return {"x": words, "ptr": batch.ptr}


def _text_encoder(config: RationaleModelConfig) -> SequenceEncoder:
    readout: Any = config.readout
    return SequenceEncoder(
        _one_direction(config), config.hidden, config.out, readout, config.dropout
    )


def _attention(config: RationaleModelConfig) -> AttentionClassifier:
    return AttentionClassifier(
        _two_directions(config),
        2 * config.hidden,
        _one_direction(config),
        config.hidden,
        config.out,
        config.dropout,
    )


def _one_direction(config: RationaleModelConfig) -> RCNN:
    """An RCNN that reads on: what an encoder reads with."""
    return RCNN(
        config.input_size,
        config.hidden,
        order=ORDER,
        num_layers=config.num_layers,
        combine="add",
        decay=DECAY,
        dropout=config.dropout if config.num_layers > 1 else 0.0,
    )


def _two_directions(config: RationaleModelConfig) -> RCNN:
    """An RCNN that reads from both ends: what a generator decides on, and attention."""
    return RCNN(
        config.input_size,
        config.hidden,
        order=ORDER,
        combine="add",
        decay=DECAY,
        bidirectional=True,
    )


def _reader(config: RationaleModelConfig) -> Reader:
    if config.kind == ATTENTION:
        return AttentionReader(_attention(config), config.share)
    if config.inputs in ("texts", "questions"):
        encoder: nn.Module = _text_encoder(config)
    else:
        encoder = _molecule_encoder(config)
    if not config.selects:
        return FullReader(encoder)
    estimator: Any = config.estimator
    rationalizer = Rationalizer(
        _generator(config),
        encoder,
        sparsity=config.sparsity,
        rate=config.rate,
        coherence=config.coherence,
        estimator=estimator,
        num_samples=config.num_samples,
        temperature=config.temperature,
    )
    return RationaleReader(rationalizer)


def _generator(config: RationaleModelConfig) -> Generator:
    kind: Any = config.kind
    if config.inputs == "molecules":
        states = WLStates(
            config.input_size,
            config.hidden,
            num_iterations=config.num_layers,
            order=ORDER,
            edge_dim=config.edge_dim or None,
        )
        return Generator(states, config.hidden)
    return Generator(
        _two_directions(config), 2 * config.hidden, kind, hidden_size=config.selection_size
    )


def _molecule_encoder(config: RationaleModelConfig) -> WLKernelNet:
    return WLKernelNet(
        config.input_size,
        config.hidden,
        config.out,
        num_iterations=config.num_layers,
        order=ORDER,
        edge_dim=config.edge_dim or None,
        norm=None,
        dropout=config.dropout,
    )
