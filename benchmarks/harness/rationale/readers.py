"""What answers from texts or molecules, whole or in part, and says from what."""

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from pyg_kernels.rationale import Rationalizer
from pyg_kernels.rationale.structures import read_structure

Inputs = dict[str, Any]  # as Rationalizer is called: x with ptr, or with edges and graphs
SELECTED = 0.5
Loss = Callable[[Tensor], Tensor]  # (S B, out) outputs to (S, B) losses


class Lesson(NamedTuple):
    """What a batch of B items teaches.

    Attributes:
        objective: What to minimise.
        costs: ``(S, B)``, what each item costs; its mean is the objective's value.
    """

    objective: Tensor
    costs: Tensor


class Reading(NamedTuple):
    """What a network makes of B items of N words or atoms.

    Attributes:
        output: ``(B, out)``, from the rationale alone where it has learned to select, else from all
            there is.
        scores: ``(N,)`` from 0 to 1, at least :data:`SELECTED` for what is selected; higher ones
            for what would be taken first.
        size: ``(B,)``, words or atoms selected.
        transitions: ``(B,)``, changes between neighbours of which one is selected.
    """

    output: Tensor
    scores: Tensor
    size: Tensor
    transitions: Tensor


class Reader(nn.Module, ABC):
    """Answers from items, says from what of them, and answers from any part of them."""

    @abstractmethod
    def learn(self, inputs: Inputs, loss: Loss) -> Lesson:
        """What a batch teaches, by the losses ``(S, B)`` of outputs ``(S B, out)``."""

    @abstractmethod
    def read(self, inputs: Inputs) -> Reading:
        """What it makes of a batch, without chance."""

    @abstractmethod
    def answer(self, inputs: Inputs, chosen: Tensor) -> Tensor:
        """What it makes of the words or atoms that are chosen, ``(N,)`` bool, alone, (B, out)."""


class FullReader(Reader):
    """An encoder that reads all there is.

    Args:
        encoder: Of texts or molecules.
    """

    def __init__(self, encoder: nn.Module) -> None:
        super().__init__()
        self.encoder = encoder

    def learn(self, inputs: Inputs, loss: Loss) -> Lesson:
        """The loss of a batch."""
        costs = loss(self.answer(inputs, _all_of(inputs)))
        return Lesson(costs.mean(), costs.detach())

    def read(self, inputs: Inputs) -> Reading:
        """All is taken."""
        chosen = _all_of(inputs)
        ones = chosen.float()
        size = read_structure(**inputs).total(ones.unsqueeze(0)).squeeze(0)
        return Reading(self.answer(inputs, chosen), ones, size, torch.zeros_like(size))

    def answer(self, inputs: Inputs, chosen: Tensor) -> Tensor:
        """The encoder on the chosen ones."""
        structure = read_structure(**inputs)
        return structure.encode(self.encoder, inputs["x"], chosen.unsqueeze(0))


class RationaleReader(Reader):
    """Generator and encoder.

    Args:
        rationalizer: Both.

    Attributes:
        whole (bool): Whether the encoder learns from everything, the generator nothing.
    """

    def __init__(self, rationalizer: Rationalizer) -> None:
        super().__init__()
        self.rationalizer = rationalizer
        self.whole = False

    def want(self, rate: float) -> None:
        """Sets the share to select from here on, where there is one and no price."""
        if self.rationalizer.control is not None:
            self.rationalizer.control.rate = rate

    def learn(self, inputs: Inputs, loss: Loss) -> Lesson:
        """The cost of selections that are drawn, or the loss of everything."""
        if self.whole:
            losses = loss(self.answer(inputs, _all_of(inputs)))
            return Lesson(losses.mean(), losses.detach())
        rationale = self.rationalizer(**inputs)
        losses = loss(rationale.output)
        costs = self.rationalizer.cost(rationale, losses).detach()
        return Lesson(self.rationalizer.objective(rationale, losses), costs)

    def read(self, inputs: Inputs) -> Reading:
        """The most probable selection."""
        found = self.rationalizer(**inputs)
        scores = found.selection[0].float()
        return Reading(found.output, scores, found.size[0], found.transitions[0])

    def answer(self, inputs: Inputs, chosen: Tensor) -> Tensor:
        """The encoder on the chosen ones."""
        return self.rationalizer.encode(chosen, **inputs)


def _all_of(inputs: Inputs) -> Tensor:
    rows: Tensor = inputs["x"]
    return torch.ones(len(rows), dtype=torch.bool, device=rows.device)
