"""Hooks on parts of a layer are called, and weights that are made of others are trained."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch.nn import Module
from torch.nn.utils import prune
from torch.nn.utils.parametrizations import weight_norm

from tests.sequence.layers import FAMILIES
from tests.sequence.texts import SIZE, close, random_text
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
CASES = {
    f"{name}-{register}": (family, part, register)
    for name, (family, part) in PARTS.items()
    for register in (HOOKS if part.takes_tensors else HOOKS[:2])
}
TRAINED = {name: given for name, given in PARTS.items() if given[1].trained}


@pytest.mark.filterwarnings("ignore:Full backward hook is firing")  # on h before the first token
@pytest.mark.parametrize(("family", "part", "register"), CASES.values(), ids=CASES)
def test_hooks(family: Family, part: Part, register: str) -> None:
    layer, x = Variant(family, part.options).build(), random_text(5, 2, SIZE)
    expected, _ = layer(x)
    calls: list[int] = []
    getattr(layer.cells[0].get_submodule(part.name), register)(lambda *_: calls.append(1))
    found, _ = layer(x.requires_grad_())
    close(found, expected)
    found.sum().backward()
    assert calls


def pruned(module: Module) -> None:
    prune.random_unstructured(module, "weight", amount=0.0)


@pytest.mark.parametrize("change", [weight_norm, pruned])
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
