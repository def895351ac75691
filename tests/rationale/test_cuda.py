"""On a CUDA device the rationalizer gives the CPU's numbers, and trains."""

import copy
from typing import Any

import pytest
import torch

from tests.graphs import random_graph
from tests.rationale.cases import SELECTIONS, assert_finite_gradients, rationalizer
from tests.rationale.test_molecules import model
from tests.sequence.texts import close, joined, pointers, texts

pytestmark = pytest.mark.cuda
DEVICE = "cuda"


@pytest.mark.parametrize("estimator", ["reinforce", "gumbel", "hardkuma"])
@pytest.mark.parametrize("selection", SELECTIONS)
def test_texts(selection: str, estimator: Any) -> None:
    here = rationalizer(selection, estimator=estimator, num_samples=2)
    there = copy.deepcopy(here).to(DEVICE)
    pieces = texts(5, 0, 1, 40)
    x, ptr = joined(pieces), pointers(pieces)
    for network in (here, there):
        network.eval()
    expected, found = here(x, ptr=ptr), there(x.to(DEVICE), ptr=ptr.to(DEVICE))
    assert torch.equal(found.selection.cpu(), expected.selection)
    close(found.output.cpu(), expected.output)
    there.train()
    found = there(x.to(DEVICE), ptr=ptr.to(DEVICE))
    assert_finite_gradients(there, found)


def test_molecules() -> None:
    here = model(4, 3).eval()
    there = copy.deepcopy(here).to(DEVICE)
    graph = random_graph(0, 8, 20)
    z = torch.arange(16).view(2, 8) % 3 != 0
    expected = here.given(z, **vars(graph))
    found = there.given(z.to(DEVICE), **{name: t.to(DEVICE) for name, t in vars(graph).items()})
    close([part.cpu() for part in found], list(expected))
