"""Piecewise-linear expansions as lines between their sorted centres."""

from __future__ import annotations

from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor

from pyg_kernels.ops.expansion.reference import Green


class Line(NamedTuple):
    r"""A line :math:`m_i a + q_i` that is added to an expansion; one entry a unit, or one for all.

    Attributes:
        slope: The slopes m.
        intercept: The intercepts q.
    """

    slope: Tensor
    intercept: Tensor


def as_line(slope: Tensor | None, intercept: Tensor | None) -> Line | None:
    """A line where there is one."""
    return None if slope is None or intercept is None else Line(slope, intercept)


class Pieces(NamedTuple):
    r"""The lines of U functions with d kinks each: piece j lies right of j centres.

    .. math::
        f_i(a) = v_{ij} + s_{ij} (a - o_{ij}), \qquad j = |\{k : c_{ik} < a\}|

    Attributes:
        centers: The centres in ascending order, :obj:`(U, d)`.
        order: Where each came from, :obj:`(U, d)`.
        origins: The centre o at one end of each piece, :obj:`(U, d + 1)`; like the values and
            slopes in double precision.
        values: The values v there, :obj:`(U, d + 1)`.
        slopes: The slopes s, :obj:`(U, d + 1)`.
        vanish: Whether the functions are 0 left of their first centres.
    """

    centers: Tensor
    order: Tensor
    origins: Tensor
    values: Tensor
    slopes: Tensor
    vanish: bool


def linear_pieces(centers: Tensor, coefficients: Tensor, green: Green) -> Pieces:
    r"""The pieces of :math:`\sum_k \chi_{ik} g(a - c_{ik})`, g the rectifier or absolute value.

    Sums run over the gaps between neighbouring centres in double precision, and values are taken
    at that end of a piece from which a far centre without weight costs no digits: for rectifiers
    the left one, for absolute values that nearer to the middle of the centres. A unit of which a
    parameter is NaN is NaN everywhere.
    """
    ordered, order = torch.sort(centers, dim=1)
    chi = coefficients.gather(1, order).double()
    gaps = ordered.double().diff(dim=1)
    slopes = F.pad(chi.cumsum(1), (1, 0))
    values = F.pad((gaps * slopes[:, 1:-1]).cumsum(1), (1, 0))
    if green == "abs":  # and the sums over the centres right of each piece
        right = F.pad(from_right(chi), (0, 1))
        slopes = slopes - right
        values = values + F.pad(from_right(gaps * right[:, 1:-1]), (0, 1))
    unknown = (centers.isnan() | coefficients.isnan()).any(1, keepdim=True)
    values = values.masked_fill(unknown, torch.nan)
    # The centre at which the pieces' origins change from the right ends to the left ones.
    turn = 1 if green == "relu" else (centers.size(1) + 1) // 2
    values, origins = (
        torch.cat((of[:, :turn], of[:, turn - 1 :]), 1) for of in (values, ordered.double())
    )
    return Pieces(ordered, order, origins, values, slopes, green == "relu")


def from_right(x: Tensor) -> Tensor:
    """The sums of each entry and those after it, in the last dimension."""
    return x.flip(-1).cumsum(-1).flip(-1)


def searched_expansion(
    a: Tensor, centers: Tensor, coefficients: Tensor, green: Green, line: Line | None = None
) -> Tensor:
    """The expansion by binary search in PyTorch's ops, which differentiate it any number of times.

    Arguments as those of the definition, :obj:`a` of shape :obj:`(N, U)`.
    """
    return searched_pieces(a, linear_pieces(centers, coefficients, green), line)


def searched_pieces(a: Tensor, pieces: Pieces, line: Line | None = None) -> Tensor:
    """The functions' values at :obj:`a`, :obj:`(N, U)`.

    Args:
        a: The inputs.
        pieces: The functions; where there is one, of all units.
        line: A line that is added.
    """
    columns = a.reshape(-1, pieces.centers.size(0)).t()
    bins = torch.searchsorted(pieces.centers.detach(), columns.detach().contiguous())
    # Gathered in double precision, for the sums of gradients over the inputs of a piece.
    origins, values, slopes = (
        of.gather(1, bins).to(a.dtype) for of in (pieces.origins, pieces.values, pieces.slopes)
    )
    offsets = columns - origins
    if pieces.vanish:  # at minus infinity too
        offsets = offsets.clamp_min(torch.finfo(a.dtype).min)
    out = torch.addcmul(values, slopes, offsets).t().reshape(a.shape)
    return out if line is None else out + torch.addcmul(line.intercept, line.slope, a)
