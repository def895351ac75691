"""Layers of every kind, for the promises that hold whatever the options are."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from pyg_kernels.sequence import RCNN
from tests.sequence.rcnn_equations import random_rcnn, random_text

SIZE = 4  # of inputs and hidden states

SUM: dict[str, dict[str, Any]] = {
    "constant": {},
    "unnormalised": {"order": 3, "normalize": False, "state": "z", "decay": 0.9, "act": "relu"},
    "convolution": {"order": 3, "mapping": "add", "decay": 0.0},
    "learned": {"order": 3, "mapping": "add", "decay": "learned", "scalar_decay": True},
    "input": {"decay": "input", "state": "sum", "output_gate": True, "bias": False},
    "highway": {"order": 1, "decay": "input", "highway": True, "act": None},
    "recurrent": {
        "decay": "recurrent",
        "output_map": True,
        "output_gate": True,
        "highway": True,
    },
    "scalar-recurrent": {
        "order": 3,
        "mapping": "add",
        "decay": "recurrent",
        "scalar_decay": True,
        "state": "z",
    },
    "stack": {"num_layers": 3, "decay": "input", "output_map": True},
    "recurrent-stack": {"num_layers": 2, "decay": "recurrent", "state": "sum"},
}
MAX: dict[str, dict[str, Any]] = {
    "max-mul": {"pooling": "max", "order": 3, "decay": 0.7},
    "max-gated": {"pooling": "max", "decay": "input", "state": "sum", "output_gate": True},
    "max-recurrent": {"pooling": "max", "decay": "recurrent", "state": "z", "highway": True},
    "max-add": {"pooling": "max", "order": 3, "mapping": "add", "decay": 0.7},
    "max-add-learned": {"pooling": "max", "mapping": "add", "decay": "learned", "state": "sum"},
    "max-stack": {"pooling": "max", "num_layers": 2, "state": "z"},
}
ONE_WAY = {**SUM, **MAX}
BOTH_WAYS: dict[str, dict[str, Any]] = {
    "both-ways": {"bidirectional": True, "decay": "input"},
    "both-ways-recurrent": {"bidirectional": True, "decay": "recurrent", "output_gate": True},
    "both-ways-stack": {"bidirectional": True, "num_layers": 2, "order": 3, "state": "sum"},
    "both-ways-max": {"bidirectional": True, "pooling": "max", "num_layers": 2},
    "both-ways-max-add": {"bidirectional": True, "pooling": "max", "mapping": "add"},
}
EVERY = {**ONE_WAY, **BOTH_WAYS}


def build(options: dict[str, Any], **more: Any) -> RCNN:
    return random_rcnn(SIZE, SIZE, **{**options, **more})


def texts(*lengths: int, size: int = SIZE) -> list[Tensor]:
    return [random_text(length, size, seed=i) for i, length in enumerate(lengths)]


def pointers(pieces: list[Tensor]) -> Tensor:
    """Where each text begins, and the end: (S + 1,)."""
    return torch.tensor([0, *[len(p) for p in pieces]]).cumsum(0)


def close(found: Tensor, expected: Tensor, rtol: float = 1e-10, atol: float = 1e-12) -> None:
    torch.testing.assert_close(found, expected, rtol=rtol, atol=atol)
