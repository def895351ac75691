"""Classification of any kind of items: what Lightning trains, and its scores and tables."""

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any

import pandas
import torch.nn.functional as F
from torch import Tensor

from benchmarks.harness.learner import Learner
from benchmarks.harness.task import PARTS, Measure, Task
from benchmarks.harness.training import Run


class Classifier(Learner):
    """A network trained on the cross-entropy of classes; a subclass builds ``net``."""

    @abstractmethod
    def scores(self, batch: Any) -> tuple[Tensor, Tensor]:
        """The scores of the classes, ``(B, C)``, and the classes, ``(B,)``."""

    def forward(self, batch: Any) -> Tensor:
        return self.scores(batch)[0].argmax(dim=1).cpu()

    def epoch_measures(self) -> dict[str, float]:
        errors = {"train": self.train_error, "valid": self.valid_error}
        means = {part: error.compute().item() for part, error in errors.items()}
        return {f"{part}_accuracy": 100 * (1 - mean) for part, mean in means.items()}

    def training_step(self, batch: Any, batch_idx: int) -> Tensor:
        scores, y = self.scores(batch)
        self.train_error.update(wrong(scores.detach(), y))
        return F.cross_entropy(scores.float(), y)

    def validation_step(self, batch: Any, batch_idx: int) -> None:
        self.valid_error.update(wrong(*self.scores(batch)))


def wrong(scores: Tensor, y: Tensor) -> Tensor:
    """``(B,)``: 1 if the best class is wrong, 0 if it is right; NaN if the loss is not finite."""
    loss = F.cross_entropy(scores.float(), y, reduction="none")
    return (scores.argmax(dim=1) != y) + 0 * loss


class ClassificationTask(Task):
    """Classification, measured by the accuracy in percent."""

    measure = Measure("accuracy", "accuracy", ".2f")
    labels: Tensor  # (M,), the class of each item
    classes: Sequence[str]  # their names

    def columns(self, places: Sequence[int]) -> dict[str, Any]:
        return {}

    def scores(self, predictions: Mapping[str, Tensor]) -> dict[str, float]:
        return {
            part: 100 * (predictions[part] == self.labels[self.parts[part]]).double().mean().item()
            for part in PARTS
        }

    def rows(self, part: str, predictions: Tensor) -> dict[str, Any]:
        places = self.parts[part].tolist()
        return {
            "row": places,
            **self.columns(places),
            "label": [self.classes[k] for k in self.labels[places].tolist()],
            "predicted": [self.classes[k] for k in predictions.tolist()],
        }


def correct(run: Run) -> pandas.Series:
    """For each item of the test part, by its position: 100 if its class is predicted, else 0."""
    rows = run.predictions[run.predictions["part"] == "test"].set_index("row")
    return 100.0 * (rows["label"] == rows["predicted"])
