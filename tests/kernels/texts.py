"""Texts of the tests of kernels, and how numbers are compared."""

from __future__ import annotations

import random

import torch
from torch import Tensor

F64 = torch.float64


def vectors(length: int, size: int = 3, seed: int = 0) -> Tensor:
    """A text of random vectors, (L, F)."""
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(length, size, generator=generator, dtype=F64)


def characters(length: int, alphabet: str = "abc", seed: int = 0) -> str:
    """A text of random characters."""
    return "".join(random.Random(seed).choices(alphabet, k=length))


def ids(text: str, alphabet: str = "abc") -> list[int]:
    """The same text as numbers of tokens."""
    return [alphabet.index(token) for token in text]


def one_hot(text: str, alphabet: str = "abc") -> Tensor:
    """The same text as one-hot vectors, (L, len(alphabet))."""
    return torch.eye(len(alphabet), dtype=F64)[ids(text, alphabet)]


def close(found: Tensor, expected: Tensor, rtol: float = 1e-10, atol: float = 1e-12) -> None:
    """The same numbers, dtype and device, wherever a gradient is kept."""
    torch.testing.assert_close(found.detach(), expected.detach(), rtol=rtol, atol=atol)
