"""Products through oneDNN against torch.mm: values and first and second derivatives."""

from __future__ import annotations

import subprocess
import sys
from collections import OrderedDict

import pytest
import torch

from pyg_kernels.ops import backend, products


@pytest.fixture(autouse=True)
def small_products_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(products, "_SMALLEST_ONEDNN_PRODUCT", 1)


@pytest.mark.parametrize("shape", [(1, 3, 5), (17, 8, 8), (40, 33, 65)])
def test_values_and_gradients(shape: tuple[int, int, int]) -> None:
    torch.manual_seed(0)
    n, f, d = shape
    x = torch.randn(n, f, requires_grad=True)
    weights = [torch.randn(d, f, requires_grad=True) for _ in range(3)]
    out = products.project(x, weights)
    grads = [torch.randn(n, d), None, torch.randn(n, d)]
    expected = [x @ w.t() for w in weights]
    found = torch.autograd.grad([out[0], out[2]], [x, *weights], grads[::2], allow_unused=True)
    wanted = torch.autograd.grad(
        [expected[0], expected[2]], [x, *weights], grads[::2], allow_unused=True
    )
    for o, e in zip(out, expected, strict=True):
        torch.testing.assert_close(o, e, rtol=1e-5, atol=1e-5)
    for f_, w in zip(found, wanted, strict=True):
        assert (f_ is None) == (w is None)
        if w is not None:
            torch.testing.assert_close(f_, w, rtol=1e-5, atol=1e-5)


def test_second_derivatives() -> None:
    torch.manual_seed(0)
    x, w = torch.randn(6, 4, requires_grad=True), torch.randn(5, 4, requires_grad=True)

    def penalty(product):
        (g,) = torch.autograd.grad(product.tanh().sum(), x, create_graph=True)
        return torch.autograd.grad(g.square().sum(), [x, w])

    found = penalty(products.project(x, [w])[0])
    for f, e in zip(found, penalty(x @ w.t()), strict=True):
        torch.testing.assert_close(f, e, rtol=1e-4, atol=1e-5)


def test_first_derivatives_that_keep_their_graph() -> None:
    torch.manual_seed(0)
    x = torch.randn(6, 4, requires_grad=True)
    weights = [torch.randn(5, 4, requires_grad=True) for _ in range(2)]
    total = sum(o.square().sum() for o in products.project(x, weights))
    plain = torch.autograd.grad(total, [x, *weights], retain_graph=True)
    kept = torch.autograd.grad(total, [x, *weights], create_graph=True)
    for p, k in zip(plain, kept, strict=True):
        torch.testing.assert_close(k, p, rtol=1e-5, atol=1e-5)


def test_wrong_products_are_not_used(monkeypatch: pytest.MonkeyPatch) -> None:
    linear = torch.nn.functional.linear
    assert products._agrees(linear, gradients)
    assert not products._agrees(lambda x, w: 2 * linear(x, w), gradients)
    assert not products._agrees(linear, lambda x, pairs: [2 * g for g in gradients(x, pairs)])
    monkeypatch.setattr(products, "_agrees", lambda *_: False)
    monkeypatch.setenv("PYG_KERNELS_PRODUCTS", "onednn")
    assert products._measured() is None


def gradients(x, pairs):
    return [g.t() @ x for g, _ in pairs]


def test_the_measurement_ignores_its_surroundings(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYG_KERNELS_PRODUCTS", "onednn")
    expected = products._measured() is None
    monkeypatch.setattr(torch, "get_default_dtype", lambda: torch.float64)
    with torch.device("meta"), torch.autocast("cpu", dtype=torch.bfloat16):
        assert (products._measured() is None) == expected


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("blocks", [1, 20])
@pytest.mark.parametrize("transposed", [False, True])
def test_block_by_block(
    monkeypatch: pytest.MonkeyPatch, dtype: torch.dtype, blocks: int, transposed: bool
) -> None:
    """One matrix with blocks of several sizes: returned, written and added."""
    monkeypatch.setattr(products, "_SMALLEST_PACKED_PRODUCT", 1)
    torch.manual_seed(0)
    weight = torch.randn(33, 65, dtype=dtype).t() if transposed else torch.randn(65, 33).to(dtype)
    product = products.BlockProduct(weight, 40, blocks)
    for rows in (40, 7, 1):
        x = torch.randn(rows, 33, dtype=dtype)
        out, expected = torch.full((rows, 65), torch.nan, dtype=dtype), x @ weight.t()
        torch.testing.assert_close(product(x), expected)
        torch.testing.assert_close(product(x, out=out), expected)
        torch.testing.assert_close(product(x, out=out, add=True), 2 * expected)


@pytest.mark.parametrize("rows", [0, 1, 40])
def test_the_gradient_of_a_weight(rows: int) -> None:
    torch.manual_seed(0)
    x, grad = torch.randn(rows, 33), torch.randn(rows, 65)
    out, expected = torch.full((65, 33), torch.nan), grad.t() @ x
    torch.testing.assert_close(products.weight_gradient(x, grad), expected)
    torch.testing.assert_close(products.weight_gradient(x, grad, out=out), expected)
    torch.testing.assert_close(products.weight_gradient(x, grad, out=out, add=True), 2 * expected)


@pytest.mark.parametrize("fast", [False, True], ids=["torch.mm", "onednn"])
@pytest.mark.parametrize("wanted", ["all", "input", "second-weight"])
def test_either_path(fast: bool, wanted: str) -> None:
    if fast and products._onednn() is None:
        pytest.skip("PyTorch has no oneDNN products")
    torch.manual_seed(0)
    tensors = [torch.randn(n, 7, requires_grad=True) for n in (33, 5, 9)]
    inputs = {"all": tensors, "input": tensors[:1], "second-weight": tensors[2:]}[wanted]
    x, *weights = tensors
    found = products._Project.apply(fast, x, *weights)
    plain = [x @ weight.t() for weight in weights]
    grads = [torch.randn_like(out) for out in plain]
    for f, p in zip(found, plain, strict=True):
        torch.testing.assert_close(f, p)
    ours = torch.autograd.grad(found, inputs, grads)
    for f, p in zip(ours, torch.autograd.grad(plain, inputs, grads), strict=True):
        torch.testing.assert_close(f, p)


def test_shapes_that_recur(monkeypatch: pytest.MonkeyPatch) -> None:
    """oneDNN's code for a shape pays from its ninth product on, unless others come between."""
    monkeypatch.setattr(products, "_shapes", OrderedDict())
    monkeypatch.setattr(products, "_onednn", lambda: None)
    weights = [torch.zeros(2, 3)]
    first = [products._recurs(torch.zeros(5, 3), weights) for _ in range(10)]
    assert first == [False] * 8 + [True] * 2
    for rows in range(100, 100 + products._SHAPES):
        assert not products._recurs(torch.zeros(rows, 3), weights)
    assert not products._recurs(torch.zeros(5, 3), weights)
    assert len(products._shapes) == products._SHAPES


def test_forgotten_shapes(monkeypatch: pytest.MonkeyPatch) -> None:
    """What follows is multiplied as at first."""
    monkeypatch.setattr(products, "_shapes", OrderedDict())
    monkeypatch.setattr(products, "_onednn", lambda: None)
    x, weights = torch.zeros(5, 3), [torch.zeros(2, 3)]
    assert [products._recurs(x, weights) for _ in range(9)][-1]
    products.forget_shapes()
    assert not products._recurs(x, weights)


@pytest.mark.parametrize("fast", [False, True], ids=["torch.mm", "onednn"])
def test_backward_under_autocast(fast: bool) -> None:
    """The products were float32 ones, and so are their gradients."""
    if fast and products._onednn() is None:
        pytest.skip("PyTorch has no oneDNN products")
    torch.manual_seed(0)
    x, *weights = (torch.randn(n, 7, requires_grad=True) for n in (33, 5, 9))
    expected = torch.autograd.grad([(x @ w.t()).sum() for w in weights], (x, *weights))
    outs = products._Project.apply(fast, x, *weights)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        found = torch.autograd.grad([out.sum() for out in outs], (x, *weights))
    for f, e in zip(found, expected, strict=True):
        torch.testing.assert_close(f, e)


def test_no_weights() -> None:
    assert products.project(torch.randn(3, 4), []) == ()


def test_backend_names_the_paths() -> None:
    report = backend()
    assert report["products"] in ("onednn", "torch.mm")
    assert report["neighbour_sum"] == "blocks"
    assert backend("cuda")["neighbour_sum"] in ("definition", "triton")


@pytest.mark.parametrize("choice", ["torch.mm", "wrong"])
def test_environment_decides(choice: str) -> None:
    code = "from pyg_kernels.ops import backend; print(backend()['products'])"
    done = subprocess.run(
        [sys.executable, "-c", code],
        env={"PYG_KERNELS_PRODUCTS": choice, "PATH": ""},
        capture_output=True,
        text=True,
    )
    if choice == "wrong":
        assert done.returncode != 0 and "expected 'auto'" in done.stderr
    else:
        assert done.stdout.strip() == "torch.mm"
