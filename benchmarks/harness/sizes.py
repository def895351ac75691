"""Numbers of parameters, and the width of a network that stays within a number of them."""

from collections.abc import Callable
from typing import TypeVar

import torch
from torch import nn

T = TypeVar("T")
MOST_PARAMETERS = 100_000_000


def num_parameters(module: nn.Module) -> int:
    """Number of trained numbers in a module."""
    return sum(p.numel() for p in module.parameters() if p.requires_grad)


def count_parameters(build: Callable[[], nn.Module]) -> int:
    """Number of trained numbers of the module that a function builds, without memory for them."""
    with torch.device("meta"):
        return num_parameters(build())


def check_parameters(
    name: str, width: int, number: int, options: str, most: int | None = None
) -> None:
    """Refuses a network that is too large."""
    most = most or MOST_PARAMETERS
    if number > most:
        raise ValueError(
            f"{name} of width {width} has {number:,} parameters; at most {most:,} are "
            f"allowed ({options})"
        )


def largest_width(fits: Callable[[int], bool]) -> int:
    """The largest width that fits, 0 if not even width 1 does."""
    if not fits(1):
        return 0
    low, high = 1, 2
    while fits(high):
        low, high = high, 2 * high
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if fits(middle) else (low, middle)
    return low


def fit_hidden_size(
    name: str, sized: Callable[[int], T], budget: int, count: Callable[[T], int]
) -> T:
    """The configuration with the largest width within a number of parameters."""
    width = largest_width(lambda width: count(sized(width)) <= budget)
    if not width:
        raise ValueError(f"no width of {name!r} has at most {budget:,} parameters")
    return sized(width)
