"""What Lightning trains on texts or molecules: a network that answers, and what it answers from."""

from dataclasses import asdict
from typing import Any

import torch
from torch import Tensor
from torchmetrics import MeanMetric

from benchmarks.harness.learner import Learner, OptimizerConfig
from benchmarks.harness.rationale.annealing import set_stage
from benchmarks.harness.rationale.goals import Goal, goal_of
from benchmarks.harness.rationale.model_config import RationaleModelConfig
from benchmarks.harness.rationale.networks import RationaleNet
from benchmarks.harness.rationale.progress import SelectionCost, SelectionPrecision
from benchmarks.harness.rationale.readers import SELECTED, Inputs, Reading

READINGS = ("rationale", "full", "rest")  # the first columns of predictions


class RationaleLearner(Learner):
    """A network on batches of texts or molecules.

    The cost that it minimises, on the validation part with the most probable selections, says which
    epoch is best.

    Args:
        model (dict): The fields of a :class:`RationaleModelConfig`.
        words (list of str): The vocabulary without padding and unknown word; none for molecules.
        classes (list of str): Names of the classes; none where a number is predicted.
        optimizer (dict): The fields of an :class:`OptimizerConfig`.
        longest (int): Words or atoms of the largest item, the columns of predicted scores.
        evidence: Of the items on which precision is followed; ``None``: it is not.
    """

    net: RationaleNet
    train_error: MeanMetric
    valid_error: SelectionCost

    def __init__(
        self,
        model: dict[str, Any],
        words: list[str],
        classes: list[str],
        optimizer: dict[str, Any] | None = None,
        longest: int = 0,
        evidence: Tensor | None = None,
    ) -> None:
        optimizer = optimizer or asdict(OptimizerConfig())
        super().__init__(OptimizerConfig(**optimizer))
        self.save_hyperparameters(
            {"model": model, "words": words, "classes": classes, "optimizer": optimizer}
        )
        config = RationaleModelConfig(**model)
        self.longest = longest
        self.net = RationaleNet(config)
        self.goal: Goal = goal_of(config)
        self.train_error = MeanMetric(nan_strategy="disable")
        prices = (config.sparsity, config.rate, config.coherence) if config.selects else ()
        self.valid_error = SelectionCost(*prices)
        self.precision = None if evidence is None else SelectionPrecision(evidence)
        self._answers: list[tuple[Tensor, Tensor]] = []

    def forward(self, batch: Any) -> Reading:
        """What the network makes of a batch."""
        return self.net.reader.read(self.net.inputs(batch))

    def epoch_measures(self) -> dict[str, float]:
        """Cost of training and validation, the error of the latter, share and precision."""
        reader_error = self.goal.error(*map(torch.cat, zip(*self._answers, strict=True)))
        measures = {
            "train_cost": self.train_error.compute().item(),
            "valid_cost": self.valid_error.compute().item(),
            f"valid_{self.goal.measure.key}": reader_error,
            "share": 100 * self.valid_error.share().item(),
        }
        if self.precision is not None:
            measures["precision"] = 100 * self.precision.compute().item()
        return measures

    def on_train_batch_start(self, batch: Any, batch_idx: int) -> None:
        """Moves the share to select."""
        set_stage(self, self.net.config)

    def training_step(self, batch: Any, batch_idx: int) -> Tensor:
        """The objective of a batch."""
        y = _numbers(batch)
        lesson = self.net.reader.learn(
            self.net.inputs(batch), lambda output: self.goal.losses(output, y)
        )
        self.train_error.update(lesson.costs.mean())
        return lesson.objective

    def on_validation_epoch_start(self) -> None:
        """Forgets the epoch before."""
        super().on_validation_epoch_start()
        self._answers = []
        if self.precision is not None:
            self.precision.reset()

    def validation_step(self, batch: Any, batch_idx: int, dataloader_idx: int = 0) -> None:
        """Adds a batch of the part to validate to the cost, one of the annotated to precision."""
        inputs = self.net.inputs(batch)
        reading = self.net.reader.read(inputs)
        loaders: Any = self.trainer.val_dataloaders
        if self.precision is not None and dataloader_idx == len(loaders) - 1:
            self.precision.update(reading.scores >= SELECTED)
        if dataloader_idx == 0:
            y = _numbers(batch)
            losses = self.goal.losses(reading.output, y)[0]
            rows = len(reading.scores)
            self.valid_error.update(losses, reading.size, reading.transitions, rows)
            self._answers.append((self.goal.answers(reading.output).cpu(), y.cpu()))

    def predict_step(self, batch: Any, batch_idx: int, dataloader_idx: int = 0) -> Tensor:
        """Answers and scores, ``(B, 3 + longest)``.

        The first columns are the answers from the rationale, from all there is and from the rest,
        the others the score of each word or atom.
        """
        inputs, reader = self.net.inputs(batch), self.net.reader
        reading = reader.read(inputs)
        chosen = reading.scores >= SELECTED
        parts = (chosen, torch.ones_like(chosen), ~chosen)
        answers = [self.goal.answers(reader.answer(inputs, part)) for part in parts]
        scores = reading.scores.new_zeros(len(answers[0]), self.longest)
        item, place = _places(inputs)
        scores[item, place] = reading.scores
        return torch.cat([torch.stack(answers, dim=1), scores], dim=1).float().cpu()


def _numbers(batch: Any) -> Tensor:
    """What is to be predicted of each item, ``(B,)``."""
    y: Tensor = batch.y
    return y.squeeze(1) if y.dim() == 2 else y


def _places(inputs: Inputs) -> tuple[Tensor, Tensor]:
    """The item of each word or atom, and its place in it."""
    if "ptr" in inputs:
        ptr = inputs["ptr"]
        item = torch.repeat_interleave(ptr.diff(), output_size=len(inputs["x"]))
    else:
        item = inputs["batch"]
        counts = torch.bincount(item, minlength=inputs["batch_size"])
        ptr = torch.cat([counts.new_zeros(1), counts.cumsum(0)])
    return item, torch.arange(len(item), device=item.device) - ptr[item]
