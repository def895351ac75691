"""Randomized trees of molecules: what they read, their spread, and what an atom adds."""

import numpy as np
import pandas as pd
import pytest
from scipy import sparse
from sklearn.ensemble import ExtraTreesRegressor
from sklearn.preprocessing import StandardScaler

from pyg_kernels.kernels import WLSubtreeKernel
from pyg_kernels.molecules.inputs import read_molecules
from pyg_kernels.molecules.trees import ITERATIONS, LEAST, TREES, TRIED, MoleculeTrees
from tests.molecules.sets import AROMATIC, LOGP, SMILES

TABLE = pd.DataFrame({"smiles": SMILES, "pH": np.linspace(2, 9, len(SMILES))})
GRAPHS = read_molecules(TABLE).graphs()
Y = np.stack([LOGP, np.where(np.arange(len(LOGP)) % 3 == 0, np.nan, 5.0 - LOGP)], 1)


def features() -> sparse.csr_matrix:
    kernel = WLSubtreeKernel(ITERATIONS, edge_label="edge_attr", min_count=LEAST, verbose=False)
    counts = kernel.fit(GRAPHS).transform(GRAPHS)
    others = np.stack([np.append(graph.descriptors, graph.extra) for graph in GRAPHS])
    return sparse.csr_matrix(sparse.hstack([counts, others]), dtype=np.float32)


def test_means_and_spread_of_trees() -> None:
    noise = np.array([0.25, 0.5])
    trees = MoleculeTrees(noise, random_state=3).fit(GRAPHS, Y)
    means, stds = trees.predict(GRAPHS)
    x, scaler = features(), StandardScaler()
    for target, column in enumerate(scaler.fit_transform(Y).T):
        there = ~np.isnan(column)
        mean, scale = scaler.mean_[target], scaler.scale_[target]
        forest = ExtraTreesRegressor(TREES, max_features=TRIED, random_state=3)
        forest.fit(x[there], column[there])
        each = np.stack([tree.predict(x) for tree in forest.estimators_])
        np.testing.assert_allclose(means[:, target], mean + scale * each.mean(0))
        np.testing.assert_allclose(stds[:, target] ** 2, scale**2 * (each.var(0) + noise[target]))
    np.testing.assert_array_equal(trees.predict(GRAPHS, return_std=False), means)


@pytest.fixture(scope="module")
def trees() -> MoleculeTrees:
    return MoleculeTrees(np.full(2, 0.1), random_state=0).fit(GRAPHS, Y)


def test_shares_are_the_changes_of_means_on_the_way_to_leaves(trees: MoleculeTrees) -> None:
    x, scale = features().toarray(), trees._scaler.scale_[1]
    means, _ = trees.predict(GRAPHS)
    number = x.shape[1] - 14  # of environments, before descriptors and one extra column
    for place in range(6):
        added = np.zeros(x.shape[1])
        for tree in (each.tree_ for each in trees.forests[1]):
            node, values = 0, tree.value[:, 0, 0]
            while (compared := tree.feature[node]) >= 0:
                is_left = x[place, compared] <= tree.threshold[node]
                child = (tree.children_left if is_left else tree.children_right)[node]
                added[compared] += scale * (values[child] - values[node]) / TREES
                node = child
        expected = added[:number][x[place, :number] > 0]
        found = trees.explain(GRAPHS[place], 1)
        shares = np.sort(found.shares)
        np.testing.assert_allclose(shares, np.sort(expected[expected != 0]), atol=1e-12)
        assert len(found.atoms) == GRAPHS[place].num_nodes
        assert found.prediction == pytest.approx(means[place, 1], abs=1e-8)
        assert found.atoms.sum() + found.bias == pytest.approx(means[place, 1], abs=1e-8)


@pytest.mark.parametrize("scale", [2.0**-40, 2.0**30])  # powers of two scale exactly
def test_units_of_targets(scale: float, trees: MoleculeTrees) -> None:
    other = MoleculeTrees(np.full(2, 0.1), random_state=0).fit(GRAPHS, scale * Y)
    np.testing.assert_allclose(np.stack(other.predict(GRAPHS)) / scale, trees.predict(GRAPHS))
    one, same = trees.explain(GRAPHS[0], 1), other.explain(GRAPHS[0], 1)
    np.testing.assert_allclose(same.atoms / scale, one.atoms, atol=1e-12)
    assert same.prediction / scale == pytest.approx(one.prediction)


def test_targets_far_from_zero_and_columns_beyond_single_precision(trees: MoleculeTrees) -> None:
    far, _ = MoleculeTrees(np.full(2, 0.1), random_state=0).fit(GRAPHS, Y + 1e8).predict(GRAPHS)
    near, _ = trees.predict(GRAPHS)
    assert np.corrcoef(near[:, 0], far[:, 0] - 1e8)[0, 1] > 0.99
    (beyond,) = read_molecules(TABLE[:1].assign(pH=1e300)).graphs()
    assert np.isfinite(trees.predict([beyond])[0]).all()


def test_few_molecules_and_equal_ones() -> None:
    """If no environment is in enough molecules, descriptors remain; equal targets are predicted."""
    few = read_molecules(["C", "CCO"]).graphs()
    trees = MoleculeTrees(np.ones(1), random_state=0).fit(few, np.array([[1.0], [2.0]]))
    np.testing.assert_allclose(trees.predict(few)[0][:, 0], [1.0, 2.0])
    found = trees.explain(few[1], 0)
    assert found.prediction == pytest.approx(2.0)
    np.testing.assert_array_equal(found.atoms, np.zeros(3))
    same = read_molecules(["CCO"] * 4).graphs()
    trees = MoleculeTrees(np.ones(1), random_state=0).fit(same, np.full((4, 1), 7.0))
    means, stds = trees.predict(few)
    np.testing.assert_allclose((means, stds), (np.full((2, 1), 7.0), np.ones((2, 1))))
    assert trees.explain(few[0], 0).prediction == pytest.approx(7.0)


def test_molecules_without_a_target_change_nothing() -> None:
    noise, rows = np.ones(2), np.arange(0, len(GRAPHS), 2)
    given = np.full_like(Y, np.nan)
    given[rows] = Y[rows]
    trees = MoleculeTrees(noise, random_state=0).fit(GRAPHS, given)
    alone = MoleculeTrees(noise, random_state=0).fit([GRAPHS[i] for i in rows], Y[rows])
    np.testing.assert_array_equal(trees.predict(GRAPHS), alone.predict(GRAPHS))


def test_probabilities() -> None:
    labels = np.stack([np.array(AROMATIC) == "yes", np.arange(len(SMILES)) % 2], 1).astype(float)
    trees = MoleculeTrees(None, random_state=0).fit(GRAPHS, labels)
    found = trees.predict_proba(GRAPHS)
    assert [list(classes) for classes in trees.classes_] == [[0.0, 1.0]] * 2
    for target in range(2):
        assert found[target].shape == (len(SMILES), 2)
        np.testing.assert_array_equal(found[target].argmax(1), labels[:, target])
