"""Whether PyTorch transforms functions around a call, which hand-written gradients cannot see."""

from __future__ import annotations

import torch
from torch.autograd import forward_ad


def transforms_active() -> bool:
    """True inside ``torch.func`` transforms (vmap, jacrev, jvp, ...) and forward-mode AD.

    The ops then run by their definitions, in PyTorch ops that every transform knows.
    """
    functorch = getattr(torch._C, "_are_functorch_transforms_active", None)
    return (functorch is not None and functorch()) or forward_ad._current_level >= 0


def is_batched(grad: torch.Tensor | None) -> bool:
    """True for many gradients at once, from ``torch.autograd.grad(is_grads_batched=True)``."""
    legacy = getattr(torch._C._functorch, "is_legacy_batchedtensor", None)
    return grad is not None and legacy is not None and bool(legacy(grad))
