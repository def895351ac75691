"""What the filters of a trained network have become: frequencies, spectra, phases, influence."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from benchmarks.corpora.recordings import PlantedState
from benchmarks.papers.lfp.models import RecordingNet
from pyg_kernels.sequence import SyncNetFilters

NEAR = 10.0  # Hz, what counts as near a planted frequency
SPECTRUM = 1024  # points of a spectrum, at least


@dataclass(frozen=True)
class FilterBank:
    """The filters of what enters the memory."""

    weight: Tensor  # (H, C, n), the oldest sample first
    frequency: Tensor  # (H,), centre frequencies in Hz
    influence: Tensor  # (H,), shares of sum 1, see :meth:`RecordingNet.influence`
    rate: float  # samples a second, in Hz

    @classmethod
    def of(cls, net: RecordingNet, rate: float) -> "FilterBank":
        """The filters of a network as they are now, in double precision."""
        with torch.no_grad():
            filters = net.filters
            weight = torch.cat(filters()).cpu().double()
            bank = cls(weight, torch.zeros(len(weight)), net.influence().cpu().double(), rate)
            if isinstance(filters, SyncNetFilters):
                angle = filters.omega.detach().cpu().double()
                # A frequency beyond half the rate is that of its mirror image in samples.
                folded = (torch.remainder(angle + math.pi, 2 * math.pi) - math.pi).abs()
                frequency = folded * rate / (2 * math.pi)
            else:
                axis, amplitude = bank.spectra()
                frequency = axis[amplitude.argmax(dim=1)]
        return cls(weight, frequency, bank.influence, rate)

    def spectra(self) -> tuple[Tensor, Tensor]:
        """Frequencies in Hz, ``(P,)``, and amplitudes of the filters scaled to norm 1, ``(H, P)``.

        Of a filter's channels, the root of the sum of squares.
        """
        points = max(SPECTRUM, self.weight.size(2))
        norm = self.weight.flatten(1).norm(dim=1).clamp(min=torch.finfo(torch.double).tiny)
        parts = torch.fft.rfft(self.weight / norm[:, None, None], n=points)
        axis = torch.fft.rfftfreq(points, 1 / self.rate, dtype=torch.double)
        return axis, parts.abs().square().sum(dim=1).sqrt()

    def mean_spectrum(self) -> Tensor:
        """The spectra's mean by influence, ``(P,)``."""
        return self.influence @ self.spectra()[1]

    def influential(self) -> Tensor:
        """The positions of the fewest filters with half of the influence, the largest first."""
        order = self.influence.argsort(descending=True, stable=True)
        before = self.influence[order].cumsum(0) - self.influence[order]
        return order[before < 0.5]

    def agreement(self, frequency: float, phases: Tensor) -> Tensor:
        r"""How well each filter's phases fit an oscillation, ``(H,)``, from 0 to 1.

        The amplitude of the output on :math:`\cos(2 \pi f t + \theta_c)`, relative to the largest
        that any phases could give with the same amplitudes on the channels, if these were equal:
        :math:`|\sum_c A_{kc} e^{i \theta_c}| / \sqrt{C \sum_c |A_{kc}|^2}` with
        :math:`A_{kc} = \sum_j W_{kcj} e^{2 \pi i f j / r}`.

        Args:
            frequency (float): f in Hz.
            phases: :math:`\theta`, in radians, (C,).
        """
        angle = 2 * math.pi * frequency / self.rate * torch.arange(self.weight.size(2))
        response = self.weight.to(torch.cdouble) @ torch.exp(1j * angle.double())
        sum_ = (response * torch.exp(1j * phases.double())).sum(dim=1).abs()
        norm = response.abs().square().sum(dim=1).sqrt() * math.sqrt(len(phases))
        return sum_ / norm.clamp(min=torch.finfo(torch.double).tiny)


def found(
    bank: FilterBank, start: FilterBank, states: Sequence[PlantedState]
) -> list[dict[str, Any]]:
    """For each planted state, how near the influential filters are to it, and were at the start."""
    chosen = bank.influential()
    result = []
    for state in states:
        phases = state.lag * torch.arange(bank.weight.size(1))
        entry: dict[str, Any] = {"state": state.name, "hz": state.frequency}
        for when, filters in (("trained", bank), ("start", start)):
            distance = (filters.frequency - state.frequency).abs()
            near = distance <= NEAR
            fits = filters.agreement(state.frequency, phases)[chosen][near[chosen]]
            nearest = chosen[distance[chosen].argmin()]
            entry[when] = {
                "nearest_hz": round(filters.frequency[nearest].item(), 2),
                "share": round(bank.influence[near].sum().item(), 4),
                "agreement": round(fits.max().item(), 4) if len(fits) else None,
            }
        result.append(entry)
    return result
