"""The documentation's page runs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from pyg_kernels.molecules import MoleculeRegressor
from tests.molecules.sets import LOGP, SMALL, SMILES

PAGE = Path(__file__).parents[2] / "docs" / "molecule_estimators.rst"


def snippet(start: str) -> str:
    """The block of code of the page that has a line with this text."""
    blocks = PAGE.read_text().split(".. code-block:: python\n")[1:]
    for block in blocks:
        lines = block.split("\n")
        end = next((i for i, t in enumerate(lines) if t and not t.startswith("   ")), len(lines))
        if any(start in line for line in lines[:end]):
            return "\n".join(line[3:] for line in lines[:end])
    raise AssertionError(start)


def test_from_a_csv_to_a_prediction(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    rows = [f"{text},{y}" for text, y in zip(SMILES * 3, [*LOGP] * 3, strict=True)]
    Path("molecules.csv").write_text("\n".join(["smiles,logS", *rows]))
    names: dict[str, Any] = {}
    exec(snippet("reg.save"), names)
    assert (names["low"] <= names["mean"]).all()
    assert (tmp_path / "solubility" / "manifest.json").is_file()


def test_add_your_own_model(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    package = tmp_path / "mypkg"
    package.mkdir()
    (package / "__init__.py").write_text("")
    (package / "nets.py").write_text(snippet("mypkg/nets.py"))
    monkeypatch.syspath_prepend(tmp_path)
    fitted = MoleculeRegressor("mypkg.nets:Net", **SMALL).fit(SMILES, LOGP)
    assert fitted.transform(SMILES[:3]).shape == (3, SMALL["hidden_channels"])
