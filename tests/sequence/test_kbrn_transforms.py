"""Derivatives of the layer in training, where each step mixes the texts."""

from __future__ import annotations

import copy
from typing import Any

import pytest
import torch
from torch import Tensor

from tests.sequence.equations import assert_same_running_set
from tests.sequence.kbrn_equations import GREENS, random_kbrn
from tests.sequence.kbrn_variants import EVERY, build, norms
from tests.sequence.test_transforms import of_parameters
from tests.sequence.texts import SIZE, close, random_text

CASES: dict[str, dict[str, Any]] = {
    **{green: {"green": green, "affine": True} for green in GREENS},
    "stack": {"num_layers": 2},
    "both-ways": {"bidirectional": True, "green": "gaussian"},
}
of_cases = pytest.mark.parametrize("name", CASES)


@of_cases
def test_derivatives(name: str) -> None:
    """The first and the second."""
    kbrn = random_kbrn(2, 3, **CASES[name]).train()
    call, parameters = of_parameters(kbrn, ptr=torch.tensor([0, 2, 2, 5, 7]))
    x = random_text(7, 2).requires_grad_()
    assert torch.autograd.gradcheck(call, (x, *parameters), fast_mode=True)
    assert torch.autograd.gradgradcheck(call, (x, *parameters), fast_mode=True)


@of_cases
def test_transforms_of_norms_that_keep_nothing(name: str) -> None:
    """As torch.func asks for it: functional batch normalisation."""
    kbrn = random_kbrn(SIZE, 3, **CASES[name]).train()
    torch.func.replace_all_batch_norm_modules_(kbrn)
    x = random_text(4, 3, SIZE).requires_grad_()
    parameters = {k: v.detach() for k, v in kbrn.named_parameters()}

    def total(parameters: dict[str, Tensor], x: Tensor) -> Tensor:
        return torch.func.functional_call(kbrn, parameters, (x,))[0].square().sum()

    expected = torch.autograd.grad(kbrn(x)[0].square().sum(), [x, *kbrn.parameters()])
    given = x.detach()
    for a, b in zip(torch.func.grad(total)(parameters, given).values(), expected[1:], strict=True):
        close(a, b, rtol=1e-9, atol=1e-10)
    several = torch.stack([given, 2 * given])
    close(
        torch.func.vmap(total, in_dims=(None, 0))(parameters, several),
        torch.stack([total(parameters, t) for t in several]),
    )
    close(torch.func.jacrev(total, argnums=1)(parameters, given), expected[0], 1e-9, 1e-10)
    tangent = random_text(*x.shape, seed=4)
    _, directional = torch.func.jvp(lambda t: total(parameters, t), (given,), (tangent,))
    close(directional, (expected[0] * tangent).sum(), rtol=1e-9, atol=1e-10)


def test_running_sets_change_after_an_evaluation_that_is_differentiated() -> None:
    """Gradients are those of the numbers that were used."""
    for name in ["norm-gaussian", "norm-stack"]:
        kbrn, x = build(EVERY[name]), random_text(5, 3, SIZE).requires_grad_()
        inputs = [x, *kbrn.parameters()]
        expected = torch.autograd.grad(kbrn(x)[0].square().sum(), inputs)
        output, _ = kbrn(x)
        kbrn.train()(x)
        try:
            found = torch.autograd.grad(output.square().sum(), inputs)
        except RuntimeError:  # autograd's refusal of what changed in place, as BatchNorm1d's own
            continue
        for a, b in zip(found, expected, strict=True):
            close(a, b)


def test_compiled_in_training() -> None:
    torch._dynamo.reset()
    kbrn = build(EVERY["norm"]).train()
    plain = copy.deepcopy(kbrn)
    compiled = torch.compile(lambda x: 2 * kbrn(x.sin())[0].mean(dim=0), backend="aot_eager")
    x = random_text(5, 3, SIZE).requires_grad_()
    for _ in range(2):
        expected, found = 2 * plain(x.sin())[0].mean(dim=0), compiled(x)
        close(found, expected)
        wanted = torch.autograd.grad(expected.square().sum(), [x, *plain.parameters()])
        got = torch.autograd.grad(found.square().sum(), [x, *kbrn.parameters()])
        for a, b in zip(got, wanted, strict=True):
            close(a, b)
    assert_same_running_set(norms(kbrn)[0], norms(plain)[0])
