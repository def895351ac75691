"""Bias-free maps, and when they may be read as matrices without being called."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, cast

import torch
from torch import Tensor
from torch.nn import Module
from torch.utils.hooks import RemovableHandle
from torch_geometric.nn.dense.linear import Linear, is_uninitialized_parameter
from torch_geometric.nn.inits import reset

from pyg_kernels.ops.operator import is_plain


def _hooking(name: str) -> Any:
    """PyTorch's method of that name, which also marks the module as hooked."""

    def register(self: Hookable, *args: Any, **kwargs: Any) -> RemovableHandle:
        self.hooked = True
        found: RemovableHandle = getattr(super(Hookable, self), name)(*args, **kwargs)
        return found

    return register


class Hookable(Module):
    """A module that knows whether a hook was registered on it, so that it has to be called.

    Layers may read the tensors of such a module instead of calling it, unless it is `hooked`.
    Pruning by :mod:`torch.nn.utils.prune` also registers a hook.
    """

    hooked = False

    register_forward_hook = _hooking("register_forward_hook")
    register_forward_pre_hook = _hooking("register_forward_pre_hook")
    register_backward_hook = _hooking("register_backward_hook")
    register_full_backward_hook = _hooking("register_full_backward_hook")
    register_full_backward_pre_hook = _hooking("register_full_backward_pre_hook")


class Resettable:
    """A module whose parts are drawn again in their order; those with parameters of their own
    extend it.
    """

    def reset_parameters(self: Any) -> None:
        for module in self.children():
            reset(module)


class UnitLinear(Hookable, Linear):
    r"""A linear map with entries drawn from :math:`\mathcal{U}(\pm\sqrt{3 / F})`.

    The variances of a row's entries add up to 1, so that features of unit variance have outputs of
    unit variance. This matters because a state of order n is a product of n projections: with any
    other scale, states would vanish or explode as the n-th power of the scale.

    Args:
        in_channels: The number of input features F; -1 to read it off the first input.
        out_channels: The number of output features.
    """

    in_channels: int
    weight: Tensor

    def __init__(self, in_channels: int, out_channels: int) -> None:
        super().__init__(in_channels, out_channels, bias=False)
        self.hooked = False  # PyG registers a hook of its own for lazy sizes
        self.register_state_dict_post_hook(keep_own_names)

    def reset_parameters(self) -> None:
        if is_uninitialized_parameter(self.weight) or self.in_channels <= 0:
            return
        bound = math.sqrt(3.0 / self.in_channels)
        torch.nn.init.uniform_(self.weight, -bound, bound)


def keep_own_names(lin: Any, state: dict[str, Any], prefix: str, metadata: Any) -> None:
    """Saves the tensors behind a pruned or parametrized weight; PyG's map saves the weight."""
    own = {**dict(lin.named_parameters(recurse=False)), **dict(lin.named_buffers(recurse=False))}
    for name in {"weight", "bias"} - own.keys():
        state.pop(prefix + name, None)
    state.update({k: v.detach() for n, v in own.items() if (k := prefix + n) not in state})


class StateLinear(Hookable, torch.nn.Linear):
    """The map of a state: square, without bias, initialised as in :class:`torch.nn.LSTM`."""

    def __init__(self, channels: int) -> None:
        super().__init__(channels, channels, bias=False)

    def reset_parameters(self) -> None:
        bound = 1.0 / math.sqrt(self.in_features)
        for parameter in self.parameters():  # those that a parametrized weight is made of
            torch.nn.init.uniform_(parameter, -bound, bound)


def is_matrix(lin: Module) -> bool:
    """Whether a map only multiplies by its weight, which may be parametrized."""
    known = isinstance(lin, Hookable) and type(lin).forward in (
        UnitLinear.forward,
        StateLinear.forward,
    )
    return known and not lin.hooked and "forward" not in vars(lin)


def apply_stacked(x: Tensor, lins: Sequence[Module]) -> Tensor:
    """The outputs of several linear maps side by side, by one product if all are plain matrices.

    Args:
        x: The input, of shape :obj:`(N, F)`.
        lins: Maps from F features; lazy ones take their size from :obj:`x`.
    """
    for lin in lins:
        if isinstance(lin, UnitLinear) and is_uninitialized_parameter(lin.weight):
            cast(Any, lin).initialize_parameters(lin, (x,))
    if not all(map(is_matrix, lins)):
        return torch.cat([lin(x) for lin in lins], dim=1)
    weights = [cast(Tensor, lin.weight) for lin in lins]
    return torch.nn.functional.linear(x, weights[0] if len(lins) == 1 else torch.cat(weights))


def weight_of(lin: Module) -> Tensor:
    """The matrix of a linear map without bias, found by calling the map unless `is_matrix` holds.

    Raises:
        ValueError: If the map adds a constant or is not linear, where numbers can be read.
    """
    if is_matrix(lin):
        return cast(Tensor, lin.weight)
    like = next(lin.parameters())
    features: int = getattr(lin, "in_features", getattr(lin, "in_channels", like.size(-1)))
    rows = torch.eye(features + 2, features, device=like.device, dtype=like.dtype)
    rows[-1] = torch.linspace(-8, 8, features + 1, device=rows.device, dtype=rows.dtype)[1:]
    called: Tensor = lin(rows)
    if _is_not_zero(called[-2]):
        raise ValueError(f"{lin} adds a constant: expected a linear map without bias")
    found = called[:-2].t()
    error = (called[-1] - found @ rows[-1].to(found)).abs() - 1e-2 * (
        found.abs() @ rows[-1].abs().to(found)
    )
    if _is_not_zero(error.clamp_min(0)):
        raise ValueError(f"{lin} is not linear: expected a linear map without bias")
    return found


def _is_not_zero(values: Tensor) -> bool:
    """Whether any number is not 0; numbers that cannot be read now count as 0."""
    if torch.compiler.is_compiling() or not is_plain(values):
        return False
    if values.is_cuda and torch.cuda.is_current_stream_capturing():
        return False
    try:
        return bool((values.abs() > 0).any())  # False for NaN, from weights that are not finite
    except RuntimeError:  # for meta tensors and traced ones
        return False
