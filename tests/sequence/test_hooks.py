"""Hooks on parts of a layer are called, and weights that are made of others are trained."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import pytest
import torch
from torch.nn import Module
from torch.nn.utils import prune
from torch.nn.utils.parametrizations import weight_norm

from pyg_kernels.sequence import RCNN
from tests.sequence.equations import assert_equations
from tests.sequence.layers import EVERY, FAMILIES
from tests.sequence.texts import SIZE, close, random_text, texts
from tests.sequence.variants import Family, Part, Variant

HOOKS = [
    "register_forward_hook",
    "register_forward_pre_hook",
    "register_full_backward_hook",
    "register_full_backward_pre_hook",
]
PARTS = {
    f"{family.name}-{name}": (family, part)
    for family in FAMILIES
    for name, part in family.parts.items()
}
TRAINED = {name: given for name, given in PARTS.items() if given[1].trained}


@pytest.mark.filterwarnings("ignore:Full backward hook is firing")  # on h before the first token
@pytest.mark.parametrize(("family", "part"), PARTS.values(), ids=PARTS)
def test_hooks(family: Family, part: Part) -> None:
    layer, x = Variant(family, part.options).build(), random_text(3, 2, SIZE)
    expected, _ = layer(x)
    for register in HOOKS if part.takes_tensors else HOOKS[:2]:
        calls: list[int] = []
        module = layer.cells[0].get_submodule(part.name)
        handle = getattr(module, register)(lambda *_, calls=calls: calls.append(1))
        found, _ = layer(x.requires_grad_())
        close(found, expected)
        found.sum().backward()
        assert calls
        handle.remove()


CALLED = [name for name in EVERY if name.startswith("kbrn") or name in (
    "rcnn-recurrent", "rcnn-scalar-recurrent", "rcnn-both-ways-recurrent", "rcnn-input"
)]  # fmt: skip


@pytest.mark.parametrize("name", CALLED)
def test_parts_that_are_called_one_by_one_compute_the_equations(name: str) -> None:
    """Also at a step with one text left, where a lone BatchNorm1d would refuse."""
    variant, calls = EVERY[name], []
    layer = variant.build()
    for part in layer.modules():
        part.register_forward_hook(lambda *_: calls.append(1))
    for training in [False, True][: 1 + name.startswith("kbrn")]:
        assert_equations(variant, layer.train(training), texts(4, 0, 3, 1), tolerance=10)
    assert calls


@pytest.mark.parametrize("part", ["lin_input", "lin_recurrent", "activation"])
def test_a_hook_changes_what_it_returns(part: str) -> None:
    for name in ["kbrn-relu", "kbrn-norm"]:
        layer, x = EVERY[name].build(), random_text(5, 2, SIZE)
        before, _ = layer(x)
        layer.cells[0].get_submodule(part).register_forward_hook(lambda *args: 2 * args[2])
        assert not torch.allclose(layer(x)[0], before)


def test_a_backward_hook_beside_a_forward_hook() -> None:
    """What a backward hook hands out must not be written to."""
    rcnn, x = EVERY["rcnn-input"].build(), random_text(5, 2, SIZE)
    expected, _ = rcnn(x)
    cell = rcnn.cells[0]
    cell.decay_lin.register_full_backward_hook(lambda *_: None)
    cell.lins[0].register_forward_hook(lambda *_: None)
    found, _ = rcnn(x.requires_grad_())
    close(found, expected)
    found.sum().backward()


pruned = partial(prune.random_unstructured, name="weight", amount=0.0)


@pytest.mark.parametrize("change", [weight_norm, pruned], ids=["weight_norm", "pruned"])
@pytest.mark.parametrize(("family", "part"), TRAINED.values(), ids=TRAINED)
def test_weights_made_of_others_are_trained(
    family: Family, part: Part, change: Callable[[Module], Any]
) -> None:
    """A weight that is made anew in each call follows what it is made of."""
    plain, layer = (Variant(family, part.options).build() for _ in range(2))
    x, name = random_text(5, 2, SIZE), part.name
    change(layer.cells[0].get_submodule(name))
    optimizer = torch.optim.SGD(layer.parameters(), lr=0.1)
    for _ in range(2):
        optimizer.zero_grad()
        layer(x)[0].square().sum().backward()
        optimizer.step()
    of_plain = {k for k, _ in plain.cells[0].named_parameters()}
    weights = {k: p for k, p in layer.cells[0].named_parameters() if k in of_plain}
    output, _ = layer(x)  # after which every weight is up to date
    weights[f"{name}.weight"] = layer.cells[0].get_submodule(name).weight
    given = {f"cells.0.{k}": w for k, w in weights.items()}
    close(torch.func.functional_call(plain, given, x)[0], output)


def test_a_map_with_a_bias_is_no_matrix() -> None:
    rcnn = RCNN(3, 4, output_map=True, decay="recurrent")
    lin = rcnn.cells[0].output_lin = torch.nn.Linear(4, 4)
    with pytest.raises(ValueError, match="adds a constant: expected a linear map without bias"):
        rcnn(torch.rand(5, 2, 3))
    torch.nn.init.zeros_(lin.bias)
    rcnn(torch.rand(5, 2, 3))
