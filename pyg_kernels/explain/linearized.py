r"""The stages of a model that follow a sum over walks, linearized at an input.

Around an input, a chain of linear maps, normalisations by running statistics and
piecewise-linear activations equals :math:`f(h) = A h + b`. Hence
:math:`\langle w, f(h) \rangle = \langle A^\top w, h \rangle + \langle w, b \rangle` exactly.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import cast

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.nn import Module
from torch_geometric.nn import BatchNorm, Linear

from pyg_kernels.explain.arguments import checked_output
from pyg_kernels.nn.models.graph_vector import Function

Stage = tuple[str, Callable[[Tensor], Tensor] | None]
Slope = Callable[[Tensor], Tensor]


class Shift:
    """A stage that adds a bias."""

    def __init__(self, bias: Tensor) -> None:
        self.bias = bias

    def __call__(self, value: Tensor) -> Tensor:
        return value + self.bias


def stages_of(name: str, module: Module | None) -> list[Stage]:
    """The stages of a module: for a ``Sequential`` those of its parts, else the module itself."""
    if not isinstance(module, torch.nn.Sequential):
        return [(name, module)]
    # A module may occur twice. Names with dots belong to modules inside a part.
    named = module.named_modules(remove_duplicate=False)
    parts = [(key, part) for key, part in named if key and "." not in key]
    return [stage for key, part in parts for stage in stages_of(f"{name}.{key}", part)]


class LinearizedChain:
    """A chain of stages, linearized at an input.

    Args:
        stages: Pairs of a stage's name in the model and the stage, in evaluation mode. None
            stands for the identity.
        value: The input, :obj:`(R, D)`.

    Raises:
        ValueError: For a stage that is not piecewise linear, which the message names.
    """

    def __init__(self, stages: Iterable[Stage], value: Tensor) -> None:
        self.value = value
        self._back: list[Callable[[Tensor], Tensor]] = []
        out = value.clone()  # stages may work in place
        for name, stage in stages:
            if stage is not None:
                _check(name, stage)
                before = out.clone()
                out = stage(out)  # a hook may renew its weights
                self._back.append(_backwards(name, stage, before, out))
        self.output = out

    def pull_back(self, weights: Tensor) -> tuple[Tensor, Tensor]:
        """Maps weights of the output to weights of the input, (R, D), and a constant per row."""
        ends = weights
        for back in reversed(self._back):
            ends = back(ends)
        constant = (weights * self.output).sum(1) - (ends * self.value).sum(1)
        return ends, constant


def _backwards(
    name: str, stage: Callable[[Tensor], Tensor], value: Tensor, output: Tensor
) -> Callable[[Tensor], Tensor]:
    """The map from weights of a stage's output to those of its input; checks that output."""
    if isinstance(stage, (torch.nn.Linear, Linear)):
        weight = stage.weight
        checked_output(F.linear(value, weight, stage.bias), output)
        return lambda w: w @ weight
    norm = stage.module if isinstance(stage, BatchNorm) else stage
    if isinstance(norm, torch.nn.BatchNorm1d):
        scale = torch.rsqrt(cast(Tensor, norm.running_var) + norm.eps)
        scale = scale if norm.weight is None else scale * norm.weight
        given = norm.running_mean, norm.running_var, norm.weight, norm.bias
        checked_output(F.batch_norm(value, *given, eps=norm.eps), output)
        return lambda w: w * scale
    if isinstance(stage, Shift):
        return lambda w: w
    if isinstance(stage, torch.nn.Dropout):
        checked_output(value, output)
        return lambda w: w
    slope = slope_of(stage, f"model ({name})")(value)
    checked_output(slope * value, output)
    return lambda w: w * slope


def _check(name: str, stage: Callable[[Tensor], Tensor]) -> None:
    """Rejects normalisations that are not affine."""
    norm = stage.module if isinstance(stage, BatchNorm) else stage
    if isinstance(norm, torch.nn.BatchNorm1d) and norm.running_var is None:
        raise ValueError(
            f"model has {norm!r} ({name}), which normalises by the batch: an exact attribution "
            "needs running statistics"
        )
    if isinstance(stage, torch.nn.LayerNorm):
        raise ValueError(
            f"model has {stage!r} ({name}), whose scale depends on what it normalises: an exact "
            "attribution needs slopes; expected norm=None, 'batch' or 'head'"
        )


def slope_of(act: Callable[[Tensor], Tensor] | None, where: str) -> Slope:
    r"""The slope :math:`m(z)` of an activation with :math:`\sigma(z) = m(z) z`.

    It is 1 for the identity, 0 or 1 for relu, 1 or the negative slope for leaky relu, and the
    sign for abs. At zero it equals PyTorch's derivative.

    Args:
        act: The activation, or None for the identity.
        where: What the error message names as having the activation.

    Raises:
        ValueError: For any other activation.
    """
    act = act.function if isinstance(act, Function) else act
    if act is None or type(act) is torch.nn.Identity:
        return torch.ones_like
    if type(act) is torch.nn.ReLU or act in (torch.relu, F.relu):
        return _of_leaky_rectifier(0.0)
    if type(act) is torch.nn.LeakyReLU:
        return _of_leaky_rectifier(act.negative_slope)
    if act is F.leaky_relu:
        return _of_leaky_rectifier(0.01)
    if act in (torch.abs, torch.absolute, torch.Tensor.abs, abs):
        return torch.sign
    raise ValueError(
        f"{where} has the activation {_described(act)}: an exact attribution needs a "
        "piecewise-linear one through 0, expected the identity, relu, leaky relu or abs"
    )


def _of_leaky_rectifier(negative: float) -> Slope:
    def slope(z: Tensor) -> Tensor:
        return torch.ones_like(z).masked_fill_(z <= 0, negative)

    return slope


def _described(act: Callable[[Tensor], Tensor]) -> str:
    if isinstance(act, Module):
        return repr(act)
    return getattr(act, "__name__", repr(act))
