"""The ranking of similar questions as a task of the harness."""

from collections.abc import Iterable, Mapping
from dataclasses import asdict, replace
from itertools import product
from pathlib import Path
from typing import Any

import pandas
import torch
from torch import Tensor

from benchmarks.harness.checkpoint import UNREADABLE, lost_checkpoint
from benchmarks.harness.errors import InputError, as_input_error
from benchmarks.harness.learner import OptimizerConfig
from benchmarks.harness.old_experiment import RUNS
from benchmarks.harness.retrieval.batches import QuestionBatches
from benchmarks.harness.retrieval.data import QuestionData
from benchmarks.harness.retrieval.learner import QuestionRanker
from benchmarks.harness.retrieval.metrics import METRICS, evaluate
from benchmarks.harness.retrieval.models import (
    QuestionModelConfig,
    encoder_parameters,
    fit_hidden_size,
    is_model_name,
    model_name,
    set_word_vectors,
)
from benchmarks.harness.sizes import check_parameters
from benchmarks.harness.task import PARTS, Measure, Task
from benchmarks.harness.training import BEST

DEFAULT_PARAMETERS = 401_000  # thesis Table 2.8: a width of 400 with word vectors of 200 numbers
QUESTION = "net.question."  # of the names of weights in a checkpoint of pre-training
# Thesis Table 2.9.
POOLING = {"rcnn": "last", "rcnn-scalar": "last", "lstm": "mean", "gru": "last", "cnn": "mean"}


class RetrievalTask(Task):
    """The ranking of candidates for questions, measured by the mean reciprocal rank in percent.

    Args:
        data: Questions and candidates.
        pretraining (Path, optional): The results folder of pre-training, where some networks start
            from it.
    """

    items = "questions"
    measure = Measure("MRR", "MRR", ".1f", higher_is_better=True)
    packages = ("torch", "torch-geometric", "lightning", "torchmetrics", "scikit-learn", "numpy")
    files = (
        *("table.md", "baselines.json", "learning_curves.png", "pretraining.png"),
        *("gates_by_position.png", "gates_by_word.png"),
    )
    free_settings = ("root", "vectors")

    def __init__(self, data: QuestionData, pretraining: Path | None = None) -> None:
        self.data, self.pretraining = data, pretraining
        self.choice = data.choice
        self.dataset, self.split = data.choice.dataset, data.corpus.split
        self.relevance = {
            part: [torch.tensor(ranking.relevant) for ranking in data.rankings[part]]
            for part in PARTS
        }
        self.parts = {part: torch.arange(sum(map(len, self.relevance[part]))) for part in PARTS}

    def identity(self) -> dict[str, Any]:
        """The number of questions, and fingerprints of questions and word vectors."""
        return self.data.identity()

    def has_model(self, name: str) -> bool:
        """Whether a network can be called so."""
        return is_model_name(name)

    def learner(self, model: QuestionModelConfig, optimizer: OptimizerConfig) -> QuestionRanker:
        """An untrained network, with the word vectors."""
        words = self.data.vocabulary.words[2:]
        ranker = QuestionRanker(asdict(model), words, asdict(optimizer), self.relevance["valid"])
        if self.data.vectors is not None:
            set_word_vectors(ranker.net.embedding, self.data.vectors.vectors)
        return ranker

    def start_from(self, learner: QuestionRanker, model: QuestionModelConfig, seed: int) -> None:
        """Gives a network the encoder of its pre-training with the same seed.

        Raises:
            InputError: If its checkpoint is missing or damaged.
        """
        if not model.pretrained:
            return
        assert self.pretraining is not None
        path = self.pretraining / RUNS / f"{model.encoder}-seed{seed}" / BEST
        try:
            checkpoint = torch.load(path, map_location="cpu", weights_only=True)
            weights = checkpoint["state_dict"]
            own = {
                name.removeprefix(QUESTION): weight
                for name, weight in weights.items()
                if name.startswith(QUESTION)
            }
            learner.net.load_state_dict(own)
        except UNREADABLE as error:
            raise InputError(lost_checkpoint(path)) from error

    def batches(self, learner: QuestionRanker, batch_size: int, seed: int) -> QuestionBatches:
        """Similar questions with random others, and candidates to rank."""
        config = learner.net.config
        return QuestionBatches(self.data, config.fields, config.num_negatives, batch_size, seed)

    def rankings(self, part: str, scores: Tensor) -> list[Tensor]:
        """The scores of a part's pairs, ``(P,)``, list by list."""
        return list(scores.split([len(relevant) for relevant in self.relevance[part]]))

    def scores(self, predictions: Mapping[str, Tensor]) -> dict[str, float]:
        """The mean reciprocal rank of each part, and all other measures of those to rank."""
        found = {
            part: evaluate(self.rankings(part, predictions[part]), self.relevance[part])
            for part in PARTS
        }
        others = {
            f"{part}_{key}": found[part][key]
            for part in ("valid", "test")
            for key in METRICS
            if key != "MRR"
        }
        return {part: found[part]["MRR"] for part in PARTS} | others

    def details(self, model: QuestionModelConfig, learner: QuestionRanker) -> dict[str, Any]:
        """What a network is, and the number of its encoder's parameters."""
        return {
            "encoder": model.encoder,
            "pretrained": model.pretrained,
            "pooling": model.pooling,
            "fields": model.fields,
            "hidden_size": model.hidden,
            "encoder_parameters": encoder_parameters(model),
        }

    def prediction_table(
        self, record: Mapping[str, Any], predictions: Mapping[str, Tensor]
    ) -> pandas.DataFrame:
        """A row for each pair of a query and a candidate, whether it is similar and the cosine."""
        questions = self.data.corpus.questions
        frames = []
        for part in PARTS:
            rankings = self.data.rankings[part]
            frame = {
                "model": record["model"],
                "seed": record["seed"],
                "part": part,
                "query": [questions[r.query].id for r in rankings for _ in r.candidates],
                "candidate": [questions[place].id for r in rankings for place in r.candidates],
                "relevant": [int(relevant) for r in rankings for relevant in r.relevant],
                "score": predictions[part].tolist(),
            }
            frames.append(pandas.DataFrame(frame))
        return pandas.concat(frames, ignore_index=True)


def question_model_configs(
    encoders: Iterable[str],
    data: QuestionData,
    pretrained: Iterable[bool] = (False,),
    poolings: Iterable[str] = (),
    fields: Iterable[str] = ("title+body",),
    hidden: int | None = None,
    budget: int = DEFAULT_PARAMETERS,
    embedding_dim: int = 100,
    **options: Any,
) -> list[QuestionModelConfig]:
    """The configurations of some networks for some questions.

    Args:
        encoders: Keys of ``encoders.ENCODERS``.
        data: The questions.
        pretrained: Whether encoders are pre-trained; both for a network of each kind.
        poolings: How states are pooled; none for that of thesis Table 2.9, :data:`POOLING`.
        fields: What is read.
        hidden (int, optional): Width; ``None``: the largest within `budget` parameters.
        budget (int): Number of parameters of an encoder, without word vectors.
        embedding_dim (int): Size of learned word vectors.
        options: Further fields of :class:`QuestionModelConfig`.

    Raises:
        InputError: If no width of an encoder stays within `budget`, or it has too many.
    """
    vectors = None if data.vectors is None else data.vectors.vectors
    poolings, fields, pretrained = list(poolings), list(fields), list(pretrained)
    configs = []
    for encoder in encoders:
        config = QuestionModelConfig(
            name=encoder,
            encoder=encoder,
            pooling=POOLING[encoder],
            fields="title",
            pretrained=False,
            num_words=len(data.vocabulary),
            embedding_dim=embedding_dim if vectors is None else vectors.size(1),
            fixed_embedding=vectors is not None and not data.choice.tune_vectors,
            hidden=hidden or 1,
            **options,
        )
        with as_input_error():
            config = config if hidden else fit_hidden_size(config, budget)
            learned = 0 if config.fixed_embedding else config.num_words * config.embedding_dim
            number = encoder_parameters(config) + learned
            check_parameters(encoder, config.hidden, number, "--hidden, --parameters, --embedding")
        for pt, pooling, field in product(pretrained, poolings or [config.pooling], fields):
            name = model_name(encoder, pt, pooling, field)
            configs.append(replace(config, name=name, pretrained=pt, pooling=pooling, fields=field))
    return configs


def pretraining_configs(models: Iterable[QuestionModelConfig]) -> list[QuestionModelConfig]:
    """One configuration for the pre-training of each encoder that needs it, named after it."""
    configs = {
        model.encoder: replace(
            model,
            name=model.encoder,
            pretrained=False,
            pooling="mean" if model.encoder == "cnn" else "last",
            fields="title",
        )
        for model in models
        if model.pretrained
    }
    return list(configs.values())
