r"""Kernels of activations: the inner product of two feature maps after a nonlinearity.

An activation kernel is a function ``activation(k_xy, k_xx, k_yy)`` of the kernel between two
objects and of the kernel of each with itself. It works elementwise on tensors that broadcast. Its
feature space contains :math:`\sigma(\langle w, \cdot \rangle)` for the activations :math:`\sigma`
that its lemma names (Lei et al. 2017, lemma 1; Shalev-Shwartz et al. 2011; Zhang et al. 2016).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, cast

import torch
from torch import Tensor

from pyg_kernels.checks import check_flags, checked_choice, is_number

ActivationKernel = Callable[[Tensor, Tensor, Tensor], Tensor]


@dataclass(frozen=True)
class InversePolynomial:
    r"""The inverse polynomial kernel :math:`1 / (2 - t)`.

    Its feature space contains polynomials, sigmoid-like and smoothed rectifier activations of
    inner products (Lei et al. 2017, lemma 1; Zhang et al. 2016).

    Args:
        normalize: With True, :math:`t = k_{xy} / \sqrt{k_{xx} k_{yy}}`, or 0 where a diagonal
            (:math:`k_{xx}` or :math:`k_{yy}`) is 0. With False, :math:`t = k_{xy}`, the form for
            which theorem 2 holds for :math:`\sigma(c)` itself. A call then raises a ``ValueError``
            if a diagonal is 2 or more.

    Raises:
        ValueError: If `normalize` is not a bool.

    Example:
        >>> import torch
        >>> from pyg_kernels.kernels import inverse_polynomial
        >>> one = torch.ones(())
        >>> kernel = inverse_polynomial()
        >>> kernel(torch.tensor([0.0, 0.5, 1.0]), one, one)  # of K(x, y), K(x, x), K(y, y)
        tensor([0.5000, 0.6667, 1.0000])

    See Also:
        :func:`polynomial` and :func:`arc_cosine`; :class:`DeepGraphKernel`,
        :class:`DeepStringKernel` and :class:`GatedSequenceKernel`, which take them.
    """

    normalize: bool = True

    def __post_init__(self) -> None:
        check_flags(normalize=self.normalize)

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
    r"""A polynomial kernel :math:`K_\sigma = \sum_k b_k k_{xy}^k`.

    With the feature map :math:`\phi = \oplus_k \sqrt{b_k} x^{\otimes k}`, an activation
    :math:`\sigma(t) = \sum_k a_k t^k` is :math:`\langle \phi(x), \psi(w) \rangle` with
    :math:`\psi = \oplus_k (a_k / \sqrt{b_k}) w^{\otimes k}` (Lei et al. 2017, lemma 1), provided
    that :math:`b_k > 0` for all k with :math:`a_k \neq 0`.

    Args:
        coefficients: :math:`b_0, b_1, \ldots`, all at least 0 and not all 0.

    Raises:
        ValueError: If a coefficient is negative or not finite, or there are none.

    Example:
        >>> import torch
        >>> from pyg_kernels.kernels import polynomial
        >>> one = torch.ones(())
        >>> polynomial([1.0, 2.0, 1.0])(torch.tensor([0.0, 1.0, 2.0]), one, one)  # (1 + k)²
        tensor([1., 4., 9.])

    See Also:
        :func:`inverse_polynomial` and :func:`arc_cosine`; :class:`DeepGraphKernel`,
        :class:`DeepStringKernel` and :class:`GatedSequenceKernel`, which take them.
    """

    coefficients: Sequence[float]

    def __post_init__(self) -> None:
        if not hasattr(self.coefficients, "__iter__"):
            raise ValueError(
                f"coefficients={self.coefficients!r}: expected a sequence b_0, b_1, ..."
            )
        values = tuple(self.coefficients)
        for k, b in enumerate(values):
            if not is_number(b) or not math.isfinite(b) or b < 0:
                raise ValueError(f"coefficients[{k}]={b!r}: expected a number of at least 0")
        if not any(values):
            raise ValueError(f"coefficients={values!r}: expected at least one above 0")
        object.__setattr__(self, "coefficients", tuple(map(float, values)))

    def __call__(self, k_xy: Tensor, k_xx: Tensor, k_yy: Tensor) -> Tensor:
        total = torch.full_like(k_xy, self.coefficients[-1])
        for coefficient in self.coefficients[-2::-1]:
            total = total * k_xy + coefficient
        return total


@dataclass(frozen=True)
class ArcCosine:
    r"""The arc-cosine kernel of Cho and Saul 2009.

    With the angle :math:`\theta = \arccos(k_{xy} / \sqrt{k_{xx} k_{yy}})`, degree 0 is
    :math:`1 - \theta / \pi` and degree 1 is
    :math:`\sqrt{k_{xx} k_{yy}} (\sin\theta + (\pi - \theta) \cos\theta) / \pi`: twice the expected
    product of two step or rectified linear units with normal random weights. 0 if a diagonal is 0.

    Args:
        degree: 0 (step) or 1 (rectified linear).

    Raises:
        ValueError: If `degree` is neither 0 nor 1.

    Example:
        >>> import torch
        >>> from pyg_kernels.kernels import arc_cosine
        >>> one = torch.ones(())
        >>> arc_cosine(degree=0)(torch.tensor([-1.0, 0.0, 1.0]), one, one)  # 1 - θ / π
        tensor([0.0000, 0.5000, 1.0000])

    See Also:
        :func:`inverse_polynomial` and :func:`polynomial`; :class:`DeepGraphKernel`,
        :class:`DeepStringKernel` and :class:`GatedSequenceKernel`, which take them.
    """

    degree: int = 1

    def __post_init__(self) -> None:
        checked_choice(self.degree, "degree", (0, 1))

    def __call__(self, k_xy: Tensor, k_xx: Tensor, k_yy: Tensor) -> Tensor:
        inverse, known = inverse_root(k_xx) * inverse_root(k_yy), (k_xx > 0) & (k_yy > 0)
        # Values within rounding of -1 or 1 are set to it. Near these ends the angle is the root of
        # the distance to the end: stacked layers would take roots of a rounding error repeatedly.
        t = k_xy * inverse
        t = torch.where(t.abs() < 1 - 8 * torch.finfo(t.dtype).eps, t, t.sign())
        # Sine and angle cancel to full precision near the ends. At the ends their gradients would
        # be infinite and are set to 0.
        square = (1 - t) * (1 + t)
        inside = square > 0
        sine = torch.where(inside, square, 1).sqrt()
        angle = torch.atan2(sine, torch.where(inside, t, 0))
        angle = torch.where(inside, angle, math.pi * (t < 0).to(t.dtype))
        if self.degree == 0:
            return known * (1 - angle / math.pi)
        values = torch.where(inside, sine, 0) + (math.pi - angle) * t
        return values / torch.where(known, inverse, torch.inf) / math.pi


inverse_polynomial, polynomial, arc_cosine = InversePolynomial, Polynomial, ArcCosine


def inverse_root(k: Tensor) -> Tensor:
    r""":math:`1 / \sqrt k`; where k is not positive, 0 with a gradient of 0."""
    return torch.where(k > 0, torch.where(k > 0, k, 1).rsqrt(), 0)


def activation_kernel(value: Any) -> ActivationKernel:
    """Checks that an activation kernel is callable; None gives :func:`inverse_polynomial`."""
    if value is None:
        return inverse_polynomial()
    if not callable(value) or isinstance(value, type):
        raise ValueError(
            f"activation={value!r}: expected a function of k_xy, k_xx and k_yy, such as "
            "inverse_polynomial()"
        )
    return cast(ActivationKernel, value)
