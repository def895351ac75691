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
    read_by_steps,
    read_in_form,
    reading,
)
from tests.sequence.kbrn import EVERY, FAMILY
from tests.sequence.texts import SIZE, close, pointers, texts
from tests.sequence.variants import Options, Variant, drawn

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
    (variant, kbrn), pieces = made(name), texts(5, 5, 5)
    stepped = copy.deepcopy(kbrn.train())
    (norm,) = copy.deepcopy(norms(kbrn))
    (seen,) = reading(variant, kbrn, pieces).rows
    output, _ = read_by_steps(FAMILY, stepped, pieces, None, "grid")
    close(output, read_in_form(kbrn, pieces, form="grid")[0])
    for rows in seen.detach().split(3):
        norm(rows)
    assert_same_running_set(norms(stepped)[0], norm)


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


@pytest.mark.traces
def test_half_precision_compiled_is_summed_in_single() -> None:
    torch.manual_seed(0)
    kbrn = KBRN(SIZE, 3, num_centers=5).half().train()
    compiled = torch.compile(kbrn, fullgraph=True, backend="aot_eager")
    compiled(30 * torch.randn(30, 40, SIZE).half(), lengths=torch.full((40,), 20))
    assert all(buffer.isfinite().all() for buffer in kbrn.buffers())


NORMS = [{"momentum": m} for m in (None, 0.5, 0.0, 1.0)] + [{"track_running_stats": False}]


@pytest.mark.parametrize("options", NORMS, ids=str)
@pytest.mark.parametrize("name", ["norm-gaussian", "both-ways-norm"])
def test_norms_with_other_options(name: str, options: Options) -> None:
    """As BatchNorm1d: None averages over all calls; evaluation may use batch statistics."""
    variant, kbrn = made(name)
    for cell in kbrn.cells:
        cell.activation.norm = drawn(BatchNorm1d, HIDDEN, scale=1.0, **options)
    for training in (True, True, False):
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
