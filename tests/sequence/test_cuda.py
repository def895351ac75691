"""On a CUDA device the layers give the CPU's numbers, by whatever path the device takes."""

from __future__ import annotations

import copy

import pytest
import torch

from pyg_kernels.ops import backend
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
    layer, pieces = variant.build(scale=0.3).to(dtype), texts(*lengths)
    results = []
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


def test_backend_says_which_path() -> None:
    found = backend("cuda")
    assert found["scan"] == found["activation_scan"] in ("triton", "definition")
    assert found["maximum_scan"] == "definition"
