"""Language modelling as a task of the harness: its corpus, batches and learners."""

from collections.abc import Mapping
from dataclasses import asdict, replace
from typing import Any

from torch import Tensor

from benchmarks.corpora import language
from benchmarks.corpora.python_documentation import PythonDocumentation
from benchmarks.harness.errors import as_input_error
from benchmarks.harness.language_model.learner import LanguageLearner, perplexity
from benchmarks.harness.language_model.models import fitted
from benchmarks.harness.language_model.options import PRESETS, Corpus, LanguageModel, Preset
from benchmarks.harness.learner import OptimizerConfig
from benchmarks.harness.task import PARTS, Batches, Measure, Task
from benchmarks.harness.training import TrainingConfig

EVALUATION_STREAMS = 10  # each begins without a past, like validation in the AWD-LSTM's code


def load_corpus(options: Corpus) -> language.TextStreams:
    """Reads a corpus."""
    with as_input_error():
        if options.data is None:
            return PythonDocumentation()
        if options.own:
            return language.OwnText(options.data, options.encoding, options.words)
        return language.LanguageCorpus(options.data, options.encoding)


class LanguageTask(Task):
    """Language modelling, measured by the perplexity of words."""

    measure = Measure("perplexity", "perplexity", ".2f")

    def __init__(self, corpus: language.TextStreams) -> None:
        self.corpus = corpus
        self.dataset, self.parts = corpus.name, corpus.streams
        self.split = "lines in order" if isinstance(corpus, language.OwnText) else "given parts"

    def identity(self) -> dict[str, Any]:
        number = sum(map(len, self.parts.values()))
        return {"number": number, "digest": self.corpus.digest()}

    def training(self, model: Preset, training: TrainingConfig) -> TrainingConfig:
        settings = model.training
        return replace(
            training,
            epochs=settings.epochs,
            batch_size=settings.batch_size,
            patience=settings.patience or settings.epochs,
            clip=settings.clip,
            optimizer=OptimizerConfig(settings.learning_rate),
            show="epochs" if training.show == "lines" else training.show,
        )

    def learner(self, model: Preset, optimizer: OptimizerConfig) -> LanguageLearner:
        words, name = self.corpus.vocabulary.words, self.corpus.name
        return LanguageLearner(asdict(model.model), asdict(model.training), words, name)

    def batches(self, learner: LanguageLearner, batch_size: int, seed: int) -> Batches:
        """Streams of words; the number of steps of a batch depends only on seed and epoch.

        Every word of the parts is predicted once, the first one from an end of sentence. After
        each epoch the test part is measured, too.
        """
        steps, vary = learner.settings.steps, learner.settings.variable_steps
        train, size = self.parts["train"], learner.settings.batch_size
        training = language.LanguageLoader(train, size, steps, vary=vary, seed=10_000 * seed)
        parts = {}
        for part, stream in self.parts.items():
            streams = max(1, min(EVALUATION_STREAMS, len(stream) // steps))
            parts[part] = language.LanguageLoader(stream, streams, steps, whole=True)
        return Batches(training, parts, [parts["test"]])

    def scores(self, predictions: Mapping[str, Tensor]) -> dict[str, float]:
        totals = {part: predictions[part].double().sum(dim=0).tolist() for part in PARTS}
        return {part: perplexity(loss / words) for part, (loss, words) in totals.items()}

    def details(self, model: Preset, learner: LanguageLearner) -> dict[str, Any]:
        return {
            "hidden_size": model.model.hidden,
            "num_words": model.model.num_words,
            "training_words": len(self.parts["train"]),
        }

    def rows(self, part: str, predictions: Tensor) -> dict[str, Any]:
        """For each stretch of words: the number of words before it, its length, and its loss."""
        loss, words = predictions.double().t()
        counts = words.long()
        before = counts.cumsum(0) - counts
        return {
            "before": before.tolist(),
            "words": counts.tolist(),
            "loss": (loss / words).tolist(),
        }


def language_setups(options: LanguageModel, corpus: language.TextStreams) -> list[Preset]:
    """The requested presets for a corpus, with the changes that the options make."""
    setups = []
    for name in options.models:
        preset = PRESETS[name]
        if options.layers:
            preset = replace(preset, model=replace(preset.model, num_layers=options.layers))
        with as_input_error():
            words = len(corpus.vocabulary)
            model = fitted(preset, words, options.hidden, options.budget())
        training = replace(preset.training, **options.changes())
        setups.append(replace(preset, model=model, training=training))
    return setups
