"""Loss, probabilities and ranking measures of classifiers against their definitions."""

import math
from dataclasses import asdict

import numpy as np
import pytest
import torch
from torch_geometric.data import Batch

pytest.importorskip("lightning", reason="the benchmark needs the extra 'bench'")

from benchmarks.harness.molecules.classifier import (
    BinaryTargets,
    MoleculeClassifier,
    RankingError,
    each_ranking_score,
    masked_cross_entropy,
    ranking_score,
)
from benchmarks.harness.molecules.models import ModelConfig

NAN = float("nan")


def random_predictions(seed, molecules=60, targets=5):
    """Classes with gaps, a target of one class, one without values, and coarse predictions."""
    generator = torch.Generator().manual_seed(seed)
    y = (torch.rand(molecules, targets, generator=generator) < 0.3).double()
    y[torch.rand(molecules, targets, generator=generator) < 0.4] = NAN
    y[:, 2] = torch.where(y[:, 2].isnan(), NAN, 0.0)
    y[:, 3] = NAN
    prediction = (torch.randn(molecules, targets, generator=generator) * 4).round() / 4  # has ties
    return y, prediction


def roc_auc(y, prediction):
    """How often a molecule of class 1 has the larger prediction of a pair; ties count half."""
    ones, zeros = prediction[y == 1], prediction[y == 0]
    larger = (ones[:, None] > zeros[None]) + 0.5 * (ones[:, None] == zeros[None])
    return larger.mean()


def average_precision(y, prediction):
    """Precision at each distinct threshold, times the recall gained there."""
    total, gained = 0.0, 0
    for threshold in sorted(set(prediction), reverse=True):
        above = prediction >= threshold
        hits = (y[above] == 1).sum()
        total += (hits - gained) / (y == 1).sum() * hits / above.sum()
        gained = hits
    return total


def test_loss_is_the_cross_entropy_of_measured_entries():
    logits = torch.tensor([[1.0, -2.0], [3.0, 4.0], [-5.0, 60.0]], requires_grad=True)
    y = torch.tensor([[0.0, NAN], [NAN, NAN], [1.0, 0.0]])
    loss = masked_cross_entropy(logits, y)
    expected = [-math.log(1 - 1 / (1 + math.exp(-1))), math.log(1 + math.exp(5)), 60.0]
    assert loss.item() == pytest.approx(sum(expected))
    loss.backward()
    probability = logits.detach().sigmoid()
    torch.testing.assert_close(
        logits.grad, torch.where(y.isnan(), 0.0, probability - y.nan_to_num())
    )


@pytest.mark.parametrize(("metric", "definition"), [("rocauc", roc_auc), ("ap", average_precision)])
def test_ranking_scores_are_means_over_targets_with_both_classes(metric, definition):
    y, prediction = (array.numpy() for array in random_predictions(0))
    expected = []
    for k in (0, 1, 4):
        measured = ~np.isnan(y[:, k])
        expected.append(definition(y[measured, k], prediction[measured, k]))
    each = each_ranking_score(metric, y, prediction)
    assert each == [*map(pytest.approx, expected[:2]), None, None, pytest.approx(expected[2])]
    assert ranking_score(metric, y, prediction) == pytest.approx(np.mean(expected))


@pytest.mark.parametrize(
    ("name", "metric", "targets"), [("ogbg-moltox21", "rocauc", 12), ("ogbg-molmuv", "ap", 17)]
)
def test_ranking_scores_are_those_of_ogbs_evaluator(name, metric, targets):
    evaluator = pytest.importorskip("ogb.graphproppred").Evaluator(name)
    y, prediction = (array.numpy() for array in random_predictions(1, 80, targets))
    expected = evaluator.eval({"y_true": y, "y_pred": prediction})[metric]
    assert ranking_score(metric, y, prediction) == pytest.approx(expected, abs=1e-15)


@pytest.mark.parametrize("metric", ["rocauc", "ap"])
def test_the_error_does_not_depend_on_batches(metric):
    y, prediction = random_predictions(2)
    error = RankingError(metric)
    for _ in range(2):
        for rows in torch.arange(60).split(7):
            error.update(prediction[rows].float(), y[rows].float())
        expected = 1 - ranking_score(metric, y.numpy(), prediction.numpy())
        assert error.compute().item() == pytest.approx(expected, abs=1e-6)
        error.reset()


def test_the_error_takes_the_batches_of_all_processes_together():
    y, prediction = random_predictions(3)
    shares = []
    for rows in (slice(0, 25), slice(25, 60)):
        share = RankingError("rocauc")
        share.update(prediction[rows].float(), y[rows].float())
        shares.append(share)
    mine = shares[0]
    states = {
        name: [getattr(share, name)[0] for share in shares] for name in ("prediction", "classes")
    }

    def gather(state: torch.Tensor, group: object = None) -> list[torch.Tensor]:
        return states["classes" if state.dtype == torch.int8 else "prediction"]

    mine.dist_sync_fn, mine.distributed_available_fn = gather, lambda: True
    together = mine.compute().item()
    expected = 1 - ranking_score("rocauc", y.numpy(), prediction.numpy())
    assert together == pytest.approx(expected, abs=1e-6)


def test_a_prediction_that_is_no_number_is_seen():
    y, prediction = random_predictions(4)
    measured = int((~y[:, 0].isnan()).nonzero()[0])
    missing = int(y[:, 0].isnan().nonzero()[0])
    prediction[missing, 0] = NAN
    assert math.isfinite(ranking_score("rocauc", y.numpy(), prediction.numpy()))
    prediction[measured, 0] = NAN
    assert math.isnan(ranking_score("rocauc", y.numpy(), prediction.numpy()))
    error = RankingError("rocauc")
    error.update(prediction.float(), y.float())
    assert math.isnan(error.compute().item())


def test_a_network_of_zeros_predicts_how_frequent_the_class_is():
    y = torch.tensor([[1.0, NAN], [0.0, 1.0], [0.0, NAN], [0.0, NAN]], dtype=torch.float64)
    targets = BinaryTargets.fit(["a", "b"], y)
    assert targets.log_odds == pytest.approx([math.log(1.5 / 3.5), math.log(1.5 / 0.5)])
    model = ModelConfig("mean", 65, 7, 2, hidden=1)
    classifier = MoleculeClassifier(asdict(model), asdict(targets), {}, "rocauc")
    batch = Batch(y=y.float())
    batch._num_graphs = 4
    expected = torch.tensor([[0.3, 0.75]], dtype=torch.float64).expand(4, 2)
    torch.testing.assert_close(classifier(batch), expected, rtol=0, atol=1e-6)
    loss = classifier.training_step(batch, 0)
    entropies = [-math.log(0.3), *[-math.log(0.7)] * 3, -math.log(0.75)]
    assert loss.item() == pytest.approx(sum(entropies) / 5)
    batch.divisor = torch.tensor(2.5)
    assert classifier.training_step(batch, 0).item() == pytest.approx(sum(entropies) / 2.5)


def test_other_values_than_classes_are_refused():
    targets = BinaryTargets(["a", "b"], [0.0, 0.0])
    y = torch.tensor([[1.0, NAN], [0.0, 1.0]])
    assert torch.equal(targets.standardize(y).nan_to_num(9), y.nan_to_num(9))
    y[1, 1] = 0.5
    for refuse in (targets.standardize, lambda y: BinaryTargets.fit(["a", "b"], y)):
        with pytest.raises(ValueError, match=r"0 and 1, but 'b' has a value 0\.5"):
            refuse(y)


def test_probabilities_keep_their_digits():
    assert BinaryTargets(["a", "b"], [0.0, 0.0]).texts([1.23456789e-9, 0.5]) == [
        "1.23457e-09",
        "0.5",
    ]
