"""Initial values, sizes, activations and repr of the recurrent convolution."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor

from pyg_kernels.sequence import RCNN, RCNNProductState, RCNNState, RCNNTableState
from tests.sequence.rcnn_variants import MAX, ONE_WAY, build
from tests.sequence.texts import SIZE, close, random_text


def test_repr() -> None:
    text = repr(RCNN(3, 4, order=3, combine="add", decay="input", num_layers=2, pooling="sum"))
    for part in ["order=3", "combine='add'", "decay='input'", "num_layers=2"]:
        assert part in text or part.replace("'", "") in text


def test_initial_values() -> None:
    """Thesis, appendix B.1: rows of unit variance, uniform in ±√(3 / inputs); the bias is 0."""
    torch.manual_seed(0)
    for size in [12, 300]:
        cell = RCNN(size, 200, order=3).cells[0]
        bound = (3 / size) ** 0.5
        for lin in cell.lins:
            assert lin.bias is None and lin.weight.shape == (200, size)
            assert lin.weight.abs().max() <= bound
            assert lin.weight.abs().max() > 0.98 * bound
            variance = lin.weight.square().sum(dim=1)  # of a row's product with white input
            assert abs(variance.mean().item() - 1) < 0.05
        assert (cell.bias == 0).all()
        a, b, _ = (lin.weight for lin in cell.lins)
        assert not torch.equal(a, b)


@pytest.mark.parametrize("order", [1, 2, 3, 4])
@pytest.mark.parametrize("combine", ["mul", "add"])
@pytest.mark.parametrize("decay", ["learned", "input", "recurrent", 0.5])
def test_gradients_of_long_texts_are_finite(order: int, combine: str, decay: float | str) -> None:
    torch.manual_seed(0)
    rcnn = RCNN(16, 16, order=order, combine=combine, decay=decay)
    x = torch.randn(200, 2, 16, requires_grad=True)
    output, _ = rcnn(x)
    assert output.isfinite().all()
    output.square().mean().backward()
    assert x.grad is not None and x.grad.isfinite().all() and x.grad.abs().sum() > 0
    for parameter in rcnn.parameters():
        assert parameter.grad is not None and parameter.grad.isfinite().all()


def test_activations() -> None:
    x = random_text(5, 2, SIZE)

    def cube(t: Tensor) -> Tensor:
        return t**3

    options: dict[str, Any] = {"order": 2, "decay": "input"}
    linear, _ = build(options, act=None)(x)
    close(build(options, act="tanh")(x)[0], linear.tanh())
    close(build(options, act="relu")(x)[0], linear.relu())
    close(build(options, act=cube)(x)[0], linear**3)
    close(build(options, act=torch.nn.Sigmoid())(x)[0], linear.sigmoid())
    close(build(options)(x)[0], linear.tanh())
    with pytest.raises(ValueError, match="act"):
        RCNN(3, 4, act="no such activation")


def test_states() -> None:
    """One type for each kind of pooling."""
    x = random_text(5, 2, SIZE)
    for name, options in ONE_WAY.items():
        expected: type = RCNNState
        if name in MAX:
            expected = RCNNTableState if options.get("combine") == "add" else RCNNProductState
        assert type(build(options)(x)[1]) is expected
