"""Classification of texts as a task of the harness."""

from collections.abc import Iterable, Mapping
from dataclasses import asdict, replace
from typing import Any

import pandas
from torch import Tensor

from benchmarks.harness.errors import as_input_error
from benchmarks.harness.learner import OptimizerConfig
from benchmarks.harness.sizes import check_parameters
from benchmarks.harness.task import PARTS, Measure, Task
from benchmarks.harness.text.classifier import TextClassifier
from benchmarks.harness.text.data import TextBatches, TextData
from benchmarks.harness.text.encoders import RKMEncoder
from benchmarks.harness.text.model_config import READOUT, TextModelConfig, cell_of, variant_of
from benchmarks.harness.text.models import (
    DEFAULT_PARAMETERS,
    count_parameters,
    fit_hidden_size,
    has_model,
)
from benchmarks.harness.text.variants import FILES as VARIANT_FILES

SIZE_OPTIONS = "--hidden, --parameters, --layers, --embedding"


class TextTask(Task):
    """Classification of texts, measured by the accuracy in percent.

    Args:
        data: Texts in parts.
    """

    items = "texts"
    measure = Measure("accuracy", "accuracy", ".2f")
    packages = ("torch", "torch-geometric", "lightning", "numpy")
    files = ("table.md", "confusion.png", "learning_curves.png", *VARIANT_FILES)
    free_settings = ("root", "glove", "csv")

    def __init__(self, data: TextData) -> None:
        self.data = data
        self.choice = data.choice
        self.dataset, self.split = data.choice.dataset, data.corpus.split
        self.parts = data.corpus.parts

    def identity(self) -> dict[str, Any]:
        """The number of texts, and fingerprints of texts and word vectors."""
        return self.data.identity()

    def has_model(self, name: str) -> bool:
        """Whether it is one of ``models.MODELS`` or a recurrent kernel machine."""
        return has_model(name)

    def learner(self, model: TextModelConfig, optimizer: OptimizerConfig) -> TextClassifier:
        """An untrained classifier, with the word vectors."""
        words, classes = self.data.vocabulary.words[2:], list(self.data.corpus.classes)
        classifier = TextClassifier(asdict(model), words, classes, asdict(optimizer))
        if self.data.vectors is not None:
            classifier.set_word_vectors(self.data.vectors.vectors)
        return classifier

    def batches(self, learner: TextClassifier, batch_size: int, seed: int) -> TextBatches:
        """Texts of similar length together."""
        return TextBatches(self.data, batch_size, seed)

    def scores(self, predictions: Mapping[str, Tensor]) -> dict[str, float]:
        """The accuracy of each part in percent."""
        labels = self.data.corpus.labels
        return {
            part: 100 * (predictions[part] == labels[self.parts[part]]).double().mean().item()
            for part in PARTS
        }

    def details(self, model: TextModelConfig, learner: TextClassifier) -> dict[str, Any]:
        """For recurrent kernel machines, the cell, its sizes and the number of its weights.

        Where layers or decays are compared, those of this model.
        """
        encoder = learner.net.encoder
        if not isinstance(encoder, RKMEncoder):
            kind, num_layers, decay = variant_of(model.name)
            if num_layers is None and decay is None:
                return {}
            details = {"kind": kind, "layers": model.num_layers}
            return {**details, "decay": model.decay} if kind == "rcnn" else details
        cell, ngram = cell_of(model.name)
        return {
            "cell": cell,
            "ngram": ngram,
            "input_size": model.embedding_dim,
            "hidden_size": model.hidden,
            "cell_parameters": encoder.cell_parameters(),
        }

    def prediction_table(
        self, record: Mapping[str, Any], predictions: Mapping[str, Tensor]
    ) -> pandas.DataFrame:
        """A row for each text, with its place in the corpus, its class and the predicted one."""
        corpus = self.data.corpus
        frames = []
        for part in PARTS:
            places = self.parts[part].tolist()
            frame = {
                "model": record["model"],
                "seed": record["seed"],
                "part": part,
                "row": places,
                "text": [" ".join(corpus.texts[i]) for i in places],
                "label": [corpus.classes[corpus.labels[i]] for i in places],
                "predicted": [corpus.classes[k] for k in predictions[part].tolist()],
            }
            frames.append(pandas.DataFrame(frame))
        return pandas.concat(frames, ignore_index=True)


def text_model_configs(
    names: Iterable[str],
    data: TextData,
    hidden: int | None = None,
    num_layers: int = 2,
    dropout: float = 0.2,
    embedding_dim: int = 100,
    budget: int = DEFAULT_PARAMETERS,
    rcnn_hidden: int | None = None,
    readout: str | None = None,
    **options: Any,
) -> list[TextModelConfig]:
    """The configurations of some models for some texts.

    Args:
        names: Names of models.
        data: The texts.
        hidden (int, optional): Width; ``None``: the largest within `budget` parameters.
        num_layers (int): See :class:`TextModelConfig`.
        dropout (float): See :class:`TextModelConfig`.
        embedding_dim (int): Size of learned word vectors.
        budget (int): Number of parameters besides word vectors.
        rcnn_hidden (int, optional): In place of both: the width of an RCNN; others get the largest
            within as many parameters as an RCNN with an input-gated decay has.
        readout (str, optional): See :class:`TextModelConfig`; ``None``: that of :data:`READOUT`.
        **options: Further fields of :class:`TextModelConfig`.

    Raises:
        InputError: If no width of a model stays within `budget`, or it has too many.
    """
    vectors = None if data.vectors is None else data.vectors.vectors
    configs = []
    for name in names:
        kind, layers, decay = variant_of(name)
        config = TextModelConfig(
            name=name,
            num_words=len(data.vocabulary),
            embedding_dim=embedding_dim if vectors is None else vectors.size(1),
            fixed_embedding=vectors is not None and not data.choice.tune_vectors,
            num_classes=len(data.corpus.classes),
            hidden=hidden or 1,
            num_layers=layers or num_layers,
            dropout=dropout,
            readout=readout or READOUT.get(kind, "last"),
            **(options if decay is None else {**options, "decay": decay}),
        )
        with as_input_error():
            if rcnn_hidden:
                config = _as_large_as_rcnn(config, rcnn_hidden)
            elif not hidden:
                config = fit_hidden_size(config, budget)
            learned = 0 if config.fixed_embedding else config.num_words * config.embedding_dim
            number = count_parameters(config) + learned
            check_parameters(name, config.hidden, number, SIZE_OPTIONS)
        configs.append(config)
    return configs


def _as_large_as_rcnn(config: TextModelConfig, hidden: int) -> TextModelConfig:
    """An RCNN of this width, or another model with as many parameters as the input-gated one."""
    kind, _, _ = variant_of(config.name)
    if kind == "rcnn":
        return replace(config, hidden=hidden)
    rcnn = replace(config, name="rcnn", hidden=hidden, decay="input")
    return fit_hidden_size(config, count_parameters(rcnn))
