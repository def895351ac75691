"""The learning rate over the steps of a training."""

from __future__ import annotations

import math
from collections.abc import Callable

WARMUP = 0.05  # fraction of all steps over which the learning rate rises from 0
FINAL_FRACTION = 0.01  # the cosine ends at this fraction of the learning rate


def cosine(num_steps: int) -> Callable[[int], float]:
    """The factor on the learning rate at each step: a rise, then half a cosine down to 1%."""
    warmup = math.ceil(WARMUP * num_steps)

    def factor(step: int) -> float:
        if step < warmup:
            return (step + 1) / warmup
        done = min(1.0, (step - warmup) / max(1, num_steps - warmup))
        return FINAL_FRACTION + (1 - FINAL_FRACTION) * 0.5 * (1 + math.cos(math.pi * done))

    return factor
