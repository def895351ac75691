"""Classification of texts: what Lightning trains, and the task that the harness gives it."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, replace
from functools import partial
from typing import Any

from torch import Tensor

from benchmarks.corpora.ag_news import AGNews
from benchmarks.corpora.ag_news import clean as clean_news
from benchmarks.harness.classification import ClassificationTask, Classifier
from benchmarks.harness.errors import as_input_error
from benchmarks.harness.learner import OptimizerConfig
from benchmarks.harness.sizes import check_parameters, count_parameters
from benchmarks.harness.task import PARTS, Batches
from benchmarks.harness.text import models
from benchmarks.harness.text.counts import NGramClassifier
from benchmarks.harness.text.data import TextData, text_batches
from benchmarks.harness.text.options import CELL_WIDTH, TextModelConfig, TextModels, unused
from pyg_kernels.datasets.text import TextBatch, TextCSV, TextLoader, tokenize
from pyg_kernels.datasets.text.text_table import unescape

# How a text is cleaned before it is split into words.
CLEANINGS: dict[str, Callable[[str], str]] = {
    "none": str,
    "escapes": unescape,
    "ag_news": clean_news,
}
SIZE_OPTIONS = "--hidden, --parameters, --layers, --embedding"


class TextClassifier(Classifier):
    """A network on batches of texts, rebuilt from a checkpoint by plain values."""

    ADDED = ("clean",)

    def __init__(
        self,
        model: dict[str, Any],
        words: list[str],
        classes: list[str],
        optimizer: dict[str, Any] | None = None,
        clean: str = "none",  # a key of CLEANINGS
    ) -> None:
        super().__init__(optimizer)
        self.save_hyperparameters(logger=False)
        self.net: models.TextNet = models.TextNet(TextModelConfig(**model))

    def tokens(self, text: str) -> list[str]:
        """The words of a new text, split in the same way as the corpus."""
        return tokenize(CLEANINGS[self.hparams["clean"]](text))

    def scores(self, batch: TextBatch) -> tuple[Tensor, Tensor]:
        return self.net(batch), batch.y


class TextTask(ClassificationTask):
    """Classification of texts, measured by the accuracy in percent."""

    def __init__(self, data: TextData, fold: str = "") -> None:
        self.data, self.fold = data, fold
        self.dataset, self.split = data.choice.dataset, data.corpus.split
        self.parts = data.corpus.parts
        self.labels, self.classes = data.corpus.labels, data.corpus.classes
        self._counts: dict[int, dict[str, Tensor]] = {}  # by the most words of an n-gram

    def learner(self, model: TextModelConfig, optimizer: OptimizerConfig) -> TextClassifier:
        corpus, vocabulary = self.data.corpus, self.data.vocabulary
        words, classes = vocabulary.words[2:], list(corpus.classes)
        if model.counts and model.counts not in self._counts:  # once for all models and seeds
            parts = (self.data.encoded.batch(self.parts[part]) for part in PARTS[:2])
            counting = NGramClassifier(model.counts, len(vocabulary), 0, len(classes))
            self._counts[model.counts] = counting.fit(*parts).state_dict()
        counted = self._counts.get(model.counts, {})
        # Another fold has other words.
        ngrams = len(counted.get("ngrams", ()))
        model = replace(model, num_words=len(vocabulary), num_ngrams=ngrams)
        clean = "escapes" if isinstance(corpus, TextCSV) else "none"
        clean = "ag_news" if isinstance(corpus, AGNews) else clean
        classifier = TextClassifier(asdict(model), words, classes, asdict(optimizer), clean)
        self.data.start(classifier.net.embedding)
        if classifier.net.counts is not None:
            classifier.net.counts.load_state_dict(counted)
        return classifier

    def batches(self, learner: TextClassifier, batch_size: int, seed: int) -> Batches:
        return text_batches(self.parts, partial(TextLoader, self.data.encoded), batch_size, seed)

    def run_name(self, model: str, seed: int) -> str:
        return " ".join(filter(None, (self.fold, super().run_name(model, seed))))

    def unused(self, model: Mapping[str, Any]) -> set[str]:
        return unused(model)

    def columns(self, places: Sequence[int]) -> dict[str, Any]:
        fold = {"fold": self.fold} if self.fold else {}
        return {**fold, "text": [" ".join(self.data.corpus.texts[i]) for i in places]}

    def details(self, model: TextModelConfig, learner: TextClassifier) -> dict[str, Any]:
        """For recurrent kernel machines, the cell, its sizes and the number of its weights.

        If layers or decays are compared, also this model's layers and decay. If a classifier of
        n-grams stands beside the network, also its number of n-grams.
        """
        encoder, counts = learner.net.encoder, learner.net.counts
        details: dict[str, Any] = {} if counts is None else {"ngrams": len(counts.ngrams)}
        if isinstance(encoder, models.RKMEncoder):
            details |= {"cell": model.kind, "ngram": model.ngram, "input_size": model.embedding_dim}
            details |= {"hidden_size": model.hidden, "cell_parameters": encoder.cell_parameters()}
        elif model.name != model.kind:
            details |= {"kind": model.kind, "layers": model.num_layers}
            details |= {"decay": model.decay} if model.kind == "rcnn" else {}
        return details


def text_model_configs(options: TextModels, data: TextData) -> list[TextModelConfig]:
    """The configurations of the requested models, for some texts."""
    sizes = {"num_classes": len(data.corpus.classes), **data.sizes(options.embedding)}
    configs = []
    for variant in options.variants():
        config = TextModelConfig(hidden=options.hidden or CELL_WIDTH, **sizes, **variant)
        with as_input_error():
            config = _sized(config, options)
            number = count_parameters(partial(models.TextNet, config))
            check_parameters(config.name, config.hidden, number, SIZE_OPTIONS)
        configs.append(config)
    return configs


def _sized(config: TextModelConfig, options: TextModels) -> TextModelConfig:
    """The configuration with the requested width."""
    if options.hidden or (config.ngram and not options.parameters):
        return config
    budget = options.parameters or models.DEFAULT_PARAMETERS
    if options.rcnn_hidden and not options.parameters:
        rcnn = replace(config, kind="rcnn", hidden=options.rcnn_hidden)
        if config.kind == "rcnn":
            return rcnn
        budget = models.count_parameters(replace(rcnn, decay="input"))
    return models.fit_hidden_size(config, budget)
