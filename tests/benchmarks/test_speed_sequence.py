"""The speed benchmark of the sequence layers runs, and counts their products right."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch

from benchmarks.speed import sequence
from benchmarks.speed.__main__ import main


def test_sequence(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["sequence", "--shapes", "3x2x8", "60x1x4", "--rounds", "1", "--threads", "1"]
    assert main([*words, "--out", str(tmp_path)]) == 0
    printed = capsys.readouterr().out
    content = json.loads((tmp_path / "metrics.json").read_text())
    assert [table["size"] for table in content["tables"]] == ["3x2x8", "60x1x4"]
    for table in content["tables"]:
        rows = {row["layer"]: row for row in table["rows"]}
        lstm = rows["nn.LSTM"]
        for name, row in rows.items():
            assert name in printed
            ratio = row["milliseconds"] / row["products_milliseconds"]
            assert row["over_products"] == pytest.approx(ratio)
            ratio = row["milliseconds"] / lstm["milliseconds"]
            assert row["over_nn.LSTM"] == pytest.approx(ratio)


def test_products_are_those_of_the_layers() -> None:
    """As many entries in all as the layer's matrices have, biases left out."""
    channels = 8
    for contestant in sequence.contestants(channels):
        entries = sum(p.numel() for p in contestant.layer.parameters() if p.dim() == 2)
        assert entries == sum(contestant.products) * channels**2, contestant.name


def test_bandwidth_counts_bytes() -> None:
    rows = sequence.measure_scan_bandwidth(1, torch.device("cpu"), (4, 2, 8))
    assert [row["run"] for row in rows] == ["copy", *(f"scan, order {n}" for n in (1, 2, 3))]
    size = 4 * 2 * 8 * 4
    for row, tensors in zip(rows, (2, 4, 6, 8), strict=True):
        rate = tensors * size / row["milliseconds"] * 1e3 / 1e9
        assert row["gigabytes_a_second"] == pytest.approx(rate)
    assert "scan, order 2" in sequence.bandwidth_table(rows).text()


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["sequence", "--shapes", "3x2"], "expected TxBxD"),
        (["sequence", "--shapes", "3x0x2"], "expected numbers of at least 1"),
        (["sequence", "--shapes", "axbxc"], "expected TxBxD"),
        (["sequence", "--device", "meta"], "expected cpu or cuda"),
    ],
)
def test_bad_input(words: list[str], message: str, capsys: pytest.CaptureFixture[str]) -> None:
    try:
        status = main(words)
    except SystemExit as stop:
        status = stop.code
    assert status == 2
    assert message in capsys.readouterr().err
