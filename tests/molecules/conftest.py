"""Forests of few trees: the tests are about what goes in and out."""

import pytest

from pyg_kernels.molecules import methods


@pytest.fixture(autouse=True)
def few_trees(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(methods, "TREES", 20)
