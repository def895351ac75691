"""The activations that compiled steps know by name."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

_FUNCTIONS = {torch.tanh: "tanh", torch.relu: "relu", torch.sigmoid: "sigmoid"}
_MODULES = {torch.nn.Tanh: "tanh", torch.nn.ReLU: "relu"}


def function_name(act: Callable[[Tensor], Tensor]) -> str | None:
    """``'tanh'``, ``'relu'`` or ``'sigmoid'`` where a function is that; None for all others."""
    return next((name for function, name in _FUNCTIONS.items() if act is function), None)


def activation_name(act: Callable[[Tensor], Tensor] | None) -> str | None:
    """``'tanh'`` or ``'relu'`` where an activation, a module perhaps, is that; None for others."""
    if isinstance(act, torch.nn.Module):
        return _MODULES.get(type(act))
    name = None if act is None else function_name(act)
    return None if name == "sigmoid" else name
