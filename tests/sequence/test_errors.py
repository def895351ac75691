"""What makes no sense is a ValueError that names the argument."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch.nn.utils.rnn import pack_sequence
from torch_geometric.data import Batch, Data

from tests.sequence.layers import families, one_way
from tests.sequence.texts import SIZE, random_text
from tests.sequence.variants import Family, Variant, like, named_parts, parts_of, plain

OF_STACKS: list[tuple[dict[str, Any], str]] = [
    ({"num_layers": 0}, "num_layers"),
    ({"num_layers": 1.5}, "num_layers"),
    ({"dropout": -0.1}, "dropout"),
    ({"dropout": 1.5}, "dropout"),
]


@families
@pytest.mark.parametrize(("options", "name"), OF_STACKS, ids=str)
def test_options_of_stacks(family: Family, options: dict[str, Any], name: str) -> None:
    with pytest.raises(ValueError, match=name):
        family.layer(4, 4, **options)


@families
@pytest.mark.parametrize("size", [0, -3, 2.5, True, None])
def test_sizes(family: Family, size: Any) -> None:
    for made in (family.layer, family.cell):
        with pytest.raises(ValueError, match="hidden_size"):
            made(4, size)
        with pytest.raises(ValueError, match="input_size"):
            made(size, 4)


@families
@pytest.mark.parametrize(
    "ptr",
    [
        [0, 3],  # does not end at N
        [0, 3, 8],
        [1, 6],
        [0, 4, 3, 6],
        [],
        [[0, 6]],
        [0.0, 6.0],
        [False, True],
    ],
    ids=str,
)
def test_ptr(family: Family, ptr: list[Any]) -> None:
    with pytest.raises(ValueError, match="ptr"):
        family.random(3, 4)(random_text(6, 3), ptr=torch.tensor(ptr))


@families
def test_ptr_belongs_to_rows_of_tokens(family: Family) -> None:
    layer, x = family.random(3, 4), random_text(6, 2, 3)
    with pytest.raises(ValueError, match="ptr"):
        layer(x, ptr=torch.tensor([0, 6]))
    mask = torch.ones(6, dtype=torch.bool)
    with pytest.raises(ValueError, match=r"(?s)mask.*ptr|ptr.*mask"):
        layer(x[:, 0], ptr=torch.tensor([0, 6]), mask=mask)
    packed = pack_sequence(list(x.unbind(1)))
    with pytest.raises(ValueError, match="ptr"):
        layer(packed, ptr=torch.tensor([0, 12]))
    with pytest.raises(ValueError, match="mask"):
        layer(packed, mask=mask)
    batch = Batch.from_data_list([Data(x=x[:, 0])])
    with pytest.raises(ValueError, match="mask"):
        layer(batch, mask=mask)


@families
def test_graphs_that_are_no_texts(family: Family) -> None:
    layer, x = family.random(3, 4), random_text(3, 3)
    ring = Data(x=x, edge_index=torch.tensor([[0, 1, 2], [1, 2, 0]]))
    with pytest.raises(ValueError, match="path"):
        layer(ring)
    with pytest.raises(ValueError, match="ptr"):  # which does not say where texts begin
        layer(Batch(x=x, batch=torch.tensor([0, 0, 1])))
    with pytest.raises(ValueError, match="x"):
        layer(Data(num_nodes=3))


@families
@pytest.mark.parametrize(
    "lengths", [[6, 7], [6, -1], [6], [[6], [5]], [1.0, 2.0], torch.tensor([True, True])], ids=str
)
def test_lengths(family: Family, lengths: Any) -> None:
    """Longer than the padding, below zero, too few, or no whole numbers."""
    layer, x = family.random(3, 4), random_text(6, 2, 3)
    with pytest.raises(ValueError, match="lengths"):
        layer(x, lengths=lengths)
    with pytest.raises(ValueError, match="lengths"):
        layer(x[:, 0], lengths=[6])
    with pytest.raises(ValueError, match="mask"):
        layer(x, lengths=[6, 5], mask=torch.ones(6, 2, dtype=torch.bool))
    with pytest.raises(ValueError, match="lengths"):
        layer(x[:, 0], ptr=torch.tensor([0, 6]), lengths=[6])


@families
def test_word_ids_are_no_features(family: Family) -> None:
    with pytest.raises(ValueError, match=r"x has dtype torch\.int64"):
        family.random(3, 4)(torch.zeros(5, 2, 3, dtype=torch.long))


@families
def test_mask(family: Family) -> None:
    """Its shape is that of the tokens: a text longer than its padding has no place."""
    layer, first = family.random(3, 4), family.random(3, 4, batch_first=True)
    x = random_text(6, 2, 3)
    for shape in [(7, 2), (2, 6), (6,), (6, 2, 1), (6, 1)]:
        with pytest.raises(ValueError, match="mask"):
            layer(x, mask=torch.ones(shape, dtype=torch.bool))
    with pytest.raises(ValueError, match="mask"):
        first(x.transpose(0, 1), mask=torch.ones(6, 2, dtype=torch.bool))
    with pytest.raises(ValueError, match="mask"):
        layer(x[:, 0], mask=torch.ones(5, dtype=torch.bool))
    with pytest.raises(ValueError, match="mask"):
        layer(x, mask=torch.ones(6, 2))


@one_way
def test_features(variant: Variant) -> None:
    layer, both = variant.build(), r"5.*4|4.*5"
    for shape in [(6, 2, 5), (6, 5)]:
        with pytest.raises(ValueError, match=both):
            layer(random_text(*shape))
    with pytest.raises(ValueError, match=both):
        layer(random_text(6, 5), ptr=torch.tensor([0, 6]))
    with pytest.raises(ValueError, match=both):
        layer(pack_sequence([random_text(6, 5)]))
    with pytest.raises(ValueError, match=both):
        layer(Data(x=random_text(6, 5)))
    for shape in [(4,), (6, 2, 1, 4)]:
        with pytest.raises(ValueError, match="x"):
            layer(random_text(*shape))


@one_way
def test_state(variant: Variant) -> None:
    """Parts of other sizes, too few or too many of them, and what is none."""
    layer, x = variant.build(), random_text(6, 5, SIZE)
    _, state = layer(x)
    parts, named, whole = parts_of(state), variant.family.state_argument, plain(state)
    layer(x, whole)
    bad: list[Any] = [
        named_parts(state), 1, parts[:-1], (*parts, parts[0]),
        plain(like(state, [part[:, 0] for part in parts])),
        plain(like(state, [torch.cat([part, part]) for part in parts])),
    ]  # fmt: skip
    bad += [parts[0]] if len(parts) > 1 else []
    for i, part in enumerate(parts):
        others = [part[0], part[:, :4], part[..., :3], torch.cat([part, part])]
        others += [None] if len(parts) > 1 else []
        bad += [plain(like(state, (*parts[:i], other, *parts[i + 1 :]))) for other in others]
    for wrong in bad:
        with pytest.raises(ValueError, match=named):
            layer(x, wrong)
    with pytest.raises(ValueError, match=named):
        layer(x[:, 0], whole)
    with pytest.raises(ValueError, match=named):
        layer(x[:, 0], whole, ptr=torch.tensor([0, 6]))
    layer(x.flatten(0, 1), whole, ptr=torch.arange(0, 31, 6))


@one_way
def test_cell(variant: Variant) -> None:
    cell, x = variant.build().cells[0], random_text(5, SIZE)
    state, named = cell(x), variant.family.state_argument
    parts, whole = parts_of(state), plain(state)
    cell(x, whole)
    with pytest.raises(ValueError, match=r"2.*4|4.*2"):
        cell(x[:, :2])
    bad: list[Any] = [1, plain(like(state, [part[0] for part in parts])), (*parts, parts[0])]
    unbatched: list[Any] = [whole, 1]
    if len(parts) > 1:
        bad.append(parts[0])
        unbatched += [(parts[0][0], *[None] * (len(parts) - 1)), parts[0][0]]
    for i, part in enumerate(parts):
        others = [part[:0], torch.cat([part, part]), part[..., :1]]
        others += [None] if len(parts) > 1 else []
        bad += [plain(like(state, (*parts[:i], other, *parts[i + 1 :]))) for other in others]
    for wrong in bad:
        with pytest.raises(ValueError, match=named):
            cell(x, wrong)
    for wrong in unbatched:
        with pytest.raises(ValueError, match=named):
            cell(x[0], wrong)
