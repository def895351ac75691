"""Tables of molecules: separators, encodings, compression, classes, and errors of one line."""

from __future__ import annotations

import gzip
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("rdkit")
pd = pytest.importorskip("pandas")

from pyg_kernels.molecules.files import (  # noqa: E402
    FileError,
    TableWriter,
    find_column,
    numbers,
    parse_molecules,
    read_chunks,
    read_table,
    read_targets,
    refuse_existing,
)

ROWS = [("SMILES", "y", "name"), ("CCO", "1.5", "Äthanol"), ("C", "", "one, two"), ("N", "2", "")]


def written(path: Path, separator: str = ",", encoding: str = "utf-8") -> Path:
    text = "\r\n".join(separator.join(f'"{cell}"' for cell in row) for row in ROWS) + "\r\n"
    content = text.encode(encoding)
    path.write_bytes(gzip.compress(content) if path.suffix == ".gz" else content)
    return path


@pytest.mark.parametrize("separator", [",", ";", "\t"])
@pytest.mark.parametrize("encoding", ["utf-8", "latin-1", "utf-8-sig", "utf-16"])
@pytest.mark.parametrize("name", ["m.csv", "m.csv.gz"])
def test_every_separator_encoding_and_compression(
    tmp_path: Path, separator: str, encoding: str, name: str
) -> None:
    path = written(tmp_path / name, separator, encoding)
    table = read_table(path, "utf-8" if encoding == "utf-8-sig" else encoding)
    assert [tuple(table.columns), *table.itertuples(index=False, name=None)] == ROWS
    assert list(table.index) == [2, 3, 4]
    assert find_column(list(table.columns), None, path, "--smiles-column") == "SMILES"
    np.testing.assert_array_equal(numbers(table, "y", path), [1.5, np.nan, 2])


def test_chunks_are_the_table(tmp_path: Path) -> None:
    path = tmp_path / "m.csv"
    path.write_text("smiles,y\n" + "\n".join(f"{'C' * n},{n}" for n in range(1, 8)) + "\n\n\n")
    chunks = list(read_chunks(path, chunk_size=3))
    assert max(map(len, chunks)) == 3
    assert pd.concat(chunks).equals(read_table(path))
    assert list(read_table(path).index) == list(range(2, 9))


def test_blank_rows_and_line_breaks_keep_the_lines(tmp_path: Path) -> None:
    path = tmp_path / "m.csv"
    path.write_text("smiles\nC\n\n\n\nN\n\nO\n\n\n\n")
    for size in (1, 2, 3, 100):
        kept = pd.concat(read_chunks(path, chunk_size=size, keep_blank=True))
        assert list(kept["smiles"]) == ["C", "", "", "", "N", "", "O"]
        assert list(kept.index) == list(range(2, 9))
    assert list(read_table(path).index) == [2, 6, 8]
    path.write_text('smiles,"a\nnote"\nC,"one\ntwo"\n\nN,"\n\n"\nO,\n')
    for size in (1, 2, 100):
        chunks = pd.concat(read_chunks(path, chunk_size=size, keep_blank=True))
        assert list(chunks.index) == [3, 6, 9]


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        (b"", "No columns"),
        (b"smiles,y\n", "no row below the header"),
        (b"smiles,y\nC,1,2\n", "line 2"),
        (b"smiles,y\nC,1\nC,1,2\n", "line 3"),
        (b'smiles,y\nC,"1\n', "EOF inside string"),
        (b"smiles,y\nC,1\nC,\xff\n", "line 3: it is not utf-8; --encoding"),
    ],
)
def test_malformed_files_are_named(tmp_path: Path, content: bytes, expected: str) -> None:
    path = tmp_path / "m.csv"
    path.write_bytes(content)
    with pytest.raises(FileError, match=expected) as error:
        read_table(path)
    assert str(path) in str(error.value)


def test_other_errors_of_reading(tmp_path: Path) -> None:
    with pytest.raises(FileError, match="no such file"):
        read_table(tmp_path / "absent.csv")
    with pytest.raises(FileError, match="--encoding"):
        read_table(written(tmp_path / "m.csv"), "latin-99")
    (tmp_path / "m.csv.gz").write_bytes(b"smiles\nC\n")
    with pytest.raises(FileError, match="gzip"):
        read_table(tmp_path / "m.csv.gz")
    damaged = bytearray(gzip.compress(b"smiles\n" + b"CCO\n" * 9))
    damaged[12:] = bytes(255 - byte for byte in damaged[12:])
    (tmp_path / "m.csv.gz").write_bytes(damaged)
    with pytest.raises(FileError, match="decompressing"):
        read_table(tmp_path / "m.csv.gz")
    with pytest.raises(FileError, match="no column named smiles"):
        find_column(["a", "b"], None, "m.csv", "--smiles-column")
    with pytest.raises(FileError, match="2 columns"):
        find_column(["smiles_a", "smiles_b"], None, "m.csv", "--smiles-column")
    with pytest.raises(FileError, match="no column 'c' for --groups-column"):
        find_column(["a", "b"], "c", "m.csv", "--groups-column")
    assert find_column(["y", "canonical_smiles"], None, "m.csv", "") == "canonical_smiles"


def table(**columns: list[str]) -> pd.DataFrame:
    frame = pd.DataFrame(columns)
    frame.index = range(2, 2 + len(frame))
    return frame


def test_targets_are_numbers_or_classes() -> None:
    frame = table(
        number=["1", "NA", "-2e3", "0"],
        binary=["0", "1", "", "1"],
        truth=["True", "FALSE", "nan", "true"],
        word=["toxic", "safe", " safe", ""],
        rank=["10", "2", "2.0", "1"],
    )
    found = read_targets(frame, ["number", "binary"], None, "m.csv")
    assert found.task == "regression"
    np.testing.assert_array_equal(found.values, [[1, 0], [np.nan, 1], [-2000, np.nan], [0, 1]])
    found = read_targets(frame, ["truth", "word"], None, "m.csv")
    assert found.task == "classification"
    assert found.classes == [["false", "true"], ["safe", "toxic"]]
    np.testing.assert_array_equal(found.values, [[1, 1], [0, 0], [np.nan, 0], [1, np.nan]])
    found = read_targets(frame, ["rank", "binary"], "classification", "m.csv")
    assert found.classes == [["1", "2", "10"], ["0", "1"]]
    np.testing.assert_array_equal(found.values[:, 0], [2, 1, 1, 0])


def test_names_of_classes_keep_their_digits_and_case() -> None:
    frame = table(
        code=["1000001", "1000002", "1000002.0", "NaN", "0.5"],
        kind=["None", "Ki", "NA", "", "Ki"],
    )
    found = read_targets(frame, ["code", "kind"], "classification", "m.csv")
    assert found.classes == [["0.5", "1000001", "1000002"], ["Ki", "None"]]
    np.testing.assert_array_equal(found.values[:, 0], [1, 2, 2, np.nan, 0])
    np.testing.assert_array_equal(found.values[:, 1], [1, 0, np.nan, np.nan, 0])


@pytest.mark.parametrize(
    ("cells", "task", "expected"),
    [
        (["1", "x", "2"], None, "line 3: 'x'"),
        (["1", "inf", "2"], None, "line 3: 'inf'"),
        (["low", "high", "low"], "regression", "line 2: 'low'"),
        (["", "", ""], None, "no value"),
        (["1", "1", "1"], "classification", "one class"),
    ],
)
def test_wrong_targets(cells: list[str], task: str | None, expected: str) -> None:
    with pytest.raises(FileError, match=expected):
        read_targets(table(y=cells), ["y"], task, "m.csv")


def test_invalid_smiles_are_listed_with_their_lines() -> None:
    frame = table(smiles=["C", "C(", "", "CCO"])
    with pytest.raises(FileError, match=r"2 invalid SMILES \(line 3: .*; line 4: .*--skip-invalid"):
        parse_molecules(frame, "smiles", "m.csv", False)
    molecules, valid = parse_molecules(frame, "smiles", "m.csv", True)
    assert [molecule.GetNumAtoms() for molecule in molecules] == [1, 3]
    assert list(valid) == [True, False, False, True]


@pytest.mark.parametrize("name", ["o.csv", "o.csv.gz", "o.tsv"])
def test_what_is_written_is_read(tmp_path: Path, name: str) -> None:
    frame = table(smiles=["C", "CC", "O"], name=["a,b", "", 'c"'])
    with TableWriter(tmp_path / name) as writer:
        writer.write(frame[:2])
        assert not (tmp_path / name).exists()
        writer.write(frame[2:])
    assert read_table(tmp_path / name).equals(frame)
    assert list(tmp_path.iterdir()) == [tmp_path / name]
    with pytest.raises(FileError, match="--overwrite"):
        TableWriter(tmp_path / name)


def test_an_interrupted_table_leaves_nothing(tmp_path: Path) -> None:
    def write() -> None:
        with TableWriter(tmp_path / "o.csv") as writer:
            writer.write(table(a=["1"]))
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        write()
    assert not list(tmp_path.iterdir())
    with pytest.raises(FileError, match="folder that exists"):
        TableWriter(tmp_path / "absent" / "o.csv")


def test_refusal_of_folders(tmp_path: Path) -> None:
    assert refuse_existing(tmp_path, False) == tmp_path
    (tmp_path / "file").write_text("")
    with pytest.raises(FileError, match="--overwrite"):
        refuse_existing(tmp_path, False)
    assert refuse_existing(tmp_path, True) == tmp_path


def test_parquet(tmp_path: Path) -> None:
    try:
        import pyarrow  # noqa: F401
    except ImportError:
        with pytest.raises(ImportError, match=r"pyg_kernels\[scale\]"):
            TableWriter(tmp_path / "o.parquet")
        (tmp_path / "m.parquet").write_bytes(b"PAR1")
        with pytest.raises(ImportError, match=r"pyg_kernels\[scale\]"):
            read_table(tmp_path / "m.parquet")
        return
    frame = pd.DataFrame({"smiles": ["C", "CC"], "y": [1.0, np.nan]}, index=range(1, 3))
    frame["id"] = pd.array([2**53 + 1, None], "Int64")
    with TableWriter(tmp_path / "o.parquet") as writer:
        writer.write(frame[:1])
        writer.write(frame[1:])
    back = read_table(tmp_path / "o.parquet")
    assert list(back["smiles"]) == ["C", "CC"] and list(back.index) == [1, 2]
    np.testing.assert_array_equal(numbers(back, "y", "o.parquet"), [1, np.nan])
    assert back["id"].dtype == "Int64" and back["id"].equals(frame["id"])
    np.testing.assert_array_equal(numbers(back, "id", "o.parquet"), [2.0**53, np.nan])
