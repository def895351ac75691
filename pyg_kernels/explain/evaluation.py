"""The mode and the precision in which models are explained."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import Tensor
from torch.nn import Module


@contextmanager
def evaluating(model: Module) -> Iterator[None]:
    """Puts all modules into evaluation mode, and back."""
    training = [module for module in model.modules() if module.training]
    model.eval()
    try:
        yield
    finally:
        for module in training:
            module.training = True


def as_stored(x: Tensor) -> torch.autocast:
    """Computes in the precision of features and weights, autocast or not: shares add up."""
    return torch.autocast(x.device.type, enabled=False)
