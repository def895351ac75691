"""Whether PyTorch transforms functions around a call, which hand-written gradients cannot see."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
from torch import Tensor
from torch.autograd import forward_ad
from torch.nn import Parameter


def transforms_active() -> bool:
    """True inside ``torch.func`` transforms (vmap, jacrev, jvp, ...) and forward-mode AD.

    The ops then run by their definitions, in PyTorch ops that every transform knows.
    """
    functorch = getattr(torch._C, "_are_functorch_transforms_active", None)
    return (functorch is not None and functorch()) or forward_ad._current_level >= 0


def is_batched(grad: Tensor | None) -> bool:
    """True for many gradients at once, from ``torch.autograd.grad(is_grads_batched=True)``."""
    legacy = getattr(torch._C._functorch, "is_legacy_batchedtensor", None)
    return grad is not None and legacy is not None and bool(legacy(grad))


def has_numbers(tensor: Tensor) -> bool:
    """False for tensors that stand for others, as those under ``FakeTensorMode``."""
    return type(tensor) in (Tensor, Parameter) and not tensor.is_meta


def by_definition(
    run: Callable[..., Tensor | tuple[Tensor, ...]],
    inputs: Sequence[Tensor | None],
    needed: Sequence[bool],
    grads: Sequence[Tensor | None],
) -> tuple[Tensor | None, ...]:
    """The gradients of a definition as PyTorch ops: for second derivatives, and under transforms.

    The definition is run on views of its own, so that only its own dependence on each input
    counts, and not that of one input on another.

    Args:
        run: The definition, a function of the inputs.
        inputs: Its inputs.
        needed: Which inputs' gradients are wanted; may be longer than the inputs.
        grads: The gradient of each output, None for zero.

    Returns:
        One gradient or None for each entry of :obj:`needed`.
    """
    gradients: list[Tensor | None] = [None] * len(needed)
    with torch.enable_grad():
        own = [None if tensor is None else tensor.view_as(tensor) for tensor in inputs]
        wanted = {k: t for k, t in enumerate(own) if t is not None and needed[k]}
        out = run(*own)
        outs = (out,) if isinstance(out, Tensor) else out
        given = [(o, g) for o, g in zip(outs, grads, strict=True) if g is not None]
        given = [(o, g) for o, g in given if o.requires_grad]
        if not wanted or not given:
            return tuple(gradients)
        found = torch.autograd.grad(
            [o for o, _ in given],
            list(wanted.values()),
            [g for _, g in given],
            create_graph=True,
            allow_unused=True,
        )
    for k, gradient in zip(wanted, found, strict=True):
        gradients[k] = gradient
    return tuple(gradients)
