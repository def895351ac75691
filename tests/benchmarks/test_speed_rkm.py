"""The speed benchmark of the recurrent kernel machines runs, and counts their products right."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from benchmarks.speed import rkm
from benchmarks.speed.__main__ import main
from pyg_kernels.sequence import RKM


def test_rkm(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["rkm", "--shapes", "3x2x8", "--rounds", "1", "--threads", "1"]
    assert main([*words, "--out", str(tmp_path)]) == 0
    printed = capsys.readouterr().out
    (table,) = json.loads((tmp_path / "metrics.json").read_text())["tables"]
    names = [row["layer"] for row in table["rows"]]
    assert names == [contestant.name for contestant in rkm.contestants(8)]
    assert all(name in printed for name in names)
    lstm = next(row for row in table["rows"] if row["layer"] == "nn.LSTM")
    for row in table["rows"]:
        ratio = row["milliseconds"] / lstm["milliseconds"]
        assert row["over_nn.LSTM"] == pytest.approx(ratio)


def test_every_cell_takes_part() -> None:
    """All but the general one, whose q is the user's."""
    layers = [contestant.layer for contestant in rkm.contestants(4)]
    cells = {layer.cells[0].cell for layer in layers if isinstance(layer, RKM)}
    assert cells == {name for name, *_ in rkm.CELLS}
    assert len(cells) == 8


def test_products_are_those_of_the_layers() -> None:
    """As many entries in all as the layer's matrices have, biases left out."""
    channels = 8
    for contestant in rkm.contestants(channels):
        entries = sum(p.numel() for p in contestant.layer.parameters() if p.dim() > 1)
        assert entries == sum(contestant.products) * channels**2, contestant.name
