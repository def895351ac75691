"""The equations of kernel-based recurrent networks, written out text by text and step by step."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch.nn import BatchNorm1d

from pyg_kernels.nn import KernelActivation
from pyg_kernels.sequence import KBRN, KBRNCell

GREENS = ["relu", "abs", "gaussian"]
CENTERS = 7  # a unit, where a test does not say how many


def green_function(
    green: str, num_centers: int, init_range: tuple[float, float], bandwidth: float | None
) -> Callable[[Tensor], Tensor]:
    """At the kinks the derivative is that from the left."""
    if green == "relu":
        return lambda z: torch.where(z > 0, z, 0.0)
    if green == "abs":
        return lambda z: torch.where(z > 0, z, -z)
    low, high = init_range
    b = bandwidth or (high - low) / max(num_centers - 1, 1)
    return lambda z: torch.exp(-(z**2) / (2 * b**2))


def expansion(activation: KernelActivation, g: Callable[[Tensor], Tensor], a: Tensor) -> Tensor:
    """Eq. 4: sum_k chi_k g(a - c_k) + m a + q, for a of shape (..., H)."""
    total = (activation.coefficients * g(a.unsqueeze(-1) - activation.centers)).sum(dim=-1)
    if activation.slope is not None:
        total = total + activation.slope * a
    if activation.intercept is not None:
        total = total + activation.intercept
    return total


def normalized(a: Tensor, norm: BatchNorm1d) -> Tensor:
    """The rows of one step."""
    if norm.training or norm.running_mean is None:
        mean = a.mean(dim=0)
        variance = (a - mean).square().mean(dim=0)
    else:
        assert norm.running_var is not None
        mean, variance = norm.running_mean, norm.running_var
    a = (a - mean) / (variance + norm.eps).sqrt()
    return a if norm.weight is None else a * norm.weight + norm.bias


def cell_equations(
    cell: KBRNCell, pieces: list[Tensor], h: Tensor, act: Callable[[Tensor], Tensor]
) -> tuple[list[Tensor], Tensor, Tensor]:
    """The outputs of each text, the last of them (S, H), and the rows before the activation."""
    u, b, w = cell.lin_input.weight, cell.lin_input.bias, cell.lin_recurrent.weight
    last, outputs, rows = list(h.unbind(0)), [[] for _ in pieces], []
    for t in range(max((len(piece) for piece in pieces), default=0)):
        present = [s for s, piece in enumerate(pieces) if len(piece) > t]
        h_t = torch.stack([last[s] for s in present])
        a = h_t @ w.t() + torch.stack([pieces[s][t] for s in present]) @ u.t()
        a = a if b is None else a + b
        rows.append(a)
        for s, output in zip(present, act(a), strict=True):
            last[s] = output
            outputs[s].append(output)
    zero = h.new_zeros(0, h.size(1))
    texts = [torch.stack(text) if text else zero for text in outputs]
    return texts, torch.stack(last) if last else h, torch.cat([zero, *rows])


def function_of(cell: KBRNCell, options: dict[str, Any]) -> Callable[[Tensor], Tensor]:
    """The normalisation and the expansion of a cell."""
    activation, norm = cell.activation, cell.activation.norm
    given = {name: options.get(name) for name in ("green", "init_range", "bandwidth")}
    g = green_function(
        given["green"] or "relu",
        activation.centers.size(1),
        given["init_range"] or (-2, 2),
        given["bandwidth"],
    )
    return lambda a: expansion(activation, g, a if norm is None else normalized(a, norm))


def random_kbrn(
    *args: Any, seed: int = 0, scale: float = 0.5, num_centers: int = CENTERS, **kwargs: Any
) -> KBRN:
    """A network in float64 and eval mode in which nothing is left at its initial value."""
    torch.manual_seed(seed)
    kbrn = KBRN(*args, num_centers=num_centers, **kwargs).double()
    with torch.no_grad():
        for name, parameter in kbrn.named_parameters():
            parameter.normal_(std=1.0 if name.endswith("centers") else scale)
        for name, buffer in kbrn.named_buffers():
            if name.endswith("running_mean"):
                buffer.normal_(std=scale)
            elif name.endswith("running_var"):
                buffer.uniform_(0.5, 1.5)
            else:
                buffer.fill_(3)
    return kbrn.eval()
