"""Sets of the Open Graph Benchmark: small ones written here, and the real ones where they lie."""

import gzip
import io
import math
import shutil
import zipfile
from pathlib import Path

import numpy as np
import pandas
import pytest
import torch

pytest.importorskip("ogb", reason="the reference is the package ogb, of the extra 'test'")

from pyg_kernels.chem import OGBFeaturizer
from pyg_kernels.datasets import MoleculeCSV, MoleculeDataset, ogb_dataset
from pyg_kernels.datasets.ogb import FILES, FOLDER, SETS
from tests.datasets.conftest import present
from tests.ogb_sets import SMILES, write_ogb_set

NAN = math.nan
NUMBERS = [[0.1 * k - 1.23456789] for k in range(len(SMILES))]
CLASSES = [[float(k % 3 == 0)] for k in range(len(SMILES))]
# Of two classes with gaps; OGB gives these as float32, the ones without gaps as integers.
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
    assert isinstance(dataset, MoleculeDataset)
    about = (dataset.name, dataset.task_type, dataset.eval_metric)
    assert about == ("ogbg-molesol", "regression", "rmse")
    assert dataset.smiles == list(SMILES)
    assert dataset.targets.tolist() == NUMBERS  # not rounded to float32
    assert (dataset.target_names, dataset.num_tasks) == (["log solubility"], 1)
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
    """Targets of which the mapping has no column of their own are numbered."""
    names = ["class 0"] if name == "ogbg-molhiv" else ["y0", "y1"]
    write_ogb_set(tmp_path, name, targets, ["class 0"])
    dataset = ogb_dataset(name, tmp_path)
    assert (dataset.task_type, dataset.eval_metric) == ("binary classification", "rocauc")
    assert dataset.target_names == names
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


@pytest.mark.parametrize("before", ["nothing", "root", "empty folders"])
def test_a_set_that_cannot_be_downloaded(tmp_path: Path, serve, before: str) -> None:
    serve({})
    root = tmp_path / "data" / "ogb"
    folder = root / "ogbg_molbace"
    if before != "nothing":
        (root if before == "root" else folder / "raw").mkdir(parents=True)
    there = sorted(tmp_path.rglob("*"))
    said = rf"bace.zip \(no route\); ogbg-molbace is not in {folder}: un"
    with pytest.raises(OSError, match=said) as caught:
        ogb_dataset("ogbg-molbace", root)
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


@pytest.mark.parametrize("file", FILES)
def test_damaged_archives_are_named_and_an_incomplete_set_is_left_alone(
    esol: Path, file: str
) -> None:
    path = esol / "ogbg_molesol" / file
    whole = path.read_bytes()
    for damaged in (whole[:-9], whole[:12] + bytes([255] * 20), b""):
        path.write_bytes(damaged)
        with pytest.raises(ValueError, match=f"ogbg_molesol is damaged: {file}"):
            ogb_dataset("ogbg-molesol", esol)
    path.unlink()
    there = sorted(esol.rglob("*"))
    with pytest.raises(ValueError, match=f"{file} missing; remove the folder to download"):
        ogb_dataset("ogbg-molesol", esol)
    assert sorted(esol.rglob("*")) == there


@pytest.mark.parametrize(
    ("file", "rows", "said"),
    [
        ("raw/edge", "0,9\n", "same number of rows"),
        ("raw/edge-feat", "0,0,0\n", "same number of rows"),
        ("raw/edge", "0,x\n", "raw/edge.csv.gz must have 2 whole numbers a row"),
        ("raw/edge", None, "raw/edge.csv.gz has atoms that there are not"),
        ("raw/node-feat", "200,0,0,0,0,0,0,0,0\n", r"goes up to \[200, .* of OGB to \[118, 4,"),
        ("raw/edge-feat", "0,0\n", "raw/edge-feat.csv.gz must have 3 whole numbers"),
        ("raw/graph-label", "1\n", "do not belong together"),
        ("raw/graph-label", "high\n", "raw/graph-label.csv.gz: could not convert"),
        ("mapping/mol", "y,smiles\n1,C\n", "do not belong together"),
        ("split/scaffold/test", "0\n", "split/scaffold has not each molecule once"),
    ],
)
def test_files_of_another_content_are_named(
    esol: Path, file: str, rows: str | None, said: str
) -> None:
    path = esol / "ogbg_molesol" / f"{file}.csv.gz"
    if rows is None:  # every bond leads to the fourth atom, which the smallest have not
        rows = "0,3\n" * len(gzip.decompress(path.read_bytes()).splitlines())
    path.write_bytes(gzip.compress(rows.encode()))
    with pytest.raises(ValueError, match=f"ogbg_molesol is damaged: .*{said}|{said}"):
        ogb_dataset("ogbg-molesol", esol)


@pytest.mark.parametrize(
    ("name", "column", "sizes"),
    [
        ("ogbg-molesol", "measured log solubility in mols per litre", (902, 113, 113)),
        ("ogbg-molfreesolv", "expt", (513, 64, 65)),
    ],
)
def test_real_sets(
    real_data: Path, tmp_path: Path, name: str, column: str, sizes: tuple[int, int, int]
) -> None:
    folder = name.replace("-", "_")
    source = present(real_data / "molecules" / "ogb" / folder)
    for path in source.rglob("*.*"):  # without the rights of the source, which may be read-only
        target = tmp_path / folder / path.relative_to(source)
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(path.read_bytes())
    dataset = ogb_dataset(name, tmp_path)
    assert tuple(len(part) for part in dataset.split) == sizes
    assert torch.equal(torch.cat(dataset.split).sort().values, torch.arange(sum(sizes)))
    mapping = tmp_path / folder / "mapping" / "mol.csv.gz"
    table = MoleculeCSV(mapping, target_columns=[column], featurizer=OGBFeaturizer(), num_workers=0)
    assert table.target_names == dataset.target_names
    torch.testing.assert_close(table.targets, dataset.targets, rtol=1e-14, atol=0)  # as written
    assert table.row_numbers == dataset.row_numbers
    # What RDKit makes of the SMILES today is what OGB stored.
    assert [s.strip() for s in table.smiles] == [s.strip() for s in dataset.smiles]
    mine, theirs = (each.batch(range(sum(sizes))) for each in (table, dataset))
    for key in ("x", "edge_index", "edge_attr", "batch"):
        assert torch.equal(mine[key], theirs[key])
