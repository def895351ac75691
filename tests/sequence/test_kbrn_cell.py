"""Layer, cell and equations side by side: outputs, states and the gradient of everything."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor

from pyg_kernels.nn import KernelActivation
from pyg_kernels.sequence import KBRN, KBRNCell
from tests.sequence.kbrn_equations import GREENS, kbrn_equations, random_kbrn
from tests.sequence.kbrn_variants import EVERY, FORMS, HIDDEN, ONE_WAY, assert_equations, build
from tests.sequence.texts import SIZE, assert_close, close, gradients, random_text, texts

of_every = pytest.mark.parametrize("name", EVERY)
ONE_LAYER = {name: o for name, o in ONE_WAY.items() if "num_layers" not in o}


@of_every
def test_ragged_texts(name: str) -> None:
    """From a state and from nothing; one of them is empty."""
    for from_state in [True, False]:
        assert_equations(build(EVERY[name]), EVERY[name], texts(6, 0, 3, 1), from_state=from_state)


@of_every
def test_texts_of_one_length(name: str) -> None:
    for from_state in [True, False]:
        assert_equations(build(EVERY[name]), EVERY[name], texts(5, 5, 5), "grid", from_state)
    assert_equations(build(EVERY[name]), EVERY[name], texts(7))


@pytest.mark.parametrize("green", GREENS)
@pytest.mark.parametrize("num_centers", [1, 2, 13, 100])
def test_numbers_of_centers(green: str, num_centers: int) -> None:
    for normalize in [False, True]:
        options = {
            "green": green,
            "num_centers": num_centers,
            "affine": normalize == (num_centers > 2),
            "shared": num_centers == 13,
            "normalize": normalize,
        }
        kbrn = random_kbrn(SIZE, HIDDEN, scale=0.3, **options)
        assert_equations(kbrn, options, texts(4, 6, 0))


@pytest.mark.parametrize("options", [{}, {"bandwidth": 0.3}, {"init_range": (-1, 5)}], ids=str)
def test_width_of_the_gaussian(options: dict[str, Any]) -> None:
    for normalize in [False, True]:
        given = {**options, "green": "gaussian", "normalize": normalize}
        assert_equations(random_kbrn(SIZE, HIDDEN, **given), given, texts(4, 6, 0))


@pytest.mark.parametrize("green", GREENS)
def test_many_texts_and_tokens(green: str) -> None:
    """Sizes that fill blocks of any kind, and do not divide them."""
    lengths = [(7 * k) % 41 for k in range(19)]
    for normalize in [False, True]:
        options = {"green": green, "normalize": normalize, "num_centers": 33, "affine": True}
        kbrn = random_kbrn(3, 17, scale=0.1, **options)
        assert_equations(kbrn, options, texts(*lengths, size=3), from_state=False)
        assert_equations(kbrn, options, texts(*[40] * 9, size=3), "grid", from_state=False)


@pytest.mark.parametrize("sizes", [(1, 1), (1, 4), (6, 1)], ids=str)
def test_one_feature_and_one_unit(sizes: tuple[int, int]) -> None:
    for green in GREENS:
        for normalize in [False, True]:
            options = {"green": green, "normalize": normalize}
            kbrn = random_kbrn(*sizes, **options)
            assert_equations(kbrn, options, texts(4, 6, 0, size=sizes[0]))


@pytest.mark.parametrize("green", GREENS)
def test_coincident_centers_and_inputs_outside_of_all(green: str) -> None:
    for value, normalize in [(0.2, False), (50.0, False), (-50.0, False), (0.2, True)]:
        options = {"green": green, "normalize": normalize, "affine": True}
        kbrn = random_kbrn(SIZE, HIDDEN, **options)
        with torch.no_grad():
            kbrn.cells[0].activation.centers[:, 1:6] = value
        assert_equations(kbrn, options, texts(4, 6, 0))


@pytest.mark.parametrize("training", [False, True], ids=["evaluation", "training"])
@pytest.mark.parametrize("green", ["relu", "abs"])
def test_centers_that_are_far_from_even(green: str, training: bool) -> None:
    """All at one place; most of them close together and a few far away; in no order."""
    for spread in [0, 9]:
        options = {"green": green, "affine": spread > 0, "shared": spread == 0}
        kbrn = random_kbrn(SIZE, HIDDEN, scale=0.2, num_centers=60, **options)
        with torch.no_grad():
            centers = kbrn.cells[0].activation.centers.pow_(spread)
            centers.mul_(3.0 / centers.abs().max())
        assert_equations(kbrn.train(training), options, texts(6, 4, 0, 6, 2))


def test_more_numbers_than_a_block_holds() -> None:
    for options in [{"green": "relu"}, {"green": "abs", "shared": True, "normalize": False}]:
        kbrn = random_kbrn(2, 17, num_centers=5, scale=0.1, **options).train()
        assert_equations(kbrn, options, list(random_text(140, 60, 2)), "grid", from_state=False)


def test_a_gradient_of_one_everywhere() -> None:
    """As sums have it, in memory of a single number."""
    for options in EVERY.values():
        kbrn, pieces = build(options), [p.requires_grad_() for p in texts(5, 5)]
        inputs = [*pieces, *kbrn.parameters()]
        expected = sum(text.sum() for text in kbrn_equations(kbrn, pieces, **options).outputs)
        found = kbrn(torch.stack(pieces, dim=1))[0].sum()
        assert_close(
            list(torch.autograd.grad(found, inputs)),
            list(torch.autograd.grad(expected, inputs)),
            [str(i) for i in range(len(inputs))],
        )


@pytest.mark.parametrize("shared", [False, True], ids=["own", "shared"])
@pytest.mark.parametrize("green", ["relu", "abs"])
def test_inputs_at_the_kinks(green: str, shared: bool) -> None:
    """Eighths are exact, and often a centre: derivatives are those from the left."""
    options = {"green": green, "normalize": False, "affine": True, "shared": shared}
    kbrn = random_kbrn(SIZE, HIDDEN, **options)
    generator = torch.Generator().manual_seed(0)

    def eighths(*shape: int, unit: float = 0.5) -> Tensor:
        return torch.randint(-2, 3, shape, generator=generator).double() * unit

    with torch.no_grad():
        for parameter in kbrn.parameters():
            parameter.copy_(eighths(*parameter.shape))
    pieces = [eighths(n, SIZE) for n in [3, 0, 2, 3]]
    (rows,) = kbrn_equations(kbrn, pieces, **options).rows
    assert (rows.unsqueeze(-1) == kbrn.cells[0].activation.centers).any()
    assert_equations(kbrn, options, pieces, from_state=False)


@pytest.mark.parametrize("form", FORMS)
def test_forms(form: str) -> None:
    lengths = [4, 4, 4] if form == "grid" else [4, 2, 5, 2]
    for name in ["norm-stack", "both-ways", "both-ways-norm"]:
        assert_equations(build(EVERY[name]), EVERY[name], texts(*lengths), form)


@pytest.mark.parametrize("name", ONE_LAYER)
def test_the_cell_stepped_by_hand(name: str) -> None:
    options = ONE_LAYER[name]
    kbrn = build(options)
    cell, x = kbrn.cells[0], random_text(6, 2, SIZE).requires_grad_()
    h, outputs = None, []
    for x_t in x:
        h = cell(x_t, h)
        assert isinstance(h, Tensor) and h.shape == (2, HIDDEN)
        outputs.append(h)
    expected = kbrn_equations(kbrn, list(x.unbind(1)), **options)
    output = torch.stack(expected.outputs, dim=1)
    found = torch.stack(outputs)
    assert_close([found, outputs[-1]], [output, expected.h[0]], ["output", "h"])
    inputs = {"x": x, **dict(kbrn.named_parameters())}
    assert_close(
        gradients([found], list(inputs.values())),
        gradients([output], list(inputs.values())),
        list(inputs),
    )
    close(kbrn(x)[0], output)
    h, outputs = None, []
    for x_t in x[:, 1]:
        h = cell(x_t, h)
        assert h.shape == (HIDDEN,)
        outputs.append(h)
    close(torch.stack(outputs), output[:, 1])


def test_cell_and_layer_continue_each_other() -> None:
    for name, options in ONE_LAYER.items():
        kbrn, x = build(options), random_text(6, 2, SIZE)
        whole, _ = kbrn(x)
        _, h_n = kbrn(x[:4])
        h = kbrn.cells[0](x[4], h_n[0])
        close(h, whole[4])
        close(kbrn(x[5:], h[None])[0][0], whole[5], rtol=1e-9 if name == "norm" else 1e-10)


def test_parts() -> None:
    """As DESIGN names them, of its shapes."""
    kbrn = KBRN(3, 4, num_centers=9, num_layers=2, bidirectional=True, affine=True)
    assert [cell.lin_input.weight.shape for cell in kbrn.cells] == [(4, 3)] * 2 + [(4, 8)] * 2
    for cell in kbrn.cells:
        assert isinstance(cell, KBRNCell)
        assert cell.lin_input.bias.shape == (4,)
        assert cell.lin_recurrent.weight.shape == (4, 4) and cell.lin_recurrent.bias is None
        activation = cell.activation
        assert isinstance(activation, KernelActivation)
        assert activation.centers.shape == activation.coefficients.shape == (4, 9)
        assert activation.slope.shape == activation.intercept.shape == (4,)
        assert type(activation.norm) is torch.nn.BatchNorm1d
        assert activation.norm.num_features == 4
    cell = KBRNCell(3, 4, shared=True, normalize=False, bias=False)
    assert cell.lin_input.bias is None
    assert cell.activation.centers.shape == (1, 100)
    assert cell.activation.slope is None and cell.activation.norm is None


def test_the_layer_is_its_activation_stepped() -> None:
    """The module that is `cell.activation`, called with each step's rows."""
    for options in ONE_LAYER.values():
        kbrn, x = build(options), random_text(6, 3, SIZE)
        cell, h, outputs = kbrn.cells[0], x.new_zeros(3, HIDDEN), []
        for x_t in x:
            h = cell.activation(cell.lin_recurrent(h) + cell.lin_input(x_t))
            outputs.append(h)
        close(kbrn(x)[0], torch.stack(outputs))


@pytest.mark.parametrize("green", GREENS)
@pytest.mark.parametrize("normalize", [False, True], ids=["plain", "norm"])
def test_any_one_gradient(green: str, normalize: bool) -> None:
    """Only what asks for a gradient gets one, and it is the same; in training as well."""
    kbrn = random_kbrn(2, 3, green=green, normalize=normalize, affine=True).train()
    inputs = [random_text(4, 2, 2), random_text(1, 2, 3, seed=1), *kbrn.parameters()]

    def total() -> Tensor:
        output, h = kbrn(inputs[0], inputs[1])
        return output.square().sum() + h.sin().sum()

    def only(wanted: list[Tensor]) -> list[Tensor]:
        for t in inputs:
            t.requires_grad_(any(t is w for w in wanted))
        return list(torch.autograd.grad(total(), wanted))

    for t, gradient in zip(inputs, only(inputs), strict=True):
        close(only([t])[0], gradient)
    for t in inputs:
        t.requires_grad_(False)
    assert not total().requires_grad


def test_l1() -> None:
    kbrn = build(EVERY["both-ways-norm"])
    expected = sum(cell.activation.coefficients.abs().sum() for cell in kbrn.cells)
    assert kbrn.l1().shape == ()
    close(kbrn.l1(), expected)
    close(sum(cell.l1() for cell in kbrn.cells), expected)
    kbrn.l1().backward()
    for cell in kbrn.cells:
        coefficients = cell.activation.coefficients
        close(coefficients.grad, coefficients.detach().sign())
