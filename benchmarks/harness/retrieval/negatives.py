"""Random questions that count as not similar."""

from collections.abc import Sequence

import torch
from torch import Tensor

from benchmarks.corpora.questions import TrainQuery


def trained_questions(queries: Sequence[TrainQuery]) -> Tensor:
    """The questions that are queries to train on or similar to one, in the order of positions."""
    return torch.tensor(
        sorted({place for query in queries for place in (query.query, *query.positives)})
    )


def drawn(query: TrainQuery, others: Tensor, number: int, generator: torch.Generator) -> Tensor:
    """Random questions that are not similar to one.

    Drawn from those that the corpus lists for it or, where it lists none, from `others` without
    those that are known to be similar; where these are fewer than `number`, some come twice.

    Args:
        query: The question.
        others: ``(Q,)`` int64, positions of questions.
        number (int): How many to draw.
        generator: What is drawn from.

    Returns:
        ``(number,)`` int64.

    Raises:
        ValueError: If there is none to draw.
    """
    if query.negatives:
        pool = torch.tensor(query.negatives)
    else:
        pool = others[~torch.isin(others, torch.tensor([query.query, *query.positives]))]
    if not len(pool):
        raise ValueError("there are no questions to train on that are not similar to another one")
    order = torch.randperm(len(pool), generator=generator)
    return pool[order.repeat(-(-number // len(pool)))[:number]]
