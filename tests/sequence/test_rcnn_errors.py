"""What makes no sense is a ValueError that names the argument."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch.nn.utils.rnn import pack_sequence
from torch_geometric.data import Batch, Data

from pyg_kernels.sequence import RCNN, RCNNCell
from tests.sequence.rcnn_equations import random_rcnn, random_text

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
    ({"mapping": "div"}, "mapping"),
    ({"state": "h"}, "state"),
    ({"pooling": "mean"}, "pooling"),
    ({"pooling": "max", "normalize": True}, "normalize"),
    ({"pooling": "max", "output_map": True}, "output_map"),
    ({"pooling": "max", "mapping": "add", "decay": "input"}, "decay"),
    ({"pooling": "max", "mapping": "add", "decay": "recurrent"}, "decay"),
    ({"input_size": 3, "highway": True}, "highway"),
]
LAYER: list[tuple[dict[str, Any], str]] = [
    ({"state_dropout": 1.5}, "state_dropout"),
    ({"state_dropout": -0.1}, "state_dropout"),
    ({"num_layers": 0}, "num_layers"),
    ({"dropout": -0.1}, "dropout"),
    ({"dropout": 1.5}, "dropout"),
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


@pytest.mark.parametrize("size", [0, -3, 2.5, True, None])
@pytest.mark.parametrize("layer", [RCNN, RCNNCell])
def test_sizes(layer: type, size: Any) -> None:
    with pytest.raises(ValueError, match="hidden_size"):
        layer(4, size)
    with pytest.raises(ValueError, match="input_size"):
        layer(size, 4)


def test_what_is_allowed() -> None:
    """The neighbours of the errors above."""
    RCNN(4, 4, decay=1.0, normalize=False)
    RCNN(4, 4, decay=1.0, pooling="max")
    RCNN(4, 4, decay=0)
    RCNN(4, 4, highway=True, bidirectional=True)
    RCNN(4, 4, highway=True, num_layers=2)
    RCNN(4, 4, pooling="max", normalize=False, output_gate=True, decay="recurrent")
    RCNN(4, 4, pooling="max", mapping="add", decay="learned")


@pytest.mark.parametrize(
    ("ptr", "why"),
    [
        ([0, 3], "ptr"),  # does not end at N
        ([0, 3, 8], "ptr"),
        ([1, 6], "ptr"),
        ([0, 4, 3, 6], "ptr"),
        ([], "ptr"),
        ([[0, 6]], "ptr"),
        ([0.0, 6.0], "ptr"),
        ([False, True], "ptr"),
    ],
)
def test_ptr(ptr: list[Any], why: str) -> None:
    rcnn = random_rcnn(3, 4)
    with pytest.raises(ValueError, match=why):
        rcnn(random_text(6, 3), ptr=torch.tensor(ptr))


def test_ptr_belongs_to_rows_of_tokens() -> None:
    rcnn, x = random_rcnn(3, 4), random_text(6, 2, 3)
    with pytest.raises(ValueError, match="ptr"):
        rcnn(x, ptr=torch.tensor([0, 6]))
    mask = torch.ones(6, dtype=torch.bool)
    with pytest.raises(ValueError, match=r"(?s)mask.*ptr|ptr.*mask"):
        rcnn(x[:, 0], ptr=torch.tensor([0, 6]), mask=mask)
    packed = pack_sequence(list(x.unbind(1)))
    with pytest.raises(ValueError, match="ptr"):
        rcnn(packed, ptr=torch.tensor([0, 12]))
    with pytest.raises(ValueError, match="mask"):
        rcnn(packed, mask=mask)
    batch = Batch.from_data_list([Data(x=x[:, 0])])
    with pytest.raises(ValueError, match="mask"):
        rcnn(batch, mask=mask)


@pytest.mark.parametrize(
    "lengths", [[6, 7], [6, -1], [6], [[6], [5]], [1.0, 2.0], torch.tensor([True, True])], ids=str
)
def test_lengths(lengths: Any) -> None:
    """Longer than the padding, below zero, too few, or no whole numbers."""
    rcnn, x = random_rcnn(3, 4), random_text(6, 2, 3)
    with pytest.raises(ValueError, match="lengths"):
        rcnn(x, lengths=lengths)
    with pytest.raises(ValueError, match="lengths"):
        rcnn(x[:, 0], lengths=[6])
    with pytest.raises(ValueError, match="mask"):
        rcnn(x, lengths=[6, 5], mask=torch.ones(6, 2, dtype=torch.bool))
    with pytest.raises(ValueError, match="lengths"):
        rcnn(x[:, 0], ptr=torch.tensor([0, 6]), lengths=[6])


def test_word_ids_are_no_features() -> None:
    with pytest.raises(ValueError, match=r"x has dtype torch\.int64"):
        random_rcnn(3, 4)(torch.zeros(5, 2, 3, dtype=torch.long))


def test_mask() -> None:
    """Its shape is that of the tokens: a text longer than its padding has no place."""
    rcnn, first = random_rcnn(3, 4), random_rcnn(3, 4, batch_first=True)
    x = random_text(6, 2, 3)
    for shape in [(7, 2), (2, 6), (6,), (6, 2, 1), (6, 1)]:
        with pytest.raises(ValueError, match="mask"):
            rcnn(x, mask=torch.ones(shape, dtype=torch.bool))
    with pytest.raises(ValueError, match="mask"):
        first(x.transpose(0, 1), mask=torch.ones(6, 2, dtype=torch.bool))
    with pytest.raises(ValueError, match="mask"):
        rcnn(x[:, 0], mask=torch.ones(5, dtype=torch.bool))
    with pytest.raises(ValueError, match="mask"):
        rcnn(x, mask=torch.ones(6, 2))


def test_features() -> None:
    rcnn = random_rcnn(3, 4)
    for shape in [(6, 2, 5), (6, 5)]:
        with pytest.raises(ValueError, match=r"5.*3|3.*5"):
            rcnn(random_text(*shape))
    with pytest.raises(ValueError, match=r"5.*3|3.*5"):
        rcnn(random_text(6, 5), ptr=torch.tensor([0, 6]))
    with pytest.raises(ValueError, match=r"5.*3|3.*5"):
        rcnn(pack_sequence([random_text(6, 5)]))
    with pytest.raises(ValueError, match=r"5.*3|3.*5"):
        rcnn(Data(x=random_text(6, 5)))
    for shape in [(3,), (6, 2, 1, 3)]:
        with pytest.raises(ValueError, match="x"):
            rcnn(random_text(*shape))
    with pytest.raises(ValueError, match="x"):
        rcnn(Data(num_nodes=3))


def test_state() -> None:
    rcnn, x = random_rcnn(3, 4, 2), random_text(6, 5, 3)
    h, c = torch.zeros(1, 5, 4, dtype=x.dtype), torch.zeros(1, 5, 2, 4, dtype=x.dtype)
    rcnn(x, (h, c))
    for bad in [
        (h[0], c),
        (h, c[0]),
        (h[:, :4], c),
        (h, c[:, :4]),
        (h, c[:, :, :1]),
        (h[..., :3], c),
        (h, c[..., :3]),
        (h.expand(2, -1, -1), c.expand(2, -1, -1, -1)),
        (h, None),
        {"h": h, "c": c},
        h,
        1,
    ]:
        with pytest.raises(ValueError, match="state"):
            rcnn(x, bad)
    with pytest.raises(ValueError, match="state"):
        rcnn(x[:, 0], (h, c))
    with pytest.raises(ValueError, match="state"):
        rcnn(x, (h[:, 0], c[:, 0]))
    with pytest.raises(ValueError, match="state"):
        rcnn(x[:, 0], (h, c), ptr=torch.tensor([0, 6]))
    rcnn(x.flatten(0, 1), (h, c), ptr=torch.arange(0, 31, 6))


def test_no_state_in_two_directions() -> None:
    rcnn, x = random_rcnn(3, 4, bidirectional=True), random_text(6, 5, 3)
    _, state = rcnn(x)
    with pytest.raises(ValueError, match=r"(?s)state.*bidirectional|bidirectional.*state"):
        rcnn(x, state)


def test_cell() -> None:
    cell = random_rcnn(3, 4, 2).cells[0]
    x, h, c = random_text(5, 3), random_text(5, 4), random_text(5, 2, 4)
    cell(x, (h, c))
    with pytest.raises(ValueError, match=r"2.*3|3.*2"):
        cell(x[:, :2])
    for bad in [(h[:4], c), (h, c[:, :1]), (h[0], c[0]), (h, None), h, 1]:
        with pytest.raises(ValueError, match="state"):
            cell(x, bad)
    for bad in [(h, c), (h[0], None), h[0], 1]:
        with pytest.raises(ValueError, match="state"):
            cell(x[0], bad)
