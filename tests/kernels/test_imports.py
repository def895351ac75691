"""The exact kernels and the neural code know nothing of each other; `features` knows both."""

from __future__ import annotations

import ast
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import pyg_kernels

PACKAGE = Path(pyg_kernels.__file__).parent
NEURAL = {"nn", "sequence", "walk", "propagation"}
KERNELS = {"kernels", "features"}
OTHERS = {"explain", "molecules", "rationale"}
OPTIONAL = [
    "grakel",
    "networkx",
    "rdkit",
    "ogb",
    "pandas",
    "matplotlib",
    "lightning",
    "torch_scatter",
]


def parts_imported(part: str) -> Iterator[str]:
    """The parts of the package that one imports anywhere, other than for type checkers."""
    folder = PACKAGE / part
    for file in folder.rglob("*.py") if folder.is_dir() else [folder.with_suffix(".py")]:
        tree = ast.parse(file.read_text())
        tree.body = [node for node in tree.body if not isinstance(node, ast.If)]
        for node in ast.walk(tree):
            names: list[str] = []
            if isinstance(node, ast.Import):
                names = [alias.name for alias in node.names]
            elif isinstance(node, ast.ImportFrom):
                assert not node.level and node.module
                names = [f"{node.module}.{alias.name}" for alias in node.names]
            yield from (n.split(".")[1] for n in names if n.startswith("pyg_kernels."))


IMPORTED = {
    path.stem: set(parts_imported(path.stem))
    for path in PACKAGE.iterdir()
    if path.suffix == ".py" or (path / "__init__.py").is_file()
}


@pytest.mark.parametrize(
    ("parts", "forbidden"),
    [
        ({"kernels"}, NEURAL | OTHERS | {"features", "datasets"}),
        (NEURAL | {"ops", "chem", "datasets"}, KERNELS | OTHERS),
        ({"ops", "segments", "chem"}, NEURAL - {"walk"} | KERNELS | OTHERS | {"datasets"}),
    ],
)
def test_parts_know_nothing_of_each_other(parts: set[str], forbidden: set[str]) -> None:
    """Also by no way: what the kernels may import is among the parts of the last row."""
    for part in parts:
        assert not (IMPORTED[part] - {part}) & forbidden, part
    assert IMPORTED["kernels"] == {"kernels", "ops", "segments", "chem"}


def test_features_alone_imports_both() -> None:
    """And the estimators of molecules, of which some are kernel methods."""
    both = {part for part, found in IMPORTED.items() if "kernels" in found and found & NEURAL}
    assert both - {"molecules"} == {"features"}


def test_optional_packages_are_not_needed() -> None:
    """In a fresh process that finds none of them, where no molecule is read."""
    code = (
        "import sys\n"
        f"sys.modules.update(dict.fromkeys({OPTIONAL!r}))\n"
        "import pyg_kernels.kernels\n"
        "print(*(name for name in sys.modules if name.startswith('pyg_kernels.')))\n"
        "import pyg_kernels.features\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    loaded = {name.split(".")[1] for name in done.stdout.split()}
    assert "kernels" in loaded and not loaded & (NEURAL | OTHERS | {"features", "datasets", "chem"})
