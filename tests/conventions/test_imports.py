"""Which part imports which, and what every public layer and model takes."""

import ast
import inspect
import pkgutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from functools import partial
from importlib.metadata import version
from inspect import Parameter
from pathlib import Path

import pytest
from torch.nn import Module
from torch_geometric.nn import MessagePassing

import pyg_kernels as pk
from tests.conventions.graph_layers import CONVS, NETS, wl

PACKAGE = Path(pk.__file__).parent
NEURAL = {"nn", "sequence", "walk", "propagation"}
KERNELS = {"kernels", "features"}
OTHERS = {"explain", "molecules", "rationale"}
OPTIONAL = [
    *("grakel", "networkx", "rdkit", "ogb", "pandas", "matplotlib", "lightning", "torch_scatter")
]


def imported(part: str) -> Iterator[str]:
    """All that a part of the package imports anywhere, except for type checkers."""
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


def test_parts_know_nothing_of_each_other() -> None:
    """Not even indirectly: all that the kernels may import is among the parts of the last row."""
    everything = {
        path.stem: set(imported(path.stem))
        for path in PACKAGE.iterdir()
        if path.suffix == ".py" or (path / "__init__.py").is_file()
    }
    by_part = {
        part: {name.split(".")[1] for name in names if name.startswith("pyg_kernels.")}
        for part, names in everything.items()
    }
    for importing, forbidden in (
        ({"kernels"}, NEURAL | OTHERS | {"features", "datasets"}),
        (NEURAL | {"ops", "chem", "datasets"}, KERNELS | OTHERS),
        (
            {"ops", "segments", "chem", "checks"},
            NEURAL - {"walk"} | KERNELS | OTHERS | {"datasets"},
        ),
    ):
        for part in importing:
            assert not (by_part[part] - {part}) & forbidden, part
    assert by_part["kernels"] == {"kernels", "ops", "segments", "chem", "checks"}
    # Parts that import both. The estimators of molecules do so, as some are kernel methods.
    both = {part for part, found in by_part.items() if "kernels" in found and found & NEURAL}
    assert both - {"molecules"} == {"features"}
    # The package itself reads OGB's formats and computes its features and measures.
    for part, names in everything.items():
        assert "ogb" not in {name.split(".")[0] for name in names}, part


def printed(code: str) -> list[str]:
    """The lines that the code prints in a fresh interpreter."""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


def test_nothing_heavy_is_imported_too_soon() -> None:
    """Neither importing the package alone nor the command's help imports any of it."""
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
    """In a fresh process without them, imports work; reading molecules says what to install."""
    lines = printed(
        "import sys\n"
        f"sys.modules.update(dict.fromkeys({OPTIONAL!r}))\n"
        "import pyg_kernels as pk\n"
        "import pyg_kernels.ops.scan.walk\n"
        "print('torch' in sys.modules, 'triton' in sys.modules)\n"  # only CUDA needs Triton
        "known = set(sys.modules)\n"
        "import pyg_kernels.kernels\n"
        "print(*(n for n in sys.modules.keys() - known if n.startswith('pyg_kernels.')))\n"
        "import pyg_kernels.features\n"
        "print(pk.nn.WLKernelNet.__name__)\n"
        "import pyg_kernels.explain\n"
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


# ``import pyg_kernels as pk`` and everything under ``pk``, as users type it


def test_every_public_part_is_listed_and_there() -> None:
    pytest.importorskip("rdkit", reason="pk.chem needs the extra 'mol'")
    parts = [name for name in pk.__all__ if name != "__version__"]
    for name in parts:
        assert getattr(pk, name).__name__ == f"pyg_kernels.{name}"
    assert set(pk.__all__) <= set(dir(pk))
    packages = {found.name for found in pkgutil.iter_modules(pk.__path__) if found.ispkg}
    assert packages <= set(parts)
    assert pk.__version__ == version("pyg_kernels")
    with pytest.raises(AttributeError, match="no attribute 'networks'"):
        pk.networks  # noqa: B018


# ``forward`` of every public layer and model on graphs

PUBLIC: list[type[Module]] = [getattr(pk.nn, name) for name in pk.nn.__all__]
PUBLIC_CONVS = [made for made in PUBLIC if issubclass(made, MessagePassing)]
PUBLIC_NETS = [
    made for made in PUBLIC if made not in PUBLIC_CONVS and made is not pk.nn.KernelActivation
]
CONV = ["x", "edge_index", "edge_attr", "edge_weight"]
NET = ["x", "edge_index", "edge_weight", "edge_attr", "batch", "batch_size"]


def parameters_of(made: type[Module]) -> list[Parameter]:
    return list(inspect.signature(made.forward).parameters.values())[1:]


@pytest.mark.parametrize("made", [*PUBLIC_CONVS, pk.rationale.WLStates])
def test_convs(made: type[Module]) -> None:
    """Edge features, then edge weights, each by position or keyword; other arguments follow."""
    found = parameters_of(made)
    assert [p.name for p in found[:4]] == CONV
    assert all(p.kind == Parameter.POSITIONAL_OR_KEYWORD for p in found[:4])
    assert [p.default for p in found[:4]] == [Parameter.empty] * 2 + [None] * 2
    assert all(p.default is not Parameter.empty for p in found[4:])


@pytest.mark.parametrize("made", [*PUBLIC_NETS, pk.explain.TextNet])
def test_models(made: type[Module]) -> None:
    """All but nodes and edges are keyword-only, as PyG's own models disagree on their order."""
    found = parameters_of(made)
    unread = CONV[2:] if made is pk.explain.TextNet else []
    assert [p.name for p in found] == [name for name in NET if name not in unread]
    assert all(p.kind == Parameter.POSITIONAL_OR_KEYWORD for p in found[:2])
    assert all(p.kind == Parameter.KEYWORD_ONLY and p.default is None for p in found[2:])


def test_promises_are_held_to_all_of_them() -> None:
    """A new layer or model must join the lists that the tests of conventions run over."""

    def made_by(builders: dict[str, Callable[..., Module]]) -> set[object]:
        made = {b.func if isinstance(b, partial) else b for b in builders.values()}
        return {pk.nn.WLKernelConv if one is wl else one for one in made}

    assert made_by(CONVS) == set(PUBLIC_CONVS)
    assert made_by(NETS) == set(PUBLIC_NETS)


def flags() -> Iterator[tuple[type, str]]:
    """The arguments of public layers and models that are True or False."""
    for part in (pk.nn, pk.sequence):
        for made in (getattr(part, name) for name in part.__all__):
            if isinstance(made, type) and issubclass(made, Module):
                arguments = inspect.signature(made).parameters.values()
                yield from ((made, a.name) for a in arguments if "bool" in str(a.annotation))


@pytest.mark.parametrize(("made", "name"), list(flags()))
def test_a_flag_is_true_or_false(made: type, name: str) -> None:
    arguments = inspect.signature(made).parameters.values()
    sizes = [4 for argument in arguments if argument.default is Parameter.empty]
    with pytest.raises(ValueError, match=f"{name}='no': expected True or False"):
        made(*sizes, **{name: "no"})
