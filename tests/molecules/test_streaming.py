"""Predictions and vectors of files and folders: in chunks, in processes, on Ray, resumed."""

import json
import sys
from decimal import Decimal
from pathlib import Path
from unittest.mock import patch

import numpy as np
import pandas as pd
import pytest
import torch

from pyg_kernels.chem import DefaultFeaturizer
from pyg_kernels.datasets import MoleculeDataset
from pyg_kernels.molecules import environments, streaming
from pyg_kernels.molecules.networks import MoleculeNet, build_network
from pyg_kernels.molecules.runs import rounded
from pyg_kernels.tables import TableWriter
from tests.molecules.sets import LOGP, SMILES, run, train

ROWS = [*SMILES, "C(", *SMILES[::-1]]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Runs of a network and a kernel method, a table, and the same rows in a folder of tables."""
    folder = tmp_path_factory.mktemp("streaming")
    pd.DataFrame({"smiles": SMILES, "logp": LOGP}).to_csv(folder / "m.csv", index=False)
    small = "--epochs 1 --hidden-channels 6 --num-layers 2"
    for name, words in (("net", f"wl --ensemble-size 2 {small}"), ("ridge", "wl-ridge")):
        train(folder, name, f"logp --model {words}")
    table = pd.DataFrame({"smiles": ROWS, "id": np.arange(len(ROWS)).astype(str)})
    table.to_csv(folder / "new.csv", index=False)
    (folder / "parts").mkdir()
    for number, part in enumerate((table[:30], table[30:])):
        part.to_csv(folder / "parts" / f"{number}.csv.gz", index=False)
    return folder


@pytest.fixture(autouse=True)
def small_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(streaming, "CHUNK_SIZE", 20)


@pytest.mark.parametrize("words", ["predict +net", "embed +net", "predict +ridge --far 0"])
def test_a_folder_and_several_processes_give_what_one_file_does(folder: Path, words: str) -> None:
    name = words.replace(" ", "").replace("+", "")
    words += " --skip-invalid"
    run(folder, f"{words} +new.csv --threads 1 --out +{name}.csv")
    whole = pd.read_csv(folder / f"{name}.csv")
    assert len(whole) == len(ROWS)
    assert ("similarity" in whole) == ("predict" in words and "--far 0" not in words)
    new = whole.drop(columns=["smiles", "id"])
    assert list(np.flatnonzero(new.isna().all(axis=1))) == [ROWS.index("C(")]
    assert new.notna().any(axis=None)
    run(folder, f"{words} +new.csv --threads 2 --out +{name}_2.csv")
    assert (folder / f"{name}_2.csv").read_bytes() == (folder / f"{name}.csv").read_bytes()
    run(folder, f"{words} +parts --threads 2 --out +{name}")
    parts = [pd.read_csv(folder / name / f"{number}.csv.gz") for number in (0, 1)]
    np.testing.assert_allclose(pd.concat(parts)[new.columns], new, rtol=1e-4, atol=1e-5)
    found = sorted(path.name for path in (folder / name).iterdir())
    assert found == [".begun.json", "0.csv.gz", "1.csv.gz"]


def test_a_folder_is_taken_up_again(folder: Path) -> None:
    words = "predict +ridge +parts --far 0 --skip-invalid --threads 1 --out +again"
    write, written = TableWriter.write, []

    def interrupted(self: TableWriter, frame: pd.DataFrame) -> None:
        write(self, frame)
        written.append(len(frame))
        if len(written) == 3:  # within the second file
            raise KeyboardInterrupt

    with patch.object(TableWriter, "write", interrupted):
        run(folder, words, status=130)
    assert {path.name for path in (folder / "again").iterdir()} == {".begun.json", "0.csv.gz"}
    first = (folder / "again" / "0.csv.gz").stat()
    assert "--overwrite" in run(folder, words, status=2)
    assert "1 of 2 files are finished" in run(folder, words + " --resume")
    assert (folder / "again" / "0.csv.gz").stat() == first
    assert len(pd.read_csv(folder / "again" / "1.csv.gz")) == len(ROWS) - 30
    run(folder, words + " --resume")  # nothing is left to do
    for name in (".begun.json", "1.csv.gz"):
        (folder / "again" / name).unlink()
    for _ in range(2):  # a file kept without a record is also kept the next time
        assert "warning: it is not known" in run(folder, words + " --resume")
        assert (folder / "again" / "0.csv.gz").stat() == first


@pytest.mark.parametrize("data", ["parts", "new.csv"])
def test_resume_mixes_no_runs_and_options(folder: Path, data: str) -> None:
    out = f"mixed_{data}"
    words = f"predict +ridge +{data} --far 0 --skip-invalid --resume --threads 1 --out +{out}"
    run(folder, words)
    for before, after, message in (
        ("--far 0", "--far 0.5", "--far was 0.0, is 0.5"),
        ("--far 0", "--far 0 --coverage 0.5", "--coverage was 0.9, is 0.5"),
        ("+ridge", "+net", "content of RUN was"),
        ("--far 0", "--far 0 --encoding latin-1", "--encoding was utf-8, is latin-1"),
    ):
        assert message in run(folder, words.replace(before, after), status=2)
    with patch.dict(sys.modules, {"pyg_kernels.molecules.on_ray": None}):  # needs no cluster
        assert "finished and kept" in run(folder, words + " --ray nowhere")
    table = folder / data / "1.csv.gz" if data == "parts" else folder / data
    given = table.read_bytes()
    pd.DataFrame({"smiles": ["CCO"]}).to_csv(table, index=False)
    said = run(folder, words, status=2)
    assert "was made of another table: remove it" in said
    table.write_bytes(given)
    assert "not known of which table" not in run(folder, words)
    begun = folder / (f"{out}/.begun.json" if data == "parts" else f".{out}.begun.json")
    content = json.loads(begun.read_text())
    begun.write_text(json.dumps({**content, "made": {}}))
    assert "finished and kept" not in run(folder, words)  # files may be of an earlier run
    begun.write_text("")
    assert ".begun.json is damaged: --overwrite" in run(folder, words, status=2)
    begun.write_text(json.dumps(content))
    other = words.replace("--far 0", "--far 0 --coverage 0.5")
    run(folder, other.replace("--resume", "--overwrite"))
    run(folder, other)
    run(folder, words, status=2)


@pytest.mark.parametrize("words", ["predict +net", "predict +ridge", "embed +ridge"])
def test_parts_without_rows_and_blank_rows(folder: Path, words: str) -> None:
    parts = folder / words.replace(" +", "_")
    parts.mkdir()
    (parts / "a.csv").write_text("smiles\n")
    (parts / "b.csv").write_text("smiles\nCCO\n\nCCN\n\n")
    run(folder, f"{words} +{parts.name} --skip-invalid --out +{parts.name}_out")
    empty, found = (pd.read_csv(folder / f"{parts.name}_out" / name) for name in ("a.csv", "b.csv"))
    assert not len(empty) and list(empty.columns) == list(found.columns) != ["smiles"]
    assert list(found["smiles"].fillna("")) == ["CCO", "", "CCN"]
    assert list(found.iloc[:, 1].isna()) == [False, True, False]


def test_lines_of_all_chunks_are_counted_and_the_first_are_listed(folder: Path) -> None:
    rows = ["C(" if row % 5 == 0 else "BrC#C[Si](F)(F)I" for row in range(50)]
    pd.DataFrame({"smiles": rows}).to_csv(folder / "odd.csv", index=False)
    words = "predict +ridge +odd.csv --far 0.5 --threads 1 --out +odd_out.csv"
    assert "line 2" in run(folder, words, status=2) and not (folder / "odd_out.csv").exists()
    said = run(folder, f"{words} --skip-invalid")
    assert "10 invalid SMILES left out, lines 2, 7, 12, 17, 22, 27, 32, 37, 42, 47\n" in said
    assert "40 molecules are far from the training set (similarity below 0.5), " in said
    assert "lines 3, 4, 5, 6, 8, 9, 10, 11, 13, 14, ...: see the column similarity\n" in said


def test_what_is_wrong_with_folders(folder: Path) -> None:
    (folder / "empty").mkdir()
    train(folder, "mean", "logp --model mean")
    for words, expected in (
        ("predict +ridge +empty --out +o", "no table in it"),
        ("predict +ridge +parts --out +parts", "another for --out"),
        ("predict +ridge +parts --out +m.csv", "is to be a folder"),
        ("embed +net +parts --out +o", "1 invalid SMILES (line 12: "),
        ("embed +mean +new.csv --out +o.csv --skip-invalid", "its model has no vectors"),
    ):
        assert expected in run(folder, words + " --threads 1", status=2)
        assert not list((folder / "o").glob("1.*")) + list((folder / "o").glob(".*.partial"))


def test_ray_gives_what_one_process_does(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ray = pytest.importorskip("ray", reason="the extra ray is not installed")
    shutdown = ray.shutdown  # one start is enough for both runs
    monkeypatch.setattr(ray, "shutdown", lambda: None)
    words = "predict +ridge +parts --far 0 --skip-invalid"
    run(folder, words + " --threads 1 --out +plain")
    run(folder, words + " --threads 2 --ray local --out +ray")
    for name in ("0.csv.gz", "1.csv.gz"):
        plain, found = (pd.read_csv(folder / out / name) for out in ("plain", "ray"))
        pd.testing.assert_frame_equal(plain, found)
    assert ray.is_initialized() and ray.cluster_resources()["CPU"] == 2
    try:
        words = "predict +ridge +parts --far 0 --threads 2 --ray local --out +bad"
        assert "line 12: " in run(folder, words, status=2)
        assert not list((folder / "bad").glob("1.*"))
    finally:
        shutdown()
    assert not ray.is_initialized()


def test_environments_are_evaluated_once(monkeypatch: pytest.MonkeyPatch) -> None:
    dataset = MoleculeDataset.from_smiles(
        [*SMILES, "C[C@H](N)O", "C", "[Na+].[Cl-]"], featurizer=DefaultFeaturizer()
    )
    made = dataset.featurizer
    for model in ("wl", "wl-gated"):
        torch.manual_seed(0)
        sizes = made.atom_dim, 3, made.bond_dim, 7, 3
        net = MoleculeNet(build_network(model, *sizes), 0, model).double().eval()
        batch = dataset.batch(range(len(dataset)))
        batch.x, batch.edge_attr = batch.x.double(), batch.edge_attr.double()
        given = {key: getattr(batch, key) for key in ("edge_attr", "batch")}
        with torch.inference_mode():
            plain = net.net(batch.x, batch.edge_index, **given)
            monkeypatch.setattr(environments, "FEWEST_ATOMS", 1)
            torch.testing.assert_close(net(batch).double(), plain.float().double())
            found = environments.wl_output(net.net, batch)
            assert found is not None
            torch.testing.assert_close(found, plain, rtol=1e-10, atol=1e-10)
            assert environments.environments(batch, 2) is not None
            monkeypatch.setattr(net.net, "readout", "last")
            assert environments.wl_output(net.net, batch) is None
        assert environments.wl_output(net.net, batch) is None  # with gradients
        sizes_of = [len(level.within) for level in environments.environments(batch, 3)[1]]
        assert sizes_of == sorted(sizes_of) and sizes_of[0] < len(batch.x) / 2


def test_a_table_is_overwritten_only_when_the_new_one_is_whole(folder: Path) -> None:
    """The table that is read may itself be overwritten."""
    table = folder / "own.csv"
    pd.DataFrame({"smiles": SMILES[:5], "measured": range(5)}).to_csv(table, index=False)
    before, replace, left = table.read_bytes(), Path.replace, [0]

    def fail(self: Path, target: Path) -> Path:
        left[0] -= 1
        if left[0] < 0:
            raise OSError("no space left")
        return replace(self, target)

    words = "predict +ridge +own.csv --out +own.csv --overwrite"
    with patch.object(Path, "replace", fail):
        assert "no space left" in run(folder, words, status=2)
        assert table.read_bytes() == before
        left[0] = 1
        run(folder, words)
    assert {"measured", "predicted_logp"} <= set(pd.read_csv(table))
    of_folder = "predict +ridge +parts --far 0 --skip-invalid --out +replaced"
    run(folder, of_folder)
    tables = sorted((folder / "replaced").glob("*.gz"))
    first, second = (table.read_bytes() for table in tables)
    other = f"{of_folder} --coverage 0.5"
    with patch.object(Path, "replace", fail):
        for left[0], changed in ((0, False), (2, True)):  # none; the first table and the record
            assert "no space left" in run(folder, f"{other} --overwrite", status=2)
            assert (tables[0].read_bytes() != first) == changed
            assert tables[1].read_bytes() == second
    assert "1 of 2 files are finished and kept" in run(folder, f"{other} --resume")
    assert tables[1].read_bytes() != second
    assert "--coverage was 0.5" in run(folder, f"{of_folder} --resume", status=2)


def test_rounding_keeps_nine_digits() -> None:
    values = np.array([0.1 + 0.2, -123456.789012345, 1e-300, 0.0, np.nan, np.inf, 1e25 / 3, 2 / 3])
    expected = [float(f"{value:.9g}") for value in values]
    found = rounded(values)
    np.testing.assert_allclose(found, expected, rtol=1e-9)
    assert [repr(float(value)) for value in found[:2]] == ["0.3", "-123456.789"]
    assert repr(float(found[-1])) == "0.666666667"
    assert rounded(np.array([-1e-17 / 7, 1e40 / 3])).tolist() == [-1.42857143e-18, 3.33333333e39]


def test_a_folder_that_is_read_is_never_written(folder: Path, tmp_path: Path) -> None:
    """This holds for whatever name leads to it, such as a symbolic link."""
    data = tmp_path / "data"
    data.mkdir()
    for name in ("a.csv", "b.csv"):
        pd.DataFrame({"smiles": SMILES[:3]}).to_csv(data / name, index=False)
    (tmp_path / "link").symlink_to(data)
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "a.csv").symlink_to(data / "b.csv")
    for out in (tmp_path / "link", data / ".." / "data", tmp_path / "out"):
        run(folder, f"predict +ridge {data}", "--out", str(out), "--overwrite", status=2)
    assert all(pd.read_csv(path).columns.tolist() == ["smiles"] for path in data.iterdir())


def test_a_folder_of_tables_of_all_kinds(folder: Path) -> None:
    """Parquet's types are kept, even if the first rows of a column do not show its type."""
    pyarrow = pytest.importorskip("pyarrow")
    parquet = pytest.importorskip("pyarrow.parquet")
    number = streaming.CHUNK_SIZE + 40
    cells = [None] * (number - 1)
    columns = {
        "smiles": pyarrow.array((SMILES * number)[:number]),
        "number": pyarrow.array(np.arange(number) / 7),
        "price": pyarrow.array([Decimal("1.50")] * (number - 1) + [Decimal("123.50")]),
        "late": pyarrow.array([*cells, True], pyarrow.bool_()),
        "pair": pyarrow.array([*cells, {"a": 1}]),
    }
    table, out = pyarrow.table(columns), folder / "typed_out"
    (folder / "typed").mkdir()
    for name in ("a.parquet", "b.pq"):
        parquet.write_table(table, folder / "typed" / name)
    table.to_pandas().to_csv(folder / "typed" / "c.csv.bz2", index=False)
    run(folder, "predict +ridge +typed --far 0 --threads 1 --out +typed_out")
    for name in ("a.parquet", "b.pq"):
        assert parquet.read_table(out / name).select(list(columns)).equals(table)
    for found in (pd.read_parquet(out / "b.pq"), pd.read_csv(out / "c.csv.bz2")):
        np.testing.assert_allclose(found["number"], columns["number"], rtol=1e-12)
        assert found["predicted_logp"].notna().all()
