"""The mode in which models are explained."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

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
