"""Derivatives of derivatives, and torch.func's transforms, agree with plain autograd."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch.nn import BatchNorm1d

from tests.promises import assert_torch_func
from tests.sequence.layers import of_derivatives, of_some
from tests.sequence.texts import SIZE, close, random_text
from tests.sequence.variants import Variant, like, parts_of, plain


def of_parameters(
    layer: Any, *state: Tensor, **keywords: Any
) -> tuple[Callable[..., Any], list[Tensor]]:
    """The layer as a function of its inputs, the parts of a state and parameters; the last two."""
    names = [name for name, _ in layer.named_parameters()]
    kind = layer.initial_state(1) if state else None

    def call(x: Tensor, *tensors: Tensor) -> tuple[Tensor, ...]:
        given = dict(zip(names, tensors[len(state) :], strict=True))
        before = plain(like(kind, tensors[: len(state)])) if state else None
        output, end = torch.func.functional_call(layer, given, (x, before), keywords)
        return output, *parts_of(end)[:2]

    leaves = (*state, *layer.parameters())
    return call, [t.detach().clone().requires_grad_() for t in leaves]


@of_derivatives
def test_second_derivatives(variant: Variant) -> None:
    """By texts, states and parameters, in training; the first are those of the equations."""
    layer, state = variant.tiny().train(), []
    if not {"pooling", "bidirectional"} & {*variant.options}:  # whose states are not any numbers
        state = [random_text(*t.shape, seed=7) for t in parts_of(layer.initial_state(2))]
    call, leaves = of_parameters(layer, *state, ptr=torch.tensor([0, 2, 3]))
    x = random_text(3, 2).requires_grad_()
    assert torch.autograd.gradgradcheck(call, (x, *leaves), fast_mode=True)


@of_some
def test_transforms(variant: Variant) -> None:
    """By inputs and parameters; in training where norms keep nothing, as torch.func asks for it."""
    layer, x = variant.build(), random_text(4, 3, SIZE)
    call, leaves = of_parameters(layer)
    assert_torch_func(lambda *given: call(*given)[:1], x, *leaves)
    if any(isinstance(module, BatchNorm1d) for module in layer.modules()):
        torch.func.replace_all_batch_norm_modules_(layer.train())
        assert_torch_func(lambda *given: call(*given)[:1], x, *leaves, rtol=1e-9, atol=1e-10)


@of_some
def test_an_ensemble_of_parameters(variant: Variant) -> None:
    """vmap over stacked parameters: one layer a slice."""
    layers = [variant.build(seed=s) for s in range(3)]
    x = random_text(5, 2, SIZE)
    stacked, buffers = torch.func.stack_module_state(layers)

    def one(tensors: dict[str, Tensor]) -> Tensor:
        return torch.func.functional_call(layers[0], tensors, (x,))[0]

    found = torch.func.vmap(one)({k: v.detach() for k, v in {**stacked, **buffers}.items()})
    close(found, torch.stack([layer(x)[0] for layer in layers]))
