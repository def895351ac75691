"""Importing the package ogb without what it does besides."""

from __future__ import annotations

import os
import sys
from importlib import import_module
from types import ModuleType


def ogb_module(name: str) -> ModuleType:
    """The module ``ogb.NAME``.

    At its first import ogb asks a package index, from a thread of its own, whether there is a newer
    version, and sets an environment variable. Neither happens here.

    Args:
        name: such as ``'utils.features'``.

    Raises:
        ImportError: if ogb is not installed, with what to install.
    """
    absent = object()
    known = sys.modules.get("outdated", absent)
    ignored = os.environ.get("OUTDATED_IGNORE")
    # A module that is None cannot be imported, and without it ogb does not ask the index.
    sys.modules["outdated"] = None  # type: ignore[assignment]
    try:
        import_module("ogb")
        return import_module(f"ogb.{name}")
    except ImportError as error:
        if error.name != "ogb":
            raise
        raise ImportError(
            "the Open Graph Benchmark is read with the package ogb, which is not installed; "
            "install the extra 'mol': pip install 'pyg_kernels[mol]'",
            name="ogb",
        ) from error
    finally:
        del sys.modules["outdated"]
        if isinstance(known, ModuleType):
            sys.modules["outdated"] = known
        if ignored is None:
            os.environ.pop("OUTDATED_IGNORE", None)
        else:
            os.environ["OUTDATED_IGNORE"] = ignored
