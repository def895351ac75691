"""The docstring examples run as printed, and every public class has one."""

import doctest
import inspect
import re
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import NoReturn

import pytest
import torch

import pyg_kernels

ROOT = Path(pyg_kernels.__file__).parent
MODULES = [
    ".".join(path.relative_to(ROOT.parent).with_suffix("").parts)
    for path in sorted(ROOT.rglob("*.py"))
    if ">>> " in path.read_text(encoding="utf-8")
]
OPTIONAL = ["gpytorch", "lightning", "pandas", "rdkit"]
OPTIONS = doctest.NORMALIZE_WHITESPACE | doctest.ELLIPSIS
WITHOUT = {
    # results, which nobody builds by hand
    *("DuplicateMolecule", "InvalidRow", "MergedMolecules", "MolCodeStore", "MolCodes"),
    *("Explanation", "ModelContributions", "NgramContributions", "WalkContributions"),
    *("MoleculeExplanation", "Nearest", "Rationale", "Split", "StandardizedRow"),
    *("RCNNProductState", "RCNNState", "RCNNTableState", "RKMState", "RKMWindowState"),
    "InvalidMolecules",  # raised by data sets, as InvalidSmiles is by a featuriser
    *("CEP", "OGBMolecules"),  # read public files, which would have to be downloaded
}


def skip_or_fail(error: str) -> NoReturn:
    """Skips the test where an optional package is missing; otherwise fails it."""
    found = re.search(r"\b(ImportError|ModuleNotFoundError)\b.*", error)
    if found and not all(find_spec(name) for name in OPTIONAL):
        pytest.skip(found[0])
    pytest.fail(error, pytrace=False)


@pytest.mark.parametrize("name", MODULES)
def test_examples_of(name: str) -> None:
    try:
        module = import_module(name)
    except ImportError as error:
        skip_or_fail(repr(error))
    runner = doctest.DocTestRunner(verbose=False, optionflags=OPTIONS)
    report: list[str] = []
    for example in doctest.DocTestFinder().find(module, globs={}):
        torch.manual_seed(0)
        runner.run(example, out=report.append)
    assert runner.tries
    if report:
        skip_or_fail("".join(report))


@pytest.mark.parametrize("name", sorted({*pyg_kernels.__all__} - {"__version__", "propagation"}))
def test_what_is_public_has_an_example(name: str) -> None:
    try:
        package = import_module(f"pyg_kernels.{name}")
        public = {key: getattr(package, key) for key in getattr(package, "__all__", dir(package))}
    except ImportError as error:
        skip_or_fail(repr(error))
    documented = {
        key: inspect.cleandoc(value.__doc__ or "")
        for key, value in public.items()
        if inspect.isclass(value) or inspect.isfunction(value)
        if value.__module__.startswith(package.__name__)
        if key not in WITHOUT and not key.startswith("_")
    }
    assert documented
    for key, text in documented.items():
        assert "\n    >>> " in text, key
        assert inspect.isfunction(public[key]) or "\nSee Also:\n" in text, key
