"""The learned activation by its formula alone: every term of the sum, and textbook start values."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from pyg_kernels.nn import KernelActivation
from tests.sequence.texts import pointwise

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


def batch_norm(norm: torch.nn.Module, a: Tensor) -> Tensor:
    """Ioffe and Szegedy (2015) over all leading dimensions; does not update running statistics.

    A custom norm is called instead.
    """
    if not isinstance(norm, torch.nn.BatchNorm1d):
        return norm(a)
    rows = a.reshape(-1, a.size(-1))
    mean, var = norm.running_mean, norm.running_var
    if mean is None or (norm.training and rows.size(0)):
        mean = rows.mean(0)
        var = (rows - mean).square().mean(0)
    return (a - mean) / (var + norm.eps).sqrt() * norm.weight + norm.bias


@dataclass(frozen=True)
class Case:
    """One way to build the module, and the same function as a direct sum."""

    green: str = "relu"
    affine: bool = False
    shared: bool = False
    normalize: bool = False
    bandwidth: float | None = None
    init: str = "random"
    init_range: tuple[float, float] = (-2, 2)

    def __str__(self) -> str:
        parts = [self.green, *(n for n in ("affine", "shared", "normalize") if getattr(self, n))]
        return "-".join(parts)

    def module(self, units: int, d: int, **options: Any) -> KernelActivation:
        return KernelActivation(units, d, **vars(self), **options)

    def random(self, units: int, d: int, seed: int = 0) -> KernelActivation:
        """The module in double precision, with arbitrary parameters and running statistics."""
        torch.manual_seed(seed)
        return randomize(self.module(units, d).double())

    def width(self, d: int) -> float:
        """The bandwidth b: the given one, or else the spacing of the initial centres."""
        low, high = self.init_range
        return self.bandwidth or (high - low) / max(d - 1, 1)

    def definition(self, module: KernelActivation, a: Tensor) -> Tensor:
        """What the module computes, from its public parameters."""
        if self.normalize:
            a = batch_norm(module.norm, a)
        centers = module.centers
        out = direct_sum(a, centers, module.coefficients, self.green, self.width(centers.size(1)))
        return out + module.slope * a + module.intercept if self.affine else out


@torch.no_grad()
def randomize(module: KernelActivation) -> KernelActivation:
    for parameter in module.parameters():
        parameter.copy_(torch.randn(parameter.shape))
    if module.norm is not None:
        module.norm.running_mean.copy_(torch.randn(module.num_units))
        module.norm.running_var.copy_(torch.rand(module.num_units) + 0.5)
    return module


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


def least_squares_error(name: str, centers: Tensor, bandwidth: float, affine: bool) -> float:
    """The smallest RMS error on the range that a sum of gaussians at the centres can have."""
    t = torch.linspace(float(centers[0]), float(centers[-1]), 2001, dtype=torch.float64)
    columns = [green_function("gaussian", t - c, bandwidth) for c in centers.double()]
    columns += [t, torch.ones_like(t)] if affine else []
    design, wanted = torch.stack(columns, 1), pointwise(name)(t)
    found = torch.linalg.lstsq(design, wanted[:, None], driver="gelsd").solution[:, 0]
    return (design @ found - wanted).square().mean().sqrt().item()


def magnitudes(case: Case, module: KernelActivation, a: Tensor, weights: Tensor) -> list[Tensor]:
    """Sums of absolute terms, the scale of the rounding errors of outputs and gradients."""
    z = (a.unsqueeze(-1) - module.centers).abs().detach()  # (N, units, d)
    chi, weights = module.coefficients.detach().abs(), weights.abs()[:, :, None]
    terms, steep = z, 1.0
    if case.green == "gaussian":  # slopes are 1 / b times as large as values
        terms, steep = torch.ones_like(z), 1 / case.width(module.num_centers)
    slopes = steep * weights * chi
    return [(chi * terms).sum(-1), slopes.sum(-1), slopes.sum(0), (weights * terms).sum(0)]


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


def assert_is_definition(case: Case, module: KernelActivation, a: Tensor) -> None:
    """The module equals the direct sum in outputs and gradients."""
    a = a if a.requires_grad else a.detach().requires_grad_()
    assert_same_function(module(a), case.definition(module, a), [a, *module.parameters()])
