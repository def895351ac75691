"""Rationales as tasks of the harness: of texts and molecules, and of similar questions."""

from collections.abc import Mapping
from dataclasses import asdict, replace
from functools import partial
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from benchmarks.harness.errors import as_input_error
from benchmarks.harness.learner import OptimizerConfig
from benchmarks.harness.retrieval.data import (
    QuestionData,
    load_questions,
    question_batches,
    ranked_pairs,
)
from benchmarks.harness.retrieval.options import Questions
from benchmarks.harness.retrieval.report import describe
from benchmarks.harness.retrieval.task import RetrievalTask
from benchmarks.harness.sizes import check_parameters, count_parameters
from benchmarks.harness.task import PARTS, Batches, Task
from benchmarks.harness.text.data import text_batches
from benchmarks.harness.words import Words
from benchmarks.rationales.data import Items, load_items, word_sizes
from benchmarks.rationales.learner import READINGS, NumberGoal, RankingGoal, RationaleLearner
from benchmarks.rationales.networks import SELECTED, ModelConfig, SelectingNet, network
from benchmarks.rationales.options import (
    ATTENTION,
    QUESTIONS,
    READERS,
    SELECTING,
    SVM,
    TITLE,
    Rationales,
)
from benchmarks.rationales.selections import CURVE, precision, spans_text, top_share
from benchmarks.rationales.svm import SVMEstimator
from pyg_kernels.datasets.text import EncodedTexts

BODY = "body"
NEGATIVES = 20  # random questions for each similar one, drawn anew each epoch


class RationaleTask(Task):
    """Prediction from a part of the input."""

    about: str  # lines on the data
    longest: int  # words or atoms of the largest item
    fields: dict[str, Any]  # fields of configurations on inputs and outputs
    validation: dict[str, Any]  # arguments of learners: right answers and their evidence
    bodies = True  # whether questions have bodies
    words: Words | None  # of texts and questions

    def models(self, options: Rationales) -> list[ModelConfig]:
        chosen = options.chosen()
        common = {name: getattr(chosen, name) for name in ("hidden", "layers", "dropout")}
        selecting = {name: getattr(chosen, name) for name in ("estimator", "coherence", "samples")}
        selecting["warm_up"] = options.warm_up
        found = []
        for name, kind, rate in options.variants():
            reads = BODY if self.bodies and kind != TITLE else TITLE
            # Models that ignore these options are the same for all their values.
            own = dict(selecting) if kind in SELECTING else {}
            if kind not in READERS:
                own["rate"] = rate
            found.append(ModelConfig(name, kind, fields=reads, **common, **self.fields, **own))
        with as_input_error():
            for config in (each for each in found if each.kind != SVM):
                number = count_parameters(partial(network, config))
                flags = "--hidden, --layers, --embedding"
                check_parameters(config.name, config.hidden, number, flags)
        return found

    def learner(self, model: ModelConfig, optimizer: OptimizerConfig) -> RationaleLearner:
        words = [] if self.words is None else self.words.vocabulary.words[2:]
        given = {"optimizer": asdict(optimizer), "longest": self.longest, **self.validation}
        learner = RationaleLearner(asdict(model), words, **given)
        if self.words is not None and learner.net.embedding is not None:
            self.words.start(learner.net.embedding)
        return learner

    def details(self, model: ModelConfig, learner: RationaleLearner) -> dict[str, Any]:
        """The kind of a network, the share that it is to select, and the price of a word."""
        details: dict[str, Any] = {"kind": model.kind}
        if isinstance(learner.net, SelectingNet):
            details |= {name: getattr(model, name) for name in ("estimator", "rate", "coherence")}
            details["sparsity"] = learner.net.rationalizer.sparsity
        return details | ({"rate": model.rate} if model.kind == ATTENTION else {})


class ItemRationales(RationaleTask):
    """Prediction from some words or atoms; a run's measure is its error from these alone."""

    def __init__(self, data: Items) -> None:
        self.data, self.words = data, data.words
        self.dataset, self.split, self.parts = data.name, data.split, data.parts
        self.goal = data.goal()
        self.measure = self.goal.measure
        self.longest, self.about = int(data.lengths.max()), data.describe()
        self.fields = {"inputs": data.kind, "out": max(1, len(data.classes)), **data.sizes}
        if isinstance(self.goal, NumberGoal):
            self.fields |= {"mean": self.goal.mean, "std": self.goal.std}
        self.validation = {"right": data.right("valid"), "classes": list(data.classes)}
        self.validation["evidence"] = data.evidence_of("valid")

    def estimator(self, model: ModelConfig) -> SVMEstimator | None:
        return SVMEstimator(self.data, model.rate) if model.kind == SVM else None

    def batches(self, learner: RationaleLearner, batch_size: int, seed: int) -> Batches:
        return text_batches(self.parts, self.data.loader, batch_size, seed)

    def scores(self, predictions: Mapping[str, Tensor]) -> dict[str, float]:
        """The errors of each part: from rationales, from everything and from the rest.

        Then, in percent: shares and precisions of the valid and test parts, precisions only if
        evidence is known and something is selected; and, if words have scores, precisions of the
        test part at several shares.
        """
        found: dict[str, float | None] = {}
        for number, reading in enumerate(READINGS):
            for part in PARTS:
                error = self.goal.error(predictions[part][:, number], self.data.right(part))
                found[part if not number else f"{part}_{reading}"] = error
        for part in ("valid", "test"):
            chosen = self._scores_of(part, predictions[part]) >= SELECTED
            found[f"{part}_share"] = 100 * float(chosen.double().mean())
            found[f"{part}_precision"] = precision(chosen, *self.data.evidence_of(part))
        scores = self._scores_of("test", predictions["test"])
        if bool(((scores != 0) & (scores != 1)).any()):  # not mere selections
            ptr = F.pad(self.data.lengths[self.parts["test"]].cumsum(0), (1, 0))
            evidence = self.data.evidence_of("test")
            for key, share in CURVE.items():
                found[key] = precision(top_share(scores, share, ptr), *evidence)
        return {key: value for key, value in found.items() if value is not None}

    def rows(self, part: str, predictions: Tensor) -> dict[str, Any]:
        """For each item: the right answer, the answer from each reading, and the selection."""
        places, sizes = self.parts[part].tolist(), self.data.lengths[self.parts[part]].tolist()
        chosen = (self._scores_of(part, predictions) >= SELECTED).split(sizes)
        names = self.data.classes
        columns = [self.data.right(part).tolist(), *predictions[:, :3].t().tolist()]
        keys = ("y", "prediction", "full", "rest")
        if names:
            keys = ("label", "predicted", "full", "rest")
            columns = [[names[int(k)] for k in column] for column in columns]
        return {
            "row": places,
            "text": [self.data.lines[place] for place in places],
            **dict(zip(keys, columns, strict=True)),
            "selection": list(map(spans_text, chosen)),
        }

    def _scores_of(self, part: str, predictions: Tensor) -> Tensor:
        """The scores of all items of a part, one item after the other, ``(N,)``."""
        lengths = self.data.lengths[self.parts[part]]
        return predictions[:, len(READINGS) :][torch.arange(self.longest) < lengths.unsqueeze(1)]


class RankingRationales(RationaleTask):
    """The ranking of candidates by some words of each question, measured by MAP in percent.

    Words are selected from the body, or from the title if questions have no bodies.
    """

    measure = RankingGoal.measure

    def __init__(self, data: QuestionData, options: Rationales) -> None:
        self.data = self.words = data
        self.ranking, self.bodies = RetrievalTask(data), data.has_bodies()
        self.dataset, self.split = self.ranking.dataset, self.ranking.split
        self.parts, self.relevance = self.ranking.parts, self.ranking.relevance
        self.longest, self.about = int(data.texts.lengths.max()), describe(data)
        self.validation = {"right": self.relevance["valid"], "classes": []}
        words = word_sizes(data, options)
        self.fields = {"inputs": "questions", "out": options.chosen().hidden, **words}

    def batches(self, learner: RationaleLearner, batch_size: int, seed: int) -> Batches:
        """Similar questions with random others, and candidates to rank, in the field to read."""
        data = self.data
        if learner.net.config.fields == BODY:  # bodies stand where titles do
            number = len(data.corpus)
            swapped = data.texts.batch(torch.arange(2 * number).roll(number))
            data = replace(data, texts=EncodedTexts(*swapped))
        return question_batches(data, TITLE, NEGATIVES, batch_size, seed)

    def scores(self, predictions: Mapping[str, Tensor]) -> dict[str, float]:
        """MAP of each part; for the parts to rank, also the other measures and the word share."""
        cosines = {part: found[:, 0] for part, found in predictions.items()}
        shares = {f"{p}_share": 100 * self._share(p, predictions[p]) for p in ("valid", "test")}
        return self.ranking.scores(cosines, self.measure.key) | shares

    def details(self, model: ModelConfig, learner: RationaleLearner) -> dict[str, Any]:
        return {"fields": model.fields, **super().details(model, learner)}

    def rows(self, part: str, predictions: Tensor) -> dict[str, Any]:
        """For each pair: whether it is similar, its cosine, and the selections of both texts."""
        chosen = predictions[:, 1:] >= SELECTED
        return {
            **self.ranking.rows(part, predictions[:, 0]),
            "query_selection": list(map(spans_text, chosen[:, : self.longest])),
            "candidate_selection": list(map(spans_text, chosen[:, self.longest :])),
        }

    def _share(self, part: str, predictions: Tensor) -> float:
        """The selected share of all words in titles and bodies of a part's questions."""
        questions = ranked_pairs(self.data.rankings[part]).flatten()
        sizes = (predictions[:, 1:] >= SELECTED).view(len(questions), -1).sum(dim=1)
        distinct, inverse = questions.unique(return_inverse=True)
        # A question is read in the same way in every pair.
        selected = torch.zeros(len(distinct), dtype=torch.long)
        selected[inverse] = sizes
        lengths = self.data.texts.lengths
        words = lengths[distinct] + lengths[distinct + len(self.data.corpus)]
        return float(selected.sum() / words.sum())


def task_of(options: Rationales) -> ItemRationales | RankingRationales:
    """Reads the requested data; returns their task."""
    if options.dataset not in QUESTIONS:
        return ItemRationales(load_items(options))
    same = {name: getattr(options, name) for name in ("data", "vectors", "split_seed", "leave_out")}
    questions = Questions(root=options.folder, **same)
    return RankingRationales(load_questions(questions), options)
