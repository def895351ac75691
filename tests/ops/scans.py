"""Cases of scans along texts in every form, and the checks that compare them with definitions."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor

from pyg_kernels.ops.expansion import GREENS
from pyg_kernels.ops.ragged import Layout
from pyg_kernels.ops.scan import activation, maximum, memory, walk
from pyg_kernels.ops.scan.operator import Scan
from tests.covering import covering
from tests.nn.activation_equations import close

CPU = torch.device("cpu")
_FORWARD = {
    "grid": Layout.of_grid(4, 3, CPU),
    "texts first": Layout.of_grid(4, 3, CPU, steps_first=False),
    "one step": Layout.of_grid(1, 2, CPU),
    "padded": Layout.of_padded_grid(torch.tensor([2, 0, 5]), 5),
    "padded, texts first": Layout.of_padded_grid(torch.tensor([2, 0, 5]), 5, steps_first=False),
    "ragged": Layout.of_ptr(torch.tensor([0, 3, 3, 4, 11]), 7, 11),
}
#: Texts of one length, padded texts, texts one after the other, and texts without tokens.
LAYOUTS: dict[str, Layout] = {
    **_FORWARD,
    **{f"{name}, backwards": layout.reversed() for name, layout in _FORWARD.items()},
    "no tokens": Layout.of_ptr(torch.tensor([0, 0, 0]), 0, 0),
    "no steps": Layout.of_grid(0, 2, CPU),
}


class Sums(NamedTuple):
    """The scan of the largest sums of n-grams of `order` tokens, which has no settings."""

    order: int


SCANS: dict[type, Scan] = {module.Form: module._SCAN for module in (walk, memory, activation)}
SCANS[Sums] = maximum._SUM


class Case(NamedTuple):
    """A scan and its inputs.

    Attributes:
        form: The settings of the scan; their type says which scan it is.
        fed: The number of parts of the inputs to which products of the previous output are added.
        masked: Whether these previous outputs are multiplied by factors.
        select: Whether tokens have weights, so that they may count in part.
        one_beside: Whether the highway carries one number for all channels.
        line, shared, centers: The settings of an activation; other scans ignore them.
    """

    form: Any
    fed: int = 0
    masked: bool = False
    select: bool = False
    one_beside: bool = False
    line: bool = False
    shared: bool = False
    layout: Layout = LAYOUTS["ragged"]
    channels: int = 3
    centers: int = 5
    dtype: torch.dtype = torch.float64

    @property
    def scan(self) -> Scan:
        return SCANS[type(self.form)]

    @property
    def op(self) -> Any:
        return self.scan.op

    def arguments(self, tensors: Sequence[Tensor | None]) -> tuple[Any, ...]:
        form = () if isinstance(self.form, Sums) else self.form
        return *tensors, self.layout.start, self.layout.length, *form, *self.layout.settings

    def tensors(self) -> list[Tensor | None]:
        """Random operands, in the order in which the op takes them; the leaves have a gradient."""
        torch.manual_seed(0)
        if isinstance(self.form, activation.Form):
            drawn = self._of_activation()
        elif isinstance(self.form, Sums):
            drawn = self._of_sums()
        else:
            drawn = self._of_recurrence()
        return [t if t is None or not t.requires_grad else leaf(t, self.dtype) for t in drawn]

    def _of_sums(self) -> list[Tensor | None]:
        order, channels, texts = self.form.order, self.channels, self.layout.num_texts
        seen, starts = torch.randint(4, (texts,)), torch.arange(3)
        there = seen.view(-1, 1, 1) - starts.view(-1, 1) > torch.arange(order).view(-1, 1, 1, 1)
        table = torch.where(there, random(order, texts, 3, channels), 0).to(self.dtype).detach()
        x = random(self.layout.num_rows, order * channels)
        return [x, random(channels).sigmoid(), table, seen]

    def _of_activation(self) -> list[Tensor | None]:
        units, texts, d = self.channels, self.layout.num_texts, self.centers
        rows = 1 if self.shared else units
        h0, feed = random(texts, units), random(units, units) * 0.5 / units**0.5
        function = [random(rows, d), random(rows, d) * 0.3 / d**0.5]
        line = [0.3 * random(rows), 0.3 * random(rows)] if self.line else [None, None]
        norm = [0.3 * random(units), 0.3 * random(units)] if self.form.normalize else [None, None]
        return [random(self.layout.num_rows, units), h0, feed, *function, *line, *norm]

    def _of_recurrence(self) -> list[Tensor | None]:
        form, channels, walks = self.form, self.channels, isinstance(self.form, walk.Form)
        rows, texts = self.layout.num_rows, self.layout.num_texts
        columns = [channels if wide else 1 for wide in self.scan.columns(form)]
        x = random(rows, sum(columns))
        params = random(4 if walks else len(form.gates) + 4, channels)
        if walks and form.gate == "values":
            x = torch.cat([x[:, : columns[0]].sigmoid(), x[:, columns[0] :]], 1)
        if walks and form.gate == "none":
            params = torch.cat([params[:1].sigmoid(), params[1:]])
        beside = random(rows, 1 if self.one_beside else channels)
        weight = random(rows, 1).sigmoid().round(decimals=1) if self.select else None
        maxima = walks and form.pooling == "max"
        if maxima:
            weight = walk.tokens_before(self.layout, torch.randint(4, (texts,)), self.dtype)
        return [
            0.7 * x,
            0.7 * params,
            weight,
            beside if walks and form.highway else None,
            random(sum(columns[: self.fed]), channels) / (2 * channels) if self.fed else None,
            2 * random(texts, channels).sigmoid() if self.masked else None,
            random(texts, channels),
            random((1 + maxima) * form.order if walks else 1, texts, channels),
        ]

    def run(self, tensors: Sequence[Tensor | None]) -> tuple[Tensor, ...]:
        """The outputs that the definition has, too."""
        return self._given(self.scan(*self.arguments(tensors)))

    def define(self, tensors: Sequence[Tensor | None]) -> tuple[Tensor, ...]:
        return self._given(self.scan.definition(*self.arguments(tensors)))

    def _given(self, outputs: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
        """Drops outputs that the definition lacks; pre-activations carry no gradient."""
        if isinstance(self.form, activation.Form):
            return outputs[0], outputs[1].detach()
        return outputs[: self.scan._num_defined]


def random(*shape: int) -> Tensor:
    return torch.randn(shape, dtype=torch.float64, requires_grad=True)


def leaf(t: Tensor, dtype: torch.dtype = torch.float64) -> Tensor:
    return t.detach().to(dtype, copy=True).requires_grad_()


def some(tensors: Sequence[Tensor | None]) -> list[Tensor]:
    """The tensors that require a gradient."""
    return [t for t in tensors if t is not None and t.requires_grad]


def gradients(outputs: Sequence[Tensor], inputs: Sequence[Tensor | None]) -> list[Tensor]:
    """The gradients of a fixed weighted sum of those outputs that require a gradient."""
    outputs = [out for out in outputs if out.requires_grad]
    seeds = [torch.arange(1.0, 1 + out.numel()).cos().to(out).view_as(out) for out in outputs]
    if not outputs:
        return []
    return list(
        torch.autograd.grad(outputs, some(inputs), seeds, allow_unused=True, materialize_grads=True)
    )


def check(
    case: Any,
    tolerance: float = 1e-10,
    output: int | None = None,
    tensors: Sequence[Tensor | None] | None = None,
) -> None:
    """Compares all outputs and all gradients, the latter of one output alone if `output` is given.

    In single precision, the definition is computed in double precision from the same numbers.
    """
    tensors = case.tensors() if tensors is None else tensors
    exact = [t if t is None or not t.requires_grad else leaf(t, torch.float64) for t in tensors]
    found, expected = case.run(tensors), case.define(exact)
    assert {t.dtype for t in found} == {case.dtype}
    pairs = [pair for pair in zip(found, expected, strict=True) if pair[1].requires_grad]
    if output is not None and pairs:
        pairs = [pairs[output % len(pairs)]]
    slopes = gradients([one for one, _ in pairs], tensors)
    wanted = gradients([other for _, other in pairs], exact)
    close([t.double() for t in (*found, *slopes)], [*expected, *wanted], tolerance)


def check_all(cases: Sequence[Any]) -> None:
    """Checks the cases; every other case takes the gradients of one of its outputs alone."""
    for number, case in enumerate(cases):
        output = number // 2 if number % 2 else None
        check(case, 1e-10 if case.dtype == torch.float64 else 1e-5, output)


def _walk(gate: tuple[str, int, int, bool], select: str, one_beside: bool, **row: Any) -> Case:
    name, width, fed, masked = gate
    form = walk.Form(gate=name, width=width, hold=select != "forgets", **row)
    fed = min(fed, 1 + form.output_gate)
    return Case(form, fed, masked, select != "no", one_beside)


WALKS = {
    f"walk {number}": _walk(**row)
    for number, row in enumerate(
        covering(
            2,
            gate=[
                ("none", 0, 0, False),
                ("values", 1, 0, False),
                ("values", 2, 0, False),
                ("logits", 1, 0, False),
                ("logits", 2, 0, False),
                ("logits", 1, 2, False),
                ("logits", 2, 2, False),
                ("logits", 2, 1, True),
            ],
            order=[1, 2, 3],
            combine=["mul", "add"],
            normalize=[False, True],
            readout=["c", "z", "sum"],
            act=["none", "tanh", "relu"],
            output_gate=[False, True],
            highway=[False, True],
            select=["no", "holds", "forgets"],
            one_beside=[False, True],
        )
    )
}
_MEMORIES = {  # each with the number of gates that read the previous output
    "lstm": (memory.Form(True, True, True, candidate="tanh", out="tanh"), 4),
    "gates alone": (memory.Form(False, True, True), 2),
    "parallel": (memory.Form(True, True, True), 0),
    "coupled": (memory.Form(True, False, True, coupled=True), 0),
    "coupled, fed back": (memory.Form(False, False, True, coupled=True, out="relu"), 2),
    "static": (memory.Form(out="tanh"), 0),
    "static, fed back": (memory.Form(True, out="sigmoid"), 2),
    "no memory": (memory.Form(True, memory=False, out="tanh"), 0),
    "activated memory": (memory.Form(carried="tanh", out="tanh"), 1),
    "activated memory, another output": (memory.Form(carried="relu", out="tanh"), 0),
    "activated memory, plain output": (memory.Form(carried="sigmoid"), 0),
}
MEMORIES = {
    f"{name}{', norm' * norm}": Case(form._replace(norm=norm), fed, masked=norm and fed > 0)
    for name, (form, fed) in _MEMORIES.items()
    for norm in (False, True)
}
ACTIVATIONS = {
    f"{green}{', norm' * norm}{', line' * line}{', shared' * shared}": Case(
        activation.Form(green, 0.5 if green == "gaussian" else None, norm), line=line, shared=shared
    )
    for green, norm, line, shared in itertools.product(GREENS, *[(False, True)] * 3)
}
MAXIMA = {
    f"maxima {number}": Case(walk.Form(gate=gate, width=width, pooling="max", **row))
    for number, row in enumerate(
        covering(
            2,
            gated=[("none", 0), ("values", 1), ("values", 2)],
            order=[1, 2, 3, 4],
            readout=["c", "z", "sum"],
        )
    )
    for gate, width in [row.pop("gated")]
}
MAXIMA |= {f"largest sums of {order}": Case(Sums(order)) for order in (1, 2, 3, 4)}
CASES = {**WALKS, **MEMORIES, **ACTIVATIONS, **MAXIMA}

#: One case of each kind of kernel, for tests that do not depend on formulas.
SOME = {
    "walk": Case(walk.Form(2, "mul", True, "logits", 2, "sum", "tanh", True), 2),
    "selected walk": Case(walk.Form(3, "add", False, "values", 1, highway=True), select=True),
    "largest products": Case(walk.Form(3, "mul", False, "values", 2, "sum", pooling="max")),
    "largest sums": Case(Sums(3)),
    **{name: MEMORIES[name] for name in ("lstm, norm", "parallel", "activated memory")},
    **{
        name: ACTIVATIONS[name]
        for name in ("relu, line", "abs, norm, line", "gaussian, norm, shared")
    },
}
