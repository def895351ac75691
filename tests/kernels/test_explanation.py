"""Names of patterns, and predictions that are the sums of their parts."""

import pickle
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from sklearn.base import clone
from sklearn.kernel_ridge import KernelRidge
from sklearn.linear_model import LogisticRegression, PoissonRegressor, Ridge
from sklearn.pipeline import make_pipeline
from sklearn.svm import SVC, SVR
from torch_geometric.data import Batch, Data

from pyg_kernels.kernels import (
    CountKernel,
    KernelGP,
    KernelGPClassifier,
    LabelSequenceKernel,
    RandomWalkKernel,
    ShortestPathKernel,
    WLSubtreeKernel,
    explain,
    molecule_graphs,
    molecule_kernels,
)
from tests.covering import covering
from tests.kernels.cases import labelled_graph

MOLECULES = ["CCO", "CCN", "CC(=O)[O-]", "Cc1ccccc1", "C1CCCC1", "N#CC=C", "CCCO", "CC(C)Br", "C"]
SALT = "CC[NH3+].[Cl-].CCO"
GRAPHS = [labelled_graph(3 + i % 5, i) for i in range(16)]
Y = np.sin(np.arange(16.0) * 1.7)
NEW = labelled_graph(6, seed=77)
EDGES, BOND = torch.tensor([[0, 1, 1, 2], [1, 0, 2, 1]]), torch.tensor([1, 1, 2, 2])
LINE = Data(kind=["C", "N", "O"], num_nodes=3, edge_index=EDGES, bond=BOND)


@pytest.fixture
def chem() -> Any:
    return pytest.importorskip("rdkit.Chem", reason="molecules need the extra 'mol'")


def test_names_of_labels() -> None:
    for kernel, expected in (
        (WLSubtreeKernel(1, "kind"), "C N O C(N) N(C,O) O(N)"),
        (WLSubtreeKernel(1, "kind", "bond"), "C N O C(1:N) N(1:C,2:O) O(2:N)"),
        (WLSubtreeKernel(2, None), "* *(*) *(*,*) *(*(*),*(*)) *(*(*,*))"),
        (LabelSequenceKernel(3, "kind"), "C N O C-N N-C N-O O-N C-N-O O-N-C"),
        (LabelSequenceKernel(2, "kind", "bond"), "C N O C-1-N N-1-C N-2-O O-2-N"),
        (ShortestPathKernel(node_label="kind"), "C..1..N C..2..O N..1..C N..1..O O..1..N O..2..C"),
    ):
        for given in ([LINE], LINE, Batch.from_data_list([LINE, LINE])):
            fitted = pickle.loads(pickle.dumps(kernel.fit(given)))
            assert sorted(fitted.get_feature_names_out()) == sorted(expected.split())


@pytest.mark.parametrize("edge_label", [None, "edge_attr"])
def test_a_name_is_a_pattern(edge_label: str | None) -> None:
    """A graph's names are the same alone as among others; test_definitions.py tests columns."""
    kernel = WLSubtreeKernel(2, edge_label=edge_label).fit(GRAPHS)
    names = kernel.get_feature_names_out()
    assert len(set(names)) == len(names) == kernel.features_.shape[1]
    for graph, row in zip(GRAPHS, kernel.features_.toarray(), strict=True):
        own = WLSubtreeKernel(2, edge_label=edge_label).fit([graph])
        plain = {name.split(" #")[0] for name in names[row > 0]}
        assert {name.split(" #")[0] for name in own.get_feature_names_out()} == plain


def test_names_of_rows() -> None:
    """A one-hot row is named by its column; a row of a single column is named by its number."""
    edges = torch.zeros(2, 0).long()
    for rows, expected in (
        ([[0, 1, 0], [0.0, 0, 1], [1, 1, 0]], ["1", "2", "[1 1 0]"]),
        ([[0], [1], [7]], ["0", "1", "7"]),
    ):
        fitted = WLSubtreeKernel(0).fit([Data(x=torch.tensor(rows), edge_index=edges)])
        assert sorted(fitted.get_feature_names_out()) == expected
    roles = WLSubtreeKernel(1, "role").fit(["CCO", "C[NH3+]"]).get_feature_names_out()
    assert {"other", "donor/acceptor", "other(donor/acceptor/charge+1)"} < {*roles}
    leaves = torch.arange(1, 400)
    star = Data(x=torch.arange(400), edge_index=torch.stack([leaves, 0 * leaves]))  # a long name
    names = WLSubtreeKernel(2).fit([star]).get_feature_names_out()
    assert max(map(len, names)) < 40 and len(set(names)) == len(names)


@pytest.mark.parametrize(
    ("kernel", "label", "given"),
    [
        (WLSubtreeKernel, "x", list),
        (WLSubtreeKernel, "element", molecule_graphs),
        (LabelSequenceKernel, "x", molecule_graphs),
        (LabelSequenceKernel, "element", list),
    ],
)
def test_names_of_molecules_match_them(kernel: Any, label: str, given: Any, chem: Any) -> None:
    """A SMARTS matches from at least as many atoms, or along as many walks, as the count says."""
    assert len(kernel(2, label, "edge_attr").fit(given([SALT])).get_feature_names_out()) > 4
    fitted = kernel(2, label, "edge_attr").fit(given(MOLECULES))
    names, counts = fitted.get_feature_names_out(), fitted.features_.toarray()
    for molecule, row in zip(map(chem.MolFromSmiles, MOLECULES), counts, strict=True):
        for name, count in zip(names, row, strict=True):
            smarts = chem.MolFromSmarts(name.split(" #")[0])
            found = molecule.GetSubstructMatches(smarts, uniquify=False)
            if kernel is WLSubtreeKernel:
                found = {match[0] for match in found}
            assert len(found) >= count  # a SMARTS allows charges, and further neighbors of elements
            if label == "x" and "#" not in name and count and name != "[OX1H0]":
                assert len(found) == count
    mol = chem.AddHs(chem.MolFromSmiles("CCO"))
    for name in WLSubtreeKernel(1, edge_label="edge_attr").fit([mol]).get_feature_names_out():
        assert mol.HasSubstructMatch(chem.MolFromSmarts(name)), name


@pytest.mark.usefixtures("chem")
def test_other_atoms_than_the_molecule() -> None:
    """A graph whose nodes are not the atoms of its SMILES is named by its labels. Custom labels
    name their nodes, too, and a list of one name means that name.
    """

    def names(iterations: int, label: Any, items: list[Any]) -> list[str]:
        return sorted(WLSubtreeKernel(iterations, label).fit(items).get_feature_names_out())

    assert "C" in names(1, "kind", [Data(**LINE.to_dict(), smiles="CCCC")])
    assert names(0, "kind", [Data(**LINE.to_dict(), smiles="CNO")]) == ["C", "N", "O"]
    graph = Data(x=torch.eye(3), edge_index=EDGES, smiles="CNO")  # these are its atoms
    assert names(0, "x", [graph]) == ["[CX4H3]", "[NX3H1]", "[OX2H1]"]
    graphs = molecule_graphs(["CCO", "CN"])
    for graph in graphs:
        graph.cluster = ["even" if i % 2 == 0 else "odd" for i in range(graph.num_nodes or 0)]
    assert names(0, "cluster", graphs) == ["even", "odd"]
    for label in ("element", ["element"]):
        assert names(0, label, MOLECULES[:2]) == ["[#6]", "[#7]", "[#8]"]


def test_a_pattern_has_one_name(chem: Any) -> None:
    """The name depends neither on the rest of the molecule nor on the order of its atoms."""
    nicotine = chem.MolFromSmiles("CN1CCC[C@H]1c1cccnc1")
    penicillin = chem.MolFromSmiles("CC1(C)S[C@@H]2[C@H](NC(=O)Cc3ccccc3)C(=O)N2[C@H]1C(=O)O")
    turned = chem.RenumberAtoms(nicotine, list(range(nicotine.GetNumAtoms()))[::-1])
    names = []
    for mol in (nicotine, penicillin, turned):
        fitted = WLSubtreeKernel(3, "element", edge_label="edge_attr").fit([mol])
        found = fitted.get_feature_names_out()[len(fitted.labels_[0]) :]
        names.append(dict(zip(fitted.labels_[1].tolist(), found, strict=False)))
    both = names[0].keys() & names[1].keys()
    assert names[0] == names[2] and len(both) > 3
    assert all(names[0][k] == names[1][k] for k in both)


@pytest.mark.parametrize("kernel", [WLSubtreeKernel, LabelSequenceKernel, ShortestPathKernel])
@pytest.mark.parametrize("normalize", [False, True])
def test_min_count(kernel: Any, normalize: bool) -> None:
    whole = kernel(normalize=normalize).fit(GRAPHS)
    some = kernel(normalize=normalize, min_count=3).fit(GRAPHS)
    kept = np.asarray((whole.features_ > 0).sum(0)).ravel() >= 3
    assert 0 < kept.sum() < len(kept)
    names = whole.get_feature_names_out()[kept]
    assert len(names) == len(some.get_feature_names_out())
    for graphs in (GRAPHS, [NEW]):
        expected = whole.transform(graphs)[:, kept].toarray()
        np.testing.assert_array_equal(some.transform(graphs).toarray(), expected)
    assert some.features_.has_sorted_indices
    np.testing.assert_array_equal(some(GRAPHS), whole(GRAPHS))
    with pytest.raises(ValueError, match="min_count=0"):
        kernel(min_count=0).fit(GRAPHS)
    if kernel is WLSubtreeKernel:  # patterns of weight 0 count as well
        weighted = clone(some).set_params(iteration_weights=(1, 0, 1, 1)).fit(GRAPHS)
        assert weighted.get_feature_names_out().tolist() == some.get_feature_names_out().tolist()


def assert_adds_up(model: Any, x: Any, expected: Any, target: int = 0) -> Any:
    found = explain(model, x, target)
    assert abs(found.prediction - float(expected)) < 1e-8
    rest = found.bias + sum(found.others.values())
    assert abs(found.atoms.sum() + rest - float(expected)) < 1e-8
    assert len(found.names) == len(found.shares) == len(found.kernels)
    assert (np.diff(np.abs(found.shares)) <= 0).all()
    return found


PARTS = covering(
    kernel=[
        WLSubtreeKernel(2, edge_label="edge_attr", iteration_weights=(0.5, 0, 2)),
        LabelSequenceKernel(3, edge_label="edge_attr"),
        ShortestPathKernel(),
    ],
    compare=["dot", "min", "minmax"],
    normalize=[False, True],
)


@pytest.mark.parametrize("options", PARTS, ids=str)
def test_parts_add_up(options: dict[str, Any]) -> None:
    options = dict(options)
    kernel = clone(options.pop("kernel")).set_params(**options)
    for estimator, y in (
        (Ridge(), Y),
        (LogisticRegression(), Y > 0),
        (KernelRidge(kernel="precomputed"), Y),
        (SVR(kernel="precomputed"), Y),
        (SVC(kernel="precomputed"), Y > 0),
    ):
        kernel.set_params(output="gram" if hasattr(estimator, "kernel") else "features")
        model = make_pipeline(kernel, estimator).fit(GRAPHS, y)
        predict = model.predict if y is Y else model.decision_function
        assert_adds_up(model, NEW, predict([NEW])[0])
    for split in (False, True):
        gp = KernelGP([kernel, RandomWalkKernel(2, node_feature="x")], split=split)
        gp.fit(GRAPHS, np.stack([Y, Y**2], 1))
        for target in (0, 1):
            found = assert_adds_up(gp, NEW, gp.predict([NEW])[0, target], target)
            assert set(found.others) == {1} and not found.kernels.any()


def test_parts_of_a_classifier() -> None:
    """They add up to the mean log odds, or a class's logit; items may lack some targets."""
    kernels = [WLSubtreeKernel(2, compare="minmax"), RandomWalkKernel(2, node_feature="x")]
    pairs = np.stack([Y > 0, np.median(Y) < Y], 1).astype(float)
    pairs[:3, 1] = np.nan
    for labels in (Y > 0, pairs, np.arange(len(Y)) % 3):
        gp = KernelGPClassifier(kernels).fit(GRAPHS, labels)
        means = gp._posterior([NEW], False)[0][0]
        expected = means if means.size == 3 else means[1::2] - means[::2]
        for target, value in enumerate(expected):
            found = assert_adds_up(gp, NEW, value, target)
            assert set(found.others) == {1}
        with pytest.raises(ValueError, match=f"target={len(expected)}"):
            explain(gp, NEW, len(expected))
    likely = gp.predict_proba([NEW])[0]
    assert likely.argmax() == means.argmax()
    gp = KernelGPClassifier(kernels[0]).fit(GRAPHS, np.stack([np.arange(len(Y)) % 3, Y > 0], 1))
    with pytest.raises(TypeError, match=r"targets of \[3, 2\] classes"):
        explain(gp, NEW)


@pytest.mark.usefixtures("chem")
def test_parts_of_molecules() -> None:
    gp = KernelGP(molecule_kernels()).fit(MOLECULES, np.arange(9.0))
    for molecule in ("CC(=O)OCC", "[Fe]"):
        found = assert_adds_up(gp, molecule, gp.predict([molecule])[0])
        assert set(found.others) <= {10}
    assert set(found.kernels) <= {2}  # iron shares a role with others, nothing else


@pytest.mark.usefixtures("chem")
def test_parts_that_cancel() -> None:
    """A prediction near 0 has the rounding errors of its parts, in whatever unit."""
    kernel = WLSubtreeKernel(2, edge_label="edge_attr").fit(["CCO", "CCN", "CCCC"])
    x = kernel.transform(["CCO"]).toarray()[0]
    line = Ridge().fit(np.zeros((2, len(x))), np.zeros(2))
    for unit in (1e-12, 1e12):
        line.coef_ = unit * np.random.default_rng(0).normal(size=len(x))
        line.intercept_ = -float(x @ line.coef_) + 1e-9 * unit
        found = explain(make_pipeline(kernel, line), "CCO")
        assert abs(found.prediction) < 1e-8 * unit
    line.predict = lambda rows: (rows @ line.coef_) ** 2  # refused in any unit
    for unit in (1e-12, 1.0):
        line.coef_, line.intercept_ = np.full(len(x), unit), 0.0
        with pytest.raises(TypeError, match="linear in what it is given"):
            explain(make_pipeline(kernel, line), "CCO")


def test_parts_are_those_of_the_definition() -> None:
    """There are two kinds of nodes, which their labels alone tell apart."""
    none = torch.zeros(2, 0).long()
    graphs = [Data(x=torch.tensor(x), edge_index=none) for x in ([5, 5, 7], [7, 7, 7])]
    kernel = WLSubtreeKernel(0, compare="minmax", output="gram")
    model = make_pipeline(kernel, KernelRidge(kernel="precomputed")).fit(graphs, [1.0, 2.0])
    first, second = model[-1].dual_coef_
    found = explain(model, Data(x=torch.tensor([5, 7, 7, 9]), edge_index=none))
    # Counts 5: 1, 7: 2, 9: 1 against 5: 2, 7: 1, and against 7: 3; the maxima add up to 5 and 5.
    expected: dict[str, NDArray[Any]] = {"5": first / 5, "7": first / 5 + second * 2 / 5}
    assert {n: pytest.approx(s) for n, s in zip(found.names, found.shares, strict=True)} == expected
    sevens = expected["7"] / 2
    np.testing.assert_allclose(found.atoms, [expected["5"], sevens, sevens, 0])


GRAM, COUNTED = WLSubtreeKernel(output="gram"), WLSubtreeKernel()
LINEAR = "expected an estimator that is linear"


@pytest.mark.parametrize(
    ("model", "match"),
    [
        (make_pipeline(RandomWalkKernel(), Ridge()), "expected a KernelGP"),
        (KernelGP(COUNTED), "target=1"),
        (make_pipeline(COUNTED, Ridge()), "target=1"),
        (make_pipeline(GRAM, SVC(kernel="precomputed")), "expected two classes"),
        (make_pipeline(GRAM, SVR()), LINEAR),
        (make_pipeline(GRAM, KernelRidge()), LINEAR),
        (make_pipeline(COUNTED, PoissonRegressor()), LINEAR),
        (make_pipeline(COUNTED, SVC()), LINEAR),
    ],
)
def test_refused(model: Any, match: str) -> None:
    with pytest.raises(TypeError, match="a KernelGPClassifier, or a pipeline"):
        explain(Ridge(), NEW)
    model, target = clone(model).fit(GRAPHS, np.arange(16) % 3 + 1), int("target" in match)
    with pytest.raises(ValueError if target else TypeError, match=match):
        explain(model, NEW, target)


def test_kernels_of_counts_alone() -> None:
    class Counts(CountKernel):
        def _count(self, items: Any, dtype: Any) -> Any:
            return WLSubtreeKernel(1)._count(items, dtype)

    gp = KernelGP(Counts(), tune=False).fit(GRAPHS, Y)
    with pytest.raises(TypeError, match="Counts does not say where its patterns occur"):
        explain(gp, NEW)


@pytest.mark.usefixtures("chem")
def test_kernels_with_other_atoms() -> None:
    def larger(molecule: Any) -> Data:
        return Data(x=torch.zeros(len(molecule) + 1), edge_index=torch.zeros(2, 0).long())

    kernels = [WLSubtreeKernel(1), WLSubtreeKernel(0, featurizer=larger)]
    gp = KernelGP(kernels, tune=False).fit(["CCO", "C", "CC"], [0.0, 1.0, 2.0])
    with pytest.raises(ValueError, match="read x with 3 and with 4 nodes"):
        explain(gp, "CCO")
