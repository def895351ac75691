"""The definition of kernel expansions in one dimension, in PyTorch's ops."""

from __future__ import annotations

from typing import Any, Literal, NamedTuple, get_args

import torch
import torch.nn.functional as F
from torch import Tensor

Green = Literal["relu", "abs", "gaussian"]
GREENS: tuple[Green, ...] = get_args(Green)


class Pieces(NamedTuple):
    r"""The lines of R functions with d kinks each: piece j lies right of j centres.

    .. math::
        f_i(a) = v_{ij} + s_{ij} (a - o_{ij}), \qquad j = |\{k : c_{ik} < a\}|

    Attributes:
        centers: The centres in ascending order, :obj:`(R, d)`.
        order: The position of each centre before sorting, :obj:`(R, d)`.
        origins: The centre o at one end of each piece, :obj:`(R, d + 1)`, in double precision, as
            are the values and slopes.
        values: The values v there, :obj:`(R, d + 1)`.
        slopes: The slopes s, :obj:`(R, d + 1)`.
    """

    centers: Tensor
    order: Tensor
    origins: Tensor
    values: Tensor
    slopes: Tensor


def expansion(
    a: Tensor, centers: Tensor, coefficients: Tensor, green: Green, bandwidth: float | None = None
) -> Tensor:
    """See :func:`pyg_kernels.ops.expansion.kernel_expansion`.

    The Gaussian is the direct sum. The others use binary search, whose memory does not grow with
    the inputs times the centres, except in ONNX, which has no binary search.
    """
    if green != "gaussian" and not torch.onnx.is_in_onnx_export():
        return read_pieces(a, linear_pieces(centers, coefficients, green), green)
    return direct_sum(a, centers, coefficients, green, bandwidth)


def direct_sum(
    a: Tensor, centers: Tensor, coefficients: Tensor, green: Green, bandwidth: float | None
) -> Tensor:
    """The sum term by term, whose memory grows with the inputs times the centres."""
    if green == "gaussian":
        assert bandwidth is not None
        return gaussians(a.unsqueeze(-1), centers, coefficients, -0.5 / bandwidth**2).sum(-1)
    distances = a.unsqueeze(-1) - centers
    values = distances.abs() if green == "abs" else distances.clamp_min(0)
    return (values * coefficients).sum(-1)


def gaussians(a: Any, centers: Any, coefficients: Any, exponent: Any) -> Any:
    """The terms of a sum of Gaussians, on tensors or traced; `exponent` is that at distance 1."""
    return torch.exp((a - centers).square() * exponent) * coefficients


def linear_pieces(centers: Tensor, coefficients: Tensor, green: Green) -> Pieces:
    r"""The pieces of :math:`\sum_k \chi_{ik} g(a - c_{ik})`, g the rectifier or absolute value.

    Sums run over the gaps between neighbouring centres in double precision. Values are taken at the
    end of a piece at which a far centre without weight costs no digits: for rectifiers the left
    end, for absolute values the end nearer to the middle of the centres. A unit that has a NaN
    parameter is NaN everywhere.
    """
    ordered, order = torch.sort(centers, dim=1)
    chi = coefficients.gather(1, order).double()
    gaps = ordered.double().diff(dim=1)
    slopes = F.pad(chi.cumsum(1), (1, 0))
    values = F.pad((gaps * slopes[:, 1:-1]).cumsum(1), (1, 0))
    if green == "abs":  # and the sums over the centres right of each piece
        right = F.pad(_from_right(chi), (0, 1))
        slopes = slopes - right
        values = values + F.pad(_from_right(gaps * right[:, 1:-1]), (0, 1))
    unknown = (centers.isnan() | coefficients.isnan()).any(1, keepdim=True)
    values = values.masked_fill(unknown, torch.nan)
    # The centre at which the pieces' origins change from the right ends to the left ones.
    turn = 1 if green == "relu" else (centers.size(1) + 1) // 2
    values, origins = (
        torch.cat((of[:, :turn], of[:, turn - 1 :]), 1) for of in (values, ordered.double())
    )
    return Pieces(ordered, order, origins, values, slopes)


def least_offset(green: Green, dtype: torch.dtype) -> float:
    """The least offset: with it, rectifiers left of all centres are 0 at minus infinity too."""
    return torch.finfo(dtype).min if green == "relu" else -torch.inf


def read_pieces(a: Tensor, pieces: Pieces, green: Green) -> Tensor:
    """The functions' values at inputs, :obj:`(N, U)`; a single function is that of all units."""
    units = pieces.centers.size(0)
    columns = a.reshape(-1 if units else 0, units).t()
    places = torch.searchsorted(pieces.centers.detach(), columns.detach().contiguous())
    # Gathered in double precision, for the sums of gradients over the inputs of a piece.
    origins, values, slopes = (
        of.gather(1, places).to(a.dtype) for of in (pieces.origins, pieces.values, pieces.slopes)
    )
    offsets = columns - origins
    if green == "relu":
        offsets = offsets.clamp_min(least_offset(green, a.dtype))
    return torch.addcmul(values, slopes, offsets).t().reshape(a.shape)


def _from_right(x: Tensor) -> Tensor:
    """The sums of each entry and those after it, in the last dimension."""
    return x.flip(-1).cumsum(-1).flip(-1)
