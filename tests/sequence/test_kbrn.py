"""Kernel-based networks: the activation within the steps, normalisation, initial values."""

from __future__ import annotations

import copy
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.nn import BatchNorm1d
from torch.nn.utils.parametrizations import weight_norm

from pyg_kernels.nn import KernelActivation
from pyg_kernels.sequence import KBRN, KBRNCell
from tests.nn.activation_equations import GREENS
from tests.sequence.equations import (
    FORMS,
    assert_equations,
    assert_same_running_set,
    read_in_form,
    reading,
)
from tests.sequence.kbrn import EVERY, FAMILY
from tests.sequence.texts import (
    F64,
    SIZE,
    close,
    joined,
    pointers,
    random_text,
    texts,
)
from tests.sequence.variants import Options, Variant

HIDDEN = FAMILY.hidden_size
IN_TRAINING = [name for name, options in EVERY.items() if options.get("normalize", True)]


def made(options: str | Options, **more: Any) -> tuple[Variant, KBRN]:
    """A variant, of the given options or of those with this name, and its network."""
    variant = Variant(FAMILY, EVERY[options] if isinstance(options, str) else options)
    return variant, variant.build(**more)


def norms(kbrn: KBRN) -> list[BatchNorm1d]:
    return [cell.activation.norm for cell in kbrn.cells]


def running_sets(kbrn: Any) -> list[Tensor]:
    return [buffer.clone() for buffer in kbrn.buffers()]


def assert_kept(kbrn: Any, before: list[Tensor]) -> None:
    assert before and all(map(torch.equal, kbrn.buffers(), before))


@pytest.mark.parametrize("shared", [False, True], ids=["own", "shared"])
@pytest.mark.parametrize("green", ["relu", "abs"])
def test_inputs_at_the_kinks(green: str, shared: bool) -> None:
    """Inputs are exact and often equal a centre, where derivatives are those from the left."""
    options = {"green": green, "normalize": False, "affine": True, "shared": shared}
    variant, kbrn = made(options)
    generator = torch.Generator().manual_seed(0)

    def eighths(*shape: int) -> Tensor:
        return torch.randint(-2, 3, shape, generator=generator).double() * 0.5

    with torch.no_grad():
        for parameter in kbrn.parameters():
            parameter.copy_(eighths(*parameter.shape))
    pieces = [eighths(n, SIZE) for n in [3, 0, 2, 3]]
    (rows,) = reading(variant, kbrn, pieces).rows
    assert (rows.unsqueeze(-1) == kbrn.cells[0].activation.centers).any()
    assert_equations(variant, kbrn, pieces, from_state=False)


def test_l1() -> None:
    """It is the sum over cells of the value for each activation."""
    _, kbrn = made("both-ways-norm")
    of_cells = [cell.activation.coefficients.abs().sum() for cell in kbrn.cells]
    close([kbrn.l1(), *(cell.l1() for cell in kbrn.cells)], [sum(of_cells), *of_cells])


def test_other_activations() -> None:
    """One with other units is refused; one that cannot be reset is left as it is."""
    for other in (KernelActivation(3), KernelActivation(9, shared=True)):
        cell = KBRNCell(3, 6, normalize=False)
        cell.activation = other
        with pytest.raises(ValueError, match="num_units"):
            cell(torch.randn(4, 3))
    cell.activation = torch.nn.Tanh()
    before = cell.lin_recurrent.weight.detach().clone()
    cell.reset_parameters()
    assert not torch.equal(cell.lin_recurrent.weight, before)


def test_what_is_set_on_a_layer() -> None:
    """A step is (B, H), so the last dimension is dim=1; a reset draws a parametrized map anew."""
    layer, x = KBRN(3, 3, num_centers=7, normalize=False), torch.randn(5, 2, 3)
    expected, activation = layer(x)[0], layer.cells[0].activation
    activation.dim = 1
    assert torch.equal(layer(x)[0], expected)
    activation.dim = 0
    with pytest.raises(ValueError, match="dim=0"):
        layer(x)
    lin = weight_norm(layer.cells[0].lin_recurrent)
    before = lin.weight.detach().clone()
    layer.reset_parameters()
    assert not torch.equal(lin.weight, before)


def test_a_text_alone_gives_the_shift_exactly() -> None:
    """This holds in single precision too, however large the inputs are."""
    kbrn = KBRN(3, 6, init="tanh", affine=True)
    x = 1e4 * torch.randn(7, 3)
    output, _ = kbrn(x, ptr=torch.tensor([0, 5, 7]))
    expected = kbrn.cells[0].activation.eval()
    expected.norm = None
    bias = torch.zeros(1, 6)
    torch.testing.assert_close(output[2:5], expected(bias).expand(3, -1), rtol=0, atol=1e-6)


@pytest.mark.parametrize("green", GREENS)
def test_saved_memory_does_not_grow_with_the_centers(green: str) -> None:
    sizes: list[int] = []

    def count_saved(t: Tensor) -> Tensor:
        sizes[-1] += t.numel()
        return t

    for count in (10, 300):
        sizes.append(0)
        kbrn = KBRN(4, 8, num_centers=count, green=green, normalize=False)
        with torch.autograd.graph.saved_tensors_hooks(count_saved, lambda t: t):
            kbrn(torch.randn(20, 30, 4))
    tables = 20 * 4 * 8 * 300 if green == "gaussian" else 7 * 8 * 300  # by step, or once
    assert sizes[1] - sizes[0] <= tables


# Normalisation in training: by the tokens of each step, and with which running statistics


@pytest.mark.parametrize("name", IN_TRAINING)
def test_equations_in_training(name: str) -> None:
    """Running statistics, too, after each call; with a single text left, and with empty texts."""
    variant, kbrn = made(name)
    kbrn.train()
    assert_equations(variant, kbrn, texts(4, 2, 5, 4), FORMS[:6])
    assert_equations(variant, kbrn, texts(4, 4, 4, 4), ["grid"], from_state=False)
    for lengths in [(6, 0, 2, 1), (3, 1), (0, 2, 2, 0, 0)]:
        assert_equations(variant, kbrn, texts(*lengths))


@pytest.mark.parametrize("name", ["norm", "norm-abs", "norm-gaussian"])
def test_texts_that_are_all_the_same(name: str) -> None:
    """At variance 0 all outputs are f(beta); the gradients, though large, are the equations'."""
    canceling = ("lin_input.bias", "lin_input.weight", "lin_recurrent.weight")
    for count in [2, 4]:  # their means are exact
        variant, kbrn = made(name, scale=0.2)
        assert_equations(variant, kbrn.train(), texts(3) * count, ["grid"], False, canceling)


@pytest.mark.parametrize("name", ["norm", "norm-abs", "norm-gaussian"])
def test_the_cell_in_training(name: str) -> None:
    """The cell reads a batch of single tokens."""
    (variant, kbrn), x = made(name), random_text(5, 3, SIZE)
    stepped = copy.deepcopy(kbrn.train().cells[0])
    norm = copy.deepcopy(stepped.activation.norm)
    (seen,) = reading(variant, kbrn, [*x.unbind(1)]).rows
    h, outputs = None, []
    for x_t in x:
        h = stepped(x_t, h)
        outputs.append(h)
    close(torch.stack(outputs), kbrn(x)[0])
    for rows in seen.detach().split(3):
        norm(rows)
    assert_same_running_set(stepped.activation.norm, norm)


def test_a_batch_of_one_text_is_an_error_as_batch_norms() -> None:
    """In every form, also for one token among empty texts and for one row of a cell."""
    (_, kbrn), pieces = made("norm-stack"), texts(4)
    cell, before = kbrn.cells[0], running_sets(kbrn)
    calls = [lambda form=form: read_in_form(kbrn, pieces, form=form) for form in FORMS]
    calls += [lambda: cell(pieces[0][0]), lambda: cell(pieces[0][:1])]
    calls += [lambda: kbrn(pieces[0][:1], ptr=torch.tensor([0, 0, 1, 1]))]
    for call in calls:
        kbrn.train()
        with pytest.raises(ValueError, match="normalize=True in training: the tokens of one text"):
            call()
        assert_kept(kbrn, before)
        kbrn.eval()
        call()
    KBRNCell(SIZE, HIDDEN, normalize=False)(torch.randn(1, SIZE))


@pytest.mark.parametrize("name", IN_TRAINING)
def test_empty_inputs_keep_nothing(name: str) -> None:
    _, kbrn = made(name)
    before = running_sets(kbrn.train())
    for lengths in ([], [0], [0, 0, 0]):
        pieces, count = texts(*lengths), len(lengths)
        output, h_n = kbrn(joined(pieces), ptr=pointers(pieces))
        assert output.shape[0] == 0 and h_n.shape == (len(kbrn.cells), count, HIDDEN)
        assert (h_n == 0).all()
        grid, _ = kbrn(torch.zeros(0, count, SIZE, dtype=F64))
        assert grid.shape[:2] == (0, count)
    kbrn(torch.zeros(4, 0, SIZE, dtype=F64))
    kbrn.cells[0](torch.zeros(0, SIZE, dtype=F64))
    assert_kept(kbrn, before)


@pytest.mark.parametrize("momentum", [None, 0.5, 0.0, 1.0])
def test_momentum(momentum: float | None) -> None:
    """None is the average over all calls so far, as in BatchNorm1d."""
    variant, kbrn = made("both-ways-norm")
    for norm in norms(kbrn):
        norm.momentum = momentum
    for _ in range(2):
        assert_equations(variant, kbrn.train(), texts(4, 2, 5))


@pytest.mark.traces
def test_padded_texts_compiled() -> None:
    """Running statistics count the tokens alone, whose number compilers do not know."""
    _, kbrn = made("both-ways-norm")
    norms(kbrn)[0].momentum = None
    plain = copy.deepcopy(kbrn.train())
    compiled = torch.compile(kbrn, fullgraph=True, backend="aot_eager")
    for lengths in ([6, 2, 0, 4], [1, 6, 3, 3], [0, 0, 0, 0]):
        x = torch.randn(6, 4, SIZE, dtype=F64)
        given = torch.tensor(lengths)
        close(compiled(x, lengths=given)[0], plain(x, lengths=given)[0])
        close(running_sets(kbrn), running_sets(plain))


@pytest.mark.traces
def test_half_precision_compiled_is_summed_in_single() -> None:
    torch.manual_seed(0)
    kbrn = KBRN(SIZE, 3, num_centers=5).half().train()
    compiled = torch.compile(kbrn, fullgraph=True, backend="aot_eager")
    compiled(30 * torch.randn(30, 40, SIZE).half(), lengths=torch.full((40,), 20))
    assert all(buffer.isfinite().all() for buffer in kbrn.buffers())


@pytest.mark.parametrize("training", [True, False], ids=["training", "evaluation"])
@pytest.mark.parametrize("name", ["norm-stack", "norm-gaussian"])
def test_norms_that_keep_nothing(name: str, training: bool) -> None:
    """With track_running_stats=False, evaluation uses batch statistics, too."""
    variant, kbrn = made(name)
    for cell in kbrn.cells:
        norm = BatchNorm1d(HIDDEN, track_running_stats=False).double()
        torch.nn.init.normal_(norm.weight)
        torch.nn.init.normal_(norm.bias)
        cell.activation.norm = norm
    assert_equations(variant, kbrn.train(training), texts(4, 2, 5, 2))


@pytest.mark.parametrize("name", ["norm-stack", "norm-abs"])
def test_norms_frozen_in_training(name: str) -> None:
    """As for users of BatchNorm1d, the mode of the norm itself counts."""
    variant, kbrn = made(name)
    for norm in norms(kbrn.train()):
        norm.eval()
    before = running_sets(kbrn)
    assert_equations(variant, kbrn, texts(4, 0, 5, 1))
    kbrn(texts(4)[0])
    assert_kept(kbrn, before)
    kbrn.eval()
    norms(kbrn)[0].train()
    assert_equations(variant, kbrn, texts(4, 3, 5, 4))
    assert not torch.equal(norms(kbrn)[0].running_mean, before[0])


@pytest.mark.parametrize("norm", [torch.nn.LayerNorm(HIDDEN), torch.nn.Identity()], ids=str)
def test_a_norm_of_ones_own_is_called(norm: torch.nn.Module) -> None:
    variant, kbrn = made("norm")
    kbrn.cells[0].activation.norm = norm.double()
    assert_equations(variant, kbrn, texts(4, 2, 5))


@pytest.mark.parametrize("mode", [torch.no_grad, torch.inference_mode])
@pytest.mark.parametrize("name", ["norm", "norm-gaussian", "both-ways-norm"])
def test_training_without_gradients(name: str, mode: Any) -> None:
    """It updates the running statistics as BatchNorm1d does."""
    kbrn, other = (made(name)[1].train() for _ in range(2))
    x, ptr = torch.cat(texts(4, 2, 5)), torch.tensor([0, 4, 6, 11])
    with mode():
        found, _ = kbrn(x, ptr=ptr)
    close(found, other(x, ptr=ptr)[0])
    close(running_sets(kbrn), running_sets(other))
    assert not any(buffer.requires_grad for buffer in kbrn.buffers())


def test_large_means() -> None:
    """The variance is computed about the mean, not as a difference of squares."""
    _, kbrn = made({}, scale=0.3)
    torch.nn.init.constant_(kbrn.cells[0].lin_input.bias, 1e4)
    single, pieces = copy.deepcopy(kbrn.train()).float(), texts(4, 2, 5, 5)
    x, ptr = torch.cat(pieces), pointers(pieces)
    close(single(x.float(), ptr=ptr)[0].double(), kbrn(x, ptr=ptr)[0], rtol=0.05, atol=0.05)
    a, b = (norms(layer)[0].running_var.double() for layer in (single, kbrn))
    close(a, b, rtol=0.02, atol=0.02)
