"""Small rationalizers in float64, and their definitions written out token by token."""

import itertools
from typing import Any

import torch
from torch import Tensor
from torch.nn import Module

from pyg_kernels.rationale import Generator, Rationale, Rationalizer, SequenceEncoder
from pyg_kernels.sequence import RCNN
from tests.sequence.rcnn import layer_equations
from tests.sequence.texts import F64, SIZE

SELECTIONS = ("independent", "dependent")
HIDDEN = 3


def randomized(module: Module, seed: int = 0, scale: float = 0.6) -> Any:
    """The module in float64, with no parameter left at its initial value."""
    torch.manual_seed(seed)
    module = module.double()
    for parameter in module.parameters():
        torch.nn.init.normal_(parameter, std=scale)
    return module


def generator(selection: str = "independent", seed: int = 0, **options: Any) -> Generator:
    network = RCNN(SIZE, HIDDEN, combine="add", decay="recurrent", bidirectional=True)
    return randomized(
        Generator(network, 2 * HIDDEN, selection, hidden_size=4, **options),  # type: ignore[arg-type]
        seed,
    )


def encoder(readout: Any = "last", **options: Any) -> SequenceEncoder:
    layer = RCNN(SIZE, HIDDEN, combine="add", **{"decay": "recurrent", **options})
    return randomized(SequenceEncoder(layer, HIDDEN, 2, readout=readout), seed=1)


def rationalizer(selection: str = "independent", **options: Any) -> Rationalizer:
    if "rate" not in options:
        options = {"sparsity": 0.05, "coherence": 0.03, **options}
    found = Rationalizer(generator(selection), encoder(), **options).double()
    if found.generator.spread is not None:  # small numbers, so that not all is certain
        randomized(found.generator.logit, seed=2, scale=0.2)
        randomized(found.generator.spread, seed=3, scale=0.2)
    return found


def every_selection(length: int) -> Tensor:
    """All selections of a text, (2^L, L), bool."""
    rows = list(itertools.product([False, True], repeat=length))
    return torch.tensor(rows, dtype=torch.bool).view(2**length, length)


def probabilities(gen: Generator, x: Tensor) -> Tensor:
    """The probability of every selection of one text, token by token as the class states it."""
    states = gen.network(x.unsqueeze(1))[0].squeeze(1)
    found = []
    for selection in every_selection(len(x)).to(F64):
        p, h, c = torch.ones((), dtype=F64), None, None
        for state, z in zip(states, selection, strict=True):
            logit = gen.logit.of_token(state)[0]
            if h is not None:
                logit = logit + h @ gen.logit.of_selected.weight[0]
            p = p * torch.sigmoid(logit if z else -logit)
            if gen.cell is not None:
                step = torch.cat((state, z.view(1))).unsqueeze(0)
                options = {"order": 2, "combine": "add", "decay": "recurrent"}
                _, h, c = layer_equations(gen.cell, step, h, c, **options)
        found.append(p)
    return torch.stack(found)


def changes(z: Tensor) -> int:
    """The number of places after the first token where a selection starts or ends."""
    return sum(int(a != b) for a, b in itertools.pairwise(z.tolist()))


def assert_finite_gradients(model: Rationalizer, found: Rationale) -> None:
    """Checks the objective's gradients for some losses; a parameter may have none."""
    losses = found.output.square().sum(dim=1).view(found.size.shape)
    model.objective(found, losses).backward()
    for parameter in model.parameters():
        assert parameter.grad is None or parameter.grad.isfinite().all()
