"""What makes no sense is a ValueError that names the argument."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from pyg_kernels.sequence import RCNN, RCNNCell
from tests.sequence.rcnn_equations import random_rcnn
from tests.sequence.texts import random_text

OPTIONS: list[tuple[dict[str, Any], str]] = [
    ({"order": 0}, "order"),
    ({"order": -1}, "order"),
    ({"order": 1.5}, "order"),
    ({"decay": "gated"}, "decay"),
    ({"decay": None}, "decay"),
    ({"decay": 1.5}, "decay"),
    ({"decay": -0.1}, "decay"),
    ({"decay": float("nan")}, "decay"),
    ({"decay": 1.0}, "decay"),  # normalised, as by default: every factor 1 - decay would be 0
    ({"decay": 1.0, "normalize": True}, "normalize"),
    ({"combine": "div"}, "combine"),
    ({"readout": "h"}, "readout"),
    ({"pooling": "mean"}, "pooling"),
    ({"pooling": "max", "normalize": True}, "normalize"),
    ({"pooling": "max", "output_map": True}, "output_map"),
    ({"pooling": "max", "combine": "add", "decay": "input"}, "decay"),
    ({"pooling": "max", "combine": "add", "decay": "recurrent"}, "decay"),
    ({"input_size": 3, "highway": True}, "highway"),
]
LAYER: list[tuple[dict[str, Any], str]] = [
    ({"state_dropout": 1.5}, "state_dropout"),
    ({"state_dropout": -0.1}, "state_dropout"),
    ({"highway": True, "bidirectional": True, "num_layers": 2}, "highway"),
]


@pytest.mark.parametrize(("options", "name"), OPTIONS)
@pytest.mark.parametrize("layer", [RCNN, RCNNCell])
def test_options(layer: type, options: dict[str, Any], name: str) -> None:
    with pytest.raises(ValueError, match=name):
        layer(**{"input_size": 4, "hidden_size": 4, **options})


@pytest.mark.parametrize(("options", "name"), LAYER)
def test_options_of_stacks(options: dict[str, Any], name: str) -> None:
    with pytest.raises(ValueError, match=name):
        RCNN(4, 4, **options)


def test_what_is_allowed() -> None:
    """The neighbours of the errors above."""
    RCNN(4, 4, decay=1.0, normalize=False)
    RCNN(4, 4, decay=1.0, pooling="max")
    RCNN(4, 4, decay=0)
    RCNN(4, 4, highway=True, bidirectional=True)
    RCNN(4, 4, highway=True, num_layers=2)
    RCNN(4, 4, pooling="max", normalize=False, output_gate=True, decay="recurrent")
    RCNN(4, 4, pooling="max", combine="add", decay="learned")


def test_state_of_another_order() -> None:
    rcnn, x = random_rcnn(3, 4, order=2), random_text(6, 5, 3)
    h, c = torch.zeros(1, 5, 4, dtype=x.dtype), torch.zeros(1, 5, 2, 4, dtype=x.dtype)
    rcnn(x, (h, c))
    with pytest.raises(ValueError, match="state"):
        rcnn(x, (h, c[:, :, :1]))
    with pytest.raises(ValueError, match="state"):
        rcnn.cells[0](x[0], (h[0], c[0, :, :1]))
