"""What Lightning trains as a language model: loss, state, perplexities, and what trains it."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from itertools import chain
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.nn import Parameter
from torch.optim import SGD, Adam, Optimizer
from torchmetrics import Metric

from benchmarks.corpora.language_loader import IGNORED, LanguageBatch
from benchmarks.harness.language_model.models import LanguageModel, penalty
from benchmarks.harness.language_model.options import LanguageModelConfig, TrainingSettings
from benchmarks.harness.learner import Learner

LARGEST_EXPONENT = 700.0  # of a finite double
NON_MONOTONE = 5  # evaluations without progress before averaging begins (Merity et al. 2018)


class NTASGD(SGD):
    """Gradient descent whose average counts once the validation error has stopped falling.

    Non-monotonically triggered averaged gradient descent (Merity et al. 2018, algorithm 1). Call
    :meth:`note` after each evaluation: once an error is above the lowest of those more than
    :obj:`non_monotone` evaluations before it, parameters are averaged over all steps from there on,
    and :meth:`averaged` exchanges them for their averages, to evaluate and to keep. The learning
    rate stays as it is. What was noted and the averages are part of ``state_dict()``.
    """

    def __init__(
        self, params: Iterable[Parameter], non_monotone: int = NON_MONOTONE, **options: Any
    ) -> None:
        super().__init__(params, **options)
        self.non_monotone = non_monotone
        # In a group, so that a checkpoint has them: the evaluations, and the steps averaged over.
        self.param_groups[0].update(noted=[], averaged_steps=0, triggered=False)

    def note(self, error: float) -> bool:
        group = self.param_groups[0]
        if group["triggered"]:
            return False
        before = group["noted"][: -self.non_monotone or None]
        group["triggered"] = bool(before) and error > min(before)
        group["noted"] = [*group["noted"], float(error)]
        return bool(group["triggered"])

    @torch.no_grad()
    def step(self, closure: Callable[[], float] | None = None) -> float | None:  # type: ignore[override]
        loss = super().step(closure)
        first = self.param_groups[0]
        if first["triggered"]:
            first["averaged_steps"] += 1
            for parameter in chain.from_iterable(group["params"] for group in self.param_groups):
                state = self.state[parameter]
                if "average" not in state:
                    state["average"] = parameter.clone()
                state["average"].lerp_(parameter, 1.0 / first["averaged_steps"])
        return loss

    @contextmanager
    def averaged(self) -> Iterator[None]:
        """While this lasts, the parameters are their averages; nothing changes before there are."""
        self._exchange()
        try:
            yield
        finally:
            self._exchange()

    @torch.no_grad()
    def _exchange(self) -> None:
        for parameter, state in self.state.items():
            if "average" in state:
                kept = parameter.clone()
                parameter.copy_(state["average"])
                state["average"].copy_(kept)


class RevertingAdam(Adam):
    """Adam that undoes an epoch without progress and halves the learning rate.

    Lei's thesis (2017), appendix B.1, for its larger networks: where the validation error is not
    lower than the lowest before, parameters go back to what they were before the epoch. Adam's
    moments go on as they are. Call :meth:`note` after each epoch's evaluation; the parameters to go
    back to and the lowest error are part of ``state_dict()``.
    """

    def __init__(self, params: Iterable[Parameter], factor: float = 0.5, **options: Any) -> None:
        super().__init__(params, **options)
        self.factor = factor
        self.param_groups[0]["lowest"] = math.inf

    @torch.no_grad()
    def note(self, error: float) -> bool:
        undo = not error < self.param_groups[0]["lowest"]
        for group in self.param_groups:
            if not undo:
                group["kept"] = [parameter.clone() for parameter in group["params"]]
                continue
            group["lr"] *= self.factor
            for parameter, kept in zip(group["params"], group.get("kept", ()), strict=False):
                parameter.copy_(kept)
        if not undo:
            self.param_groups[0]["lowest"] = float(error)
        return undo


def build_optimizer(settings: TrainingSettings, parameters: Iterable[Parameter]) -> Optimizer:
    """The optimiser of some settings at its first learning rate."""
    adam = RevertingAdam if settings.revert else Adam
    kind: Any = {"sgd": SGD, "adam": adam, "nt-asgd": NTASGD}[settings.optimizer]
    return kind(parameters, lr=settings.learning_rate, weight_decay=settings.weight_decay)


class WordLoss(Metric):
    """The sum of losses over the number of words, in nats a word; NaN where one of them is.

    ``MeanMetric`` takes no weights where it is to keep NaN.
    """

    full_state_update = False
    total: Tensor
    words: Tensor

    def __init__(self) -> None:
        super().__init__()
        self.add_state("total", torch.tensor(0.0), dist_reduce_fx="sum")
        self.add_state("words", torch.tensor(0.0), dist_reduce_fx="sum")

    def update(self, total: Tensor, words: Tensor | int) -> None:
        self.total += total
        self.words += words

    def compute(self) -> Tensor:
        return self.total / self.words


class LanguageLearner(Learner):
    """A language model on the batches of streams, trained on the cross-entropy of the next word.

    The state after each batch is the state before the next one; gradients stop between them. Errors
    are cross-entropies in nats a word; ``valid_error`` decides which epoch is the best, and that of
    the test part is measured beside it. Where an optimiser averages weights, these are measured,
    and are those of ``best.ckpt``.

    All arguments are plain values, so that a checkpoint alone rebuilds the learner.
    """

    def __init__(
        self, model: dict[str, Any], training: dict[str, Any], words: list[str], corpus: str
    ) -> None:
        super().__init__()  # its optimiser is that of the settings
        self.settings = TrainingSettings(**training)
        self.save_hyperparameters(logger=False)
        self.net: LanguageModel = LanguageModel(LanguageModelConfig(**model))
        self.train_error, self.valid_error, self.test_error = WordLoss(), WordLoss(), WordLoss()
        self._state: Any = None
        self._averaged: AbstractContextManager[Any] = nullcontext()

    def epoch_measures(self) -> dict[str, float]:
        errors = {"train": self.train_error, "valid": self.valid_error, "test": self.test_error}
        means = {part: error.compute().item() for part, error in errors.items()}
        return {f"{part}_perplexity": perplexity(mean) for part, mean in means.items()}

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
        reading = self.net.read(batch.ids, self._state)
        self._state = self.net.detach(reading.state)
        loss = self._cross_entropy(reading.hidden, batch.targets)
        words = batch.targets.numel()
        self.train_error.update(loss.detach() * words, words)
        loss = loss * steps if settings.sum_steps else loss
        return loss + penalty(reading, settings.alpha, settings.beta)

    def on_validation_epoch_start(self) -> None:
        super().on_validation_epoch_start()
        self.test_error.reset()
        self._set_learning_rate(self.settings.steps)
        self._averaged = self._averages()
        self._averaged.__enter__()

    def validation_step(
        self, batch: LanguageBatch, batch_idx: int, dataloader_idx: int = 0
    ) -> None:
        error = self.test_error if dataloader_idx else self.valid_error
        error.update(*self._evaluated(batch, batch_idx))

    def on_validation_epoch_end(self) -> None:
        self._averaged.__exit__(None, None, None)
        self._state = None
        super().on_validation_epoch_end()
        if isinstance(self._optimizer(), NTASGD | RevertingAdam):
            self._optimizer().note(self.valid_error.compute().item())

    def predict_step(self, batch: LanguageBatch, batch_idx: int, dataloader_idx: int = 0) -> Tensor:
        return self._evaluated(batch, batch_idx).cpu().unsqueeze(0)

    def on_save_checkpoint(self, checkpoint: dict[str, Any]) -> None:
        if "optimizer_states" not in checkpoint:
            with self._averages():
                state = self.state_dict()
                checkpoint["state_dict"] = {name: value.clone() for name, value in state.items()}

    def _evaluated(self, batch: LanguageBatch, batch_idx: int) -> Tensor:
        """The sum of the losses and the number of words; the first batch of a part has no past."""
        reading = self.net.read(batch.ids, self._state if batch_idx else None)
        self._state = reading.state
        count = (batch.targets != IGNORED).sum()
        return torch.stack([self._cross_entropy(reading.hidden, batch.targets) * count, count])

    def _cross_entropy(self, hidden: Tensor, targets: Tensor) -> Tensor:
        """The mean over the words that are to be predicted, in nats, by one product."""
        scores = self.net.scores(hidden.flatten(0, 1))
        return F.cross_entropy(scores.float(), targets.flatten(), ignore_index=IGNORED)

    def _set_learning_rate(self, steps: int) -> None:
        """That of the epoch, in proportion to the steps where these vary from batch to batch."""
        if self.settings.revert:  # the optimiser's own: it halves it
            return
        rate = self.settings.learning_rate_at(self.current_epoch)
        for group in self._optimizer().param_groups:
            group["lr"] = rate * steps / self.settings.steps

    def _averages(self) -> AbstractContextManager[Any]:
        optimizer = self._optimizer()
        return optimizer.averaged() if isinstance(optimizer, NTASGD) else nullcontext()

    def _optimizer(self) -> Any:
        return self.trainer.optimizers[0]


def perplexity(error: float) -> float:
    """That of a cross-entropy in nats a word; infinite above what a double can hold."""
    return math.exp(error) if error <= LARGEST_EXPONENT else error * math.inf
