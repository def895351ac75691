"""The matrix products of a training step: recorded as they happen, repeated on their own."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

from benchmarks.speed.timing import Step


@dataclass(frozen=True)
class Operand:
    """A factor of a product.

    Args:
        shape: As it is multiplied: :obj:`(rows, columns)`, or :obj:`(batch, rows, columns)`.
        dtype: Of its entries.
        transposed (bool): Whether its columns, and not its rows, are contiguous in memory.
    """

    shape: tuple[int, ...]
    dtype: torch.dtype
    transposed: bool = False

    @classmethod
    def of(cls, tensor: Tensor, transpose: bool = False) -> Operand:
        """That of a matrix, or of its transpose."""
        shape = tuple(tensor.shape)
        transposed = tensor.stride(-2) == 1 and tensor.stride(-1) != 1
        if transpose:
            shape, transposed = (*shape[:-2], shape[-1], shape[-2]), not transposed
        return cls(shape, tensor.dtype, transposed)

    @property
    def size(self) -> int:
        """The number of its entries."""
        return math.prod(self.shape)

    def view(self, memory: Tensor) -> Tensor:
        """A matrix of this shape and layout on as many entries of a vector."""
        *batch, rows, columns = self.shape
        if self.transposed:
            return memory.view(*batch, columns, rows).transpose(-2, -1)
        return memory.view(self.shape)


@dataclass(frozen=True)
class Product:
    """A product of two matrices, or of a batch of them."""

    left: Operand
    right: Operand

    @property
    def flop(self) -> int:
        """Its multiplications and additions."""
        return 2 * self.left.size * self.right.shape[-1]


def _from(position: int) -> Callable[[Sequence[Any]], tuple[Operand, Operand]]:
    """Factors that stand at this place among the arguments and after it."""

    def operands(arguments: Sequence[Any]) -> tuple[Operand, Operand]:
        return Operand.of(arguments[position]), Operand.of(arguments[position + 1])

    return operands


def _with_weight(arguments: Sequence[Any]) -> tuple[Operand, Operand]:
    x, weight = arguments[:2]
    rows = math.prod(x.shape[:-1])
    return Operand((rows, x.shape[-1]), x.dtype), Operand.of(weight, transpose=True)


# Operators by name, without the overload and the underscore of those that work in place. Products
# with a vector and sums over rows (embedding_bag, sparse matrices) are none of matrices.
_FACTORS: Mapping[str, Callable[[Sequence[Any]], tuple[Operand, Operand]]] = {
    "aten::mm": _from(0),
    "aten::bmm": _from(0),
    "aten::addmm": _from(1),
    "aten::baddbmm": _from(1),
    "aten::addbmm": _from(1),
    "aten::_addmm_activation": _from(1),
    "aten::linear": _with_weight,
}


class RecordProducts(TorchDispatchMode):
    """Notes every product of two dense matrices, forward and backward, while it is active.

    Each is seen once, where PyTorch dispatches the operator that computes it: what an operator
    calls in turn is not seen. Recording slows a step down.

    Attributes:
        products: In the order in which they were computed.
    """

    def __init__(self) -> None:
        super().__init__()
        self.products: list[Product] = []

    def __torch_dispatch__(
        self,
        func: Any,
        types: Any,
        args: tuple[Any, ...] = (),
        kwargs: dict[str, Any] | None = None,
    ) -> Any:
        """Calls an operator, after noting its factors if it is a product."""
        name = func.name().split(".")[0]
        factors = _FACTORS.get(name) or _FACTORS.get(name.removesuffix("_"))
        if factors is not None:
            product = Product(*factors(args))
            if product.flop:
                self.products.append(product)
        return func(*args, **(kwargs or {}))


class BareProducts:
    """Repeats recorded products with ``torch.mm`` on random factors, each on memory of its own.

    Sets of products share the memory, which is as large as the largest of them needs.

    Args:
        sets: Recorded products, such as those of each batch.
        device: Where factors lie.
    """

    def __init__(self, sets: Iterable[Sequence[Product]], device: torch.device) -> None:
        entries: Counter[torch.dtype] = Counter()
        for products in sets:
            needed: Counter[torch.dtype] = Counter()
            for operand in _operands(products):
                needed[operand.dtype] += operand.size
            entries |= needed
        self._memory = {
            dtype: torch.randn(size, device=device).to(dtype) for dtype, size in entries.items()
        }

    def step(self, products: Sequence[Product]) -> Step:
        """Computes all products of a set."""
        used: Counter[torch.dtype] = Counter()
        views = []
        for operand in _operands(products):
            begin = used[operand.dtype]
            used[operand.dtype] += operand.size
            memory = self._memory[operand.dtype][begin : begin + operand.size]
            views.append(operand.view(memory))
        pairs = list(zip(views[::2], views[1::2], strict=True))

        def run() -> None:
            for left, right in pairs:
                (torch.mm if left.dim() == 2 else torch.bmm)(left, right)

        return run


def _operands(products: Sequence[Product]) -> Iterable[Operand]:
    for product in products:
        yield product.left
        yield product.right
