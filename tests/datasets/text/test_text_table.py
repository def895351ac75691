"""Tables of texts with named columns."""

from pathlib import Path

import pandas
import pytest

from pyg_kernels.datasets.text import TextTable, read_text_table

ROWS = [{"text": f"a {k}, b", "more": "NA", "label": ("null", "1")[k % 2]} for k in range(10)]


@pytest.mark.parametrize("name", ["t.csv", "t.tsv", "t.csv.gz", "t.parquet"])
def test_files_of_every_kind_say_the_same(tmp_path: Path, name: str) -> None:
    path, frame = tmp_path / name, pandas.DataFrame(ROWS)
    if name.endswith("parquet"):
        frame.to_parquet(path)
    else:
        frame.to_csv(path, index=False, sep="\t" if ".tsv" in name else ";")
    corpus = TextTable(path, text_column=["text", "more"], seed=1)
    assert corpus.texts[3] == ["a", "3", ",", "b", "na"]
    assert corpus.classes == ("1", "null")
    assert [corpus.classes[k] for k in corpus.labels] == [row["label"] for row in ROWS]
    assert {part: len(places) for part, places in corpus.parts.items()} == {"train": 8, "test": 2}
    assert corpus.split == f"random 20% of each class of {name} for testing (seed 1)"
    both = TextTable(path, path)
    assert (both.split, len(both.parts["test"])) == ("given test part", 10)


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("words,label\na,b\n", "no column named 'text'; its columns are 'words', 'label'"),
        ("text,label\na\nb,c\n", "line 2: no class"),
        ("text,label\na,x\n ,y\n", "line 3: no text"),
        ("text,label\na,x\nb,x\n", "all texts of .* have the class 'x' in column 'label'"),
        ("text,label\na,x\nb,y\n", "too few of the 2 texts of t.csv to draw 0.2 .* a test file"),
    ],
)
def test_a_bad_table_is_named(tmp_path: Path, content: str, said: str) -> None:
    path = tmp_path / "t.csv"
    path.write_text(content)
    with pytest.raises(ValueError, match=said):
        TextTable(path)


def test_a_blank_line_of_one_column_is_an_empty_text(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_text("text\na\n\nb\n")
    assert read_text_table(path, ["text"])["text"].tolist() == ["a", "", "b"]
    path.write_text("text,n\na,1\n\nb,2\n")
    assert read_text_table(path, ["text"])["text"].tolist() == ["a", "b"]
