"""The speed benchmark runs, counts its products right, and says what is wrong in one line."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch
from torch_geometric.utils import contains_self_loops, is_undirected

from benchmarks.speed import activation, graph
from benchmarks.speed.__main__ import TABLES, main
from benchmarks.speed.timing import medians
from pyg_kernels.ops import backend


@pytest.mark.parametrize("molecules", ["random", "chembl"])
def test_graph(molecules: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    if molecules == "chembl":
        pytest.importorskip("rdkit", reason="the benchmark's molecules need the extra 'mol'")
    words = ["graph", "--molecules", molecules, "--channels", "8", "--rounds", "1"]
    assert main([*words, "--threads", "1", "--out", str(tmp_path / "new" / "folder")]) == 0
    printed = capsys.readouterr().out
    content = json.loads((tmp_path / "new" / "folder" / "metrics.json").read_text())
    (table,) = content["tables"]
    assert table["size"].startswith(f"{molecules} molecules: ")
    rows = {row["layer"]: row for row in table["rows"]}
    assert "WLKernelConv gated" in rows
    for name, row in rows.items():
        assert name in printed
        ratio = row["milliseconds"] / row["products_milliseconds"]
        assert row["over_products"] == pytest.approx(ratio)
    assert rows["GINEConv (PyG)"]["over_gine"] == 1


def test_random_molecules() -> None:
    generator = torch.Generator().manual_seed(0)
    edge_index, edge_attr = graph.random_molecules(5, generator)
    bonds = graph.ATOMS - 1 + graph.RINGS
    assert edge_index.shape == (2, 5 * 2 * bonds) and edge_attr.sum(1).eq(1).all()
    atoms = edge_index // graph.ATOMS
    assert torch.equal(atoms[0], atoms[1]) and atoms.unique().tolist() == list(range(5))
    assert is_undirected(edge_index, edge_attr) and not contains_self_loops(edge_index)
    assert edge_index.unique(dim=1).size(1) == edge_index.size(1)


@pytest.mark.parametrize("device", ["cpu", pytest.param("cuda", marks=pytest.mark.cuda)])
def test_all_tables(
    device: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(graph.MOLECULES, device, 4)
    monkeypatch.setitem(activation.SHAPES, device, (30, 4))
    monkeypatch.setitem(activation.CENTERS, device, (3,))
    words = ["--shapes", "3x2x8", "--channels", "8", "--rounds", "1", "--threads", "1"]
    assert main([*words, "--device", device, "--out", str(tmp_path)]) == 0
    content = json.loads((tmp_path / "metrics.json").read_text())
    assert [table["table"] for table in content["tables"]] == list(TABLES)
    assert content["ops"] == backend(device)
    name = "cpu" if device == "cpu" else torch.cuda.get_device_name()
    printed = capsys.readouterr().out
    assert printed.count(f"device: {name}, ") == printed.count(str(backend(device))) == len(TABLES)


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a CUDA device")
def test_no_cuda_device(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--device", "cuda"]) == 2
    out, err = capsys.readouterr()
    assert not out
    assert err == "benchmarks.speed: error: --device cuda: no CUDA device is available\n"


@pytest.mark.parametrize(("limit", "times"), [(0.0, 2 + 1), (1e6, 2 + 5)])
def test_rounds(limit: float, times: int) -> None:
    """Two that do not count, then those that the limit allows, at least one."""
    calls: list[str] = []
    steps = [lambda: calls.append("a"), lambda: calls.append("b")]
    seconds = medians(steps, 5, torch.device("cpu"), limit)
    assert len(seconds) == 2 and all(s > 0 for s in seconds)
    assert calls.count("a") == calls.count("b") == times


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
        (["graph", "--out", __file__], "File exists"),
    ],
)
def test_bad_input(words: list[str], message: str, capsys: pytest.CaptureFixture[str]) -> None:
    try:
        status = main(words)
    except SystemExit as stop:
        status = stop.code
    assert status == 2
    assert message in capsys.readouterr().err
