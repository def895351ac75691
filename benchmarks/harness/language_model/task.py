"""Language modelling as a task of the harness."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

import pandas
from torch import Tensor

from benchmarks.harness.errors import as_input_error
from benchmarks.harness.language_model.config import LanguageModelConfig, TrainingSettings
from benchmarks.harness.language_model.data import LanguageBatches, LanguageData
from benchmarks.harness.language_model.learner import LanguageLearner, perplexity
from benchmarks.harness.language_model.models import fitted
from benchmarks.harness.language_model.presets import PRESETS
from benchmarks.harness.learner import OptimizerConfig
from benchmarks.harness.task import PARTS, Measure, Task
from benchmarks.harness.training import TrainingConfig


@dataclass(frozen=True)
class LanguageSetup:
    """A network and its training, of a preset and what the command line changes of it.

    Args:
        name (str): The preset's.
        model: The network.
        training: Its training.
    """

    name: str
    model: LanguageModelConfig
    training: TrainingSettings


@dataclass(frozen=True)
class RunSettings:
    """What all networks of a comparison have in common.

    Args:
        device (str): See :class:`TrainingConfig`, as the next two.
        precision (str): See :class:`TrainingConfig`.
        show (str): See :class:`TrainingConfig`.
    """

    device: str = "auto"
    precision: str = "32-true"
    show: str = "nothing"


class LanguageTask(Task):
    """Language modelling, measured by the perplexity of words.

    Args:
        data: The corpus.
    """

    items = "words"
    measure = Measure("perplexity", "perplexity", ".2f")
    packages = ("torch", "lightning", "torchmetrics", "numpy")
    files = ("table.md", "perplexity.png")
    free_settings = ("corpus",)

    def __init__(self, data: LanguageData) -> None:
        self.data = data
        self.choice = data.choice
        self.dataset, self.split = data.corpus.name, "given parts"
        self.parts = data.corpus.streams

    def identity(self) -> dict[str, Any]:
        """The number of words and a fingerprint of them."""
        return self.data.identity()

    def has_model(self, name: str) -> bool:
        """Whether it is a preset."""
        return name in PRESETS

    def training(self, model: LanguageSetup, training: RunSettings) -> TrainingConfig:
        """That of the set-up."""
        settings = model.training
        return TrainingConfig(
            epochs=settings.epochs,
            batch_size=settings.batch_size,
            patience=settings.patience or settings.epochs,
            clip=settings.clip,
            optimizer=OptimizerConfig(settings.learning_rate),
            device=training.device,
            precision=training.precision,
            show="epochs" if training.show == "lines" else training.show,
        )

    def learner(self, model: LanguageSetup, optimizer: OptimizerConfig) -> LanguageLearner:
        """An untrained language model."""
        corpus = self.data.corpus
        return LanguageLearner(
            asdict(model.model), asdict(model.training), corpus.vocabulary.words, corpus.name
        )

    def batches(self, learner: LanguageLearner, batch_size: int, seed: int) -> LanguageBatches:
        """Streams of words side by side."""
        return LanguageBatches(self.data, learner.settings, seed)

    def scores(self, predictions: Mapping[str, Tensor]) -> dict[str, float]:
        """The perplexity of each part."""
        totals = {part: predictions[part].double().sum(dim=0).tolist() for part in PARTS}
        return {part: perplexity(loss / words) for part, (loss, words) in totals.items()}

    def details(self, model: LanguageSetup, learner: LanguageLearner) -> dict[str, Any]:
        """The sizes of the network and of what it was trained on."""
        return {
            "hidden_size": model.model.hidden,
            "num_words": model.model.num_words,
            "training_words": len(self.parts["train"]),
        }

    def prediction_table(
        self, record: Mapping[str, Any], predictions: Mapping[str, Tensor]
    ) -> pandas.DataFrame:
        """A row for each part, with its number of words and its loss in nats a word."""
        rows = []
        for part in PARTS:
            loss, words = predictions[part].double().sum(dim=0).tolist()
            rows.append(
                {
                    "model": record["model"],
                    "seed": record["seed"],
                    "part": part,
                    "words": int(words),
                    "loss": loss / words,
                    "perplexity": record[part],
                }
            )
        return pandas.DataFrame(rows)


def language_setups(
    names: Sequence[str],
    data: LanguageData,
    changes: Mapping[str, Any],
    hidden: int | None = None,
    parameters: int | None = None,
    layers: int | None = None,
) -> list[LanguageSetup]:
    """Set-ups of presets for a corpus.

    Args:
        names: Of presets.
        data: The corpus.
        changes: Fields of :class:`TrainingSettings` that replace the presets'.
        hidden (int, optional): Width in place of the presets'.
        parameters (int, optional): Budget in place of the presets'.
        layers (int, optional): Number of layers in place of the presets'.

    Raises:
        InputError: If no width stays within the budget, or a network is too large.
    """
    setups = []
    for name in names:
        preset = PRESETS[name]
        if layers:
            preset = replace(preset, model=replace(preset.model, num_layers=layers))
        with as_input_error():
            model = fitted(preset, len(data.corpus.vocabulary), hidden, parameters)
        setups.append(LanguageSetup(name, model, replace(preset.training, **changes)))
    return setups
