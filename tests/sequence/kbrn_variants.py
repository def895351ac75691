"""Kernel-based recurrent networks of every kind."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from hypothesis import strategies as st
from torch import Tensor
from torch.nn import BatchNorm1d

from pyg_kernels.sequence import KBRN, KBRNCell
from tests.sequence.equations import Reading, reading
from tests.sequence.equations import assert_equations as of_texts
from tests.sequence.kbrn_equations import CENTERS, GREENS, cell_equations, function_of, random_kbrn
from tests.sequence.texts import SIZE
from tests.sequence.variants import Family, Options, Part, Variant

HIDDEN = 5

PLAIN: dict[str, Options] = {
    "relu": {"normalize": False},
    "abs": {"normalize": False, "green": "abs", "affine": True},
    "gaussian": {"normalize": False, "green": "gaussian", "bias": False},
    "shared": {"normalize": False, "affine": True, "shared": True},
}
NORMALIZED: dict[str, Options] = {
    "norm": {},
    "norm-abs": {"green": "abs", "shared": True, "affine": True, "bias": False},
    "norm-gaussian": {"green": "gaussian", "bandwidth": 0.8},
    "norm-stack": {"num_layers": 2, "affine": True},
}
BIDIRECTIONAL: dict[str, Options] = {
    "both-ways-gaussian": {"bidirectional": True, "green": "gaussian", "affine": True},
    "both-ways-norm": {"bidirectional": True, "num_layers": 2},
}


def _of_few_centers(variants: dict[str, Options]) -> dict[str, Options]:
    return {name: {"num_centers": CENTERS, **options} for name, options in variants.items()}


ONE_WAY, BOTH_WAYS = _of_few_centers({**PLAIN, **NORMALIZED}), _of_few_centers(BIDIRECTIONAL)
EVERY = {**ONE_WAY, **BOTH_WAYS}
IN_TRAINING = {name: options for name, options in EVERY.items() if options.get("normalize", True)}
DERIVATIVES = {
    name: EVERY[name] for name in ["relu", "abs", "gaussian", "norm-stack", "both-ways-gaussian"]
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


def shapes(options: Options, count: int, size: int, hidden: int) -> list[tuple[int, ...]]:
    return [(count, hidden)]


def reads(
    cell: KBRNCell, options: Options, pieces: list[Tensor], states: Sequence[Tensor] | None
) -> tuple[list[Tensor], tuple[Tensor, ...]]:
    """Texts step by step, side by side; what the activation reads is noted."""
    h = pieces[0].new_zeros(len(pieces), cell.hidden_size) if states is None else states[0]
    outputs, last, rows = cell_equations(cell, pieces, h, function_of(cell, options))
    return outputs, (last, rows)


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
    reads=reads,
    state_argument=r"\b(h|h_0|state)\b",
    parts=PARTS,
)


def norms(kbrn: KBRN) -> list[BatchNorm1d]:
    return [cell.activation.norm for cell in kbrn.cells if cell.activation.norm is not None]


def read_texts(kbrn: KBRN, options: Options, pieces: list[Tensor]) -> Reading:
    return reading(Variant(FAMILY, options), kbrn, pieces)


def assert_equations(
    kbrn: KBRN,
    options: Options,
    pieces: list[Tensor],
    form: str = "ptr",
    from_state: bool = True,
    **more: Any,
) -> None:
    of_texts(Variant(FAMILY, options), kbrn, pieces, [form], from_state, **more)
