"""What imports what: parts of the package, packages that need not be there, heavy ones too soon."""

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
    *("grakel", "networkx", "rdkit", "ogb", "pandas", "matplotlib", "lightning", "torch_scatter")
]


def imported(part: str) -> Iterator[str]:
    """What a part of the package imports anywhere, other than for type checkers."""
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
            yield from names


@pytest.fixture(scope="module")
def everything() -> dict[str, set[str]]:
    """By part of the package."""
    return {
        path.stem: set(imported(path.stem))
        for path in PACKAGE.iterdir()
        if path.suffix == ".py" or (path / "__init__.py").is_file()
    }


@pytest.fixture(scope="module")
def by_part(everything: dict[str, set[str]]) -> dict[str, set[str]]:
    """The parts of the package that each imports."""
    return {
        part: {name.split(".")[1] for name in names if name.startswith("pyg_kernels.")}
        for part, names in everything.items()
    }


@pytest.mark.parametrize(
    ("importing", "forbidden"),
    [
        ({"kernels"}, NEURAL | OTHERS | {"features", "datasets"}),
        (NEURAL | {"ops", "chem", "datasets"}, KERNELS | OTHERS),
        ({"ops", "segments", "chem"}, NEURAL - {"walk"} | KERNELS | OTHERS | {"datasets"}),
    ],
)
def test_parts_know_nothing_of_each_other(
    by_part: dict[str, set[str]], importing: set[str], forbidden: set[str]
) -> None:
    """Also by no way: what the kernels may import is among the parts of the last row."""
    for part in importing:
        assert not (by_part[part] - {part}) & forbidden, part
    assert by_part["kernels"] == {"kernels", "ops", "segments", "chem"}


def test_features_alone_imports_both(by_part: dict[str, set[str]]) -> None:
    """And the estimators of molecules, of which some are kernel methods."""
    both = {part for part, found in by_part.items() if "kernels" in found and found & NEURAL}
    assert both - {"molecules"} == {"features"}


def test_the_package_ogb_is_not_imported(everything: dict[str, set[str]]) -> None:
    """Its formats, features and measures are read and computed here."""
    for part, names in everything.items():
        assert "ogb" not in {name.split(".")[0] for name in names}, part


def printed(code: str) -> list[str]:
    """The lines that a fresh interpreter prints."""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


def test_nothing_heavy_is_imported_too_soon() -> None:
    """Neither by the package alone nor by the command's help."""
    heavy = {"torch", "torch_geometric", "numpy", "numba", "sklearn", "scipy", "pandas", "rdkit"}
    lines = printed(
        f"import sys, pyg_kernels; print({heavy} & sys.modules.keys())\n"
        "from pyg_kernels.molecules.command import main\n"
        "try: main(['train', '--help'])\n"
        f"except SystemExit: print({heavy} & sys.modules.keys())"
    )
    assert lines[0] == lines[-1] == "set()"
    assert "--target-columns" in "\n".join(lines)


def test_optional_packages_are_not_needed() -> None:
    """In a fresh process that finds none of them; what reads molecules says what to install."""
    lines = printed(
        "import sys\n"
        f"sys.modules.update(dict.fromkeys({OPTIONAL!r}))\n"
        "import pyg_kernels as pk\n"
        "import pyg_kernels.ops.scan.walk\n"
        "print('torch' in sys.modules, 'triton' in sys.modules)\n"  # which CUDA alone needs
        "known = set(sys.modules)\n"
        "import pyg_kernels.kernels\n"
        "print(*(n for n in sys.modules.keys() - known if n.startswith('pyg_kernels.')))\n"
        "import pyg_kernels.features\n"
        "print(pk.nn.WLKernelNet.__name__)\n"
        "for name in ('networkx', 'pandas', 'matplotlib'): del sys.modules[name]\n"
        "from pyg_kernels.datasets import TextCSV, Vocabulary\n"
        "import pyg_kernels.datasets as datasets\n"
        "print(set(datasets.__all__) <= set(dir(datasets)), hasattr(datasets, 'nothing'))\n"
        "for part, name in ((pk, 'chem'), (datasets, 'CEP')):\n"
        "    try: getattr(part, name)\n"
        "    except ImportError as error: print(error)\n"
        "del sys.modules['rdkit']\n"
        "from pyg_kernels.chem import OGBFeaturizer\n"
        "print(*OGBFeaturizer()('CCO').x.shape)\n"
    )
    assert lines[0] == "True False"
    loaded = {name.split(".")[1] for name in lines[1].split()}
    assert "kernels" in loaded and not loaded & (NEURAL | OTHERS | {"features", "datasets", "chem"})
    assert lines[2:4] == ["WLKernelNet", "True False"]
    assert all("pip install 'pyg_kernels[mol]'" in line for line in lines[4:6])
    assert lines[6:] == ["3 174"]
