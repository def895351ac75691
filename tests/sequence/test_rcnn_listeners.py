"""Who listens to a part of a layer is heard: hooks, reparametrized weights, tensors that trace."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.nn import Module
from torch.nn.utils import prune
from torch.nn.utils.parametrizations import weight_norm

from pyg_kernels.sequence import RCNN
from tests.sequence.rcnn_equations import random_text
from tests.sequence.variants import SIZE, SUM, build, close, pointers, texts

FULL: dict[str, Any] = {"output_map": True, "output_gate": True, "highway": True}
MAPS = {
    "input": ["lins.0", "decay_lin", "output_gate_lin", "highway_lin", "output_lin"],
    "recurrent": ["lins.0", "decay_lin", "output_lin", "decay_recurrent", "output_gate_recurrent"],
}
CASES = [(decay, name) for decay, names in MAPS.items() for name in names]
RECURRENT = [name for name, options in SUM.items() if options.get("decay") == "recurrent"]


def results(rcnn: RCNN, parameters: list[Tensor]) -> list[Tensor]:
    """Output, state and gradients of ragged texts that are continued, with dropout's masks."""
    pieces = texts(5, 0, 2, 7)
    ptr = pointers(pieces)
    x = torch.cat(pieces).requires_grad_()
    torch.manual_seed(0)
    _, state = rcnn(x, ptr=ptr)
    output, state = rcnn(x, state, ptr=ptr)
    total = output.sin().sum() + state[0].cos().sum() + state[1].square().sum()
    gradients = torch.autograd.grad(total, [x, *parameters])
    return [output, *state, *gradients]


@pytest.mark.parametrize("name", RECURRENT)
def test_maps_that_are_called_token_by_token_give_the_same(name: str) -> None:
    rcnn = build(SUM[name], state_dropout=0.3)
    expected = results(rcnn, list(rcnn.parameters()))
    for cell in rcnn.cells:
        cell.decay_recurrent.register_forward_hook(lambda *_: None)
    for a, b in zip(results(rcnn, list(rcnn.parameters())), expected, strict=True):
        close(a, b, rtol=1e-9, atol=1e-10)


HOOKS: list[Callable[[Module, Callable[..., None]], Any]] = [
    Module.register_forward_hook,
    Module.register_forward_pre_hook,
    Module.register_full_backward_hook,
    Module.register_full_backward_pre_hook,
]


@pytest.mark.filterwarnings("ignore:Full backward hook is firing")  # on h before the first token
@pytest.mark.parametrize("register", HOOKS, ids=lambda hook: hook.__name__)
@pytest.mark.parametrize(("decay", "name"), CASES)
def test_hooks(decay: str, name: str, register: Callable[..., Any]) -> None:
    rcnn, x = build({"decay": decay, **FULL}), random_text(5, 2, SIZE)
    expected, _ = rcnn(x)
    heard: list[int] = []
    register(rcnn.cells[0].get_submodule(name), lambda *_: heard.append(1))
    found, _ = rcnn(x.requires_grad_())
    close(found, expected)
    found.sum().backward()
    assert heard


@pytest.mark.parametrize("register", HOOKS, ids=lambda hook: hook.__name__)
@pytest.mark.parametrize("decay", [0.5, "recurrent"])
def test_hooks_on_the_activation(decay: float | str, register: Callable[..., Any]) -> None:
    rcnn, heard = build({"decay": decay}), []
    register(rcnn.cells[0].act, lambda *_: heard.append(1))
    rcnn(random_text(5, 2, SIZE))[0].sum().backward()
    assert heard


def test_a_backward_hook_beside_a_forward_hook() -> None:
    """What a backward hook hands out must not be written to."""
    rcnn, x = build({"decay": "input", **FULL}), random_text(5, 2, SIZE)
    expected, _ = rcnn(x)
    cell = rcnn.cells[0]
    cell.decay_lin.register_full_backward_hook(lambda *_: None)
    cell.lins[0].register_forward_hook(lambda *_: None)
    found, _ = rcnn(x.requires_grad_())
    close(found, expected)
    found.sum().backward()


def pruned(module: Module) -> None:
    prune.random_unstructured(module, "weight", amount=0.0)


@pytest.mark.parametrize("change", [weight_norm, pruned])
@pytest.mark.parametrize(("decay", "name"), CASES)
def test_weights_made_of_others_are_trained(
    decay: str, name: str, change: Callable[[Module], Any]
) -> None:
    """A weight that is made anew in each call follows what it is made of."""
    plain, rcnn = (build({"decay": decay, **FULL}) for _ in range(2))
    x = random_text(5, 2, SIZE)
    change(rcnn.cells[0].get_submodule(name))
    optimizer = torch.optim.SGD(rcnn.parameters(), lr=0.1)
    for _ in range(2):
        optimizer.zero_grad()
        rcnn(x)[0].square().sum().backward()
        optimizer.step()
    weights = {key: p for key, p in rcnn.cells[0].named_parameters() if not key.startswith(name)}
    output, _ = rcnn(x)  # after which every weight is up to date
    weights[f"{name}.weight"] = rcnn.cells[0].get_submodule(name).weight
    close(
        torch.func.functional_call(plain, {f"cells.0.{k}": w for k, w in weights.items()}, x)[0],
        output,
    )


@pytest.mark.parametrize("name", SUM)
def test_tensors_without_numbers(name: str) -> None:
    """A dry run, as estimators of memory do, tells the shapes and leaves nothing behind."""
    rcnn, x = build(SUM[name]).float(), random_text(5, 2, SIZE).float()
    expected, _ = rcnn(x)
    with FakeTensorMode():
        output, _ = RCNN(SIZE, SIZE, **SUM[name])(torch.randn(x.shape, requires_grad=True))
        assert output.shape == expected.shape
        output.sum().backward()
    close(rcnn(x)[0], expected)
