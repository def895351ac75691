"""Rationales as tasks of the harness: of texts and molecules, and of similar questions."""

from collections.abc import Mapping
from dataclasses import asdict, replace
from typing import Any

import pandas
import torch
from torch import Tensor

from benchmarks.harness.errors import as_input_error
from benchmarks.harness.estimator import Estimator
from benchmarks.harness.learner import OptimizerConfig
from benchmarks.harness.retrieval.batches import QuestionBatches, ranked_pairs
from benchmarks.harness.retrieval.data import QuestionChoice, QuestionData, load_questions
from benchmarks.harness.retrieval.metrics import METRICS, evaluate
from benchmarks.harness.retrieval.report import describe
from benchmarks.harness.retrieval.task import RetrievalTask
from benchmarks.harness.sizes import check_parameters, count_parameters
from benchmarks.harness.task import PARTS, Task
from benchmarks.rationales.data import EMBEDDING, Batches, Items, load_items
from benchmarks.rationales.goals import RankingGoal, goal_for
from benchmarks.rationales.learner import READINGS, RationaleLearner
from benchmarks.rationales.networks import SELECTED, ModelConfig, SelectingNet, network
from benchmarks.rationales.options import ATTENTION, QUESTIONS, SVM, TITLE, Rationales
from benchmarks.rationales.selections import precision, spans_text, top_share
from benchmarks.rationales.svm import SVMEstimator
from pyg_kernels.datasets.text import EncodedTexts

BODY = "body"
NEGATIVES = 20  # random questions for each similar one, drawn anew each epoch
# Shares at which the precision of scored words is measured.
CURVE = {f"precision@{share:g}": share for share in (0.02, 0.05, 0.1, 0.15, 0.2, 0.3, 0.4)}


class RationaleTask(Task):
    """Prediction from a part of what there is to read.

    Attributes:
        longest (int): Words or atoms of the largest item.
        vocabulary: Of texts, what its words are; none of molecules.
        vectors: Their word vectors, if they are fixed.
        about (str): Lines on the data.
    """

    items = "rationales"
    longest: int
    vocabulary: Any = None
    vectors: Any = None
    about: str

    def models(self, options: Rationales) -> list[ModelConfig]:
        """The configuration of each model.

        Raises:
            InputError: If it has too many parameters.
        """
        chosen = options.chosen()
        names = ("hidden", "layers", "dropout", "estimator", "coherence", "samples")
        common = {name: getattr(chosen, name) for name in names} | {"warm_up": options.warm_up}
        found = []
        for name, kind, rate in options.variants():
            fields = common | self.inputs(kind, options)
            config = ModelConfig(name=name, kind=kind, rate=rate, **fields)
            if kind != SVM:
                with as_input_error():
                    number = count_parameters(lambda config=config: network(config))  # type: ignore[misc]
                    flags = "--hidden, --layers, --embedding"
                    check_parameters(name, config.hidden, number, flags)
            found.append(config)
        return found

    def inputs(self, kind: str, options: Rationales) -> dict[str, Any]:
        """The fields of a configuration on what is read and predicted."""
        raise NotImplementedError

    def has_model(self, name: str) -> bool:
        """Whatever it is called."""
        return True

    def has_unused_parameters(self, model: ModelConfig) -> bool:
        """Those of the generator, while the encoder reads everything."""
        return model.selects and model.warm_up > 0

    def learner(self, model: ModelConfig, optimizer: OptimizerConfig) -> RationaleLearner:
        """An untrained network, with the word vectors."""
        learner = RationaleLearner(
            asdict(model),
            [] if self.vocabulary is None else self.vocabulary.words[2:],
            optimizer=asdict(optimizer),
            longest=self.longest,
            **self.validation(),
        )
        if self.vectors is not None:
            learner.net.set_word_vectors(self.vectors.vectors)
        return learner

    def validation(self) -> dict[str, Any]:
        """The arguments of a learner on what is right, and what says it."""
        raise NotImplementedError

    def details(self, model: ModelConfig, learner: RationaleLearner) -> dict[str, Any]:
        """What a network is, and how much it selects for what price."""
        details: dict[str, Any] = {"kind": model.kind}
        if isinstance(learner.net, SelectingNet):
            details |= {name: getattr(model, name) for name in ("estimator", "rate", "coherence")}
            details["sparsity"] = learner.net.rationalizer.sparsity
        if model.kind == ATTENTION:
            details["rate"] = model.rate
        return details


class ItemRationales(RationaleTask):
    """Prediction from some words or atoms; a run's measure is its error from these alone.

    Args:
        data: Texts or molecules.
    """

    def __init__(self, data: Items) -> None:
        self.data = data
        self.dataset, self.split, self.parts = data.name, data.split, data.parts
        self.goal = goal_for(len(data.classes), data.right("train"))
        self.measure = self.goal.measure
        self.longest, self.about = int(data.lengths.max()), data.describe()
        self.vocabulary, self.vectors = data.vocabulary, data.vectors

    def identity(self) -> dict[str, Any]:
        """The number of texts or molecules, and fingerprints of all that is learned from."""
        return self.data.identity

    def inputs(self, kind: str, options: Rationales) -> dict[str, Any]:
        """Those of all models."""
        return self.data.config()

    def validation(self) -> dict[str, Any]:
        """Classes or numbers, and evidence where some is known."""
        part = self.data.annotated_part()
        evidence = None if part is None else self.data.evidence_of(part)
        classes = list(self.data.classes)
        return {"right": self.data.right("valid"), "evidence": evidence, "classes": classes}

    def estimator(self, model: ModelConfig) -> Estimator | None:
        """The SVM of a configuration, ``None`` if it is a network."""
        return SVMEstimator(self.data, model.rate, CURVE) if model.kind == SVM else None

    def batches(self, learner: RationaleLearner, batch_size: int, seed: int) -> Batches:
        """Texts or molecules in an order of each epoch."""
        return Batches(self.data, batch_size, seed)

    def scores(self, predictions: Mapping[str, Tensor]) -> dict[str, float]:
        """The errors of each part: from rationales, from all there is and from the rest.

        Then, in percent, shares and precisions of valid and test parts, where evidence is known and
        something is selected, and the precision of the test part at several shares, where words
        have scores.
        """
        found = {}
        for number, reading in enumerate(READINGS):
            for part in PARTS:
                error = self.goal.error(predictions[part][:, number], self.data.right(part))
                found[part if not number else f"{part}_{reading}"] = error
        for part in ("valid", "test"):
            chosen = self.selection(part, predictions[part])
            found[f"{part}_share"] = 100 * float(chosen.double().mean())
            if self.data.num_annotated(part):
                found[f"{part}_annotated"] = self.data.num_annotated(part)
                known = {f"{part}_precision": precision(chosen, *self.data.evidence_of(part))}
                found |= {key: value for key, value in known.items() if value is not None}
        return found | self._curve(predictions["test"])

    def prediction_table(
        self, record: Mapping[str, Any], predictions: Mapping[str, Tensor]
    ) -> pandas.DataFrame:
        """A row for each item: what is right, what is said from what, and what is selected."""
        frames = []
        for part in PARTS:
            places, found = self.parts[part].tolist(), predictions[part]
            sizes = self.data.lengths[self.parts[part]].tolist()
            frame = {
                "model": record["model"],
                "seed": record["seed"],
                "part": part,
                "row": places,
                "text": [self.data.lines[place] for place in places],
                **self._answers(part, found),
                "selection": list(map(spans_text, self.selection(part, found).split(sizes))),
            }
            frames.append(pandas.DataFrame(frame))
        return pandas.concat(frames, ignore_index=True)

    def selection(self, part: str, predictions: Tensor) -> Tensor:
        """What is selected of all items of a part, one after the other, ``(N,)`` bool."""
        return self._scores_of(part, predictions) >= SELECTED

    def _scores_of(self, part: str, predictions: Tensor) -> Tensor:
        lengths = self.data.lengths[self.parts[part]]
        return predictions[:, len(READINGS) :][torch.arange(self.longest) < lengths.unsqueeze(1)]

    def _curve(self, predictions: Tensor) -> dict[str, float]:
        """The precision at several shares, where what is predicted are not mere selections."""
        scores, lengths = self._scores_of("test", predictions), self.data.lengths
        if bool(((scores == 0) | (scores == 1)).all()) or not self.data.num_annotated("test"):
            return {}
        ptr = torch.cat([torch.zeros(1).long(), lengths[self.parts["test"]].cumsum(0)])
        evidence = self.data.evidence_of("test")
        found = {k: precision(top_share(scores, s, ptr), *evidence) for k, s in CURVE.items()}
        return {key: value for key, value in found.items() if value is not None}

    def _answers(self, part: str, predictions: Tensor) -> dict[str, list[Any]]:
        """The columns of what is right, and what is said from rationale, all and the rest."""
        right = self.data.right(part).tolist()
        rationale, full, rest = (column.tolist() for column in predictions[:, :3].t())
        names = self.data.classes
        if not names:
            return {"y": right, "prediction": rationale, "full": full, "rest": rest}
        columns = {"label": right, "predicted": rationale, "full": full, "rest": rest}
        return {key: [names[int(k)] for k in column] for key, column in columns.items()}


class RankingRationales(RationaleTask):
    """The ranking of candidates by some words of each question, measured by MAP in percent.

    Args:
        data: Questions and candidates.
    """

    measure = RankingGoal.measure

    def __init__(self, data: QuestionData) -> None:
        self.data, self.ranking = data, RetrievalTask(data)
        self.dataset, self.split = self.ranking.dataset, self.ranking.split
        self.parts, self.relevance = self.ranking.parts, self.ranking.relevance
        self.longest, self.about = int(data.texts.lengths.max()), describe(data)
        self.vocabulary, self.vectors = data.vocabulary, data.vectors

    def identity(self) -> dict[str, Any]:
        """The number of questions, and fingerprints of questions and word vectors."""
        return self.data.identity()

    def inputs(self, kind: str, options: Rationales) -> dict[str, Any]:
        """Words are selected from the body, or from the title where questions have no bodies."""
        size = options.embedding or EMBEDDING
        size = size if self.vectors is None else self.vectors.vectors.size(1)
        return {
            "inputs": "questions",
            "input_size": size,
            "out": options.chosen().hidden,
            "num_words": len(self.vocabulary),
            "fixed_embedding": self.vectors is not None,
            "fields": BODY if kind != TITLE and self.data.has_bodies() else TITLE,
        }

    def validation(self) -> dict[str, Any]:
        """Which candidates are similar."""
        return {"right": self.relevance["valid"], "classes": []}

    def batches(self, learner: RationaleLearner, batch_size: int, seed: int) -> QuestionBatches:
        """Similar questions with random others, and candidates to rank, of what is read alone."""
        texts = read_texts(self.data, learner.net.config.fields)
        return QuestionBatches(replace(self.data, texts=texts), TITLE, NEGATIVES, batch_size, seed)

    def scores(self, predictions: Mapping[str, Tensor]) -> dict[str, float]:
        """MAP of each part; the other measures and the share of words of those to rank."""
        found: dict[str, float] = {}
        others: dict[str, float] = {}
        for part in PARTS:
            lists = self.ranking.rankings(part, predictions[part][:, 0])
            measures = evaluate(lists, self.relevance[part])
            found[part] = measures.pop("MAP")
            if part != "train":
                others |= {f"{part}_{key}": measures[key] for key in METRICS if key != "MAP"}
                others[f"{part}_share"] = 100 * self._share(part, predictions[part])
        return found | others

    def details(self, model: ModelConfig, learner: RationaleLearner) -> dict[str, Any]:
        """The same, and what is read."""
        details = super().details(model, learner)
        return {"kind": details.pop("kind"), "fields": model.fields, **details}

    def prediction_table(
        self, record: Mapping[str, Any], predictions: Mapping[str, Tensor]
    ) -> pandas.DataFrame:
        """A row for each pair: whether it is similar, the cosine, and what is selected of both."""
        cosines = {part: predictions[part][:, 0] for part in PARTS}
        table = self.ranking.prediction_table(record, cosines)
        chosen = torch.cat([predictions[part][:, 1:] >= SELECTED for part in PARTS])
        both = {"query": chosen[:, : self.longest], "candidate": chosen[:, self.longest :]}
        for name, rows in both.items():
            table[f"{name}_selection"] = list(map(spans_text, rows))
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
    swapped = data.texts.batch(torch.arange(2 * number).roll(number))
    return EncodedTexts(swapped.ids, swapped.ptr, swapped.y)


def task_of(options: Rationales) -> ItemRationales | RankingRationales:
    """The task of the data that are asked for.

    Raises:
        InputError: If they cannot be read.
    """
    if options.dataset not in QUESTIONS:
        return ItemRationales(load_items(options))
    choice = QuestionChoice(
        dataset=options.dataset,
        root=options.folder,
        vectors=options.vectors,
        split_seed=options.split_seed,
    )
    return RankingRationales(load_questions(choice))
