"""Distributions over selections: they sum to one and equal their definition, token by token."""

from typing import Any

import pytest
import torch
from torch import Tensor
from torch.nn import Module

from pyg_kernels.rationale import Generator, WLStates
from tests.graphs import random_graph
from tests.rationale.cases import SELECTIONS, every_selection, generator, probabilities, randomized
from tests.sequence.texts import F64, SIZE, close, joined, pointers, texts

of_both = pytest.mark.parametrize("selection", SELECTIONS)


class Table(Module):
    """A network whose states are its inputs."""

    def forward(self, x: Tensor, ptr: Tensor) -> Tensor:
        return x


@of_both
def test_log_prob_of_every_selection(selection: str) -> None:
    """In a batch, texts are independent; the probabilities of one text's selections sum to one."""
    gen, pieces = generator(selection), texts(3, 0, 1, 5)
    every, ptr = every_selection(9), pointers(pieces)
    found = gen(joined(pieces), ptr).log_prob(every)
    assert found.shape == (2**9, 9)
    for text, start, end in zip(pieces, ptr, ptr[1:], strict=False):
        expected = probabilities(gen, text)
        close(expected.sum(), torch.tensor(1.0, dtype=F64))
        place = 2 ** torch.arange(int(end - start)).flip(0)  # the selection's index
        close(found[:, start:end].sum(dim=1).exp(), expected[every[:, start:end].long() @ place])


@of_both
def test_samples(selection: str) -> None:
    """Selections are drawn as often as probable, to 5 standard errors, in a batch of two texts."""
    gen, pieces = generator(selection), texts(3, 2)
    torch.manual_seed(0)
    count = 20_000
    z = gen(joined(pieces), pointers(pieces)).sample(count)
    assert z.dtype == torch.bool and z.shape == (count, 5)
    for text, part in zip(pieces, z.split([3, 2], dim=1), strict=True):
        every = every_selection(len(text))
        for given, p in zip(every, probabilities(gen, text).tolist(), strict=True):
            share = float((part == given).all(dim=1).double().mean())
            assert abs(share - p) <= 5 * (p * (1 - p) / count) ** 0.5


def test_most_probable() -> None:
    """If selections depend on each other it is greedy: each token given the choices before it."""
    gen = randomized(Generator(Table(), 1))
    gen.logit.of_token.weight.data.fill_(1.0)
    gen.logit.of_token.bias.data.fill_(0.0)
    x = torch.tensor([[-1.0], [0.0], [2.0]], dtype=F64)
    assert gen(x, torch.tensor([0, 3])).most_probable().tolist() == [False, True, True]
    gen, pieces = generator("dependent"), texts(7, 0, 4, 1)
    found = gen(joined(pieces), pointers(pieces)).most_probable()
    states, _ = gen.network(joined(pieces), ptr=pointers(pieces))
    for rows, part in zip(states.split([7, 4, 1]), found.split([7, 4, 1]), strict=True):
        state = gen.cell.start(1, states)
        for row, chosen in zip(rows, part, strict=True):
            logit = gen.logit.of_token(row) + gen.logit.of_selected(state[0][0])
            assert chosen == (logit >= 0)
            step = torch.cat((row, chosen.view(1).double()))
            state = gen.cell(step.unsqueeze(0), state)


def test_atoms() -> None:
    graph = random_graph(0, 5, 7, 4, 2)
    network = WLStates(4, 6, num_iterations=2, edge_dim=2)
    gen = randomized(Generator(network, 6))
    every = every_selection(5)
    found = gen(**vars(graph)).log_prob(every)
    close(found.sum(dim=1).exp().sum(), torch.tensor(1.0, dtype=F64))
    states = network(**vars(graph))
    p = torch.sigmoid(gen.logit.of_token(states).squeeze(1))
    close(found.exp(), torch.where(every, p, 1 - p))
    gen.reset_parameters()
    assert not torch.equal(network(**vars(graph)), states)


@of_both
@pytest.mark.parametrize("rate", [0.1, 0.9])
def test_initial_rate(selection: Any, rate: float) -> None:
    """It is the probability of a token with zero state, before any token is selected."""
    torch.manual_seed(0)
    gen = Generator(Table(), SIZE, selection, initial_rate=rate)
    for _ in range(2):
        z = gen(torch.zeros(1, SIZE), torch.tensor([0, 1])).log_prob(torch.ones(1, 1))
        torch.testing.assert_close(z.exp(), torch.tensor([[rate]]))
        gen.logit.of_token.bias.data.fill_(7.0)
        gen.reset_parameters()


def test_spread() -> None:
    """The spread is a second number per token; it is built in their parameters' dtype."""
    gen = generator("dependent")
    assert gen.spread is None
    gen.build_spread()
    spread = gen.spread
    gen.build_spread()
    assert gen.spread is spread and spread.of_token.weight.dtype == F64
