"""Shares of atoms, bonds and walks in predictions."""

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from pyg_kernels.molecules import MoleculeClassifier, MoleculeExplanation, MoleculeRegressor
from tests.molecules.sets import AROMATIC, LOGP, SMALL, SMILES

RINGS_OF = np.arange(len(SMILES)) % 4
WITH_PH = pd.DataFrame({"smiles": SMILES, "pH": np.linspace(2, 9, len(SMILES))})
WALKS = ["wl", "wl-gated", "graph-kernel", "random-walk", "gated-walk"]


def assert_adds_up(found: MoleculeExplanation) -> None:
    sums = np.array([atoms.sum() for atoms in found.atoms]) + found.constant
    np.testing.assert_allclose(sums, found.output, rtol=1e-6)


@pytest.mark.parametrize("model", WALKS)
@pytest.mark.parametrize("X", [SMILES, WITH_PH], ids=["smiles", "extra"])
def test_shares_of_atoms_add_up_to_the_prediction(model: str, X: Any) -> None:
    fitted = MoleculeRegressor(model, ensemble_size=2, **SMALL).fit(X, 10 * LOGP + 5)
    found = fitted.explain(X[:4], k=3)
    np.testing.assert_allclose(found.output, fitted.predict(X[:4]), rtol=1e-4, atol=1e-4)
    assert_adds_up(found)
    for i in range(4):
        assert len(found.walks[i]) == 3
        values = [abs(value) for _, value in found.walks[i]]
        assert values == sorted(values, reverse=True)
        if model == "gated-walk":  # its walks have bonds
            shares = found.atoms[i].sum()
            assert found.bonds[i].sum() == pytest.approx(shares, rel=1e-4, abs=1e-6)
            assert (found.to_frame()["part"] == "bond").sum() == sum(map(len, found.bonds))


@pytest.mark.parametrize("model", ["gp", "pooled", "wl-gp", "wl-ridge"])
def test_shares_of_atoms_by_kernel_methods(model: str) -> None:
    fitted = MoleculeRegressor(model).fit(SMILES, 10 * np.stack([LOGP, -LOGP], 1) + 5)
    found = fitted.explain(SMILES[:4], target=1)
    np.testing.assert_allclose(found.output, fitted.predict(SMILES[:4])[:, 1])
    assert_adds_up(found)
    for i in range(4):
        assert np.abs(found.atoms[i]).max() > 0
        assert b"<svg" in found.draw(i)
    assert set(found.to_frame()["part"]) == {"constant", "atom"}


def test_log_odds_of_logistic_regression() -> None:
    """Here for two classes; the next test has several."""
    fitted = MoleculeClassifier("wl-ridge").fit(SMILES, AROMATIC)
    found = fitted.predict_proba(SMILES[:3])
    expected = np.log(found[:, 1] / found[:, 0])
    np.testing.assert_allclose(fitted.explain(SMILES[:3]).output, expected)


@pytest.mark.parametrize("model", ["wl-ridge", "wl-gp"])
@pytest.mark.parametrize("names", [["a", "b", "c", "d"], ["a", "b", "c"]])
def test_a_class_that_was_not_fitted(model: str, names: list[str]) -> None:
    """The first class is in the validation part alone; the others keep their numbers."""
    labels = np.array([names[1 + i % (len(names) - 1)] for i in range(40)])
    labels[:5] = "a"
    fitted = MoleculeClassifier(model, refit=False).fit(SMILES, labels, validation=np.arange(10))
    likely = fitted.predict_proba(SMILES[12:15])
    with pytest.raises(ValueError, match="saw none of this class"):
        fitted.explain(SMILES[12:15], target=0)
    said = [fitted.explain(SMILES[12:15], target=k).output for k in range(1, len(names))]
    if len(names) == 3:
        np.testing.assert_allclose(said[0], -np.array(said[1]))
        assert ((np.array(said[1]) > 0) == (likely[:, 2] > 0.5)).all()
    elif model == "wl-ridge":
        np.testing.assert_allclose(said[0] - said[1], np.log(likely[:, 1] / likely[:, 2]))


def test_pictures_and_pages(tmp_path: Path) -> None:
    fitted = MoleculeClassifier("wl", **SMALL).fit(SMILES, AROMATIC)
    found = fitted.explain([SMILES[0], "[Na+]"], k=2)
    no, yes = fitted.predict_proba([SMILES[0]])[0]
    assert found.output[0] == pytest.approx(np.log(yes / no), abs=1e-4)
    assert b"<svg" in found.draw(0) and b"<svg" in found.draw(1)
    found.to_html(tmp_path / "page.html")
    page = (tmp_path / "page.html").read_text()
    assert page.count("<svg") == 2
    assert found._repr_html_() in page


@pytest.mark.parametrize("model", ["gp", "wl-gp", "auto"])
def test_shares_of_processes_of_classes(model: str) -> None:
    """For two classes, for the first of two targets, and for one of four classes."""
    half = np.arange(len(SMILES)) % 2
    for y, target in ((AROMATIC, 0), (np.stack([AROMATIC == "yes", half], 1), 0), (RINGS_OF, 2)):
        fitted = MoleculeClassifier(model, **SMALL).fit(SMILES[:24], y[:24])
        found = fitted.explain(SMILES[:3], target=target)
        assert_adds_up(found)
        if model != "auto" and target == 0:
            likely = fitted.predict_proba(SMILES[:3])[:, int(y is AROMATIC)]
            assert ((found.output > 0) == (likely > 0.5)).all()


def test_other_models_are_refused() -> None:
    for made, y, message in (
        (MoleculeClassifier("pooled", **SMALL), AROMATIC, "the second in regression"),
        (MoleculeRegressor("gin", **SMALL), LOGP, "model='gin'"),
        (MoleculeRegressor("wl-forest", **SMALL), LOGP, "model='wl-forest'"),
    ):
        fitted = made.fit(SMILES, y)
        with pytest.raises(ValueError, match=message):
            fitted.explain(SMILES[:2])
