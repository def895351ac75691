"""Constructors as nn.LSTM's: sizes and layers, the rest by keyword; lazy sizes; copies."""

from __future__ import annotations

import copy
import inspect
import io
import pickle
import warnings
from typing import Any

import pytest
import torch
from torch import nn

from pyg_kernels.sequence import RCNN, RKM
from tests.sequence.layers import families, of_every
from tests.sequence.texts import SIZE, close, random_text
from tests.sequence.variants import Family, Variant


@families
def test_positional_arguments_are_those_of_nn_lstm(family: Family) -> None:
    layer = family.layer(SIZE, 5, 2)
    assert (layer.input_size, layer.hidden_size, layer.num_layers) == (SIZE, 5, 2)
    with pytest.raises(TypeError):
        family.layer(SIZE, 5, 2, True)
    with pytest.raises(TypeError):
        family.cell(SIZE, 5, True)
    names = ["input_size", "hidden_size", "num_layers"]
    for made, expected in [(family.layer, names), (family.cell, names[:2])]:
        parameters = inspect.signature(made).parameters.values()
        kinds = {p.name: p.kind for p in parameters}
        positional = [
            k for k, kind in kinds.items() if kind is inspect.Parameter.POSITIONAL_OR_KEYWORD
        ]
        assert positional == expected


@families
def test_keywords_of_nn_lstm(family: Family) -> None:
    """Those that change shapes, and where and in which precision parameters are."""
    options: dict[str, Any] = {
        "input_size": SIZE, "hidden_size": 5, "num_layers": 2, "bias": True, "batch_first": True,
        "dropout": 0.1, "bidirectional": True, "device": "cpu", "dtype": torch.float64,
    }  # fmt: skip
    x = random_text(3, 6, SIZE)
    for made in (nn.LSTM, family.layer):
        output, state = made(**options).eval()(x)
        h = state if isinstance(state, torch.Tensor) else state[0]
        assert output.shape == (3, 6, 10) and output.dtype == torch.float64
        assert h.shape == (4, 3, 5)


@of_every
def test_copies(variant: Variant) -> None:
    """deepcopy, pickle, torch.save and a state_dict round trip keep the function."""
    layer, x = variant.build(), random_text(5, 2, SIZE)
    expected, _ = layer(x)
    close(copy.deepcopy(layer)(x)[0], expected)
    close(pickle.loads(pickle.dumps(layer))(x)[0], expected)
    buffer = io.BytesIO()
    torch.save(layer.state_dict(), buffer)
    buffer.seek(0)
    other = copy.deepcopy(layer)
    other.reset_parameters()
    assert not torch.allclose(other(x)[0], expected)
    other.load_state_dict(torch.load(buffer, weights_only=True))
    close(other(x)[0], expected)


@of_every
def test_lazy_sizes(variant: Variant) -> None:
    """-1 is read off the first input; what was drawn then is what is drawn for a given size."""
    options = {**variant.options, "dtype": torch.float64}
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        lazy = variant.family.layer(-1, variant.hidden, **options).eval()
    assert lazy.input_size == -1 and "(-1, " in repr(lazy)
    optimizer = torch.optim.SGD(lazy.parameters(), lr=0.1)
    early, x = copy.deepcopy(lazy), random_text(5, 2, SIZE)
    output, _ = lazy(x)
    assert lazy.input_size == SIZE and output.shape == (5, 2, variant.width)
    assert output.dtype == torch.float64
    given = variant.family.layer(SIZE, variant.hidden, **options).eval()
    shapes = {k: v.shape for k, v in given.state_dict().items()}
    assert {k: v.shape for k, v in lazy.state_dict().items()} == shapes
    before = [p.detach().clone() for p in lazy.parameters()]
    output.square().sum().backward()
    optimizer.step()
    moved = [not torch.equal(p, b) for p, b in zip(lazy.parameters(), before, strict=True)]
    assert any(moved)
    early.load_state_dict(lazy.state_dict())  # before any input
    assert early.input_size == SIZE
    close(early(x)[0], lazy(x)[0])
    close(copy.deepcopy(lazy)(x)[0], lazy(x)[0])
    with pytest.raises(ValueError, match=rf"{SIZE + 1}.*{SIZE}"):
        lazy(random_text(5, 2, SIZE + 1))


def test_lazy_layers_are_drawn_as_others() -> None:
    """Of unit variance a row, whatever the size turns out to be; one step initialises a cell."""
    torch.manual_seed(0)
    for layer in (RCNN(-1, 300, decay="input"), RKM(-1, 300, ngram=2), RKM(-1, 300)):
        layer(torch.randn(5, 2, 12))
        cell: Any = layer.cells[0]
        parts = (
            cell.lins if isinstance(layer, RCNN) else [f.weights[0] for f in cell.filters.values()]
        )
        for part in parts:
            weight = getattr(part, "weight", part)
            assert abs(weight.square().flatten(1).sum(1).mean().item() - 1) < 0.05
    with pytest.raises(ValueError, match=r"input_size=-1.*None"):
        RKM(-1, 4, ngram=2).initial_state(3)
    assert RKM(-1, 4).initial_state(3).h.shape == (1, 3, 4)
    with pytest.raises(ValueError, match="highway"):
        RCNN(-1, 4, highway=True)(torch.randn(5, 2, 3))


@families
def test_lazy_cells(family: Family) -> None:
    cell = family.cell(-1, 5)
    cell(torch.randn(2, SIZE))
    assert cell.input_size == SIZE
    with pytest.raises(ValueError, match=rf"{SIZE + 1}.*{SIZE}"):
        cell(torch.randn(2, SIZE + 1))
