"""Expressions of one number per channel, traced from a step that is written in PyTorch's ops.

Called with :class:`Value` instead of tensors, a step gives the expression of what it computes.
:func:`gradients` gives the expressions of its derivative. Kernels are made from these expressions.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import wraps
from typing import Any, NamedTuple, ParamSpec, TypeAlias, TypeVar

import torch

Number: TypeAlias = "Value | float"
_P = ParamSpec("_P")
_R = TypeVar("_R")


class Value:
    """One number per channel, by an op on others; `data` is a constant, or the row to read.

    The ops are ``'constant'``; ``'leaf'``, what is read; ``'add'``, ``'sub'``, ``'mul'``,
    ``'div'``, ``'sqrt'``, ``'exp'``, ``'tanh'``, ``'sigmoid'``; ``'lt'``, ``'le'``, ``'isnan'``,
    ``'and'``, ``'or'``, ``'select'``; ``'sum'`` over all channels, and ``'count'``, their number.
    """

    __slots__ = ("args", "data", "op")

    def __init__(self, op: str, args: tuple[Value, ...] = (), data: Any = None) -> None:
        self.op, self.args, self.data = op, args, data

    @classmethod
    def __torch_function__(
        cls, func: Callable[..., Any], types: Any, args: Any = (), kwargs: Any = None
    ) -> Value:
        found: Value = _TRACED[func](*args, **(kwargs or {}))
        return found

    def __add__(self, other: Number) -> Value:
        return self if other == 0 else Value("add", (self, as_value(other)))

    __radd__ = __add__

    def __sub__(self, other: Number) -> Value:
        return Value("sub", (self, as_value(other)))

    def __rsub__(self, other: Number) -> Value:
        return Value("sub", (as_value(other), self))

    def __mul__(self, other: Number) -> Value:
        return self if other == 1 else Value("mul", (self, as_value(other)))

    __rmul__ = __mul__

    def __truediv__(self, other: Number) -> Value:
        return Value("div", (self, as_value(other)))

    def __rtruediv__(self, other: Number) -> Value:
        return Value("div", (as_value(other), self))

    def __neg__(self) -> Value:
        return 0.0 - self

    def __lt__(self, other: Number) -> Value:
        return Value("lt", (self, as_value(other)))

    def __gt__(self, other: Number) -> Value:
        return Value("lt", (as_value(other), self))

    def __le__(self, other: Number) -> Value:
        return Value("le", (self, as_value(other)))

    def __ge__(self, other: Number) -> Value:
        return Value("le", (as_value(other), self))

    def __and__(self, other: Value) -> Value:
        return Value("and", (self, other))

    def __or__(self, other: Value) -> Value:
        return Value("or", (self, other))

    def isnan(self) -> Value:
        return Value("isnan", (self,))

    def square(self) -> Value:
        return self * self

    def mean(self, dim: int, keepdim: bool) -> Value:
        """The mean over all channels."""
        return total(self) / Value("count")


class Row(NamedTuple):
    """A row of memory that a kernel reads or writes.

    Attributes:
        index: Which of the numbers that the kernel is called with is the row's number.
        wide: Whether it has one number per channel, rather than one for all.
        adds: Whether what is written is added to what is there.
    """

    index: int  # type: ignore[assignment]
    wide: bool = True
    adds: bool = False


def apart(function: Callable[_P, _R]) -> Callable[_P, _R]:
    """Makes a function run in a thread of its own.

    Tracing needs PyTorch's ops to be overridden. The calling thread may have switched this off, as
    methods of subclasses of ``Tensor`` do, such as ``backward``.
    """

    @wraps(function)
    def run(*args: _P.args, **kwargs: _P.kwargs) -> _R:
        with ThreadPoolExecutor(1) as thread:
            return thread.submit(function, *args, **kwargs).result()

    return run


def leaf(row: Row) -> Value:
    """The value that a kernel reads from a row."""
    return Value("leaf", (), row)


def as_value(number: Number) -> Value:
    """A number as a constant; an expression stays as it is."""
    return number if isinstance(number, Value) else Value("constant", (), float(number))


def total(value: Value) -> Value:
    """The sum over all channels."""
    return Value("sum", (value,))


def _select(condition: Value, if_true: Number, if_false: Number) -> Value:
    return Value("select", (condition, as_value(if_true), as_value(if_false)))


_TRACED: dict[Any, Callable[..., Value]] = {
    torch.exp: lambda x: Value("exp", (x,)),
    torch.sigmoid: lambda x: Value("sigmoid", (x,)),
    torch.tanh: lambda x: Value("tanh", (x,)),
    torch.relu: lambda x: _select(x <= 0, 0.0, x),  # lets NaN through
    torch.clone: lambda x: x,
    torch.rsqrt: lambda x: 1.0 / Value("sqrt", (x,)),
    torch.where: _select,
}


def in_order(values: Sequence[Value], known: Container[int] = ()) -> Iterator[Value]:
    """All values that these depend on, each after its arguments; `known` ids are not followed."""
    seen: set[int] = set()
    stack = [(value, False) for value in reversed(values)]
    while stack:
        value, ready = stack.pop()
        if ready:
            yield value
        elif id(value) not in seen:
            seen.add(id(value))
            stack.append((value, True))
            if id(value) not in known:
                stack.extend((arg, False) for arg in reversed(value.args))


def gradients(outputs: Sequence[tuple[Value, Value]], of: Sequence[Value]) -> list[Value | None]:
    """The gradients of some leaves, from pairs of outputs and gradients; None for unused leaves.

    For a number that all channels share, the gradient has one number per channel, to be summed.
    """
    found: dict[int, Value] = {}

    def give(value: Value, gradient: Value) -> None:
        if value.op not in ("constant", "count"):
            before = found.get(id(value))
            found[id(value)] = gradient if before is None else before + gradient

    for value, gradient in outputs:
        give(value, gradient)
    for value in reversed(list(in_order([value for value, _ in outputs]))):
        g = found.get(id(value))
        if g is None or value.op == "leaf":
            continue
        for arg, slope in zip(value.args, _DERIVATIVES[value.op](g, value), strict=True):
            if slope is not None:
                give(arg, slope)
    return [found.get(id(leaf)) for leaf in of]


def _of_mul(g: Value, y: Value) -> tuple[Value, Value]:
    a, b = y.args
    return g * b, g * a


def _of_div(g: Value, y: Value) -> tuple[Value, Value]:
    b = y.args[1]
    return g / b, -(g * y / b)


def _of_select(g: Value, y: Value) -> tuple[None, Value, Value]:
    condition = y.args[0]
    return None, _select(condition, g, 0.0), _select(condition, 0.0, g)


_DERIVATIVES: dict[str, Callable[[Value, Value], Sequence[Value | None]]] = {
    "add": lambda g, y: (g, g),
    "sub": lambda g, y: (g, -g),
    "mul": _of_mul,
    "div": _of_div,
    "sqrt": lambda g, y: (g / (2.0 * y),),
    "exp": lambda g, y: (g * y,),
    "tanh": lambda g, y: (g * (1.0 - y * y),),
    "sigmoid": lambda g, y: (g * (y * (1.0 - y)),),
    "select": _of_select,
    "sum": lambda g, y: (total(g),),
}
