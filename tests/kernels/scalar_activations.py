"""Activation kernels one number at a time, from their definitions."""

from __future__ import annotations

import math

from scipy.integrate import quad

from tests.kernels.ngrams import Activation


def cosine(k_xy: float, k_xx: float, k_yy: float) -> float:
    """0 where a diagonal is 0."""
    if k_xx == 0 or k_yy == 0:
        return 0.0
    return max(-1.0, min(1.0, k_xy / math.sqrt(k_xx * k_yy)))


def inverse_polynomial(normalize: bool = True) -> Activation:
    """1 / (2 - t)."""

    def kernel(k_xy: float, k_xx: float, k_yy: float) -> float:
        return 1 / (2 - (cosine(k_xy, k_xx, k_yy) if normalize else k_xy))

    return kernel


def polynomial(*coefficients: float) -> Activation:
    """b_0 + b_1 k + b_2 k^2 + ..."""

    def kernel(k_xy: float, k_xx: float, k_yy: float) -> float:
        return sum(b * k_xy**k for k, b in enumerate(coefficients))

    return kernel


def arc_cosine(degree: int) -> Activation:
    """Cho and Saul 2009, eqs. 3, 4 and 6, in closed form; 0 where a diagonal is 0."""

    def kernel(k_xy: float, k_xx: float, k_yy: float) -> float:
        if k_xx == 0 or k_yy == 0:
            return 0.0
        t = cosine(k_xy, k_xx, k_yy)
        angle = math.acos(t)
        if degree == 0:
            return 1 - angle / math.pi
        j = math.sin(angle) + (math.pi - angle) * t
        return math.sqrt(k_xx * k_yy) * j / math.pi

    return kernel


def arc_cosine_integral(degree: int, k_xy: float, k_xx: float, k_yy: float) -> float:
    """Cho and Saul 2009, eq. 1, of two vectors in the plane with these inner products.

    2 E[step(w x) step(w y) (w x)^n (w y)^n] over standard normal w = r (cos a, sin a): the radius
    integrates to 2^n n!, and of the angles those count where both inner products are positive.
    """
    angle = math.acos(cosine(k_xy, k_xx, k_yy))

    def integrand(a: float) -> float:
        return (math.cos(a) * math.cos(a - angle)) ** degree

    value, _ = quad(integrand, angle - math.pi / 2, math.pi / 2, epsabs=1e-13, epsrel=1e-13)
    radius = 2**degree * math.factorial(degree)
    return radius / math.pi * math.sqrt(k_xx * k_yy) ** degree * value
