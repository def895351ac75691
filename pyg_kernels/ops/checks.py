"""The shapes that kernels rely on: they read memory, and would not notice a wrong one."""

from __future__ import annotations

import torch
from torch import Tensor

Shape = tuple[int, ...]


def check_shapes(**given: tuple[Tensor | None, Shape]) -> None:
    """Compares tensors with the shapes they should have, by their names.

    Raises:
        ValueError: For the first that has another; tensors that are None are left out.
    """
    if torch.compiler.is_compiling():
        return
    for name, (tensor, shape) in given.items():
        if tensor is not None and tensor.shape != shape:
            raise ValueError(f"{name} has shape {tuple(tensor.shape)}: expected {tuple(shape)}")
