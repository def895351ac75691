"""Molecules many times over, featurised and trained on: what is written, counted and kept."""

import json
import re
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("rdkit", reason="the benchmark's molecules need the extra 'mol'")
from rdkit import Chem

from benchmarks.harness.errors import MeasurementError
from benchmarks.speed import scale
from benchmarks.speed.__main__ import main
from pyg_kernels import datasets
from pyg_kernels.datasets import ChEMBLSulfonamides, MoleculeCSV, MoleculeDataset

MIB = 2**20


@pytest.fixture(autouse=True)
def data(monkeypatch: pytest.MonkeyPatch) -> MoleculeDataset:
    """The first 50 molecules, in place of all."""
    molecules = ChEMBLSulfonamides()[:50]
    monkeypatch.setattr(datasets, "ChEMBLSulfonamides", lambda: molecules)
    return molecules


@pytest.mark.parametrize("number", [7, 130])
def test_copies_follow_each_other_in_other_orders_of_atoms(data, number, tmp_path) -> None:
    scale.replicate(tmp_path / "file.csv", "chembl", "", number)
    molecules = MoleculeCSV(tmp_path / "file.csv")
    assert len(molecules) == number
    canonical = {Chem.CanonSmiles(one): place for place, one in enumerate(data.smiles)}
    found = [canonical[Chem.CanonSmiles(one)] for one in molecules.smiles]
    assert found == sorted(found)
    counts = [found.count(place) for place in range(len(data))]
    assert max(counts) - min(counts) <= 1
    assert len(set(molecules.smiles)) == number
    assert molecules.targets.equal(data.targets[found])


def test_stages(tmp_path: Path) -> None:
    path, shards = tmp_path / "molecules.csv", tmp_path / "shards"
    scale.replicate(path, "chembl", "", 300)
    found = scale.featurise(path, shards, 300, 1)
    files = [file.stat().st_size for file in shards.rglob("*") if file.is_file()]
    assert found["bytes"] == sum(files)
    trained = scale.train(path, shards, "gin", 2)
    assert trained["training_share"] == 0.8
    assert trained["molecules_a_second"] > 0
    with pytest.raises(RuntimeError, match="299 molecules were written, 300 are in the shards"):
        scale.featurise(path, tmp_path / "other", 299, 1)


def test_a_stage_and_its_peaks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Here in this process; the kernels' benchmark is measured in one of its own."""

    def allocate(mebibytes: int) -> dict[str, int]:
        bytearray(mebibytes * MIB)
        return {"given": mebibytes}

    def fail() -> dict[str, int]:
        raise RuntimeError("it fails")

    monkeypatch.setattr(scale, "in_own_process", lambda work, *arguments: work(*arguments))
    found = scale._carried_out(allocate, 300)
    assert found["given"] == 300
    assert found["peak"] > 300 * MIB
    with pytest.raises(MeasurementError, match=r"^fail: RuntimeError: it fails$"):
        scale._carried_out(fail)


def test_a_finished_number_is_not_measured_again(tmp_path, monkeypatch, call_main) -> None:
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
        return {**rates, "peak": 300 * MIB}

    monkeypatch.setattr(scale, "_carried_out", stage)
    words = ("scale", "--out", tmp_path / "out", "--workers", 2, "--molecules")
    status, _, err = call_main(main, *words, 40)
    assert (status, err) == (1, "benchmarks.speed scale: error: train: it fails\n")
    assert call_main(main, *words, 40, "--resume")[0] == 0
    assert calls == ["replicate", "featurise", "train"] * 2
    assert [path.name for path in (tmp_path / "out/runs/000000040").iterdir()] == ["record.json"]
    status, out, _ = call_main(main, *words, 40, 50, "--resume")
    assert (status, len(calls)) == (0, 9)
    records = json.loads((tmp_path / "out/metrics.json").read_text())
    assert [record["molecules"] for record in records] == [40, 50]
    assert re.search(r"^40 +4,600 +150 +4,600 +300 +300$", out, re.MULTILINE)
    (tmp_path / "cep-processed.csv").write_text("smiles,PCE\nnonsense,1\n")
    wrong = ("--dataset", "cep", "--root", tmp_path, "--overwrite")
    status, _, err = call_main(main, *words, 40, *wrong)
    assert status == 2 and "cep-processed.csv" in err
    assert (tmp_path / "out/runs/000000040/record.json").exists()
