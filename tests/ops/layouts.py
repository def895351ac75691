"""Texts in every form of layout: of one length, padded, one after the other; none at all."""

from __future__ import annotations

import torch

from pyg_kernels.ops.ragged import Layout

_CPU = torch.device("cpu")
_FORWARD = {
    "grid": Layout.of_grid(4, 3, _CPU),
    "texts first": Layout.of_grid(4, 3, _CPU, steps_first=False),
    "one step": Layout.of_grid(1, 2, _CPU),
    "padded": Layout.of_padded_grid(torch.tensor([2, 0, 5]), 5),
    "padded, texts first": Layout.of_padded_grid(torch.tensor([2, 0, 5]), 5, steps_first=False),
    "ragged": Layout.of_ptr(torch.tensor([0, 3, 3, 4, 11]), 7, 11),
}
LAYOUTS = {
    **_FORWARD,
    **{f"{name}, backwards": layout.reversed() for name, layout in _FORWARD.items()},
    "no tokens": Layout.of_ptr(torch.tensor([0, 0, 0]), 0, 0),
    "no steps": Layout.of_grid(0, 2, _CPU),
}
