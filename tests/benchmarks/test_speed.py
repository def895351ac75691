"""The speed benchmark runs, counts its products right, and says what is wrong in one line."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

pytest.importorskip("rdkit", reason="the benchmark's molecules need the extra 'mol'")

from benchmarks.speed import graph
from benchmarks.speed.__main__ import main


def test_graph(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["graph", "--molecules", "chembl", "--channels", "8", "--rounds", "1"]
    assert main([*words, "--threads", "1", "--out", str(tmp_path / "new" / "folder")]) == 0
    printed = capsys.readouterr().out
    content = json.loads((tmp_path / "new" / "folder" / "metrics.json").read_text())
    names = [row["layer"] for row in content["layers"]]
    assert "WLKernelConv gated" in names
    assert all(name in printed for name in names)
    for row in content["layers"]:
        ratio = row["milliseconds"] / row["products_milliseconds"]
        assert row["over_products"] == pytest.approx(ratio)
    gine = next(row for row in content["layers"] if row["layer"].startswith("GINE"))
    assert gine["over_gine"] == 1


def test_products_are_those_of_the_layers() -> None:
    """Weights of channels x channels entries: all that a layer has, but for bonds and biases."""
    channels, edge_dim = 8, 3
    for contestant in graph.contestants(channels, edge_dim):
        square = [
            p for p in contestant.layer.parameters() if tuple(p.shape) == (channels, channels)
        ]
        wide = [
            p
            for p in contestant.layer.parameters()
            if p.dim() == 2 and p.shape == (channels, channels + edge_dim)
        ]  # PyG's ResGatedGraphConv multiplies node and bond features in one matrix
        assert len(square) + len(wide) == sum(contestant.products), contestant.name


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["graph", "--device", "nonsense"], "--device nonsense"),
        (["graph", "--device", "meta"], "expected cpu or cuda"),
        (["graph", "--rounds", "0"], "--rounds 0"),
        (["nonsense"], "invalid choice"),
        (["graph", "--molecules", "chembl", "--out", __file__], "File exists"),
    ],
)
def test_bad_input(words: list[str], message: str, capsys: pytest.CaptureFixture[str]) -> None:
    try:
        status = main(words)
    except SystemExit as stop:
        status = stop.code
    assert status == 2
    assert message in capsys.readouterr().err
