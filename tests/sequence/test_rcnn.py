"""Sums and maxima over n-grams, one by one; the walk on a path; initial values and sizes."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from torch import Tensor

from pyg_kernels.nn import RandomWalkConv
from pyg_kernels.sequence import RCNN, RCNNProductState, RCNNState, RCNNTableState
from tests.ngram_maxima import read_maxima
from tests.sequence.rcnn import MAX, ONE_WAY, build, decays, projections, random_rcnn
from tests.sequence.texts import F64, SIZE, close, random_text
from tests.string_kernels import ngram_states, tabulated_additive_state

# Sums over n-grams. Theorem 1 of Lei et al. 2017 is among those of the exact kernels

LENGTH, FEATURES, HIDDEN = 7, 3, 4


@pytest.mark.parametrize("order", [1, 2, 3, 4])
@pytest.mark.parametrize("combine", ["mul", "add"])
@pytest.mark.parametrize("normalize", [False, True])
@pytest.mark.parametrize("decay", [0.0, 0.6, "learned", "input"])
def test_every_variant(order: int, combine: str, normalize: bool, decay: float | str) -> None:
    x = random_text(LENGTH, FEATURES, seed=order)
    for scalar_decay in [False, True] if isinstance(decay, str) else [False]:
        options = {"combine": combine, "normalize": normalize, "decay": decay, "act": None}
        options |= {"scalar_decay": scalar_decay, "bias": False}
        cell = random_rcnn(FEATURES, HIDDEN, order=order, **options).cells[0]
        expected = ngram_states(projections(cell, x), decays(cell, x, decay), combine, normalize)
        for readout in ["c", "z", "sum"]:
            rcnn = random_rcnn(FEATURES, HIDDEN, order=order, readout=readout, **options)
            rcnn.cells[0].load_state_dict(cell.state_dict())
            output, (h, c) = rcnn(x)
            close(output, expected.read(readout))
            close(h[0], expected.read(readout)[-1])
            close(c[0], torch.stack([c_j[-1] for c_j in expected.c]))


def test_normalized_is_the_default_of_the_sum() -> None:
    x = random_text(LENGTH, FEATURES)
    default = random_rcnn(FEATURES, HIDDEN)
    explicit = random_rcnn(FEATURES, HIDDEN, normalize=True)
    close(default(x)[0], explicit(x)[0])
    assert not torch.allclose(random_rcnn(FEATURES, HIDDEN, normalize=False)(x)[0], default(x)[0])


@pytest.mark.parametrize("scalar_decay", [False, True])
@pytest.mark.parametrize("decay", ["learned", "input", "recurrent"])
def test_one_decay_a_channel_or_one_for_all(decay: str, scalar_decay: bool) -> None:
    cell = random_rcnn(FEATURES, HIDDEN, decay=decay, scalar_decay=scalar_decay).cells[0]
    rows = 1 if scalar_decay else HIDDEN
    if decay == "learned":
        assert cell.decay_logit.shape == (rows,)
        close(cell.decay, torch.sigmoid(cell.decay_logit))
        return
    assert cell.decay is None
    assert cell.decay_lin.weight.shape == (rows, FEATURES)
    assert cell.decay_bias.shape == (rows,)
    if decay == "recurrent":
        assert cell.decay_recurrent.weight.shape == (rows, HIDDEN)


@pytest.mark.parametrize("order", [1, 2, 3])
@pytest.mark.parametrize("readout", ["c", "z"])
def test_tabulated_additive_form_needs_zeros_on_the_left(order: int, readout: str) -> None:
    """Thesis, table 2.1: normalised, its weights are the recurrence's after many zero tokens."""
    decay, exactly = 0.5, readout == "z"
    rcnn = random_rcnn(
        FEATURES,
        HIDDEN,
        order=order,
        combine="add",
        decay=decay,
        readout=readout,
        act=None,
        bias=False,
    )
    x = random_text(5, FEATURES)
    padded = torch.cat([torch.zeros(60, FEATURES, dtype=F64), x])
    output = rcnn(x)[0][-1]
    close(rcnn(padded)[0][-1], output)  # zero tokens do not change the recurrence

    value, total = tabulated_additive_state(projections(rcnn.cells[0], padded), decay, exactly)
    assert math.isclose(total, (1 - decay) ** -(order - exactly), rel_tol=1e-10)
    close(value / total, output)

    value, total = tabulated_additive_state(projections(rcnn.cells[0], x), decay, exactly)
    if (order, readout) != (1, "z"):
        assert (value / total - output).abs().max() > 1e-3


@pytest.mark.parametrize("order", [2, 3])
@pytest.mark.parametrize("zeros", [0, 5, 60])
def test_tabulated_additive_form_never_agrees_unnormalized(order: int, zeros: int) -> None:
    """The recurrence weighs each suffix once; the table's suffix j..n tends to (1 - λ)^-(j-1)."""
    decay = 0.5
    rcnn = random_rcnn(
        FEATURES,
        HIDDEN,
        order=order,
        combine="add",
        normalize=False,
        decay=decay,
        act=None,
        bias=False,
        seed=3,
    )
    x = random_text(5, FEATURES)
    output = rcnn(x)[0][-1]
    padded = torch.cat([torch.zeros(zeros, FEATURES, dtype=F64), x])
    value, _ = tabulated_additive_state(projections(rcnn.cells[0], padded), decay, exactly=False)
    assert (value - output).abs().max() > 1e-2
    if zeros < 60:
        return
    lam = torch.full((5, HIDDEN), decay, dtype=F64)
    p = projections(rcnn.cells[0], x)
    once, tabulated = torch.zeros(HIDDEN, dtype=F64), torch.zeros(HIDDEN, dtype=F64)
    for j in range(order):  # the suffixes that start at step j + 1
        alone = [p[j], *[torch.zeros_like(p[j])] * (order - j - 1)]
        suffix = ngram_states(alone, lam, "add", normalize=False).c[-1][-1]
        once = once + suffix
        tabulated = tabulated + (1 - decay) ** -j * suffix
    close(output, once)
    close(value, tabulated)


@pytest.mark.parametrize("order", [1, 2, 3, 4])
@pytest.mark.parametrize("readout", ["c", "z"])
@pytest.mark.parametrize("normalize", [False, True])
def test_without_decay_it_is_a_convolution(order: int, readout: str, normalize: bool) -> None:
    """λ = 0: h[t] = act(W^(1) x[t-n+1] + ... + W^(n) x[t] + b), or the product of the same."""
    x = random_text(9, 2, FEATURES)
    options = {"decay": 0.0, "readout": readout, "normalize": normalize}
    rcnn = random_rcnn(FEATURES, HIDDEN, order=order, combine="add", act="relu", **options)
    cell = rcnn.cells[0]
    conv = torch.nn.Conv1d(FEATURES, HIDDEN, order, padding=order - 1).double()
    conv.weight.data = torch.stack([lin.weight for lin in cell.lins], dim=-1).detach()
    conv.bias.data = cell.bias.detach()
    expected = conv(x.permute(1, 2, 0))[..., : len(x)].relu().permute(2, 0, 1)
    close(rcnn(x)[0], expected)

    rcnn = random_rcnn(FEATURES, HIDDEN, order=order, combine="mul", act=None, **options)
    cell = rcnn.cells[0]
    product = torch.ones(9, 2, HIDDEN, dtype=F64)
    for j, p in enumerate(projections(cell, x), start=1):
        shift = order - j
        product = product * torch.cat([torch.zeros_like(p[:shift]), p[: len(p) - shift]])
    close(rcnn(x)[0], product + cell.bias)


# Max-pooling over n-grams, consecutive or not (thesis 2.3.5), against every n-gram


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


# One recurrence: the sequence layer equals the graph layer on the closure of the path


def closure(decay: Tensor, normalize: bool) -> tuple[Tensor, Tensor]:
    """An edge from every token to every later one, and its weights, (E, D)."""
    edges, weights = [], []
    for t in range(len(decay)):
        for s in range(t):
            weight = (1 - decay[s]) if normalize else torch.ones_like(decay[s])
            for r in range(s + 1, t):
                weight = weight * decay[r]
            edges.append((s, t))
            weights.append(weight)
    return torch.tensor(edges).t(), torch.stack(weights)


def graph_states(rcnn: RCNN, x: Tensor, decay: Tensor, combine: str, normalize: bool) -> list:
    lins = rcnn.cells[0].lins
    conv = RandomWalkConv(
        FEATURES,
        HIDDEN,
        order=len(lins),
        decay=1.0,
        combine=combine,
        act=None,
        edge_dim=HIDDEN,
        return_states=True,
    ).double()
    for lin, other in zip(conv.lins, lins, strict=True):
        lin.weight.data.copy_(other.weight)
    for edge_lin in conv.edge_lins:
        edge_lin.weight.data.copy_(torch.eye(HIDDEN))
    return conv(x, *closure(decay, normalize))


@pytest.mark.parametrize("order", [1, 2, 3, 4])
@pytest.mark.parametrize("combine", ["mul", "add"])
@pytest.mark.parametrize("normalize", [False, True])
@pytest.mark.parametrize("decay", [0.0, 0.7, "learned", "input"])
def test_unity(order: int, combine: str, normalize: bool, decay: float | str) -> None:
    x = random_text(LENGTH, FEATURES, seed=order)
    found = {}
    for readout in ["z", "c", "sum"]:
        rcnn = random_rcnn(
            FEATURES,
            HIDDEN,
            order=order,
            combine=combine,
            normalize=normalize,
            decay=decay,
            readout=readout,
            act=None,
            bias=False,
        )
        found[readout] = rcnn(x)[0]
    lam = decays(rcnn.cells[0], x, decay)
    z = graph_states(rcnn, x, lam, combine, normalize)

    c = []
    for z_j in z:
        rows = []
        for t in range(LENGTH):
            total = torch.zeros(HIDDEN, dtype=F64)
            for s in range(t + 1):
                weight = (1 - lam[s]) if normalize else 1.0
                total = total + weight * lam[s + 1 : t + 1].prod(dim=0) * z_j[s]
            rows.append(total)
        c.append(torch.stack(rows))
    expected = {"z": z[-1], "c": c[-1], "sum": torch.stack(c).sum(dim=0)}
    for readout, value in found.items():
        torch.testing.assert_close(value, expected[readout], rtol=1e-13, atol=1e-14)


# Initial values, sizes, activations and repr of the recurrent convolution


def test_repr() -> None:
    text = repr(RCNN(3, 4, order=3, combine="add", decay="input", num_layers=2, pooling="sum"))
    for part in ["order=3", "combine='add'", "decay='input'", "num_layers=2"]:
        assert part in text or part.replace("'", "") in text


def test_initial_values() -> None:
    """Thesis, appendix B.1: rows of unit variance, uniform in ±√(3 / inputs); the bias is 0."""
    torch.manual_seed(0)
    for size in [12, 300]:
        cell = RCNN(size, 200, order=3).cells[0]
        bound = (3 / size) ** 0.5
        for lin in cell.lins:
            assert lin.bias is None and lin.weight.shape == (200, size)
            assert lin.weight.abs().max() <= bound
            assert lin.weight.abs().max() > 0.98 * bound
            variance = lin.weight.square().sum(dim=1)  # of a row's product with white input
            assert abs(variance.mean().item() - 1) < 0.05
        assert (cell.bias == 0).all()
        a, b, _ = (lin.weight for lin in cell.lins)
        assert not torch.equal(a, b)


def test_states() -> None:
    """One type for each kind of pooling."""
    x = random_text(5, 2, SIZE)
    for name, options in ONE_WAY.items():
        expected: type = RCNNState
        if name in MAX:
            expected = RCNNTableState if options.get("combine") == "add" else RCNNProductState
        assert type(build(options)(x)[1]) is expected


@pytest.mark.parametrize("extension", ["output_map", "output_gate", "highway", "bias"])
def test_extensions_build_their_parameters_only_on_request(extension: str) -> None:
    names = {
        "output_map": ["output_lin"],
        "output_gate": ["output_gate_lin", "output_gate_bias", "output_gate_recurrent"],
        "highway": ["highway_lin", "highway_bias"],
        "bias": ["bias"],
    }[extension]
    off = random_rcnn(SIZE, SIZE, decay="recurrent", **{extension: False})
    on = random_rcnn(SIZE, SIZE, decay="recurrent", **{extension: True})
    keys = {k.removeprefix("cells.0.").removesuffix(".weight") for k in on.state_dict()}
    missing = {k.removeprefix("cells.0.").removesuffix(".weight") for k in off.state_dict()}
    assert keys - missing == set(names)


def test_output_gate_reads_the_output_only_where_the_decay_does() -> None:
    plain = random_rcnn(SIZE, SIZE, decay="input", output_gate=True).state_dict()
    assert not any("recurrent" in key for key in plain)
    recurrent = random_rcnn(SIZE, 3, decay="recurrent", output_gate=True).cells[0]
    assert recurrent.output_gate_lin.weight.shape == (3, SIZE)
    assert recurrent.output_gate_bias.shape == (3,)
    assert recurrent.output_gate_recurrent.weight.shape == (3, 3)


def test_gates_keep_their_biases_without_bias() -> None:
    """`bias` is the one before the activation alone."""
    options: dict[str, Any] = {"decay": "recurrent", "output_gate": True, "highway": True}
    keys = random_rcnn(SIZE, SIZE, bias=False, **options).state_dict()
    found = {k for k in keys if k.endswith("bias")}
    assert found == {f"cells.0.{gate}_bias" for gate in ["decay", "output_gate", "highway"]}
