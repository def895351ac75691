"""The maxima over n-grams against enumeration, and the steps against the definition."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from pyg_kernels.ops import max_scan
from pyg_kernels.ops.max_scan import (
    ProductExtremes,
    SumTable,
    path_in_use,
    product_max_scan,
    sum_max_scan,
)
from pyg_kernels.ops.packing import Packing
from tests.ngram_maxima import largest_sums, ngram_maxima

CHANNELS = 3
LENGTHS = [7, 5, 5, 2, 1, 0]
SCANS = {"mul": product_max_scan, "add": sum_max_scan}
CONSTANT = ["zero", "one", "number", "scalar", "vector", "vector with 0 and 1"]
CASES = [("mul", kind) for kind in [*CONSTANT, "gate", "scalar gate", "gate with 0 and 1"]]
CASES += [("add", kind) for kind in CONSTANT]
RANDOM = [case for case in CASES if case[1] in ("number", "scalar", "vector", "gate")]

every_case = pytest.mark.parametrize(("mapping", "kind"), CASES)
random_case = pytest.mark.parametrize(("mapping", "kind"), RANDOM)
every_order = pytest.mark.parametrize("order", [1, 2, 3, 4])
every_mapping = pytest.mark.parametrize("mapping", list(SCANS))


@pytest.fixture(params=["steps", "definition"])
def path(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    if request.param == "definition":
        use_definition(monkeypatch)
    return request.param


def use_definition(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(max_scan, "path_in_use", lambda: "definition")


def make_decay(kind: str, num_tokens: int, channels: int = CHANNELS) -> float | Tensor:
    numbers = {"zero": 0.0, "one": 1.0, "number": 0.6}
    if kind in numbers:
        return numbers[kind]
    shapes = {"scalar": (1,), "scalar gate": (num_tokens, 1)}
    gate = (num_tokens, channels) if "gate" in kind else (channels,)
    decay = torch.rand(shapes.get(kind, gate), dtype=torch.float64)
    if "0 and 1" in kind:
        decay[..., 0], decay[..., 1] = 0.0, 1.0
    return decay


def make_projections(order: int, num_tokens: int, channels: int = CHANNELS) -> list[Tensor]:
    rows = torch.randn(order, num_tokens, channels, dtype=torch.float64)
    return [p.clone().requires_grad_() for p in rows]


def rows_of(packing: Packing, text: int) -> Tensor:
    steps = range(packing.lengths[text])
    return torch.tensor([packing.offsets[t] + text for t in steps], dtype=torch.long)


def every_decay(decay: float | Tensor, rows: int, channels: int = CHANNELS) -> Tensor:
    return torch.as_tensor(decay, dtype=torch.float64).expand(rows, channels)


def leaves_of(projections: Sequence[Tensor], decay: float | Tensor) -> list[Tensor]:
    if isinstance(decay, Tensor):
        return [*projections, decay.requires_grad_()]
    return list(projections)


def floating(outputs: Any) -> list[Tensor]:
    """All numbers that a scan returns: c, z and the state."""
    c, z, state = outputs
    return [*c, z, *state[:-1]]


def gradients(outputs: Sequence[Tensor], inputs: Sequence[Tensor], **options: Any) -> Any:
    """The gradients of a fixed mixture of the outputs."""
    total = torch.zeros((), dtype=torch.float64)
    for k, out in enumerate(outputs, start=1):
        weights = torch.arange(1, out.numel() + 1, dtype=torch.float64).mul_(0.37 * k).cos()
        total = total + (out * weights.view(out.shape)).sum()
    return torch.autograd.grad(total, inputs, allow_unused=True, materialize_grads=True, **options)


def assert_close(found: Any, wanted: Any, rtol: float = 1e-10, atol: float = 1e-12) -> None:
    torch.testing.assert_close(found, wanted, rtol=rtol, atol=atol)


def same_width(tables: Sequence[Tensor], like: Sequence[Tensor]) -> list[Tensor]:
    """Cuts the starts that a table holds beyond those that were read."""
    return [
        t[:, :, : other.size(2)] if t.dim() == 4 else t
        for t, other in zip(tables, like, strict=True)
    ]


@pytest.mark.usefixtures("path")
@every_order
@every_case
def test_equals_the_maximum_over_all_ngrams(mapping: str, kind: str, order: int) -> None:
    torch.manual_seed(order)
    packing = Packing.of_lengths(LENGTHS)
    projections = make_projections(order, packing.num_tokens)
    decay = make_decay(kind, packing.num_tokens)
    c, z, state = SCANS[mapping](projections, decay, packing)
    weights = every_decay(decay, packing.num_tokens)
    assert state.seen.tolist() == LENGTHS
    for text, length in enumerate(LENGTHS):
        rows = rows_of(packing, text)
        own, own_decay = [p[rows] for p in projections], weights[rows]
        largest, ending = ngram_maxima(own, own_decay, mapping)
        assert_close([c_j[rows] for c_j in c], largest)
        assert_close(z[rows], ending)
        if isinstance(state, SumTable):
            assert_close(state.best[:, text, :length], largest_sums(own))
            assert not state.best[:, text, length:].any()
        elif length:
            smallest, _ = ngram_maxima(own, own_decay, mapping, smallest=True)
            assert_close(list(state.c_max[:, text]), [c_j[-1] for c_j in largest])
            assert_close(list(state.c_min[:, text]), [c_j[-1] for c_j in smallest])
        else:
            assert not state.c_max[:, text].any() and not state.c_min[:, text].any()


@pytest.mark.usefixtures("path")
@every_order
@random_case
def test_gradients_equal_those_of_the_enumeration(mapping: str, kind: str, order: int) -> None:
    torch.manual_seed(10 + order)
    packing = Packing.of_lengths([6, 4, 1])
    projections = make_projections(order, packing.num_tokens)
    decay = make_decay(kind, packing.num_tokens)
    leaves = leaves_of(projections, decay)
    c, z, _ = SCANS[mapping](projections, decay, packing)
    found, wanted = [*c, z], [torch.zeros_like(z) for _ in range(order + 1)]
    weights = every_decay(decay, packing.num_tokens)
    for text in range(packing.num_texts):
        rows = rows_of(packing, text)
        own = [p[rows] for p in projections]
        largest, ending = ngram_maxima(own, weights[rows], mapping)
        for k, values in enumerate([*largest, ending]):
            wanted[k] = wanted[k].index_put((rows,), values)
    assert_close(gradients(found, leaves), gradients(wanted, leaves))


@every_order
@every_case
def test_each_gradient_equals_the_definitions(
    mapping: str, kind: str, order: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every output with respect to every input, from a state of texts of several lengths."""
    torch.manual_seed(20 + order)
    before, packing = Packing.of_lengths([5, 2, 2, 1, 0]), Packing.of_lengths([4, 4, 2, 0, 0])
    decay = make_decay(kind, packing.num_tokens)
    constant = decay if not isinstance(decay, Tensor) or decay.dim() == 1 else 0.7
    with torch.no_grad():
        earlier = make_projections(order, before.num_tokens)
        *_, state = SCANS[mapping](earlier, constant, before)
    tensors = [t.clone().requires_grad_() for t in state[:-1]]
    state = type(state)(*tensors, state.seen)
    projections = make_projections(order, packing.num_tokens)
    leaves = [*leaves_of(projections, decay), *tensors]
    found = floating(SCANS[mapping](projections, decay, packing, state))
    use_definition(monkeypatch)
    wanted = floating(SCANS[mapping](projections, decay, packing, state))
    wanted = same_width(wanted, found)
    assert_close(found, wanted)
    for one, other in zip(found, wanted, strict=True):
        for leaf in leaves:
            (g,) = gradients([one], [leaf], retain_graph=True)
            (w,) = gradients([other], [leaf], retain_graph=True)
            assert_close(g, w)


@every_mapping
@pytest.mark.parametrize("lengths", [[6, 6], [5, 3, 1, 0], [1, 1], [2]])
@every_order
def test_all_gradients_at_once(
    mapping: str, lengths: list[int], order: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    torch.manual_seed(30 + order)
    packing = Packing.of_lengths(lengths)
    projections = make_projections(order, packing.num_tokens)
    decay = make_decay("gate" if mapping == "mul" else "vector", packing.num_tokens)
    leaves = leaves_of(projections, decay)
    found = floating(SCANS[mapping](projections, decay, packing))
    use_definition(monkeypatch)
    wanted = same_width(floating(SCANS[mapping](projections, decay, packing)), found)
    assert_close(gradients(found, leaves), gradients(wanted, leaves))


@random_case
@pytest.mark.parametrize("order", [1, 2, 3])
def test_gradcheck(mapping: str, kind: str, order: int) -> None:
    torch.manual_seed(40 + order)
    before, packing = Packing.of_lengths([3, 1, 0]), Packing.of_lengths([3, 2, 1])
    with torch.no_grad():
        earlier = make_projections(order, before.num_tokens, 2)
        *_, state = SCANS[mapping](earlier, 0.7, before)
    is_there = [t != 0 for t in state[:-1]]
    if isinstance(state, ProductExtremes):  # one n-gram is both the largest and the smallest
        state = state._replace(c_max=state.c_max + 0.5 * is_there[0])
    decay = make_decay(kind, packing.num_tokens, 2)
    projections = make_projections(order, packing.num_tokens, 2)
    count, given = len(projections), [decay] if isinstance(decay, Tensor) else []

    def run(*inputs: Tensor) -> tuple[Tensor, ...]:
        p, rest = list(inputs[:count]), inputs[count + len(given) :]
        weight = inputs[count] if given else decay
        tensors = [torch.where(t, x, 0.0) for t, x in zip(is_there, rest, strict=True)]
        c, z, after = SCANS[mapping](p, weight, packing, type(state)(*tensors, state.seen))
        return (*c, z, *after[:-1])

    leaves = leaves_of(projections, decay)
    assert torch.autograd.gradcheck(
        run, (*leaves, *(t.clone().requires_grad_() for t in state[:-1]))
    )


def in_pieces(
    scan: Any, projections: list[Tensor], decay: float | Tensor, pieces: list[list[int]]
) -> tuple[list[Tensor], Any]:
    """Feeds texts in pieces; the rows come back in the order of the whole texts."""
    totals = [sum(lengths) for lengths in zip(*pieces, strict=True)]
    whole, state = Packing.of_lengths(totals), None
    outs: list[Tensor] = [torch.zeros_like(projections[0]) for _ in range(len(projections) + 1)]
    done = [0] * len(totals)
    for lengths in pieces:
        packing = Packing.of_lengths(lengths)
        rows = torch.empty(packing.num_tokens, dtype=torch.long)
        for text, length in enumerate(lengths):
            rows[rows_of(packing, text)] = rows_of(whole, text)[done[text] : done[text] + length]
            done[text] += length
        per_token = isinstance(decay, Tensor) and decay.dim() == 2
        weights = decay[rows] if per_token else decay
        c, z, state = scan([p[rows] for p in projections], weights, packing, state)
        outs = [o.index_put((rows,), piece) for o, piece in zip(outs, (*c, z), strict=True)]
    return outs, state


@pytest.mark.usefixtures("path")
@every_order
@every_case
def test_in_pieces_as_whole(mapping: str, kind: str, order: int) -> None:
    torch.manual_seed(50 + order)
    pieces = [[5, 2, 2, 0, 0, 0], [4, 4, 1, 1, 1, 0], [1, 1, 0, 0, 0, 0], [3, 3, 3, 3, 3, 0]]
    whole = Packing.of_lengths([sum(lengths) for lengths in zip(*pieces, strict=True)])
    projections = make_projections(order, whole.num_tokens)
    decay = make_decay(kind, whole.num_tokens)
    leaves = leaves_of(projections, decay)
    scan = SCANS[mapping]
    c, z, after = scan(projections, decay, whole)
    found, state = in_pieces(scan, projections, decay, pieces)
    assert_close(found, [*c, z])
    assert state.seen.tolist() == after.seen.tolist()
    states = same_width(state[:-1], after[:-1])
    assert_close(states, list(after[:-1]))
    if kind not in ("zero", "vector with 0 and 1", "gate with 0 and 1"):  # those have ties
        assert_close(gradients([*found, *states], leaves), gradients([*c, z, *after[:-1]], leaves))


@settings(max_examples=40, deadline=None)
@given(data=st.data(), mapping=st.sampled_from(list(SCANS)), seed=st.integers(0, 2**16))
def test_split_anywhere(data: st.DataObject, mapping: str, seed: int) -> None:
    texts = data.draw(st.integers(1, 4))
    lengths = st.lists(st.integers(0, 4), min_size=texts, max_size=texts)
    pieces = [sorted(data.draw(lengths), reverse=True) for _ in range(3)]
    order = data.draw(st.integers(1, 4))
    torch.manual_seed(seed)
    whole = Packing.of_lengths([sum(part) for part in zip(*pieces, strict=True)])
    projections = make_projections(order, whole.num_tokens)
    decay = make_decay("gate" if mapping == "mul" else "vector", whole.num_tokens)
    leaves = leaves_of(projections, decay)
    c, z, after = SCANS[mapping](projections, decay, whole)
    found, state = in_pieces(SCANS[mapping], projections, decay, pieces)
    assert_close(found, [*c, z])
    assert state.seen.tolist() == after.seen.tolist()
    assert_close(list(state[:-1]), list(after[:-1]))
    assert_close(gradients(found, leaves), gradients([*c, z], leaves))


def column(*values: float) -> Tensor:
    return torch.tensor(values, dtype=torch.float64).unsqueeze(1)


@pytest.mark.usefixtures("path")
def test_two_negative_factors_make_the_largest_product() -> None:
    p = column(-1.0, 2.0, -3.0, -4.0)
    c, z, state = product_max_scan([p, p], 0.5, Packing.of_lengths([4]))
    # 12 = (-3)(-4); at the third token (-1)(-3), with the second skipped; (-1)(2) before.
    assert c[1].flatten().tolist() == [0.0, -2.0, 1.5, 12.0]
    assert z.flatten().tolist() == [0.0, -2.0, 1.5, 12.0]
    # The smallest at the end: (2)(-4), the third skipped, against 0.5 (2)(-3) = -3.
    assert state.c_min[1].item() == -4.0


@pytest.mark.usefixtures("path")
def test_the_largest_sum_is_decayed_as_a_whole() -> None:
    """The best prefix at one token is not part of the best n-gram at a later one."""
    p_1, p_2 = column(-8.0, -10.0, 0.0), column(0.0, 0.0, 20.0)
    c, z, _ = sum_max_scan([p_1, p_2], 0.5, Packing.of_lengths([3]))
    # c_1 prefers the decayed first token, -4 against -10; with 20 added, 0.5 (-8 + 20) loses
    # against -10 + 20.
    assert c[0].flatten().tolist() == [-8.0, -4.0, 0.0]
    assert z.flatten().tolist() == [0.0, -8.0, 10.0]
    assert c[1].flatten().tolist() == [0.0, -8.0, 10.0]


@pytest.mark.usefixtures("path")
@every_mapping
def test_at_decay_zero_gapped_ngrams_are_worth_zero(mapping: str) -> None:
    p_1, p_2 = column(2.0, -3.0, -4.0), column(1.0, -5.0, 1.0)
    decay = torch.zeros(1, dtype=torch.float64, requires_grad=True)
    c, z, _ = SCANS[mapping]([p_1, p_2], decay, Packing.of_lengths([3]))
    adjacent = {"mul": [-10.0, -3.0], "add": [-3.0, -2.0]}[mapping]
    assert z.flatten().tolist() == [0.0, adjacent[0], 0.0]  # the gap between 0 and 2
    assert c[1].flatten().tolist() == [0.0, adjacent[0], 0.0]
    for out in (*c, z):
        (gradient,) = torch.autograd.grad(out.sum(), decay, retain_graph=True)
        assert gradient.isfinite()


@pytest.mark.usefixtures("path")
@pytest.mark.parametrize(("mapping", "adjacent", "slope"), [("mul", -1.0, 6.0), ("add", -4.0, 5.0)])
def test_gradient_of_the_decay_at_zero(mapping: str, adjacent: float, slope: float) -> None:
    """Where the n-gram with one gap wins, it is the n-gram's value without decay."""
    p_1, p_2 = column(3.0, adjacent, 0.0), column(0.0, 0.0, 2.0)
    decay = torch.zeros(1, dtype=torch.float64, requires_grad=True)
    _, z, _ = SCANS[mapping]([p_1, p_2], decay, Packing.of_lengths([3]))
    assert z[2].item() == 0.0
    assert torch.autograd.grad(z[2, 0], decay)[0].item() == slope


@pytest.mark.usefixtures("path")
@every_mapping
def test_ties_go_to_the_ngram_that_was_complete_first(mapping: str) -> None:
    ones = [torch.ones(4, 1, dtype=torch.float64, requires_grad=True) for _ in range(2)]
    c, z, _ = SCANS[mapping](ones, 1.0, Packing.of_lengths([4]))
    for out, picked in ((c[1], (0, 1)), (z, (0, 3))):
        found = torch.autograd.grad(out[3, 0], ones, retain_graph=True)
        for gradient, token in zip(found, picked, strict=True):
            assert gradient.flatten().tolist() == [float(t == token) for t in range(4)]


@pytest.mark.usefixtures("path")
@every_mapping
def test_texts_shorter_than_an_ngram(mapping: str) -> None:
    """No n-gram: 0, also where all values are negative, and no gradient."""
    torch.manual_seed(0)
    packing = Packing.of_lengths([2, 1, 1])
    projections = [(-p.detach().abs() - 1).requires_grad_() for p in make_projections(4, 4)]
    decay = make_decay("vector", 4)
    c, z, state = SCANS[mapping](projections, decay, packing)
    assert (c[0] < 0).all() and not c[2].any() and not c[3].any() and not z.any()
    assert not c[1][:3].any() and c[1][3].all()
    assert not any(t[2:].any() for t in state[:-1])
    leaves = leaves_of(projections, decay)
    c, z, state = SCANS[mapping](projections, decay, packing)
    for gradient in gradients([*c[2:], z, *(t[2:] for t in state[:-1])], leaves):
        assert not gradient.any()


@pytest.mark.usefixtures("path")
@every_mapping
def test_what_a_state_holds_of_no_ngram_is_not_read(mapping: str) -> None:
    torch.manual_seed(0)
    packing = Packing.of_lengths([4, 3])
    projections, seen = make_projections(3, 7), torch.tensor([2, 0])
    shape = (3, 2, CHANNELS) if mapping == "mul" else (3, 2, 2, CHANNELS)
    count, kind = (2, ProductExtremes) if mapping == "mul" else (1, SumTable)
    junk = [torch.full(shape, 50.0, dtype=torch.float64, requires_grad=True) for _ in range(count)]
    state: Any = kind(*junk, seen)
    clean = []
    for t in junk:
        kept = t.detach().clone()
        kept[:, 1], kept[2, 0] = 0.0, 0.0  # two tokens make no 3-gram
        if mapping == "add":
            kept[1, 0, 1] = 0.0  # and no 2-gram from the second
        clean.append(kept)
    found = floating(SCANS[mapping](projections, 0.5, packing, state))
    wanted = floating(SCANS[mapping](projections, 0.5, packing, kind(*clean, seen)))
    assert_close(found, wanted)
    for t, kept in zip(gradients(found, junk), clean, strict=True):
        assert t.isfinite().all() and not t[kept == 0].any()


@pytest.mark.usefixtures("path")
@every_mapping
@pytest.mark.parametrize("texts", [0, 3])
def test_no_tokens(mapping: str, texts: int) -> None:
    packing = Packing((), texts)
    projections = [torch.zeros(0, CHANNELS, requires_grad=True) for _ in range(2)]
    c, z, state = SCANS[mapping](projections, 0.5, packing)
    assert len(c) == 2 and all(t.shape == (0, CHANNELS) for t in (*c, z))
    assert state.seen.tolist() == [0] * texts
    again = SCANS[mapping](projections, 0.5, packing, state)[2]
    assert_close(list(again), list(state))
    (c[1].sum() + z.sum()).backward()
    assert projections[0].grad is None or projections[0].grad.shape == (0, CHANNELS)


@every_case
def test_second_derivatives(mapping: str, kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    torch.manual_seed(2)
    packing = Packing.of_lengths([5, 3, 3])
    projections = make_projections(3, packing.num_tokens)
    decay = make_decay(kind, packing.num_tokens)
    leaves = leaves_of(projections, decay)
    outs = floating(SCANS[mapping](projections, decay, packing))
    outs = [out.square() for out in outs]
    plain = gradients(outs, leaves, retain_graph=True)
    kept = gradients(outs, leaves, create_graph=True)
    assert_close(kept, plain)
    second = gradients(kept, leaves)
    use_definition(monkeypatch)
    outs = [out.square() for out in floating(SCANS[mapping](projections, decay, packing))]
    wanted = gradients(gradients(outs, leaves, create_graph=True), leaves)
    assert_close(second, wanted)
    assert all(g.isfinite().all() for g in second)


@every_mapping
def test_transforms(mapping: str) -> None:
    torch.manual_seed(3)
    packing = Packing.of_lengths([5, 2, 0])
    projections = make_projections(3, packing.num_tokens)
    decay = torch.rand(CHANNELS, dtype=torch.float64)

    def total(first: Tensor) -> Tensor:
        c, z, state = SCANS[mapping]([first, *projections[1:]], decay, packing)
        return sum((t.square().sum() for t in (*c, z, *state[:-1])), torch.zeros(()))

    first = projections[0]
    (wanted,) = torch.autograd.grad(total(first), first)
    value = first.detach()
    assert_close(torch.func.grad(total)(value), wanted)
    assert_close(torch.func.jacrev(total)(value), wanted)
    stacked = torch.stack([value, 2 * value])
    assert_close(torch.func.vmap(total)(stacked), torch.stack([total(v) for v in stacked]))
    tangent = torch.randn_like(value)
    _, directional = torch.func.jvp(total, (value,), (tangent,))
    assert_close(directional, (wanted * tangent).sum())
    jacobian = torch.autograd.functional.jacobian(total, value, vectorize=True)
    assert_close(jacobian, wanted)


@every_mapping
def test_compiles(mapping: str) -> None:
    torch.manual_seed(4)
    torch._dynamo.reset()
    packing = Packing.of_lengths([4, 2, 2])
    projections = make_projections(2, packing.num_tokens)
    decay = make_decay("vector", packing.num_tokens)
    leaves = leaves_of(projections, decay)
    scan = partial(SCANS[mapping], packing=Packing.of_lengths([4, 2, 2]))
    compiled = torch.compile(scan, fullgraph=True, backend="aot_eager")
    found = floating(compiled(projections, decay))
    wanted = floating(scan(projections, decay))
    found = same_width(found, wanted)
    assert_close(found, wanted)
    assert_close(gradients(found, leaves), gradients(wanted, leaves))


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16], ids=str)
@every_mapping
def test_lower_precision(mapping: str, dtype: torch.dtype) -> None:
    """Half precision rounds inputs and outputs, and nothing between."""
    torch.manual_seed(5)
    packing = Packing.of_lengths([9, 6, 1])
    low = [p.detach().to(dtype).requires_grad_() for p in make_projections(3, packing.num_tokens)]
    high = [p.detach().float().requires_grad_() for p in low]
    decay = torch.rand(CHANNELS).requires_grad_()
    c, z, state = SCANS[mapping](low, decay, packing)
    wanted_c, wanted_z, wanted_state = SCANS[mapping](high, decay, packing)
    assert all(t.dtype == dtype for t in (*c, z))
    assert all(t.dtype == torch.float32 for t in state[:-1])
    assert_close(list(c), [t.to(dtype) for t in wanted_c])
    assert_close(z, wanted_z.to(dtype))
    assert_close(list(state[:-1]), list(wanted_state[:-1]))
    found = torch.autograd.grad(sum(t.float().sum() for t in (*c, z)), low)
    wanted = torch.autograd.grad(sum(t.sum() for t in (*wanted_c, wanted_z)), high)
    assert_close(list(found), [g.to(dtype) for g in wanted])


@every_mapping
def test_float32_is_close_to_float64(mapping: str) -> None:
    torch.manual_seed(6)
    packing = Packing.of_lengths([12, 12, 9, 4])
    double = make_projections(3, packing.num_tokens)
    single = [p.detach().float() for p in double]
    decay = torch.rand(CHANNELS, dtype=torch.float64)
    wanted = floating(SCANS[mapping](double, decay, packing))
    found = floating(SCANS[mapping](single, decay.float(), packing))
    assert_close([t.double() for t in found], [t.detach() for t in wanted], rtol=1e-5, atol=1e-6)


@every_mapping
def test_autocast_computes_in_float32(mapping: str) -> None:
    torch.manual_seed(7)
    packing = Packing.of_lengths([6, 4])
    half = [p.detach().bfloat16().requires_grad_() for p in make_projections(2, 10)]
    wanted = floating(SCANS[mapping]([p.float() for p in half], 0.5, packing))
    with torch.autocast("cpu", dtype=torch.bfloat16):
        found = floating(SCANS[mapping](half, 0.5, packing))
    assert_close(found, wanted)
    found[1].sum().backward()
    assert all(p.grad is not None and p.grad.dtype == torch.bfloat16 for p in half)


@every_mapping
def test_only_the_gradients_that_are_needed(mapping: str, monkeypatch: pytest.MonkeyPatch) -> None:
    torch.manual_seed(8)
    packing = Packing.of_lengths([5, 5, 2])
    values = [p.detach() for p in make_projections(3, packing.num_tokens)]
    values.append(torch.rand(CHANNELS, dtype=torch.float64))

    def run(wanted: int, output: int) -> Tensor:
        inputs = [v.clone().requires_grad_(k == wanted) for k, v in enumerate(values)]
        outs = floating(SCANS[mapping](inputs[:3], inputs[3], packing))
        if not outs[output].requires_grad:
            return torch.zeros_like(inputs[wanted])
        return gradients([outs[output]], [inputs[wanted]])[0]

    places = [(wanted, output) for wanted in range(4) for output in range(4)]
    found = [run(*place) for place in places]
    use_definition(monkeypatch)
    assert_close(found, [run(*place) for place in places])


@every_mapping
def test_strided_operands_and_no_grad(mapping: str) -> None:
    """Columns of one wide product, as they come from a fused projection."""
    torch.manual_seed(9)
    packing = Packing.of_lengths([6, 6])
    wide = torch.randn(12, 3 * CHANNELS, dtype=torch.float64, requires_grad=True)
    whole = [p.contiguous() for p in wide.split(CHANNELS, dim=1)]
    wanted = floating(SCANS[mapping](whole, 0.8, packing))
    found = floating(SCANS[mapping](list(wide.split(CHANNELS, dim=1)), 0.8, packing))
    assert_close(found, wanted)
    assert_close(gradients(found, [wide]), gradients(wanted, [wide], retain_graph=True))
    with torch.no_grad():
        assert_close(floating(SCANS[mapping](whole, 0.8, packing)), wanted)


@every_mapping
def test_a_longer_text(mapping: str, monkeypatch: pytest.MonkeyPatch) -> None:
    torch.manual_seed(11)
    packing = Packing.of_lengths([70, 63, 1])
    projections = make_projections(4, packing.num_tokens)
    decay = torch.tensor([0.5, 0.9, 1.0], dtype=torch.float64)
    leaves = leaves_of(projections, decay)
    found = floating(SCANS[mapping](projections, decay, packing))
    use_definition(monkeypatch)
    wanted = floating(SCANS[mapping](projections, decay, packing))
    assert_close(found, wanted)
    assert_close(gradients(found, leaves), gradients(wanted, leaves))


@every_mapping
def test_nan_stays_in_its_channel_and_text(mapping: str) -> None:
    torch.manual_seed(12)
    packing = Packing.of_lengths([5, 5])
    projections = [p.detach() for p in make_projections(2, 10)]
    projections[1][4, 0] = torch.nan  # token 2 of text 0
    c, z, _ = SCANS[mapping](projections, 0.5, packing)
    broken = torch.zeros(10, CHANNELS, dtype=torch.bool)
    broken[[4, 6, 8], 0] = True
    assert c[1].isnan().equal(broken) and not c[0].isnan().any()
    assert z.isnan().nonzero().tolist() == [[4, 0]]


def test_path_in_use() -> None:
    assert path_in_use() == "steps"
    seen: list[str] = []

    def listens(x: Tensor) -> Tensor:
        seen.append(path_in_use())
        return x

    torch.func.vmap(listens)(torch.zeros(2))
    assert seen == ["definition"]


@every_mapping
def test_bad_shapes(mapping: str) -> None:
    packing = Packing.of_lengths([2, 1])
    scan, p = SCANS[mapping], torch.zeros(3, CHANNELS)
    with pytest.raises(ValueError, match="projections is empty"):
        scan([], 0.5, packing)
    with pytest.raises(ValueError, match=r"projections have shapes .* expected all \(3, D\)"):
        scan([p, p[:2]], 0.5, packing)
    with pytest.raises(ValueError, match=r"decay has shape \(2,\)"):
        scan([p], torch.zeros(2), packing)
    *_, state = scan([p], 0.5, packing)
    with pytest.raises(ValueError, match=r"state\.\w+ has shape .*: expected \(2, 2"):
        scan([p, p], 0.5, packing, state)
    with pytest.raises(ValueError, match=r"state\.seen has shape \(1,\): expected \(2,\)"):
        scan([p], 0.5, packing, state._replace(seen=state.seen[:1]))


def test_sums_need_a_constant_decay_and_a_whole_table() -> None:
    packing, p = Packing.of_lengths([2, 1]), torch.zeros(3, CHANNELS)
    with pytest.raises(ValueError, match="needs a constant decay"):
        sum_max_scan([p], torch.zeros(3, CHANNELS), packing)
    *_, state = sum_max_scan([p], 0.5, packing)
    with pytest.raises(ValueError, match=r"state\.seen goes from 1 to 5: expected 0 to 2"):
        sum_max_scan([p], 0.5, packing, state._replace(seen=torch.tensor([5, 1])))
