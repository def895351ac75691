"""One ranking out of several."""

from collections.abc import Iterator, Sequence

import numpy as np
import torch
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GroupKFold
from torch import Tensor

FOLDS = 5


class Reranker:
    """A linear classifier of similar candidates over the scores of several rankers.

    Each ranker's scores are standardised within a query (those of one value become 0), then
    weighed by a logistic regression (scikit-learn) that counts similar and other candidates alike.

    Args:
        strength (float): Of the penalty on the squared weights, scikit-learn's ``1 / C``.

    Attributes:
        weights_ (Tensor): One a ranker, once fitted.
    """

    weights_: Tensor

    def __init__(self, strength: float = 1.0) -> None:
        self.strength = strength

    def fit(self, scores: Sequence[Sequence[Tensor]], relevance: Sequence[Tensor]) -> "Reranker":
        """Learns the weights.

        Args:
            scores (sequence of sequences of Tensor): Of each ranker, for each query ``(C,)``.
            relevance (sequence of Tensor): For each query ``(C,)`` bool.

        Raises:
            ValueError: If shapes differ, a score is not finite, or all candidates are similar or
                none is.
        """
        features = _features(scores)
        _check(features, relevance)
        similar = torch.cat(list(relevance)).bool().cpu().numpy()
        if similar.all() or not similar.any():
            raise ValueError("a re-ranker needs candidates that are similar and some that are not")
        model = LogisticRegression(C=1 / self.strength, class_weight="balanced")
        model.fit(torch.cat(features).numpy(), similar)
        self.weights_ = torch.from_numpy(model.coef_[0])
        return self

    def scores(self, scores: Sequence[Sequence[Tensor]]) -> list[Tensor]:
        """For each query ``(C,)`` float64, the weighed sum of the rankers' scores.

        Args:
            scores (sequence of sequences of Tensor): As in :meth:`fit`, of the same rankers.

        Raises:
            ValueError: If shapes differ, a score is not finite, or the rankers are not as many.
        """
        if len(scores) != len(self.weights_):
            raise ValueError(f"there are {len(scores)} rankers, not {len(self.weights_)}")
        return [features @ self.weights_ for features in _features(scores)]


def cross_validated(
    scores: Sequence[Sequence[Tensor]], relevance: Sequence[Tensor], strength: float = 1.0
) -> list[Tensor]:
    """The re-ranker's scores of queries that it has not learned from.

    The queries are dealt to five folds in turn; each fold's scores come from the other four.

    Args:
        scores (sequence of sequences of Tensor): As in :meth:`Reranker.fit`.
        relevance (sequence of Tensor): As in :meth:`Reranker.fit`.
        strength (float): As in :class:`Reranker`.

    Returns:
        list of Tensor: For each query ``(C,)`` float64.

    Raises:
        ValueError: As :meth:`Reranker.fit`, or if there is one query alone.
    """
    number = len(relevance)
    if number < 2:
        raise ValueError(f"cross-validation needs at least two queries, got {number}")
    found: dict[int, Tensor] = {}
    for train, held in _folds(number):
        model = Reranker(strength).fit(
            [[ranker[q] for q in train] for ranker in scores], [relevance[q] for q in train]
        )
        held_scores = model.scores([[ranker[q] for q in held] for ranker in scores])
        found |= dict(zip(held.tolist(), held_scores, strict=True))
    return [found[query] for query in range(number)]


def obstacle(relevance: Sequence[Tensor]) -> str | None:
    """Why no re-ranker can be learned from some queries and cross-validated on them.

    Args:
        relevance (sequence of Tensor): As in :meth:`Reranker.fit`.

    Returns:
        The reason; ``None`` if one can.
    """
    if len(relevance) < 2:
        return "cross-validation takes at least two queries"
    for train, _ in _folds(len(relevance)):
        similar = torch.cat([relevance[q] for q in train])
        if similar.all() or not similar.any():
            return "a fold of the cross-validation learns from similar candidates or others alone"
    return None


def _folds(number: int) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """The queries to learn from and those held out, fold by fold."""
    queries = np.arange(number)
    return GroupKFold(min(FOLDS, number)).split(queries, groups=queries)


def _features(scores: Sequence[Sequence[Tensor]]) -> list[Tensor]:
    """For each query (C, R) float64, the standardised scores of the R rankers."""
    if len({len(ranker) for ranker in scores}) != 1:
        raise ValueError("all rankers must have scores of the same queries, and there must be one")
    features = []
    for query, columns in enumerate(zip(*scores, strict=True)):
        if len({column.shape for column in columns}) != 1 or columns[0].dim() != 1:
            raise ValueError(f"the scores of query {query} must all be of one shape (C,)")
        raw = torch.stack([column.detach().cpu().double() for column in columns], dim=1)
        if not bool(raw.isfinite().all()):
            raise ValueError(f"query {query} has a score that is not finite")
        centered = raw - raw.mean(dim=0)
        spread = centered.square().mean(dim=0).sqrt()
        # Rounding must not blow up scores of one value.
        constant = spread <= 1e-6 * raw.abs().amax(dim=0)
        features.append(torch.where(constant, 0.0, centered / spread.where(~constant, 1.0)))
    return features


def _check(features: Sequence[Tensor], relevance: Sequence[Tensor]) -> None:
    if len(features) != len(relevance):
        raise ValueError(f"scores are of {len(features)} queries, relevance of {len(relevance)}")
    for query, (scores, similar) in enumerate(zip(features, relevance, strict=True)):
        if similar.shape != scores.shape[:1]:
            raise ValueError(
                f"query {query} has {len(scores)} candidates, relevance of shape "
                f"{tuple(similar.shape)}"
            )
