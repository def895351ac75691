"""Published data sets: known files, and sets of the Open Graph Benchmark, small or real."""

import csv
import gzip
import hashlib
import io
import math
import shutil
import zipfile
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas
import pytest
import torch
from rdkit import RDConfig

from pyg_kernels.chem import OGBFeaturizer
from pyg_kernels.datasets import CEP, ChEMBLSulfonamides, MoleculeCSV, ogb_dataset, scaffold_split
from pyg_kernels.datasets.ogb import FOLDER, SETS
from tests.datasets.conftest import present
from tests.ogb_sets import SMILES, write_ogb_set

RAW = "smiles,PCE\nc1ccsc1,3.51\nC1=CC=CC1,-1.25\nc1ccc2nsnc2c1,0\n"


def test_downloads_the_known_file_and_uses_it_where_it_lies(
    tmp_path: Path, serve, monkeypatch
) -> None:
    asked = serve({CEP.file.url: RAW.encode()})
    known = replace(CEP.file, sha256=hashlib.sha256(RAW.encode()).hexdigest())
    monkeypatch.setattr(CEP, "file", known)
    for _ in range(2):
        molecules = CEP(tmp_path)
        assert molecules.smiles == ["c1ccsc1", "C1=CC=CC1", "c1ccc2nsnc2c1"]
        assert molecules.targets.tolist() == [[3.51], [-1.25], [0]]
        assert (molecules.target_names, molecules.row_numbers) == (["PCE"], [2, 3, 4])
    assert (tmp_path / "raw" / "cep-processed.csv").read_text() == RAW
    assert [file.name for file in (tmp_path / "raw").iterdir()] == ["cep-processed.csv"]
    assert asked == [CEP.file.url]


def test_a_file_that_cannot_be_had_is_one_line_and_leaves_no_trace(tmp_path: Path, serve) -> None:
    put = r"put the file at .*raw.cep-processed\.csv"
    for served, said in (
        ({CEP.file.url: b"<html>"}, rf"no longer gives the known file; {put}"),
        ({}, rf"no route.*{put}"),
    ):
        serve(served)
        with pytest.raises(OSError, match=said) as error:
            CEP(tmp_path / "data")
        assert "\n" not in str(error.value)
        assert list(tmp_path.iterdir()) == []


def test_is_the_public_sample(real_data: Path) -> None:
    path = present(real_data / "molecules" / "cep-processed.csv")
    cep = CEP(path.parent)
    assert len(cep) == 29978
    assert float(cep.targets.mean()) == pytest.approx(3.90, abs=0.005)
    assert float(cep.targets.std()) == pytest.approx(2.54, abs=0.005)
    whole = cep.batch(range(len(cep)))
    assert whole.num_nodes / len(cep) == pytest.approx(27.7, abs=0.05)
    assert whole.num_edges / len(cep) == pytest.approx(66.8, abs=0.05)
    assert hashlib.sha256(path.read_bytes()).hexdigest() == CEP.file.sha256
    lines = path.read_text().splitlines()
    for i in range(0, len(cep), 500):
        smiles, pce = lines[cep.row_numbers[i] - 1].split(",")
        assert (cep[i].smiles, float(cep.targets[i])) == (smiles, float(pce))


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
    smiles, names = zip(*map(str.split, lines), strict=True)
    assert molecules.row_numbers == list(range(1, 1018))
    assert molecules.smiles == list(smiles)
    assert molecules.targets[:, 0].tolist() == [potency[name] for name in names]


# Sets of the Open Graph Benchmark

NAN = math.nan
NUMBERS = [[0.1 * k - 1.23456789] for k in range(len(SMILES))]
CLASSES = [[float(k % 3 == 0)] for k in range(len(SMILES))]
# Two class targets with gaps. OGB gives these as float32, and those without gaps as integers.
SEVERAL = [[NAN if k % 4 == 0 else float(k % 2), float(k % 3 == 1)] for k in range(len(SMILES))]


@pytest.fixture(scope="module")
def unchanged(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("ogb")
    write_ogb_set(root, "ogbg-molesol", NUMBERS, ["log solubility"])
    return root


@pytest.fixture
def esol(unchanged: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(unchanged, tmp_path, dirs_exist_ok=True))


def test_molecules_graphs_targets_and_split_are_those_of_the_files(esol: Path) -> None:
    dataset = ogb_dataset("ogbg_molesol", esol)
    assert (dataset.name, dataset.eval_metric) == ("ogbg-molesol", "rmse")
    assert (dataset.smiles, dataset.target_names) == (list(SMILES), ["log solubility"])
    assert dataset.targets.tolist() == NUMBERS  # not rounded to float32
    assert dataset.row_numbers == list(range(2, len(SMILES) + 2))
    assert (dataset.skipped, dataset.split_values) == ([], None)
    assert dataset.featurizer == OGBFeaturizer()
    assert dataset.split.valid.tolist() == list(range(3, 30, 5))
    assert dataset.split.test.tolist() == list(range(4, 30, 5))
    assert dataset.split.train.tolist() == [k for k in range(30) if k % 5 < 3]
    with pytest.raises(ValueError, match="the whole set"):
        _ = dataset[:5].split
    batch = dataset.batch(range(len(dataset)))
    for k, smiles in enumerate(SMILES):
        expected = dataset.featurizer(smiles)
        for data in (dataset[k], batch[k]):
            for key in ("x", "edge_index", "edge_attr"):
                assert torch.equal(data[key], expected[key]), smiles
    assert batch.y.tolist() == [[np.float32(y)] for (y,) in NUMBERS]


@pytest.mark.parametrize(
    ("name", "targets"),
    [
        ("ogbg-molhiv", CLASSES),
        ("ogbg-molclintox", SEVERAL),
        ("ogbg-molclintox", [[*row] for row in np.eye(30, 2)]),
    ],
    ids=["one target", "gaps", "no gaps"],
)
def test_classes_with_and_without_gaps(
    tmp_path: Path, name: str, targets: list[list[float]]
) -> None:
    """Targets are numbered if the mapping does not have a column for each of them."""
    names = ["class 0"] if name == "ogbg-molhiv" else ["y0", "y1"]
    write_ogb_set(tmp_path, name, targets, ["class 0"])
    dataset = ogb_dataset(name, tmp_path)
    assert (dataset.eval_metric, dataset.target_names) == ("rocauc", names)
    expected = torch.tensor(targets, dtype=torch.float64)
    assert torch.equal(dataset.targets.nan_to_num(9), expected.nan_to_num(9))
    assert dataset.batch([0, 1]).y.dtype == torch.float32


def test_nothing_is_printed_or_written(esol: Path, capfd: pytest.CaptureFixture[str]) -> None:
    (esol / "ogbg_molesol" / "RELEASE_v1.txt").unlink()
    there = {path: path.stat().st_mtime_ns for path in esol.rglob("*")}
    with pytest.warns(UserWarning, match=r"has no RELEASE_v1.txt: it may be an older version"):
        ogb_dataset("ogbg-molesol", esol)
    assert capfd.readouterr() == ("", "")
    assert {path: path.stat().st_mtime_ns for path in esol.rglob("*")} == there


def test_other_names_are_told_those_that_exist(tmp_path: Path) -> None:
    for name in ("ogbg-ppa", "ogbn-arxiv", "esol"):
        said = f"has no molecule set '{name}'; it has ogbg-molbace, .*ogbg-molesol"
        with pytest.raises(ValueError, match=said):
            ogb_dataset(name, tmp_path)
    assert not any(tmp_path.iterdir())


def test_sets_and_measures_are_ogbs() -> None:
    folder = Path(str(pytest.importorskip("ogb.graphproppred").__file__)).parent
    master = pandas.read_csv(folder / "master.csv", index_col=0, keep_default_na=False)
    molecular = [name for name in master if master[name]["data type"] == "mol"]
    assert sorted(molecular) == sorted(SETS)
    for name, (archive, metric) in SETS.items():
        about = master[name]
        assert (about["download_name"], about["eval metric"]) == (archive, metric)
        assert about["url"] == f"{FOLDER}{archive}.zip"
        assert (about["split"], about["add_inverse_edge"]) == ("scaffold", "True")
        assert (about["task type"] == "regression") == (metric == "rmse")


def test_a_set_that_cannot_be_downloaded(tmp_path: Path, serve) -> None:
    serve({})
    folder = tmp_path / "data" / "ogbg_molbace"
    said = rf"bace.zip \(no route\); ogbg-molbace is not in {folder}: un"
    for folders in ("", "data", "data/ogbg_molbace/raw"):  # folders that exist and are empty
        (tmp_path / folders).mkdir(parents=True, exist_ok=True)
        there = sorted(tmp_path.rglob("*"))
        with pytest.raises(OSError, match=said) as caught:
            ogb_dataset("ogbg-molbace", tmp_path / "data")
        assert "\n" not in str(caught.value)
        assert sorted(tmp_path.rglob("*")) == there


def test_a_set_is_downloaded_and_unpacked(esol: Path, tmp_path: Path, serve) -> None:
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as archive:
        for path in (esol / "ogbg_molesol").rglob("*.*"):
            archive.write(path, f"esol/{path.relative_to(esol / 'ogbg_molesol')}")
    asked = serve({f"{FOLDER}esol.zip": packed.getvalue()})
    for _ in range(2):
        dataset = ogb_dataset("ogbg-molesol", tmp_path / "new")
    assert dataset.targets.tolist() == NUMBERS
    assert asked == [f"{FOLDER}esol.zip"]
    serve({f"{FOLDER}hiv.zip": b"<html>"})
    with pytest.raises(OSError, match=r"cannot download .*hiv.zip .*unpack the archive there"):
        ogb_dataset("ogbg-molhiv", tmp_path / "new")


def test_damaged_or_missing_files_are_named_and_the_set_is_left_alone(esol: Path) -> None:
    folder = esol / "ogbg_molesol"
    for path in sorted(folder.rglob("*.gz")):
        whole, file = path.read_bytes(), path.relative_to(folder)
        for damaged in (whole[:-9], whole[:12] + bytes([255] * 20), b"", None):
            path.unlink() if damaged is None else path.write_bytes(damaged)
            there = sorted(esol.rglob("*"))
            with pytest.raises(ValueError, match=f"molesol is damaged: {file} cannot .*; remove"):
                ogb_dataset("ogbg-molesol", esol)
            assert sorted(esol.rglob("*")) == there
        path.write_bytes(whole)


def test_files_of_another_content_are_named(esol: Path) -> None:
    for file, rows, said in (
        ("raw/edge", "0,9\n", "differ in their number of rows"),
        ("raw/edge-feat", "0,0,0\n", "differ in their number of rows"),
        ("raw/edge", "0,x\n", "raw/edge.csv.gz must have 2 whole numbers a row"),
        ("raw/edge", None, "raw/edge.csv.gz names atoms that do not exist"),
        ("raw/node-feat", "200,0,0,0,0,0,0,0,0\n", r"goes up to \[200, .* of OGB to \[118, 4,"),
        ("raw/edge-feat", "0,0\n", "raw/edge-feat.csv.gz must have 3 whole numbers"),
        ("raw/graph-label", "1\n", "do not belong together"),
        ("raw/graph-label", "high\n", "could not convert string to float"),
        ("raw/graph-label", "1e300\n" * len(SMILES), r"range of float32 or NaN, not 1e\+300"),
        ("mapping/mol", "y,smiles\n1,C\n", "do not belong together"),
        ("split/scaffold/test", "a\n0\n", "scaffold/test.csv.gz must have 1 whole numbers a row"),
        ("split/scaffold/test", "0\n", "split/scaffold does not have each molecule once"),
    ):
        path = esol / "ogbg_molesol" / f"{file}.csv.gz"
        whole = path.read_bytes()
        if rows is None:  # every bond leads to the fourth atom, which the smallest lack
            rows = "0,3\n" * len(gzip.decompress(whole).splitlines())
        path.write_bytes(gzip.compress(rows.encode()))
        with pytest.raises(ValueError, match=f"ogbg_molesol is damaged: .*{said}"):
            ogb_dataset("ogbg-molesol", esol)
        path.write_bytes(whole)


@pytest.mark.parametrize(
    ("name", "column", "sizes"),
    [
        ("ogbg-molesol", "measured log solubility in mols per litre", (902, 113, 113)),
        ("ogbg-molfreesolv", "expt", (513, 64, 65)),
    ],
)
def test_real_sets(real_data: Path, name: str, column: str, sizes: tuple[int, int, int]) -> None:
    source = present(real_data / "molecules" / "ogb" / name.replace("-", "_"))
    dataset = ogb_dataset(name, source.parent)
    assert tuple(len(part) for part in dataset.split) == sizes
    for part, official in zip(scaffold_split(dataset.smiles), dataset.split, strict=True):
        assert torch.equal(part, official.sort().values)
    mapping = source / "mapping" / "mol.csv.gz"
    table = MoleculeCSV(mapping, target_columns=[column], featurizer=OGBFeaturizer(), num_workers=0)
    assert table.target_names == dataset.target_names
    torch.testing.assert_close(table.targets, dataset.targets, rtol=1e-14, atol=0)  # as written
    assert table.row_numbers == dataset.row_numbers
    # What RDKit makes of the SMILES today is what OGB stored.
    assert [s.strip() for s in table.smiles] == [s.strip() for s in dataset.smiles]
    mine, theirs = (each.batch(range(sum(sizes))) for each in (table, dataset))
    for key in ("x", "edge_index", "edge_attr", "batch"):
        assert torch.equal(mine[key], theirs[key])
