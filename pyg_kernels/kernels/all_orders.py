"""Steps of pairs of walks, and the sum over walks of all orders."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from scipy.sparse.linalg import ArpackError, LinearOperator, eigs
from torch import Tensor

from pyg_kernels.kernels.graphs import Graphs
from pyg_kernels.kernels.node_pairs import graph_sums, neighbor_sums

_DENSE = 64  # most pairs of nodes whose adjacency is made, for all of its eigenvalues
_CHECKED_EVERY = 8  # terms of the series
_MOST_STEPS = 20_000  # of a sum over all orders


@dataclass(frozen=True)
class Steps:
    """The walks that lie on pairs of nodes, or of edges where they do not turn back."""

    a: Graphs  # of the rows, or their line graphs, edges sorted by target
    b: Graphs  # of the columns
    first: Tensor  # the walks of one node (of one edge), (N, M)
    base: Tensor  # the factor of each node (edge, with its target) further
    edges: Tensor | None  # that of the edges in between; None: 1

    def arrived(self, walks: Tensor) -> Tensor:
        """Sums over the walks that arrive at each pair, without its own factor."""
        return neighbor_sums(walks, self.a, self.b, self.edges)

    def further(self, walks: Tensor) -> Tensor:
        """The walks of one node more."""
        return self.base * self.arrived(walks)

    def tables(self, num_arrived: int, num_walks: int) -> tuple[list[Tensor], list[Tensor]]:
        """The walks of 1, 2, ... nodes that end at each pair, and as they arrive at the next."""
        walks, arrived = [self.first], list[Tensor]()
        for j in range(1, max(num_arrived + 1, num_walks)):
            arrived.append(self.arrived(walks[-1]))
            if j < num_walks:
                walks.append(self.base * arrived[-1])
        return walks, arrived

    def are_positive(self) -> bool:
        """Whether no base kernel is negative, nor wants gradients."""
        known = [t for t in (self.first, self.base, self.edges) if t is not None]
        return not any(t.requires_grad or bool((t < 0).any()) for t in known)


def spectral_radius(steps: Steps, decay: float) -> float:
    """The rate at which walks of a graph with itself grow: the spectral radius of a step.

    The kernel of a graph with itself is at least 0 in every order, so this eigenvalue is positive.
    Where a bound shows that it is below 1 / `decay`, the bound is the answer.
    """
    walks, size, rate = steps.first, steps.first.numel(), 0.0
    if not size:
        return 0.0
    is_positive, turn = steps.are_positive(), 1
    for step in range(1, len(walks) + 2):  # only walks with a cycle take more than the nodes
        largest = float(walks.abs().max())
        if largest == 0:
            return 0.0
        before, walks = walks / largest, steps.further(walks / largest)
        if is_positive and step in (turn, len(before) + 1):  # the bound of Collatz and Wielandt
            known, turn = before > 0, 2 * turn
            rate = float((walks[known] / before[known]).max())
            if decay * rate < 1:
                return rate

    def product(values: np.ndarray) -> np.ndarray:
        further = steps.further(torch.from_numpy(values.copy()).to(walks).view_as(walks))
        return further.reshape(-1).double().cpu().numpy()

    if size <= _DENSE:
        return float(np.linalg.eigvals([product(row) for row in np.eye(size)]).real.max())
    adjacency = LinearOperator((size, size), matvec=product, dtype=np.float64)
    start = walks.reshape(-1).double().cpu().numpy()
    try:
        return float(eigs(adjacency, 1, which="LR", v0=start)[0][0].real)
    except ArpackError:
        return rate or float(steps.further(walks).norm() / walks.norm())


def sum_of_all_orders(steps: Steps, decay: float) -> Tensor:
    r"""The walks of 1, 2, ... nodes with decay, :math:`X = F + \lambda B \circ S(X)`, term by term.

    F are the first walks, B is the factor of a node, S sums over pairs of edges.
    """
    total = walks = steps.first
    precision = torch.finfo(walks.dtype).eps
    for _ in range(0, _MOST_STEPS, _CHECKED_EVERY):
        for _ in range(_CHECKED_EVERY):
            walks = decay * steps.further(walks)
            total = total + walks
        rest, whole = (graph_sums(t.detach().abs(), steps.a, steps.b) for t in (walks, total))
        if bool((rest <= precision * whole).all()):
            return total
    raise _unfinished(decay)


def symmetric_sum_of_all_orders(steps: Steps, decay: float) -> Tensor:
    r"""The same by conjugate gradients, where F = B, S is symmetric and none is negative.

    :math:`X = B^{1/2} \circ Y` with :math:`Y - \lambda B^{1/2} \circ S(B^{1/2} \circ Y) = B^{1/2}`,
    for every pair of graphs its own system, all at a time.
    """
    rows, columns = steps.a.owner(), steps.b.owner()

    def dots(x: Tensor, y: Tensor) -> Tensor:
        return graph_sums(x * y, steps.a, steps.b)

    def ratio(over: Tensor, under: Tensor) -> Tensor:
        """For every pair of nodes that of its graphs; 0 where these are done."""
        found = torch.where(under > 0, over / under, 0.0)
        return found.index_select(0, rows).index_select(1, columns)

    root = steps.base.sqrt()
    solution, residual, direction = torch.zeros_like(root), root, root
    squared = dots(residual, residual)
    precision = torch.finfo(root.dtype)
    enough = (squared * precision.eps**2).clamp_min(precision.tiny)
    for _ in range(_MOST_STEPS):
        if not bool((squared > enough).any()):
            return root * solution
        image = direction - decay * root * steps.arrived(root * direction)
        length = ratio(squared, dots(direction, image))
        solution = solution + length * direction
        residual = residual - length * image
        before, squared = squared, dots(residual, residual)
        direction = residual + ratio(squared, before) * direction
    raise _unfinished(decay)


def _unfinished(decay: float) -> ValueError:
    return ValueError(
        f"decay={decay!r} with order=None: the sum has not converged after {_MOST_STEPS} steps; "
        "expected a smaller decay, or torch.float64"
    )
