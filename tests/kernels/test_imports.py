"""The exact kernels and the neural code know nothing of each other; `features` knows both."""

from __future__ import annotations

import ast
import subprocess
import sys
from collections.abc import Iterable
from functools import cache
from pathlib import Path

import pytest

import pyg_kernels

PACKAGE = Path(pyg_kernels.__file__).parent
NEURAL = ["nn", "sequence", "walk", "propagation"]
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


def module_name(file: Path) -> str:
    parts = file.relative_to(PACKAGE.parent).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


FILES = {module_name(file): file for file in sorted(PACKAGE.rglob("*.py"))}


@cache
def imported(module: str, when_called: bool = True) -> frozenset[str]:
    """The modules of this package that a module's source imports, within functions or not."""
    file, names = FILES[module], []
    package = module if file.stem == "__init__" else module.rpartition(".")[0]
    tree = ast.parse(file.read_text())
    tree.body = [node for node in tree.body if not _for_type_checkers(node)]
    for part in [] if when_called else list(ast.walk(tree)):
        if isinstance(part, ast.Module | ast.ClassDef):
            part.body = [node for node in part.body if not isinstance(node, ast.FunctionDef)]
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            names += [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            above = package.split(".")[: len(package.split(".")) - node.level + 1]
            base = ".".join([*(above if node.level else []), *filter(None, [node.module])])
            names += [base, *(f"{base}.{alias.name}" for alias in node.names)]
    return frozenset(name for name in names if name in FILES)


def _for_type_checkers(node: ast.stmt) -> bool:
    return isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING"


@cache
def loaded(module: str, when_called: bool = True) -> set[str]:
    """What a module loads of this package, and its functions, and the packages around it."""
    found: set[str] = set()
    waiting = [(module, when_called)]
    seen: set[tuple[str, bool]] = set()
    while waiting:
        name, when_called = waiting.pop()
        if (name, when_called) not in seen:
            seen.add((name, when_called))
            found.add(name)
            waiting += [(other, when_called) for other in imported(name, when_called)]
            waiting += [(name.rpartition(".")[0], False)] if "." in name else []
    return found


def inside(module: str, parts: Iterable[str]) -> bool:
    return module.split(".")[1:2] in [[part] for part in parts]


def of(*parts: str) -> list[str]:
    found = [module for module in FILES if inside(module, parts)]
    assert all(any(inside(module, [part]) for module in found) for part in parts)
    return found


@pytest.mark.parametrize("module", of("kernels"))
def test_kernels_load_no_neural_code(module: str) -> None:
    """By no way, and nothing that needs optional packages before a molecule is read."""
    found = loaded(module)
    assert [name for name in found if inside(name, [*NEURAL, "datasets"])] == []
    assert "pyg_kernels.features" not in found
    assert [name for name in loaded(module, False) if inside(name, ["chem"])] == []


def test_nothing_else_loads_the_kernels() -> None:
    for module in of(*NEURAL, "ops", "chem", "datasets"):
        assert [name for name in loaded(module) if inside(name, ["kernels", "features"])] == []


def test_features_alone_imports_both() -> None:
    """And the estimators of molecules, of which some are kernel methods."""
    both = [
        module
        for module in FILES
        if any(inside(name, ["kernels"]) for name in imported(module))
        and any(inside(name, NEURAL) for name in imported(module))
    ]
    assert [name for name in both if not inside(name, ["molecules"])] == ["pyg_kernels.features"]


def test_optional_packages_are_not_needed() -> None:
    """In a fresh process that finds none of them; the sources above missed nothing it loads."""
    code = (
        "import sys\n"
        f"sys.modules.update(dict.fromkeys({OPTIONAL!r}))\n"
        "import pyg_kernels.kernels\n"
        "print(*(name for name in sys.modules if name.startswith('pyg_kernels')))\n"
        "import pyg_kernels.features\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert set(done.stdout.split()) <= loaded("pyg_kernels.kernels")
