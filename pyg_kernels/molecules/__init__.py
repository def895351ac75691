"""Properties of molecules: estimators that are fitted, asked, explained, saved and loaded.

Names are imported when they are first asked for: ``pyg-kernels --help`` needs none of them.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyg_kernels.molecules.estimators import MoleculeClassifier, MoleculeRegressor
    from pyg_kernels.molecules.explanation import MoleculeExplanation
    from pyg_kernels.molecules.methods import KERNEL_METHODS
    from pyg_kernels.molecules.networks import NETWORKS
    from pyg_kernels.molecules.store import load

__all__ = [
    "KERNEL_METHODS",
    "NETWORKS",
    "MoleculeClassifier",
    "MoleculeExplanation",
    "MoleculeRegressor",
    "load",
]

_MODULES = {
    "KERNEL_METHODS": "methods",
    "NETWORKS": "networks",
    "MoleculeClassifier": "estimators",
    "MoleculeExplanation": "explanation",
    "MoleculeRegressor": "estimators",
    "load": "store",
}


def __getattr__(name: str) -> Any:
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(import_module(f"{__name__}.{_MODULES[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
