"""The networks that classify recordings: one layer of kernel machines, pooled over time."""

from dataclasses import dataclass
from typing import cast

import torch
from torch import Tensor, nn

from pyg_kernels.sequence import RKM, RKMCell
from pyg_kernels.sequence.filters import Filters

LEAST_POWER = 1e-12


@dataclass(frozen=True)
class RecordingModelConfig:
    """What fixes a network."""

    name: str  # A cell of :class:`~pyg_kernels.sequence.RKM`
    num_channels: int  # channels of a recording
    num_classes: int  # classes
    hidden: int = 30  # filters, which are the channels of the memory
    filters: str = "syncnet"  # 'syncnet' or 'dense'
    ngram: int = 40  # samples that a filter reads
    pooling: str = "power"  # 'power' or 'max', see :class:`RecordingNet`
    layer_norm: bool = True  # whether the output reads the memory normalised over filters


class RecordingNet(nn.Module):
    r"""A kernel machine, one number a filter for the whole trial, and a linear classifier.

    With h the layer's output, ``'power'`` pools to
    :math:`p_k = \log \frac{1}{T} \sum_t h_{kt}^2`, ``'max'`` to
    :math:`p_k = \max_t \mathrm{relu}(h_{kt})`, which is SyncNet's. The outputs of filters on an
    oscillation oscillate themselves, about zero: their mean over time says nothing. Each
    :math:`p_k` is standardised over training trials (batch normalisation without scale and shift),
    so that a filter counts by its weights in the classifier alone, whatever the size of its output.
    """

    def __init__(self, config: RecordingModelConfig) -> None:
        super().__init__()
        self.rkm = RKM(
            config.num_channels,
            config.hidden,
            cell=config.name,
            ngram=config.ngram,
            filters="syncnet" if config.filters == "syncnet" else "dense",
            layer_norm=config.layer_norm,
            batch_first=True,
        )
        self.pooling = config.pooling
        self.norm = nn.BatchNorm1d(config.hidden, affine=False)
        self.head = nn.Linear(config.hidden, config.num_classes)

    def forward(self, x: Tensor) -> Tensor:
        """Samples ``(B, T, C)`` to scores of the classes, ``(B, K)``."""
        output, _ = self.rkm(x)
        return self.head(self.norm(self.pool(output)))

    def pool(self, output: Tensor) -> Tensor:
        """``(B, T, H)`` to ``(B, H)``, in single precision at least."""
        output = output.to(torch.promote_types(output.dtype, torch.float32))
        if self.pooling == "max":
            return output.relu().amax(dim=1)
        return output.square().mean(dim=1).clamp(min=LEAST_POWER).log()

    @property
    def filters(self) -> Filters:
        """The filters of what enters the memory."""
        return cast(Filters, cast(RKMCell, self.rkm.cells[0]).filters["candidate"])

    def influence(self) -> Tensor:
        """How much each filter matters to the classifier, ``(H,)``, of sum 1.

        The norm of its weights, less their mean over classes, which changes no probability.
        """
        weight = self.head.weight.detach()
        norms = (weight - weight.mean(dim=0)).norm(dim=0)
        return norms / norms.sum()
