"""What the cells are special cases of: equalities with convolutions, RCNN, RAN and sums.

The gradients are those of the equations, which other tests compare.
"""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor
from torch.nn.functional import conv1d, pad

from pyg_kernels.sequence import RKM, RKMCell
from tests.sequence.rcnn import random_rcnn
from tests.sequence.rkm import HIDDEN, random_rkm
from tests.sequence.texts import F64, SIZE, close, random_text

NEVER, ALWAYS = -1e3, 1e3  # sigmoids that are 0 and 1 to the last bit
X = random_text(9, 3, SIZE)
WINDOW = {"ngram": 3, "dilation": 2}


def machine(**options: Any) -> tuple[RKM, Any]:
    """A machine, and its cell."""
    rkm = random_rkm(SIZE, HIDDEN, **options)
    return rkm, rkm.cells[0]


@torch.no_grad()
def hold(cell: RKMCell, gate: str, bias: float) -> None:
    """Makes a gate the same number for every token."""
    for weight in cell.filters[gate].weights:
        weight.zero_()
    if gate in cell.recurrent:
        cell.recurrent[gate].weight.zero_()
    cell.biases[gate].fill_(bias)


@torch.no_grad()
def copy_gates(target: RKMCell, source: RKMCell) -> None:
    """All parameters of gates that both cells have."""
    theirs = dict(source.named_parameters())
    for name, parameter in target.named_parameters():
        if name in theirs:
            parameter.copy_(theirs[name])


def convolution(weight: Tensor, dilation: int = 1) -> Tensor:
    """conv1d of the texts with zeros before them."""
    padded = pad(X.permute(1, 2, 0), ((weight.size(2) - 1) * dilation, 0))
    return conv1d(padded, weight, dilation=dilation).permute(2, 0, 1)


def test_no_forgetting_and_open_output_is_the_gated_cnn_of_eq_16() -> None:
    """h = sigmoid(X_eta * x + b) ⊙ (X * x)."""
    rkm, cell = machine(feedback=False, **WINDOW)
    hold(cell, "forget", NEVER)
    hold(cell, "output", ALWAYS)
    eta, candidate = (convolution(cell.filters[g].weight, 2) for g in ("input", "candidate"))
    expected = torch.sigmoid(eta + cell.biases["input"]) * candidate
    output, state = rkm(X)
    close(output, expected)
    close(state.c[0], expected[-1])


def test_open_output_and_a_candidate_without_feedback_is_the_ran() -> None:
    (rkm, full), (ran, cell) = machine(**WINDOW), machine(cell="ran", **WINDOW, seed=1)
    copy_gates(cell, full)
    hold(full, "output", ALWAYS)
    torch.nn.init.zeros_(full.recurrent["candidate"].weight)
    (found, state), (expected, last) = ran(X), rkm(X)
    close(found, expected)
    close(state.c, last.c)
    close(found[-1], state.c[0])


@pytest.mark.parametrize("s_i", [1.0, 0.4])
def test_the_cnn_is_conv1d_and_tanh(s_i: float) -> None:
    rkm, cell = machine(cell="cnn", static=s_i, **WINDOW)
    memory = s_i * convolution(cell.filters["candidate"].weight, 2)
    output, state = rkm(X)
    close(output, torch.tanh(memory))
    close(state.c[0], memory[-1])


def test_a_dilated_window_is_a_plain_one_with_zeros_between() -> None:
    dilated, wide = machine(**WINDOW)[0], machine(ngram=5, seed=1)[0]
    given = dilated.state_dict()
    for name, value in wide.state_dict().items():
        if value.dim() == 3:
            value.zero_()[:, :, ::2] = given[name]
        else:
            value.copy_(given[name])
    close(dilated(X)[0], wide(X)[0])


@pytest.mark.parametrize("static", [(0.5, 0.5), (2.0, 0.9), (1.0, 0.0), (0.3, 1.0)], ids=str)
def test_static_gates_are_a_geometric_sum(static: tuple[float, float]) -> None:
    """c_t = s_i Σ_k s_f^k c̃_{t-k}; of a constant text s_i (1 - s_f^t)/(1 - s_f) c̃."""
    s_i, s_f = static
    rkm, cell = machine(cell="linear", static=static, feedback=False)
    candidate = convolution(cell.filters["candidate"].weight)
    for t in (1, 4, 9):
        terms = [s_i * s_f**k * candidate[t - 1 - k] for k in range(t)]
        close(rkm(X[:t])[1].c[0], torch.stack(terms).sum(dim=0))
        total = t if s_f == 1 else (1 - s_f**t) / (1 - s_f)
        output, state = rkm(X[:1].expand(t, -1, -1))
        close(state.c[0], s_i * total * candidate[0])
        close(output[-1], torch.tanh(s_i * total * candidate[0]))


def test_open_output_makes_linear_gated_the_linear_kernel_of_eq_15() -> None:
    """h_t = s_i (X · X_t) + s_f h_{t-1}."""
    rkm, cell = machine(cell="linear-gated", ngram=3, feedback=False)
    hold(cell, "output", ALWAYS)
    h = torch.zeros(3, HIDDEN, dtype=F64)
    for read, output in zip(convolution(cell.filters["candidate"].weight), rkm(X)[0], strict=True):
        h = 0.5 * read + 0.5 * h
        close(output, h)


def test_cifg_without_feedback_is_a_first_order_rcnn() -> None:
    rkm, mine = machine(cell="rkm-cifg", feedback=False)
    rcnn = random_rcnn(SIZE, HIDDEN, order=1, decay="input", act=None, bias=False)
    theirs = rcnn.cells[0]
    hold(mine, "output", ALWAYS)
    with torch.no_grad():
        mine.filters["candidate"].weight.copy_(theirs.lins[0].weight[..., None])
        mine.filters["forget"].weight.copy_(theirs.decay_lin.weight[..., None])
        mine.biases["forget"].copy_(theirs.decay_bias)
    (found, state), (expected, last) = rkm(X), rcnn(X)
    close(found, expected)
    close(state.c, last.c[:, :, 0])


def test_input_and_forget_gates_that_add_up_are_coupled() -> None:
    """rkm-lstm with η = 1 - f, that is with the forget gate's maps negated, is rkm-cifg."""
    (rkm, full), (cifg, coupled) = machine(ngram=2), machine(cell="rkm-cifg", ngram=2, seed=1)
    copy_gates(full, coupled)
    with torch.no_grad():
        for part in (full.filters, full.recurrent):
            part["input"].weight.copy_(-part["forget"].weight)
        full.biases["input"].copy_(-full.biases["forget"])
    close(rkm(X)[0], cifg(X)[0])


@pytest.mark.parametrize("feedback", [False, True], ids=["eq. 6", "eq. 8"])
def test_the_general_machine_unrolled(feedback: bool) -> None:
    """c_t = c̃_t + q(c_{t-1}), h_t = q(c_t) with c̃ = X x, in eq. 8 with H h_{t-1} added."""
    rkm, cell = machine(cell="general", q="tanh", feedback=feedback)
    one, two = X[:2] @ cell.filters["candidate"].weight[:, :, 0].t()
    back = cell.recurrent["candidate"].weight.t() if feedback else torch.zeros(HIDDEN, HIDDEN)
    h, c = random_text(2, 1, 3, HIDDEN, seed=1)
    first = one + h[0] @ back.to(F64) + c[0].tanh()
    second = two + first.tanh() @ back.to(F64) + first.tanh()
    output, state = rkm(X[:2], (h, c))
    close(output, torch.stack([first.tanh(), second.tanh()]))
    close(state.c[0], second)


def test_the_general_machine_with_identity_is_a_running_sum() -> None:
    rkm, cell = machine(cell="general", q="identity", feedback=False, ngram=3)
    close(rkm(X)[0], convolution(cell.filters["candidate"].weight).cumsum(dim=0))


@pytest.mark.parametrize("cell", ["lstm", "rkm-lstm", "linear", "ran", "cnn"])
def test_layer_norm_is_on_the_output_alone(cell: str) -> None:
    """The memory that is carried does not know of it."""
    plain, one = machine(cell=cell, feedback=False, ngram=2)
    normed, other = machine(cell=cell, feedback=False, ngram=2, layer_norm=True)
    copy_gates(other, one)
    close(normed(X)[1].c, plain(X)[1].c)
    assert not torch.allclose(normed(X)[0], plain(X)[0])
