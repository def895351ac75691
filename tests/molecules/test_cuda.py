"""On a CUDA device estimators train, predict and explain; what they fitted works on the CPU."""

from pathlib import Path

import numpy as np
import pytest
import torch

from pyg_kernels.molecules import load
from tests.molecules.sets import LOGP, SMILES, regressor

pytestmark = pytest.mark.cuda


@pytest.mark.parametrize(
    "model",
    ["wl", "wl-gated", "graph-kernel", "random-walk", "gated-walk", "gine", "attentive-fp", "gp"],
)
def test_estimators(model: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fitted = regressor(model, device="cuda").fit(SMILES, LOGP)
    found = fitted.predict(SMILES)
    assert np.isfinite(found).all()
    fitted.save(tmp_path / "fitted")
    shares = fitted.explain(SMILES[:2]) if model not in ("gine", "attentive-fp") else None
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    other = load(tmp_path / "fitted")
    np.testing.assert_allclose(other.predict(SMILES), found, rtol=1e-3, atol=1e-3)
    if shares is not None:
        for here, there in zip(other.explain(SMILES[:2]).atoms, shares.atoms, strict=True):
            np.testing.assert_allclose(here, there, rtol=1e-3, atol=1e-3)
