"""The ranking of similar questions by some words of each as a task of the harness."""

from collections.abc import Mapping
from dataclasses import asdict, replace
from typing import Any, ClassVar, cast

import pandas
import torch
from torch import Tensor

from benchmarks.harness.errors import as_input_error
from benchmarks.harness.learner import OptimizerConfig
from benchmarks.harness.rationale.model_config import RationaleModelConfig, is_model_name
from benchmarks.harness.rationale.names import TITLE
from benchmarks.harness.rationale.networks import RationaleNet
from benchmarks.harness.rationale.ranking_learner import RationaleRanker
from benchmarks.harness.rationale.readers import SELECTED, RationaleReader
from benchmarks.harness.rationale.spans import spans_text
from benchmarks.harness.retrieval.batches import QuestionBatches, ranked_pairs
from benchmarks.harness.retrieval.data import QuestionData, load_questions
from benchmarks.harness.retrieval.metrics import METRICS, evaluate
from benchmarks.harness.retrieval.options import Questions
from benchmarks.harness.retrieval.task import RetrievalTask
from benchmarks.harness.sizes import check_parameters, count_parameters
from benchmarks.harness.task import PARTS, Measure
from pyg_kernels.datasets.text import EncodedTexts

BODY = "body"


class RankingRationales(RetrievalTask):
    """The ranking of candidates by some words of each question, measured by MAP in percent.

    Args:
        data: Questions and candidates.
    """

    items = "questions"
    measure = Measure("MAP", "MAP", ".1f", higher_is_better=True)
    packages = ("torch", "torch-geometric", "lightning", "torchmetrics", "numpy")
    free_settings = ("data", "root", "vectors")
    files: ClassVar[tuple[str, ...]] = (
        *("table.md", "rationales.html", "learning_curves.png", "error_by_share.png"),
    )

    def __init__(self, data: QuestionData) -> None:
        super().__init__(data)
        self.choice = data.choice
        self.longest = int(data.texts.lengths.max())

    def has_model(self, name: str) -> bool:
        """Whether a model can be called so."""
        return is_model_name(name)

    def has_unused_parameters(self, model: RationaleModelConfig) -> bool:
        """Those of the generator, while the encoder reads everything."""
        return model.selects and model.warm_up > 0

    def learner(  # type: ignore[override]
        self, model: RationaleModelConfig, optimizer: OptimizerConfig
    ) -> RationaleRanker:
        """An untrained network, with the word vectors."""
        words = self.data.vocabulary.words[2:]
        ranker = RationaleRanker(
            asdict(model), words, asdict(optimizer), self.relevance["valid"], self.longest
        )
        if self.data.vectors is not None:
            ranker.net.set_word_vectors(self.data.vectors.vectors)
        return ranker

    def start_from(self, learner: Any, model: Any, seed: int) -> None:
        """Nothing: networks are not pre-trained."""

    def batches(self, learner: Any, batch_size: int, seed: int) -> QuestionBatches:
        """Similar questions with random others, and candidates to rank, of what is read alone."""
        config: RationaleModelConfig = learner.net.config
        data = replace(self.data, texts=read_texts(self.data, config.fields))
        return QuestionBatches(data, "title", config.num_negatives, batch_size, seed)

    def scores(self, predictions: Mapping[str, Tensor]) -> dict[str, float]:
        """MAP of each part; the other measures and the share of words of those to rank."""
        found: dict[str, float] = {}
        others: dict[str, float] = {}
        for part in PARTS:
            lists = self.rankings(part, predictions[part][:, 0])
            measures = evaluate(lists, self.relevance[part])
            found[part] = measures.pop("MAP")
            if part != "train":
                others |= {f"{part}_{key}": measures[key] for key in METRICS if key != "MAP"}
                others[f"{part}_share"] = 100 * self._share(part, predictions[part])
        return found | others

    def details(self, model: Any, learner: Any) -> dict[str, Any]:
        """What a network is, and how much it selects for what price."""
        details: dict[str, Any] = {"kind": model.kind, "fields": model.fields}
        reader = learner.net.reader
        if isinstance(reader, RationaleReader):
            details |= {name: getattr(model, name) for name in ("estimator", "rate", "coherence")}
            details["sparsity"] = reader.rationalizer.sparsity
        return details

    def prediction_table(
        self, record: Mapping[str, Any], predictions: Mapping[str, Tensor]
    ) -> pandas.DataFrame:
        """A row for each pair: whether it is similar, the cosine, and what is selected of both."""
        table = super().prediction_table(record, {part: predictions[part][:, 0] for part in PARTS})
        chosen = torch.cat([predictions[part][:, 1:] >= SELECTED for part in PARTS])
        both = {"query": chosen[:, : self.longest], "candidate": chosen[:, self.longest :]}
        for name, rows in both.items():
            table[f"{name}_selection"] = [spans_text(row) for row in rows]
        return table

    def _share(self, part: str, predictions: Tensor) -> float:
        """Of the words of titles and bodies of all questions of a part, those selected."""
        questions = ranked_pairs(self.data.rankings[part]).flatten()
        sizes = (predictions[:, 1:] >= SELECTED).view(len(questions), -1).sum(dim=1)
        distinct, inverse = questions.unique(return_inverse=True)
        # A question is read alike wherever it stands.
        selected = torch.zeros(len(distinct), dtype=torch.long)
        selected[inverse] = sizes
        lengths = self.data.texts.lengths
        words = lengths[distinct] + lengths[distinct + len(self.data.corpus)]
        return float(selected.sum() / words.sum())


def read_texts(data: QuestionData, fields: str) -> EncodedTexts:
    """The texts with what is read first: titles and bodies, or bodies and titles."""
    if fields == TITLE:
        return data.texts
    number = len(data.corpus)
    order = torch.arange(2 * number).roll(number)
    swapped = data.texts.batch(order)
    return EncodedTexts(swapped.ids, swapped.ptr, swapped.y)


def load_ranked(choice: Mapping[str, Any]) -> QuestionData:
    """The questions of a data set.

    Args:
        choice: ``dataset``, ``root``, ``glove`` and ``split_seed``; further keys have no effect.

    Raises:
        InputError: If a file is missing or cannot be read.
    """
    return load_questions(
        Questions(
            data=(choice["dataset"],),
            root=choice["root"],
            vectors=choice["glove"],
            split_seed=choice["split_seed"],
        )
    )


def ranking_config(
    data: QuestionData, name: str, kind: str, embedding_dim: int, **options: Any
) -> RationaleModelConfig:
    """The configuration of a network for some questions.

    Words are selected from the body, or from the title where questions have no bodies.

    Args:
        data: The questions.
        name (str): Of the model.
        kind (str): One of ``names.MODELS``.
        embedding_dim (int): Size of learned word vectors.
        options: Further fields of :class:`RationaleModelConfig`.

    Raises:
        InputError: If it has too many parameters.
    """
    vectors = None if data.vectors is None else data.vectors.vectors
    config = RationaleModelConfig(
        name=name,
        kind=kind,
        inputs="questions",
        input_size=embedding_dim if vectors is None else vectors.size(1),
        out=cast(int, options["hidden"]),
        num_words=len(data.vocabulary),
        fixed_embedding=vectors is not None,
        fields=BODY if kind != TITLE and data.has_bodies() else TITLE,
        **options,
    )
    with as_input_error():
        number = count_parameters(lambda: RationaleNet(config))
        check_parameters(name, config.hidden, number, "--hidden, --layers, --embedding")
    return config
