"""The state that the objective keeps between batches: a baseline, and the price of a token."""

from __future__ import annotations

import math

import torch
from torch import Tensor
from torch.nn import Module

from pyg_kernels.checks import is_number


def checked_rate(rate: float, name: str) -> float:
    """A share of tokens, checked to be between 0 and 1."""
    if not is_number(rate) or not 0.0 < rate < 1.0:
        raise ValueError(f"{name}={rate!r}: expected a share between 0 and 1")
    return float(rate)


class RunningBaseline(Module):
    r"""The exponential running mean of the cost, 0 before the first batch.

    Args:
        momentum: The weight of earlier batches, in [0, 1).
    """

    total: Tensor
    weight: Tensor

    def __init__(self, momentum: float = 0.9) -> None:
        super().__init__()
        self.momentum = momentum
        self.register_buffer("total", torch.zeros(()))
        self.register_buffer("weight", torch.zeros(()))

    def reset_parameters(self) -> None:
        for buffer in (self.total, self.weight):
            buffer.zero_()

    def value(self) -> Tensor:
        return self.total / self.weight.clamp(min=torch.finfo(self.weight.dtype).tiny)

    def update(self, costs: Tensor) -> None:
        """Adds the costs of a batch, (S, B), unless one is not finite."""
        mean = costs.detach().mean().to(self.total)
        if bool(mean.isfinite()):
            self.total.lerp_(mean, 1 - self.momentum)
            self.weight.lerp_(torch.ones_like(self.weight), 1 - self.momentum)


class RateControl(Module):
    r"""Adjusts the price :math:`\lambda_1` of a selected token to reach a rate of selection.

    Let p be the share of a batch's tokens that are selected, r the rate, and
    :math:`e = \mathrm{logit}(p) - \mathrm{logit}(r)`, clamped to [-2, 2], the error on the scale
    on which probabilities are learned. The price follows dual ascent with a damping term:

    .. math::
        \mu \leftarrow \mu + \eta (1 + |\mu|) e, \qquad
        \lambda_1 = u (\mu + \kappa (1 + |\mu|) e),

    where u is the mean loss per token in the first batch. The effect of :math:`\eta` and
    :math:`\kappa` depends neither on the scale of losses nor on the length of texts. The price is
    negative when selections have to grow.

    Args:
        rate: r, in (0, 1).
        step: :math:`\eta`.
        damping: :math:`\kappa`.
    """

    unit: Tensor
    multiplier: Tensor
    share: Tensor

    def __init__(self, rate: float, step: float = 0.005, damping: float = 0.5) -> None:
        super().__init__()
        self.rate, self.step, self.damping = rate, step, damping
        self.register_buffer("unit", torch.zeros(()))
        self.register_buffer("multiplier", torch.zeros(()))
        self.register_buffer("share", torch.full((), rate))

    def reset_parameters(self) -> None:
        for buffer in (self.unit, self.multiplier):
            buffer.zero_()
        self.share.fill_(self.rate)

    def price(self) -> Tensor:
        r""":math:`\lambda_1`, 0 before the first batch."""
        return self.unit * (self.multiplier + self.damping * self._pull())

    def update(self, losses: Tensor, size: Tensor, num_rows: int) -> None:
        """Reads the losses and sizes (S, B) of a batch of N tokens, unless one is not finite."""
        if not num_rows or not bool(losses.detach().mean().isfinite()):
            return
        share = size.detach().sum().to(self.share) / (size.size(0) * num_rows)
        if not bool(self.unit):
            loss = losses.detach().abs().sum().to(self.unit) / (losses.size(0) * num_rows)
            self.unit.copy_(torch.where(loss > 0, loss, 1.0))
        # No running mean: its delay makes the price swing.
        self.share.copy_(share)
        self.multiplier.add_(self.step * self._pull())

    def _pull(self) -> Tensor:
        wanted = math.log(self.rate) - math.log1p(-self.rate)
        error = (torch.logit(self.share, eps=1e-6) - wanted).clamp(-2.0, 2.0)
        return (1.0 + self.multiplier.abs()) * error
