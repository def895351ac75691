"""On a CUDA device the layers give the CPU's numbers, by whatever path the device takes."""

from __future__ import annotations

import copy

import pytest
import torch

from pyg_kernels.ops import backend
from tests.sequence.variants import EVERY, SIZE, build

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device")


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32], ids=str)
@pytest.mark.parametrize("lengths", [[70, 70], [70, 3, 41, 0, 1]], ids=str)
@pytest.mark.parametrize("name", EVERY)
def test_same_numbers_as_on_the_cpu(name: str, lengths: list[int], dtype: torch.dtype) -> None:
    rcnn = build(EVERY[name]).to(dtype)
    other = copy.deepcopy(rcnn).cuda()
    torch.manual_seed(0)
    ptr = torch.tensor([0, *lengths]).cumsum(0)
    x = torch.randn(int(ptr[-1]), SIZE, dtype=dtype)
    results = []
    for layer, tokens, bounds in ((rcnn, x, ptr), (other, x.cuda(), ptr.cuda())):
        tokens = tokens.clone().requires_grad_()
        output, state = layer(tokens, ptr=bounds)
        total = output.square().sum() + state.h.sin().sum()
        gradients = torch.autograd.grad(total, [tokens, *layer.parameters()], allow_unused=True)
        results.append([output, *state, *(g for g in gradients if g is not None)])
    tolerance = 1e-9 if dtype == torch.float64 else 1e-3
    for a, b in zip(*results, strict=True):
        torch.testing.assert_close(b.cpu(), a, rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16], ids=str)
def test_half_precision(dtype: torch.dtype) -> None:
    rcnn = build(EVERY["input"]).float().cuda()
    x = torch.randn(40, 3, SIZE, device="cuda")
    expected, _ = rcnn(x)
    with torch.autocast("cuda", dtype=dtype):
        found, _ = rcnn(x)
    torch.testing.assert_close(found.float(), expected, rtol=0.05, atol=0.05)


def test_backend_says_which_path() -> None:
    assert backend("cuda")["linear_scan"] in ("triton", "steps and chunks")
