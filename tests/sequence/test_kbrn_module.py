"""Initial values, copies and repr of the networks."""

from __future__ import annotations

import copy
import pickle
from typing import Any

import pytest
import torch

from pyg_kernels.nn import KernelActivation
from pyg_kernels.sequence import KBRN, KBRNCell
from tests.sequence.kbrn_equations import GREENS
from tests.sequence.kbrn_variants import EVERY, build
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


def test_arguments_by_place() -> None:
    """In DESIGN's order."""
    kbrn = KBRN(3, 4, num_centers=9, green="abs", normalize=False)
    activation = kbrn.cells[0].activation
    assert activation.centers.shape == (4, 9) and activation.norm is None
    assert "green='abs'" in repr(activation)
    assert KBRN(3, 4).cells[0].activation.centers.shape == (4, 100)
    assert KBRN(3, 4).cells[0].activation.norm is not None


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


def test_layers_have_parameters_of_their_own() -> None:
    kbrn = KBRN(3, 4, num_layers=2, bidirectional=True, shared=True)
    assert len({id(p) for p in kbrn.parameters()}) == sum(
        len(list(cell.parameters())) for cell in kbrn.cells
    )


@pytest.mark.parametrize("green", GREENS)
def test_initial_values_are_of_a_reasonable_size(green: str) -> None:
    """Deep in a text, outputs of white input blow up nowhere; tanh begins as nn.RNN."""
    torch.manual_seed(0)
    x = torch.randn(40, 8, 50)
    for normalize in [False, True]:
        for init in ["random", "tanh"]:
            kbrn = KBRN(50, 60, green=green, normalize=normalize, init=init, affine=init == "tanh")
            output, _ = kbrn(x)
            assert output.isfinite().all() and output[-1].std() < 10
            output.square().sum().backward()
            for name, parameter in kbrn.named_parameters():
                assert parameter.grad is not None and parameter.grad.isfinite().all()
                assert parameter.grad.any(), name
    assert output[-1].std() > 0.01


def test_a_seed_repeats_the_random_values() -> None:
    layers = []
    for _ in range(2):
        torch.manual_seed(3)
        layers.append(KBRN(3, 4, num_layers=2))
    for a, b in zip(*(layer.state_dict().values() for layer in layers), strict=True):
        assert torch.equal(a, b)


@pytest.mark.parametrize("name", EVERY)
def test_a_cell_is_pickled(name: str) -> None:
    cell, x = build(EVERY[name]).cells[0], random_text(3, SIZE)
    expected = cell(x)
    close(copy.deepcopy(cell)(x), expected)
    close(pickle.loads(pickle.dumps(cell))(x), expected)


def test_copies_in_training() -> None:
    """A copy goes its own way."""
    kbrn, x = build(EVERY["norm-stack"]).train(), random_text(5, 3, SIZE)
    kbrn(x)
    other = pickle.loads(pickle.dumps(kbrn))
    before = {k: v.clone() for k, v in other.state_dict().items()}
    close(other.eval()(x)[0], kbrn.eval()(x)[0])
    kbrn.train()(x)
    for k, v in other.state_dict().items():
        assert torch.equal(v, before[k])


def test_moving_to_float32_moves_everything() -> None:
    kbrn = build(EVERY["norm-gaussian"]).float()
    output, h_n = kbrn(random_text(5, 2, SIZE).float())
    assert output.dtype == h_n.dtype == torch.float32
    kbrn.train()(random_text(5, 2, SIZE).float())
    tensors = [*kbrn.parameters(), *kbrn.buffers()]
    assert all(t.dtype in (torch.float32, torch.int64) for t in tensors)


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


@pytest.mark.parametrize("training", [False, True], ids=["evaluation", "training"])
def test_float32_where_states_vanish(training: bool) -> None:
    """Long texts whose gradient with respect to their beginning is all but zero."""
    for name, options in EVERY.items():
        kbrn = build(options, scale=0.1).train(training)
        if training and not options.get("normalize", True):
            continue
        x = random_text(80, 5, SIZE)
        expected, _ = copy.deepcopy(kbrn)(x)
        given = x.float().requires_grad_()
        found, _ = kbrn.float()(given)
        close(found.double(), expected, rtol=1e-3, atol=1e-4)
        (gradient,) = torch.autograd.grad(found[-1].sum(), given)
        assert gradient.isfinite().all(), name


@pytest.mark.parametrize("green", GREENS)
def test_it_learns(green: str) -> None:
    """The parity of a few bits, from the last output; with and without normalisation."""
    x = torch.tensor([[i >> k & 1 for k in range(3)] for i in range(8)]).double()
    target = x.sum(dim=1) % 2
    for normalize in [False, True]:
        torch.manual_seed(1)
        kbrn = KBRN(1, 8, num_centers=20, green=green, normalize=normalize, init="tanh",
                    affine=True).double()  # fmt: skip
        readout = torch.nn.Linear(8, 1).double()
        optimizer = torch.optim.Adam([*kbrn.parameters(), *readout.parameters()], lr=0.02)
        for _ in range(150):
            _, h_n = kbrn(x.t().unsqueeze(-1))
            loss = torch.nn.functional.binary_cross_entropy_with_logits(
                readout(h_n[0]).squeeze(-1), target
            )
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        assert loss.item() < 0.2


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
