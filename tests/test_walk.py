"""The recurrence by itself, on numbers small enough to check by hand."""

from __future__ import annotations

import torch

from pyg_kernels.walk import walk


def test_products_and_sums() -> None:
    projections = [torch.tensor([2.0]), torch.tensor([3.0]), torch.tensor([5.0])]
    seen: list[int] = []

    def halve(z: torch.Tensor, step: int) -> torch.Tensor:
        seen.append(step)
        return z / 2

    assert [s.item() for s in walk(projections, halve)] == [2.0, 3.0, 7.5]
    assert [s.item() for s in walk(projections, halve, "add")] == [2.0, 4.0, 7.0]
    assert seen == [2, 3, 2, 3]


def test_activation_before_propagation() -> None:
    states = walk([torch.tensor([-2.0]), torch.tensor([3.0])], lambda z, j: z, "add", torch.relu)
    assert states[-1].item() == 3.0


def test_order_1_never_propagates() -> None:
    def fail(z: torch.Tensor, step: int) -> torch.Tensor:
        raise AssertionError

    assert walk([torch.ones(2)], fail)[0].tolist() == [1.0, 1.0]
