"""How well candidates are ranked."""

from collections.abc import Sequence

import torch
from torch import Tensor
from torchmetrics import Metric, MetricCollection
from torchmetrics.retrieval import RetrievalMAP, RetrievalMRR, RetrievalPrecision

METRICS = ("MAP", "MRR", "P@1", "P@5")
TIES = 0  # seed of the order among candidates of one score


def evaluate(scores: Sequence[Tensor], relevance: Sequence[Tensor]) -> dict[str, float]:
    """Mean average precision, mean reciprocal rank and precision at 1 and 5, in percent.

    Each is the mean over queries; those without a similar candidate are left out. Candidates of one
    score come in a random order, always the same, so that nothing is gained from the order in which
    a search engine gave them. All are NaN where a score is not a number.
    """
    if any(bool(score.isnan().any()) for score in scores):
        return dict.fromkeys(METRICS, float("nan"))
    generator = torch.Generator().manual_seed(TIES)
    predicted, target = [], []
    for score, similar in zip(scores, relevance, strict=True):
        order = torch.randperm(len(score), generator=generator)
        # Places from the worst, 1, up, for scores: torchmetrics need not keep equal scores in order
        # and takes a candidate whose score is not positive, as a cosine can be, for not retrieved.
        places = 1 + score.detach().cpu()[order].argsort(stable=True).argsort()
        predicted.append(places.float())
        target.append(similar.cpu()[order].bool())
    if not any(bool(similar.any()) for similar in target):
        raise ValueError("no query has a similar candidate")
    lengths = torch.tensor(list(map(len, target)))
    queries = torch.repeat_interleave(torch.arange(len(target)), lengths)
    measures: dict[str, Metric | MetricCollection] = {
        "MAP": RetrievalMAP(empty_target_action="skip"),
        "MRR": RetrievalMRR(empty_target_action="skip"),
        "P@1": RetrievalPrecision(empty_target_action="skip", top_k=1),
        "P@5": RetrievalPrecision(empty_target_action="skip", top_k=5),
    }
    ranked = MetricCollection(measures)(torch.cat(predicted), torch.cat(target), indexes=queries)
    return {name: 100 * float(ranked[name]) for name in METRICS}
