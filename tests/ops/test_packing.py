"""The packing agrees with PyTorch's PackedSequence, and its rows with their meaning."""

from __future__ import annotations

import pytest
import torch
from torch.nn.utils.rnn import pack_sequence

from pyg_kernels.ops.packing import Packing

LENGTHS = [[4, 4, 2, 1], [3], [2, 2], [5, 1, 1]]


@pytest.mark.parametrize("lengths", LENGTHS, ids=str)
def test_order_is_that_of_packed_sequences(lengths: list[int]) -> None:
    texts = [100 * b + torch.arange(length) for b, length in enumerate(lengths)]
    packed = pack_sequence(texts)
    packing = Packing.of_lengths(lengths)
    assert packing.batch_sizes == tuple(packed.batch_sizes.tolist())
    assert packing.num_tokens == sum(lengths) and packing.num_steps == lengths[0]
    assert packing.lengths == tuple(lengths)
    assert packing.uniform == (len(set(lengths)) == 1)
    rows = packing.rows(torch.device("cpu"))
    by_text = torch.cat(texts)
    assert torch.equal(packed.data[rows.by_text], by_text)
    assert torch.equal(by_text[rows.place], packed.data)
    assert torch.equal(packed.data[rows.last], torch.stack([text[-1] for text in texts]))
    later = packed.data[packing.batch_sizes[0] :]
    assert torch.equal(packed.data[rows.before], later - 1)
    backwards = pack_sequence([text.flip(0) for text in texts]).data
    assert torch.equal(packed.data[rows.reversed], backwards)
    steps = packing.split(packed.data)
    assert [len(step) for step in steps] == list(packing.batch_sizes)


def test_empty_texts_come_last() -> None:
    packing = Packing.of_lengths([2, 1, 0, 0])
    assert packing.batch_sizes == (2, 1) and packing.num_texts == 4
    assert packing.lengths == (2, 1, 0, 0) and not packing.uniform
    rows = packing.rows(torch.device("cpu"))
    assert rows.ptr.tolist() == [0, 2, 3, 3, 3]
    assert rows.last.tolist() == [2, 1]


@pytest.mark.parametrize("lengths", [[], [0], [0, 0]], ids=str)
def test_nothing(lengths: list[int]) -> None:
    packing = Packing.of_lengths(lengths)
    assert packing.num_tokens == 0 and packing.batch_sizes == ()
    assert packing.lengths == tuple(lengths)
    rows = packing.rows(torch.device("cpu"))
    assert rows.by_text.numel() == 0 and rows.before.numel() == 0


def test_grids() -> None:
    packing = Packing.of_equal_lengths(3, 2)
    assert packing.batch_sizes == (2, 2, 2) and packing.uniform
    assert Packing.of_equal_lengths(3, 0).batch_sizes == ()
    assert Packing.of_equal_lengths(0, 2).num_texts == 2
