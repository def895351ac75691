import csv
import hashlib
import shutil
from pathlib import Path

import pytest
import torch
from rdkit import Chem, RDConfig
from torch_geometric.data import Batch

from pyg_kernels.datasets import CEP, ChEMBLSulfonamides
from tests.datasets.conftest import present
from tests.datasets.test_molecules import assert_same_graphs

RAW = "smiles,PCE\nc1ccsc1,3.51\nC1=CC=CC1,-1.25\nc1ccc2nsnc2c1,0\n"


def test_downloads_the_known_file_and_uses_it_where_it_lies(
    tmp_path: Path, serve, monkeypatch
) -> None:
    asked = serve({CEP.url: RAW.encode()})
    monkeypatch.setattr(CEP, "sha256", hashlib.sha256(RAW.encode()).hexdigest())
    for _ in range(2):
        molecules = CEP(tmp_path)
        assert molecules.smiles == ["c1ccsc1", "C1=CC=CC1", "c1ccc2nsnc2c1"]
        assert molecules.targets.tolist() == [[3.51], [-1.25], [0]]
        assert (molecules.target_names, molecules.row_numbers) == (["PCE"], [2, 3, 4])
    assert (tmp_path / "raw" / "cep-processed.csv").read_text() == RAW
    assert [file.name for file in (tmp_path / "raw").iterdir()] == ["cep-processed.csv"]
    assert asked == [CEP.url]


@pytest.mark.parametrize(
    ("served", "said"),
    [
        ({CEP.url: b"<html>"}, r"no longer gives the known file; put the file at .*raw.cep-pro"),
        ({}, r"no route.*put the file at .*raw.cep-processed\.csv"),
    ],
)
def test_a_file_that_cannot_be_had_is_one_line_and_leaves_no_trace(
    tmp_path: Path, serve, served: dict[str, bytes], said: str
) -> None:
    serve(served)
    with pytest.raises(OSError, match=said) as error:
        CEP(tmp_path / "data")
    assert "\n" not in str(error.value)
    assert list(tmp_path.iterdir()) == []


def test_is_the_public_sample(real_data: Path, tmp_path: Path) -> None:
    path = present(real_data / "molecules" / "cep-processed.csv")
    (tmp_path / "raw").mkdir()
    shutil.copy(path, tmp_path / "raw" / CEP.raw_name)
    cep = CEP(tmp_path)
    assert len(cep) == 29978
    assert float(cep.targets.mean()) == pytest.approx(3.90, abs=0.005)
    assert float(cep.targets.std()) == pytest.approx(2.54, abs=0.005)
    whole = cep.batch(range(len(cep)))
    assert whole.num_nodes / len(cep) == pytest.approx(27.7, abs=0.05)
    assert whole.num_edges / len(cep) == pytest.approx(66.8, abs=0.05)
    assert hashlib.sha256(path.read_bytes()).hexdigest() == CEP.sha256
    chosen = torch.randperm(len(cep), generator=torch.Generator().manual_seed(0))[:64]
    assert_same_graphs(cep.batch(chosen), Batch.from_data_list([cep[i] for i in chosen]))
    lines = path.read_text().splitlines()
    for i in chosen.tolist():
        smiles, pce = lines[cep.row_numbers[i] - 1].split(",")
        assert (cep[i].smiles, float(cep.targets[i])) == (smiles, float(pce))
        assert float(cep[i].y) == pytest.approx(float(pce), rel=1e-6)
        assert cep[i].num_edges == 2 * Chem.MolFromSmiles(smiles).GetNumBonds()


def test_potencies_belong_to_their_molecules() -> None:
    molecules = ChEMBLSulfonamides()
    folder = Path(RDConfig.RDContribDir) / "FreeWilson" / "data"
    with open(folder / "CHEMBL2321810_act.csv") as file:
        potency = {name: float(value) for name, value in list(csv.reader(file))[1:]}
    lines = (folder / "CHEMBL2321810.smi").read_text().splitlines()
    assert len(molecules) == len(lines) == 1017
    assert (molecules.target_names, molecules.skipped) == (["potency"], [])
    assert float(molecules.targets.mean()) == pytest.approx(6.55, abs=0.005)
    assert float(molecules.targets.std()) == pytest.approx(1.09, abs=0.005)
    assert (float(molecules.targets.min()), float(molecules.targets.max())) == (4.27, 9.22)
    for k in range(0, 1017, 13):
        smiles, name = lines[k].split()
        assert molecules.row_numbers[k] == k + 1
        assert molecules[k].smiles == molecules.smiles[k] == smiles
        assert float(molecules.targets[k]) == potency[name]
        assert float(molecules[k].y) == pytest.approx(potency[name])
        assert molecules[k].num_nodes == Chem.MolFromSmiles(smiles).GetNumAtoms()
