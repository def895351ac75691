"""The recurrent kernel machine: its equations (Liang et al. 2019) and its options."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import torch
from torch import Tensor
from torch.nn import LayerNorm, Module, Parameter, ReLU, Softplus

from pyg_kernels.sequence import RKM, RKMCell, SyncNetFilters
from tests.sequence.texts import pointwise
from tests.sequence.variants import Family, Options, drawn

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


class Scaled(Module):
    """A pointwise function with a parameter of its own."""

    def __init__(self) -> None:
        super().__init__()
        self.scale = Parameter(torch.tensor(0.7))

    def forward(self, t: Tensor) -> Tensor:
        return torch.sin(self.scale * t)


def softsign(t: Tensor) -> Tensor:
    return t / (1 + t.abs())


#: Functions q of the general cell.
QS = ["identity", "tanh", "relu", "sigmoid", torch.tanh, softsign, ReLU(), Softplus(), Scaled()]


def wavelets(filters: SyncNetFilters, widths: list[int]) -> list[Tensor]:
    """Eq. 21: (channels of the block, F, n) for each width; block sizes differ by one at most."""
    each, more = divmod(len(filters.omega), len(widths))
    sizes = [each + 1 if b < more else each for b, _ in enumerate(widths)]
    beta = torch.log1p(torch.exp(filters.raw_beta))
    parts = filters.alpha, filters.omega[:, None], filters.phi, beta[:, None]
    columns = [part.unsqueeze(-1).split(sizes) for part in parts]
    found = []
    for n, alpha, omega, phi, b in zip(widths, *columns, strict=True):
        t = torch.arange(n) - (n - 1) / 2
        found.append(alpha * torch.cos(omega * t + phi) * torch.exp(-b * t**2))
    return found


def convolved(weights: list[Tensor], past: list[Tensor], dilation: int) -> Tensor:
    """Applies each filter to the tokens that it reaches; its newest tap reads the newest token."""
    parts = []
    for weight in weights:
        n = weight.size(2)
        taps = [past[-1 - (n - 1 - i) * dilation] @ weight[:, :, i].t() for i in range(n)]
        parts.append(torch.stack(taps).sum(dim=0))
    return torch.cat(parts, dim=-1)


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
    q: str | Callable[[Tensor], Tensor] | None = None,
    bias: bool = True,
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Computes the table of cells on one text x (T, F), or on texts of one length (T, ..., F).

    Returns outputs (T, ..., H), the last h and c (..., H), and the last inputs (W, ..., F).
    """
    widths = [ngram] if isinstance(ngram, int) else ngram
    reach = (max(widths) - 1) * dilation
    h = x.new_zeros(*x.shape[1:-1], parameters.hidden_size) if h is None else h
    c = torch.zeros_like(h) if c is None else c
    past = list(x.new_zeros(reach, *x.shape[1:]) if window is None else window)
    weights = {
        gate: wavelets(maps, widths) if filters == "syncnet" else maps.weights
        for gate, maps in parameters.filters.items()
    }
    act, fed_back = pointwise(q), feedback is not False and cell not in NEVER_FED_BACK
    if learn_static:
        s_i, s_f = parameters.static
    elif cell in NEVER_FED_BACK:
        s_i, s_f = 1.0 if static is None else static, 0.0
    else:
        s_i, s_f = (0.5, 0.5) if static is None else static

    def mapped(gate: str, h: Tensor) -> Tensor:
        total = convolved(weights[gate], past, dilation)
        if fed_back and (gate in GATES[cell] or cell != "ran"):  # except for the RAN's candidate
            total = total + h @ parameters.recurrent[gate].weight.t()
        biased = bias and (gate in GATES[cell] or cell == "lstm")
        return total + parameters.biases[gate] if biased else total

    outputs = []
    for x_t in x:
        past.append(x_t)
        candidate = mapped("candidate", h)
        gate = {name: torch.sigmoid(mapped(name, h)) for name in GATES[cell]}
        if cell == "lstm":
            candidate = torch.tanh(candidate)
        if cell == "rkm-cifg":
            gate["input"] = 1 - gate["forget"]
        if cell == "general":
            c = candidate + act(c)
        else:
            c = gate.get("input", s_i) * candidate + gate.get("forget", s_f) * c
        seen = c
        if layer_norm:
            norm = parameters.norm
            learned = (norm.weight, norm.bias, norm.eps) if isinstance(norm, LayerNorm) else None
            seen = torch.layer_norm(c, c.shape[-1:], *learned) if learned else norm(c)
        if cell in ("lstm", "linear", "cnn"):
            seen = torch.tanh(seen)
        h = gate.get("output", 1.0) * act(seen)
        outputs.append(h)
    output = torch.stack(outputs) if outputs else x.new_zeros(0, *h.shape)
    last = torch.stack(past[len(past) - reach :]) if reach else x.new_zeros(0, *x.shape[1:])
    return output, h, c, last


random_rkm: Callable[..., RKM] = partial(drawn, RKM, scale=0.5)
HIDDEN = 5
EVERY: dict[str, Options] = {
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
    "stepped": {"cell": "general", "feedback": False, "q": ReLU()},
    "stack": {"num_layers": 2, "ngram": [2, 1]},
    "both-ways-scan": {"bidirectional": True, "feedback": False, "ngram": 3, "dilation": 2},
    "both-ways-stack": {"bidirectional": True, "num_layers": 2, "cell": "rkm-cifg", "ngram": 2},
}


def reach_of(options: Options) -> int:
    """How many tokens before the current one a machine of one layer reads."""
    ngram = options.get("ngram", 1)
    return (max(ngram if isinstance(ngram, list) else [ngram]) - 1) * options.get("dilation", 1)


def shapes(options: Options, count: int, size: int) -> list[tuple[int, ...]]:
    reach = reach_of(options)
    return [(count, HIDDEN), (count, HIDDEN), *([(count, reach, size)] if reach else [])]


def reads(
    cell: RKMCell, options: Options, pieces: list[Tensor], states: Sequence[Tensor] | None
) -> tuple[list[Tensor], tuple[Tensor, ...]]:
    given, found = dict(options), []
    if isinstance(options.get("q"), Module):  # its parameters are the cell's own
        given["q"] = cell.q
    for b, x in enumerate(pieces):
        state = () if states is None else [part[b] for part in states]
        found.append(rkm_equations(cell, x, *state, **given))
    outputs, *ends = zip(*found, strict=True)
    kept = ends if reach_of(options) else ends[:2]
    return list(outputs), tuple(torch.stack(end) for end in kept)


FAMILY = Family(
    name="rkm",
    layer=RKM,
    cell=RKMCell,
    random=random_rkm,
    hidden_size=HIDDEN,
    options=EVERY,
    shapes=shapes,
    reads=reads,
    side_by_side=(2,),
)
