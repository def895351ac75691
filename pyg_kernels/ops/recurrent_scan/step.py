"""One step of walks along texts, and its gradients, in place on one time step's rows."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
from torch import Tensor


def walk_step(
    p: Sequence[Tensor],
    before: Sequence[Tensor],
    weight: Tensor,
    out: Sequence[Tensor],
    combined: Callable[..., Tensor],
    normalize: bool,
    scratch: Tensor,
) -> Tensor:
    """Writes c[t] of every order to `out`, from P[t], c[t-1] and the decay; returns z_n[t]."""
    z = p[0]
    for j, c in enumerate(before):
        if j:
            z = combined(before[j - 1], p[j], out=scratch)
        if normalize:
            torch.lerp(z, c, weight, out=out[j])
        else:
            torch.addcmul(z, c, weight, out=out[j])
    return z


class StepGradients:
    """The gradients of one step of the walks after the other, from the last step to the first.

    Args:
        initial: The states before the first token, :obj:`(n, num_texts, D)`.
        mul: Whether states and projections are multiplied; otherwise they are added.
        normalize: Whether inputs are weighted by one minus the decay.

    Attributes:
        carried: The gradients of c[t] of every order, all texts; :meth:`step` turns those of the
            texts that have a token t into those of c[t-1].
    """

    def __init__(self, initial: Tensor, mul: bool, normalize: bool) -> None:
        self.mul, self.normalize = mul, normalize
        self.carried = [torch.zeros_like(c) for c in initial.unbind(0)]
        self._spare = torch.zeros_like(initial[0])
        self._work = [torch.empty_like(initial[0]) for _ in range(3)]

    def step(
        self,
        p: Sequence[Tensor],
        before: Sequence[Tensor],
        weight: Tensor,
        upstream: Sequence[Tensor | None],
        grad_p: Sequence[Tensor],
        grad_decay: Tensor | None,
        grad_z: Tensor | None = None,
    ) -> None:
        """Goes one step back in time.

        Args:
            p: P[t] of every order.
            before: c[t-1].
            weight: The decay.
            upstream: What reaches c[t] of every order by itself, or None.
            grad_p: Where the gradients of P[t] go.
            grad_decay: Where the decay's gradient goes, or None.
            grad_z: What reaches z_n[t] by itself, or None.
        """
        texts, last = len(p[0]), len(p) - 1
        whole = texts == len(self._spare)
        scratch = self._work if whole else [buffer[:texts] for buffer in self._work]
        shared, passed, product = scratch
        arriving = False  # whether `passed` holds what order j + 1 passes on to order j
        for j in range(last, -1, -1):
            g = self.carried[j] if whole else self.carried[j][:texts]
            reaching = upstream[j]
            if reaching is not None:
                g.add_(reaching)
            if grad_decay is not None:
                reached = self._reached(j, p, before, product)
                if j == last:
                    torch.mul(g, reached, out=grad_decay)
                else:
                    grad_decay.addcmul_(g, reached)
            following = self._spare if whole else self._spare[:texts]
            torch.mul(g, weight, out=following)
            plain = j == 0 or not self.mul
            share = g
            if self.normalize:
                share = torch.sub(g, following, out=grad_p[j] if plain else shared)
            if grad_z is not None and j == last:
                share = torch.add(share, grad_z, out=grad_p[j] if plain else shared)
            if arriving:
                following.add_(passed)
            if plain:
                if share is not grad_p[j]:
                    grad_p[j].copy_(share)
                passed = grad_p[j]
            else:
                torch.mul(share, before[j - 1], out=grad_p[j])
                passed = torch.mul(share, p[j], out=scratch[1])
            arriving = True
            if whole:
                self.carried[j], self._spare = following, self.carried[j]
            else:
                g.copy_(following)

    def _reached(
        self, j: int, p: Sequence[Tensor], before: Sequence[Tensor], out: Tensor
    ) -> Tensor:
        """What a larger decay adds to c_j[t]."""
        if not self.normalize:
            return before[j]
        if j == 0:
            return torch.sub(before[0], p[0], out=out)
        if self.mul:
            return torch.addcmul(before[j], before[j - 1], p[j], value=-1, out=out)
        return torch.sub(before[j], before[j - 1], out=out).sub_(p[j])
