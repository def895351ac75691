"""A target that is often one value is learned as two: its values elsewhere, and where."""

from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest.mock import Mock

import numpy as np
import pandas as pd
import pytest
import torch
import torch.nn.functional as F

from pyg_kernels.datasets import ChEMBLSulfonamides
from pyg_kernels.molecules.inputs import read_molecules
from pyg_kernels.molecules.methods import Hurdles, Outputs, Task, mixture_of
from pyg_kernels.molecules.training import JOINED, LOSSES, Learner, TrainingOptions
from tests.molecules.sets import regressor, reloaded, run, train

Numbers = np.ndarray[Any, Any]
Potencies = tuple[list[str], Numbers]


@pytest.fixture(scope="module")
def potencies() -> Potencies:
    """110 molecules, whose potency is 4 where they have fluorine."""
    molecules = ChEMBLSulfonamides()
    chosen = np.random.default_rng(0).permutation(len(molecules))[:110]  # the data are sorted
    smiles = [molecules.smiles[i] for i in chosen]
    y = np.array([float(molecules[int(i)].y) for i in chosen])
    return smiles, np.where(["F" in text for text in smiles], 4.0, y)


def test_spikes_are_far_more_frequent() -> None:
    for values, spike in (
        ([0.0] * 40 + list(range(1, 61)), 0.0),
        ([9.5] * 40 + list(np.linspace(-1, 1, 60)), 9.5),
        ([0.0] * 40 + list(range(1, 61)) + [np.nan] * 50, 0.0),
        ([0.0] * 19 + list(range(1, 61)), np.nan),  # too few
        ([0.0] * 40 + list(range(1, 20)), np.nan),  # too few elsewhere
        ([0.0] * 40 + [1.0] * 9 + list(range(2, 61)), np.nan),  # another value is frequent, too
        ([5.0] * 40 + list(range(60)), 5.0),
        ([0.0] * 40 + [1.0] * 5, np.nan),  # only two values
        ([0.0] * 25 + list(range(1, 3000)), np.nan),  # less than 1%
        ([], np.nan),
    ):
        hurdles = Hurdles.of(np.array(values, dtype=float)[:, None])
        np.testing.assert_array_equal(hurdles.spikes, [spike])


def test_joined_is_the_mean_and_the_variance_of_the_mixture() -> None:
    y = np.array([[7.0, 0.0], [7.0, 2.0], [np.nan, np.nan], [3.0, 5.0]])
    hurdles = Hurdles([np.nan, 0.0])
    expected = [[7, np.nan, 0], [7, 2, 1], [np.nan, np.nan, np.nan], [3, 5, 1]]
    np.testing.assert_array_equal(hurdles.divided(y), expected)
    mean, variance = np.array([[1.0, 3.0, 0.2]]), np.array([[0.5, 0.7, 0.1]])
    found = Hurdles([np.nan, -1.0]).joined(Outputs(mean, variance))
    values, weights = np.array([-1.0, 3.0]), np.array([0.8, 0.2])
    whole = weights @ values
    spread = weights @ ((values - whole) ** 2 + [0.0, 0.7])
    np.testing.assert_allclose(found.mean, [[1.0, whole]])
    np.testing.assert_allclose(found.variance, [[0.5, spread]])
    # shares are cut to [0, 1]
    found = Hurdles([-1.0]).joined(Outputs(np.array([[3.0, 1.4]]), np.array([[0.7, 0.1]])))
    assert found.mean.item() == 3.0
    # in the variance, no share is certain
    np.testing.assert_allclose(found.variance, [[0.999 * 0.7 + 0.999 * 0.001 * 16]])
    for flag in (-0.2, 0.0):
        found = Hurdles([-1.0]).joined(Outputs(np.array([[3.0, flag]]), np.array([[0.7, 0.1]])))
        assert found.mean.item() == -1.0 and found.variance.item() > 0.01


def test_networks_learn_values_elsewhere_and_classes() -> None:
    task = Task("regression", 3, (np.nan, 2.0))
    out = torch.randn(4, 3)
    learner = Learner(Mock(return_value=out), task, TrainingOptions(), [np.nan, -1.0])
    y = torch.tensor(
        [[0.3, torch.nan, 0.0], [torch.nan, 0.5, 1.0], [1.0, torch.nan, torch.nan], [2, 1, 1.0]]
    )
    batch: Any = SimpleNamespace(y=y, weight=torch.tensor([1.0, 2.0, 1.0, 0.0]))
    share = out[:, 2].sigmoid()
    joined = -1.0 + share * (out[:, 1] + 1.0)
    of_first = (out[0, 0] - 0.3) ** 2 + (out[2, 0] - 1.0) ** 2
    of_joined = (joined[0] + 1.0) ** 2 + 2 * (joined[1] - 0.5) ** 2
    classes = F.binary_cross_entropy_with_logits(out[:2, 2], y[:2, 2], reduction="none")
    elsewhere = 2 * (out[1, 1] - 0.5) ** 2
    loss, total = learner.losses(batch, LOSSES[0])
    assert total == 2 + 2 + 3 + 3
    of_parts = classes[0] + 2 * classes[1] + elsewhere
    torch.testing.assert_close(loss, of_first + of_parts + JOINED * of_joined)
    loss, total = learner.losses(batch, LOSSES[1])
    assert total == 2 + 3
    torch.testing.assert_close(loss, of_first + of_joined)


def test_several_targets_some_of_them_with_a_spike(potencies: Potencies, tmp_path: Path) -> None:
    smiles, y = potencies
    both = np.stack([y + 1, np.arange(110.0), -y], 1)
    both[::7, 0] = both[3::11, 2] = np.nan
    fitted = regressor(["wl-gp", "wl"], epochs=1).fit(smiles, both)
    np.testing.assert_array_equal(fitted.spikes_, [5.0, np.nan, -4.0])
    mean, std = fitted.predict(smiles[:9], return_std=True)
    assert mean.shape == std.shape == (9, 3)
    again = reloaded(fitted, tmp_path)
    np.testing.assert_array_equal(again.spikes_, fitted.spikes_)
    np.testing.assert_array_equal(again.predict(smiles[:9]), mean)
    assert fitted.interval_scale(0.5).shape == (3,)
    assert fitted.score(smiles, both) <= 1
    # explains the third target's values elsewhere (2), and whether it is elsewhere (4)
    assert fitted.explain(smiles[:2], target=2).output.shape == (2,)
    share = regressor("wl-gp").fit(smiles, both).explain(smiles[:2], target=4)
    assert (abs(share.output - 0.5) < 1).all()
    stack = regressor(["wl-gp", "wl"], epochs=1).fit(smiles, y)
    stack.model_weights_[:] = 0.5
    with pytest.raises(ValueError, match="target=1 is a share of kernel methods, log odds"):
        stack.explain(smiles[:2], target=1)
    with pytest.raises(ValueError, match="target=5 with 5 outputs"):
        fitted.explain(smiles[:2], target=5)


def test_members_are_a_mixture_of_what_each_joins(potencies: Potencies) -> None:
    smiles, y = potencies
    fitted = regressor(["wl-ridge", "wl", "graph-kernel"], ensemble_size=2).fit(smiles, y)
    assert all(member.task.spikes for member in fitted.members_)
    found = fitted.predict(smiles[:9], return_std=True)
    molecules = read_molecules(smiles[:9])
    parts = [member.task.hurdles.joined(member.outputs(molecules)) for member in fitted.members_]
    mixture = mixture_of(parts, fitted.member_weights())
    np.testing.assert_allclose(found, (mixture.mean[:, 0], mixture.variance[:, 0] ** 0.5))


def test_spikes_are_those_of_the_rows_that_are_learned(potencies: Potencies) -> None:
    smiles, y = potencies
    at = y == 4
    for made, given in (
        (regressor("wl-ridge"), {"sample_weight": at.astype(float)}),
        (regressor("wl-ridge"), {"sample_weight": (~at).astype(float)}),
        (regressor("wl-gp"), {"validation": np.flatnonzero(~at)[1:]}),
        (regressor("wl", epochs=1, hurdle=False), {}),
        (regressor("wl", epochs=1, training_options={"resample": 1.0}), {}),
    ):
        np.testing.assert_array_equal(made.fit(smiles, y, **given).spikes_, [np.nan])


def test_heads_start_where_spikes_are_the_same(potencies: Potencies) -> None:
    smiles, y = potencies
    made = partial(regressor, "wl", epochs=1, learning_rate=1e-12)

    def last(fitted: Any, place: int = 0) -> Any:
        return list(fitted.members_[place].net.net.head.parameters())[-2].detach()

    start = made().fit(smiles, y)
    same = made(random_state=1).fit(smiles, y, start_from=start)
    torch.testing.assert_close(last(same), last(start))
    several = made(ensemble_size=3).fit(smiles, y)
    others = made(ensemble_size=4, random_state=1).fit(smiles, y, start_from=several)
    for place, like in enumerate((0, 1, 2, 0)):
        torch.testing.assert_close(last(others, place), last(several, like))
    two = np.stack([np.arange(110.0)] * 2, 1)  # as many outputs, with another meaning
    other = made(random_state=1).fit(smiles, two, start_from=start)
    assert last(other).shape == last(start).shape
    assert not torch.allclose(last(other), last(start), atol=1e-3)


def test_the_command_says_so_and_explains_both(potencies: Potencies, tmp_path: Path) -> None:
    frame = pd.DataFrame({"smiles": potencies[0], "y": potencies[1]})
    frame.to_csv(tmp_path / "m.csv", index=False)
    said = train(tmp_path, "run", "y --model wl-gp")
    assert "y is often 4: learned as its other values, and whether it has one" in said
    words = "explain +run +m.csv --limit 2 --out +explained --overwrite --target"
    run(tmp_path, words, "y not 4")
    shares = pd.read_csv(tmp_path / "explained" / "explanation.csv")
    assert set(shares["target"]) == {"y not 4"}
    assert "--target z: the run has y, y not 4" in run(tmp_path, words, "z", status=2)
