"""``python -m benchmarks.kernels``: what it measures, and that nothing is measured twice."""

import os
import pickle
from contextlib import contextmanager
from dataclasses import replace
from unittest.mock import Mock, patch

import numpy as np
import pytest
import torch
from sklearn.kernel_ridge import KernelRidge

pytest.importorskip("rdkit", reason="the benchmark's molecules need the extra 'mol'")

from benchmarks.harness import memory
from benchmarks.harness.errors import RunError
from benchmarks.harness.options import Command, parse
from benchmarks.harness.study import in_own_process
from benchmarks.harness.task import PARTS
from benchmarks.kernels import accuracy, libraries, measure, options, regression
from tests.benchmarks.conftest import assert_refused, done, metrics_of, printed

PROGRAM = "benchmarks.kernels"
SMALL = ("--molecules", 40, "--walk-molecules", 3, "--copies", 1, 2, "--features", 8, 16)
SMALL += ("--rounds", 1)
OPTIONS = parse(PROGRAM, Command(options.Kernels, print), [*map(str, SMALL), "--device", "cpu"])


@pytest.fixture(scope="module")
def molecules(assay):
    """The 60 smallest of the 1,017: GraKeL multiplies matrices of |V| |V'| rows."""
    sizes = assay.batch(range(len(assay))).ptr.diff()
    return assay[sizes.argsort(stable=True)[:60]]


def write_set(path, number=40):
    """Writes molecules whose class follows from a single atom label."""
    rows = [f"{'C' * n}{'O' if n % 2 else 'N'},{n % 2}" for n in range(1, number + 1)]
    path.write_text("\n".join(["smiles,kind", *rows, "C,"]))
    return f"{path}:kind"


@contextmanager
def small(molecules):
    """Measures few molecules in this process, as in a separate one; lists the measurements."""
    measured = []

    def in_this_process(work, options, measurement, folder):
        measured.append(measurement)
        work, *sent = pickle.loads(pickle.dumps((work, options, measurement, folder)))
        return pickle.loads(pickle.dumps(work(*sent)))

    with (
        patch.multiple(libraries, load=lambda options: molecules, EDGES=2),
        patch.multiple(options, FEWER=20, EXACT_SIZES=(20, 40, 80)),
        patch.multiple(accuracy, PENALTIES=(1.0,), DEPTHS=range(1), INNER=2),
        patch.object(regression, "ORDER", 2),
        patch.object(measure, "in_own_process", in_this_process),
        patch.object(memory.gc, "collect"),  # slow in a process as large as this one
    ):
        yield measured


@pytest.fixture
def study(compare, molecules):
    """Calls the command line with small sizes, and notes what it measures."""
    with small(molecules) as measured:
        yield compare, measured


@pytest.fixture(scope="module")
def whole(molecules, tmp_path_factory):
    """A folder with all measurements, and the list of them."""
    folder = tmp_path_factory.mktemp("whole")
    words = (*SMALL, "--sets", write_set(folder / "set.csv"), "--out", folder / "out", "--quiet")
    with small(molecules) as measured:
        done(PROGRAM, *words, "--device", "cpu")
    return folder / "out", measured


def result_of(folder, task, method, size):
    found = {(one["task"], one["method"], one["size"]): one for one in metrics_of(folder)}
    return found[task, method, size]


def test_whole_study(whole):
    folder, measured = whole
    assert [m.size for m in measured if m.method == options.EXACT_GRAM] == [20, 40, 48]
    out = (folder / "table.md").read_text()
    for row in (
        *("cpu, ", "exact Gaussian process", "WL, min-max", "| random features | 16 | 48 |"),
        "atoms are labelled by their element, bonds have no labels",
        "the counts of every copy equal those of its original",
        "random 80/10/10 split",
    ):
        assert row in out
    assert not list(folder.glob("runs/*/*.npy"))
    once, twice = (result_of(folder, "wl-features", options.OURS, copies) for copies in (1, 2))
    assert (once["molecules"], twice["molecules"]) == (60, 120)
    assert once["columns"] == twice["columns"]
    assert 2 * once["entries"] == twice["entries"]
    assert twice["copies_equal"]
    for measurement in measured:
        result = result_of(folder, measurement.task, measurement.method, measurement.size)
        assert result["seconds"] > 0 and result["peak_mib"] >= 0


def test_values_are_those_of_grakel(whole):
    pytest.importorskip("grakel", reason="compares with GraKeL")
    folder, _ = whole
    for task in ("wl-min", "paths"):
        assert result_of(folder, task, options.OURS, 20)["difference"] < 1e-10
        assert "difference" not in result_of(folder, task, options.OURS, 40)
    for method, size in ((options.OURS, 10), (options.OURS, 40), (options.OURS_FROM_LIST, 40)):
        assert result_of(folder, "wl-gram", method, size)["difference"] == 0
    for size in (1, 3):
        assert result_of(folder, "walk-gram", options.OURS, size)["relative_difference"] < 1e-12
    assert "difference" not in result_of(folder, "wl-gram", options.GRAKEL, 40)
    graphs, y = accuracy.mutag()
    assert (len(graphs), np.bincount(y).tolist()) == (188, [63, 125])


def test_differences_of_values_and_of_bonds_are_noticed(study, whole, tmp_path, monkeypatch):
    run, measured = study
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    out = printed(run("--tasks", "wl-features", "wl-gram", "--bond-labels", "--threads", 2))
    assert os.environ["OMP_NUM_THREADS"] == "2"
    assert result_of(tmp_path / "out", "wl-features", options.OURS, 1)["threads"] == 2
    assert "wl-features 1, pyg_kernels: 0." in out
    assert options.GRAKEL not in {m.method for m in measured}
    with_bonds = result_of(tmp_path / "out", "wl-features", options.OURS, 1)["columns"]
    assert with_bonds > result_of(whole[0], "wl-features", options.OURS, 1)["columns"]
    pytest.importorskip("grakel", reason="compares with GraKeL")
    original = libraries.walk_gram
    monkeypatch.setattr(libraries, "walk_gram", lambda *words: 1.01 * original(*words))
    assert run("--tasks", "walk-gram", "--walk-molecules", 1, "--overwrite")[0] == 0
    found = result_of(tmp_path / "out", "walk-gram", options.OURS, 1)
    assert found["relative_difference"] == pytest.approx(0.01)


def test_sets_are_told_apart_and_not_mixed_with_others(study, tmp_path, monkeypatch):
    run, measured = study
    monkeypatch.setattr(accuracy, "KERNELS", {"WL, min": accuracy.KERNELS["WL, min"]})
    names = [write_set(tmp_path / name) for name in ("Set.csv", "set.csv")]
    words = ("--tasks", "accuracy", "--sets", *names)
    assert run(*words)[0] == 0
    assert len(list(tmp_path.glob("out/runs/*/record.json"))) == 2
    found = result_of(tmp_path / "out", "accuracy", names[0], 0)
    assert (found["molecules"], found["majority"]) == (40, 0.5)
    assert found["accuracy"]["WL, min"][0] > 0.9
    assert run(*words, "--resume")[0] == 0 and len(measured) == 2
    write_set(tmp_path / "set.csv", 24)
    assert_refused(run(*words, "--resume"), f"was made with set {names[1]}")
    values = tmp_path / "out" / "runs" / "other" / measure.VALUES
    values.parent.mkdir()
    values.write_bytes(b"")
    assert run(*words, "--report")[0] == 0 and values.exists()
    for name, why in (
        ("none.csv:y", "No such file"),
        ("nocolon", "expected MUTAG or FILE:COLUMN"),
        (f"{tmp_path / 'set.csv'}:absent", "'absent'; its columns are"),
    ):
        assert_refused(run("--tasks", "accuracy", "--sets", name, "--overwrite"), why)
    for name in (f"{tmp_path / 'set.csv'}:y", f"{tmp_path / 'set.csv'}:smiles", "none.csv:y"):
        assert measure.outcome(OPTIONS, options.Measurement("accuracy", name, 0), tmp_path)[
            "failed"
        ]


def test_without_grakel_its_rows_say_so(study, tmp_path, monkeypatch):
    run, _ = study
    monkeypatch.setattr(libraries, "import_module", Mock(side_effect=ImportError))
    out = printed(run("--tasks", "wl-gram", "--quiet"))
    assert out.count("GraKeL is not installed: pip install grakel") == 3
    assert result_of(tmp_path / "out", "wl-gram", options.OURS, 40)["seconds"] > 0


def test_a_failure_is_one_line(study, tmp_path, monkeypatch):
    run, _ = study
    failed = {"failed": "MemoryError: no room"}
    monkeypatch.setattr(measure, "in_own_process", lambda *_: failed)
    said = "benchmarks.kernels: error: wl-features 1, pyg_kernels: MemoryError: no room\n"
    assert run("--tasks", "wl-features") == (1, "", said)
    assert not list(tmp_path.glob("out/runs/*/record.json"))
    assert in_own_process(os.getpid) != os.getpid()
    with pytest.raises(RunError, match="the process was killed"):
        in_own_process(os._exit, 1)


def test_every_measurement_is_there_once_on_copies_in_other_orders(molecules):
    for setting in (OPTIONS, replace(OPTIONS, molecules=1), replace(OPTIONS, bond_labels=True)):
        plan = list(options.planned(setting, 1000, 800))
        names = [measurement.name for measurement in plan]
        assert len(set(names)) == len(names)
        assert all(measurement.size <= 1000 for measurement in plan)
    few = libraries.labeled(molecules, libraries.drawn(len(molecules), 40, seed=0))
    once, twice = (libraries.repeated(few, copies, seed=0) for copies in (1, 2))
    first, second = twice.edge_index.chunk(2, dim=1)
    assert torch.equal(first, once.edge_index)
    assert not torch.equal(second - once.num_nodes, first)


def test_both_regressions_are_ridge_regression(molecules, monkeypatch):
    """The exact one by its closed form; random features come close to it."""
    monkeypatch.setattr(regression, "ORDER", 2)
    parts = regression.Parts(molecules, torch.device("cpu"), size=40)
    found = regression.regress_with_gram(parts)
    kernel = regression.walk_kernel()
    gram = {p: kernel(parts.graphs[p], parts.graphs["train"]).double().numpy() for p in PARTS}
    train, ones = gram["train"], np.ones((40, 1))

    def error(penalty: float, part: str) -> float:
        """The intercept is not penalised: dual variables add up to zero."""
        system = np.block([[train + penalty * np.eye(40), ones], [ones.T, np.zeros((1, 1))]])
        *dual, intercept = np.linalg.solve(system, np.append(parts.y["train"], 0))
        return np.square(gram[part] @ dual + intercept - parts.y[part]).mean() ** 0.5

    scale = train.diagonal().mean() - train.mean()  # of the centred matrix
    penalties = [part * scale for part in regression.FRACTIONS]
    best = min(penalties, key=lambda one: error(one, "valid"))
    assert found["penalty"] == pytest.approx(best)
    for part in PARTS:
        assert found[part] == pytest.approx(error(best, part), rel=1e-4)
    features = regression.regress_with_features(parts, 1024)
    assert features["test"] == pytest.approx(found["test"], rel=0.15)
    assert features["fitted_on"] == found["fitted_on"] == 40
    nothing = {part: np.zeros((len(parts.y[part]), 40)) for part in PARTS}
    with pytest.warns(UserWarning, match="Singular"):
        found = regression._fitted(parts, nothing, 0.0, 0.0, KernelRidge(kernel="precomputed"))
    assert found["train"] == pytest.approx(parts.y["train"].std())


def test_parts_are_those_of_the_molecule_benchmark(assay, monkeypatch):
    from benchmarks.molecules import data
    from benchmarks.molecules.options import Options

    monkeypatch.setattr(data.datasets, "ChEMBLSulfonamides", lambda featurizer: assay)
    theirs = data.load_set("chembl", Options()).split("random", None).parts
    mine = libraries.parts_of(len(libraries.load(OPTIONS)))
    assert tuple(mine) == PARTS == libraries.PARTS
    for part in PARTS:
        assert mine[part].tolist() == theirs[part].tolist()
