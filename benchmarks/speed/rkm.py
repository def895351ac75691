"""The recurrent kernel machines beside ``nn.LSTM`` and ``nn.GRU``, on random texts."""

from __future__ import annotations

from torch import nn

from benchmarks.speed.sequence import Contestant, Shape
from pyg_kernels.sequence import RKM

#: Language modelling and documents by type of device: steps, texts, channels.
SHAPES: dict[str, tuple[Shape, ...]] = {
    "cpu": ((35, 20, 640), (256, 32, 300)),
    "cuda": ((35, 256, 640), (256, 128, 512)),
}
#: Cell, whether there is feedback, the products with tokens and those with the output before.
CELLS = (
    ("lstm", True, 4, 4),
    ("rkm-lstm", True, 4, 4),
    ("rkm-cifg", True, 3, 3),
    ("ran", True, 3, 2),
    ("linear-gated", True, 2, 2),
    ("linear", True, 1, 1),
    ("lstm", False, 4, 0),
    ("rkm-lstm", False, 4, 0),
    ("rkm-cifg", False, 3, 0),
    ("ran", False, 3, 0),
    ("gated-cnn", False, 2, 0),
    ("cnn", False, 1, 0),
)
CONVOLUTIONS = ("gated-cnn", "cnn")


def contestants(channels: int) -> list[Contestant]:
    """Every cell, with feedback and without, and the layers that they replace."""
    found = []
    for cell, feedback, on_tokens, on_output in CELLS:
        plain = feedback or cell in CONVOLUTIONS
        layer = RKM(channels, channels, cell=cell, feedback=feedback)
        products = (on_tokens, on_output) if on_output else (on_tokens,)
        found.append(Contestant(cell if plain else f"{cell}, no feedback", layer, products))
    found.append(Contestant("nn.LSTM", nn.LSTM(channels, channels), (4, 4)))
    found.append(Contestant("nn.GRU", nn.GRU(channels, channels), (3, 3)))
    return found
