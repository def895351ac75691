"""Neural layers derived from kernels over graphs and sequences, for PyTorch Geometric.

Subpackages are imported when they are first asked for, so that ``import pyg_kernels as pk`` takes
no time and ``pk.nn.WLKernelNet`` is there.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyg_kernels import (
        chem,
        datasets,
        explain,
        features,
        kernels,
        molecules,
        nn,
        ops,
        propagation,
        rationale,
        sequence,
    )

    __version__: str

__all__ = [
    "__version__",
    "chem",
    "datasets",
    "explain",
    "features",
    "kernels",
    "molecules",
    "nn",
    "ops",
    "propagation",
    "rationale",
    "sequence",
]


def __getattr__(name: str) -> Any:
    if name == "__version__":
        from importlib.metadata import version

        return version("pyg_kernels")
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return import_module(f"{__name__}.{name}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
