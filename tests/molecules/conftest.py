"""Forests of few trees: the tests are about what goes in and out."""

from __future__ import annotations

import pytest

from pyg_kernels.molecules import methods


@pytest.fixture(autouse=True)
def few_trees(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(methods, "TREES", 20)
