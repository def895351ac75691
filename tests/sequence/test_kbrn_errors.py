"""What makes no sense is a ValueError that names the argument."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from pyg_kernels.sequence import KBRN, KBRNCell
from tests.sequence.kbrn_equations import random_kbrn
from tests.sequence.texts import random_text

NAN = float("nan")
OPTIONS: list[tuple[dict[str, Any], str]] = [
    *[({"num_centers": n}, "num_centers") for n in (0, -1, 1.5, True, None, "3")],
    *[({"green": g}, "green") for g in ("sigmoid", "ReLU", None, torch.nn.ReLU)],
    *[({"init": i}, "init") for i in ("zeros", None, 1)],
    *[
        ({"init_range": r}, "init_range")
        for r in [(2, -2), (1, 1), (NAN, 1), (0, float("inf")), (1,), (1, 2, 3), 3, None, ("a", 1)]
    ],
    ({"init": "identity"}, "affine"),
    ({"init": "tanh"}, "affine"),
    ({"init": "relu", "init_range": (0.5, 2)}, "init"),
    ({"init": "tanh", "green": "abs", "num_centers": 1}, "num_centers|affine"),
    ({"bandwidth": 1.0}, "bandwidth"),
    ({"bandwidth": 1.0, "green": "abs"}, "bandwidth"),
    *[
        ({"bandwidth": b, "green": "gaussian"}, "bandwidth")
        for b in (0.0, -1.0, NAN, float("inf"), "wide")
    ],
]


@pytest.mark.parametrize(("options", "name"), OPTIONS, ids=str)
@pytest.mark.parametrize("made", [KBRN, KBRNCell])
def test_options(made: type, options: dict[str, Any], name: str) -> None:
    with pytest.raises(ValueError, match=rf"\b({name})\b"):
        made(4, 4, **options)


def test_what_is_allowed() -> None:
    """The neighbours of the errors above."""
    for options in [
        {"num_centers": 1},
        {"init_range": [0, 1]},
        {"init": "identity", "affine": True},
        {"init": "tanh", "green": "abs"},
        {"init": "tanh", "green": "gaussian"},
        {"init": "relu", "init_range": (0, 2)},
        {"init": "relu", "init_range": (0.5, 2), "affine": True},
        {"init": "tanh", "green": "abs", "num_centers": 1, "affine": True},
        {"green": "abs", "num_centers": 1},
        {"green": "gaussian", "bandwidth": 2},
        {"green": "gaussian", "num_centers": 1},
    ]:
        for made in (KBRN, KBRNCell):
            made(4, 4, **options).eval()(torch.randn(5, 4))


def test_shapes_of_a_cell() -> None:
    cell = random_kbrn(3, 4).cells[0]
    for bad in [random_text(2, 5, 3), random_text(5, 2), random_text(2), torch.tensor(1.0), None]:
        with pytest.raises(ValueError, match="x"):
            cell(bad)


def test_a_state_is_one_tensor() -> None:
    """Not the pair of an nn.LSTM; of one tensor a cell."""
    kbrn, x = random_kbrn(3, 4, num_layers=2), random_text(6, 5, 3)
    _, h_n = kbrn(x)
    assert isinstance(h_n, torch.Tensor) and h_n.shape == (2, 5, 4)
    for bad in [(h_n, h_n), [*h_n], h_n[:1], h_n[0], h_n.numpy(force=True)]:
        with pytest.raises(ValueError, match=r"\b(h|h_0|state)\b"):
            kbrn(x, bad)
    _, h = kbrn(x[:, 0])
    assert h.shape == (2, 4)
    for bad in [h[:1], h[0], h_n, h[:, :3]]:
        with pytest.raises(ValueError, match=r"\b(h|h_0|state)\b"):
            kbrn(x[:, 0], bad)
    kbrn(x[:, 0], h)
    kbrn(x, h_0=h_n)
    kbrn.cells[0](x[0], h=h_n[0])


def test_a_state_of_another_precision() -> None:
    """Is read as nn.RNN's would be refused, or promoted; never silently wrong."""
    kbrn, x = random_kbrn(3, 4), random_text(6, 5, 3)
    h_0 = random_text(1, 5, 4)
    expected, _ = kbrn(x, h_0.float().double())
    try:
        found, _ = kbrn(x, h_0.float())
    except (RuntimeError, ValueError):
        return
    torch.testing.assert_close(found, expected, rtol=1e-6, atol=1e-6)
