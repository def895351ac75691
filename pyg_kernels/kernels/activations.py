r"""Kernels of activations: what the inner product of two maps becomes after a nonlinearity.

An activation kernel is a function ``activation(k_xy, k_xx, k_yy)`` of the kernel between two
objects and of each with itself, elementwise on tensors that broadcast. Its feature space contains
:math:`\sigma(\langle w, \cdot \rangle)` for the activations :math:`\sigma` that its lemma names
(Lei et al. 2017, lemma 1; Shalev-Shwartz et al. 2011; Zhang et al. 2016).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from numbers import Real
from typing import Any, cast

import torch
from torch import Tensor

from pyg_kernels.kernels.arguments import checked_choice

ActivationKernel = Callable[[Tensor, Tensor, Tensor], Tensor]


@dataclass(frozen=True)
class InversePolynomial:
    r""":math:`1 / (2 - t)`; made by :func:`inverse_polynomial`."""

    normalize: bool = True

    def __call__(self, k_xy: Tensor, k_xx: Tensor, k_yy: Tensor) -> Tensor:
        if self.normalize:
            return 1 / (2 - k_xy * (inverse_root(k_xx) * inverse_root(k_yy)))
        for k in (k_xx, k_yy):
            if bool((k >= 2).any()):
                raise ValueError(
                    "inverse_polynomial(normalize=False) needs K(x, x) < 2, got "
                    f"{float(k.max()):g}: its series sum t^k / 2^(k+1) does not converge; scale "
                    "the inputs down or normalize"
                )
        return 1 / (2 - k_xy)


@dataclass(frozen=True)
class Polynomial:
    r""":math:`\sum_k b_k t^k`; made by :func:`polynomial`."""

    coefficients: tuple[float, ...]

    def __call__(self, k_xy: Tensor, k_xx: Tensor, k_yy: Tensor) -> Tensor:
        total = torch.full_like(k_xy, self.coefficients[-1])
        for coefficient in self.coefficients[-2::-1]:
            total = total * k_xy + coefficient
        return total


@dataclass(frozen=True)
class ArcCosine:
    """The kernel of infinitely many step or rectified units; made by :func:`arc_cosine`."""

    degree: int = 1

    def __call__(self, k_xy: Tensor, k_xx: Tensor, k_yy: Tensor) -> Tensor:
        t = cosine(k_xy, k_xx, k_yy)
        known = ((k_xx > 0) & (k_yy > 0)).to(t.dtype)
        sine, angle = _sine_and_angle(t)
        if self.degree == 0:
            return known * (1 - angle / math.pi)
        return _root(k_xx) * _root(k_yy) * (sine + (math.pi - angle) * t) / math.pi


def inverse_polynomial(normalize: bool = True) -> InversePolynomial:
    r"""The inverse polynomial kernel :math:`1 / (2 - t)`.

    Its feature space contains polynomials, sigmoid-like and smoothed rectifier activations of
    inner products (Lei et al. 2017, lemma 1; Zhang et al. 2016).

    Args:
        normalize: With True :math:`t = k_{xy} / \sqrt{k_{xx} k_{yy}}`, 0 where a diagonal is 0.
            With False :math:`t = k_{xy}`, the form under which theorem 2 holds for
            :math:`\sigma(c)` itself.

    Returns:
        The function ``activation(k_xy, k_xx, k_yy)``; without normalisation it raises a
        ``ValueError`` where a diagonal is 2 or more.

    Raises:
        ValueError: If `normalize` is not a bool.
    """
    return InversePolynomial(checked_choice(normalize, "normalize", (True, False)))


def polynomial(coefficients: Sequence[float]) -> Polynomial:
    r"""A polynomial kernel :math:`K_\sigma = \sum_k b_k k_{xy}^k`.

    With the feature map :math:`\phi = \oplus_k \sqrt{b_k} x^{\otimes k}`, an activation
    :math:`\sigma(t) = \sum_k a_k t^k` is :math:`\langle \phi(x), \psi(w) \rangle` with
    :math:`\psi = \oplus_k (a_k / \sqrt{b_k}) w^{\otimes k}` (Lei et al. 2017, lemma 1), wherever
    :math:`b_k > 0` for all k with :math:`a_k \neq 0`.

    Args:
        coefficients: :math:`b_0, b_1, \ldots`, all at least 0 and not all 0.

    Returns:
        The function ``activation(k_xy, k_xx, k_yy)``.

    Raises:
        ValueError: If a coefficient is negative or not finite, or there are none.
    """
    if not hasattr(coefficients, "__iter__"):
        raise ValueError(f"coefficients={coefficients!r}: expected a sequence b_0, b_1, ...")
    values = tuple(coefficients)
    for k, b in enumerate(values):
        if not isinstance(b, Real) or not math.isfinite(b) or b < 0:
            raise ValueError(f"coefficients[{k}]={b!r}: expected a number of at least 0")
    if not any(values):
        raise ValueError(f"coefficients={coefficients!r}: expected at least one above 0")
    return Polynomial(tuple(float(b) for b in values))


def arc_cosine(degree: int = 1) -> ArcCosine:
    r"""The arc-cosine kernel of Cho and Saul 2009.

    With the angle :math:`\theta = \arccos(k_{xy} / \sqrt{k_{xx} k_{yy}})`, degree 0 is
    :math:`1 - \theta / \pi`, degree 1 is
    :math:`\sqrt{k_{xx} k_{yy}} (\sin\theta + (\pi - \theta) \cos\theta) / \pi`: twice the expected
    product of two step or rectified units with normal random weights. 0 where a diagonal is 0.

    Args:
        degree: 0 (step) or 1 (rectified linear).

    Returns:
        The function ``activation(k_xy, k_xx, k_yy)``.

    Raises:
        ValueError: If `degree` is neither 0 nor 1.
    """
    return ArcCosine(checked_choice(degree, "degree", (0, 1)))


def cosine(k_xy: Tensor, k_xx: Tensor, k_yy: Tensor) -> Tensor:
    r""":math:`k_{xy} / \sqrt{k_{xx} k_{yy}}` in [-1, 1], 0 where a diagonal is 0.

    Values within rounding of an end are that end: near it an angle is the root of what is left, and
    layers of activations would take the root of a rounding error again and again.
    """
    t = k_xy * (inverse_root(k_xx) * inverse_root(k_yy))
    return torch.where(t.abs() < 1 - 8 * torch.finfo(t.dtype).eps, t, t.sign())


def inverse_root(k: Tensor) -> Tensor:
    r""":math:`1 / \sqrt k`, 0 where k is not positive; its gradient there is 0 too."""
    positive = k > 0
    return torch.where(positive, torch.where(positive, k, 1).rsqrt(), 0)


def _root(k: Tensor) -> Tensor:
    positive = k > 0
    return torch.where(positive, torch.where(positive, k, 1).sqrt(), 0)


def _sine_and_angle(t: Tensor) -> tuple[Tensor, Tensor]:
    """Of the angle whose cosine is t, so that they cancel to full precision near the ends.

    Their gradients at the ends, where they are infinite, are 0.
    """
    square = (1 - t) * (1 + t)
    inside = square > 0
    sine = torch.where(inside, square, 1).sqrt()
    angle = torch.atan2(sine, torch.where(inside, t, 0))
    end = math.pi * (t < 0).to(t.dtype)
    return torch.where(inside, sine, 0), torch.where(inside, angle, end)


def activation_kernel(value: Any) -> ActivationKernel:
    """A function of three arguments, or a ``ValueError``; None: :func:`inverse_polynomial`."""
    if value is None:
        return inverse_polynomial()
    if not callable(value) or value in (inverse_polynomial, polynomial, arc_cosine):
        raise ValueError(
            f"activation={value!r}: expected a function of k_xy, k_xx and k_yy, such as "
            "inverse_polynomial()"
        )
    return cast(ActivationKernel, value)
