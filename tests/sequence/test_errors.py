"""Arguments that make no sense raise a ValueError that names the argument."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor
from torch.nn.utils.rnn import pack_sequence
from torch_geometric.data import Batch, Data

from tests.sequence.layers import FAMILIES, RCNN, RKM, families, some_one_way
from tests.sequence.rkm import CELLS
from tests.sequence.texts import SIZE, random_text
from tests.sequence.variants import Family, Options, Variant, named_parts, parts_of, plain

NAN = float("nan")
MAX: Options = {"pooling": "max"}
LEARNED: Options = {"cell": "linear", "learn_static": True}
#: Refused options, by the argument that the error names; OF_STACKS are options of layers alone.
REFUSED: list[tuple[Family, str, list[Options]]] = [
    (RCNN, "order", [{"order": n} for n in (0, -1, 1.5)]),
    (RCNN, "decay", [{"decay": d} for d in ("gated", None, 1.5, -0.1, NAN)]),
    (RCNN, "decay", [{"decay": 1.0}]),  # normalised by default, so each factor would be 0
    (RCNN, "combine", [{"combine": "div"}]),
    (RCNN, "readout", [{"readout": "h"}]),
    (RCNN, "pooling", [{"pooling": "mean"}]),
    (RCNN, "normalize", [{"decay": 1.0, "normalize": True}, {**MAX, "normalize": True}]),
    (RCNN, "normalize", [{"normalize": n} for n in ("weights", "False", 1)]),
    (RCNN, "output_map", [{**MAX, "output_map": True}]),
    (RCNN, "decay", [{**MAX, "combine": "add", "decay": d} for d in ("input", "recurrent")]),
    (RCNN, "highway", [{"input_size": 3, "highway": True}]),
    (RCNN, "activation", [{"act": "no such activation"}]),
    (RKM, "cell", [{"cell": c} for c in ("gru", "RKM-LSTM", None)]),
    (RKM, "filters", [{"filters": f, "ngram": 2} for f in ("wavelet", None, ["dense"])]),
    (RKM, "ngram", [{"ngram": n} for n in (0, 1.5, True, None, "3", [], [1, 0], [2, 1.5])]),
    (RKM, "ngram", [{"ngram": [1, 2, 3, 4, 5]}]),  # five widths for four channels
    (RKM, "ngram", [{"filters": "syncnet", "ngram": n} for n in (1, [1])]),
    (RKM, "dilation", [{"ngram": 2, "dilation": d} for d in (0, -2, 1.5)]),
    (RKM, "dilation", [{"ngram": n, "dilation": 2} for n in (1, [1, 1])]),
    (RKM, "q", [{"cell": "general", "q": q} for q in (None, "no such function", 3)]),
    (RKM, "q", [{"cell": cell, "q": "tanh"} for cell in CELLS if cell != "general"]),
    (RKM, "q", [{"cell": "general", "q": torch.nn.ReLU}]),
    (RKM, "q", [{"cell": "general", "q": torch.nn.Sequential(torch.nn.ReLU(inplace=True))}]),
    (RKM, "feedback", [{"cell": cell, "feedback": True} for cell in ("cnn", "gated-cnn")]),
    (RKM, "static", [{"cell": "ran", "static": s} for s in ((0.5, 0.5), 0.5)]),
    (RKM, "learn_static", [{"cell": c, "learn_static": True} for c in ("lstm", "rkm-cifg")]),
    (RKM, "static", [{"cell": "linear", "static": s} for s in (0.5, (0.5,), ("a", "b"))]),
    (RKM, "static", [{"cell": "linear", "static": (NAN, 0.5)}]),
    (RKM, "static", [{"cell": c, "static": (0.5, 0.5)} for c in ("cnn", "gated-cnn")]),
    (RKM, "static", [{"cell": "cnn", "static": s, "learn_static": True} for s in (0.0, -1.0)]),
    (RKM, "static", [{**LEARNED, "static": s} for s in ((0.0, 0.5), (0.5, 0.0))]),
    (RKM, "static", [{**LEARNED, "static": s} for s in ((0.5, 1.0), (0.5, -0.1))]),
]
REFUSED += [
    (family, name, [{name: size} for size in (0, -3, 2.5, True, None)])
    for family in FAMILIES
    for name in ("hidden_size", "input_size")
]
OF_STACKS: list[tuple[Family, str, list[Options]]] = [
    (family, name, [{name: value} for value in values])
    for family in FAMILIES
    for name, values in {"num_layers": (0, 1.5), "dropout": (-0.1, 1.5)}.items()
]
OF_STACKS += [
    (RCNN, "state_dropout", [{"state_dropout": p} for p in (-0.1, 1.5)]),
    (RCNN, "highway", [{"highway": True, "bidirectional": True, "num_layers": 2}]),
]
TAKEN: list[tuple[Family, list[Options]]] = [
    (RCNN, [{"decay": 0}, {"highway": True, "bidirectional": True}]),
    (RCNN, [{**MAX, "normalize": False}, {"highway": True, "num_layers": 2}]),
    (RKM, [{"ngram": n} for n in (np.int64(2), (1, 2), [1])]),
    (RKM, [{"ngram": 2, "filters": "syncnet"}, {"ngram": [1, 2], "dilation": 9}]),
    (RKM, [{"cell": "cnn", "feedback": False, "static": 2}, {"cell": "linear", "static": [0, 1]}]),
]


@pytest.mark.parametrize(
    ("family", "name", "rows", "of_cells"),
    [(*row, True) for row in REFUSED] + [(*row, False) for row in OF_STACKS],
    ids=lambda v: v if isinstance(v, str) else getattr(v, "name", ""),
)
def test_options(family: Family, name: str, rows: list[Options], of_cells: bool) -> None:
    for options in rows:
        for made in (family.layer, family.cell)[: 1 + of_cells]:
            with pytest.raises(ValueError, match=rf"\b{name}\b"):
                made(**{"input_size": 4, "hidden_size": 4, **options})


def test_their_neighbors_are_taken() -> None:
    for family, rows in TAKEN:
        for options in rows:
            layer = family.layer(4, 4, **options).double().eval()
            assert layer(random_text(5, 2, 4))[0].isfinite().all()


def ones(*shape: int, dtype: torch.dtype = torch.bool) -> Tensor:
    return torch.ones(shape, dtype=dtype)


X = random_text(6, 2, 3)
PACKED, BATCH = pack_sequence(list(X.unbind(1))), Batch.from_data_list([Data(x=X[:, 0])])
WHOLE = torch.tensor([0, 6])
INPUTS: list[tuple[str, Any, list[dict[str, Any]]]] = [
    ("ptr", X[:, 0], [{"ptr": torch.tensor(p)} for p in ([0, 3], [0, 3, 8], [1, 6], [0, 4, 3, 6])]),
    ("ptr", X[:, 0], [{"ptr": torch.tensor(p)} for p in ([], [[0, 6]], [0.0, 6.0], [False])]),
    ("ptr", X, [{"ptr": WHOLE}]),
    ("ptr", PACKED, [{"ptr": torch.tensor([0, 12])}]),
    (r"(?s)mask.*ptr|ptr.*mask", X[:, 0], [{"ptr": WHOLE, "mask": ones(6)}]),
    ("mask", PACKED, [{"mask": ones(6)}]),
    ("mask", BATCH, [{"mask": ones(6)}]),
    ("mask", X[:, 0], [{"mask": ones(5)}]),
    ("mask", X, [{"mask": ones(*s)} for s in [(7, 2), (2, 6), (6,), (6, 2, 1), (6, 1)]]),
    ("mask", X, [{"mask": ones(6, 2, dtype=torch.float64)}]),
    ("mask", X, [{"lengths": [6, 5], "mask": ones(6, 2)}]),
    ("lengths", X, [{"lengths": n} for n in ([6, 7], [6, -1], [6], [[6], [5]], [1.0, 2.0])]),
    ("lengths", X, [{"lengths": torch.tensor([True, True])}]),
    ("lengths", X[:, 0], [{"lengths": [6]}, {"ptr": WHOLE, "lengths": [6]}]),
    (r"x has dtype torch\.int64", torch.zeros(5, 2, 3, dtype=torch.long), [{}]),
]


@families
@pytest.mark.parametrize(("name", "x", "rows"), INPUTS, ids=range(len(INPUTS)))
def test_forms_of_texts(family: Family, name: str, x: Any, rows: list[dict[str, Any]]) -> None:
    layer = family.random(3, 4)
    for given in rows:
        with pytest.raises(ValueError, match=name):
            layer(x, **given)
    with pytest.raises(ValueError, match="mask"):
        family.random(3, 4, batch_first=True)(X.transpose(0, 1), mask=ones(6, 2))


@families
def test_graphs_and_shapes_that_are_no_texts(family: Family) -> None:
    layer, x = family.random(3, 4), random_text(3, 3)
    ring = Data(x=x, edge_index=torch.tensor([[0, 1, 2], [1, 2, 0]]))
    of_five = [random_text(6, 2, 5), random_text(6, 5), pack_sequence([random_text(6, 5)])]
    for match, given in [
        ("path", ring),
        ("ptr", Batch(x=x, batch=torch.tensor([0, 0, 1]))),  # does not say where texts begin
        ("x", Data(num_nodes=3)),
        *[(r"5.*3|3.*5", text) for text in (*of_five, Data(x=random_text(6, 5)))],
        *[("x", random_text(*shape)) for shape in [(3,), (6, 2, 1, 3)]],
    ]:
        with pytest.raises(ValueError, match=match):
            layer(given)
    for bad in [random_text(2, 5, 3), random_text(5, 2), random_text(2), torch.tensor(1.0), None]:
        with pytest.raises(ValueError, match="x"):
            layer.cells[0](bad)


def others(parts: Sequence[Tensor], *changes: Callable[[Tensor], Any]) -> list[Any]:
    """States in which one part is changed or, if there are several parts, replaced by None."""
    changes += (lambda part: None,) * (len(parts) > 1)
    return [
        plain([*parts[:i], change(part), *parts[i + 1 :]])
        for i, part in enumerate(parts)
        for change in changes
    ]


def twice(part: Tensor) -> Tensor:
    return torch.cat([part, part])


@some_one_way
def test_state(variant: Variant) -> None:
    """Parts of other sizes, too few or too many parts, and objects that are no state.

    The error of a layer or a cell says what is expected, and that None begins the texts.
    """
    layer, x = variant.build(), random_text(6, 5, SIZE)
    _, state = layer(x)
    names, cell = list(named_parts(state)), layer.cells[0]
    for call, text, alone, parts, dim in [
        (layer, x, x[:, 0], parts_of(state), 1),
        (cell, x[0], x[0, 0], parts_of(cell(x[0])), 0),
    ]:
        whole = plain(parts)
        call(text, whole)
        said = f"expected ({', '.join(names)}), or None" if len(parts) > 1 else "h is tuple"
        refused = {said: (*parts, parts[0])}
        for k, (name, part) in enumerate(zip(names, parts, strict=True)):
            few = part[:, :4] if call is layer else part[..., :3]
            said = f"{name} has shape {tuple(few.shape)}, expected {tuple(part.shape)}, or None"
            refused[said] = plain([*parts[:k], few, *parts[k + 1 :]])
        for said, wrong in refused.items():
            with pytest.raises(ValueError, match=re.escape(said)):
                call(text, wrong)
        alone_parts = [part.select(dim, 0) for part in parts]
        bad: list[Any] = [
            named_parts(state), 1, parts[0].detach().numpy(), parts[:-1],
            *parts[: len(parts) > 1],
            plain(alone_parts), plain([twice(part) for part in parts]),
            *others(parts, lambda p: p[0], lambda p: p[:0], twice),
        ]  # fmt: skip
        for given, wrong in [*((text, wrong) for wrong in bad), (alone, whole), (alone, 1)]:
            with pytest.raises(ValueError, match=r"state.*None to begin the texts"):
                call(given, wrong)
    whole = plain(parts_of(state))
    with pytest.raises(ValueError, match=r"state.*None to begin the texts"):
        layer(x[:, 0], whole, ptr=torch.tensor([0, 6]))
    layer(x.flatten(0, 1), whole, ptr=torch.arange(0, 31, 6))
