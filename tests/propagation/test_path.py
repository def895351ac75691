"""The operator on path graphs: the walk that it carries is the scan's definition."""

from __future__ import annotations

import pytest
import torch

from pyg_kernels.ops.linear_scan import reference
from pyg_kernels.ops.packing import Packing
from pyg_kernels.propagation import PathPropagation
from pyg_kernels.sequence.path_walk import state_at, states_up_to
from pyg_kernels.walk import Combine, walk

CHANNELS = 3


@pytest.mark.parametrize("normalize", [False, True])
@pytest.mark.parametrize("combine", ["mul", "add"])
@pytest.mark.parametrize("order", [1, 2, 4])
@pytest.mark.parametrize("lengths", [(6, 6), (70, 4, 1, 0), (50, 50), (1, 1), (0, 0)], ids=str)
def test_the_walk_of_the_definition(
    lengths: tuple[int, ...], order: int, combine: Combine, normalize: bool
) -> None:
    """By steps, by chunks, and as the operator that `walk` applies, one order after the other."""
    torch.manual_seed(0)
    packing = Packing.of_lengths(lengths)
    size = (packing.num_tokens, CHANNELS)
    p = [torch.randn(size, dtype=torch.float64) for _ in range(order)]
    decay = torch.rand(size, dtype=torch.float64)
    initial = torch.randn(order, len(lengths), CHANNELS, dtype=torch.float64)
    path = PathPropagation(decay, packing, initial, normalize)
    expected = reference.walk_scan(p, decay, packing, initial, combine, normalize)
    states = states_up_to(path, p, combine)
    z = walk(p, path, combine)
    for j, c in enumerate(expected):
        torch.testing.assert_close(states[j], c, rtol=1e-10, atol=1e-12)
        torch.testing.assert_close(path.aggregate(z[j], j + 1), c, rtol=1e-10, atol=1e-12)
    torch.testing.assert_close(state_at(path, p, states, combine), z[-1], rtol=1e-10, atol=1e-12)
    steps = [packing.split(c) for c in expected]
    for text, length in enumerate(lengths):
        last = torch.stack([c[length - 1][text] for c in steps]) if length else initial[:, text]
        torch.testing.assert_close(path.last(states)[:, text], last, rtol=1e-10, atol=1e-12)
