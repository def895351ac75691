"""Matrix products with weight matrices: several projections of one input.

On CPU in float32 the products go through oneDNN's inner product where PyTorch has it and where
it is measurably faster than ``torch.mm`` on this machine (PyTorch's CPU build multiplies with
MKL, which reaches about half of oneDNN's rate on AMD processors). The ops are private to
PyTorch, so they are looked up, checked against ``torch.mm`` and timed on first use: once for
large products, and for the products of few rows that a loop through time repeats once a shape.
oneDNN makes code for each shape, so that projections take it for shapes that keep coming back.
In every other case the product is ``torch.nn.functional.linear``. The environment variable
``PYG_KERNELS_PRODUCTS`` (``auto``, ``onednn`` or ``torch.mm``) takes the choice out of the
measurement's hands.

oneDNN and PyTorch's layer above it each keep the code of the last 1,024 shapes. Batches of graphs
hardly repeat a shape, so that a process that trains on them comes to hold up to 2 GB for nothing;
the environment variables ``ONEDNN_PRIMITIVE_CACHE_CAPACITY`` and ``LRU_CACHE_CAPACITY``, set before
the first product, hold both to fewer. They are the process's, so they are left to the program.
"""

from __future__ import annotations

import functools
import os
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from pyg_kernels.ops.transforms import is_batched, transforms_active

_ENVIRONMENT = "PYG_KERNELS_PRODUCTS"
_SMALLEST_ONEDNN_PRODUCT = 2**21  # multiply-adds; below, the call costs more than it saves
_SMALLEST_PACKED_PRODUCT = 2**22
_MANY_BLOCKS = 8
_FEW_ROWS = 256
_NEW_SHAPES = 8  # products of one shape before oneDNN's code for it pays
_SHAPES = 64  # of which it is remembered how often they came


def project(x: Tensor, weights: Sequence[Tensor]) -> tuple[Tensor, ...]:
    r"""Projects one input with several weight matrices: :math:`P_j = x W_j^\top`.

    Args:
        x: The input, of shape :obj:`(N, F)`.
        weights: k matrices of shapes :obj:`(D_j, F)`.

    Returns:
        The k products, of shapes :obj:`(N, D_j)`.
    """
    if weights and _is_large(x, weights):
        onednn = _onednn()
        fast = onednn is not None and onednn.forward and _recurs(x, weights)
        return _Project.apply(fast, x, *weights)
    return tuple(F.linear(x, weight) for weight in weights)


_shapes: OrderedDict[tuple[int, ...], int] = OrderedDict()


def _recurs(x: Tensor, weights: Sequence[Tensor]) -> bool:
    """Whether products of these shapes came often and not long ago.

    oneDNN makes code for each shape, which takes as long as some products of it. Batches of graphs
    have a new number of rows each. `forget_shapes` starts afresh.
    """
    onednn = _onednn()
    if onednn is not None and onednn.chosen:
        return True
    shape = (*x.shape, *(weight.size(0) for weight in weights))
    with _lock:
        times = _shapes.pop(shape, 0)
        _shapes[shape] = times + 1
        if len(_shapes) > _SHAPES:
            _shapes.popitem(last=False)
    return times >= _NEW_SHAPES


def forget_shapes() -> None:
    """Forgets which products came before: oneDNN's and those of ``torch.mm`` differ by rounding.

    What follows is then the same to the last bit, whatever was multiplied before.
    """
    with _lock:
        _shapes.clear()


class BlockProduct:
    r"""The product :math:`x W^\top` of one matrix with one block of rows after the other.

    For many blocks the matrix is brought into the order in which the product is fastest. Without
    gradients.

    Args:
        weight: W, of shape :obj:`(D, F)`.
        rows: About how many rows a block has.
        blocks: How many blocks there are.
    """

    def __init__(self, weight: Tensor, rows: int, blocks: int) -> None:
        self._packed = None
        self._transposed = weight.t()
        self._weight: Tensor | None = None
        if blocks < _MANY_BLOCKS:
            if _onednn_applies(weight.new_empty(0, weight.size(1)), [weight], rows):
                self._weight = weight
            return
        if _packing_pays(weight, rows):
            try:
                self._packed = torch.ops.mkldnn._reorder_linear_weight(weight, rows)
            except (AttributeError, RuntimeError, TypeError):  # another PyTorch
                self._packed = None
        if self._packed is None and rows < _FEW_ROWS:
            self._transposed = self._transposed.contiguous()

    def __call__(self, x: Tensor, out: Tensor | None = None, add: bool = False) -> Tensor:
        """The product: a new tensor, or put into or added to one that is there."""
        if self._packed is None:
            if out is None:
                onednn = None if self._weight is None else _onednn()
                if onednn is not None and self._weight is not None:
                    return onednn.linear(x, self._weight)
                return torch.mm(x, self._transposed)
            return out.addmm_(x, self._transposed, beta=1.0 if add else 0.0)
        product = torch.ops.mkldnn._linear_pointwise(x, self._packed, None, "none", [], "")
        if out is None:
            return product
        return out.add_(product) if add else out.copy_(product)


def weight_gradient(
    x: Tensor, grad: Tensor, out: Tensor | None = None, add: bool = False
) -> Tensor:
    r"""The gradient of W in :math:`x W^\top`: the product of :obj:`(N, D)` and :obj:`(N, F)`.

    Args:
        x: The input, :obj:`(N, F)`.
        grad: The gradient of the product, :obj:`(N, D)`.
        out: Where the result goes, :obj:`(D, F)`; by default into a new tensor.
        add: Whether it is added to what is there.
    """
    if out is None:
        out, add = grad.new_empty(grad.size(1), x.size(1)), False
    if _onednn_applies(x, [out]) and grad.dtype == x.dtype:
        onednn = _onednn()
        if onednn is not None and onednn.backward:
            pairs = [(grad.contiguous(), out)]
            (found,) = onednn.weight_gradients(x.contiguous(), pairs)
            return out.add_(found) if add else out.copy_(found)
    return out.addmm_(grad.t(), x, beta=1.0 if add else 0.0)


def _packing_pays(weight: Tensor, rows: int) -> bool:
    if weight.device.type != "cpu" or weight.dtype != torch.float32:
        return False
    onednn = _onednn() if rows * weight.numel() >= _SMALLEST_PACKED_PRODUCT else None
    if onednn is None:
        return False
    if rows >= _FEW_ROWS or onednn.chosen:
        return onednn.forward
    power = 2 ** (rows - 1).bit_length()
    return _packed_is_faster(power, *weight.shape, torch.get_num_threads())


@functools.cache
def _packed_is_faster(rows: int, columns: int, features: int, threads: int) -> bool:
    """Whether products of few rows are faster with a matrix in oneDNN's order.

    MKL and oneDNN differ most here, and either way.
    """
    with torch.no_grad(), torch.autocast("cpu", enabled=False), torch.device("cpu"):
        x = torch.ones(rows, features, dtype=torch.float32)
        weight = torch.ones(columns, features, dtype=torch.float32)
        try:
            packed = torch.ops.mkldnn._reorder_linear_weight(weight, rows)
            linear, transposed = torch.ops.mkldnn._linear_pointwise, weight.t().contiguous()
            return _is_faster(
                lambda: linear(x, packed, None, "none", [], ""), lambda: torch.mm(x, transposed)
            )
        except (AttributeError, RuntimeError, TypeError):  # another PyTorch
            return False


def products_backend() -> str:
    """The path that large float32 products take on CPU: ``'onednn'`` or ``'torch.mm'``."""
    onednn = _onednn()
    return "onednn" if onednn is not None and onednn.forward else "torch.mm"


@dataclass(frozen=True)
class _OneDNN:
    """oneDNN's two products: ``x @ weight.T`` and, for the weights' gradients, ``grad.T @ x``.

    Attributes:
        linear: The first.
        weight_gradients: The second.
        forward: Whether the first serves large products.
        backward: Whether the second does.
        chosen: Whether that was not measured but asked for.
    """

    linear: Callable[[Tensor, Tensor], Tensor]
    weight_gradients: Callable[[Tensor, Sequence[tuple[Tensor, Tensor]]], list[Tensor]]
    forward: bool = True
    backward: bool = True
    chosen: bool = False


def _onednn_applies(x: Tensor, weights: Sequence[Tensor], rows: int | None = None) -> bool:
    """Whether oneDNN multiplies x, or as many of its rows, with these weights."""
    if not _is_large(x, weights, rows):
        return False
    onednn = _onednn()
    return onednn is not None and onednn.forward


def _is_large(x: Tensor, weights: Sequence[Tensor], rows: int | None = None) -> bool:
    """Whether these are plain float32 products on CPU that are worth a call of their own."""
    if torch.compiler.is_compiling() or x.device.type != "cpu" or x.dtype != torch.float32:
        return False
    if x.dim() != 2 or torch.is_autocast_enabled("cpu") or transforms_active():
        return False
    if any(w.dtype != torch.float32 or w.size(1) != x.size(1) for w in weights):
        return False
    rows = x.size(0) if rows is None else rows
    return rows * x.size(1) * max(w.size(0) for w in weights) >= _SMALLEST_ONEDNN_PRODUCT


_lock = threading.Lock()
_choice: list[_OneDNN | None] = []  # empty until the first use has measured


def _onednn() -> _OneDNN | None:
    """oneDNN's products, or None where they are missing, wrong or not wanted."""
    if not _choice:
        with _lock:
            if not _choice:
                _choice.append(_measured())
    return _choice[0]


def _measured() -> _OneDNN | None:
    choice = os.environ.get(_ENVIRONMENT, "auto")
    if choice not in ("auto", "onednn", "torch.mm"):
        raise ValueError(f"{_ENVIRONMENT}={choice!r}: expected 'auto', 'onednn' or 'torch.mm'")
    if choice == "torch.mm" or not torch.backends.mkldnn.is_available():
        return None
    try:
        pointwise = torch.ops.mkldnn._linear_pointwise
        backward_weights = torch.ops.aten.mkldnn_linear_backward_weights
    except (AttributeError, RuntimeError):
        return None

    def linear(x: Tensor, weight: Tensor) -> Tensor:
        return pointwise(x, weight, None, "none", [], "")

    def weight_gradients(x: Tensor, pairs: Sequence[tuple[Tensor, Tensor]]) -> list[Tensor]:
        packed = x.to_mkldnn()
        outs = (backward_weights(g.to_mkldnn(), packed, weight, False)[0] for g, weight in pairs)
        return [out.to_dense() if out.is_mkldnn else out for out in outs]

    with torch.no_grad(), torch.autocast("cpu", enabled=False), torch.device("cpu"):
        try:
            if not _agrees(linear, weight_gradients):
                return None
            if choice == "onednn":
                return _OneDNN(linear, weight_gradients, chosen=True)
            forward, backward = _faster(linear, weight_gradients)
        except (AttributeError, RuntimeError, TypeError):  # another PyTorch
            return None
    return _OneDNN(linear, weight_gradients, forward, forward and backward)


def _agrees(linear: Any, weight_gradients: Any) -> bool:
    x = torch.arange(512 * 24, dtype=torch.float32).view(512, 24).remainder_(7)
    grad = torch.arange(512 * 40, dtype=torch.float32).view(512, 40).remainder_(5)
    weight = torch.arange(40 * 24, dtype=torch.float32).view(40, 24).remainder_(3)
    packed = torch.ops.mkldnn._reorder_linear_weight(weight.t(), 512)
    with_packed = torch.ops.mkldnn._linear_pointwise(grad, packed, None, "none", [], "")
    pairs = (
        (linear(x, weight), x @ weight.t()),
        (linear(grad, weight.t()), grad @ weight),
        (with_packed, grad @ weight),
        (weight_gradients(x, [(grad, weight)])[0], grad.t() @ x),
    )
    return all(torch.equal(ours, plain) for ours, plain in pairs)


def _faster(linear: Any, weight_gradients: Any) -> tuple[bool, bool]:
    """Whether each of the two products is faster than ``torch.mm``."""
    x = torch.ones(4096, 192, dtype=torch.float32)
    weight = torch.ones(192, 192, dtype=torch.float32)
    return (
        _is_faster(lambda: linear(x, weight), lambda: torch.mm(x, weight.t())),
        _is_faster(lambda: weight_gradients(x, [(x, weight)]), lambda: torch.mm(x.t(), x)),
    )


def _is_faster(one: Callable[[], Any], other: Callable[[], Any], repeats: int = 7) -> bool:
    """Which of two takes less time at best, in turn: other programs slow both down alike."""
    best = [float("inf")] * 2
    for _ in range(repeats):
        for k, run in enumerate((one, other)):
            start = time.perf_counter()
            run()
            best[k] = min(best[k], time.perf_counter() - start)
    return best[0] < best[1]


class _Project(torch.autograd.Function):
    """`project`, forward and backward: by oneDNN or ``torch.mm``; second derivatives by the latter.

    The gradient of the input is added up in place, product by product.
    """

    @staticmethod
    def forward(fast: bool, x: Tensor, *weights: Tensor) -> tuple[Tensor, ...]:
        onednn = _onednn() if fast else None
        x = x.contiguous()
        if onednn is None:
            return tuple(torch.mm(x, weight.t()) for weight in weights)
        return tuple(onednn.linear(x, weight) for weight in weights)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, ...]) -> None:
        ctx.fast, *tensors = inputs
        ctx.save_for_backward(*tensors)
        ctx.set_materialize_grads(False)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor | None) -> tuple[Tensor | None, ...]:
        x, *weights = ctx.saved_tensors
        needed = ctx.needs_input_grad[1:]
        if torch.is_grad_enabled() or transforms_active() or any(map(is_batched, grads)):
            return None, *_project_gradients(needed, x, weights, grads)
        onednn = _onednn() if ctx.fast else None
        given = {k: grad.contiguous() for k, grad in enumerate(grads) if grad is not None}
        grad_x = None
        grad_weights: list[Tensor | None] = [None] * len(weights)
        wanted = [k for k in given if needed[1 + k]]
        with torch.autocast("cpu", enabled=False):  # as the forward, wherever backward is called
            if needed[0]:
                for k, grad in given.items():
                    grad_x = _added(grad_x, grad, weights[k], onednn)
            if wanted and onednn is not None and onednn.backward:
                pairs = [(given[k], weights[k]) for k in wanted]
                found = onednn.weight_gradients(x.contiguous(), pairs)
            else:
                found = [given[k].t() @ x for k in wanted]
        for k, gradient in zip(wanted, found, strict=True):
            grad_weights[k] = gradient
        return None, grad_x, *grad_weights


def _added(total: Tensor | None, grad: Tensor, weight: Tensor, onednn: _OneDNN | None) -> Tensor:
    """The gradient of the input so far, and that through one more product."""
    if onednn is not None:
        part = onednn.linear(grad, weight.t())
        return part if total is None else total.add_(part)
    return torch.mm(grad, weight) if total is None else total.addmm_(grad, weight)


def _project_gradients(
    needed: Sequence[bool], x: Tensor, weights: Sequence[Tensor], grads: Sequence[Tensor | None]
) -> tuple[Tensor | None, ...]:
    """The gradients of `project` as differentiable products."""
    parts = [g @ w for g, w in zip(grads, weights, strict=True) if g is not None]
    grad_x = torch.stack(parts).sum(0) if needed[0] and parts else None
    grad_weights = (
        g.t() @ x if g is not None and wanted else None
        for g, wanted in zip(grads, needed[1:], strict=True)
    )
    return grad_x, *grad_weights
