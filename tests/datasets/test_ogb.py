"""Sets of the Open Graph Benchmark: small ones written here, and the real ones where they lie."""

from __future__ import annotations

import math
import shutil
import sys
import urllib.request
from pathlib import Path
from urllib.error import URLError

import numpy as np
import pytest
import torch

pytest.importorskip("ogb", reason="OGB's sets need the extra 'mol'")

from pyg_kernels.chem import OGBFeaturizer
from pyg_kernels.datasets import MoleculeCSV, MoleculeDataset, ogb_dataset
from pyg_kernels.datasets.ogb import ogb_molecule_sets
from tests.ogb_sets import SMILES, write_ogb_set

NAN = math.nan
NUMBERS = [[0.1 * k - 1.23456789] for k in range(len(SMILES))]
CLASSES = [[float(k % 3 == 0)] for k in range(len(SMILES))]
# Of two classes with gaps; OGB gives these as float32, the ones without gaps as integers.
SEVERAL = [[NAN if k % 4 == 0 else float(k % 2), float(k % 3 == 1)] for k in range(len(SMILES))]


class NoInput:
    """A standard input that nobody may read."""

    def readline(self, *_: object) -> str:
        pytest.fail("standard input was read")


@pytest.fixture(autouse=True)
def _nothing_is_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", NoInput())


@pytest.fixture
def esol(tmp_path: Path) -> Path:
    write_ogb_set(tmp_path, "ogbg-molesol", NUMBERS, ["log solubility"])
    return tmp_path


def test_molecules_targets_and_split_are_those_of_the_files(esol: Path) -> None:
    dataset = ogb_dataset("ogbg-molesol", esol)
    assert isinstance(dataset, MoleculeDataset)
    assert (dataset.name, dataset.task_type, dataset.eval_metric) == (
        "ogbg-molesol",
        "regression",
        "rmse",
    )
    assert dataset.smiles == list(SMILES)
    assert dataset.targets.tolist() == NUMBERS  # not rounded to float32
    assert (dataset.target_names, dataset.num_tasks) == (["log solubility"], 1)
    assert dataset.row_numbers == list(range(2, len(SMILES) + 2))
    assert (dataset.skipped, dataset.split_values) == ([], None)
    assert dataset.featurizer == OGBFeaturizer()
    assert dataset.split.valid.tolist() == list(range(3, 30, 5))
    assert dataset.split.test.tolist() == list(range(4, 30, 5))
    assert dataset.split.train.tolist() == [k for k in range(30) if k % 5 < 3]


def test_graphs_are_those_of_the_featurizer(esol: Path) -> None:
    dataset, featurizer = ogb_dataset("ogbg_molesol", esol), OGBFeaturizer()
    batch = dataset.batch(range(len(dataset)))
    for k, smiles in enumerate(SMILES):
        expected = featurizer(smiles)
        for data in (dataset[k], batch[k]):
            for key in ("x", "edge_index", "edge_attr"):
                assert torch.equal(data[key], expected[key]), smiles
    assert batch.y.tolist() == [[np.float32(y)] for (y,) in NUMBERS]


def test_a_second_reading_gives_the_same_and_a_view_has_no_split(esol: Path) -> None:
    first, again = (ogb_dataset("ogbg-molesol", esol) for _ in range(2))
    assert torch.equal(first.batch([3, 1]).x, again.batch([3, 1]).x)
    assert torch.equal(first.targets, again.targets)
    with pytest.raises(ValueError, match="the whole set"):
        _ = first[:5].split
    assert first[:5].smiles == list(SMILES[:5])


@pytest.mark.parametrize(
    ("name", "metric", "targets"),
    [
        ("ogbg-molhiv", "rocauc", CLASSES),
        ("ogbg-molclintox", "rocauc", SEVERAL),
        ("ogbg-molclintox", "rocauc", [[*row] for row in np.eye(30, 2)]),
    ],
    ids=["one target", "gaps", "no gaps"],
)
def test_classes_with_and_without_gaps(
    tmp_path: Path, name: str, metric: str, targets: list[list[float]]
) -> None:
    names = [f"class {k}" for k in range(len(targets[0]))]
    write_ogb_set(tmp_path, name, targets, names)
    dataset = ogb_dataset(name, tmp_path)
    assert (dataset.task_type, dataset.eval_metric) == ("binary classification", metric)
    assert dataset.target_names == names
    expected = torch.tensor(targets, dtype=torch.float64)
    assert torch.equal(dataset.targets.nan_to_num(9), expected.nan_to_num(9))
    assert dataset.batch([0, 1]).y.dtype == torch.float32


def test_targets_without_names_of_their_own_are_numbered(tmp_path: Path) -> None:
    write_ogb_set(tmp_path, "ogbg-molclintox", SEVERAL, ["only one"])
    # The mapping has a column less than there are targets.
    assert ogb_dataset("ogbg-molclintox", tmp_path).target_names == ["y0", "y1"]


def test_nothing_is_asked_printed_or_left_behind(
    esol: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    (esol / "ogbg_molesol" / "RELEASE_v1.txt").unlink()
    safe, modules = torch.serialization.get_safe_globals(), sys.stdin
    with pytest.warns(UserWarning, match=r"has no RELEASE_v1.txt: it may be an older version"):
        dataset = ogb_dataset("ogbg-molesol", esol)
    assert len(dataset) == 30
    assert capfd.readouterr() == ("", "")
    assert set(map(str, torch.serialization.get_safe_globals())) == set(map(str, safe))
    assert sys.stdin is modules
    assert not (esol / "ogbg_molesol" / "RELEASE_v1.txt").exists()


def test_classes_that_were_safe_before_stay_so(esol: Path) -> None:
    from torch_geometric.data.storage import GlobalStorage

    before = torch.serialization.get_safe_globals()
    torch.serialization.add_safe_globals([GlobalStorage])
    try:
        ogb_dataset("ogbg-molesol", esol)
        assert GlobalStorage in torch.serialization.get_safe_globals()
    finally:
        torch.serialization.clear_safe_globals()
        torch.serialization.add_safe_globals(before)


def test_progress_is_shown_on_standard_error(esol: Path, capfd: pytest.CaptureFixture[str]) -> None:
    ogb_dataset("ogbg-molesol", esol, progress=True)
    out, err = capfd.readouterr()
    assert out == ""
    assert "Processing graphs" in err


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("ogbg-ppa", "no set of molecules"),
        ("ogbg-code2", "no set of molecules"),
        ("ogbn-arxiv", "has no molecule set 'ogbn-arxiv'; it has ogbg-molbace, "),
        ("esol", "has no molecule set 'esol'"),
    ],
)
def test_other_names_are_told_those_that_exist(tmp_path: Path, name: str, said: str) -> None:
    with pytest.raises(ValueError, match=said) as caught:
        ogb_dataset(name, tmp_path)
    assert "ogbg-molesol" in str(caught.value)
    assert "\n" not in str(caught.value)
    assert not any(tmp_path.iterdir())


def test_names_are_those_of_ogbs_sets_of_molecules() -> None:
    assert len(ogb_molecule_sets()) == 13
    assert {"ogbg-molpcba", "ogbg-molhiv"} < set(ogb_molecule_sets())


@pytest.mark.parametrize("before", ["nothing", "root", "empty folders"])
def test_a_set_that_cannot_be_downloaded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, before: str
) -> None:
    def unreachable(*_: object, **__: object) -> None:
        raise URLError("no network")

    monkeypatch.setattr(urllib.request, "urlopen", unreachable)
    root = tmp_path / "data" / "ogb"
    folder = root / "ogbg_molbace"
    if before != "nothing":
        (root if before == "root" else folder / "raw").mkdir(parents=True)
    there = sorted(tmp_path.rglob("*"))
    with pytest.raises(OSError, match=f"ogbg-molbace is not in {folder} and cannot be") as caught:
        ogb_dataset("ogbg-molbace", root)
    assert "\n" not in str(caught.value)
    assert sorted(tmp_path.rglob("*")) == there


@pytest.mark.parametrize(
    "missing", ["raw/edge.csv.gz", "mapping/mol.csv.gz", "split/scaffold/test.csv.gz"]
)
def test_an_incomplete_set_is_left_alone(esol: Path, missing: str) -> None:
    folder = esol / "ogbg_molesol"
    (folder / missing).unlink()
    there = sorted(folder.rglob("*"))
    with pytest.raises(ValueError, match=f"{missing} missing; remove the folder to download"):
        ogb_dataset("ogbg-molesol", esol)
    assert sorted(folder.rglob("*")) == there


def test_a_folder_that_cannot_be_written_is_named(esol: Path) -> None:
    (esol / "ogbg_molesol" / "processed").write_text("not a folder")
    with pytest.raises(OSError, match=r"cannot read .*ogbg_molesol and write .*; copy "):
        ogb_dataset("ogbg-molesol", esol)


def test_damaged_files_are_named(esol: Path) -> None:
    ogb_dataset("ogbg-molesol", esol)
    processed = esol / "ogbg_molesol" / "processed" / "geometric_data_processed.pt"
    whole = processed.read_bytes()
    processed.write_bytes(whole[: len(whole) // 2])
    with pytest.raises(ValueError, match=r"ogbg_molesol is damaged: .*processed"):
        ogb_dataset("ogbg-molesol", esol)
    processed.write_bytes(whole)
    write_ogb_set(esol, "ogbg-molesol", [[2 * y] for (y,) in NUMBERS], ["log solubility"])
    with pytest.raises(ValueError, match="do not belong together; remove processed"):
        ogb_dataset("ogbg-molesol", esol)
    shutil.rmtree(processed.parent)
    assert ogb_dataset("ogbg-molesol", esol).targets.tolist() == [[2 * y] for (y,) in NUMBERS]


@pytest.mark.parametrize("file", ["mapping/mol.csv.gz", "split/scaffold/train.csv.gz"])
@pytest.mark.parametrize("damage", ["cut off", "overwritten"])
def test_damaged_archives_are_named(esol: Path, file: str, damage: str) -> None:
    ogb_dataset("ogbg-molesol", esol)
    path = esol / "ogbg_molesol" / file
    whole = path.read_bytes()
    path.write_bytes(whole[:-9] if damage == "cut off" else whole[:12] + bytes([255] * 20))
    with pytest.raises(ValueError, match="ogbg_molesol is damaged"):
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
    source = real_data / "molecules" / "ogb" / folder
    if not source.is_dir():
        pytest.skip(f"{source} is not there")
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
