"""``import pyg_kernels as pk`` and everything under ``pk``, as one types it."""

from __future__ import annotations

import pkgutil
import subprocess
import sys
from importlib.metadata import version

import pytest

import pyg_kernels as pk


def run(code: str) -> str:
    """What a fresh interpreter prints."""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return done.stdout.strip()


def test_the_import_alone_loads_nothing_heavy() -> None:
    heavy = {"torch", "torch_geometric", "numpy", "numba", "sklearn", "scipy", "rdkit"}
    assert run(f"import sys, pyg_kernels; print({heavy} & sys.modules.keys())") == "set()"


def test_subpackages_load_when_they_are_asked_for() -> None:
    code = (
        "import sys, pyg_kernels as pk; print(pk.nn.WLKernelNet.__name__, 'torch' in sys.modules)"
    )
    assert run(code) == "WLKernelNet True"


def test_every_public_part_is_listed_and_there() -> None:
    pytest.importorskip("rdkit", reason="pk.chem needs the extra 'mol'")
    parts = [name for name in pk.__all__ if name != "__version__"]
    for name in parts:
        assert getattr(pk, name).__name__ == f"pyg_kernels.{name}"
    assert set(pk.__all__) <= set(dir(pk))
    packages = {found.name for found in pkgutil.iter_modules(pk.__path__) if found.ispkg}
    assert packages <= set(parts)


def test_the_version_is_that_of_the_metadata() -> None:
    assert pk.__version__ == version("pyg_kernels")


def test_unknown_names_are_attribute_errors() -> None:
    with pytest.raises(AttributeError, match="no attribute 'networks'"):
        pk.networks  # noqa: B018
