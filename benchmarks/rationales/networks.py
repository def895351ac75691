"""The networks that are compared: word vectors, a part that selects, and an encoder.

Generators and encoders have the same size in all networks, which differ in whether and how they
select. ``inputs`` are those of a :class:`~pyg_kernels.rationale.Rationalizer`: rows with ``ptr``,
or with edges and graphs.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple, cast

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch_geometric.utils import softmax

from benchmarks.harness.text.models import word_embedding
from benchmarks.rationales.options import ANNEAL, ATTENTION, SELECTING
from benchmarks.rationales.selections import top_share
from pyg_kernels.nn import WLKernelNet
from pyg_kernels.rationale import Generator, Rationalizer, SequenceEncoder, WLStates
from pyg_kernels.rationale.structures import read_structure
from pyg_kernels.sequence import RCNN

ORDER = 2  # words in an n-gram, atoms in a walk
RECURRENT: dict[str, Any] = {"order": ORDER, "combine": "add", "decay": "input"}
SELECTION_SIZE = 30  # units of the state of dependent selections
SELECTED = 0.5  # the least score of a selected word or atom
START = 0.5  # the share that generators select at first
Inputs = dict[str, Any]
Loss = Callable[[Tensor], Tensor]  # (S B, out) outputs to (S, B) losses


@dataclass(frozen=True)
class ModelConfig:
    """Everything that builds a network; plain values, so a checkpoint can carry it."""

    name: str  # its kind and, if several are compared, the share that it selects
    kind: str  # one of options.Kind
    inputs: str  # texts, molecules or questions
    input_size: int  # of a word vector, or features of an atom
    out: int  # classes, 1 number, or the size of a question's vector
    hidden: int  # of generator and encoder
    rate: float = 0.1  # the share to select
    num_words: int = 0  # of the vocabulary; 0 for molecules
    fixed_embedding: bool = True  # word vectors are kept as they are
    edge_dim: int = 0  # features of a bond; 0 for texts
    mean: float = 0.0  # of the numbers to predict, over the training part
    std: float = 1.0  # their standard deviation
    layers: int = 1  # of the encoder of texts; iterations on molecules
    dropout: float = 0.2  # of word vectors and of the vector of what is read
    estimator: str = "reinforce"  # of the gradient
    warm_up: float = 0.0  # fraction of all steps in which the encoder alone learns, on everything
    coherence: float = 0.0  # price of a transition
    samples: int = 1  # selections drawn of each text in training
    fields: str = "body"  # the field of questions that is read: title or body


class Reading(NamedTuple):
    """A network's outputs for B items of N words or atoms."""

    output: Tensor  # (B, out): from the rationale if the network learns to select, else from all
    scores: Tensor  # (N,) from 0 to 1, higher is better; at least SELECTED if selected
    transitions: Tensor  # (B,) pairs of neighbours of which exactly one is selected


class RationaleNet(nn.Module):
    """An encoder that reads everything, and the base class of networks that read a part; ``build``
    makes the modules.
    """

    encoder: nn.Module

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self.config = config
        self.embedding: nn.Embedding | None = None
        if config.num_words:
            size, fixed = config.input_size, config.fixed_embedding
            self.embedding = word_embedding(config.num_words, size, fixed)
        self.build()

    def build(self) -> None:
        self.encoder = _encoder(self.config)

    def inputs(self, batch: Any) -> Inputs:
        """The inputs of the other methods, from a batch of texts, questions or molecules."""
        batch = getattr(batch, "words", batch)
        if self.embedding is None:
            names = ("x", "edge_index", "edge_attr", "batch")
            return {name: batch[name] for name in names} | {"batch_size": batch.num_graphs}
        words = F.dropout(self.embedding(batch.ids), self.config.dropout, self.training)
        return {"x": words, "ptr": batch.ptr}

    def set_stage(self, done: float) -> None:
        """Prepares a network that learns to select for a step, after a fraction of all steps."""

    def learn(self, inputs: Inputs, loss: Loss) -> tuple[Tensor, Tensor]:
        """The objective of a batch, and its mean cost; everything is read."""
        losses = loss(self.answer(inputs, _all_of(inputs)))
        return losses.mean(), losses.detach().mean()

    def read(self, inputs: Inputs) -> Reading:
        """The outputs for a batch, without randomness."""
        chosen = _all_of(inputs)
        output = self.answer(inputs, chosen)
        return Reading(output, chosen.float(), output.new_zeros(len(output)))

    def answer(self, inputs: Inputs, chosen: Tensor) -> Tensor:
        """The outputs, (B, out), for the chosen words or atoms, ``(N,)`` bool, alone."""
        structure = read_structure(**inputs)
        return structure.encode(self.encoder, inputs["x"], chosen.unsqueeze(0))


class SelectingNet(RationaleNet):
    """Generator and encoder; in the warm-up, the encoder alone, which reads everything."""

    def build(self) -> None:
        config = self.config
        encoder, generator = _encoder(config), _generator(config)
        options: dict[str, Any] = {"estimator": config.estimator, "num_samples": config.samples}
        options |= {"rate": config.rate, "coherence": config.coherence}
        self.rationalizer = Rationalizer(generator, encoder, **options)
        self.whole = False

    def set_stage(self, done: float) -> None:
        """Sets whether and how much to select: encoders first learn to read everything, then less.

        After the warm-up the share falls exponentially from one half to the rate.
        """
        config, control = self.config, self.rationalizer.control
        assert control is not None
        self.whole = done < config.warm_up
        fallen = min(1.0, max(0.0, done - config.warm_up) / ANNEAL)
        control.rate = START * (config.rate / START) ** fallen

    def learn(self, inputs: Inputs, loss: Loss) -> tuple[Tensor, Tensor]:
        """Learns from drawn selections or, in the warm-up, from everything."""
        if self.whole:
            return super().learn(inputs, loss)
        rationale = self.rationalizer(**inputs)
        losses = loss(rationale.output)
        costs = self.rationalizer.cost(rationale, losses).detach()
        return self.rationalizer.objective(rationale, losses), costs.mean()

    def read(self, inputs: Inputs) -> Reading:
        found = self.rationalizer(**inputs)
        return Reading(found.output, found.selection[0].float(), found.transitions[0])

    def answer(self, inputs: Inputs, chosen: Tensor) -> Tensor:
        return self.rationalizer.encode(chosen, **inputs)


class AttentionNet(RationaleNet):
    r"""The attention model that Lei's thesis (2017), section 3.4.1, compares with rationales.

    A bidirectional network, like that of a generator, weights each word, and the states of an
    encoder are averaged with these weights:

    .. math::
        a_t = \mathrm{softmax}_t(w^\top s_t + b), \qquad
        y = W \sum_t a_t h_t + b'

    The average of a text without words is zero. The model reads all words; those of the largest
    weights count as its selection.
    """

    def build(self) -> None:
        """Makes the networks that compute s and h, and the maps w and W."""
        config = self.config
        self.network, self.encoder = _two_directions(config), _one_direction(config)
        self.score = nn.Linear(2 * config.hidden, 1)
        self.lin = nn.Linear(config.hidden, config.out)

    def read(self, inputs: Inputs) -> Reading:
        """The answer from all words, and their weights."""
        output, weights = self.attend(**inputs)
        chosen = top_share(weights, self.config.rate, inputs["ptr"])
        # With several words no weight is 1, so scores of words not selected are below one half.
        return Reading(output, SELECTED * (weights + chosen), output.new_zeros(len(output)))

    def answer(self, inputs: Inputs, chosen: Tensor) -> Tensor:
        """The outputs for texts of the chosen words alone."""
        lengths = read_structure(**inputs).total(chosen.long().unsqueeze(0))[0]
        return self.attend(inputs["x"][chosen], F.pad(lengths.cumsum(0), (1, 0)))[0]

    def attend(self, x: Tensor, ptr: Tensor) -> tuple[Tensor, Tensor]:
        """The prediction of each text, ``(B, out)``, and the weight a of each word, ``(N,)``."""
        num_texts = len(ptr) - 1
        text = torch.repeat_interleave(ptr.diff(), output_size=len(x))
        scores = self.score(self.network(x, ptr=ptr)[0]).squeeze(1)
        weights = softmax(scores, text, num_nodes=num_texts)
        states = self.encoder(x, ptr=ptr)[0] * weights.unsqueeze(1)
        average = states.new_zeros(num_texts, states.size(1)).index_add(0, text, states)
        return self.lin(F.dropout(average, self.config.dropout, self.training)), weights


def network(config: ModelConfig) -> RationaleNet:
    """The network of a configuration."""
    if config.kind in SELECTING:
        return SelectingNet(config)
    return AttentionNet(config) if config.kind == ATTENTION else RationaleNet(config)


def _all_of(inputs: Inputs) -> Tensor:
    rows: Tensor = inputs["x"]
    return torch.ones(len(rows), dtype=torch.bool, device=rows.device)


def _one_direction(config: ModelConfig) -> RCNN:
    """A unidirectional RCNN, the layer of an encoder."""
    dropout = config.dropout if config.layers > 1 else 0.0
    sizes = config.input_size, config.hidden
    return RCNN(*sizes, num_layers=config.layers, dropout=dropout, **RECURRENT)


def _two_directions(config: ModelConfig) -> RCNN:
    """A bidirectional RCNN, the network of a generator and of attention."""
    return RCNN(config.input_size, config.hidden, bidirectional=True, **RECURRENT)


def _walks(config: ModelConfig) -> dict[str, Any]:
    """The arguments of networks on molecules."""
    return {"num_iterations": config.layers, "order": ORDER, "edge_dim": config.edge_dim or None}


def _encoder(config: ModelConfig) -> nn.Module:
    hidden, out, dropout = config.hidden, config.out, config.dropout
    if config.inputs != "molecules":
        return SequenceEncoder(_one_direction(config), hidden, out, "mean", dropout)
    sizes = config.input_size, hidden, out
    return WLKernelNet(*sizes, norm=None, dropout=dropout, **_walks(config))


def _generator(config: ModelConfig) -> Generator:
    if config.inputs == "molecules":
        atoms = WLStates(config.input_size, config.hidden, **_walks(config))
        return Generator(atoms, config.hidden)
    kind, states = cast(Any, config.kind), _two_directions(config)
    return Generator(states, 2 * config.hidden, kind, hidden_size=SELECTION_SIZE)
