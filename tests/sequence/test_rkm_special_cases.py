"""What the cells are special cases of: equalities with convolutions, RCNN, RAN and sums."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor
from torch.nn import Conv1d
from torch.nn.functional import conv1d, pad

from pyg_kernels.sequence import RKMCell
from tests.sequence.rcnn import random_rcnn
from tests.sequence.rkm import HIDDEN, random_rkm
from tests.sequence.texts import F64, SIZE, assert_close, close, gradients, random_text

NEVER, ALWAYS = -1e3, 1e3  # sigmoids that are 0 and 1 to the last bit
windows = pytest.mark.parametrize(
    ("ngram", "dilation"), [(1, 1), (2, 1), (3, 1), (3, 2), (2, 5)], ids=lambda v: str(v)
)


def hold(cell: RKMCell, gate: str, bias: float) -> None:
    """Makes a gate the same number for every token."""
    with torch.no_grad():
        for weight in cell.filters[gate].weights:
            weight.zero_()
        if gate in cell.recurrent:
            cell.recurrent[gate].weight.zero_()
        cell.biases[gate].fill_(bias)


def copy_gates(target: RKMCell, source: RKMCell) -> None:
    """Filters, maps and biases of the gates that both cells have."""
    for part in ("filters", "recurrent", "biases"):
        theirs = getattr(source, part)
        with torch.no_grad():
            for gate, mine in getattr(target, part).items():
                if gate not in theirs:
                    continue
                if part == "biases":
                    mine.copy_(theirs[gate])
                else:
                    mine.load_state_dict(theirs[gate].state_dict())


def convolution(x: Tensor, weight: Tensor, dilation: int, bias: Tensor | None = None) -> Tensor:
    """conv1d of texts (T, B, F) with zeros before them."""
    padded = pad(x.permute(1, 2, 0), ((weight.size(2) - 1) * dilation, 0))
    return conv1d(padded, weight, bias, dilation=dilation).permute(2, 0, 1)


def assert_same_function(
    found: list[Tensor], expected: list[Tensor], x: Tensor, mine: list[Tensor], theirs: list[Tensor]
) -> None:
    """Outputs, and their gradients by the input and by parameters that stand for each other."""
    assert_close(found, expected, [f"output {i}" for i in range(len(found))])
    names = ["gradient of x", *[f"gradient of parameter {i}" for i in range(len(mine))]]
    found_gradients = gradients(found, [x, *mine])
    wanted = gradients(expected, [x, *theirs])
    shaped = [a.view_as(b) for a, b in zip(found_gradients, wanted, strict=True)]
    assert_close(shaped, wanted, names)


@windows
def test_no_forgetting_and_open_output_is_the_gated_cnn_of_eq_16(ngram: int, dilation: int) -> None:
    """h = sigmoid(X_eta * x + b) ⊙ (X * x)."""
    window = {"ngram": ngram, **({"dilation": dilation} if ngram > 1 else {})}
    rkm = random_rkm(SIZE, HIDDEN, cell="rkm-lstm", feedback=False, **window)
    cell, x = rkm.cells[0], random_text(7, 3, SIZE).requires_grad_()
    hold(cell, "forget", NEVER)
    hold(cell, "output", ALWAYS)
    eta, candidate, b = (
        cell.filters["input"].weight,
        cell.filters["candidate"].weight,
        cell.biases["input"],
    )
    parameters = [p.detach().clone().requires_grad_() for p in (eta, candidate, b)]
    gate = torch.sigmoid(convolution(x, parameters[0], dilation, parameters[2]))
    expected = gate * convolution(x, parameters[1], dilation)
    output, state = rkm(x)
    assert_same_function(
        [output, state.h[0], state.c[0]], [expected, expected[-1], expected[-1]],
        x, [eta, candidate, b], parameters,
    )  # fmt: skip


@windows
def test_open_output_and_a_candidate_without_feedback_is_the_ran(ngram: int, dilation: int) -> None:
    window = {"ngram": ngram, **({"dilation": dilation} if ngram > 1 else {})}
    rkm = random_rkm(SIZE, HIDDEN, cell="rkm-lstm", **window)
    ran = random_rkm(SIZE, HIDDEN, cell="ran", **window, seed=1)
    copy_gates(ran.cells[0], rkm.cells[0])
    hold(rkm.cells[0], "output", ALWAYS)
    with torch.no_grad():
        rkm.cells[0].recurrent["candidate"].weight.zero_()
    x = random_text(7, 3, SIZE).requires_grad_()
    found, expected = ran(x), rkm(x)
    names = [n for n, _ in ran.cells[0].named_parameters()]
    parts = [[dict(m.cells[0].named_parameters())[n] for n in names] for m in (ran, rkm)]
    assert_same_function(
        [found[0], found[1].h, found[1].c], [expected[0], expected[1].h, expected[1].c], x, *parts
    )
    close(found[0][-1], found[1].c[0])


@windows
@pytest.mark.parametrize("s_i", [1.0, 0.4])
def test_the_cnn_is_conv1d_and_tanh(ngram: int, dilation: int, s_i: float) -> None:
    window = {"ngram": ngram, **({"dilation": dilation} if ngram > 1 else {})}
    rkm = random_rkm(SIZE, HIDDEN, cell="cnn", static=s_i, **window)
    conv = Conv1d(SIZE, HIDDEN, ngram, dilation=dilation, bias=False).double()
    weight = rkm.cells[0].filters["candidate"].weight
    conv.weight.data = weight.detach().clone()
    x = random_text(9, 3, SIZE).requires_grad_()
    padded = pad(x.permute(1, 2, 0), ((ngram - 1) * dilation, 0))
    memory = s_i * conv(padded).permute(2, 0, 1)
    output, state = rkm(x)
    assert_same_function(
        [output, state.h[0], state.c[0]],
        [torch.tanh(memory), torch.tanh(memory[-1]), memory[-1]],
        x, [weight], [conv.weight],
    )  # fmt: skip


def test_a_dilated_window_is_a_plain_one_with_zeros_between() -> None:
    for cell in ("rkm-lstm", "lstm", "ran", "gated-cnn"):
        dilated = random_rkm(SIZE, HIDDEN, cell=cell, ngram=3, dilation=2)
        wide = random_rkm(SIZE, HIDDEN, cell=cell, ngram=5, seed=1)
        given = dilated.state_dict()
        for name, value in wide.state_dict().items():
            if value.dim() == 3:
                value.zero_()[:, :, ::2] = given[name]
            else:
                value.copy_(given[name])
        x = random_text(9, 3, SIZE)
        close(dilated(x)[0], wide(x)[0])


@pytest.mark.parametrize("static", [(0.5, 0.5), (2.0, 0.9), (1.0, 0.0), (0.3, 1.0)], ids=str)
@pytest.mark.parametrize("cell", ["linear", "linear-gated"])
def test_static_gates_are_a_geometric_sum(cell: str, static: tuple[float, float]) -> None:
    """c_t = s_i Σ_k s_f^k c̃_{t-k}; of a constant text s_i (1 - s_f^t)/(1 - s_f) c̃."""
    s_i, s_f = static
    rkm = random_rkm(SIZE, HIDDEN, cell=cell, static=static, feedback=False)
    x = random_text(9, 3, SIZE)
    candidate = x @ rkm.cells[0].filters["candidate"].weight[:, :, 0].t()
    for t in (1, 4, 9):
        _, state = rkm(x[:t])
        terms = [s_i * s_f**k * candidate[t - 1 - k] for k in range(t)]
        close(state.c[0], torch.stack(terms).sum(dim=0))
        constant = x[:1].expand(t, -1, -1)
        total = t if s_f == 1 else (1 - s_f**t) / (1 - s_f)
        output, state = rkm(constant)
        close(state.c[0], s_i * total * candidate[0])
        if cell == "linear":
            close(output[-1], torch.tanh(s_i * total * candidate[0]))


def test_open_output_makes_linear_gated_the_linear_kernel_of_eq_15() -> None:
    """h_t = s_i (X · X_t) + s_f h_{t-1}."""
    rkm, x = (
        random_rkm(SIZE, HIDDEN, cell="linear-gated", ngram=3, feedback=False),
        random_text(7, 2, SIZE),
    )
    hold(rkm.cells[0], "output", ALWAYS)
    read = convolution(x, rkm.cells[0].filters["candidate"].weight, 1)
    output, h = rkm(x)[0], torch.zeros(2, HIDDEN, dtype=F64)
    for t in range(7):
        h = 0.5 * read[t] + 0.5 * h
        close(output[t], h)


@pytest.mark.parametrize("steps", [6, 150])
def test_cifg_without_feedback_is_a_first_order_rcnn(steps: int) -> None:
    rkm = random_rkm(SIZE, HIDDEN, cell="rkm-cifg", feedback=False)
    options: dict[str, Any] = {"decay": "input", "normalize": True, "act": None, "bias": False}
    rcnn = random_rcnn(SIZE, HIDDEN, order=1, **options)
    mine, theirs = rkm.cells[0], rcnn.cells[0]
    hold(mine, "output", ALWAYS)
    pairs = [
        (mine.filters["candidate"].weight, theirs.lins[0].weight),
        (mine.filters["forget"].weight, theirs.decay_lin.weight),
        (mine.biases["forget"], theirs.decay_bias),
    ]
    with torch.no_grad():
        for a, b in pairs:
            a.copy_(b.view_as(a))
    x = random_text(steps, 3, SIZE).requires_grad_()
    (found, state), (expected, last) = rkm(x), rcnn(x)
    assert_same_function(
        [found, state.h, state.c],
        [expected, last.h, last.c[:, :, 0]],
        x, *[list(side) for side in zip(*pairs, strict=True)],
    )  # fmt: skip


def test_input_and_forget_gates_that_add_up_are_coupled() -> None:
    """rkm-lstm with η = 1 - f, that is with the forget gate's maps negated, is rkm-cifg."""
    full = random_rkm(SIZE, HIDDEN, ngram=2)
    coupled = random_rkm(SIZE, HIDDEN, cell="rkm-cifg", ngram=2, seed=1)
    copy_gates(full.cells[0], coupled.cells[0])
    with torch.no_grad():
        for part in (full.cells[0].filters, full.cells[0].recurrent):
            part["input"].weight.copy_(-part["forget"].weight)
        full.cells[0].biases["input"].copy_(-full.cells[0].biases["forget"])
    x = random_text(7, 3, SIZE)
    close(full(x)[0], coupled(x)[0])


def test_eq_6_unrolled() -> None:
    """h_3 = q(c̃_3 + q(c̃_2 + q(c̃_1 + q(c_0)))), eq. 5 with c̃ = X x."""
    rkm, x = (
        random_rkm(SIZE, HIDDEN, cell="general", q="tanh", feedback=False),
        random_text(3, 2, SIZE),
    )
    one, two, three = x @ rkm.cells[0].filters["candidate"].weight[:, :, 0].t()
    h, c = random_text(1, 2, HIDDEN, seed=1), random_text(1, 2, HIDDEN, seed=2)
    q = torch.tanh
    memory = three + q(two + q(one + q(c[0])))
    output, state = rkm(x, (h, c))
    close(state.c[0], memory)
    close(output[-1], q(memory))


def test_eq_8_unrolled() -> None:
    """The same with c̃_t = X x_t + H h_{t-1}."""
    rkm, x = random_rkm(SIZE, HIDDEN, cell="general", q="tanh"), random_text(2, 2, SIZE)
    one, two = x @ rkm.cells[0].filters["candidate"].weight[:, :, 0].t()
    back = rkm.cells[0].recurrent["candidate"].weight.t()
    h, c = random_text(1, 2, HIDDEN, seed=1), random_text(1, 2, HIDDEN, seed=2)
    q = torch.tanh
    first = one + h[0] @ back + q(c[0])
    second = two + q(first) @ back + q(first)
    output, state = rkm(x, (h, c))
    close(output, torch.stack([q(first), q(second)]))
    close(state.c[0], second)


def test_the_general_machine_with_identity_is_a_running_sum() -> None:
    options: dict[str, Any] = {"cell": "general", "q": "identity", "feedback": False}
    rkm, x = random_rkm(SIZE, HIDDEN, ngram=3, **options), random_text(80, 2, SIZE)
    expected = convolution(x, rkm.cells[0].filters["candidate"].weight, 1).cumsum(dim=0)
    close(rkm(x)[0], expected)


def test_layer_norm_is_on_the_output_alone() -> None:
    """The memory that is carried does not know of it."""
    for cell in ("lstm", "rkm-lstm", "linear", "ran", "cnn"):
        plain = random_rkm(SIZE, HIDDEN, cell=cell, feedback=False, ngram=2)
        normed = random_rkm(SIZE, HIDDEN, cell=cell, feedback=False, ngram=2, layer_norm=True)
        copy_gates(normed.cells[0], plain.cells[0])
        x = random_text(6, 2, SIZE)
        close(normed(x)[1].c, plain(x)[1].c)
        assert not torch.allclose(normed(x)[0], plain(x)[0])
    ran, x = random_rkm(SIZE, HIDDEN, cell="ran", layer_norm=True), random_text(6, 2, SIZE)
    output, state = ran(x)
    close(output[-1], ran.cells[0].norm(state.c[0]))
