"""What is measured of selections over an epoch."""

import torch
from torch import Tensor
from torchmetrics import Metric

EXCESS = 0.5  # cost of selecting twice the rate that is wanted


class SelectionCost(Metric):
    r"""The mean cost of texts or molecules, by which the best epoch is chosen.

    .. math::
        \overline{\mathcal{L}} + \lambda_1 \overline{\|z\|} + \lambda_2 \overline{\Omega},

    means over items of loss, size and transitions. Where a rate r is wanted in place of a price
    :math:`\lambda_1`, which then differs from epoch to epoch, the second term is
    :math:`\tfrac12 [p / r - 1]_+` for a share p of all words or atoms: an epoch that selects more
    than the rate pays for it.

    Args:
        sparsity (float, optional): :math:`\lambda_1`.
        rate (float, optional): r; with neither the cost is the loss.
        coherence (float): :math:`\lambda_2`.
    """

    higher_is_better = False
    full_state_update = False
    loss: Tensor
    size: Tensor
    transitions: Tensor
    rows: Tensor
    count: Tensor

    def __init__(
        self, sparsity: float | None = None, rate: float | None = None, coherence: float = 0.0
    ) -> None:
        super().__init__()
        self.sparsity, self.rate, self.coherence = sparsity, rate, coherence
        for name in ("loss", "size", "transitions", "rows", "count"):
            self.add_state(name, torch.zeros((), dtype=torch.float64), dist_reduce_fx="sum")

    def update(self, losses: Tensor, size: Tensor, transitions: Tensor, rows: int) -> None:
        """Adds a batch of items with so many words or atoms in all.

        Args:
            losses: ``(B,)``.
            size: ``(B,)``.
            transitions: ``(B,)``.
            rows (int): N.
        """
        self.loss += losses.sum()
        self.size += size.sum()
        self.transitions += transitions.sum()
        self.rows += rows
        self.count += len(losses)

    def share(self) -> Tensor:
        """The share of all words or atoms that is selected."""
        return self.size / self.rows

    def compute(self) -> Tensor:
        """The cost so far."""
        cost = (self.loss + self.coherence * self.transitions) / self.count
        if self.rate is not None:
            return cost + EXCESS * (self.share() / self.rate - 1).clamp(min=0)
        return cost + (self.sparsity or 0.0) * self.size / self.count


class SelectionPrecision(Metric):
    """The share of selected words or atoms that lie in the evidence; NaN where none is selected.

    Args:
        evidence: ``(N,)`` bool, of all items, in the order in which their selections are added.
    """

    higher_is_better = True
    full_state_update = False
    chosen: list[Tensor]

    def __init__(self, evidence: Tensor) -> None:
        super().__init__()
        self.evidence = evidence
        self.add_state("chosen", default=[], dist_reduce_fx="cat")

    def update(self, chosen: Tensor) -> None:
        """Adds the selections of the next items, ``(n,)`` bool."""
        self.chosen.append(chosen.detach().cpu())

    def compute(self) -> Tensor:
        """The precision so far."""
        if not self.chosen:
            return torch.tensor(torch.nan)
        chosen = torch.cat(self.chosen)
        return (chosen & self.evidence[: len(chosen)]).sum() / chosen.sum()
