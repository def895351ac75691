"""What nodes and edges add to the levels of a network."""

from __future__ import annotations

import torch
from torch import Tensor

from pyg_kernels.nn.frontier_levels import FrontierLevels
from pyg_kernels.ops.edges import Edges
from pyg_kernels.ops.eigenvectors import eigenvectors

_EQUAL = 1e-9  # eigenvalues closer than this share of the largest are one level


def parts_of_levels(
    levels: FrontierLevels, x: Tensor, edges: Edges, batch: Tensor, theta: Tensor
) -> tuple[Tensor, Tensor]:
    r"""What nodes, ``(N,)``, and edges, ``(E,)``, add to a weighted sum of levels.

    A level is :math:`\sum_v H_{vv} u_v^2 + \sum_{uv} H_{uv} u_u u_v`. Of equal eigenvalues, whose
    eigenvectors are a matter of choice, the mean over them counts, so that nodes that a symmetry
    exchanges have equal shares.

    Args:
        levels: The layer.
        x: What it reads.
        edges: The edges.
        batch: The graph of each node.
        theta: The weights of the levels, ``(B, 2F)``.
    """
    site, coupling, filling = levels.matrix(x, edges)
    lower, upper, share = levels.places(filling, batch, theta.size(0))
    size = torch.bincount(batch, minlength=theta.size(0)).unsqueeze(1)
    every = torch.arange(max(1, int(size.max())), device=x.device).expand(theta.size(0), -1)
    real, last = every < size, (size - 1).clamp(min=0)
    places = torch.minimum(every, last)
    vectors = eigenvectors(site, coupling, edges.source, edges.target, batch, places)
    source, target = (vectors.index_select(0, index) for index in (edges.source, edges.target))
    of_edge = batch[edges.target]
    values = site.new_zeros(real.shape)
    values.index_add_(0, batch, site.unsqueeze(1) * vectors.square())
    values.index_add_(0, of_edge, coupling.unsqueeze(1) * source * target)
    weights = site.new_zeros(real.shape)
    theta = theta.double()
    weights.scatter_add_(1, lower, theta * (1 - share)).scatter_add_(1, upper, theta * share)
    near = (values.unsqueeze(2) - values.unsqueeze(1)).abs()
    equal = near <= _EQUAL * values.abs().amax(1)[:, None, None]
    equal &= real.unsqueeze(1) & real.unsqueeze(2)
    equal = equal.double()
    weights = (equal @ weights.unsqueeze(2))[:, :, 0] / equal.sum(2).clamp(min=1)
    nodes = site * (vectors.square() * weights[batch]).sum(1)
    pairs = coupling * (source * target * weights[of_edge]).sum(1)
    return nodes.to(x.dtype), pairs.to(x.dtype)
