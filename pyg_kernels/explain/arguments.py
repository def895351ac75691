"""Checks of the attributions' arguments, which raise a ``ValueError`` that names the argument.

Also the precision in which attributions are computed.
"""

from __future__ import annotations

from collections.abc import Sequence
from numbers import Integral

import torch
from torch import Tensor
from torch.nn import Module
from torch_geometric.nn.dense.linear import is_uninitialized_parameter

from pyg_kernels.nn.arguments import checked_nodes


def as_stored(x: Tensor) -> torch.autocast:
    """Turns autocast off: in the precision of features and weights, shares add up."""
    return torch.autocast(checked_nodes(x).device.type, enabled=False)


def checked_head(head: Tensor | Sequence[float] | None, channels: int, like: Tensor) -> Tensor:
    """One weight per channel, (D,); ones if none are given."""
    if head is None:
        return like.new_ones(channels)
    head = torch.as_tensor(head, dtype=like.dtype, device=like.device).detach()
    if head.shape != (channels,):
        raise ValueError(
            f"head has shape {tuple(head.shape)}: expected one weight a channel, ({channels},)"
        )
    return head


def checked_features(x: Tensor, lin: Module) -> Tensor:
    """Features, checked to have the width and precision of the map that reads them."""
    width = getattr(lin, "in_channels", -1)
    if width not in (-1, x.size(-1)):
        raise ValueError(f"x has {x.size(-1)} features: expected {width}")
    weight = next(lin.parameters(), None)
    known = weight is not None and not is_uninitialized_parameter(weight)
    if known and weight is not None and x.dtype != weight.dtype:
        raise ValueError(f"x has dtype {x.dtype}: expected {weight.dtype}, that of the weights")
    return x


def checked_output(found: Tensor, output: Tensor) -> None:
    """Checks that a model's output is finite and equals what its stages give."""
    checked_finite(output)
    scale = float(output.abs().max()) if output.numel() else 1.0
    near = max(1e-3, 32 * torch.finfo(output.dtype).eps)  # each stage rounds
    if not torch.allclose(found, output, rtol=near, atol=near * max(scale, 1e-3)):
        raise ValueError(
            "model does not run its stages one after the other: a forward or message "
            "was overridden, or hooks change what passes"
        )


def checked_place(place: int, count: int, name: str, what: str) -> int:
    """Turns an index, which is negative if it counts from the end, into one from the start."""
    if isinstance(place, bool) or not isinstance(place, Integral):
        raise ValueError(f"{name}={place!r}: expected a whole number")
    if not -count <= place < count:
        expected = f"expected {-count} to {count - 1}" if count else "there is nothing to explain"
        raise ValueError(f"{name}={place} with {count} {what}: {expected}")
    return int(place) % count


def checked_finite(total: Tensor) -> Tensor:
    """A sum, checked to be finite."""
    if not bool(total.isfinite().all()):
        raise ValueError(
            f"the value to explain is {total.tolist()}: expected a finite one; look for NaN or "
            "infinity in x, edge_attr and the parameters"
        )
    return total
