"""Rationales of texts and molecules as a task of the harness."""

from collections.abc import Mapping
from dataclasses import asdict
from typing import Any, ClassVar

import pandas
import torch
from torch import Tensor

from benchmarks.harness.errors import as_input_error
from benchmarks.harness.estimator import Estimator
from benchmarks.harness.learner import OptimizerConfig
from benchmarks.harness.rationale.goals import Goal, NumberGoal, goal_for
from benchmarks.harness.rationale.items import Batches, Items
from benchmarks.harness.rationale.learner import READINGS, RationaleLearner
from benchmarks.harness.rationale.measures import measured, top_share
from benchmarks.harness.rationale.model_config import RationaleModelConfig, is_model_name
from benchmarks.harness.rationale.names import ATTENTION, SVM
from benchmarks.harness.rationale.networks import RationaleNet
from benchmarks.harness.rationale.readers import SELECTED, RationaleReader
from benchmarks.harness.rationale.spans import spans_text
from benchmarks.harness.rationale.svm import SVMEstimator, curve_key
from benchmarks.harness.rationale.texts import TextItems
from benchmarks.harness.sizes import check_parameters, count_parameters
from benchmarks.harness.task import PARTS, Task

CURVE = (0.02, 0.05, 0.1, 0.15, 0.2, 0.3, 0.4)  # shares at which scored words are measured


class RationaleTask(Task):
    """Prediction from a part of each text or molecule.

    The measure of a run is the error of what it says from its rationale alone.

    Args:
        data: Texts or molecules.
    """

    packages: ClassVar[tuple[str, ...]] = (
        "torch",
        "torch-geometric",
        "lightning",
        "scikit-learn",
        "numpy",
    )
    files = (
        *("table.md", "rationales.html", "rationales.png", "learning_curves.png"),
        *("precision_by_share.png", "error_by_share.png"),
    )
    free_settings = ("root", "glove")
    data: Items

    def __init__(self, data: Items) -> None:
        self.data = data
        self.choice = data.choice
        self.dataset, self.split = data.choice.dataset, data.split
        self.parts = data.parts
        self.goal: Goal = goal_for(len(data.classes), data.y[data.parts["train"]])
        self.measure = self.goal.measure
        self.longest = int(data.lengths.max())

    def identity(self) -> dict[str, Any]:
        """The number of texts or molecules, and fingerprints of all that is learned from."""
        return self.data.identity()

    def has_model(self, name: str) -> bool:
        """Whether a model can be called so."""
        return is_model_name(name)

    def has_unused_parameters(self, model: RationaleModelConfig) -> bool:
        """Those of the generator, while the encoder reads everything."""
        return model.selects and model.warm_up > 0

    def words(self) -> list[str]:
        """The vocabulary without padding and unknown word; none where there are no words."""
        return []

    def learner(self, model: RationaleModelConfig, optimizer: OptimizerConfig) -> RationaleLearner:
        """An untrained network."""
        part = self.data.annotated_part()
        return RationaleLearner(
            asdict(model),
            self.words(),
            list(self.data.classes),
            asdict(optimizer),
            self.longest,
            None if part is None else self.data.evidence_of(part),
        )

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
                y = self.data.y[self.parts[part]]
                error = self.goal.error(predictions[part][:, number], y)
                found[part if not number else f"{part}_{reading}"] = error
        for part in ("valid", "test"):
            chosen = self.selection(part, predictions[part])
            found[f"{part}_share"] = 100 * float(chosen.double().mean())
            precision = self._precision(part, chosen)
            found |= {} if precision is None else {f"{part}_precision": precision}
        return found | self._curve(predictions["test"])

    def details(self, model: RationaleModelConfig, learner: RationaleLearner) -> dict[str, Any]:
        """What a network is, and how much it selects for what price."""
        details: dict[str, Any] = {"kind": model.kind}
        if isinstance(learner.net.reader, RationaleReader):
            details |= {name: getattr(model, name) for name in ("estimator", "rate", "coherence")}
            details["sparsity"] = learner.net.reader.rationalizer.sparsity
        if model.kind == ATTENTION:
            details["rate"] = model.share
        return details

    def prediction_table(
        self, record: Mapping[str, Any], predictions: Mapping[str, Tensor]
    ) -> pandas.DataFrame:
        """A row for each item: what is right, what is said from what, and what is selected."""
        frames = []
        for part in PARTS:
            places = self.parts[part].tolist()
            found = predictions[part]
            chosen = self.selection(part, found)
            sizes = self.data.lengths[self.parts[part]].tolist()
            frame = {
                "model": record["model"],
                "seed": record["seed"],
                "part": part,
                "row": places,
                "text": [self.data.text(place) for place in places],
                **self._answers(part, found),
                "selection": [spans_text(marks) for marks in chosen.split(sizes)],
            }
            frames.append(pandas.DataFrame(frame))
        return pandas.concat(frames, ignore_index=True)

    def selection(self, part: str, predictions: Tensor) -> Tensor:
        """What is selected of all items of a part, one after the other, ``(N,)`` bool."""
        return self._scores_of(part, predictions) >= SELECTED

    def _scores_of(self, part: str, predictions: Tensor) -> Tensor:
        lengths = self.data.lengths[self.parts[part]]
        return predictions[:, len(READINGS) :][torch.arange(self.longest) < lengths.unsqueeze(1)]

    def _precision(self, part: str, chosen: Tensor) -> float | None:
        evidence = self.data.evidence_of(part)
        if evidence is None or not bool(chosen.any()):
            return None
        return 100 * measured(chosen, evidence, self.data.ptr(part)).precision

    def _curve(self, predictions: Tensor) -> dict[str, float]:
        """The precision at several shares, where what is predicted are not mere selections."""
        scores, ptr = self._scores_of("test", predictions), self.data.ptr("test")
        if bool(((scores == 0) | (scores == 1)).all()):
            return {}
        found = {curve_key(s): self._precision("test", top_share(scores, s, ptr)) for s in CURVE}
        return {key: value for key, value in found.items() if value is not None}

    def _answers(self, part: str, predictions: Tensor) -> dict[str, list[Any]]:
        """The columns of what is right, and what is said from rationale, all and the rest."""
        right = self.data.y[self.parts[part]].tolist()
        rationale, full, rest = (column.tolist() for column in predictions[:, :3].t())
        if isinstance(self.goal, NumberGoal):
            return {"y": right, "prediction": rationale, "full": full, "rest": rest}
        names = self.data.classes
        columns = {"label": right, "predicted": rationale, "full": full, "rest": rest}
        return {key: [names[int(k)] for k in column] for key, column in columns.items()}


class TextRationales(RationaleTask):
    """Prediction from some words of each text.

    Args:
        data: The texts.
    """

    items = "texts"
    data: TextItems

    def words(self) -> list[str]:
        """The vocabulary without padding and unknown word."""
        return self.data.vocabulary.words[2:]

    def learner(self, model: RationaleModelConfig, optimizer: OptimizerConfig) -> RationaleLearner:
        """An untrained network, with the word vectors."""
        learner = super().learner(model, optimizer)
        if self.data.vectors is not None:
            learner.net.set_word_vectors(self.data.vectors.vectors)
        return learner

    def estimator(self, model: RationaleModelConfig) -> Estimator | None:
        """The SVM of a configuration, ``None`` if it is a network."""
        return SVMEstimator(self.data, model.share, CURVE) if model.kind == SVM else None


class MoleculeRationales(RationaleTask):
    """Prediction from some atoms of each molecule.

    Args:
        data: The molecules.
    """

    items = "molecules"
    packages = (*RationaleTask.packages, "rdkit")


def task_of(data: Items) -> RationaleTask:
    """The task of texts or molecules."""
    return TextRationales(data) if isinstance(data, TextItems) else MoleculeRationales(data)


def model_config(data: Items, name: str, kind: str, **options: Any) -> RationaleModelConfig:
    """The configuration of a model for some texts or molecules.

    Args:
        data: The texts or molecules.
        name (str): Of the model.
        kind (str): One of ``names.MODELS``.
        options: Further fields of :class:`RationaleModelConfig`.

    Raises:
        InputError: If it has too many parameters.
    """
    goal = goal_for(len(data.classes), data.y[data.parts["train"]])
    mean, std = (goal.mean, goal.std) if isinstance(goal, NumberGoal) else (0.0, 1.0)
    config = RationaleModelConfig(
        name=name,
        kind=kind,
        inputs=data.kind,
        out=max(1, len(data.classes)),
        mean=mean,
        std=std,
        **data.input_sizes(options.pop("embedding_dim")),
        **options,
    )
    if kind != SVM:
        with as_input_error():
            number = count_parameters(lambda: RationaleNet(config))
            check_parameters(name, config.hidden, number, "--hidden, --layers, --embedding")
    return config
