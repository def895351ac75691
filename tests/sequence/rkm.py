"""The recurrent kernel machine: its equations (Liang et al. 2019) and its options."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.nn import Module

from pyg_kernels.sequence import RKM, RKMCell
from tests.sequence.variants import Family, Options, Part

# The equations of one recurrent kernel machine (Liang et al. 2019), written out in a loop

Pointwise = Callable[[Tensor], Tensor]

GATES = {  # the sigmoid gates of each cell
    "lstm": ["output", "input", "forget"],
    "rkm-lstm": ["output", "input", "forget"],
    "rkm-cifg": ["output", "forget"],
    "linear-gated": ["output"],
    "linear": [],
    "gated-cnn": ["output"],
    "cnn": [],
    "ran": ["input", "forget"],
    "general": [],
}
CELLS = list(GATES)
NEVER_FED_BACK = ["gated-cnn", "cnn"]
STATIC = ["linear", "linear-gated", *NEVER_FED_BACK]  # cells with factors in place of gates
Q: dict[str, Pointwise] = {
    "identity": lambda t: t,
    "tanh": torch.tanh,
    "relu": torch.relu,
    "sigmoid": torch.sigmoid,
}


def readers(cell: str, feedback: bool | None = None) -> list[str]:
    """What reads the output before: every gate and the candidate, but for the RAN's."""
    if feedback is False or cell in NEVER_FED_BACK:
        return []
    return [*GATES[cell], *(["candidate"] if cell != "ran" else [])]


def biased(cell: str, bias: bool = True) -> list[str]:
    return [*GATES[cell], *(["candidate"] if cell == "lstm" else [])] if bias else []


def blocks(ngram: int | list[int], hidden: int) -> list[tuple[int, int]]:
    """The width of each block of channels, and the number of channels in it."""
    widths = [ngram] if isinstance(ngram, int) else ngram
    each, more = divmod(hidden, len(widths))
    return [(n, each + 1 if b < more else each) for b, n in enumerate(widths)]


def wavelets(
    alpha: Tensor, omega: Tensor, phi: Tensor, beta: Tensor, ngram: int | list[int]
) -> list[Tensor]:
    """Eq. 21, one tap after the other: (channels of the block, F, n) for each width."""
    found, start = [], 0
    for n, size in blocks(ngram, len(omega)):
        k = slice(start, start + size)
        taps = []
        for i in range(n):
            t = i - (n - 1) / 2
            wave = torch.cos(omega[k, None] * t + phi[k])
            taps.append(alpha[k] * wave * torch.exp(-beta[k, None] * t**2))
        found.append(torch.stack(taps, dim=-1))
        start += size
    return found


def filters_of(parameters: Module, ngram: int | list[int], filters: str) -> list[Tensor]:
    if filters == "dense":
        return list(parameters.weights)
    named = dict(parameters.named_parameters())
    alpha, omega, phi = (named.pop(name) for name in ["alpha", "omega", "phi"])
    (raw,) = named.values()
    return wavelets(alpha, omega, phi, torch.log1p(torch.exp(raw)), ngram)


def convolved(weights: list[Tensor], past: list[Tensor], dilation: int) -> Tensor:
    """Each filter times the last tokens it reaches; the newest tap reads the newest token."""
    parts = []
    for weight in weights:
        n = weight.size(2)
        taps = [past[-1 - (n - 1 - i) * dilation] @ weight[:, :, i].t() for i in range(n)]
        parts.append(torch.stack(taps).sum(dim=0))
    return torch.cat(parts, dim=-1)


class End(NamedTuple):
    """Outputs (T, ..., H), the last h and c (..., H), and the last inputs (W, ..., F)."""

    output: Tensor
    h: Tensor
    c: Tensor
    window: Tensor


def rkm_equations(
    parameters: RKMCell,
    x: Tensor,
    h: Tensor | None = None,
    c: Tensor | None = None,
    window: Tensor | None = None,
    *,
    cell: str = "rkm-lstm",
    ngram: int | list[int] = 1,
    dilation: int = 1,
    filters: str = "dense",
    layer_norm: bool = False,
    feedback: bool | None = None,
    static: Any = None,
    learn_static: bool = False,
    q: str | Pointwise | None = None,
    bias: bool = True,
) -> End:
    """One text x (T, F), or texts of one length (T, ..., F), through the table of cells."""
    some = parameters.filters["candidate"]
    hidden = len(some.omega) if filters == "syncnet" else sum(len(w) for w in some.weights)
    reach = (max(n for n, _ in blocks(ngram, hidden)) - 1) * dilation
    h = x.new_zeros(*x.shape[1:-1], hidden) if h is None else h
    c = x.new_zeros(*x.shape[1:-1], hidden) if c is None else c
    past = list(x.new_zeros(reach, *x.shape[1:]) if window is None else window)
    weights = {gate: filters_of(f, ngram, filters) for gate, f in parameters.filters.items()}
    act = q if callable(q) else Q[q or "identity"]
    if learn_static:
        s_i, s_f = parameters.static
    elif cell in NEVER_FED_BACK:
        s_i, s_f = 1.0 if static is None else static, 0.0
    else:
        s_i, s_f = (0.5, 0.5) if static is None else static

    def mapped(gate: str, h: Tensor) -> Tensor:
        total = convolved(weights[gate], past, dilation)
        if gate in readers(cell, feedback):
            total = total + h @ parameters.recurrent[gate].weight.t()
        return total + parameters.biases[gate] if gate in biased(cell, bias) else total

    outputs = []
    for x_t in x:
        past.append(x_t)
        candidate = mapped("candidate", h)
        gate = {name: torch.sigmoid(mapped(name, h)) for name in GATES[cell]}
        if cell == "lstm":
            c = gate["input"] * torch.tanh(candidate) + gate["forget"] * c
        elif cell in ("rkm-lstm", "ran"):
            c = gate["input"] * candidate + gate["forget"] * c
        elif cell == "rkm-cifg":
            c = (1 - gate["forget"]) * candidate + gate["forget"] * c
        elif cell == "general":
            c = candidate + act(c)
        else:
            c = s_i * candidate + s_f * c
        seen = normalized(c, parameters) if layer_norm else c
        if cell == "lstm":
            h = gate["output"] * torch.tanh(seen)
        elif cell in ("linear", "cnn"):
            h = torch.tanh(seen)
        elif cell == "general":
            h = act(seen)
        else:
            h = gate["output"] * seen if "output" in gate else seen
        outputs.append(h)
    output = torch.stack(outputs) if outputs else x.new_zeros(0, *h.shape)
    last = torch.stack(past[len(past) - reach :]) if reach else x.new_zeros(0, *x.shape[1:])
    return End(output, h, c, last)


def normalized(c: Tensor, parameters: RKMCell) -> Tensor:
    assert parameters.norm is not None
    centered = c - c.mean(dim=-1, keepdim=True)
    deviation = (centered.square().mean(dim=-1, keepdim=True) + parameters.norm.eps).sqrt()
    return centered / deviation * parameters.norm.weight + parameters.norm.bias


def random_rkm(*args: Any, seed: int = 0, scale: float = 0.5, **kwargs: Any) -> RKM:
    """A machine in float64 in which no parameter is left at its initial value."""
    torch.manual_seed(seed)
    rkm = RKM(*args, **kwargs).double()
    for parameter in rkm.parameters():
        torch.nn.init.normal_(parameter, std=scale)
    return rkm


# Recurrent kernel machines of every kind

HIDDEN = 5

ONE_WAY: dict[str, Options] = {
    "lstm": {"cell": "lstm"},
    "rkm-lstm": {"ngram": 3, "layer_norm": True},
    "rkm-cifg": {"cell": "rkm-cifg", "ngram": [1, 3], "dilation": 2},
    "linear-gated": {"cell": "linear-gated", "ngram": 2, "learn_static": True},
    "gated-cnn": {"cell": "gated-cnn", "ngram": 3, "bias": False},
    "cnn": {"cell": "cnn", "ngram": [1, 2, 4], "layer_norm": True},
    "ran": {"cell": "ran", "ngram": 2},
    "general": {"cell": "general", "q": "tanh", "ngram": 2},
    "wavelets": {"filters": "syncnet", "ngram": 4},
    "scan-lstm": {"cell": "lstm", "feedback": False, "ngram": [3, 1], "dilation": 2},
    "scan-linear": {"cell": "linear", "feedback": False, "ngram": 2, "layer_norm": True},
    "scan-general": {"cell": "general", "feedback": False, "q": "identity", "ngram": 2},
    "stepped": {"cell": "general", "feedback": False, "q": "relu"},
    "stack": {"num_layers": 2, "ngram": [2, 1]},
}
BOTH_WAYS: dict[str, Options] = {
    "both-ways-scan": {"bidirectional": True, "feedback": False, "ngram": 3, "dilation": 2},
    "both-ways-stack": {"bidirectional": True, "num_layers": 2, "cell": "rkm-cifg", "ngram": 2},
}
DERIVATIVES = {
    name: ONE_WAY[name]
    for name in (
        *("lstm", "rkm-lstm", "rkm-cifg", "linear-gated", "cnn", "ran", "general", "wavelets"),
        *("scan-lstm", "scan-linear", "stepped"),
    )
}


def reach_of(options: Options) -> int:
    """How many tokens before its own a machine of one layer reads."""
    ngram = options.get("ngram", 1)
    return (max(ngram if isinstance(ngram, list) else [ngram]) - 1) * options.get("dilation", 1)


def shapes(options: Options, count: int, size: int, hidden: int) -> list[tuple[int, ...]]:
    reach = reach_of(options)
    return [(count, hidden), (count, hidden), *([(count, reach, size)] if reach else [])]


def reads(
    cell: RKMCell, options: Options, pieces: list[Tensor], states: Sequence[Tensor] | None
) -> tuple[list[Tensor], tuple[Tensor, ...]]:
    given, found = options_of(options, cell), []
    for b, x in enumerate(pieces):
        state = () if states is None else [part[b] for part in states]
        found.append(rkm_equations(cell, x, *state, **given))
    outputs, *ends = zip(*found, strict=True)
    kept = ends if reach_of(options) else ends[:2]
    return list(outputs), tuple(torch.stack(end) for end in kept)


PARTS = {
    "filters": Part("filters.forget", {"ngram": 2}, takes_tensors=False, trained=False),
    "wavelets": Part(
        "filters.candidate",
        {"ngram": 4, "filters": "syncnet"},
        takes_tensors=False,
        trained=False,
    ),
    "q": Part("q", {"cell": "general", "q": torch.nn.Tanh()}, trained=False),
    "q-without-feedback": Part(
        "q", {"cell": "general", "q": torch.nn.Softplus(), "feedback": False}, trained=False
    ),
}
FAMILY = Family(
    name="rkm",
    layer=RKM,
    cell=RKMCell,
    random=random_rkm,
    hidden_size=HIDDEN,
    one_way=ONE_WAY,
    both_ways=BOTH_WAYS,
    derivatives=DERIVATIVES,
    shapes=shapes,
    reads=reads,
    side_by_side=(2,),
    parts=PARTS,
)


def options_of(options: Options, cell: Module) -> Options:
    """The options of a cell, in which a q with parameters is the cell's own."""
    q: Callable[[Tensor], Tensor] | str | None = options.get("q")
    if isinstance(q, Module):
        q = next(m for m in cell.modules() if type(m) is type(q))
    return {**options, "q": q}
