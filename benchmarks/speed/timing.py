"""Timing: medians over interleaved rounds, and the bare matrix products of a layer."""

from __future__ import annotations

import math
import random
import statistics
import time
from collections.abc import Callable, Sequence

import torch
from torch import Tensor

Step = Callable[[], object]


def medians(
    steps: Sequence[Step], rounds: int, device: torch.device, limit: float = math.inf
) -> list[float]:
    """The median seconds of each step, over interleaved rounds after two that do not count.

    Every round has an order of its own, because a step finds memory as the one before left it.
    After `limit` seconds no further round begins, except the first that counts.
    """
    seconds: list[list[float]] = [[] for _ in steps]
    shuffled = random.Random(0)
    began = time.perf_counter()
    for round_number in range(-2, rounds):
        if round_number > 0 and time.perf_counter() - began > limit:
            break
        for k in shuffled.sample(range(len(steps)), len(steps)):
            taken = seconds_of(steps[k], device)
            if round_number >= 0:
                seconds[k].append(taken)
    return [statistics.median(times) for times in seconds]


def seconds_of(step: Step, device: torch.device) -> float:
    """How long a step takes, from an idle device until it is idle again."""
    synchronise(device)
    if device.type != "cuda":
        start = time.perf_counter()
        step()
        return time.perf_counter() - start
    stream = torch.cuda.current_stream(device)
    first, last = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    first.record(stream)
    step()
    last.record(stream)
    last.synchronize()
    return 1e-3 * first.elapsed_time(last)


def products_step(counts: Sequence[int], like: Tensor) -> Step:
    """The forward product and the backward's two, for each input.

    Args:
        counts: How many square weights multiply one input, input by input.
        like: An input, of shape :obj:`(N, channels)`.
    """
    channels = like.size(1)
    operands = [
        (
            torch.randn_like(like),
            torch.randn(k * channels, channels, device=like.device, dtype=like.dtype),
            torch.randn(like.size(0), k * channels, device=like.device, dtype=like.dtype),
        )
        for k in counts
    ]

    def run() -> None:
        for x, weight, grad in operands:
            torch.mm(x, weight.t())
            torch.mm(grad, weight)
            torch.mm(grad.t(), x)

    return run


def synchronise(device: torch.device) -> None:
    """Waits until the device has done what it was given."""
    if device.type == "cuda":
        torch.cuda.synchronize(device)
