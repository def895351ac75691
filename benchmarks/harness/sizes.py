"""Numbers of parameters, and the largest width of a network within such a number."""

import bisect
from collections.abc import Callable
from typing import TypeVar

import torch
from torch import nn

from benchmarks.harness.options import LARGEST_WIDTH

T = TypeVar("T")
MOST_PARAMETERS = 100_000_000


def num_parameters(module: nn.Module) -> int:
    """The number of trained parameters of a module."""
    return sum(p.numel() for p in module.parameters() if p.requires_grad)


def count_parameters(build: Callable[[], nn.Module]) -> int:
    """The number of trained parameters of the module that a function builds, without allocation."""
    with torch.device("meta"):
        return num_parameters(build())


def check_parameters(name: str, width: int, number: int, options: str, most: int = 0) -> None:
    """Rejects a network that is too large."""
    most = most or MOST_PARAMETERS
    if number > most:
        found = f"{name} of width {width} has {number:,} parameters"
        raise ValueError(f"{found}; at most {most:,} are allowed ({options})")


def fit_hidden_size(
    name: str, sized: Callable[[int], T], budget: int, count: Callable[[T], int]
) -> T:
    """The configuration with the largest width within a number of parameters."""
    widths = range(1, LARGEST_WIDTH + 1)
    width = bisect.bisect_right(widths, budget, key=lambda width: count(sized(width)))
    if not width:
        raise ValueError(f"no width of {name!r} has at most {budget:,} parameters")
    return sized(width)
