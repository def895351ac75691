"""A layer among PyTorch's modules: precision, copies, initial values, repr."""

from __future__ import annotations

import copy
import io
import pickle
from typing import Any

import pytest
import torch
from torch import Tensor

from pyg_kernels.sequence import RCNN, RCNNCell
from tests.sequence.rcnn_equations import random_text
from tests.sequence.variants import EVERY, ONE_WAY, SIZE, SUM, build, close, pointers, texts


@pytest.mark.parametrize("name", EVERY)
def test_copies(name: str) -> None:
    """deepcopy, pickle, torch.save and a state_dict round trip keep the function."""
    rcnn, x = build(EVERY[name]), random_text(5, 2, SIZE)
    expected, _ = rcnn(x)
    close(copy.deepcopy(rcnn)(x)[0], expected)
    close(pickle.loads(pickle.dumps(rcnn))(x)[0], expected)
    buffer = io.BytesIO()
    torch.save(rcnn.state_dict(), buffer)
    buffer.seek(0)
    other = copy.deepcopy(rcnn)
    other.reset_parameters()
    assert not torch.allclose(other(x)[0], expected)
    other.load_state_dict(torch.load(buffer, weights_only=True))
    close(other(x)[0], expected)


@pytest.mark.parametrize("name", EVERY)
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_precision(name: str, dtype: torch.dtype) -> None:
    """Other dtypes in and out, close to float64."""
    rcnn, pieces = build(EVERY[name]), texts(6, 0, 3)
    x, ptr = torch.cat(pieces), pointers(pieces)
    for parameter in rcnn.parameters():  # values that bfloat16 holds exactly
        parameter.data = parameter.data.mul(0.5).bfloat16().double()
    x = x.bfloat16().double()
    expected, last = rcnn(x, ptr=ptr)
    low = copy.deepcopy(rcnn).to(dtype)
    given = x.to(dtype).requires_grad_()
    output, state = low(given, ptr=ptr)
    assert output.dtype == state.h.dtype == dtype
    tolerance = 1e-5 if dtype == torch.float32 else 0.06
    close(output.double(), expected, rtol=tolerance, atol=tolerance)
    close(state.h.double(), last.h, rtol=tolerance, atol=tolerance)
    output.float().square().sum().backward()
    assert given.grad is not None and given.grad.dtype == dtype and given.grad.isfinite().all()
    assert all(p.grad is not None and p.grad.isfinite().all() for p in low.parameters())


@pytest.mark.parametrize("name", EVERY)
def test_autocast(name: str) -> None:
    """Under bfloat16 autocast outputs stay close, and gradients are finite float32."""
    rcnn, x = build(EVERY[name]), random_text(6, 3, SIZE).float()
    for parameter in rcnn.parameters():
        parameter.data.mul_(0.5)
    rcnn = rcnn.float()
    expected, _ = rcnn(x)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        output, state = rcnn(x)
        if name in ONE_WAY:
            rcnn(x, state)
    assert output.isfinite().all()
    scale = expected.abs().max().clamp(min=1.0)
    assert (output.float() - expected).abs().max() / scale < 0.05
    output.float().square().sum().backward()
    for parameter in rcnn.parameters():
        assert parameter.grad is not None
        assert parameter.grad.dtype == torch.float32 and parameter.grad.isfinite().all()


def test_repr() -> None:
    assert repr(RCNN(3, 4)).startswith("RCNN(3, 4")
    assert "3, 4" in repr(RCNNCell(3, 4)) and repr(RCNNCell(3, 4)).startswith("RCNNCell(")
    text = repr(RCNN(3, 4, order=3, mapping="add", decay="input", num_layers=2, pooling="sum"))
    for part in ["order=3", "mapping='add'", "decay='input'", "num_layers=2"]:
        assert part in text or part.replace("'", "") in text


def test_initial_values() -> None:
    """Thesis, appendix B.1: rows of unit variance, uniform in ±√(3 / inputs); the bias is 0."""
    torch.manual_seed(0)
    for size in [12, 300]:
        cell = RCNN(size, 200, order=3).cells[0]
        bound = (3 / size) ** 0.5
        for lin in cell.lins:
            assert lin.bias is None and lin.weight.shape == (200, size)
            assert lin.weight.abs().max() <= bound
            assert lin.weight.abs().max() > 0.98 * bound
            variance = lin.weight.square().sum(dim=1)  # of a row's product with white input
            assert abs(variance.mean().item() - 1) < 0.05
        assert (cell.bias == 0).all()
        a, b, _ = (lin.weight for lin in cell.lins)
        assert not torch.equal(a, b)


@pytest.mark.parametrize("name", EVERY)
def test_reset_parameters(name: str) -> None:
    torch.manual_seed(0)
    rcnn = RCNN(SIZE, SIZE, **EVERY[name])
    before = {k: v.clone() for k, v in rcnn.state_dict().items()}
    for parameter in rcnn.parameters():
        parameter.data.fill_(7.0)
    torch.manual_seed(0)
    rcnn.reset_parameters()
    assert all((v != 7).any() for v in rcnn.state_dict().values())
    for k, v in rcnn.state_dict().items():
        if k.endswith("bias") or "logit" in k:
            close(v, before[k])
    torch.manual_seed(0)
    again = RCNN(SIZE, SIZE, **EVERY[name])
    for k, v in again.state_dict().items():
        close(v, before[k])


@pytest.mark.parametrize("order", [1, 2, 3, 4])
@pytest.mark.parametrize("mapping", ["mul", "add"])
@pytest.mark.parametrize("decay", ["learned", "input", "recurrent", 0.5])
def test_gradients_of_long_texts_are_finite(order: int, mapping: str, decay: float | str) -> None:
    torch.manual_seed(0)
    rcnn = RCNN(16, 16, order, mapping=mapping, decay=decay)
    x = torch.randn(200, 2, 16, requires_grad=True)
    output, _ = rcnn(x)
    assert output.isfinite().all()
    output.square().mean().backward()
    assert x.grad is not None and x.grad.isfinite().all() and x.grad.abs().sum() > 0
    for parameter in rcnn.parameters():
        assert parameter.grad is not None and parameter.grad.isfinite().all()


@pytest.mark.parametrize("name", SUM)
def test_frozen_parts(name: str) -> None:
    """Only what asks for a gradient gets one, and it is the same."""
    rcnn, x = build(SUM[name]), random_text(5, 2, SIZE)
    everything = torch.autograd.grad(rcnn(x)[0].square().sum(), list(rcnn.parameters()))
    expected = dict(zip(dict(rcnn.named_parameters()), everything, strict=True))
    for kept in expected:
        for key, parameter in rcnn.named_parameters():
            parameter.requires_grad_(key == kept)
        (found,) = torch.autograd.grad(
            rcnn(x)[0].square().sum(), [dict(rcnn.named_parameters())[kept]]
        )
        close(found, expected[kept])
    for parameter in rcnn.parameters():
        parameter.requires_grad_(False)
    assert not rcnn(x)[0].requires_grad
    given = x.clone().requires_grad_()
    rcnn(given)[0].sum().backward()
    assert given.grad is not None


@pytest.mark.parametrize("name", EVERY)
def test_without_gradients(name: str) -> None:
    """no_grad and inference_mode give the same numbers, and leave the input as it is."""
    rcnn, x = build(EVERY[name]), random_text(5, 2, SIZE)
    before = x.clone()
    expected, _ = rcnn(x)
    with torch.no_grad():
        close(rcnn(x)[0], expected)
    with torch.inference_mode():
        close(rcnn(x)[0], expected)
    assert torch.equal(x, before)


@pytest.mark.parametrize("name", EVERY)
def test_backward_twice(name: str) -> None:
    """A retained graph gives the same gradients again; nothing is overwritten."""
    rcnn, x = build(EVERY[name]), random_text(5, 2, SIZE).requires_grad_()
    output, _ = rcnn(x)
    kept = output.detach().clone()
    inputs = [x, *rcnn.parameters()]
    first = torch.autograd.grad(output.square().sum(), inputs, retain_graph=True)
    second = torch.autograd.grad(output.square().sum(), inputs)
    for a, b in zip(first, second, strict=True):
        assert torch.equal(a, b)
    assert torch.equal(output, kept)


def test_lazy_input_size() -> None:
    torch.manual_seed(0)
    rcnn = RCNN(-1, 200, order=3, decay="input", num_layers=2, output_gate=True)
    assert rcnn(torch.randn(5, 2, 12))[0].shape == (5, 2, 200)
    first, second = rcnn.cells
    assert first.decay_lin.weight.shape == first.output_gate_lin.weight.shape == (200, 12)
    assert second.lins[0].weight.shape == (200, 200)
    for lin in first.lins:
        assert lin.weight.shape == (200, 12) and lin.weight.abs().max() <= 0.5
        assert abs(lin.weight.square().sum(dim=1).mean().item() - 1) < 0.05
    with pytest.raises(ValueError, match=r"13.*12|12.*13"):
        rcnn(torch.randn(5, 2, 13))
    with pytest.raises(ValueError, match="highway"):
        RCNN(-1, 4, highway=True)(torch.randn(5, 2, 3))


def test_activations() -> None:
    x = random_text(5, 2, SIZE)

    def cube(t: Tensor) -> Tensor:
        return t**3

    options: dict[str, Any] = {"order": 2, "decay": "input"}
    linear, _ = build(options, act=None)(x)
    close(build(options, act="tanh")(x)[0], linear.tanh())
    close(build(options, act="relu")(x)[0], linear.relu())
    close(build(options, act=cube)(x)[0], linear**3)
    close(build(options, act=torch.nn.Sigmoid())(x)[0], linear.sigmoid())
    close(build(options)(x)[0], linear.tanh())
    with pytest.raises(ValueError, match="act"):
        RCNN(3, 4, act="no such activation")
