"""Texts in every form of layout: of one length, padded, one after the other; none at all."""

from __future__ import annotations

from typing import Any

import pytest
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
LAYOUTS: dict[str, Layout] = {
    **_FORWARD,
    **{f"{name}, backwards": layout.reversed() for name, layout in _FORWARD.items()},
    "no tokens": Layout.of_ptr(torch.tensor([0, 0, 0]), 0, 0),
    "no steps": Layout.of_grid(0, 2, _CPU),
}


def in_turn(cases: dict[str, Any]) -> pytest.MarkDecorator:
    """Each case with a fourth of the layouts, each layout with a fourth of the cases."""
    rows = {
        f"{name}-{form}": (case, layout)
        for number, (name, case) in enumerate(cases.items())
        for form, layout in list(LAYOUTS.items())[number % 4 :: 4]
    }
    return pytest.mark.parametrize(("case", "layout"), rows.values(), ids=rows)
