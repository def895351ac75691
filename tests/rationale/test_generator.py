"""Distributions over selections: they sum to one, and equal their definition token by token."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor
from torch.nn import Module

from pyg_kernels.rationale import Generator, WLStates
from tests.graphs import random_graph
from tests.rationale.cases import (
    SELECTIONS,
    every_selection,
    generator,
    probabilities,
    randomized,
)
from tests.sequence.texts import F64, SIZE, close, joined, pointers, texts

of_both = pytest.mark.parametrize("selection", SELECTIONS)


class Table(Module):
    """Each token's state is what it is."""

    def forward(self, x: Tensor, ptr: Tensor) -> Tensor:
        return x


@of_both
@pytest.mark.parametrize("length", [1, 2, 5])
def test_log_prob_of_every_selection(selection: str, length: int) -> None:
    gen, (x,) = generator(selection), texts(length)
    every = every_selection(length)
    found = gen.log_prob(every, x, ptr=torch.tensor([0, length]))
    assert found.shape == (2**length, length)
    close(found.sum(dim=1).exp(), probabilities(gen, x))
    close(found.sum(dim=1).exp().sum(), torch.tensor(1.0, dtype=F64))


def number(z: Tensor) -> int:
    """The place of a selection among all."""
    return sum(int(chosen) << place for place, chosen in enumerate(reversed(z.tolist())))


@of_both
def test_texts_of_a_batch_are_apart(selection: str) -> None:
    gen, pieces = generator(selection), texts(3, 0, 1, 6, 3)
    ptr = pointers(pieces)
    z = torch.rand(7, 13, generator=torch.Generator().manual_seed(0)) < 0.5
    found = gen.log_prob(z, joined(pieces), ptr=ptr)
    for text, start, end in zip(pieces, ptr, ptr[1:], strict=False):
        expected = probabilities(gen, text)[[number(row) for row in z[:, start:end]]]
        close(found[:, start:end].sum(dim=1).exp(), expected)


@of_both
def test_gradients_of_log_prob(selection: str) -> None:
    gen, (x,) = generator(selection), texts(4)
    parameters = list(gen.parameters())
    total = gen.log_prob(every_selection(4)[11:12], x, ptr=torch.tensor([0, 4])).sum()
    found = torch.autograd.grad(total, parameters)
    expected = torch.autograd.grad(probabilities(gen, x)[11].log(), parameters)
    for a, b in zip(found, expected, strict=True):
        close(a, b)


@of_both
def test_samples(selection: str) -> None:
    """How often each selection is drawn, to 5 standard errors, in a batch of two texts."""
    gen, pieces = generator(selection), texts(3, 2)
    torch.manual_seed(0)
    count = 20_000
    z = gen.sample(joined(pieces), ptr=pointers(pieces), num_samples=count)
    assert z.dtype == torch.bool
    assert z.shape == (count, 5)
    for text, part in zip(pieces, z.split([3, 2], dim=1), strict=True):
        every = every_selection(len(text))
        for given, p in zip(every, probabilities(gen, text).tolist(), strict=True):
            share = float((part == given).all(dim=1).double().mean())
            assert abs(share - p) <= 5 * (p * (1 - p) / count) ** 0.5


def test_most_probable_of_independent_selections() -> None:
    gen = randomized(Generator(Table(), 1))
    gen.logit.of_token.weight.data.fill_(1.0)
    gen.logit.of_token.bias.data.fill_(0.0)
    x = torch.tensor([[-1.0], [0.0], [2.0]], dtype=F64)
    assert gen.most_probable(x, ptr=torch.tensor([0, 3])).tolist() == [False, True, True]


def test_most_probable_of_dependent_selections() -> None:
    """Greedy: each token as is most probable given those chosen before."""
    gen, pieces = generator("dependent"), texts(7, 0, 4, 1)
    found = gen.most_probable(joined(pieces), ptr=pointers(pieces))
    states, _ = gen.network(joined(pieces), ptr=pointers(pieces))
    for start, end in ((0, 7), (7, 11), (11, 12)):
        assert found[start:end].tolist() == _greedy(gen, states[start:end])


def _greedy(gen: Any, states: Tensor) -> list[bool]:
    chosen: list[bool] = []
    state = gen.cell.start(1, states)
    for row in states:
        logit = gen.logit.of_token(row) + gen.logit.of_selected(state[0][0])
        chosen.append(bool(logit >= 0))
        step = torch.cat((row, torch.tensor([float(chosen[-1])], dtype=F64)))
        state = gen.cell(step.unsqueeze(0), state)
    return chosen


def test_atoms() -> None:
    graph = random_graph(0, 5, 7, 4, 2)
    network = WLStates(4, 6, num_iterations=2, edge_dim=2)
    gen = randomized(Generator(network, 6))
    every = every_selection(5)
    found = gen.log_prob(every, graph.x, edge_index=graph.edge_index, edge_attr=graph.edge_attr)
    close(found.sum(dim=1).exp().sum(), torch.tensor(1.0, dtype=F64))
    states = network(graph.x, graph.edge_index, graph.edge_attr)
    p = torch.sigmoid(gen.logit.of_token(states).squeeze(1))
    close(found.exp(), torch.where(every, p, 1 - p))


@of_both
def test_no_tokens(selection: str) -> None:
    gen = generator(selection)
    empty = torch.zeros(0, SIZE, dtype=F64)
    for ptr in (torch.tensor([0]), torch.tensor([0, 0, 0])):
        assert gen.sample(empty, ptr=ptr, num_samples=3).shape == (3, 0)
        assert gen.most_probable(empty, ptr=ptr).shape == (0,)
        assert gen.log_prob(torch.zeros(2, 0), empty, ptr=ptr).shape == (2, 0)


@of_both
@pytest.mark.parametrize("rate", [0.1, 0.5, 0.9])
def test_initial_rate(selection: Any, rate: float) -> None:
    """The probability of a token whose state is zero, before any is selected."""
    torch.manual_seed(0)
    gen = Generator(Table(), SIZE, selection, initial_rate=rate)
    z = gen.log_prob(torch.ones(1, 1), torch.zeros(1, SIZE), ptr=torch.tensor([0, 1]))
    torch.testing.assert_close(z.exp(), torch.tensor([[rate]]))
    gen.logit.of_token.bias.data.fill_(7.0)
    gen.reset_parameters()
    z = gen.log_prob(torch.ones(1, 1), torch.zeros(1, SIZE), ptr=torch.tensor([0, 1]))
    torch.testing.assert_close(z.exp(), torch.tensor([[rate]]))


def test_spread() -> None:
    """A second number a token, built once and with the parameters of the module."""
    gen = generator("dependent")
    assert gen.spread is None
    gen.build_spread()
    spread = gen.spread
    gen.build_spread()
    assert gen.spread is spread
    assert spread is not None
    assert spread.of_token.weight.dtype == F64
    assert generator("independent", spread=True).spread is not None
