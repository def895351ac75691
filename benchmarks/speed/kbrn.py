"""Kernel-based recurrent networks beside ``nn.RNN`` and ``nn.LSTM``, on random texts."""

from __future__ import annotations

from torch import nn

from benchmarks.speed.sequence import Contestant, Shape
from pyg_kernels.sequence import KBRN

#: By type of device; the first as in the paper, for long-term dependencies: steps, texts, channels.
SHAPES: dict[str, tuple[Shape, ...]] = {
    "cpu": ((50, 500, 20), (35, 20, 640), (256, 32, 300)),
    "cuda": ((50, 500, 20), (35, 256, 640)),
}
CENTERS = (10, 100, 1000)


def contestants(channels: int) -> list[Contestant]:
    """Networks of few and many centres, and the layers that they replace."""
    found = [
        Contestant(f"KBRN, {count} centres", KBRN(channels, channels, num_centers=count), (1, 1))
        for count in CENTERS
    ]
    plain = KBRN(channels, channels, normalize=False)
    found.append(Contestant("KBRN, 100 centres, not normalised", plain, (1, 1)))
    found.append(Contestant("nn.RNN", nn.RNN(channels, channels), (1, 1)))
    found.append(Contestant("nn.LSTM", nn.LSTM(channels, channels), (4, 4)))
    return found
