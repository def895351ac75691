"""The language model that Lightning trains: loss, state, perplexities, and optimisers."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from typing import Any

import torch
import torch.nn.functional as F
from lightning.pytorch.utilities.memory import recursive_detach
from torch import Tensor
from torch.nn import Parameter
from torch.optim import SGD, Adam, Optimizer
from torchmetrics import MeanMetric

from benchmarks.corpora.language import IGNORED, LanguageBatch
from benchmarks.harness.language_model.models import LanguageModel, penalty
from benchmarks.harness.language_model.options import LanguageModelConfig, TrainingSettings
from benchmarks.harness.learner import Learner

NON_MONOTONE = 5  # evaluations without progress before averaging begins (Merity et al. 2018)


class NTASGD(SGD):
    """Gradient descent that averages parameters once the validation error has stopped falling.

    Non-monotonically triggered averaged gradient descent (Merity et al. 2018, algorithm 1).
    Averaging over all steps starts once an error is above the lowest of those more than
    `non_monotone` evaluations before it. The learning rate stays the same. Noted errors and
    averages are part of ``state_dict()``.
    """

    def __init__(
        self, params: Iterable[Parameter], non_monotone: int = NON_MONOTONE, **options: Any
    ) -> None:
        super().__init__(params, **options)
        self.non_monotone = non_monotone
        # In a group, so that checkpoints have them: the noted errors, and the averaged steps.
        self.param_groups[0].update(noted=[], averaged_steps=0, triggered=False)

    def note(self, error: float) -> bool:
        """Notes the error of an evaluation; returns whether steps are averaged from now on."""
        group = self.param_groups[0]
        before = group["noted"][: -self.non_monotone]
        group["noted"] = [*group["noted"], float(error)]
        group["triggered"] = group["triggered"] or (bool(before) and error > min(before))
        return bool(group["triggered"])

    @torch.no_grad()
    def step(self, closure: Callable[[], float] | None = None) -> float | None:  # type: ignore[override]
        loss = super().step(closure)
        (group,) = self.param_groups
        if group["triggered"]:
            group["averaged_steps"] += 1
            for parameter in group["params"]:
                state = self.state[parameter]
                if "average" not in state:
                    state["average"] = parameter.clone()
                state["average"].lerp_(parameter, 1.0 / group["averaged_steps"])
        return loss

    @torch.no_grad()
    def exchange(self) -> None:
        """Swaps parameters and their averages; does nothing before there are averages."""
        for parameter, state in self.state.items():
            if "average" in state:
                kept = parameter.clone()
                parameter.copy_(state["average"])
                state["average"].copy_(kept)


class RevertingAdam(Adam):
    """Adam that undoes an epoch without progress and halves the learning rate.

    Lei's thesis (2017), appendix B.1, uses it for larger networks. If the validation error is not
    lower than the lowest before, parameters are those before the epoch again. Adam's moments are
    kept. The parameters to go back to and the lowest error are part of ``state_dict()``.
    """

    def __init__(self, params: Iterable[Parameter], **options: Any) -> None:
        super().__init__(params, **options)
        self.param_groups[0].update(lowest=math.inf, kept=[])

    @torch.no_grad()
    def note(self, error: float) -> bool:
        """Notes an epoch's validation error; returns whether the epoch was undone."""
        (group,) = self.param_groups
        if error < group["lowest"]:
            group["lowest"] = float(error)
            group["kept"] = [parameter.clone() for parameter in group["params"]]
            return False
        group["lr"] /= 2
        for parameter, kept in zip(group["params"], group["kept"], strict=False):
            parameter.copy_(kept)
        return True


def build_optimizer(settings: TrainingSettings, parameters: Iterable[Parameter]) -> Optimizer:
    """The optimiser of some settings, with its first learning rate."""
    adam = RevertingAdam if settings.revert else Adam
    kind: Any = {"sgd": SGD, "adam": adam, "nt-asgd": NTASGD}[settings.optimizer]
    return kind(parameters, lr=settings.learning_rate, weight_decay=settings.weight_decay)


class LanguageLearner(Learner):
    """A language model on batches of streams, trained on the cross-entropy of the next word.

    The state after each batch is the state before the next one; gradients stop between them. Errors
    are cross-entropies in nats per word. ``valid_error`` determines the best epoch; the error of
    the test part is measured, too. If an optimiser averages weights, the averages are measured and
    stored in ``best.ckpt``. A checkpoint has all arguments, which are plain values.
    """

    def __init__(
        self, model: dict[str, Any], training: dict[str, Any], words: list[str], corpus: str
    ) -> None:
        super().__init__()  # the optimiser comes from the settings instead
        self.settings = TrainingSettings(**training)
        self.save_hyperparameters(logger=False)
        self.net: LanguageModel = LanguageModel(LanguageModelConfig(**model))
        self.test_error = MeanMetric(nan_strategy="disable")
        self._state: Any = None

    def epoch_measures(self) -> dict[str, float]:
        errors = {"train": self.train_error, "valid": self.valid_error, "test": self.test_error}
        return {f"{part}_perplexity": perplexity(errors[part].compute().item()) for part in errors}

    def configure_optimizers(self) -> Optimizer:
        return build_optimizer(self.settings, self.parameters())

    def on_train_epoch_start(self) -> None:
        super().on_train_epoch_start()
        self._state = None
        self._set_learning_rate(self.settings.steps)

    def training_step(self, batch: LanguageBatch, batch_idx: int) -> Tensor:
        settings, steps = self.settings, batch.ids.size(0)
        if settings.variable_steps:
            self._set_learning_rate(steps)
        reading = self.net(batch.ids, self._state)
        self._state = recursive_detach(reading.state)
        losses = self._losses(reading.hidden, batch.targets)
        self.train_error.update(losses.detach())
        loss = losses.mean() * (steps if settings.sum_steps else 1)
        return loss + penalty(reading, settings.alpha, settings.beta)

    def on_validation_epoch_start(self) -> None:
        super().on_validation_epoch_start()
        self.test_error.reset()
        self._set_learning_rate(self.settings.steps)
        self._exchange_averages()

    def validation_step(
        self, batch: LanguageBatch, batch_idx: int, dataloader_idx: int = 0
    ) -> None:
        error = self.test_error if dataloader_idx else self.valid_error
        error.update(self._evaluated(batch, batch_idx))

    def on_validation_epoch_end(self) -> None:
        self._exchange_averages()
        self._state = None
        super().on_validation_epoch_end()
        if isinstance(self._optimizer(), NTASGD | RevertingAdam):
            self._optimizer().note(self.valid_error.compute().item())

    def predict_step(self, batch: LanguageBatch, batch_idx: int, dataloader_idx: int = 0) -> Tensor:
        """The sum of the losses and the number of words."""
        losses = self._evaluated(batch, batch_idx)
        return torch.tensor([[losses.sum(), len(losses)]])

    def on_save_checkpoint(self, checkpoint: dict[str, Any]) -> None:
        if "optimizer_states" not in checkpoint:
            self._exchange_averages()
            state = self.state_dict()
            checkpoint["state_dict"] = {name: value.clone() for name, value in state.items()}
            self._exchange_averages()

    def _evaluated(self, batch: LanguageBatch, batch_idx: int) -> Tensor:
        """The loss of each word; the first batch of a part has no past."""
        reading = self.net(batch.ids, self._state if batch_idx else None)
        self._state = reading.state
        return self._losses(reading.hidden, batch.targets)[batch.targets.flatten() != IGNORED]

    def _losses(self, hidden: Tensor, targets: Tensor) -> Tensor:
        """The losses of all words, in nats, by one matrix product."""
        scores = self.net.scores(hidden.flatten(0, 1))
        flat = targets.flatten()
        return F.cross_entropy(scores.float(), flat, ignore_index=IGNORED, reduction="none")

    def _set_learning_rate(self, steps: int) -> None:
        """Sets the epoch's learning rate, in proportion to the steps if their number varies."""
        if self.settings.revert:  # the optimiser halves its own learning rate
            return
        rate = self.settings.learning_rate_at(self.current_epoch)
        for group in self._optimizer().param_groups:
            group["lr"] = rate * steps / self.settings.steps

    def _exchange_averages(self) -> None:
        if isinstance(self._optimizer(), NTASGD):
            self._optimizer().exchange()

    def _optimizer(self) -> Any:
        return self.trainer.optimizers[0]


def perplexity(error: float) -> float:
    """The perplexity of a cross-entropy in nats per word; infinite if a double overflows."""
    return torch.tensor(error, dtype=torch.double).exp().item()
