"""The mean loss of a word over batches."""

import torch
from torch import Tensor
from torchmetrics import Metric


class WordLoss(Metric):
    """The sum of losses over the number of words, in nats a word; NaN where one of them is."""

    full_state_update = False
    total: Tensor
    words: Tensor

    def __init__(self) -> None:
        super().__init__()
        self.add_state("total", torch.tensor(0.0), dist_reduce_fx="sum")
        self.add_state("words", torch.tensor(0.0), dist_reduce_fx="sum")

    def update(self, total: Tensor, words: Tensor | int) -> None:
        """Adds words and the sum of their losses."""
        self.total += total
        self.words += words

    def compute(self) -> Tensor:
        """The mean so far."""
        return self.total / self.words
