"""Devices and precisions: given at first, joined by autocast, and named where they differ."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor, nn

from pyg_kernels.sequence import (
    KBRN,
    RCNN,
    RKM,
    DenseFilters,
    KBRNCell,
    RCNNCell,
    RKMCell,
    SyncNetFilters,
)
from tests.sequence.layers import families, of_every
from tests.sequence.texts import SIZE, random_text
from tests.sequence.variants import Family, Variant, parts_of

MODULES: dict[str, Any] = {
    "RCNN": (RCNN, {"decay": "recurrent", "output_gate": True, "num_layers": 2}),
    "RCNN-max": (RCNN, {"decay": "learned", "pooling": "max", "output_gate": True}),
    "RKM": (RKM, {"ngram": 2, "layer_norm": True, "bidirectional": True}),
    "RKM-wavelets": (RKM, {"ngram": 4, "filters": "syncnet", "cell": "linear"}),
    "KBRN": (KBRN, {"num_centers": 9, "affine": True}),
    "RCNNCell": (RCNNCell, {"decay": "input", "highway": True}),
    "RKMCell": (RKMCell, {"cell": "general", "q": "tanh", "layer_norm": True}),
    "KBRNCell": (KBRNCell, {"num_centers": 9, "init": "tanh", "affine": True}),
    "DenseFilters": (DenseFilters, {"widths": (1, 3)}),
    "SyncNetFilters": (SyncNetFilters, {"widths": (3,)}),
}


@pytest.mark.parametrize("name", MODULES)
@pytest.mark.parametrize("dtype", [None, torch.float64, torch.bfloat16], ids=str)
@pytest.mark.parametrize(
    "device", [None, "cpu", torch.device("meta"), pytest.param("cuda", marks=pytest.mark.cuda)]
)
def test_device_and_dtype(name: str, dtype: torch.dtype | None, device: Any) -> None:
    kind, options = MODULES[name]
    module = kind(SIZE, SIZE, device=device, dtype=dtype, **options)
    every = [*module.parameters(), *module.buffers()]
    tensors = [t for t in every if t.is_floating_point()]
    expected = torch.device("cpu" if device is None else device).type
    assert all(t.dtype == (dtype or torch.float32) for t in tensors)
    assert all(t.device.type == expected for t in every)
    if expected != "meta":
        assert all(t.isfinite().all() for t in tensors)


def test_drawn_in_the_precision_that_is_given() -> None:
    """Not in single precision, and rounded."""
    for kind, options in MODULES.values():
        module = kind(SIZE, SIZE, dtype=torch.float64, **options)
        assert any(not torch.equal(p, p.float().double()) for p in module.parameters())


@families
def test_autocast_gives_the_precision_of_nn_lstm(family: Family) -> None:
    """In every form, and for a single step."""
    layer, lstm = family.layer(SIZE, 5), nn.LSTM(SIZE, 5)
    x = torch.randn(6, 3, SIZE)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        expected = lstm(x)[0].dtype
        found = [layer(x), layer(x, lengths=[6, 2, 4]), layer(x.bfloat16()), layer.eval()(x[:, 0])]
        found += [layer(x, found[0][1])]
        step = parts_of(layer.cells[0](x[0]))
    assert expected == torch.bfloat16
    for output, state in found:
        assert output.dtype == expected
        assert all(part.dtype == expected for part in parts_of(state))
    assert all(part.dtype == expected for part in step)
    double = family.random(SIZE, 5)
    with torch.autocast("cpu", dtype=torch.bfloat16):  # which leaves double precision alone
        assert nn.LSTM(SIZE, 5).double()(x.double())[0].dtype == torch.float64
        assert double(x.double())[0].dtype == torch.float64


@of_every
def test_autocast(variant: Variant) -> None:
    """Under bfloat16 autocast outputs stay close, and gradients are finite float32."""
    layer, x = variant.build(scale=0.3).float(), random_text(6, 3, SIZE).float()
    expected, _ = layer(x)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        output, state = layer(x)
        if not layer.bidirectional:
            layer(x, state)
    given = [output, *parts_of(state)]
    assert all(t.dtype == torch.bfloat16 for t in given if t.is_floating_point())
    assert output.isfinite().all()
    scale = expected.abs().max().clamp(min=1.0)
    assert (output.float() - expected).abs().max() / scale < 0.05
    output.float().square().sum().backward()
    for parameter in layer.parameters():
        assert parameter.grad is not None
        assert parameter.grad.dtype == torch.float32 and parameter.grad.isfinite().all()


@families
@pytest.mark.parametrize("dtype", [torch.float64, torch.bfloat16], ids=str)
def test_another_precision_than_the_weights(family: Family, dtype: torch.dtype) -> None:
    """The error names both, and what to convert, as nn.LSTM's."""
    x = torch.randn(6, 3, SIZE)
    modules: list[tuple[nn.Module, Tensor]] = [(nn.LSTM(SIZE, 5), x), (family.layer(SIZE, 5), x)]
    for module, given in [*modules, (family.cell(SIZE, 5), x[0])]:
        with pytest.raises(ValueError, match=rf"{dtype}.*torch\.float32.*[cC]onvert"):
            module(given.to(dtype))
