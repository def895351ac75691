"""On a CUDA device the layers give the CPU's numbers, whichever path the device takes."""

from __future__ import annotations

import copy
from functools import partial
from typing import Any

import pytest
import torch

from pyg_kernels.ops import backend
from pyg_kernels.sequence import RCNN, RKM
from tests.sequence.layers import EVERY, of_every
from tests.sequence.texts import SIZE, close, pointers, texts
from tests.sequence.variants import Variant, parts_of

pytestmark = pytest.mark.cuda
DEVICE = "cuda"


@pytest.mark.parametrize(
    ("dtype", "lengths"),
    [(torch.float64, [70, 3, 41, 0, 1]), (torch.float32, [70, 70])],
    ids=str,
)
@of_every
def test_same_numbers_as_on_the_cpu(
    variant: Variant, lengths: list[int], dtype: torch.dtype
) -> None:
    assert_same(variant.build(scale=0.3).to(dtype), lengths)


@pytest.mark.parametrize("lengths", [[70, 3, 41, 0, 1], [70, 70]], ids=str)
@pytest.mark.parametrize("build", [partial(RCNN, decay="recurrent"), RKM])
def test_wide_layers(build: Any, lengths: list[int]) -> None:
    """Their maps are too large for a kernel to hold."""
    torch.manual_seed(0)
    assert_same(build(SIZE, 160).double(), lengths)


def assert_same(layer: torch.nn.Module, lengths: list[int]) -> None:
    """Outputs, states and gradients are those of the CPU."""
    dtype, pieces, results = next(layer.parameters()).dtype, texts(*lengths), []
    for device in ("cpu", DEVICE):
        moved = copy.deepcopy(layer).to(device)
        x = torch.cat(pieces).to(device, dtype).requires_grad_()
        output, state = moved(x, ptr=pointers(pieces).to(device))
        ends = [part.sin().sum() for part in parts_of(state) if part.is_floating_point()]
        total = output.square().sum() + sum(ends)
        gradients = torch.autograd.grad(total, [x, *moved.parameters()])
        results.append([output, *parts_of(state), *gradients])
    tolerance = 1e-9 if dtype == torch.float64 else 1e-3
    for expected, found in zip(*results, strict=True):
        assert found.device.type == DEVICE and found.dtype == expected.dtype
        close(found.cpu(), expected, rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16], ids=str)
@pytest.mark.parametrize(
    "name",
    ["rcnn-input", "rkm-rkm-lstm", "rkm-scan-linear", "rkm-wavelets", "kbrn-abs", "kbrn-norm"],
)
def test_half_precision(name: str, dtype: torch.dtype) -> None:
    layer = EVERY[name].build(scale=0.3).float().to(DEVICE)
    x = torch.randn(40, 3, SIZE, device=DEVICE)
    expected, _ = layer(x)
    with torch.autocast(DEVICE, dtype=dtype):
        found, _ = layer(x)
    close(found.float(), expected, rtol=0.05, atol=0.05)


class _Outputs(torch.nn.Module):
    def __init__(self, layer: torch.nn.Module) -> None:
        super().__init__()
        self.layer = layer

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        output: torch.Tensor = self.layer(x)[0]
        return output


@pytest.mark.parametrize(
    "name",
    ["rcnn-input", "rcnn-recurrent", "rcnn-stack", "rkm-rkm-lstm", "rkm-scan-linear", "kbrn-abs"],
)
def test_cuda_graphs(name: str) -> None:
    """Captured once and replayed, a layer gives the same numbers as with separate launches."""
    eager = _Outputs(EVERY[name].build(scale=0.3).to(DEVICE))
    captured = copy.deepcopy(eager)
    x, other = (torch.randn(12, 3, SIZE, device=DEVICE, dtype=torch.float64) for _ in range(2))
    x, other = x.requires_grad_(), other.requires_grad_()
    torch.cuda.make_graphed_callables(captured, (torch.zeros_like(x, requires_grad=True),))
    for inputs in (x, other):
        results = []
        for layer in (eager, captured):
            output = layer(inputs)
            gradients = torch.autograd.grad(output.sin().sum(), [inputs, *layer.parameters()])
            results.append([output.detach().clone(), *(g.clone() for g in gradients)])
        for expected, found in zip(*results, strict=True):
            close(found, expected, rtol=1e-12, atol=1e-12)


def test_backend_says_which_path() -> None:
    found = backend("cuda")
    assert found["scan"] == found["activation_scan"] in ("triton", "definition")
    assert found["maximum_scan"] == "definition"
