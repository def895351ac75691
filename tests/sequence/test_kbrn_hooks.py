"""Hooks on parts of a KBRN are called, in training too, and change no number."""

from __future__ import annotations

import copy

import pytest
import torch
from torch.nn import Module
from torch.nn.utils import prune

from tests.sequence.kbrn_variants import (
    EVERY,
    IN_TRAINING,
    assert_equations,
    assert_same_running_set,
    build,
    norms,
)
from tests.sequence.texts import SIZE, close, pointers, random_text, texts

PARTS = ["lin_input", "lin_recurrent", "activation"]
HOOKS = [
    "register_forward_hook",
    "register_forward_pre_hook",
    "register_full_backward_hook",
    "register_full_backward_pre_hook",
]
of_hooks = pytest.mark.parametrize("register", HOOKS)
pytestmark = pytest.mark.filterwarnings("ignore:Full backward hook is firing")


@of_hooks
@pytest.mark.parametrize("part", PARTS)
def test_hooks_in_training(part: str, register: str) -> None:
    """Also at a step with one text left, where a lone BatchNorm1d would refuse."""
    for name in ["norm-stack", "norm-gaussian", "both-ways-norm"]:
        kbrn, calls = build(IN_TRAINING[name]).train(), []
        plain, pieces = copy.deepcopy(kbrn), texts(5, 3, 0, 2)
        for cell in kbrn.cells:
            getattr(cell.get_submodule(part), register)(lambda *_, calls=calls: calls.append(1))
        results = []
        for layer in (kbrn, plain):
            x = torch.cat(pieces).requires_grad_()
            output, h_n = layer(x, ptr=pointers(pieces))
            total = output.square().sum() + h_n.sin().sum()
            results.append([output, h_n, *torch.autograd.grad(total, [x, *layer.parameters()])])
        assert calls
        for found, expected in zip(*results, strict=True):
            close(found, expected, rtol=1e-9, atol=1e-10)
        for found, expected in zip(norms(kbrn), norms(plain), strict=True):
            assert_same_running_set(found, expected)


@pytest.mark.parametrize("name", EVERY)
@pytest.mark.parametrize("training", [False, True], ids=["evaluation", "training"])
def test_parts_that_are_called_one_by_one_compute_the_equations(name: str, training: bool) -> None:
    kbrn, calls = build(EVERY[name]).train(training), []
    for part in kbrn.modules():
        part.register_forward_hook(lambda *_: calls.append(1))
    assert_equations(kbrn, EVERY[name], texts(5, 2, 5, 2))
    assert_equations(kbrn, EVERY[name], texts(6, 0, 3, 1), from_state=False)
    assert calls


def test_a_hook_changes_what_it_returns() -> None:
    for name in ["relu", "norm"]:
        for part in PARTS[: 3 + (name == "norm")]:
            kbrn, x = build(EVERY[name]), random_text(5, 2, SIZE)
            before, _ = kbrn(x)
            kbrn.cells[0].get_submodule(part).register_forward_hook(lambda *args: 2 * args[2])
            assert not torch.allclose(kbrn(x)[0], before)


@pytest.mark.parametrize("training", [False, True], ids=["evaluation", "training"])
@pytest.mark.parametrize("name", ["relu", "norm-gaussian"])
def test_pruned_coefficients(name: str, training: bool) -> None:
    """The aim of the l1 penalty: centres that are not needed go."""
    kbrn, plain = (build(EVERY[name]).train(training) for _ in range(2))
    activation = kbrn.cells[0].activation
    prune.l1_unstructured(activation, "coefficients", amount=0.4)
    with torch.no_grad():
        plain.cells[0].activation.coefficients.mul_(activation.coefficients_mask)
    x = random_text(5, 3, SIZE)
    output, expected = kbrn(x)[0], plain(x)[0]
    close(output, expected)
    (found,) = torch.autograd.grad(output.square().sum(), activation.coefficients_orig)
    (of_plain,) = torch.autograd.grad(
        expected.square().sum(), plain.cells[0].activation.coefficients
    )
    close(found, of_plain * activation.coefficients_mask)


@pytest.mark.parametrize("name", ["centers", "coefficients"])
def test_parametrized_expansions(name: str) -> None:
    """A parametrization of the activation's own tensors is followed and trained."""

    class Halved(Module):
        def forward(self, t: torch.Tensor) -> torch.Tensor:
            return t / 2

    for variant in ["relu", "norm-gaussian"]:
        kbrn, plain = build(EVERY[variant]), build(EVERY[variant])
        torch.nn.utils.parametrize.register_parametrization(
            kbrn.cells[0].activation, name, Halved()
        )
        with torch.no_grad():
            getattr(plain.cells[0].activation, name).div_(2)
        x = random_text(5, 2, SIZE)
        output, _ = kbrn(x)
        close(output, plain(x)[0])
        original = kbrn.cells[0].activation.parametrizations[name].original
        (found,) = torch.autograd.grad(output.square().sum(), original)
        (expected,) = torch.autograd.grad(
            plain(x)[0].square().sum(), getattr(plain.cells[0].activation, name)
        )
        close(found, expected / 2)
