"""A layer among PyTorch's modules: precision, copies, initial values, compiling."""

from __future__ import annotations

import copy
import pickle
import warnings

import pytest
import torch
from torch._subclasses.fake_tensor import FakeTensorMode

from tests.sequence.layers import any_state_of_one_cell, families, of_every, one_way
from tests.sequence.texts import SIZE, close, pointers, random_text, texts
from tests.sequence.variants import Family, Variant, named_parts, parts_of


@of_every
def test_states_are_pickled(variant: Variant) -> None:
    _, state = variant.build()(random_text(5, 2, SIZE))
    found = pickle.loads(pickle.dumps(state))
    assert type(found) is type(state)
    for a, b in zip(parts_of(found), parts_of(state), strict=True):
        assert torch.equal(a, b)


@of_every
@pytest.mark.parametrize(
    "dtype", [torch.float32, torch.bfloat16, torch.float16], ids=["single", "bfloat16", "half"]
)
def test_precision(variant: Variant, dtype: torch.dtype) -> None:
    """Other dtypes in and out, close to float64."""
    layer, pieces = variant.build(scale=0.3), texts(6, 0, 3)
    x, ptr = torch.cat(pieces), pointers(pieces)
    with torch.no_grad():
        for value in layer.state_dict().values():  # those that bfloat16 holds exactly
            value.copy_(value.bfloat16().double())
    x = x.bfloat16().double()
    expected, last = layer(x, ptr=ptr)
    low = copy.deepcopy(layer).to(dtype)
    given = x.to(dtype).requires_grad_()
    output, state = low(given, ptr=ptr)
    assert output.dtype == dtype
    tolerance = 1e-5 if dtype == torch.float32 else 0.06
    close(output.double(), expected, rtol=tolerance, atol=tolerance)
    for name, part in variant.family.compared(last).items():
        found = named_parts(state)[name]
        if part.is_floating_point():
            assert found.dtype == (torch.float32 if name in variant.family.in_single else dtype)
        close(found.to(part), part, rtol=tolerance, atol=tolerance)
    output.float().square().sum().backward()
    assert given.grad is not None and given.grad.dtype == dtype and given.grad.isfinite().all()
    assert all(p.grad is not None and p.grad.isfinite().all() for p in low.parameters())


@of_every
def test_reset_parameters(variant: Variant) -> None:
    """All of them; those that are not random begin as they did, and a seed repeats the others."""
    torch.manual_seed(0)
    layer = variant.fresh()
    before = {k: v.clone() for k, v in layer.state_dict().items()}
    constant = [k for k, v in variant.fresh().state_dict().items() if torch.equal(v, before[k])]
    with torch.no_grad():
        for parameter in layer.parameters():
            parameter.fill_(7.0)
    layer.reset_parameters()
    assert all((v != 7).any() for v in layer.state_dict().values())
    assert all(torch.equal(layer.state_dict()[k], before[k]) for k in constant)
    biases = {k for k in before if k.endswith("bias") and not k.endswith("lin_input.bias")}
    assert {*biases, *(k for k in before if "logit" in k)} <= set(constant)
    torch.manual_seed(0)
    for k, v in variant.fresh().state_dict().items():
        assert torch.equal(v, before[k])


@one_way
def test_frozen_parts(variant: Variant) -> None:
    """Only what asks for a gradient gets one, and it is the same."""
    layer, x = variant.build(), random_text(5, 2, SIZE)
    parameters = list(layer.parameters())
    expected = torch.autograd.grad(layer(x)[0].square().sum(), parameters)
    for kept, gradient in zip(parameters, expected, strict=True):
        for parameter in parameters:
            parameter.requires_grad_(parameter is kept)
        (found,) = torch.autograd.grad(layer(x)[0].square().sum(), [kept])
        close(found, gradient)
    for parameter in parameters:
        parameter.requires_grad_(False)
    assert not layer(x)[0].requires_grad
    given = x.clone().requires_grad_()
    layer(given)[0].sum().backward()
    assert given.grad is not None


@any_state_of_one_cell
def test_tensors_without_numbers(variant: Variant) -> None:
    """A dry run, as estimators of memory do, tells the shapes and leaves nothing behind."""
    layer, x = variant.build().float(), random_text(2, 2, SIZE).float()
    expected, _ = layer(x)
    with FakeTensorMode():
        output, _ = variant.fresh()(torch.randn(x.shape, requires_grad=True))
        assert output.shape == expected.shape
        output.sum().backward()
    close(layer(x)[0], expected)


@of_every
def test_tensors_on_no_device(variant: Variant) -> None:
    """Made without memory, as large models are, and filled afterwards."""
    with torch.device("meta"):
        layer = variant.fresh()
    assert all(t.is_meta for t in (*layer.parameters(), *layer.buffers()))
    plain, x = variant.build(), random_text(5, 2, SIZE)
    layer = layer.double().to_empty(device="cpu").eval()
    layer.reset_parameters()
    assert layer(x)[0].isfinite().all()
    layer.load_state_dict(plain.state_dict())
    close(layer(x)[0], plain(x)[0])


@of_every
def test_without_gradients(variant: Variant) -> None:
    """no_grad and inference_mode give the same numbers, and leave what was given as it is."""
    layer, x = variant.build(), random_text(5, 2, SIZE)
    before = x.clone()
    expected, state = layer(x)
    kept = [part.clone() for part in parts_of(state)]
    with torch.no_grad():
        close(layer(x)[0], expected)
    with torch.inference_mode():
        close(layer(x)[0], expected)
        if not layer.bidirectional:
            layer(x, state)
    assert torch.equal(x, before)
    assert all(torch.equal(a, b) for a, b in zip(parts_of(state), kept, strict=True))


@of_every
def test_backward_twice(variant: Variant) -> None:
    """A retained graph gives the same gradients again; nothing is overwritten."""
    layer, x = variant.build(), random_text(5, 2, SIZE).requires_grad_()
    output, _ = layer(x)
    kept = output.detach().clone()
    inputs = [x, *layer.parameters()]
    first = torch.autograd.grad(output.square().sum(), inputs, retain_graph=True)
    second = torch.autograd.grad(output.square().sum(), inputs)
    for a, b in zip(first, second, strict=True):
        assert torch.equal(a, b)
    assert torch.equal(output, kept)


@of_every
def test_training_steps_change_every_parameter(variant: Variant) -> None:
    layer, x = variant.build(scale=0.3), random_text(6, 3, SIZE)
    before = [p.detach().clone() for p in layer.parameters()]
    optimizer = torch.optim.Adam(layer.parameters(), lr=0.01)
    losses = []
    for _ in range(5):
        optimizer.zero_grad()
        loss = (layer(x)[0] - 0.3).square().mean()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    assert losses[-1] < losses[0]
    assert all(not torch.equal(p, b) for p, b in zip(layer.parameters(), before, strict=True))


@families
def test_repr_names_sizes_and_class(family: Family) -> None:
    for made in (family.layer, family.cell):
        assert repr(made(3, 4)).startswith(f"{made.__name__}(3, 4")
        assert "\n" not in repr(made(3, 4))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        text = repr(family.layer(3, 4, num_layers=2, batch_first=True, bidirectional=True))
    for part in ["num_layers=2", "batch_first=True", "bidirectional=True"]:
        assert part in text
