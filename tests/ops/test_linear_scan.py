"""The scans equal their definitions, outputs and every gradient, on every path."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from pyg_kernels.ops import backend
from pyg_kernels.ops.linear_scan import (
    blocked,
    chunked,
    linear_scan,
    projected_walk_scan,
    reference,
    walk_scan,
)
from pyg_kernels.ops.packing import Packing

LENGTHS = {
    "grid": [5, 5, 5],
    "ragged": [6, 4, 4, 1, 0],
    "one token": [1],
    "empty texts": [0, 0],
    "no texts": [],
}


def assert_equal_with_gradients(
    found: Sequence[Tensor], expected: Sequence[Tensor], inputs: Sequence[Tensor]
) -> None:
    """The same outputs, and the same gradients of a random combination of them."""
    for a, b in zip(found, expected, strict=True):
        torch.testing.assert_close(a, b, rtol=1e-11, atol=1e-12)
    used = [k for k, b in enumerate(expected) if b.requires_grad and b.numel()]
    if not used:
        return
    seeds = [torch.randn_like(expected[k]) for k in used]
    gradients = [
        torch.autograd.grad(
            [outs[k] for k in used],
            inputs,
            seeds,
            retain_graph=True,
            allow_unused=True,
            materialize_grads=True,
        )
        for outs in (found, expected)
    ]
    for a, b in zip(*gradients, strict=True):
        torch.testing.assert_close(a, b, rtol=1e-9, atol=1e-11)


def leaf(*shape: int) -> Tensor:
    return torch.randn(shape, dtype=torch.float64, requires_grad=True)


def coefficients(kind: str, steps: int, rest: tuple[int, ...]) -> Tensor:
    shapes = {
        "full": (steps, *rest),
        "vector": rest[-1:],
        "number": (),
        "a step": (steps, *[1] * len(rest)),
        "a channel": (1, *rest),
    }
    return torch.empty(shapes[kind], dtype=torch.float64).uniform_(-1.2, 1.2).requires_grad_()


@pytest.mark.parametrize("normalize", [False, True])
@pytest.mark.parametrize("kind", ["full", "vector", "number", "a step", "a channel"])
@pytest.mark.parametrize("rest", [(), (3,), (2, 3), (2, 2100)], ids=str)
def test_linear_scan_is_its_definition(rest: tuple[int, ...], kind: str, normalize: bool) -> None:
    """Steps and chunks (few channels, many steps), coefficients of any sign."""
    torch.manual_seed(0)
    for steps in (1, 2, 7, 49, 63, 130) if rest != (2, 2100) else (3, 50):
        a, b, initial = coefficients(kind, steps, rest), leaf(steps, *rest), leaf(*rest)
        found = linear_scan(a, b, initial, normalize=normalize)
        expected = reference.linear_scan(a.expand(b.shape), b, initial, normalize)
        assert_equal_with_gradients([found], [expected], [a, b, initial])


def test_linear_scan_of_nothing_and_without_a_start() -> None:
    empty = linear_scan(0.5, torch.zeros(0, 3))
    assert empty.shape == (0, 3)
    assert linear_scan(0.5, torch.ones(2, 0)).shape == (2, 0)
    assert linear_scan(0.5, torch.ones(3)).tolist() == [1.0, 1.5, 1.75]
    assert linear_scan(2, torch.ones(3)).tolist() == [1.0, 3.0, 7.0]


def test_a_number_is_taken_in_full_precision() -> None:
    found = linear_scan(0.3, torch.ones(100, 2, dtype=torch.float64))
    expected = reference.linear_scan(
        torch.full((100, 2), 0.3, dtype=torch.float64),
        torch.ones(100, 2, dtype=torch.float64),
        torch.zeros(2, dtype=torch.float64),
    )
    torch.testing.assert_close(found, expected, rtol=1e-14, atol=0)


@pytest.mark.parametrize("normalize", [False, True])
@pytest.mark.parametrize("kind", ["full", "vector", "number", "a step"])
def test_sequences_after_each_other(kind: str, normalize: bool) -> None:
    torch.manual_seed(0)
    ptr = torch.tensor([0, 3, 3, 60, 61])
    a, b, initial = coefficients(kind, 61, (2,)), leaf(61, 2), leaf(4, 2)
    found = linear_scan(a, b, initial, ptr=ptr, normalize=normalize)
    every = a.expand(b.shape)
    bounds = [slice(*pair) for pair in zip(ptr[:-1].tolist(), ptr[1:].tolist(), strict=True)]
    expected = torch.cat(
        [reference.linear_scan(every[s], b[s], initial[k], normalize) for k, s in enumerate(bounds)]
    )
    assert_equal_with_gradients([found], [expected], [a, b, initial])


def test_resets_stop_whatever_came_before() -> None:
    b = torch.ones(6, 1, dtype=torch.float64)
    b[0] = float("inf")
    found = linear_scan(0.5, b, ptr=torch.tensor([0, 3, 6]))
    assert found[:3].isinf().all()
    assert found[3:].flatten().tolist() == [1.0, 1.5, 1.75]


@settings(max_examples=30, deadline=None)
@given(st.integers(1, 90), st.data())
def test_a_scan_in_pieces(steps: int, data: st.DataObject) -> None:
    torch.manual_seed(steps)
    cut = data.draw(st.integers(0, steps))
    a, b = torch.rand(steps, 3, dtype=torch.float64), torch.randn(steps, 3, dtype=torch.float64)
    whole = linear_scan(a, b)
    first = linear_scan(a[:cut], b[:cut])
    last = first[-1] if cut else torch.zeros(3, dtype=torch.float64)
    second = linear_scan(a[cut:], b[cut:], last)
    torch.testing.assert_close(torch.cat((first, second)), whole, rtol=1e-12, atol=1e-13)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
def test_half_precision_adds_up_in_single(dtype: torch.dtype) -> None:
    """300 ones: in half precision the sum would stop growing at 256."""
    found = linear_scan(1.0, torch.ones(300, 2, dtype=dtype))
    assert found.dtype == dtype
    assert found[-1].tolist() == [300.0, 300.0]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"b": torch.tensor(1.0)}, "b is a number"),
        ({"a": torch.ones(4)}, r"a has shape \(4,\)"),
        ({"a": torch.ones(2, 3, 2)}, "a has shape"),
        ({"initial": torch.ones(3)}, "initial has shape"),
        ({"ptr": torch.tensor([0, 2])}, "ptr"),
        ({"ptr": torch.tensor([1, 3])}, "ptr"),
        ({"ptr": torch.tensor([0, 2, 1, 3])}, "ptr"),
        ({"ptr": torch.tensor([0.0, 3.0])}, "ptr"),
    ],
)
def test_errors(arguments: dict[str, Tensor], message: str) -> None:
    given_arguments = {"a": 0.5, "b": torch.ones(3, 2), **arguments}
    with pytest.raises(ValueError, match=message):
        linear_scan(**given_arguments)  # type: ignore[arg-type]


def decays(kind: str, tokens: int, channels: int) -> Tensor:
    shapes = {"gate": (tokens, channels), "scalar gate": (tokens, 1), "vector": (channels,)}
    return torch.rand(shapes.get(kind, (1,)), dtype=torch.float64).requires_grad_()


@pytest.mark.parametrize("kind", ["gate", "scalar gate", "vector", "number"])
@pytest.mark.parametrize("normalize", [False, True])
@pytest.mark.parametrize("combine", ["mul", "add"])
@pytest.mark.parametrize("name", LENGTHS)
def test_walk_scan_is_its_definition(
    name: str, combine: str, normalize: bool, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All orders at once, in one block and in many, and with some gradients absent."""
    torch.manual_seed(0)
    packing, channels = Packing.of_lengths(LENGTHS[name]), 3
    tokens = packing.num_tokens
    for rows in (1024, 4, 1):
        monkeypatch.setattr(blocked, "BLOCK_ROWS", rows)
        for order in (1, 2, 4):
            projections = [leaf(tokens, channels) for _ in range(order)]
            decay = decays(kind, tokens, channels)
            initial = leaf(order, packing.num_texts, channels)
            found = walk_scan(projections, decay, packing, initial, combine, normalize)
            every = decay.expand(tokens, channels)
            expected = reference.walk_scan(projections, every, packing, initial, combine, normalize)
            inputs = [decay, initial, *projections]
            assert_equal_with_gradients(found, expected, inputs)
            assert_equal_with_gradients(found[-1:], expected[-1:], inputs)
            assert_equal_with_gradients(found[:1], expected[:1], inputs)


@pytest.mark.parametrize("kind", ["gate", "scalar gate", "vector", "number"])
@pytest.mark.parametrize("name", ["grid", "ragged", "one token", "empty texts"])
def test_projected_walk_scan_is_products_and_scan(
    name: str, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    torch.manual_seed(0)
    packing, channels, features = Packing.of_lengths(LENGTHS[name]), 3, 4
    tokens = packing.num_tokens
    for rows, order, combine, normalize, act, with_bias in (
        (1024, 1, "mul", True, "tanh", True),
        (4, 2, "mul", False, "relu", True),
        (4, 3, "add", True, None, False),
        (1, 2, "mul", True, "tanh", False),
    ):
        monkeypatch.setattr(blocked, "BLOCK_ROWS", rows)
        x, weights = leaf(tokens, features), [leaf(channels, features) for _ in range(order)]
        bias = leaf(channels) if with_bias else None
        initial = leaf(order, packing.num_texts, channels)
        gate, decay = None, None
        if "gate" in kind:
            width = channels if kind == "gate" else 1
            gate = (leaf(width, features), leaf(width))
            every = torch.sigmoid(x @ gate[0].t() + gate[1])
        else:
            decay = decays(kind, tokens, channels)
            every = decay
        found = projected_walk_scan(
            x, weights, gate, decay, packing, initial, combine, normalize, act, bias
        )
        states = reference.walk_scan(
            [x @ w.t() for w in weights],
            every.expand(tokens, channels),
            packing,
            initial,
            combine,
            normalize,
        )
        h = states[-1] if bias is None else states[-1] + bias
        h = h if act is None else getattr(torch, act)(h)
        given_gate = [] if gate is None else list(gate)
        optional = [t for t in (bias, decay) if t is not None]
        inputs = [x, initial, *weights, *given_gate, *optional]
        assert_equal_with_gradients(found, [h, *states], inputs)
        assert_equal_with_gradients(found[:1], [h], inputs)
        assert_equal_with_gradients(found[-1:], states[-1:], inputs)


@pytest.mark.parametrize("create_graph", [False, True])
def test_second_derivatives(create_graph: bool) -> None:
    packing = Packing.of_lengths([3, 2])
    projections = [leaf(5, 2), leaf(5, 2)]
    decay, initial = decays("gate", 5, 2), leaf(2, 2, 2)

    def run(decay: Tensor, initial: Tensor, *p: Tensor) -> tuple[Tensor, ...]:
        return walk_scan(p, decay, packing, initial, "mul", True)

    inputs = (decay, initial, *projections)
    assert torch.autograd.gradcheck(run, inputs)
    if create_graph:
        assert torch.autograd.gradgradcheck(run, inputs)
    a, b, start = decays("gate", 60, 2), leaf(60, 2), leaf(2)
    assert torch.autograd.gradcheck(lambda *args: linear_scan(*args), (a, b, start))


def test_transforms_take_the_definition() -> None:
    torch.manual_seed(0)
    a, b = torch.rand(6, 2, dtype=torch.float64), torch.randn(6, 2, dtype=torch.float64)
    plain = linear_scan(a, b)
    batched = torch.func.vmap(linear_scan, in_dims=(None, 0))(a, torch.stack([b, 2 * b]))
    torch.testing.assert_close(batched, torch.stack([plain, 2 * plain]))
    jacobian = torch.func.jacrev(lambda b: linear_scan(a, b)[-1, 0])(b)
    assert jacobian[-1, 0] == 1 and (jacobian[:, 1] == 0).all()


def test_backend_names_the_path() -> None:
    assert backend("cpu")["linear_scan"] == "steps and chunks"


def test_chunks_of_any_number() -> None:
    """The chunks' own recurrence is chunked too where it is long."""
    torch.manual_seed(0)
    a = torch.rand(3000, 1, dtype=torch.float64, requires_grad=True)
    b, initial = leaf(3000, 1), leaf(1)
    for normalize in (False, True):
        found = chunked.LinearScan.apply(a, b, initial, normalize)
        expected = reference.linear_scan(a, b, initial, normalize)
        assert_equal_with_gradients([found], [expected], [a, b, initial])
