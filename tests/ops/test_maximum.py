"""Maxima over n-grams in pieces, by hand, and where n-grams tie.

Those of a layer are those of an enumeration (tests/sequence/test_rcnn.py), and the kernels' those
of the definition, in texts of every form (tests/ops/test_scans.py).
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any, NamedTuple

import pytest
import torch
from torch import Tensor

from pyg_kernels.ops import operator
from pyg_kernels.ops.dtypes import common_dtype
from pyg_kernels.ops.ragged import Layout
from pyg_kernels.ops.scan.maximum import SumTable, sum_max_scan
from pyg_kernels.ops.scan.walk import Form, extremes, walk_scan
from tests.ops.scans import gradients

D, F64 = 3, torch.float64
every_mapping = pytest.mark.parametrize("mapping", ["mul", "add"])
close = partial(torch.testing.assert_close, rtol=1e-10, atol=1e-12)


@pytest.fixture(params=["numba", "definition"])
def path(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    if request.param == "definition":
        monkeypatch.setattr(operator, "cpu_backend", lambda: "definition")
    return request.param


both_paths = pytest.mark.usefixtures("path")


class Extremes(NamedTuple):
    """The largest and smallest products of each order, (n, B, D), and the tokens read, (B,)."""

    c_max: Tensor
    c_min: Tensor
    seen: Tensor


def product_maxima(
    x: Tensor,
    order: int,
    decay: Any,
    layout: Layout,
    state: Extremes | None = None,
    readout: str = "c",
) -> tuple[Tensor, Extremes]:
    """The largest products, as the layer takes them from a walk's scan."""
    texts, channels = layout.num_texts, x.size(1) // order
    result, dtype = common_dtype(x), torch.promote_types(x.dtype, torch.float32)
    x, decay = x.to(dtype), torch.as_tensor(decay, dtype=dtype)
    gated, params = decay.dim() == 2, x.new_zeros(4, channels)
    form = Form(order, readout=readout, pooling="max")
    if gated:
        form = form._replace(gate="values", width=decay.size(1))
        x = torch.cat((decay, x), 1)
    else:
        params = torch.cat((decay.expand(1, channels), params[1:]))
    if state is None:
        zeros = x.new_zeros(order, texts, channels)
        state = Extremes(zeros, zeros, torch.zeros_like(layout.length))
    c0, before = extremes(layout, *state, x.dtype)
    h, _, end = walk_scan(form, layout, x, params, c0, c0[0], before)
    return h.to(result), Extremes(*end.chunk(2), state.seen + layout.length)


def sum_maxima(
    x: Tensor,
    order: int,
    decay: Any,
    layout: Layout,
    state: SumTable | None = None,
    readout: str = "c",
) -> tuple[Tensor, SumTable]:
    dtype = torch.promote_types(x.dtype, torch.float32)
    best = x.new_zeros(order, layout.num_texts, 0, x.size(1) // order, dtype=dtype)
    state = state or SumTable(best, torch.zeros_like(layout.length))
    return sum_max_scan(x, decay, layout, state, readout)


SCANS: dict[str, Any] = {"mul": product_maxima, "add": sum_maxima}
READOUTS = ("c", "z", "sum")


def ragged(lengths: Sequence[int]) -> Layout:
    ptr = torch.tensor([0, *lengths]).cumsum(0)
    return Layout.of_ptr(ptr, max(lengths), sum(lengths))


def make(order: int, kind: str, rows: int, seed: int = 0) -> tuple[Tensor, Tensor]:
    """The projections, and a decay of each channel or of each token, too, with gradients."""
    torch.manual_seed(seed)
    shape = {"vector": (D,), "gate": (rows, D)}[kind]
    x = torch.randn(rows, order * D, dtype=F64, requires_grad=True)
    return x, torch.rand(shape, dtype=F64, requires_grad=True)


def numbers(found: tuple[Tensor, Any]) -> list[Tensor]:
    """All numbers that a scan returns."""
    return [found[0], *found[1][:-1]]


def assert_same(found: Sequence[Tensor], wanted: Sequence[Tensor], *leaves: Tensor) -> None:
    """And the gradients of the leaves."""
    close(found, wanted)
    close(gradients(found, leaves), gradients(wanted, leaves))


@every_mapping
def test_what_a_state_holds_where_no_ngram_is_does_not_matter(mapping: str) -> None:
    _, state = SCANS[mapping](make(3, "vector", 10)[0], 3, 0.7, ragged([3, 0, 2, 5]))
    x, _ = make(3, "vector", 8)
    found = []
    for value in (0.0, 50.0):
        kept = type(state)(*(t.where(t != 0, value).detach() for t in state[:-1]), state.seen)
        found.append(numbers(SCANS[mapping](x, 3, 0.7, ragged([1, 4, 2, 1]), kept)))
    close(*found)


@both_paths
@every_mapping
@pytest.mark.parametrize("seed", range(0, 16, 3))
def test_in_pieces_as_whole(mapping: str, seed: int) -> None:
    torch.manual_seed(seed)
    order, readout = 1 + seed // 4, READOUTS[seed % 3]
    pieces = torch.randint(0, 5, (3, 1 + seed % 4))
    whole = ragged(pieces.sum(0).tolist())
    x, decay = make(order, "gate" if mapping == "mul" else "vector", whole.num_rows, seed)
    wanted = numbers(SCANS[mapping](x, order, decay, whole, None, readout))
    out, state, at = torch.zeros_like(wanted[0]), None, whole.start.clone()
    for piece in pieces:
        rows = [begin + torch.arange(int(size)) for begin, size in zip(at, piece, strict=True)]
        index = torch.cat(rows)
        weight = decay[index] if mapping == "mul" else decay
        part, state = SCANS[mapping](
            x[index], order, weight, ragged(piece.tolist()), state, readout
        )
        out, at = out.index_put((index,), part), at + piece
    assert_same(numbers((out, state)), wanted, x, decay)


def side_by_side(*columns: Sequence[float]) -> Tensor:
    return torch.tensor(columns, dtype=F64).t().contiguous().requires_grad_()


@both_paths
def test_by_hand() -> None:
    p = [-1.0, 2.0, -3.0, -4.0]
    c, state = product_maxima(side_by_side(p, p), 2, 0.5, ragged([4]))
    # 12 = (-3)(-4); at the third token (-1)(-3), with the second skipped; (-1)(2) before.
    assert c.flatten().tolist() == [0.0, -2.0, 1.5, 12.0]
    assert state.c_min[1].item() == -4.0  # (2)(-4), against 0.5 (2)(-3)
    # Sums are decayed as a whole: 0.5 (-8 + 20) loses against -10 + 20, though -4 beats -10.
    c, _ = sum_maxima(side_by_side([-8.0, -10.0, 0.0], [0.0, 0.0, 20.0]), 2, 0.5, ragged([3]))
    assert c.flatten().tolist() == [0.0, -8.0, 10.0]


@both_paths
@pytest.mark.parametrize(("mapping", "adjacent", "slope"), [("mul", -1.0, 6.0), ("add", -4.0, 5.0)])
def test_decay_zero_and_ties(mapping: str, adjacent: float, slope: float) -> None:
    """A gapped n-gram is worth 0 then; of equals wins the one that was complete first."""
    decay = torch.zeros(1, dtype=F64, requires_grad=True)
    x = side_by_side([3.0, adjacent, 0.0], [0.0, 0.0, 2.0])
    z, _ = SCANS[mapping](x, 2, decay, ragged([3]), None, "z")
    assert z[2].item() == 0.0
    assert torch.autograd.grad(z[2, 0], decay)[0].item() == slope
    ones = torch.ones(4, 2, dtype=F64, requires_grad=True)
    for readout, picked in (("c", (0, 1)), ("z", (0, 3))):
        out, _ = SCANS[mapping](ones, 2, 1.0, ragged([4]), None, readout)
        (found,) = torch.autograd.grad(out[3, 0], ones)
        assert found.nonzero().tolist() == sorted([token, j] for j, token in enumerate(picked))


@pytest.mark.traces
@every_mapping
def test_compiles(mapping: str) -> None:
    torch._dynamo.reset()
    layout, (x, decay) = ragged([4, 1, 2]), make(2, "vector", 7)
    carried = SCANS[mapping](x.detach(), 2, 0.5, layout)[1]
    scan = partial(SCANS[mapping], order=2, layout=layout, state=carried)
    found = torch.compile(scan, fullgraph=True, backend="eager")(x, decay=decay)
    assert_same(numbers(found), numbers(scan(x, decay=decay)), x, decay)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16], ids=str)
@every_mapping
def test_half_precision_rounds_nothing_between(mapping: str, dtype: torch.dtype) -> None:
    low = make(3, "vector", 9)[0].detach().to(dtype).requires_grad_()
    out, state = SCANS[mapping](low, 3, 0.5, ragged([6, 3]))
    wanted, wanted_state = SCANS[mapping](low.float(), 3, 0.5, ragged([6, 3]))
    close([out, *state], [wanted.to(dtype), *wanted_state])
    with torch.autocast("cpu", dtype=torch.bfloat16):
        close(SCANS[mapping](low, 3, 0.5, ragged([6, 3]))[0], wanted)
    out.float().sum().backward()
    assert low.grad is not None and low.grad.dtype == dtype


@both_paths
@every_mapping
def test_memory_of_any_strides(mapping: str) -> None:
    layout, x = ragged([5, 3]), torch.randn(6, 8, dtype=F64).t()
    found, wanted = (SCANS[mapping](t, 2, 0.5, layout) for t in (x, x.contiguous()))
    close(numbers(found), numbers(wanted))


def test_bad_arguments() -> None:
    layout, x = ragged([2, 1]), torch.zeros(3, 2 * D)
    state = sum_maxima(x, 2, 0.5, layout)[1]
    short, far = (state._replace(seen=torch.tensor(of)) for of in ([2], [5, 1]))
    for message, options in (
        (r"x has shape \(3, 3\): expected \(3, 6\)", {"x": x[:, :D]}),
        (r"state\.best has shape .*: expected \(2, 1", {"layout": ragged([3])}),
        (r"state\.seen has shape \(1,\)", {"state": short}),
        (r"state\.seen goes from 1 to 5: expected 0 to 2", {"state": far}),
    ):
        given = {"x": x, "decay": 0.5, "layout": layout, "state": state}
        with pytest.raises(ValueError, match=message):
            sum_max_scan(**{**given, **options})
