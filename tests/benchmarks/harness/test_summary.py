"""What stands together in tables and pictures."""

import math

import pandas

from benchmarks.harness.progress import _known
from benchmarks.harness.summary import learning_curves, spread
from benchmarks.harness.task import Measure
from benchmarks.harness.training import Run


def test_an_epoch_without_a_training_score_leaves_a_gap():
    """A score that needs both classes is no number where the epoch saw one alone."""
    measures = [{"train_rocauc": math.nan, "valid_rocauc": 0.6}, {"train_rocauc": 0.7}]
    assert [_known(each) for each in measures] == [{"valid_rocauc": 0.6}, {"train_rocauc": 0.7}]
    epochs = [{"train_rocauc": 0.5}, {}, {"train_rocauc": 0.7}]
    history = [
        {"epoch": float(k), "valid_rocauc": 0.6, **epoch} for k, epoch in enumerate(epochs, start=1)
    ]
    run = Run({"model": "gin", "valid": 0.6}, history, pandas.DataFrame())
    figure = learning_curves([run], Measure("rocauc", "ROC-AUC"), "ROC-AUC", "made")
    *_, train = figure.axes[0].lines
    assert train.get_xdata().tolist() == [1, 2, 3]
    assert [math.isnan(value) for value in train.get_ydata()] == [False, True, False]


def test_the_deviation_is_that_of_a_sample():
    assert spread([1.0, 3.0], ".3f") == "2.000 ± 1.414"
    assert spread([1.0], ".3f") == "1.000"
