"""The stepped walk with recurrent gates equals its definition: outputs, every gradient."""

from __future__ import annotations

import itertools
from typing import Any

import pytest
import torch
from torch import Tensor

from pyg_kernels.ops.packing import Packing
from pyg_kernels.ops.recurrent_scan import Form, Gates, recurrent_scan, reference

CHANNELS = 3
LENGTHS = ([4, 4], [5, 3, 3, 1, 0], [1], [0])
PARTS = ("output", "output_map", "bias", "highway", "mask")


def leaf(*shape: int) -> Tensor:
    return torch.randn(*shape, dtype=torch.float64, requires_grad=True)


def build(packing: Packing, order: int, width: int, parts: tuple[str, ...]) -> dict[str, Any]:
    tokens, texts = packing.num_tokens, packing.num_texts
    gated = CHANNELS if "output" in parts else 0
    gates = Gates(
        leaf(tokens, width),
        leaf(width + gated, CHANNELS),
        leaf(tokens, CHANNELS) if "output" in parts else None,
        leaf(CHANNELS, CHANNELS) if "output_map" in parts else None,
        leaf(CHANNELS) if "bias" in parts else None,
        torch.rand(tokens, CHANNELS, dtype=torch.float64).requires_grad_()
        if "highway" in parts
        else None,
        leaf(tokens, CHANNELS) if "highway" in parts else None,
        torch.rand(texts, CHANNELS, dtype=torch.float64) if "mask" in parts else None,
    )
    return {
        "gates": gates,
        "h": leaf(texts, CHANNELS),
        "initial": leaf(order, texts, CHANNELS),
        "projections": [leaf(tokens, CHANNELS) for _ in range(order)],
    }


def inputs_of(given: dict[str, Any]) -> list[Tensor]:
    tensors = (*given["gates"], given["h"], given["initial"], *given["projections"])
    return [t for t in tensors if t is not None and t.requires_grad]


EVERY = list(
    itertools.product(
        (1, 2, 3),
        ("mul", "add"),
        (True, False),
        ("c", "z", "sum"),
        (None, "tanh", "relu"),
        (CHANNELS, 1),
        [c for k in range(len(PARTS) + 1) for c in itertools.combinations(PARTS, k)],
    )
)


@pytest.mark.parametrize("lengths", LENGTHS, ids=str)
def test_steps_are_the_definition(lengths: list[int]) -> None:
    torch.manual_seed(0)
    packing = Packing.of_lengths(lengths)
    for order, combine, normalize, state, act, width, parts in EVERY[:: 37 if lengths else 1]:
        form = Form(combine, normalize, state, act)
        given = build(packing, order, width, parts)
        found = recurrent_scan(form, packing, **given)
        expected = reference.recurrent_scan(form, packing, **given)
        inputs = inputs_of(given)
        for a, b in zip(found, expected, strict=True):
            torch.testing.assert_close(a, b, rtol=1e-11, atol=1e-12)
        if not packing.num_tokens:
            continue
        seeds = [torch.randn_like(t) for t in expected]
        for used in (slice(None), slice(0, 1), slice(1, None)):  # all, the outputs, the states
            gradients = [
                torch.autograd.grad(
                    outs[used],
                    inputs,
                    seeds[used],
                    allow_unused=True,
                    materialize_grads=True,
                    retain_graph=True,
                )
                for outs in (found, expected)
            ]
            for a, b in zip(*gradients, strict=True):
                torch.testing.assert_close(a, b, rtol=1e-9, atol=1e-11)


def test_second_derivatives() -> None:
    torch.manual_seed(0)
    packing = Packing.of_lengths([3, 1])
    given = build(packing, 2, CHANNELS, ("output", "output_map", "bias", "highway"))
    inputs = inputs_of(given)
    form = Form("mul", True, "c", "tanh")

    def run(*tensors: Tensor) -> tuple[Tensor, ...]:
        gates = Gates(*tensors[:7])
        return recurrent_scan(form, packing, gates, tensors[7], tensors[8], tensors[9:])

    assert torch.autograd.gradcheck(run, inputs)
    outs = [sum(t.sum() for t in run(*inputs)) for _ in range(2)]
    plain = torch.autograd.grad(outs[0], inputs)
    kept = torch.autograd.grad(outs[1], inputs, create_graph=True)
    for a, b in zip(kept, plain, strict=True):
        torch.testing.assert_close(a, b, rtol=1e-9, atol=1e-11)


def test_other_activations_take_the_definition() -> None:
    torch.manual_seed(0)
    packing = Packing.of_lengths([4, 2])
    given = build(packing, 2, 1, ("bias",))
    named = recurrent_scan(Form(act="tanh"), packing, **given)
    called = recurrent_scan(Form(act=lambda x: torch.tanh(x)), packing, **given)
    for a, b in zip(named, called, strict=True):
        torch.testing.assert_close(a, b, rtol=1e-12, atol=1e-13)


def test_half_precision_is_stepped_in_single() -> None:
    torch.manual_seed(0)
    packing = Packing.of_lengths([40, 30])
    given = build(packing, 2, CHANNELS, ("output", "bias"))
    half = {
        "gates": Gates(*(None if t is None else t.bfloat16() for t in given["gates"])),
        "h": given["h"].bfloat16(),
        "initial": given["initial"].bfloat16(),
        "projections": [p.bfloat16() for p in given["projections"]],
    }
    single = {
        "gates": half["gates"].to(torch.float32),
        "h": half["h"].float(),
        "initial": half["initial"].float(),
        "projections": [p.float() for p in half["projections"]],
    }
    form = Form("mul", True, "c", "tanh")
    for a, b in zip(
        recurrent_scan(form, packing, **half), recurrent_scan(form, packing, **single), strict=True
    ):
        assert a.dtype == torch.bfloat16
        assert torch.equal(a, b.bfloat16())
