"""The networks that classify recordings, and what their filters have learned: frequencies,
spectra, phases, influence.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, cast

import torch
from torch import Tensor, nn

from benchmarks.corpora.recordings import PlantedState
from pyg_kernels.sequence import RKM, RKMCell, SyncNetFilters
from pyg_kernels.sequence.filters import Filters

LEAST_POWER = 1e-12
NEAR = 10.0  # Hz, the largest distance that counts as near a planted frequency
SPECTRUM = 1024  # points of a spectrum, at least


@dataclass(frozen=True)
class RecordingModelConfig:
    """The options that define a network."""

    name: str  # A cell of :class:`~pyg_kernels.sequence.RKM`
    num_channels: int  # channels of a recording
    num_classes: int  # classes
    hidden: int = 30  # filters, which are the channels of the memory
    filters: str = "syncnet"  # 'syncnet' or 'dense'
    ngram: int = 40  # samples that a filter reads
    pooling: str = "power"  # 'power' or 'max', see :class:`RecordingNet`
    layer_norm: bool = True  # normalise the memory over filters before the output reads it


class RecordingNet(nn.Module):
    r"""A kernel machine, pooling to one number for each filter, and a linear classifier.

    With h the layer's output, ``'power'`` pools to
    :math:`p_k = \log \frac{1}{T} \sum_t h_{kt}^2`, and ``'max'`` pools to
    :math:`p_k = \max_t \mathrm{relu}(h_{kt})`, as SyncNet does. On an oscillation, the outputs of
    filters oscillate about zero as well, so that their mean over time says nothing. Each
    :math:`p_k` is standardised over training trials (batch normalisation without scale and shift).
    A filter then counts by its weights in the classifier alone, whatever the size of its output.
    """

    def __init__(self, config: RecordingModelConfig) -> None:
        super().__init__()
        options: dict[str, Any] = {"filters": config.filters, "layer_norm": config.layer_norm}
        options |= {"cell": config.name, "ngram": config.ngram, "batch_first": True}
        self.rkm = RKM(config.num_channels, config.hidden, **options)
        self.pooling = config.pooling
        self.norm = nn.BatchNorm1d(config.hidden, affine=False)
        self.head = nn.Linear(config.hidden, config.num_classes)

    def forward(self, x: Tensor) -> Tensor:
        """Maps samples ``(B, T, C)`` to the scores of the classes, ``(B, K)``."""
        output, _ = self.rkm(x)
        return self.head(self.norm(self.pool(output)))

    def pool(self, output: Tensor) -> Tensor:
        """Pools ``(B, T, H)`` over time to ``(B, H)``, in single precision at least."""
        output = output.to(torch.promote_types(output.dtype, torch.float32))
        if self.pooling == "max":
            return output.relu().amax(dim=1)
        return output.square().mean(dim=1).clamp(min=LEAST_POWER).log()

    @property
    def filters(self) -> Filters:
        """The filters whose outputs enter the memory."""
        return cast(Filters, cast(RKMCell, self.rkm.cells[0]).filters["candidate"])

    def influence(self) -> Tensor:
        """How much each filter matters to the classifier, ``(H,)``, with sum 1.

        The norm of its weights less their mean over classes, which affects no probability.
        """
        weight = self.head.weight.detach()
        norms = (weight - weight.mean(dim=0)).norm(dim=0)
        return norms / norms.sum()


@dataclass(frozen=True)
class FilterBank:
    """The filters whose outputs enter the memory."""

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
                # In samples, a frequency beyond half the rate looks like its mirror image below.
                folded = (torch.remainder(angle + math.pi, 2 * math.pi) - math.pi).abs()
                frequency = folded * rate / (2 * math.pi)
            else:
                axis, amplitude = bank.spectra()
                frequency = axis[amplitude.argmax(dim=1)]
        return cls(weight, frequency, bank.influence, rate)

    def spectra(self) -> tuple[Tensor, Tensor]:
        """Frequencies in Hz, ``(P,)``, and amplitudes of the filters scaled to norm 1, ``(H, P)``.

        A filter's amplitude is the root of the sum of squares over its channels.
        """
        points = max(SPECTRUM, self.weight.size(2))
        norm = self.weight.flatten(1).norm(dim=1).clamp(min=torch.finfo(torch.double).tiny)
        parts = torch.fft.rfft(self.weight / norm[:, None, None], n=points)
        axis = torch.fft.rfftfreq(points, 1 / self.rate, dtype=torch.double)
        return axis, parts.abs().square().sum(dim=1).sqrt()

    def mean_spectrum(self) -> Tensor:
        """The mean of the spectra, weighted by influence, ``(P,)``."""
        return self.influence @ self.spectra()[1]

    def influential(self) -> Tensor:
        """Positions of the fewest filters with half of the influence, in descending influence."""
        order = self.influence.argsort(descending=True, stable=True)
        before = self.influence[order].cumsum(0) - self.influence[order]
        return order[before < 0.5]

    def agreement(self, frequency: float, phases: Tensor) -> Tensor:
        r"""How well each filter's phases fit an oscillation, ``(H,)``, from 0 to 1.

        The amplitude of the output on :math:`\cos(2 \pi f t + \theta_c)`, relative to the largest
        that any phases could give with the same power, spread equally over the channels:
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
    """For each planted state, how near the influential filters are to it, now and at the start."""
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
