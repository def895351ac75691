"""What a language model is and how it is trained, in plain values; nothing here imports torch."""

from dataclasses import dataclass
from pathlib import Path

import yaml

import benchmarks

CELLS = ("lstm", "rkm-lstm", "rkm-cifg", "linear-gated")  # of 'awd': Liang et al. 2019, Table 3


@dataclass(frozen=True)
class LanguageModelConfig:
    """A network, of which :class:`.models.LanguageModel` is made."""

    name: str  # of the preset that it comes from
    # ``'rcnn'``: :class:`~pyg_kernels.sequence.RCNN`; ``'lstm'``: :class:`torch.nn.LSTM`;
    # ``'awd'``: one layer of `cell` after the other with dropped recurrent weights, the last one as
    # wide as the word vectors (Merity et al. 2018).
    encoder: str
    num_words: int = 0  # size V of the vocabulary
    hidden: int = 0  # of a layer
    embedding: int = 0  # size of a word vector; 0: that of a layer
    num_layers: int = 3
    tied: bool = True  # whether the scores of words are products with their vectors
    order: int = 1  # of ``'rcnn'``, as are the next seven; arguments of its layer
    combine: str = "mul"
    decay: float | str = "recurrent"
    readout: str = "c"
    act: str | None = None
    output_gate: bool = False
    highway: bool = False
    state_dropout: float = 0.0  # variational dropout within a layer
    cell: str = "lstm"  # of ``'awd'``: one of :data:`CELLS`
    input_dropout: float = 0.0  # of word vectors
    hidden_dropout: float = 0.0  # between layers
    output_dropout: float = 0.0  # of the last layer's outputs
    word_dropout: float = 0.0  # of ``'awd'``, as is the next: of whole words of the vocabulary
    weight_dropout: float = 0.0  # of the recurrent matrices
    locked: bool = False  # one mask of dropout for all steps of a stream, not one each

    @property
    def embedding_size(self) -> int:
        return self.embedding or self.hidden


@dataclass(frozen=True)
class TrainingSettings:
    """How a language model is trained."""

    # ``'sgd'``; ``'adam'``; ``'nt-asgd'``: gradient descent whose average counts once the
    # validation error has stopped falling (Merity et al. 2018)
    optimizer: str
    learning_rate: float  # in the first epoch
    clip: float = 0.0  # largest norm of the gradient; 0: any
    weight_decay: float = 0.0
    decay: float = 1.0  # factor on the learning rate after each epoch from `decay_after` on
    decay_after: int = 0  # epochs with the whole learning rate
    # of ``'adam'``: whether an epoch that does not lower the validation error is undone, and the
    # learning rate halved (Lei 2017, appendix B.1)
    revert: bool = False
    epochs: int = 50  # at most
    patience: int | None = None  # epochs without a lower validation error; ``None``: never stop
    batch_size: int = 32  # streams side by side
    steps: int = 35  # words of a stream through which gradients flow
    variable_steps: bool = False  # whether that number is drawn anew for each batch
    sum_steps: bool = True  # the loss over a stream's steps, as descent of rate 1 needs; or a mean
    alpha: float = 0.0  # penalty on outputs (Merity et al. 2017, activation regularisation).
    beta: float = 0.0  # penalty on their changes from step to step

    def learning_rate_at(self, epoch: int) -> float:
        """The scheduled learning rate in an epoch, counted from 0."""
        return float(self.learning_rate * self.decay ** max(0, epoch - self.decay_after + 1))


@dataclass(frozen=True)
class Preset:
    """A set-up of a paper: an entry of ``benchmarks/presets/language_model.yaml``."""

    name: str  # of the preset
    help: str  # what it is, and the paper's figures, on one line
    # the network; ``num_words`` is 0, and ``hidden`` is where there is a budget
    model: LanguageModelConfig
    training: TrainingSettings
    parameters: int | None = None  # the budget: the width is the largest within it


FILE = Path(benchmarks.__file__).parent / "presets" / "language_model.yaml"
PRESETS = {
    name: Preset(
        name,
        entry["help"],
        LanguageModelConfig(name=name, **entry["model"]),
        TrainingSettings(**entry["training"]),
        entry.get("parameters"),
    )
    for name, entry in yaml.safe_load(FILE.read_text(encoding="utf-8")).items()
}
