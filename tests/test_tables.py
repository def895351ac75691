"""Tables in files: separators, encodings, compression, line numbers, and one-line errors."""

import bz2
import gzip
import lzma
import os
import random
import sys
import threading
from datetime import date
from decimal import Decimal
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import numpy as np
import pandas as pd
import pytest

from pyg_kernels.tables import (
    FileError,
    TableWriter,
    as_numbers,
    find_column,
    numbers,
    read_table,
    stream_table,
    table_files,
)
from tests.covering import covering

ROWS = [("SMILES", "y", "name"), ("CCO", "1.5", "Äthanol"), ("C", "", "one, two"), ("N", "2", "")]
COMPRESSED: dict[str, Any] = {"": bytes, ".gz": gzip.compress, ".bz2": bz2.compress}
COMPRESSED[".xz"] = lzma.compress


def written(path: Path, content: str | bytes, encoding: str = "utf-8") -> Path:
    path.write_bytes(content if isinstance(content, bytes) else content.encode(encoding))
    return path


FORMATS = covering(
    separator=[",", ";", "\t"],
    encoding=["utf-8", "latin-1", "utf-8-sig", "utf-16"],
    ending=list(COMPRESSED),
)


def test_every_separator_encoding_and_compression(tmp_path: Path) -> None:
    for options in FORMATS:
        separator, encoding, ending = options.values()
        text = "\r\n".join(separator.join(f'"{cell}"' for cell in row) for row in ROWS) + "\r\n"
        path = written(tmp_path / f"m.csv{ending}", COMPRESSED[ending](text.encode(encoding)))
        table = read_table(path, encoding="utf-8" if encoding == "utf-8-sig" else encoding)
        assert [tuple(table.columns), *table.itertuples(index=False, name=None)] == ROWS, options
        assert list(table.index) == [2, 3, 4]
        assert find_column(table.columns, None, path, "--smiles-column") == "SMILES"
        np.testing.assert_array_equal(numbers(table, "y", path), [1.5, np.nan, 2])


def test_chunks_are_the_table(tmp_path: Path) -> None:
    rows = "\n".join(f"{'C' * n},{n}" for n in range(1, 8))
    path = written(tmp_path / "m.csv", f"smiles,y\n{rows}\n\n\n")
    chunks = list(stream_table(path, 3))
    assert [len(chunk) for chunk in chunks] == [3, 3, 1]
    assert pd.concat(chunks).equals(read_table(path))
    assert list(read_table(path).index) == list(range(2, 9))
    bare = list(stream_table(written(path, "1,a;b\n2,c\n"), 1, header=False))
    assert [frame.values.tolist() for frame in bare] == [[["1", "a;b"]], [["2", "c"]]]
    (empty,) = stream_table(written(path, "smiles,y\n"))
    assert (list(empty.columns), len(empty)) == (["smiles", "y"], 0)


def test_cells_are_as_they_stand_and_lines_are_the_index(tmp_path: Path) -> None:
    path = written(tmp_path / "m.csv", '\ufeff smiles,,y,y\n\n C ,0,"1\n","a""b"\n,\nCC,,NA,\n')
    table = read_table(str(path))
    assert list(table.columns) == [" smiles", "", "y", "y"]
    assert list(table.itertuples(name=None)) == [
        (3, " C ", "0", "1\n", 'a"b'),
        (6, "CC", "", "NA", ""),
    ]
    assert len(read_table(written(path, f"text\n{'a' * 200_000}\n"))["text"].iloc[0]) == 200_000
    lenient = read_table(written(path, 'a,b\n"C" x,1\nD\n'))  # strict=True would refuse both rows
    assert lenient.values.tolist() == [["C x", "1"], ["D", ""]]


def test_white_space_above_the_header_is_no_header(tmp_path: Path) -> None:
    for above in ("  \n", "\n \t \n", " , \n", "\t\n\n,,,\n"):
        path = written(tmp_path / "m.csv", f"{above}smiles,y\nC, \n")
        for strict in (False, True):
            table = read_table(path, strict=strict)
            assert list(table.itertuples(name=None)) == [(above.count("\n") + 2, "C", " ")]
            assert list(table.columns) == ["smiles", "y"]


def test_blank_rows_and_line_breaks_keep_the_lines(tmp_path: Path) -> None:
    path = written(tmp_path / "m.csv", "smiles\nC\n\n\n\nN\n\nO\n\n\n\n")
    for size in (1, 2, 3, None):
        kept = pd.concat(stream_table(path, size, keep_blank=True))
        assert list(kept["smiles"]) == ["C", "", "", "", "N", "", "O"]
        assert list(kept.index) == list(range(2, 9))
    assert list(read_table(path).index) == [2, 6, 8]
    written(path, 'smiles,"a\nnote"\nC,"one\ntwo"\n\nN,"\n\n"\nO,\n')
    for size in (1, 2, None):
        chunks = pd.concat(stream_table(path, size, keep_blank=True))
        assert list(chunks.index) == [3, 6, 9]


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="this system has no named pipes")
def test_a_pipe_is_read_once(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    writer = threading.Thread(target=pipe.write_bytes, args=(b"smiles,y\nC,1\n",), daemon=True)
    writer.start()
    assert read_table(pipe).values.tolist() == [["C", "1"]]
    writer.join()


def test_malformed_files_are_named_in_one_line(tmp_path: Path) -> None:
    for content, strict, expected in (
        ("", False, "m.csv: the file is empty"),
        ("\n\n", False, "m.csv: the file is empty"),
        (" \n\t\n,\n", False, "m.csv: the file is empty"),
        ("smiles,y\n", False, "m.csv: there is no row below the header"),
        ("smiles,y\nC,1,2\n", False, "m.csv, line 2: it has 3 cells, the first row 2"),
        ("smiles,y\n\nC,1\nC,1,2\n", False, "m.csv, line 4: it has 3 cells, the first row 2"),
        ("smiles,y\nC\n", True, "m.csv, line 2: it has 1 cells, the first row 2"),
        ('smiles,y\nC,"1\n', False, "m.csv, line 2: a quote is never closed"),
        (' , \n"smiles\n', False, "m.csv, line 2: a quote is never closed"),
        ('smiles,y\nC,"1\n', True, "m.csv, line 2: .*unexpected end of data"),
        ('a,y\n"C",1\n"D"x,2\n', True, "m.csv, line 3: .*expected after"),
        ('text\tlabel\n"a\tx\nb\ty\n"c\tx\n', False, "m.csv, line 2: a quote joins rows"),
        (b"smiles,y\nC,1\nC,\xff\n", False, "line 3: it is not utf-8; --encoding names another"),
        ("smiles,y\nC,1\n".encode("utf-16"), False, "it is not utf-8; .* such as utf-16"),
        (gzip.compress(b"smiles,y\nC,1\n"), False, "compressed: its name is to end in .gz"),
        (b"PAR1\x15\xff", False, "it is no text but Parquet: its name is to end in .parquet"),
        (b"PK\x03\x04\xff", False, "line 1: it is no text but a spreadsheet"),
        ("pKa,PK\n1,\xe9\n".encode("latin-1"), False, "it is not utf-8; .* such as latin-1"),
        ("smiles,y\nC,1\n".encode("utf-16-le"), False, "line 1: it is not utf-8; --encoding"),
    ):
        path = written(tmp_path / "m.csv", content)
        with pytest.raises(FileError, match=expected) as error:
            read_table(path, strict=strict)
        assert str(path) in str(error.value) and "\n" not in str(error.value)


def test_other_errors_of_reading(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match=r"absent.csv"):
        read_table(tmp_path / "absent.csv")
    with pytest.raises(FileError, match=r"--encoding latin-99: unknown"):
        read_table(written(tmp_path / "m.csv", "smiles\nC\n"), encoding="latin-99")
    rows = "".join(f"C,{random.Random(k).random()}\n" for k in range(999))
    whole = bytearray(gzip.compress(f"smiles,y\n{rows}".encode()))
    broken = bytearray(whole)
    broken[10] = 0xFF  # the first block now has a type that does not exist
    for ending, content, said in (
        ("gz", b"smiles\nC\n", r"line 1: it cannot be read as CSV: Not a gzip"),
        ("gz", bytes(whole[: len(whole) // 2]), r"line \d+: it cannot .*end-of-stream"),
        ("gz", bytes(broken), r"line 1: it cannot .*invalid block"),
        ("gz", gzip.compress(b"smiles,y\nCC\xff,1\n", mtime=0)[:23], "line 2: it is not utf-8"),
        ("gz", gzip.compress("y\n1\n".encode("utf-16")), "line 1: it is not utf-8; .* as utf-16"),
        ("bz2", b"smiles\nC\n", r"line 1: it cannot be read as CSV: Invalid data stream"),
        ("xz", b"smiles\nC\n", r"line 1: it cannot be read as CSV: Input format"),
    ):
        with pytest.raises(FileError, match=rf"m\.csv\.{ending}, {said}"):
            read_table(written(tmp_path / f"m.csv.{ending}", content))


def test_columns_that_are_not_found() -> None:
    for columns, wanted, expected in (
        (["a", "b"], None, "no column named smiles"),
        (["smiles_a", "smiles_b"], None, "2 columns named after SMILES"),
        (["a", "b"], "c", r"m.csv: no column named 'c' \(--some\); its columns are 'a', 'b'"),
        (["a", "a"], "a", "2 columns named 'a'"),
    ):
        with pytest.raises(FileError, match=expected):
            find_column(columns, wanted, "m.csv", "--some")
    assert find_column(["y", "canonical_smiles"], None, "m.csv") == "canonical_smiles"


@pytest.mark.parametrize("name", ["o.csv", "o.csv.gz", "o.tsv.bz2", "o.csv.xz"])
def test_what_is_written_is_read(tmp_path: Path, name: str) -> None:
    names = ["a,b", "", 'c"', "d\re", "f;g\t", "h\r\ni"]
    columns = {"smiles": list("CNOCNO"), "IC50; nM; 25 C": names}
    frame = pd.DataFrame(columns, index=[2, 3, 4, 5, 7, 8])  # the index counts lines
    with TableWriter(tmp_path / name) as writer:
        writer.write(frame[:0])
        writer.write(frame[:2])
        assert not (tmp_path / name).exists()
        writer.write(frame[2:])
    assert read_table(tmp_path / name).equals(frame)
    assert table_files(tmp_path) == list(tmp_path.iterdir()) == [tmp_path / name]
    (tmp_path / ".hidden.csv").touch()
    (tmp_path / "folder.csv").mkdir()
    assert table_files(tmp_path) == [tmp_path / name]
    beginning = {".gz": b"\x1f\x8b", ".bz2": b"BZh", ".xz": b"\xfd7zXZ"}
    content = (tmp_path / name).read_bytes()
    assert content.startswith(beginning.get(Path(name).suffix, b'"smiles"'))
    with pytest.raises(FileError, match="--overwrite"):
        TableWriter(tmp_path / name)
    with TableWriter(tmp_path / name.upper()) as writer:
        writer.write(frame)
        writer.write(frame[frame.columns[::-1]])  # columns are matched by name
        with pytest.raises(FileError, match="do not fit the first ones: other columns"):
            writer.write(frame[["smiles"]])
    assert read_table(tmp_path / name.upper()).values.tolist() == 2 * frame.values.tolist()
    one = pd.DataFrame({"text": ["a, b", "c; d"]}, index=[2, 3])
    with TableWriter(tmp_path / f"one-{name}") as writer:
        writer.write(one)
    assert read_table(tmp_path / f"one-{name}").equals(one)
    assert list(read_table(written(tmp_path / "v.tsv.csv", "a,b\n1,2\n")).columns) == ["a", "b"]


def test_an_interrupted_table_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def write() -> None:
        with TableWriter(tmp_path / "o.csv") as writer:
            writer.write(pd.DataFrame({"a": ["1"]}))
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        write()
    assert not list(tmp_path.iterdir())
    with pytest.raises(FileError, match="folder that can be written"):
        TableWriter(tmp_path / "absent" / "o.csv")
    with monkeypatch.context() as patch:
        patch.setattr("os.access", lambda folder, mode: not mode & os.W_OK)
        with pytest.raises(FileError, match="can be written"):
            TableWriter(tmp_path / "o.csv")
    with pytest.raises(FileError, match="not a file"):
        TableWriter(os.devnull, overwrite=True)
    for touch in (TableWriter, read_table):
        with pytest.raises(FileError, match=r"o.XLSX: expected a table whose name ends in .csv"):
            touch(tmp_path / "o.XLSX")
    writer = TableWriter(tmp_path / "o.csv")
    writer.write(pd.DataFrame({"a": ["1"]}))
    full = Mock(close=Mock(side_effect=OSError("the disk is full")))
    monkeypatch.setattr(writer, "_file", full)
    with pytest.raises(OSError, match="full"):
        writer.__exit__(None)
    assert not list(tmp_path.iterdir())


def test_parquet(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "o.parquet"
    with monkeypatch.context() as patch:
        patch.setitem(sys.modules, "pyarrow", None)
        for fail in (TableWriter, read_table):
            with pytest.raises(ImportError, match=r"pyg_kernels\[scale\]"):
                fail(path)
    pytest.importorskip("pyarrow")
    frame = pd.DataFrame({"smiles": ["C", "CC"], "y": [1.0, np.nan]}, index=range(1, 3))
    frame["id"] = pd.array([2**53 + 1, None], "Int64")
    with TableWriter(path) as writer:
        writer.write(frame[:1])
        writer.write(frame[1:])
    back = read_table(path)
    assert list(back["smiles"]) == ["C", "CC"] and list(back.index) == [1, 2]
    np.testing.assert_array_equal(numbers(back, "y", "o.parquet"), [1, np.nan])
    assert back["id"].dtype == "Int64" and back["id"].equals(frame["id"])
    np.testing.assert_array_equal(numbers(back, "id", "o.parquet"), [2.0**53, np.nan])
    assert [len(part) for part in stream_table(path, 1)] == [1, 1]
    frame[:0].to_parquet(path)
    (empty,) = stream_table(path)
    assert (list(empty.columns), len(empty)) == (["smiles", "y", "id"], 0)
    with (
        pytest.raises(FileError, match="no two columns named 'a'"),
        TableWriter(path, overwrite=True) as writer,
    ):
        writer.write(pd.DataFrame([[1, 2]], columns=["a", "a"]))
    with TableWriter(path, overwrite=True) as writer:
        writer.write(pd.DataFrame({1: ["x"]}))
    assert list(read_table(path)) == ["1"]
    with TableWriter(path, overwrite=True) as writer:
        writer.write(pd.DataFrame({"a": [1]}))
        with pytest.raises(FileError, match=r"o\.parquet: rows do not fit the first ones: .*trun"):
            writer.write(pd.DataFrame({"a": [1.5]}))
    with pytest.raises(FileNotFoundError, match=r"absent.parquet"):
        read_table(tmp_path / "absent.parquet")
    for content in (b"PAR1", b"PAR1" + b"\xff" * 40 + b"\x10\0\0\0PAR1"):
        with pytest.raises(FileError, match=r"o\.parquet: it cannot be read as Parquet"):
            read_table(written(path, content))


def test_which_index_of_parquet_is_a_column(tmp_path: Path) -> None:
    pytest.importorskip("pyarrow")
    backwards = [4, 3, 2, 1, 0]
    for index, is_column in (
        (pd.RangeIndex(5), False),
        (pd.RangeIndex(5, name="row"), False),
        (pd.RangeIndex(5, name="y"), False),
        (pd.Index(backwards, dtype="int64"), False),
        (pd.Index(backwards, dtype="int64", name="row"), True),
        (pd.Index(list("abcde"), name="row"), True),
    ):
        pd.DataFrame({"y": range(5)}, index=index).to_parquet(tmp_path / "o.parquet")
        for rows in (2, 5, None):
            found = pd.concat(stream_table(tmp_path / "o.parquet", rows))
            assert list(found.columns) == (["row", "y"] if is_column else ["y"])
            assert list(found.index) == [1, 2, 3, 4, 5] and found["y"].tolist() == list(range(5))


def test_which_cells_are_numbers() -> None:
    for cells, expected, wrong in (
        (pd.Series(["1.5", "NA", " ", "x", "inf"]), [1.5, None, None, None, np.inf], [3, 4]),
        (pd.Series([True, False]), [1, 0], []),
        (pd.Series([1, None], dtype="Int64"), [1, None], []),
        (pd.Series([1.5, np.nan], dtype="category"), [1.5, None], []),
        (pd.Series([Decimal("1.5"), None]), [1.5, None], []),
        (pd.Series(pd.to_datetime(["2026-01-01", None])), [None, None], [0]),
        (pd.Series(pd.to_datetime(["2026-01-01", None], utc=True)), [None, None], [0]),
        (pd.Series(pd.to_timedelta([1, None], unit="s")), [None, None], [0]),
        (pd.Series([date(2026, 1, 1), None]), [None, None], [0]),
    ):
        values, are_wrong = as_numbers(cells)
        np.testing.assert_array_equal(values, np.array(expected, float))
        assert np.flatnonzero(are_wrong).tolist() == wrong


def test_what_is_no_number_is_named() -> None:
    """A comma is never interpreted as a decimal or a thousands separator."""
    for cells, said in (
        (["2", "-1,5"], "line 3: '-1,5' .*; decimals have a point, thousands no mark; advice"),
        (["2", "1,234.5"], "line 3: '1,234.5' .*; decimals have a point, thousands no mark"),
        (["2", "low, high"], r"line 3: 'low, high' .* \(1 are not; advice"),
        (
            pd.to_datetime([None, "2026-01-01"]),
            "line 3: Timestamp.* in column 'y' is no finite",
        ),
    ):
        frame = pd.DataFrame({"y": cells}).set_axis([2, 3])
        with pytest.raises(FileError, match=said):
            numbers(frame, "y", "own.csv", "; advice")
