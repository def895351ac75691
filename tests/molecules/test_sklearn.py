"""scikit-learn's conventions: its own checks, searches, pipelines, joblib."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import joblib
import numpy as np
import pandas as pd
import pytest
from sklearn import config_context
from sklearn.base import clone
from sklearn.linear_model import Ridge
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.utils.estimator_checks import estimator_checks_generator
from sklearn.utils.validation import check_is_fitted, validate_data

from pyg_kernels.kernels import MoleculeSimilarity
from pyg_kernels.molecules import MoleculeClassifier, MoleculeRegressor, methods
from tests.molecules.sets import AROMATIC, LOGP, SMALL, SMILES, regressor


@pytest.fixture(autouse=True)
def few_penalties(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(methods, "PENALTIES", (10.0, 0.1))


class OnMatrices:
    """Reads the matrices of scikit-learn's checks as extra columns beside a single molecule."""

    def _table(self, X: Any, reset: bool) -> Any:
        rows = validate_data(self, X, reset=reset, dtype=np.float64, ensure_min_samples=2 * reset)
        table = pd.DataFrame(rows, columns=[str(i) for i in range(rows.shape[1])])
        return table.assign(smiles="C")

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Any:
        return super().fit(self._table(X, True), y, sample_weight)

    def _read(self, X: Any) -> Any:
        check_is_fitted(self)
        return super()._read(self._table(X, False))

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.two_d_array = True
        tags.input_tags.string = False
        return tags


class Regressor(OnMatrices, MoleculeRegressor):
    pass


class Classifier(OnMatrices, MoleculeClassifier):
    pass


# Not promised, because the validation part is drawn by position.
NO_SUCH_PROMISE = ("check_sample_weight_equivalence_on_dense_data",)
# Both estimators share the code that reads inputs: these checks run for the regressor alone.
OF_INPUTS = (
    *("transformer", "data_not_an_array", "estimators_dtypes", "dtype_object", "nan_inf"),
    *("contiguous", "memmap", "n_features_in", "fit2d", "pipeline", "sample_weights_"),
)


def checks() -> Iterator[Any]:
    for made in (Regressor("wl-ridge"), Classifier("wl-ridge")):
        for number, (estimator, check) in enumerate(estimator_checks_generator(made)):
            name = f"{check.func.__name__}{check.keywords or ''}"
            left_out = OF_INPUTS if isinstance(made, Classifier) else ()
            if not any(word in name for word in (*NO_SUCH_PROMISE, *left_out)):
                yield pytest.param(estimator, check, id=f"{type(made).__name__}-{number}-{name}")


@pytest.mark.parametrize(("estimator", "check"), checks())
def test_checks_of_scikit_learn(estimator: Any, check: Any) -> None:
    check(clone(estimator))


def test_search_over_parameters() -> None:
    order = np.random.default_rng(0).permutation(len(SMILES))
    search = GridSearchCV(MoleculeClassifier(**SMALL), {"model": ["wl-ridge", "wl"]}, cv=2)
    search.fit([SMILES[i] for i in order], AROMATIC[order])
    scores = search.cv_results_["mean_test_score"]
    assert np.isfinite(scores).all() and (scores <= 1).all()
    assert search.best_params_ == {"model": "wl-ridge"}


def test_folds_in_processes_of_joblib() -> None:
    scores = cross_val_score(
        regressor("wl", standardize=True), SMILES, LOGP, cv=2, n_jobs=2, error_score="raise"
    )
    assert np.isfinite(scores).all()


def test_a_configuration_for_frames_changes_nothing() -> None:
    models = [regressor(name).fit(SMILES, LOGP) for name in ("pooled", "wl-ridge")]
    with config_context(transform_output="pandas"):
        for model in models:
            again = clone(model).fit(SMILES, LOGP)
            np.testing.assert_array_equal(again.predict(SMILES), model.predict(SMILES))
        similarity = MoleculeSimilarity().fit(SMILES)
    assert similarity.threshold_ == MoleculeSimilarity().fit(SMILES).threshold_


def test_pipeline_on_graph_vectors_and_joblib(tmp_path: Path) -> None:
    steps = make_pipeline(regressor(["wl-ridge", "wl"]), Ridge(1e-3)).fit(SMILES, LOGP)
    assert steps.score(SMILES, LOGP) > 0.3
    joblib.dump(steps, tmp_path / "fitted.joblib")
    found = joblib.load(tmp_path / "fitted.joblib")
    np.testing.assert_array_equal(found.predict(SMILES), steps.predict(SMILES))
