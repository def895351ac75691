"""The learned activation by its formula alone: every term of the sum, and textbook start values."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn

from pyg_kernels.nn import KernelActivation
from tests.sequence.texts import pointwise
from tests.sequence.variants import drawn

Tensors = Tensor | Sequence[Tensor]
GREENS = ("relu", "abs", "gaussian")


def green_function(name: str, z: Tensor, bandwidth: float) -> Tensor:
    """g(z); at a kink, its derivative is the one from the left."""
    if name == "relu":
        return torch.relu(z)
    if name == "abs":
        return torch.where(z > 0, z, -z)
    return torch.exp(-z.square() / (2 * bandwidth**2))


def direct_sum(a: Tensor, centers: Tensor, chi: Tensor, green: str, bandwidth: float) -> Tensor:
    """sum_k chi_ik g(a_i - c_ik), all terms at once."""
    return (chi * green_function(green, a.unsqueeze(-1) - centers, bandwidth)).sum(-1)


def batch_norm(norm: nn.Module, a: Tensor) -> Tensor:
    """Ioffe and Szegedy (2015) over all leading dimensions; does not update running statistics.

    A custom norm is called instead.
    """
    if not isinstance(norm, nn.BatchNorm1d):
        return norm(a)
    rows = a.reshape(-1, a.size(-1))
    mean, var = norm.running_mean, norm.running_var
    if mean is None or (norm.training and rows.size(0)):
        mean = rows.mean(0)
        var = (rows - mean).square().mean(0)
    return (a - mean) / (var + norm.eps).sqrt() * norm.weight + norm.bias


def definition(act: Any, a: Tensor) -> Tensor:
    """What the activation computes, from its public attributes."""
    if act.norm is not None:
        a = batch_norm(act.norm, a)
    out = direct_sum(a, act.centers, act.coefficients, act.green, act.bandwidth)
    return out if act.slope is None else out + act.slope * a + act.intercept


def random_activation(units: int, num_centers: int, **options: Any) -> KernelActivation:
    """An activation in double precision, with arbitrary parameters and running statistics."""
    act = drawn(KernelActivation, units, num_centers, scale=1.0, **options)
    if act.norm is not None:
        nn.init.normal_(act.norm.running_mean)
        nn.init.uniform_(act.norm.running_var, 0.5, 1.5)
    return act


def interpolant(name: str, t: Tensor, centers: Tensor) -> Tensor:
    """Equals the function at the centres (at least two), linear between them, tangents beyond."""
    value = pointwise(name)
    slope = torch.func.grad(value)
    right = torch.searchsorted(centers, t).clamp(1, len(centers) - 1)
    low, high = centers[right - 1], centers[right]
    inside = value(low) + (t - low) * (value(high) - value(low)) / (high - low)
    first, last = centers[0], centers[-1]
    inside = torch.where(t < first, value(first) + slope(first) * (t - first), inside)
    return torch.where(t > last, value(last) + slope(last) * (t - last), inside)


def least_squares_error(name: str, t: Tensor, act: KernelActivation) -> float:
    """The smallest RMS error at t that a sum of gaussians at an activation's centres can have."""
    t, centers = t.double(), act.centers[0].detach().double()
    columns = [green_function("gaussian", t - c, act.bandwidth) for c in centers]
    columns += [t, torch.ones_like(t)] if act.affine else []
    design, wanted = torch.stack(columns, 1), pointwise(name)(t)
    found = torch.linalg.lstsq(design, wanted[:, None], driver="gelsd").solution[:, 0]
    return (design @ found - wanted).square().mean().sqrt().item()


def close(found: Tensors, expected: Tensors, tolerance: float = 1e-10) -> None:
    """Equal up to a tolerance relative to the number or to the tensor's largest finite number."""
    if not isinstance(expected, Tensor):
        for one, other in zip(found, expected, strict=True):
            close(one, other, tolerance)
        return
    assert found.shape == expected.shape
    assert found.dtype == expected.dtype
    finite = expected.detach()[expected.detach().isfinite()].abs()
    scale = max(1.0, finite.max().item()) if finite.numel() else 1.0
    torch.testing.assert_close(
        found, expected, rtol=tolerance, atol=tolerance * scale, equal_nan=True
    )


def assert_same_function(
    found: Tensor, expected: Tensor, inputs: Sequence[Tensor], tolerance: float = 1e-10
) -> None:
    """Compares the outputs, and the gradients of every input."""
    close(found, expected, tolerance)
    weights = torch.randn(expected.shape, generator=torch.Generator().manual_seed(7)).to(expected)
    wanted, gradients = (
        torch.autograd.grad(out, inputs, weights, allow_unused=True, materialize_grads=True)
        for out in (expected, found)
    )
    close(gradients, wanted, tolerance)


def assert_is_definition(act: KernelActivation, a: Tensor) -> None:
    """The activation equals the direct sum in outputs and gradients."""
    a = a if a.requires_grad else a.detach().requires_grad_()
    assert_same_function(act(a), definition(act, a), [a, *act.parameters()])
