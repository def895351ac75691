"""Classification of texts as a task of the harness."""

from collections.abc import Sequence
from dataclasses import asdict, replace
from functools import partial
from typing import Any

from benchmarks.harness.batches import Batches
from benchmarks.harness.classification import ClassificationTask
from benchmarks.harness.errors import InputError, as_input_error
from benchmarks.harness.learner import OptimizerConfig
from benchmarks.harness.sizes import check_parameters
from benchmarks.harness.text.classifier import TextClassifier
from benchmarks.harness.text.data import TextData, text_batches
from benchmarks.harness.text.encoders import RKMEncoder
from benchmarks.harness.text.model_config import TextModelConfig
from benchmarks.harness.text.models import DEFAULT_PARAMETERS, count_parameters, fit_hidden_size
from benchmarks.harness.text.options import CELL_WIDTH, TextModels
from pyg_kernels.datasets.text import TextLoader

EMBEDDING = 100
SIZE_OPTIONS = "--hidden, --parameters, --layers, --embedding"


class TextTask(ClassificationTask):
    """Classification of texts, measured by the accuracy in percent."""

    def __init__(self, data: TextData) -> None:
        self.data = data
        self.dataset, self.split = data.choice.dataset, data.corpus.split
        self.parts = data.corpus.parts
        self.labels, self.classes = data.corpus.labels, data.corpus.classes

    def identity(self) -> dict[str, Any]:
        return self.data.identity()

    def learner(self, model: TextModelConfig, optimizer: OptimizerConfig) -> TextClassifier:
        words, classes = self.data.vocabulary.words[2:], list(self.data.corpus.classes)
        classifier = TextClassifier(asdict(model), words, classes, asdict(optimizer))
        if self.data.vectors is not None:
            classifier.set_word_vectors(self.data.vectors.vectors)
        return classifier

    def batches(self, learner: TextClassifier, batch_size: int, seed: int) -> Batches:
        return text_batches(self.parts, partial(TextLoader, self.data.encoded), batch_size, seed)

    def columns(self, places: Sequence[int]) -> dict[str, Any]:
        return {"text": [" ".join(self.data.corpus.texts[i]) for i in places]}

    def details(self, model: TextModelConfig, learner: TextClassifier) -> dict[str, Any]:
        """For recurrent kernel machines, the cell, its sizes and the number of its weights.

        Where layers or decays are compared, those of this model.
        """
        encoder = learner.net.encoder
        if not isinstance(encoder, RKMEncoder):
            if model.name == model.kind:
                return {}
            details = {"kind": model.kind, "layers": model.num_layers}
            return {**details, "decay": model.decay} if model.kind == "rcnn" else details
        return {
            "cell": model.kind,
            "ngram": model.ngram,
            "input_size": model.embedding_dim,
            "hidden_size": model.hidden,
            "cell_parameters": encoder.cell_parameters(),
        }


def text_model_configs(options: TextModels, data: TextData) -> list[TextModelConfig]:
    """The configurations of the models that are asked for, for some texts."""
    vectors = None if data.vectors is None else data.vectors.vectors
    if options.embedding and data.glove:
        raise InputError(f"--embedding goes with --vectors none; {data.glove} has its own size")
    configs = []
    for variant in options.variants():
        config = TextModelConfig(
            num_words=len(data.vocabulary),
            embedding_dim=(options.embedding or EMBEDDING) if vectors is None else vectors.size(1),
            fixed_embedding=vectors is not None and not data.choice.tune_vectors,
            num_classes=len(data.corpus.classes),
            hidden=options.hidden or CELL_WIDTH,
            **variant,
        )
        with as_input_error():
            if options.hidden or (config.ngram and not options.parameters):
                pass
            elif options.rcnn_hidden and not options.parameters:
                config = _as_large_as_rcnn(config, options.rcnn_hidden)
            else:
                config = fit_hidden_size(config, options.parameters or DEFAULT_PARAMETERS)
            learned = 0 if config.fixed_embedding else config.num_words * config.embedding_dim
            number = count_parameters(config) + learned
            check_parameters(config.name, config.hidden, number, SIZE_OPTIONS)
        configs.append(config)
    return configs


def _as_large_as_rcnn(config: TextModelConfig, hidden: int) -> TextModelConfig:
    """An RCNN of this width, or another model with as many parameters as the input-gated one."""
    if config.kind == "rcnn":
        return replace(config, hidden=hidden)
    rcnn = replace(config, kind="rcnn", hidden=hidden, decay="input")
    return fit_hidden_size(config, count_parameters(rcnn))
