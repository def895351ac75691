from pathlib import Path

import pandas as pd
import pytest

from pyg_kernels.molecules import methods
from tests.datasets.conftest import real_data  # noqa: F401
from tests.molecules.sets import AROMATIC, LOGP, SMILES


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with a table of molecules to learn from."""
    frame = pd.DataFrame({"smiles": SMILES, "y": LOGP, "kind": AROMATIC, "other": -LOGP})
    frame.to_csv(tmp_path / "m.csv", index=False)
    return tmp_path


@pytest.fixture(autouse=True)
def few_trees(monkeypatch: pytest.MonkeyPatch) -> None:
    """Few trees are enough: these tests are about what goes in and out."""
    monkeypatch.setattr(methods, "TREES", 20)
