"""Texts in the forms in which tests give them to layers, and comparisons of the results."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

F64 = torch.float64


def random_text(*shape: int, seed: int = 0) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(*shape, generator=generator, dtype=F64)


SIZE = 4  # of inputs


def texts(*lengths: int) -> list[Tensor]:
    return [random_text(length, SIZE, seed=i) for i, length in enumerate(lengths)]


def joined(pieces: list[Tensor]) -> Tensor:
    """The tokens of all texts one after the other, (N, F), even if there are no texts."""
    return torch.cat([torch.zeros(0, SIZE, dtype=F64), *pieces])


def pointers(pieces: list[Tensor]) -> Tensor:
    """Where each text begins, and the end: (S + 1,)."""
    return torch.tensor([0, *[len(p) for p in pieces]]).cumsum(0)


def place(pieces: list[Tensor], how: str) -> tuple[Tensor, Tensor]:
    """A grid (T, B, F) with the tokens of the texts and NaN elsewhere, and the tokens' mask."""
    steps = max((len(p) for p in pieces), default=0) + 2
    mask = torch.zeros(steps, len(pieces), dtype=torch.bool)
    generator = torch.Generator().manual_seed(0)
    for b, piece in enumerate(pieces):
        if how == "right":
            mask[: len(piece), b] = True
        elif how == "left":
            mask[steps - len(piece) :, b] = True
        else:
            mask[torch.randperm(steps, generator=generator)[: len(piece)], b] = True
    size = pieces[0].size(1) if pieces else SIZE
    grid = torch.full((steps, len(pieces), size), float("nan"), dtype=F64)
    for b, piece in enumerate(pieces):
        grid[mask[:, b], b] = piece
    return grid, mask


def pointwise(function: Any) -> Callable[[Tensor], Tensor]:
    """A function as it is, or the function of this name in torch; None is the identity."""
    if function in (None, "identity"):
        return lambda t: t
    return function if callable(function) else getattr(torch, function)


def close(found: Any, expected: Any, rtol: float = 1e-10, atol: float = 1e-12) -> None:
    """Compares tensors, or sequences of tensors."""
    torch.testing.assert_close(found, expected, rtol=rtol, atol=atol)


def assert_close(found: list[Tensor], expected: list[Tensor], names: list[str]) -> None:
    for a, b, name in zip(found, expected, names, strict=True):
        scale = b.abs().max().item() if b.numel() else 0.0
        torch.testing.assert_close(
            a, b, rtol=1e-10, atol=1e-12 * max(1.0, scale), msg=lambda m, name=name: f"{name}: {m}"
        )


def gradients(outputs: list[Tensor], inputs: list[Tensor]) -> list[Tensor]:
    """The gradients of a weighted sum of all outputs; zeros for inputs without a gradient."""
    total = sum((random_text(*t.shape, seed=9).to(t) * t).sum() for t in outputs)
    found = torch.autograd.grad(
        total, inputs, retain_graph=True, allow_unused=True, materialize_grads=True
    )
    return list(found)
