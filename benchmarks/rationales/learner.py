"""What Lightning trains: a network that answers, and what it answers from."""

from typing import Any

import torch
from torch import Tensor
from torch_geometric.utils import to_dense_batch
from torchmetrics import Metric

from benchmarks.harness.learner import Learner
from benchmarks.rationales.goals import ClassGoal, Goal, NumberGoal, RankingGoal
from benchmarks.rationales.networks import SELECTED, ModelConfig, RationaleNet, Reading, network
from benchmarks.rationales.options import PROGRAM
from benchmarks.rationales.selections import precision
from pyg_kernels.rationale.structures import read_structure

READINGS = ("rationale", "full", "rest")  # the first columns of predictions of texts and molecules
EXCESS = 0.5  # cost of selecting twice the rate that is wanted


class SelectionCost(Metric):
    r"""What a part costs with the most probable selections, by which the best epoch is chosen.

    .. math::
        R + \lambda_2 \overline{\Omega} + \tfrac12 [p / r - 1]_+

    for the goal's risk R, transitions :math:`\Omega` and the share p of all words or atoms: an
    epoch that selects more than the rate r pays for it. Of models that do not learn to select, R.
    """

    full_state_update = False
    higher_is_better = False
    predicted: list[Tensor]
    chosen: list[Tensor]
    transitions: list[Tensor]

    def __init__(self, goal: Goal, config: ModelConfig, right: Any) -> None:
        super().__init__()
        self.goal, self.config, self.right = goal, config, right
        for name in ("predicted", "chosen", "transitions"):
            self.add_state(name, default=[], dist_reduce_fx="cat")

    def update(self, predicted: Tensor, reading: Reading) -> None:
        self.predicted.append(predicted.detach().cpu())
        self.chosen.append((reading.scores >= SELECTED).cpu())
        self.transitions.append(reading.transitions.cpu())

    def share(self) -> float:
        """The share of all words or atoms that is selected."""
        return float(torch.cat(self.chosen).double().mean())

    def error(self) -> float:
        """The goal's measure."""
        return self.goal.error(self.goal.answers(torch.cat(self.predicted)), self.right)

    def compute(self) -> Tensor:
        cost = self.goal.risk(torch.cat(self.predicted), self.right)
        if self.config.selects:
            changes = float(torch.cat(self.transitions).double().mean())
            excess = max(0.0, self.share() / self.config.rate - 1)
            cost += self.config.coherence * changes + EXCESS * excess
        return torch.tensor(cost, dtype=torch.double)


class RationaleLearner(Learner):
    """A network on batches of texts, molecules or groups of questions.

    What a checkpoint keeps are the fields of ``ModelConfig`` and ``OptimizerConfig``, the
    vocabulary without padding and unknown word, the names of classes and what made it. To train
    it takes what is ``right`` of the validation part, the ``evidence`` of the items on which
    precision is followed and where it is known, and the words of the ``longest`` item to predict.
    """

    UNSAVED = ("longest", "right", "evidence")
    net: RationaleNet
    valid_error: SelectionCost

    def __init__(
        self,
        model: dict[str, Any],
        words: list[str],
        classes: list[str],
        optimizer: dict[str, Any] | None = None,
        longest: int = 0,
        right: Any = None,
        evidence: tuple[Tensor, Tensor] | None = None,
        program: str = PROGRAM,
    ) -> None:
        super().__init__(optimizer)
        self.save_hyperparameters(ignore=self.UNSAVED, logger=False)
        config = ModelConfig(**model)
        self.longest, self.evidence = longest, evidence
        self.net = network(config)
        self.goal = goal_of(config)
        self.valid_error = SelectionCost(self.goal, config, right)
        self._chosen: list[Tensor] = []

    def epoch_measures(self) -> dict[str, float]:
        """Cost of training and validation, the error of the latter, share and precision."""
        measures = {
            "train_cost": self.train_error.compute().item(),
            "valid_cost": self.valid_error.compute().item(),
            f"valid_{self.goal.measure.key}": self.valid_error.error(),
            "share": 100 * self.valid_error.share(),
        }
        if self.evidence is not None:
            found = precision(torch.cat(self._chosen), *self.evidence)
            measures |= {} if found is None else {"precision": found}
        return measures

    def on_train_batch_start(self, batch: Any, batch_idx: int) -> None:
        """Moves the share to select."""
        steps = max(1, int(self.trainer.estimated_stepping_batches))
        self.net.set_stage(self.global_step / steps)

    def training_step(self, batch: Any, batch_idx: int) -> Tensor:
        inputs = self.net.inputs(batch)
        objective, cost = self.net.learn(inputs, lambda output: self.goal.losses(output, batch))
        self.train_error.update(cost)
        return objective

    def on_validation_epoch_start(self) -> None:
        super().on_validation_epoch_start()
        self._chosen = []

    def validation_step(self, batch: Any, batch_idx: int, dataloader_idx: int = 0) -> None:
        """Adds a batch of the part to validate to the cost, one of the annotated to precision."""
        reading = self.net.read(self.net.inputs(batch))
        loaders: Any = self.trainer.val_dataloaders
        if self.evidence is not None and dataloader_idx == len(loaders) - 1:
            self._chosen.append((reading.scores >= SELECTED).cpu())
        if dataloader_idx == 0:
            self.valid_error.update(self.goal.predicted(reading.output, batch), reading)

    def predict_step(self, batch: Any, batch_idx: int, dataloader_idx: int = 0) -> Tensor:
        """The answers from rationale, all there is and the rest, ``(B, 3)``, then the scores of
        words or atoms, ``(B, longest)``. Of pairs of questions the cosines, and the scores of both.
        """
        inputs = self.net.inputs(batch)
        reading = self.net.read(inputs)
        items = read_structure(**inputs)
        size = {"max_num_nodes": self.longest, "batch_size": items.num_groups}
        scores: Tensor = to_dense_batch(reading.scores, items.group, **size)[0]
        if isinstance(self.goal, RankingGoal):
            each = scores.new_zeros(batch.num_questions, self.longest)
            each[batch.question] = scores
            scores = each[batch.groups].flatten(1)
            answers = [self.goal.answers(self.goal.predicted(reading.output, batch))]
        else:
            chosen = reading.scores >= SELECTED
            parts = (chosen, torch.ones_like(chosen), ~chosen)
            answers = [self.goal.answers(self.net.answer(inputs, part)) for part in parts]
        return torch.cat([torch.stack(answers, dim=1), scores], dim=1).float().cpu()


def goal_of(config: ModelConfig) -> Goal:
    """What a network predicts."""
    if config.inputs == "questions":
        return RankingGoal()
    return ClassGoal() if config.out > 1 else NumberGoal(config.mean, config.std)
