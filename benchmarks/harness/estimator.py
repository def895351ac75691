"""What is fitted at once, whatever it learns: no batches, no epochs, one checkpoint."""

from abc import ABC, abstractmethod
from typing import Any, ClassVar

import torch
from torch import Tensor


class Estimator(ABC):
    """A model that is fitted at once to the training part, beside the networks of a table."""

    uses_seed: ClassVar[bool]  # whether it differs from one seed to another

    @abstractmethod
    def fit(self, seed: int, device: torch.device, progress: bool) -> None:
        """Learns from the training part; what must be chosen is chosen on the validation part.

        Args:
            seed (int): Of what is drawn at random.
            device: Where large products may be computed.
            progress (bool): Show how far it is.

        Raises:
            InputError: If it cannot learn from these data.
        """

    @abstractmethod
    def predictions(self, progress: bool) -> dict[str, Tensor]:
        """The predictions of each part, NaN for items of the training part that it leaves out."""

    @abstractmethod
    def num_parameters(self) -> int:
        """Number of learned weights."""

    @abstractmethod
    def details(self) -> dict[str, Any]:
        """What a run's record says besides: ``fitted_on``, a number of items, and ``method``."""

    @abstractmethod
    def checkpoint(self) -> dict[str, Any]:
        """All that predicts new items, in plain values and tensors."""
