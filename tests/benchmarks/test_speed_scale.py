"""Molecules many times over, featurised and trained on: what is written, counted and kept."""

import csv
import json
import re
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("rdkit", reason="the benchmark's molecules need the extra 'mol'")
pytest.importorskip("lightning", reason="the benchmark needs the extra 'bench'")

from rdkit import Chem

from benchmarks.harness.errors import MeasurementError
from benchmarks.speed import scale
from benchmarks.speed.__main__ import main
from benchmarks.speed.scale import orders, write_replicas
from pyg_kernels.chem import MolFeaturizer
from pyg_kernels.datasets import MoleculeCSV

Rows = list[dict[str, str]]
MIB = 2**20


def numbered(smiles: str) -> str:
    """The SMILES with each atom's place in it as its map number."""
    molecule = Chem.MolFromSmiles(smiles)
    for atom in molecule.GetAtoms():
        atom.SetAtomMapNum(atom.GetIdx() + 1)
    return str(Chem.MolToSmiles(molecule, canonical=False))


def features(smiles: str) -> tuple[Any, Any]:
    """The multisets of atoms' codes and of bonds' with those of their atoms."""
    codes = MolFeaturizer().encode(smiles)
    atoms = [tuple(atom) for atom in codes.atoms.tolist()]
    pairs = zip(codes.edge_index.T.tolist(), codes.bonds.tolist(), strict=True)
    bonds = [(atoms[begin], atoms[end], tuple(bond)) for (begin, end), bond in pairs]
    return Counter(atoms), Counter(bonds)


@pytest.mark.parametrize("smiles", ["CC", "CCO", "[Na+].[Cl-]", "c1ccccc1C(F)(F)F", "N[C@@H](C)O"])
def test_copies_have_other_orders_of_atoms(smiles: str) -> None:
    """Map numbers travel with the atoms, so that a copy says where each of them has gone."""
    first, *copies = orders(numbered(smiles), 9, np.random.default_rng(0))
    assert first == numbered(smiles)
    assert len(copies) == 8
    for copy in copies:
        order = [atom.GetAtomMapNum() for atom in Chem.MolFromSmiles(copy).GetAtoms()]
        assert sorted(order) == list(range(1, len(order) + 1))
        assert order != sorted(order)


def test_copies_have_the_same_features(sulfonamides: Rows) -> None:
    generator = np.random.default_rng(0)
    for row in sulfonamides[::6]:
        first, *copies = orders(row["smiles"], 4, generator)
        assert first == row["smiles"]
        assert first not in copies
        assert all(features(copy) == features(first) for copy in copies)
    assert list(orders("C", 3, generator)) == ["C", "C", "C"]  # a single atom has one order
    assert list(orders("C", 0, generator)) == []


@pytest.mark.parametrize("number", [1, 6, 7, 30])
def test_as_many_molecules_as_were_asked_for(
    sulfonamides: Rows, number: int, tmp_path: Path
) -> None:
    smiles = [row["smiles"] for row in sulfonamides[:7]]
    targets = [[row["pIC50"]] for row in sulfonamides[:7]]
    write_replicas(tmp_path / "file.csv", smiles, targets, ["pIC50"], number)
    molecules = MoleculeCSV(tmp_path / "file.csv")
    assert len(molecules) == number
    canonical = [Chem.CanonSmiles(one) for one in smiles]
    found = [canonical.index(Chem.CanonSmiles(one)) for one in molecules.smiles]
    assert found == sorted(found)  # copies follow each other
    times = [found.count(k) for k in range(7)]
    assert max(times) - min(times) <= 1
    assert molecules.targets[:, 0].tolist() == [float(targets[k][0]) for k in found]


def test_missing_targets_stay_missing(tmp_path: Path) -> None:
    targets = [["", "2.5"], ["1.0", ""]]
    write_replicas(tmp_path / "file.csv", ["CO", "CN"], targets, ["a", "b"], 3)
    with open(tmp_path / "file.csv", newline="") as file:
        rows = list(csv.DictReader(file))
    assert [(row["a"], row["b"]) for row in rows] == [("", "2.5"), ("", "2.5"), ("1.0", "")]


def test_stages(tmp_path: Path, sulfonamides: Rows) -> None:
    path, shards = tmp_path / "molecules.csv", tmp_path / "shards"
    smiles = [row["smiles"] for row in sulfonamides[:7]]
    targets = [[row["pIC50"]] for row in sulfonamides[:7]]
    write_replicas(path, smiles, targets, ["pIC50"], 300)
    found = scale.featurise(path, shards, 300, 1)
    files = [file.stat().st_size for file in shards.rglob("*") if file.is_file()]
    assert found["bytes"] == sum(files)
    trained = scale.train(path, shards, "gin", 2)
    assert trained["training_share"] == 0.8
    assert trained["molecules_a_second"] > 0
    with pytest.raises(RuntimeError, match="299 molecules were written, 300 are in the shards"):
        scale.featurise(path, tmp_path / "other", 299, 1)


def allocate(mebibytes: int) -> dict[str, int]:
    bytearray(mebibytes * MIB)
    return {"given": mebibytes}


def fail() -> dict[str, int]:
    raise RuntimeError("it fails")


def test_a_stage_and_its_peaks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Here in this process; the kernels' benchmark is measured in one of its own."""
    monkeypatch.setattr(scale, "in_own_process", lambda work, *arguments: work(*arguments))
    found = scale._carried_out(allocate, 300)
    assert found["given"] == 300
    assert found["peak"] > 300 * MIB
    assert found["worker_peak"] >= 0
    with pytest.raises(MeasurementError, match=r"^fail: RuntimeError: it fails$"):
        scale._carried_out(fail)


def test_a_finished_number_is_not_measured_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, call_main
) -> None:
    calls: list[str] = []

    def stage(work: Any, *arguments: Any) -> dict[str, Any]:
        calls.append(work.__name__)
        path = arguments[0]
        if work is scale.replicate:
            path.write_text("smiles\n")
        if work is scale.featurise:
            arguments[1].mkdir()
        if work is scale.train and len(calls) == 3:
            raise MeasurementError("train: it fails")
        rates = {"molecules_a_second": 4600.0, "bytes": 6000, "training_share": 0.8}
        return {**rates, "peak": 300 * MIB, "worker_peak": 100 * MIB}

    monkeypatch.setattr(scale, "_carried_out", stage)
    words = ("scale", "--out", tmp_path / "out", "--workers", 2, "--molecules")
    status, _, err = call_main(main, *words, 40)
    assert (status, err) == (1, "benchmarks.speed scale: error: train: it fails\n")
    assert call_main(main, *words, 40, "--resume")[0] == 0
    assert calls == ["replicate", "featurise", "train"] * 2
    assert [path.name for path in (tmp_path / "out/runs/000000040").iterdir()] == ["record.json"]
    status, out, _ = call_main(main, *words, 40, 50, "--resume", "--keep")
    assert (status, len(calls)) == (0, 9)
    assert (tmp_path / "out/runs/000000050/shards").is_dir()
    records = json.loads((tmp_path / "out/metrics.json").read_text())
    assert [record["molecules"] for record in records] == [40, 50]
    featurising, epoch, whole = scale.hours(records[0])
    assert featurising == pytest.approx(500 / 3600)
    assert epoch == pytest.approx(400 / 3600)
    assert whole == pytest.approx(6500 / 3600)
    assert re.search(r"^40 +4,600 +150 +4,600 +300 +100 +300 +0.14 +0.11 +1.81$", out, re.MULTILINE)
