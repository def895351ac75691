"""Initial values, copies and repr of the networks."""

from __future__ import annotations

import copy
from typing import Any

import pytest
import torch

from pyg_kernels.nn import KernelActivation
from pyg_kernels.sequence import KBRN, KBRNCell
from tests.sequence.kbrn_equations import GREENS
from tests.sequence.kbrn_variants import build
from tests.sequence.texts import SIZE, close, random_text


def test_repr() -> None:
    text = repr(
        KBRN(3, 4, num_centers=20, green="abs", normalize=False, init="tanh", affine=True,
             shared=True, init_range=(-1, 3), num_layers=2, batch_first=True, bidirectional=True)
    )  # fmt: skip
    for part in ["num_centers=20", "green='abs'", "normalize=False", "init='tanh'", "affine=True",
                 "shared=True", "init_range=(-1", "num_layers=2", "batch_first=True",
                 "bidirectional=True"]:  # fmt: skip
        assert part in text
    assert "\n" not in text
    assert "bandwidth=0.5" in repr(KBRNCell(3, 4, green="gaussian", bandwidth=0.5))
    assert "bias=False" in repr(KBRN(3, 4, bias=False))


@pytest.mark.parametrize("made", [KBRN, KBRNCell])
def test_options_reach_the_activation(made: Any) -> None:
    """The initial function is that of a KernelActivation with the same options."""
    a = torch.linspace(-4, 4, 33).unsqueeze(1).expand(-1, 4)
    for options in [
        {"init": "tanh", "affine": True},
        {"init": "tanh", "green": "abs", "init_range": (-1, 3)},
        {"init": "relu", "num_centers": 5},
        {"init": "tanh", "green": "gaussian", "bandwidth": 0.2, "num_centers": 30},
        {"init": "identity", "green": "gaussian", "shared": True, "affine": True},
    ]:
        made_of = made(3, 4, normalize=False, **options)
        cell = made_of.cells[0] if made is KBRN else made_of
        close(cell.activation(a), KernelActivation(4, **options)(a), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("green", ["relu", "abs"])
def test_float32_where_states_explode(green: str) -> None:
    """Of positive numbers alone, so that no digit is lost: to 1e15 and beyond, as in float64."""
    kbrn = build({"green": green, "normalize": False})
    with torch.no_grad():
        for name, parameter in kbrn.named_parameters():
            (parameter.neg_ if name.endswith("centers") else parameter.abs_)()
        kbrn.cells[0].activation.centers.sub_(3.0)
        kbrn.float().double()
    single = copy.deepcopy(kbrn).float()
    results = []
    for layer in (kbrn, single):
        x = random_text(30, 3, SIZE).abs().float().to(layer.cells[0].lin_input.weight.dtype)
        x.requires_grad_()
        output, _ = layer(x)
        results.append([output, *torch.autograd.grad(output[-1].sum(), [x, *layer.parameters()])])
    assert results[0][0].max() > 1e10
    for expected, found in zip(*results, strict=True):
        close(found.double(), expected, rtol=1e-3, atol=1e-4 * expected.abs().max().item())


def test_activation_of_other_units_is_refused() -> None:
    for other in (KernelActivation(3), KernelActivation(9, shared=True)):
        cell = KBRNCell(3, 6, normalize=False)
        cell.activation = other
        with pytest.raises(ValueError, match="num_units"):
            cell(torch.randn(4, 3))


def test_another_activation_is_reset_if_it_can_be() -> None:
    kbrn = KBRN(3, 6)
    kbrn.cells[0].activation = torch.nn.Tanh()
    before = kbrn.cells[0].lin_recurrent.weight.detach().clone()
    kbrn.reset_parameters()
    assert not torch.equal(kbrn.cells[0].lin_recurrent.weight, before)


def test_a_text_alone_gives_the_shift_exactly() -> None:
    """In single precision too, however large what it reads."""
    kbrn = KBRN(3, 6, init="tanh", affine=True)
    x = 1e4 * torch.randn(7, 3)
    output, _ = kbrn(x, ptr=torch.tensor([0, 5, 7]))
    expected = kbrn.cells[0].activation.eval()
    expected.norm = None
    bias = torch.zeros(1, 6)
    torch.testing.assert_close(output[2:5], expected(bias).expand(3, -1), rtol=0, atol=1e-6)


@pytest.mark.parametrize("green", GREENS)
def test_saved_memory_does_not_grow_with_the_centers(green: str) -> None:
    sizes = []
    for count in (10, 300):
        kbrn, seen = KBRN(4, 8, num_centers=count, green=green, normalize=False), [0]

        def count_saved(t: torch.Tensor, seen: list[int] = seen) -> torch.Tensor:
            seen[0] += t.numel()
            return t

        with torch.autograd.graph.saved_tensors_hooks(count_saved, lambda t: t):
            kbrn(torch.randn(20, 30, 4))
        sizes.append(seen[0])
    tables = 20 * 4 * 8 * 300 if green == "gaussian" else 7 * 8 * 300  # by step, or once
    assert sizes[1] - sizes[0] <= tables


@pytest.mark.parametrize("green", ["relu", "gaussian"])
def test_autocast_changes_no_precision_in_the_steps(green: str) -> None:
    """The fused steps and the loop that second derivatives take agree."""
    kbrn = KBRN(8, 32, green=green, normalize=False)
    x = torch.randn(10, 4, 8)
    with torch.autocast("cpu", torch.bfloat16):
        output, _ = kbrn(x)
        weight = kbrn.cells[0].lin_recurrent.weight
        once = torch.autograd.grad(output.float().sum(), weight, retain_graph=True)[0]
        again = torch.autograd.grad(output.float().sum(), weight, create_graph=True)[0]
    torch.testing.assert_close(once, again, rtol=1e-4, atol=1e-4)
