"""Small data sets in the layout of the Open Graph Benchmark: real molecules, made-up targets."""

import gzip
import math
from collections.abc import Sequence
from pathlib import Path

import pytest

SMILES = (
    *("CCO", "CCN", "CCCO", "CCCN", "CC(C)O", "c1ccccc1", "Cc1ccccc1", "Oc1ccccc1", "Nc1ccccc1"),
    *("CC=O", "CC(=O)O", "CC(=O)N", "C", "F/C=C/F", "F/C=C\\F", "C[C@H](N)C(=O)O", "[Na+].[Cl-]"),
    *("CC#N", "CCCC", "CCCCC", "C1CCCCC1", "c1ccncc1", "CSC", "CS(=O)C", "ClCCl", "BrCCBr"),
    *("FC(F)F", "OCCO", "NCCN", "COC"),
)


def write_ogb_set(
    root: Path,
    name: str,
    targets: Sequence[Sequence[float]],
    target_names: Sequence[str],
    smiles: Sequence[str] = SMILES,
) -> Path:
    """Writes the files that OGB publishes for a set such as ``'ogbg-molesol'``; gives its folder.

    Of every five molecules one is in valid and one in test. Missing targets are NaN.
    """
    ogb = pytest.importorskip("ogb.utils", reason="the extra 'test' is not installed")
    folder = root / name.replace("-", "_")
    graphs = [ogb.smiles2graph(text) for text in smiles]
    raw = {
        "num-node-list": [[len(graph["node_feat"])] for graph in graphs],
        "num-edge-list": [[len(graph["edge_feat"]) // 2] for graph in graphs],
        "node-feat": [row for graph in graphs for row in graph["node_feat"].tolist()],
        "edge": [row for graph in graphs for row in graph["edge_index"].T[::2].tolist()],
        "edge-feat": [row for graph in graphs for row in graph["edge_feat"][::2].tolist()],
        "graph-label": [["" if math.isnan(y) else y for y in row] for row in targets],
    }
    for file, rows in raw.items():
        _write(folder / "raw" / f"{file}.csv.gz", rows)
    places = range(len(smiles))
    parts = {"valid": places[3::5], "test": places[4::5]}
    parts["train"] = [k for k in places if k % 5 < 3]
    for part, chosen in parts.items():
        _write(folder / "split" / "scaffold" / f"{part}.csv.gz", [[k] for k in chosen])
    header = [*target_names, "smiles", "mol_id"]
    rows = [
        [*row, text, f"M{k}"]
        for k, (row, text) in enumerate(zip(raw["graph-label"], smiles, strict=True))
    ]
    _write(folder / "mapping" / "mol.csv.gz", [header, *rows])
    (folder / "RELEASE_v1.txt").write_text("")
    return folder


def _write(path: Path, rows: Sequence[Sequence[object]]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(gzip.compress("".join(",".join(map(str, r)) + "\n" for r in rows).encode()))
