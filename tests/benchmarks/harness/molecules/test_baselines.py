"""Kernel methods in the molecule benchmark, beside their definitions in NumPy."""

import itertools
import json
import math
from collections import Counter

import numpy as np
import pytest
import torch

pytest.importorskip("lightning", reason="the benchmark needs the extra 'bench'")
pytest.importorskip("rdkit", reason="the benchmark's molecules need the extra 'mol'")

import pandas

from benchmarks.harness import fitting
from benchmarks.harness.molecules.labels import labeled
from pyg_kernels.chem import OGBFeaturizer
from pyg_kernels.datasets import ChEMBLSulfonamides, MoleculeDataset
from tests.benchmarks.interruption import interrupt_once
from tests.ogb_sets import SMILES

WL, GP = "wl-subtree-3", "random-walk-gp"


def share(smiles, letters):
    """Of some letters in a SMILES string: what a normalised kernel can learn."""
    return sum(map(smiles.count, letters)) / len(smiles)


@pytest.fixture
def gaps(sulfonamides, write_csv):
    """The 60 molecules with two targets that miss some values, and a split column."""
    rows = [
        {
            "smiles": row["smiles"],
            "part": ["train", "train", "train", "valid", "test"][k % 5],
            "a": str(share(row["smiles"], "F") + float(row["pIC50"]) / 100) if k % 3 else "",
            "b": str(-900 * share(row["smiles"], "cn") + k) if k % 4 else "",
        }
        for k, row in enumerate(sulfonamides)
    ]
    return write_csv(rows, "gaps")


def subtree_counts(data, iterations, numbers):
    """Counts of subtree patterns, each numbered when it is met first."""

    def number(pattern):
        return numbers.setdefault(pattern, len(numbers))

    atoms = [number(tuple(row)) for row in data.x.tolist()]
    bonds = [number(tuple(row)) for row in data.edge_attr.tolist()]
    counts = Counter(atoms)
    for _ in range(iterations):
        neighbors = [[] for _ in atoms]
        for (source, target), bond in zip(data.edge_index.t().tolist(), bonds, strict=True):
            neighbors[target].append((bond, atoms[source]))
        atoms = [
            number((own, tuple(sorted(around))))
            for own, around in zip(atoms, neighbors, strict=True)
        ]
        counts.update(atoms)
    return counts


def walk_kernel(a, b, nodes):
    """Eq. 5 of Lei et al. 2017 by dense products over pairs of atoms and of bonds."""
    match = (a.x @ b.x.t()).double().numpy()
    bonds = (a.edge_attr @ b.edge_attr.t()).double().numpy()
    walks = match
    for _ in range(nodes - 1):
        following = np.zeros_like(match)
        (s, t), (u, v) = a.edge_index.numpy(), b.edge_index.numpy()
        np.add.at(following, (t[:, None], v[None]), bonds * walks[s[:, None], u[None]])
        walks = match * following
    return walks.sum()


def table_of(folder, model, target, part, seed=0):
    """SMILES, values and predictions of a part, in the order of the molecules."""
    table = pandas.read_csv(folder / "predictions.csv")
    chosen = (table["model"] == model) & (table["target"] == target) & (table["part"] == part)
    return table[chosen & (table["seed"] == seed)]


def record_of(folder, model, seed=0):
    records = json.loads((folder / "metrics.json").read_text())
    (found,) = [r for r in records if (r["model"], r["seed"]) == (model, seed)]
    return found


def test_labels_tell_feature_rows_apart():
    molecules = ChEMBLSulfonamides()[:200]
    batch, graphs = molecules.batch(range(200)), labeled(molecules)
    for label, features in ((graphs.atom, batch.x), (graphs.bond, batch.edge_attr)):
        _, expected = features.unique(dim=0, return_inverse=True)
        pairs = torch.stack([label, expected]).unique(dim=1)
        assert pairs.size(1) == len(label.unique()) == len(expected.unique()) > 3
    assert torch.equal(graphs.element, batch.x[:, :44].argmax(dim=1))
    assert torch.equal(graphs.edge_index, batch.edge_index)
    assert torch.equal(graphs.ptr, batch.ptr)


def test_labels_tell_all_of_ogbs_feature_rows_apart():
    pytest.importorskip("ogb", reason="OGB's features need the extra 'mol'")
    molecules = MoleculeDataset.from_smiles(
        [*SMILES, "[O-][N+](=O)c1ccccc1", "[Og]", "[Og+]"], featurizer=OGBFeaturizer()
    )
    batch, graphs = molecules.batch(range(len(molecules))), labeled(molecules)
    assert graphs.atom.max() > 2**24  # where float32 would take neighbours for one
    for label, features in ((graphs.atom, batch.x), (graphs.bond, batch.edge_attr)):
        _, expected = features.unique(dim=0, return_inverse=True)
        pairs = torch.stack([label, expected]).unique(dim=1)
        assert pairs.size(1) == len(label.unique()) == len(expected.unique()) > 3
    codes = molecules._data.atom_codes.long()
    number, step = torch.zeros(len(codes), dtype=torch.long), 1
    for k, size in enumerate((119, 5, 12, 12, 10, 6, 6, 2, 2)):
        number, step = number + step * codes[:, k], step * size
    assert torch.equal(graphs.atom, number)
    assert torch.equal(graphs.element, codes[:, 0])


@pytest.mark.parametrize("iterations", [3, 6])
def test_subtree_ridge_is_ridge_regression_on_counts(compare, gaps, tmp_path, iterations):
    name = f"wl-subtree-{iterations}"
    words = ("--csv", gaps, "--split-column", "part", "--target-columns", "a", "b")
    assert compare(*words, "--model", name)[::2] == (0, "")
    record = record_of(tmp_path / "out", name)
    parts = {
        part: table_of(tmp_path / "out", name, "a", part) for part in ("train", "valid", "test")
    }
    numbers = {}
    counts = {
        part: [
            subtree_counts(data, iterations, numbers)
            for data in MoleculeDataset.from_smiles(rows["smiles"].tolist())
        ]
        for part, rows in parts.items()
    }
    patterns = sorted(set().union(*counts["train"]))
    x = {
        part: np.array([[c[pattern] for pattern in patterns] for c in counts[part]], float)
        for part in parts
    }
    assert record["num_parameters"] == 2 * (len(patterns) + 1)
    assert record["fitted_on"] == 36
    for k, target in enumerate(("a", "b")):
        rows = {part: table_of(tmp_path / "out", name, target, part) for part in parts}
        y = rows["train"]["y"].to_numpy()
        measured = ~np.isnan(y)
        std = y[measured].std()
        center = x["train"][measured].mean(axis=0)
        centered = x["train"][measured] - center

        def predict(penalty, part, y=y[measured], std=std, center=center, centered=centered):
            gram = centered @ centered.T + penalty * np.eye(len(centered))
            dual = np.linalg.solve(gram, (y - y.mean()) / std)
            return y.mean() + std * (x[part] - center) @ (centered.T @ dual)

        penalty = record["penalties"][k]
        for part in parts:
            found = rows[part]["prediction"].to_numpy()
            assert found == pytest.approx(predict(penalty, part), abs=1e-4 * std)
        errors = {
            times: np.nanmean((predict(times * penalty, "valid") - rows["valid"]["y"]) ** 2)
            for times in (10**-0.5, 1, 10**0.5)
        }
        assert errors[1] <= min(errors.values()) * (1 + 1e-5)  # the search is up to tolerance


def test_walk_process_is_the_posterior_of_the_walk_kernel(compare, gaps, tmp_path):
    words = ("--csv", gaps, "--split-column", "part", "--target-columns", "a", "b")
    assert compare(*words, "--model", GP, "--gp-molecules", 24, "--order", 4)[::2] == (0, "")
    record = record_of(tmp_path / "out", GP)
    assert record["fitted_on"] == 24
    assert record["num_parameters"] == 2 * (24 + 2)
    train = table_of(tmp_path / "out", GP, "a", "train")
    seen = train["prediction"].notna().to_numpy()
    assert (len(train), seen.sum()) == (36, 24)
    test = table_of(tmp_path / "out", GP, "a", "test")
    graphs, new = (
        list(MoleculeDataset.from_smiles(rows["smiles"].tolist())) for rows in (train[seen], test)
    )
    own = {
        part: [walk_kernel(g, g, 4) for g in some]
        for part, some in (("train", graphs), ("test", new))
    }

    def gram(some, norms):
        values = [[walk_kernel(g, h, 4) for h in graphs] for g in some]
        return np.array(values) / np.sqrt(np.outer(norms, own["train"]))

    k, cross = gram(graphs, own["train"]), gram(new, own["test"])
    errors = []
    for column, target in enumerate(("a", "b")):
        every = table_of(tmp_path / "out", GP, target, "train")
        mean, std = every["y"].mean(), every["y"].std(ddof=0)
        y = ((every["y"] - mean) / std).to_numpy()[seen]
        rows = ~np.isnan(y)
        block = k[np.ix_(rows, rows)]

        def likelihood(amplitude, noise, block=block, y=y[rows]):
            matrix = amplitude * block + noise * np.eye(len(block))
            return -0.5 * (y @ np.linalg.solve(matrix, y) + np.linalg.slogdet(matrix)[1])

        amplitude, noise = record["amplitude"][column], record["noise"][column]
        best = likelihood(amplitude, noise)
        others = 10 ** np.linspace(-4, 4, 41)
        for factors in itertools.product(others, others):
            assert likelihood(amplitude * factors[0], noise * factors[1]) < best + 1e-9
        dual = np.linalg.solve(amplitude * block + noise * np.eye(len(block)), y[rows])
        expected = mean + std * amplitude * cross[:, rows] @ dual
        found = table_of(tmp_path / "out", GP, target, "test")["prediction"].to_numpy()
        assert found == pytest.approx(expected, abs=1e-4 * std)
        fitted = mean + std * amplitude * k[:, rows] @ dual
        assert every["prediction"].to_numpy()[seen] == pytest.approx(fitted, abs=1e-4 * std)
        errors.append(math.sqrt(np.nanmean((every["prediction"] - every["y"]) ** 2)))
    assert record["train"] == pytest.approx(sum(errors) / 2, rel=1e-6)


def test_rows_say_how_they_were_fitted(compare, molecules_csv, tmp_path):
    words = ("--csv", molecules_csv, "--model", "gine", WL, GP, "--gp-molecules", 20)
    status, out, err = compare(*words, "--seeds", 0, 1)
    assert (status, err) == (0, "")
    records = json.loads((tmp_path / "out" / "metrics.json").read_text())
    assert [(r["model"], r["seed"]) for r in records] == [
        *(("gine", 0), ("gine", 1)),
        (WL, 0),  # it does not depend on the seed
        *((GP, 0), (GP, 1)),
    ]
    assert records[3]["test"] != records[4]["test"]
    for record in records[2:]:
        assert (record["epochs"], record["seconds_per_epoch"]) == (0, 0)
        assert record["seconds"] > 0
    rows = {line.split()[0]: line for line in out.splitlines() if " random " in line}
    assert [rows[name].split()[3] for name in ("gine", WL, GP)] == ["48", "48", "20"]
    assert rows[WL].endswith(" to fit")
    assert "±" not in rows[WL]
    assert "±" in rows[GP]
    assert f"{WL}: ridge regression on " in out
    assert f"{GP}: Gaussian process on 20 molecules" in out

    before = (tmp_path / "out" / "metrics.json").read_text()
    assert compare(*words, "--seeds", 0, 1, "--resume")[0] == 0
    assert (tmp_path / "out" / "metrics.json").read_text() == before
    status, _, err = compare(*words, "--seeds", 0, 1, "--resume", "--gp-molecules", 21)
    assert (status, err.count("\n")) == (2, 1)
    assert "random-walk-gp of another size" in err


def test_resume_after_an_interruption(compare, molecules_csv, tmp_path, monkeypatch):
    words = ("--csv", molecules_csv, "--model", WL, GP, "--gp-molecules", 20)
    assert compare(*words, "--out", tmp_path / "whole")[0] == 0
    raised = interrupt_once(
        monkeypatch,
        fitting,
        "torch_device",
        lambda device: (tmp_path / "out/metrics.json").exists(),
    )
    status, _, err = compare(*words)
    assert (status, raised) == (130, [True])
    assert "--resume" in err
    assert compare(*words, "--resume")[0] == 0
    for name in ("predictions.csv",):
        assert (tmp_path / "out" / name).read_text() == (tmp_path / "whole" / name).read_text()


@pytest.mark.parametrize("model", [WL, GP])
def test_checkpoint_predicts_new_molecules(call, compare, gaps, tmp_path, model):
    words = ("--csv", gaps, "--split-column", "part", "--target-columns", "a", "b")
    assert compare(*words, "--model", model)[0] == 0
    checkpoint = tmp_path / "out" / "runs" / f"{model}-seed0" / "best.ckpt"
    found = {}
    for target in ("a", "b"):
        rows = table_of(tmp_path / "out", model, target, "test")
        found[target] = dict(zip(rows["smiles"], rows["prediction"], strict=True))
    path = tmp_path / "new.csv"
    path.write_text("smiles\n" + "\n".join([*found["a"], "CCO", "[He]"]) + "\n")
    predict = ("predict", "--checkpoint", checkpoint, "--csv", path, "--out", tmp_path / "p.csv")
    assert call(*predict, "--device", "cpu") == (0, "", "")
    table = pandas.read_csv(tmp_path / "p.csv")
    assert len(table) == len(found["a"]) + 2
    assert table.notna().all(axis=None)
    for row in table.head(len(found["a"])).itertuples():
        assert row.predicted_a == pytest.approx(found["a"][row.smiles], rel=1e-5)
        assert row.predicted_b == pytest.approx(found["b"][row.smiles], rel=1e-5)


def test_changed_checkpoints_are_refused(call, compare, molecules_csv, tmp_path):
    assert compare("--csv", molecules_csv, "--model", WL)[0] == 0
    checkpoint = tmp_path / "out" / "runs" / f"{WL}-seed0" / "best.ckpt"
    content = torch.load(checkpoint, weights_only=True)
    words = ("predict", "--checkpoint", tmp_path / "changed.ckpt", "--csv", molecules_csv)
    shorter = content["weights"] | {"coefficients": content["weights"]["coefficients"][:, :-1]}
    for change, said in (
        ({"weights": shorter}, f"does not fit this version's {WL}"),
        ({"probe": content["probe"] + 1}, f"does not fit this version's {WL}"),
        ({"smiles": content["smiles"][1:]}, f"does not fit this version's {WL}"),
        ({"features": {}}, "trained on other features"),
        ({"pickled": b""}, "not a checkpoint"),
    ):
        torch.save(content | change, tmp_path / "changed.ckpt")
        status, out, err = call(*words)
        assert (status, out, err.count("\n")) == (2, "", 1), change.keys()
        assert said in err


def test_a_target_that_no_drawn_molecule_has(compare, sulfonamides, write_csv, tmp_path):
    rows = [
        {"smiles": r["smiles"], "a": r["pIC50"], "b": r["pIC50"] if k in (0, 3, 4) else ""}
        | {"part": ["train", "train", "train", "valid", "test"][k % 5]}
        for k, r in enumerate(sulfonamides)
    ]
    words = ("--csv", write_csv(rows), "--split-column", "part", "--target-columns", "a", "b")
    status, _, err = compare(*words, "--model", GP, "--gp-molecules", 2)
    assert (status, err.count("\n")) == (2, 1)
    assert "none of the 2 molecules of the Gaussian process has a value of target 'b'" in err
    assert "--gp-molecules" in err
