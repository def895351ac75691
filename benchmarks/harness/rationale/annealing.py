"""What a generator is to select from step to step: all, one half, and what falls from there."""

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
        done (float): The fraction of steps that are done, less than 0 before the fall begins.
    """
    progress = min(1.0, max(0.0, done) / anneal) if anneal else 1.0
    return float(START * (rate / START) ** progress)


def set_stage(learner: Any, config: RationaleModelConfig) -> None:
    """Tells what learns to select whether to begin with that in the next step, and how much."""
    reader = learner.net.reader
    if isinstance(reader, RationaleReader):
        done = learner.global_step / max(1, int(learner.trainer.estimated_stepping_batches))
        reader.whole = done < config.warm_up
        if config.rate is not None:
            reader.want(annealed_rate(config.rate, config.anneal, done - config.warm_up))
