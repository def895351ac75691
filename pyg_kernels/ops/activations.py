"""The activations that fused ops know by name, and how these apply them."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

_NAMES = {
    torch.nn.ReLU: "relu",
    torch.nn.Tanh: "tanh",
    torch.nn.Sigmoid: "sigmoid",
    torch.relu: "relu",
    torch.tanh: "tanh",
    torch.sigmoid: "sigmoid",
}


def name_of(act: Callable[[Tensor], Tensor]) -> str | None:
    """The name of an activation that is fused; None for others, and where hooks listen."""
    if isinstance(act, torch.nn.Module):
        forward = act._forward_hooks or act._forward_pre_hooks
        listened = forward or act._backward_hooks or act._backward_pre_hooks
        return None if listened else _NAMES.get(type(act))
    try:
        return _NAMES.get(act)
    except TypeError:  # not hashable
        return None


def activate(x: Tensor, bias: Tensor | None, name: str | None, out: Tensor) -> None:
    """Writes the activation of x plus a bias: tanh, relu, sigmoid or None for the identity.

    :obj:`out` may be x itself.
    """
    if bias is not None:
        x = torch.add(x, bias, out=out)
    if name == "tanh":
        torch.tanh(x, out=out)
    elif name == "relu":
        torch.clamp_min(x, 0, out=out)
    elif name == "sigmoid":
        torch.sigmoid(x, out=out)
    elif x is not out:
        out.copy_(x)


def activation_gradient(grad: Tensor, value: Tensor, name: str | None, out: Tensor) -> None:
    """Writes the gradient before an activation, from its value and the gradient after it."""
    if name == "tanh":
        torch.ops.aten.tanh_backward.grad_input(grad, value, grad_input=out)
    elif name == "relu":
        torch.ops.aten.threshold_backward.grad_input(grad, value, 0, grad_input=out)
    elif name == "sigmoid":
        torch.ops.aten.sigmoid_backward.grad_input(grad, value, grad_input=out)
    else:
        out.copy_(grad)
