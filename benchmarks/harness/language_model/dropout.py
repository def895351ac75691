"""The dropouts of language models."""

import torch.nn.functional as F
from torch import Tensor, nn


def drop(x: Tensor, probability: float, training: bool, locked: bool) -> Tensor:
    """Dropout of ``(T, B, F)``, locked with one mask for all steps (Gal and Ghahramani 2016)."""
    if not training or not probability:
        return x
    if not locked:
        return F.dropout(x, probability)
    return x * _mask(x[:1], probability)


def drop_words(vectors: Tensor, probability: float, training: bool) -> Tensor:
    """Dropout of whole words: their vectors are zero wherever they stand in the batch."""
    if not training or not probability:
        return vectors
    return vectors * _mask(vectors[:, :1], probability)


class WeightDrop(nn.Module):
    """A parametrization of a matrix whose entries are dropped anew for each reading.

    Recurrent dropout of Merity et al. (2018): the mask holds for all steps, so that a fused
    recurrence stays one.
    """

    def __init__(self, probability: float) -> None:
        super().__init__()
        self.probability = probability

    def forward(self, weight: Tensor) -> Tensor:
        return F.dropout(weight, self.probability, self.training)


def _mask(like: Tensor, probability: float) -> Tensor:
    keep = 1.0 - probability
    return like.new_empty(like.shape).bernoulli_(keep).div_(keep)
