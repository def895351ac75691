"""Max-pooling over n-grams, consecutive or not (thesis 2.3.5), against every n-gram."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor

from tests.ngram_maxima import read_maxima
from tests.sequence.rcnn_equations import decays, projections, random_rcnn
from tests.sequence.rcnn_variants import MAX, build
from tests.sequence.texts import F64, SIZE, close, random_text

LENGTH, FEATURES, HIDDEN = 7, 3, 5


def assert_maximum(x: Tensor, **options: Any) -> None:
    rcnn = random_rcnn(FEATURES, HIDDEN, pooling="max", act=None, bias=False, **options)
    cell = rcnn.cells[0]
    expected = read_maxima(
        projections(cell, x),
        decays(cell, x, options["decay"]),
        options["combine"],
        options["readout"],
    )
    torch.testing.assert_close(rcnn(x)[0], expected, rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("order", [1, 2, 3, 4])
@pytest.mark.parametrize("readout", ["c", "z", "sum"])
@pytest.mark.parametrize(
    ("combine", "decay"),
    [
        *[("mul", decay) for decay in [0.0, 0.6, 1.0, "learned", "input"]],
        *[("add", decay) for decay in [0.0, 0.6, 1.0, "learned"]],  # gated: no recurrence is known
    ],
)
def test_the_best_ngram(order: int, readout: str, combine: str, decay: float | str) -> None:
    for seed in range(2):
        x = random_text(LENGTH, FEATURES, seed=seed)
        for scalar_decay in [False, True] if isinstance(decay, str) else [False]:
            assert_maximum(
                x,
                order=order,
                readout=readout,
                decay=decay,
                combine=combine,
                scalar_decay=scalar_decay,
                seed=seed,
            )


@pytest.mark.parametrize("combine", ["mul", "add"])
@pytest.mark.parametrize("readout", ["c", "z", "sum"])
@pytest.mark.parametrize("sign", [-1.0, 1.0])
def test_factors_of_one_sign(combine: str, readout: str, sign: float) -> None:
    """All n-grams negative: a state without an n-gram is absent, not 0."""
    for order in [1, 2, 3]:
        rcnn = random_rcnn(
            FEATURES, HIDDEN, order=order, pooling="max", act=None, bias=False, readout=readout,
            combine=combine, decay=0.6,
        )  # fmt: skip
        for lin in rcnn.cells[0].lins:
            lin.weight.data = lin.weight.abs()
        x = sign * random_text(LENGTH, FEATURES).abs()
        p, lam = projections(rcnn.cells[0], x), torch.full((LENGTH, HIDDEN), 0.6, dtype=F64)
        expected = read_maxima(p, lam, combine, readout)
        torch.testing.assert_close(rcnn(x)[0], expected, rtol=1e-10, atol=1e-12)
        if sign < 0 and combine == "add":
            assert (expected[order - 1 :] < 0).all()


@pytest.mark.parametrize("combine", ["mul", "add"])
@pytest.mark.parametrize("readout", ["c", "z"])
def test_before_the_first_ngram_the_output_is_that_of_zero(combine: str, readout: str) -> None:
    rcnn = random_rcnn(FEATURES, HIDDEN, order=3, pooling="max", combine=combine, readout=readout)
    output, _ = rcnn(random_text(5, 2, FEATURES))
    expected = torch.tanh(rcnn.cells[0].bias).expand(2, 2, HIDDEN)
    torch.testing.assert_close(output[:2], expected, rtol=1e-12, atol=1e-14)
    assert not torch.allclose(output[2], expected[0])


@pytest.mark.parametrize("combine", ["mul", "add"])
def test_without_decay_a_gapped_ngram_counts_as_zero(combine: str) -> None:
    """0 ** 0 is 1: consecutive n-grams keep their value; a gap makes it 0, no less."""
    rcnn = random_rcnn(
        1, 1, order=2, pooling="max", combine=combine, readout="z", decay=0.0, act=None, bias=False
    )
    for lin, weight in zip(rcnn.cells[0].lins, [1.0, -1.0 if combine == "mul" else 1.0],
                           strict=True):  # fmt: skip
        lin.weight.data.fill_(weight)
    x = torch.ones(3, 1, dtype=F64) * (1.0 if combine == "mul" else -1.0)
    expected = -1.0 if combine == "mul" else -2.0
    assert rcnn(x)[0].flatten().tolist() == [0.0, expected, 0.0]


@pytest.mark.parametrize("readout", ["c", "z", "sum"])
@pytest.mark.parametrize(
    ("combine", "decay"),
    [("mul", 0.6), ("mul", "learned"), ("mul", "input"), ("add", 0.6), ("add", "learned")],
)
def test_gradient_goes_to_the_best_ngram(readout: str, combine: str, decay: float | str) -> None:
    """The derivative of a maximum is that of the n-gram that attains it."""
    options: dict[str, Any] = {"combine": combine, "decay": decay, "readout": readout}
    rcnn = random_rcnn(FEATURES, HIDDEN, order=3, pooling="max", act=None, bias=False, **options)
    cell = rcnn.cells[0]
    x = random_text(LENGTH, FEATURES).requires_grad_()
    expected = read_maxima(projections(cell, x), decays(cell, x, decay), combine, readout)
    inputs = [x, *rcnn.parameters()]
    found = torch.autograd.grad(rcnn(x)[0].square().sum(), inputs)
    wanted = torch.autograd.grad(expected.square().sum(), inputs)
    for a, b in zip(found, wanted, strict=True):
        torch.testing.assert_close(a, b, rtol=1e-9, atol=1e-11)


@pytest.mark.parametrize("name", MAX)
def test_maxima_of_a_first_piece_shorter_than_an_ngram(name: str) -> None:
    """Where no n-gram exists yet, nothing stands in for it in the recurrence."""
    rcnn = build(MAX[name], order=4, bias=False)
    x = -1 - random_text(7, 2, SIZE).abs()
    whole, _ = rcnn(x)
    for cut in [1, 2, 3]:
        head, state = rcnn(x[:cut])
        tail, _ = rcnn(x[cut:], state)
        close(torch.cat([head, tail]), whole)
