"""The table, the pictures and the page."""

from typing import Any

import numpy as np
import pytest
import torch

pytest.importorskip("lightning", reason="the benchmark needs the extra 'bench'")
pytest.importorskip("rdkit", reason="molecules need the extra 'mol'")
pytest.importorskip("captum", reason="the benchmark needs the extra 'bench'")

from benchmarks.harness.explanations.report import (
    Results,
    common_scale,
    means,
    page,
    planted_figure,
    table,
)
from benchmarks.harness.explanations.sentences import Sentence
from pyg_kernels.molecules import MoleculeExplanation


def record(precision: float, seconds: float) -> dict[str, Any]:
    measures = {"fid+": 1.0, "fid-": 0.0, "change without": 2 * precision, "change alone": 0.5}
    values = {"nodes": [0.5, -1.0, 0.0], "edges": [0.25, 0.25, -0.5, 0.0]}
    return {"precision": precision, **measures, "seconds": seconds, **values}


def attribution(*signs: float) -> MoleculeExplanation:
    """One molecule for each sign."""
    return MoleculeExplanation(
        smiles=["CC#N"] * len(signs),
        output=np.array([0.5] * len(signs)),
        atoms=[np.array([0.5, -1.0, 0.0]) * sign for sign in signs],
        bonds=[np.array([0.5, -1.5]) * sign for sign in signs],
        walks=[[((0, 1), 0.5)] for _ in signs],
        constant=np.array([1.0] * len(signs)),
    )


def results(**changes: Any) -> Results:
    sentence = Sentence(
        words=["a", "<b>"],
        tokens=torch.tensor([0.5, -1.0]),
        ngrams=[((0, 1), -0.5)],
        gates=torch.full((2, 3), 0.5),
        score=-0.5,
        question="score of class 1 over class 0",
        predicted="0",
        gap=1e-15,
    )
    contents: dict[str, Any] = {
        "about": "csv: the number of C#N",
        "records": {"walks": [record(1.0, 0.1), record(0.5, 9.0), record(0.0, 0.2)]},
        "evidence": [torch.tensor([False, True, True])],
        "chance": 0.25,
        "planted": attribution(1.0),
        "counts": [1.0],
        "measured": attribution(1.0, -1.0),
        "values": [1.0, 2.0],
        "sentences": [sentence],
        "runs": {"planted": {"model": "wl", "num_parameters": 1234, "test": 0.0312, "seed": 0}},
        "target": "y < 5 & more",
    }
    return Results(**{**contents, **changes})


def test_means_and_the_median_of_seconds() -> None:
    found = means([record(1.0, 0.1), record(0.5, 9.0), record(0.0, 0.2)])
    assert found["precision"] == 0.5
    assert found["change without"] == 1.0
    assert found["seconds"] == 0.2


def test_table() -> None:
    found = table(results())
    assert found.rows == [["walks", "0.500", "1.00", "0.00", "1.00", "0.50", "0.2000"]]
    assert "C#N in a molecule, predicted by wl (1,234 parameters, test RMSE 0.031" in found.caption
    assert "0.250 by chance" in found.caption


def test_metrics() -> None:
    found = results().metrics()
    assert found["methods"][0]["molecules"] == 3
    assert found["sentences"][0]["ngrams"] == [["a <b>", -0.5]]


def test_page_is_escaped_and_whole() -> None:
    found = page(results(), [b"a picture"])
    assert found.count("<svg") == found.count("</svg>") == 3
    assert "y &lt; 5 &amp; more" in found
    assert "&lt;b&gt;" in found
    assert "base64,YSBwaWN0dXJl" in found
    assert "<b>" not in found
    assert "atoms -0.500, the rest +1.000" in found
    assert "<h2>Texts</h2>" not in page(results(sentences=[]), [])


def test_one_scale_for_all() -> None:
    assert common_scale(attribution(1.0, -2.0)) == 3.0
    assert common_scale(attribution()) is None


def test_planted_picture_has_a_column_a_method() -> None:
    titles = [axes.get_title() for axes in planted_figure(results()).axes]
    assert titles == ["predicted 0.50, true 1", "walks"]
