"""The table's text and the digits of its numbers."""

from benchmarks.harness.table import Table, number_format


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
    # No name breaks the columns.
    table = Table("caption", ("model", "a|b\nc"), [["mean", "2.5"]])
    assert len({len(line) for line in table.text().splitlines()[2:]}) == 1
    assert table.markdown().splitlines()[2] == "| model | a\\|b c |"


def test_digits_follow_the_largest_number():
    for values, shown in (
        ([1.2345, 0.5], "1.234"),
        ([1234.5], "1234.500"),
        ([0.00123456, 0.001], "0.00123"),
        ([1.23456e-9], "1.235e-09"),
        ([1.23456e30], "1.235e+30"),
        ([0.0], "0.000"),
        ([0.25, float("nan"), float("inf")], "0.250"),
    ):
        assert f"{values[0]:{number_format(values)}}" == shown
