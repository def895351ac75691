"""The share to select while it falls."""

from typing import Any

from benchmarks.harness.rationale.model_config import RationaleModelConfig
from benchmarks.harness.rationale.readers import RationaleReader

START = 0.5  # the share that generators select at first


def annealed_rate(rate: float, anneal: float, done: float) -> float:
    """The share to select after some of the steps: from one half to the rate, by equal factors.

    Encoders learn to read before they are given little.

    Args:
        rate (float): At the end.
        anneal (float): The fraction of all steps after which it is reached.
        done (float): The fraction of steps that are done.
    """
    progress = min(1.0, done / anneal) if anneal else 1.0
    return float(START * (rate / START) ** progress)


def set_rate(learner: Any, config: RationaleModelConfig) -> None:
    """Tells a learner's generator what to select in the next step, where it has a rate to reach."""
    reader = learner.net.reader
    if config.rate is not None and isinstance(reader, RationaleReader):
        steps = max(1, int(learner.trainer.estimated_stepping_batches))
        reader.want(annealed_rate(config.rate, config.anneal, learner.global_step / steps))
