"""Imports as one types them, and ``forward`` of every public layer and model on graphs."""

from __future__ import annotations

import inspect
import pkgutil
from collections.abc import Callable
from functools import partial
from importlib.metadata import version
from inspect import Parameter

import pytest
from torch.nn import Module
from torch_geometric.nn import MessagePassing

import pyg_kernels as pk
from tests.conventions.graph_layers import CONVS, NETS, wl

# ``import pyg_kernels as pk`` and everything under ``pk``, as one types it


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
    """Edge features, then edge weights, both by position or keyword; further arguments follow."""
    found = parameters_of(made)
    assert [p.name for p in found[:4]] == CONV
    assert all(p.kind == Parameter.POSITIONAL_OR_KEYWORD for p in found[:4])
    assert [p.default for p in found[:4]] == [Parameter.empty] * 2 + [None] * 2
    assert all(p.default is not Parameter.empty for p in found[4:])


@pytest.mark.parametrize("made", PUBLIC_NETS)
def test_models(made: type[Module]) -> None:
    """All but nodes and edges by keyword: PyG's own models disagree on their order."""
    found = parameters_of(made)
    assert [p.name for p in found] == NET
    assert all(p.kind == Parameter.POSITIONAL_OR_KEYWORD for p in found[:2])
    assert all(p.kind == Parameter.KEYWORD_ONLY and p.default is None for p in found[2:])


def test_a_model_of_texts() -> None:
    """The same without what it does not read."""
    found = parameters_of(pk.explain.TextNet)
    assert [p.name for p in found] == [name for name in NET if name not in CONV[2:]]
    assert all(p.kind == Parameter.KEYWORD_ONLY and p.default is None for p in found[2:])


def test_promises_are_held_to_all_of_them() -> None:
    """A new layer or model belongs into the lists that the tests of conventions run over."""

    def made_by(builders: dict[str, Callable[..., Module]]) -> set[object]:
        made = {b.func if isinstance(b, partial) else b for b in builders.values()}
        return {pk.nn.WLKernelConv if one is wl else one for one in made}

    assert made_by(CONVS) == set(PUBLIC_CONVS)
    assert made_by(NETS) == set(PUBLIC_NETS)
