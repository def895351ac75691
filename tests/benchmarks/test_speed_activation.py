"""The speed benchmarks of learned activations run, and compare what they say they do."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch

from benchmarks.speed import activation, kbrn
from benchmarks.speed.__main__ import main
from pyg_kernels.ops.expansion import GREENS

CPU = torch.device("cpu")


def test_activation(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["activation", "--inputs", "30", "4", "--centers", "1", "7", "--rounds", "1"]
    assert main([*words, "--threads", "1", "--out", str(tmp_path)]) == 0
    printed = capsys.readouterr().out
    (table,) = json.loads((tmp_path / "metrics.json").read_text())["tables"]
    rows = table["rows"]
    assert table["size"] == "30x4"
    learned = [(row["activation"], row["num_centers"]) for row in rows if row["num_centers"]]
    assert learned == [(green, count) for green in GREENS for count in (1, 7)]
    assert [row["activation"] for row in rows[len(learned) :]] == list(activation.PLAIN)
    relu = next(row for row in rows if row["activation"] == "nn.ReLU")
    for row in rows:
        assert row["activation"] in printed
        assert row["over_relu"] == pytest.approx(row["milliseconds"] / relu["milliseconds"])
        if row["num_centers"]:
            ratio = row["direct_milliseconds"] / row["milliseconds"]
            assert row["speedup"] == pytest.approx(ratio)


def test_both_sides_compute_the_same() -> None:
    """The direct sum is that of the layer's own parameters."""
    a = torch.randn(20, 3)
    for ours, direct in activation.contestants(3, (1, 9), CPU):
        if direct is not None:
            assert direct.parameters is ours.parameters
            torch.testing.assert_close(ours.apply(a), direct.apply(a), rtol=1e-4, atol=1e-5)


def test_kbrn(tmp_path: Path) -> None:
    words = ["kbrn", "--shapes", "3x2x8", "--rounds", "1", "--threads", "1"]
    assert main([*words, "--out", str(tmp_path)]) == 0
    (table,) = json.loads((tmp_path / "metrics.json").read_text())["tables"]
    assert [row["layer"] for row in table["rows"]] == [c.name for c in kbrn.contestants(8)]
    rnn = next(row for row in table["rows"] if row["layer"] == "nn.RNN")
    for row in table["rows"]:
        assert row["over_nn.RNN"] == pytest.approx(row["milliseconds"] / rnn["milliseconds"])


@pytest.mark.parametrize("words", [["--inputs", "0", "4"], ["--centers", "0"]])
def test_bad_numbers(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["activation", *words])
    assert "at least 1" in capsys.readouterr().err
