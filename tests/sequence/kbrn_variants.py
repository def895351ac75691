"""Kernel-based recurrent networks of every kind."""

from __future__ import annotations

import copy
from typing import Any

import torch
from hypothesis import strategies as st
from torch import Tensor
from torch.nn import BatchNorm1d
from torch.nn.utils.rnn import pack_sequence, pad_packed_sequence

from pyg_kernels.sequence import KBRN, KBRNCell
from tests.sequence.kbrn_equations import CENTERS, GREENS, kbrn_equations, random_kbrn
from tests.sequence.texts import SIZE, assert_close, close, gradients, place, pointers, random_text
from tests.sequence.variants import Family, Options, Part

HIDDEN = 5

PLAIN: dict[str, Options] = {
    "relu": {"normalize": False},
    "abs": {"normalize": False, "green": "abs", "affine": True},
    "gaussian": {"normalize": False, "green": "gaussian", "bias": False},
    "shared": {"normalize": False, "affine": True, "shared": True},
    "one-center": {"normalize": False, "green": "abs", "num_centers": 1},
    "stack": {"normalize": False, "affine": True, "num_layers": 3},
}
NORMALIZED: dict[str, Options] = {
    "norm": {},
    "norm-abs": {"green": "abs", "shared": True, "affine": True, "bias": False},
    "norm-gaussian": {"green": "gaussian", "bandwidth": 0.8},
    "norm-stack": {"num_layers": 2, "affine": True},
}
BIDIRECTIONAL: dict[str, Options] = {
    "both-ways": {"bidirectional": True, "normalize": False},
    "both-ways-gaussian": {"bidirectional": True, "green": "gaussian", "affine": True},
    "both-ways-norm": {"bidirectional": True, "num_layers": 2},
}


def _of_few_centers(variants: dict[str, Options]) -> dict[str, Options]:
    return {name: {"num_centers": CENTERS, **options} for name, options in variants.items()}


ONE_WAY, BOTH_WAYS = _of_few_centers({**PLAIN, **NORMALIZED}), _of_few_centers(BIDIRECTIONAL)
EVERY = {**ONE_WAY, **BOTH_WAYS}
IN_TRAINING = {name: options for name, options in EVERY.items() if options.get("normalize", True)}
DERIVATIVES = {
    name: EVERY[name] for name in ["relu", "abs", "gaussian", "norm", "norm-stack", "both-ways"]
}
PARTS = {
    f"{name}-{kind}": Part(module, {**options, "scale": 0.3}, trained=module.startswith("lin"))
    for kind, options in [("relu", {"normalize": False}), ("norm", {"green": "gaussian"})]
    for name, module in [
        ("input-map", "lin_input"),
        ("recurrent-map", "lin_recurrent"),
        ("activation", "activation"),
    ]
}


@st.composite
def cases(draw: st.DrawFn) -> tuple[int, int, Options]:
    options = {
        "green": draw(st.sampled_from(GREENS)),
        "num_centers": draw(st.integers(1, 12)),
        **{name: draw(st.booleans()) for name in ("normalize", "affine", "shared", "bias")},
        "num_layers": draw(st.integers(1, 2)),
        "seed": draw(st.integers(0, 99)),
    }
    return draw(st.integers(1, 5)), draw(st.integers(1, 5)), options


def shapes(options: Options, count: tuple[int, ...]) -> list[tuple[int, ...]]:
    cells = options.get("num_layers", 1) * (2 if options.get("bidirectional") else 1)
    return [(cells, *count, HIDDEN)]


def build(options: Options, **more: Any) -> KBRN:
    return random_kbrn(SIZE, HIDDEN, **{**options, **more})


FAMILY = Family(
    name="kbrn",
    layer=KBRN,
    cell=KBRNCell,
    random=random_kbrn,
    hidden_size=HIDDEN,
    one_way=ONE_WAY,
    both_ways=BOTH_WAYS,
    derivatives=DERIVATIVES,
    cases=cases(),
    shapes=shapes,
    state_argument=r"\b(h|h_0|state)\b",
    parts=PARTS,
)

FORMS = ["ptr", "left", "right", "holes", "lengths", "packed", "grid"]


def read_in_form(
    kbrn: KBRN, pieces: list[Tensor], h_0: Tensor | None = None, form: str = "ptr"
) -> tuple[Tensor, Tensor]:
    """The outputs of all tokens, text after text, and the last ones of each text."""
    lengths = [len(piece) for piece in pieces]
    if form == "ptr":
        return kbrn(torch.cat(pieces), h_0, ptr=pointers(pieces))
    if form == "packed":
        packed, last = kbrn(pack_sequence(pieces, enforce_sorted=False), h_0)
        output, _ = pad_packed_sequence(packed)
    elif form == "grid":
        output, last = kbrn(torch.stack(pieces, dim=1), h_0)
    else:
        grid, mask = place(pieces, "right" if form == "lengths" else form)
        given = {"lengths": lengths} if form == "lengths" else {"mask": mask}
        output, last = kbrn(grid, h_0, **given)
        assert (output[~mask] == 0).all()
        return torch.cat([output[mask[:, b], b] for b in range(len(pieces))]), last
    return torch.cat([output[:n, b] for b, n in enumerate(lengths)]), last


def norms(kbrn: KBRN) -> list[BatchNorm1d]:
    return [cell.activation.norm for cell in kbrn.cells if cell.activation.norm is not None]


def assert_same_running_set(found: BatchNorm1d, expected: BatchNorm1d) -> None:
    for name, buffer in expected.named_buffers():
        if buffer.is_floating_point():
            close(found.get_buffer(name), buffer)
        else:
            assert found.get_buffer(name) == buffer


def assert_equations(
    kbrn: KBRN,
    options: Options,
    pieces: list[Tensor],
    form: str = "ptr",
    from_state: bool = True,
    canceling: tuple[str, ...] = ("lin_input.bias",),
) -> None:
    """Outputs, final states, every gradient, and what the normalisation keeps of the batch.

    Some gradients are sums of what cancels, as that of a bias before a normalisation: they are
    zero but for the rounding of their terms.
    """
    before = copy.deepcopy(norms(kbrn))
    (shape,) = shapes(options, (len(pieces),))
    x = [piece.clone().requires_grad_() for piece in pieces]
    state = random_text(*shape[:-1], kbrn.hidden_size, seed=77).requires_grad_()
    h_0 = state if from_state and not options.get("bidirectional") else None
    outputs, h, rows = kbrn_equations(kbrn, x, h_0, **options)
    found = list(read_in_form(kbrn, x, h_0, form))
    assert_close(found, [torch.cat(outputs), h], ["output", "h"])
    inputs = {
        **{f"text {i}": piece for i, piece in enumerate(x)},
        "h_0": state,
        **dict(kbrn.named_parameters()),
    }
    expected = gradients([torch.cat(outputs), h], list(inputs.values()))
    largest = max([1.0, *(g.abs().max().item() for g in expected if g.numel())])
    for name, a, b in zip(inputs, gradients(found, list(inputs.values())), expected, strict=True):
        scale = largest if name.endswith(canceling) else 1.0
        assert_close([a / scale], [b / scale], [f"gradient of {name}"])
    for norm, old, seen in zip(norms(kbrn), before, rows, strict=bool(before)):
        if len(seen):
            old(seen.detach())  # BatchNorm1d on the rows of all steps
        assert_same_running_set(norm, old)
