"""How a token is selected: a draw that depends on the generator's numbers for the token."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from typing import ClassVar

import torch
from torch import Tensor
from torch.nn.functional import logsigmoid, softplus


class Choice(ABC):
    """The distribution of one token's selection z, given by a logit and for some by a spread.

    All methods work elementwise. :math:`P(z > 1/2)` is the sigmoid of the logit.
    """

    #: Whether z may lie between 0 and 1, and is differentiable in the generator's numbers.
    relaxed: ClassVar[bool]

    @abstractmethod
    def draw(self, logit: Tensor, spread: Tensor | None, uniform: Tensor) -> Tensor:
        """The selection that results from a uniform random number in [0, 1)."""

    def probability(self, logit: Tensor, spread: Tensor | None) -> Tensor:
        """The probability that a token is selected, as the penalty on the size counts it."""
        return torch.sigmoid(logit)

    def transition(self, logit: Tensor, spread: Tensor | None, z: Tensor, pairs: Tensor) -> Tensor:
        """The penalty :math:`|z_u - z_v|`, or an estimate of it, (S, P), of token pairs (2, P)."""
        return sampled_transition(z, pairs)


class BernoulliChoice(Choice):
    r"""Selects or not: :math:`z = 1` with the probability sigmoid(logit)."""

    relaxed = False

    def draw(self, logit: Tensor, spread: Tensor | None, uniform: Tensor) -> Tensor:
        return (uniform < torch.sigmoid(logit)).to(logit.dtype)

    def log_prob(self, logit: Tensor, z: Tensor) -> Tensor:
        """The log-probability of selections of 0 and 1."""
        return torch.where(z > 0.5, logsigmoid(logit), logsigmoid(-logit))


class ConcreteChoice(Choice):
    r"""The binary concrete relaxation (Maddison et al., `"The Concrete Distribution"
    <https://arxiv.org/abs/1611.00712>`_, 2017; Jang et al.'s `Gumbel-softmax
    <https://arxiv.org/abs/1611.01144>`_ of two classes), of temperature :math:`\tau`:

    .. math::
        z = \mathrm{sigmoid}\Bigl(\frac{\ell + \log u - \log(1 - u)}{\tau}\Bigr), \qquad
        P(z > 1/2) = \mathrm{sigmoid}(\ell).

    The penalty counts :math:`P(z > 1/2)`, the probability of the hard selection that z relaxes.

    Args:
        temperature: :math:`\tau`, above 0.
    """

    relaxed = True

    def __init__(self, temperature: float) -> None:
        self.temperature = temperature

    def draw(self, logit: Tensor, spread: Tensor | None, uniform: Tensor) -> Tensor:
        uniform = _open(uniform)
        noise = torch.log(uniform) - torch.log1p(-uniform)
        return torch.sigmoid((logit + noise) / self.temperature)


class HardKumaChoice(Choice):
    r"""The stretched and rectified Kumaraswamy distribution of Bastings et al., `"Interpretable
    Neural Predictions with Differentiable Binary Variables" <https://arxiv.org/abs/1905.08160>`_
    (2019), section 3, on [0, 1] with exact zeros and ones:

    .. math::
        k = (1 - (1 - u)^{1/b})^{1/a}, \qquad
        z = \min(1, \max(0, l + (r - l) k)), \qquad
        P(z = 0) = 1 - \Bigl(1 - \bigl(\tfrac{-l}{r - l}\bigr)^a\Bigr)^b

    with l = -0.1, r = 1.1. A token's two numbers, logit :math:`\ell` and spread s, reparametrise
    the paper's a and b, so that the logit alone says which side of 1/2 is more likely. The spread
    gives the shape :math:`a = \mathrm{softplus}(s)`, clamped to [0.05, 10]. With
    :math:`b = \log \mathrm{sigmoid}(\ell) / \log(1 - 2^{-a})`, it holds that
    :math:`P(z > 1/2) = \mathrm{sigmoid}(\ell)`.

    The penalties are expectations: :math:`P(z \ne 0)` for the size, and for a pair
    :math:`P(z_u = 0) P(z_v \ne 0) + P(z_u \ne 0) P(z_v = 0)` (section 4).
    """

    relaxed = True

    def draw(self, logit: Tensor, spread: Tensor | None, uniform: Tensor) -> Tensor:
        a, b = _kumaraswamy(logit, spread)
        below = -torch.expm1(torch.log1p(-_open(uniform)) / b)  # 1 - (1 - u)^(1/b)
        k = torch.exp(torch.log(below.clamp(min=torch.finfo(below.dtype).tiny)) / a)
        return (_LEFT + (_RIGHT - _LEFT) * k).clamp(0.0, 1.0)

    def probability(self, logit: Tensor, spread: Tensor | None) -> Tensor:
        return self.above(logit, spread, 0.0)

    def transition(self, logit: Tensor, spread: Tensor | None, z: Tensor, pairs: Tensor) -> Tensor:
        kept = self.probability(logit, spread).expand_as(z)
        first, second = (kept.index_select(1, side) for side in pairs)
        return first * (1 - second) + (1 - first) * second

    def above(self, logit: Tensor, spread: Tensor | None, value: float) -> Tensor:
        """The probability that z is above a value in [0, 1)."""
        a, b = _kumaraswamy(logit, spread)
        power = torch.exp(a * math.log((value - _LEFT) / (_RIGHT - _LEFT)))
        return torch.exp(b * torch.log1p(-power))


_LEFT, _RIGHT = -0.1, 1.1
_SHAPES, _LEAST = (0.05, 10.0), 1e-6


def sampled_transition(z: Tensor, pairs: Tensor) -> Tensor:
    """The penalty :math:`|z_u - z_v|` of drawn selections (S, N) for each pair, (S, P)."""
    first, second = (z.index_select(1, side) for side in pairs)
    return (first - second).abs()


def _kumaraswamy(logit: Tensor, spread: Tensor | None) -> tuple[Tensor, Tensor]:
    assert spread is not None
    a = softplus(spread).clamp(*_SHAPES)
    b = logsigmoid(logit) / torch.log1p(-torch.exp2(-a))
    return a, b.clamp(min=_LEAST)


def _open(uniform: Tensor) -> Tensor:
    """Numbers in (0, 1), so that their logarithms are finite."""
    tiny = torch.finfo(uniform.dtype).eps
    return uniform.clamp(tiny, 1 - tiny)
