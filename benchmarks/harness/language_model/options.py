"""Language models, their training, and the options of a command; nothing here imports torch."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Literal

import yaml

import benchmarks
from benchmarks.harness.errors import InputError
from benchmarks.harness.options import LARGEST_WIDTH, MOST_LAYERS, Options, Runs, setting


@dataclass(frozen=True)
class LanguageModelConfig:
    """The configuration of a :class:`.models.LanguageModel`."""

    name: str  # of the preset that it comes from
    # ``'rcnn'``: :class:`~pyg_kernels.sequence.RCNN`; ``'lstm'``: :class:`torch.nn.LSTM`;
    # ``'awd'``: stacked layers of `cell` with dropped recurrent weights, the last one as wide as
    # the word vectors, with one dropout mask for all steps (Merity et al. 2018).
    encoder: str
    num_words: int = 0  # size V of the vocabulary
    hidden: int = 0  # of a layer
    embedding: int = 0  # size of a word vector; 0: the same as `hidden`
    num_layers: int = 3
    tied: bool = True  # whether the scores of words are products with their vectors
    order: int = 1  # this and the next seven are arguments of the layer of ``'rcnn'``
    combine: str = "mul"
    decay: float | str = "recurrent"
    readout: str = "c"
    act: str | None = None
    output_gate: bool = False
    highway: bool = False
    state_dropout: float = 0.0  # variational dropout within a layer
    # for ``'awd'``: ``'lstm'``, or an :class:`~pyg_kernels.sequence.RKM`'s (Liang et al. 2019)
    cell: str = "lstm"
    input_dropout: float = 0.0  # of word vectors
    hidden_dropout: float = 0.0  # between layers
    output_dropout: float = 0.0  # of the last layer's outputs
    word_dropout: float = 0.0  # for ``'awd'``: of whole words of the vocabulary
    weight_dropout: float = 0.0  # for ``'awd'``: of the recurrent matrices

    @property
    def embedding_size(self) -> int:
        return self.embedding or self.hidden


@dataclass(frozen=True)
class TrainingSettings:
    """How a language model is trained."""

    # ``'sgd'``; ``'adam'``; ``'nt-asgd'``: gradient descent that averages the parameters once the
    # validation error has stopped falling (Merity et al. 2018)
    optimizer: str
    learning_rate: float  # in the first epoch
    clip: float = 0.0  # largest norm of the gradient; 0: no limit
    weight_decay: float = 0.0
    decay: float = 1.0  # factor on the learning rate after each epoch from `decay_after` on
    decay_after: int = 0  # epochs with the full learning rate
    # for ``'adam'``: whether an epoch that does not lower the validation error is undone, and the
    # learning rate halved (Lei 2017, appendix B.1)
    revert: bool = False
    epochs: int = 50  # at most
    patience: int | None = None  # epochs without a lower validation error; ``None``: never stop
    batch_size: int = 32  # streams side by side
    steps: int = 35  # words of a stream through which gradients flow
    variable_steps: bool = False  # whether the number of steps is drawn anew for each batch
    sum_steps: bool = True  # sum (as SGD with rate 1 needs) or average the loss over the steps
    alpha: float = 0.0  # penalty on outputs (Merity et al. 2017, activation regularisation).
    beta: float = 0.0  # penalty on changes of outputs from step to step

    def learning_rate_at(self, epoch: int) -> float:
        """The scheduled learning rate in an epoch, counted from 0."""
        return float(self.learning_rate * self.decay ** max(0, epoch - self.decay_after + 1))


@dataclass(frozen=True)
class Preset:
    """A set-up of a paper: an entry of ``benchmarks/presets/language_model.yaml``."""

    name: str  # of the preset
    help: str  # a description with the paper's figures, on one line
    # the network; ``num_words`` is 0, and so is ``hidden`` if there is a budget
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
# If no corpus is named: takes minutes on two cores.
DEFAULT_EPOCHS = 5
DEFAULT_PARAMETERS = 1_000_000


@dataclass(frozen=True, kw_only=True)
class Corpus(Options):
    """Texts.

    Args:
        data: folder of a corpus, with ptb.train.txt, ptb.valid.txt and ptb.test.txt, with
            wiki.train.tokens ..., or with train.txt ..., also compressed (.gz); or a text file of
            your own: the first 80 % of its lines train, the next 10 % validate and the last 10 %
            test (the documentation inside this Python)
        words: split your file at spaces alone, as the files of a corpus are
        encoding: character encoding of the file, or of the files in the folder
    """

    data: str | None = setting(None, free=True)
    words: bool = setting(False)
    encoding: str = setting("utf-8")

    def check(self) -> None:
        super().check()
        if self.words and not self.own:
            raise InputError("--words goes with a text file of your own")
        if self.data is None and self.encoding != "utf-8":
            raise InputError("--encoding goes with --data")

    @property
    def own(self) -> bool:
        return self.data is not None and Path(self.data).expanduser().is_file()


@dataclass(frozen=True, kw_only=True)
class LanguageModels(Options):
    """Models.

    Args:
        models: presets to compare, from the list below
        parameters: give each model the largest width with at most this many parameters (the
            preset's; 1000000 without --data)
        hidden: width in place of --parameters; word vectors of another size change with it
        layers: number of layers of each model (the preset's)
    """

    EXCLUSIVE: ClassVar[tuple[tuple[str, ...], ...]] = (("hidden", "parameters"),)

    models: tuple[str, ...] = setting(("rcnn-5m", "lstm-5m"), "model", "preset", free=True)
    parameters: int | None = setting(None, least=1, free=True)
    hidden: int | None = setting(None, least=1, most=LARGEST_WIDTH, free=True)
    layers: int | None = setting(None, least=1, most=MOST_LAYERS, free=True)

    def check(self) -> None:
        super().check()
        for name in self.models:
            if name not in PRESETS:
                raise InputError(f"--models {name}: expected one of {', '.join(PRESETS)}")


@dataclass(frozen=True, kw_only=True)
class LanguageModel(Corpus, LanguageModels, Runs):
    """Batches of training.

    Args:
        epochs: largest number of epochs (the preset's; 5 without --data)
        batch_size: streams of text side by side in a batch (the preset's)
        steps: words of each stream in a batch, through which gradients flow (the preset's)
        lr: learning rate of the first epoch (the preset's)
        clip: largest norm of the gradient; larger ones are scaled down; 0: no limit (the preset's)
        patience: stop after N epochs without a lower validation perplexity (the preset's)
    """

    epochs: int | None = setting(None, least=1)
    batch_size: int | None = setting(None, least=1)
    steps: int | None = setting(None, least=1)
    lr: float | None = setting(None, above=0)
    clip: float | None = setting(None, least=0)
    precision: Literal["auto", "32-true", "16-mixed", "bf16-mixed"] = setting("32-true")

    def changes(self) -> dict[str, Any]:
        """The changes that the options make to the presets' training."""
        same = {x: getattr(self, x) for x in ("epochs", "patience", "batch_size", "steps", "clip")}
        given = {**same, "learning_rate": self.lr}
        changes = {field: value for field, value in given.items() if value is not None}
        return changes if self.data else {"epochs": DEFAULT_EPOCHS, **changes}

    def budget(self) -> int | None:
        """The largest number of parameters of every model; ``None``: that of its preset."""
        return self.parameters or (None if self.data or self.hidden else DEFAULT_PARAMETERS)
