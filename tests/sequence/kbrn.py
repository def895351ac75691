"""The kernel-based recurrent network: its equations, step by step, and its options."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import torch
from torch import Tensor

from pyg_kernels.nn import KernelActivation
from pyg_kernels.sequence import KBRN, KBRNCell
from tests.nn.activation_equations import definition
from tests.sequence.variants import Family, Options, drawn

CENTERS = 7  # per unit, unless a test says otherwise
HIDDEN = 5


def function_of(cell: KBRNCell, options: Options) -> Callable[[Tensor], Tensor]:
    """A cell's normalisation and expansion, which is eq. 4, or the module in their place."""
    module = cell.activation
    if type(module) is not KernelActivation:
        return module
    given = {name: options.get(name) for name in ("green", "bandwidth", "init_range")}
    assert all(value in (None, getattr(module, name)) for name, value in given.items())
    return partial(definition, module)


def mapped(lin: Any, x: Tensor) -> Tensor:
    """The product with the weight, and the bias if there is one; another module is called."""
    if not hasattr(lin, "weight"):
        return lin(x)
    bias = getattr(lin, "bias", None)
    return x @ lin.weight.t() + (0 if bias is None else bias)


def reads(
    cell: KBRNCell, options: Options, pieces: list[Tensor], states: Sequence[Tensor] | None
) -> tuple[list[Tensor], tuple[Tensor, ...]]:
    """Reads the texts side by side, step by step, and records the inputs of the activation."""
    act = function_of(cell, options)
    h = pieces[0].new_zeros(len(pieces), cell.hidden_size) if states is None else states[0]
    last, outputs, rows = list(h.unbind(0)), [[] for _ in pieces], []
    for t in range(max(len(piece) for piece in pieces)):
        present = [s for s, piece in enumerate(pieces) if len(piece) > t]
        h_t = torch.stack([last[s] for s in present])
        x_t = torch.stack([pieces[s][t] for s in present])
        a = mapped(cell.lin_recurrent, h_t) + mapped(cell.lin_input, x_t)
        rows.append(a)
        for s, output in zip(present, act(a), strict=True):
            last[s] = output
            outputs[s].append(output)
    zero = h.new_zeros(0, h.size(1))
    texts = [torch.stack(text) if text else zero for text in outputs]
    return texts, (torch.stack(last), torch.cat([zero, *rows]))


def random_kbrn(*args: Any, scale: float = 0.5, num_centers: int = CENTERS, **given: Any) -> KBRN:
    """A network in eval mode whose running statistics also differ from their initial values."""
    kbrn = drawn(KBRN, *args, scale=scale, num_centers=num_centers, **given)
    with torch.no_grad():
        for cell in kbrn.cells:
            cell.activation.centers.normal_()
        for name, buffer in kbrn.named_buffers():
            if name.endswith("running_mean"):
                buffer.normal_(std=scale)
            elif name.endswith("running_var"):
                buffer.uniform_(0.5, 1.5)
            else:
                buffer.fill_(3)
    return kbrn.eval()


OPTIONS: dict[str, Options] = {
    "relu": {"normalize": False},
    "abs": {"normalize": False, "green": "abs", "affine": True, "init": "tanh"},
    "gaussian": {"normalize": False, "green": "gaussian", "bias": False},
    "shared": {"normalize": False, "affine": True, "shared": True, "init_range": (-1.0, 3.0)},
    "norm": {},
    "norm-abs": {"green": "abs", "shared": True, "affine": True, "bias": False},
    "norm-gaussian": {"green": "gaussian", "bandwidth": 0.8},
    "norm-stack": {"num_layers": 2, "affine": True},
    "both-ways-gaussian": {"bidirectional": True, "green": "gaussian", "affine": True},
    "both-ways-norm": {"bidirectional": True, "num_layers": 2},
}
EVERY = {name: {"num_centers": CENTERS, **options} for name, options in OPTIONS.items()}


def shapes(options: Options, count: int, size: int) -> list[tuple[int, ...]]:
    return [(count, HIDDEN)]


FAMILY = Family(
    name="kbrn",
    layer=KBRN,
    cell=KBRNCell,
    random=random_kbrn,
    hidden_size=HIDDEN,
    options=EVERY,
    shapes=shapes,
    reads=reads,
)
