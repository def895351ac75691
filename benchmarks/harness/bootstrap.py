"""Which differences between models are beyond chance: a paired bootstrap over items and seeds."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

Score = Callable[[NDArray[Any], NDArray[Any], NDArray[Any]], float]
SEED = 0


def paired_differences(
    y: NDArray[Any],
    predictions: Sequence[Sequence[NDArray[Any]]],
    reference: int,
    score: Score,
    rounds: int = 1000,
    coverage: float = 0.95,
) -> list[tuple[float, float]]:
    """Intervals of the score of each model minus that of the model `reference`.

    `score` is of `y`, one seed's predictions, and how often each item was drawn.

    Each round draws as many items as there are, with replacement, on which all models are scored,
    and of each model as many of its seeds as it has.
    """
    random = np.random.default_rng(SEED)
    differences = np.empty((rounds, len(predictions)))
    for row in differences:
        drawn = np.bincount(random.integers(len(y), size=len(y)), minlength=len(y))
        for place, seeds in enumerate(predictions):
            scores = np.array([score(y, seed, drawn) for seed in seeds])
            row[place] = scores[random.integers(len(seeds), size=len(seeds))].mean()
        row -= row[reference]
    tail = (1 - coverage) / 2
    ends = np.nanquantile(differences, [tail, 1 - tail], axis=0)
    return [(float(low), float(high)) for low, high in ends.T]
