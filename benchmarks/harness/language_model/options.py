"""Which corpus and which networks; nothing here imports torch."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Literal

from benchmarks.harness.errors import InputError
from benchmarks.harness.language_model.config import PRESETS
from benchmarks.harness.options import LARGEST_WIDTH, MOST_LAYERS, Options, Runs, setting

# Where no corpus is named: minutes on two cores.
DEFAULT_EPOCHS = 5
DEFAULT_PARAMETERS = 1_000_000


@dataclass(frozen=True, kw_only=True)
class Corpus(Options):
    """Texts.

    Args:
        data: folder of ptb.train.txt, ptb.valid.txt and ptb.test.txt, of wiki.train.tokens ..., or
            of train.txt ..., also compressed (.gz), or a text file of your own, of which the first
            80 % of the lines train, 10 % validate and the last are tested (the documentation
            inside this Python)
        words: the file is written as a corpus is, words between spaces
        encoding: of the file
    """

    data: str | None = setting(None, free=True)
    words: bool = setting(False)
    encoding: str = setting("utf-8")

    def check(self) -> None:
        super().check()
        if not self.own and (self.words or self.encoding != "utf-8"):
            raise InputError("--words and --encoding go with a text file of your own")

    @property
    def own(self) -> bool:
        """Whether it is a file of one's own."""
        return self.data is not None and Path(self.data).expanduser().is_file()


@dataclass(frozen=True, kw_only=True)
class LanguageModels(Options):
    """Models.

    Args:
        models: one or more of the presets below
        parameters: each model gets the largest width within this number of parameters (the
            preset's; 1000000 without --data)
        hidden: this width instead; word vectors of a size of their own keep their proportion to it
        layers: of each model (the preset's)
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
        epochs: at most (the preset's; 5 without --data)
        batch_size: streams side by side (the preset's)
        steps: words of a stream through which gradients flow (the preset's)
        lr: first learning rate (the preset's)
        clip: largest norm of the gradient, 0 for any (the preset's)
        patience: stop after N epochs without a lower validation perplexity (the preset's)
    """

    epochs: int | None = setting(None, least=1)
    batch_size: int | None = setting(None, least=1)
    steps: int | None = setting(None, least=1)
    lr: float | None = setting(None, above=0)
    clip: float | None = setting(None, least=0)
    precision: Literal["auto", "32-true", "16-mixed", "bf16-mixed"] = setting("32-true")

    def changes(self) -> dict[str, Any]:
        """What the options change of the presets' training."""
        same = {x: getattr(self, x) for x in ("epochs", "patience", "batch_size", "steps", "clip")}
        given = {**same, "learning_rate": self.lr}
        changes = {field: value for field, value in given.items() if value is not None}
        return changes if self.data else {"epochs": DEFAULT_EPOCHS, **changes}

    def budget(self) -> int | None:
        """The number of parameters that every model stays within; ``None``: the preset's."""
        return self.parameters or (None if self.data or self.hidden else DEFAULT_PARAMETERS)
