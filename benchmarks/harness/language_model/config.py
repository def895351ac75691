"""What a language model is and how it is trained, in plain values; nothing here imports torch."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

import benchmarks

ENCODERS = ("rcnn", "lstm", "awd")
CELLS = ("lstm", "rkm-lstm", "rkm-cifg", "linear-gated")  # of 'awd': Liang et al. 2019, Table 3
OPTIMIZERS = ("sgd", "adam", "nt-asgd")


@dataclass(frozen=True)
class LanguageModelConfig:
    """Everything that :func:`~benchmarks.harness.language_model.models.build_language_model` needs.

    Args:
        name (str): Of the preset that it comes from.
        encoder (str): ``'rcnn'``: :class:`~pyg_kernels.sequence.RCNN`; ``'lstm'``:
            :class:`torch.nn.LSTM`; ``'awd'``: one layer of `cell` after the other with dropped
            recurrent weights, the last one as wide as the word vectors (Merity et al. 2018).
        num_words (int): Size V of the vocabulary.
        hidden (int): Width of a layer.
        embedding (int): Size of a word vector; 0: that of a layer.
        num_layers (int): Layers.
        tied (bool): Whether the scores of words are products with their vectors.
        order (int): Of ``'rcnn'``, as are the next six; arguments of its layer.
        combine (str): See `order`.
        decay (float or str): See `order`.
        readout (str): See `order`.
        act (str, optional): See `order`.
        output_gate (bool): See `order`.
        highway (bool): See `order`.
        state_dropout (float): Of ``'rcnn'``: variational dropout within a layer.
        cell (str): Of ``'awd'``: one of :data:`CELLS`.
        input_dropout (float): Of word vectors.
        hidden_dropout (float): Between layers.
        output_dropout (float): Of the last layer's outputs.
        word_dropout (float): Of ``'awd'``, as is the next: of whole words of the vocabulary.
        weight_dropout (float): Of the recurrent matrices.
        locked (bool): Whether dropout has one mask for all steps of a stream (variational dropout)
            in place of one each.
    """

    name: str
    encoder: str
    num_words: int = 0
    hidden: int = 0
    embedding: int = 0
    num_layers: int = 3
    tied: bool = True
    order: int = 1
    combine: str = "mul"
    decay: float | str = "recurrent"
    readout: str = "c"
    act: str | None = None
    output_gate: bool = False
    highway: bool = False
    state_dropout: float = 0.0
    cell: str = "lstm"
    input_dropout: float = 0.0
    hidden_dropout: float = 0.0
    output_dropout: float = 0.0
    word_dropout: float = 0.0
    weight_dropout: float = 0.0
    locked: bool = False

    @property
    def embedding_size(self) -> int:
        """Size of a word vector."""
        return self.embedding or self.hidden


@dataclass(frozen=True)
class TrainingSettings:
    """How a language model is trained.

    Args:
        optimizer (str): One of :data:`OPTIMIZERS`: plain gradient descent; Adam; gradient descent
            whose average counts once the validation error has stopped falling (Merity et al. 2018).
        learning_rate (float): In the first epoch.
        clip (float): Largest norm of the gradient; 0: any.
        weight_decay (float): L2 penalty.
        decay (float): Factor on the learning rate after each epoch from `decay_after` on.
        decay_after (int): Epochs with the whole learning rate.
        revert (bool): Of ``'adam'``: whether an epoch that does not lower the validation error is
            undone, and the learning rate halved (Lei 2017, appendix B.1).
        epochs (int): At most.
        patience (int, optional): Epochs without a lower validation error after which to stop;
            ``None``: never.
        batch_size (int): Streams side by side.
        steps (int): Words of a stream through which gradients flow.
        variable_steps (bool): Whether that number is drawn anew for each batch.
        sum_steps (bool): Whether the loss is summed over the steps of a stream, as the papers'
            gradient descent of rate 1 needs, in place of the mean over words.
        alpha (float): Penalty on outputs (Merity et al. 2017, activation regularisation).
        beta (float): Penalty on their changes from step to step.
    """

    optimizer: str
    learning_rate: float
    clip: float = 0.0
    weight_decay: float = 0.0
    decay: float = 1.0
    decay_after: int = 0
    revert: bool = False
    epochs: int = 50
    patience: int | None = None
    batch_size: int = 32
    steps: int = 35
    variable_steps: bool = False
    sum_steps: bool = True
    alpha: float = 0.0
    beta: float = 0.0

    def learning_rate_at(self, epoch: int) -> float:
        """The scheduled learning rate in an epoch, counted from 0."""
        return float(self.learning_rate * self.decay ** max(0, epoch - self.decay_after + 1))


@dataclass(frozen=True)
class Preset:
    """A set-up of a paper: an entry of ``benchmarks/presets/language_model.yaml``.

    Args:
        name (str): Of the preset.
        help (str): What it is, and the paper's figures, on one line.
        ptb (float, optional): The paper's perplexity on the test part of the Penn Treebank.
        model: The network; ``num_words`` is 0, and ``hidden`` is where there is a budget.
        training: Its training.
        parameters (int, optional): The budget: the width is the largest within it.
    """

    name: str
    help: str
    ptb: float | None
    model: LanguageModelConfig
    training: TrainingSettings
    parameters: int | None = None


def _preset(
    name: str,
    help: str,
    model: dict[str, Any],
    training: dict[str, Any],
    ptb: float | None = None,
    parameters: int | None = None,
) -> Preset:
    config = LanguageModelConfig(name=name, **model)
    return Preset(name, help, ptb, config, TrainingSettings(**training), parameters)


def _presets() -> dict[str, Preset]:
    file = Path(benchmarks.__file__).parent / "presets" / "language_model.yaml"
    entries = yaml.safe_load(file.read_text(encoding="utf-8"))
    return {name: _preset(name, **entry) for name, entry in entries.items()}


PRESETS = _presets()
