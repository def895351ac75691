"""The tables of results that the documentation makes of runs."""

import json
from pathlib import Path

import pytest

sphinx = pytest.importorskip("sphinx", reason="needs the dependency group dev")
DOCS = Path(__file__).parents[2] / "docs"
COUNTS = {"one": 1234, "two": None}


def runs(metric, **tests):
    return [
        {"model": model, "metric": metric, "test": test, "num_parameters": COUNTS[model]}
        for model, found in tests.items()
        for test in found
    ]


@pytest.mark.parametrize(
    ("metric", "best", "texts"),
    [
        ("rmse", "one", {"one": "**0.500**", "two": "0.700 ± 0.141"}),
        ("roc_auc", "two", {"one": "0.500", "two": "**0.700 ± 0.141**"}),
    ],
)
def test_a_column_has_means_and_the_best_in_bold(tmp_path, monkeypatch, metric, best, texts):
    monkeypatch.syspath_prepend(DOCS / "extensions")
    from results import column

    path = tmp_path / "runs.json"
    path.write_text(json.dumps(runs(metric, one=[0.5], two=[0.6, 0.8])))
    found = column(path)
    assert found["text"].to_dict() == texts
    assert found["rank"].idxmin() == best
    assert found["parameters"].to_dict() == {"one": "1,234", "two": ""}
