"""What the networks' tests leave to the op itself."""

from __future__ import annotations

import pytest
import torch

from pyg_kernels.ops.activation_scan import Expansion, Form, activation_scan
from pyg_kernels.ops.expansion import GREENS, Green
from pyg_kernels.ops.packing import Packing


@pytest.mark.parametrize("green", GREENS)
def test_autocast_changes_no_precision(green: Green) -> None:
    """On every path the recurrent products are those of the operands' precision."""
    generator = torch.Generator().manual_seed(0)

    def draw(*shape: int) -> torch.Tensor:
        return torch.randn(*shape, generator=generator)

    packing = Packing.of_equal_lengths(5, 4)
    expansion = Expansion(draw(32, 9), 0.1 * draw(32, 9), None, None)
    operands = packing, draw(20, 32), draw(4, 32), draw(32, 32), expansion
    form = Form(green, 0.5 if green == "gaussian" else None)
    expected, _ = activation_scan(form, *operands)
    with torch.autocast("cpu", torch.bfloat16):
        found, _ = activation_scan(form, *operands)
    torch.testing.assert_close(found, expected, rtol=1e-6, atol=1e-6)
