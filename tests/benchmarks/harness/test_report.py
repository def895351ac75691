"""The table's text."""

from benchmarks.harness.report import Table


def test_columns_line_up():
    table = Table("caption", ("model", "test"), [["wl-gated", "0.912 ± 0.010"], ["mean", "2.5"]])
    lines = table.text().splitlines()
    assert lines[0] == "caption"
    assert len({len(line) for line in lines[2:]}) == 1
    assert lines[-1] == "mean      " + "2.5".rjust(13)
    assert table.markdown().splitlines()[-3:] == [
        "| :-- | --: |",
        "| wl-gated | 0.912 ± 0.010 |",
        "| mean | 2.5 |",
    ]
