"""Networks: what stays when they are frozen, and what weights of molecules change."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from pyg_kernels.molecules import MoleculeRegressor
from tests.molecules.sets import LOGP, SMALL, SMILES


def regressor(model: Any, **options: Any) -> Any:
    return MoleculeRegressor(model, **{**SMALL, **options})


@pytest.mark.parametrize("model", ["gin", "tests.molecules.nets:TwoConvs"])
def test_frozen_networks_change_in_their_head_alone(model: str) -> None:
    first = regressor(model).fit(SMILES, LOGP)
    again = regressor(model, learning_rate=0.1).fit(SMILES, -LOGP, start_from=first, frozen=True)
    before, after = (found.members_[0].net for found in (first, again))
    moved = {
        name
        for name, value in before.state_dict().items()  # running means and variances as well
        if not torch.equal(after.state_dict()[name], value)
    }
    assert moved
    assert all(name.startswith(("net.head.", "net.lin.")) for name in moved)


def test_what_is_frozen_is_never_in_training_mode() -> None:
    options = {"dropout": 0.5, "epochs": 1}
    first = regressor("gin", **options).fit(SMILES, LOGP).members_[0].net
    net = first.train()
    assert all(module.training for module in net.modules())
    net.start_from(first, frozen=True)
    for module in (net, torch.nn.ModuleList([net])):
        module.train()
        in_training = {name for name, part in net.net.named_modules() if part.training}
        assert in_training
        assert all(name.split(".")[0] == "head" for name in in_training)
        module.eval()
        assert not any(part.training for part in net.modules())


def test_molecules_of_weight_zero_have_no_influence() -> None:
    weight = np.ones(len(SMILES))
    weight[10:20] = 0
    there = np.flatnonzero(weight)
    without = regressor("gin").fit(
        [SMILES[place] for place in there], LOGP[there], validation=np.arange(5)
    )
    y = np.where(weight > 0, LOGP, 1e6)
    fitted = regressor("gin").fit(SMILES, y, weight, validation=np.arange(5))
    np.testing.assert_allclose(fitted.predict(SMILES), without.predict(SMILES), rtol=1e-5)
