"""Expressions compiled for the CPU: loops over channels, in LLVM's vectors, without Numba.

A program reads and writes rows of memory. It finds them by a table of addresses and of bytes from
one row to the next, and by the row numbers that each call gives. Compiling takes some milliseconds;
kernels call programs by :func:`call`.
"""

# mypy: disable-error-code="no-untyped-def"

from __future__ import annotations

import math
import threading
from collections.abc import Mapping, Sequence
from typing import Any

import llvmlite.binding as llvm
import numpy as np
import torch
from llvmlite import ir
from numba import types
from numba.extending import intrinsic
from torch import Tensor

from pyg_kernels.ops.expression import Row, Value, in_order

# Without nnan and ninf, so that NaN and infinity pass through as in PyTorch's ops.
FLAGS = ("contract", "nsz", "afn")
_DIFFERENCE = ("nsz",)  # no fused products: equal values differ by exactly 0
_SUM = ("reassoc", "nsz")
_LANES = {4: 16, 8: 4}  # numbers per vector, by the size of a number in bytes
WORD = ir.IntType(64)
_TANH = (  # Eigen's rational function, on [-9, 9]: odd powers over even ones, the highest first
    (-2.76076847742355e-16, 2.00018790482477e-13, -8.60467152213735e-11, 5.12229709037114e-08,
     1.48572235717979e-05, 6.37261928875436e-04, 4.89352455891786e-03),
    (1.19825839466702e-06, 1.18534705686654e-04, 2.26843463243900e-03, 4.89352518554385e-03),
)  # fmt: skip
_EXP2 = (  # a polynomial of Cephes', on [-1/2, 1/2], the highest power first
    1.535336188319500e-4, 1.339887440266574e-3, 9.618437357674640e-3, 5.550332471162809e-2,
    2.402264791363012e-1, 6.931472028550421e-1, 1.0,
)  # fmt: skip


_WHOLE = 1.5 * 2**23  # float32 sums with it are rounded to whole numbers, found in the last bits


class Program:
    """A compiled program.

    Args:
        inputs: The leaves, in lists by name.
        outputs: Rows and the values written to them, in lists by other names. A row of one number
            for all channels gets the sum over channels. Rows that are read may be written.
        dtype: The precision of all rows, float32 or float64.

    Attributes:
        address: The address of the program in memory.
        whole: Whether it must be called with all channels at once.
    """

    def __init__(
        self,
        inputs: Mapping[str, Sequence[Value]],
        outputs: Mapping[str, Sequence[tuple[Row, Value]]],
        dtype: torch.dtype,
    ) -> None:
        self._rows = {name: len(some) for name, some in (*inputs.items(), *outputs.items())}
        self._dtype = dtype
        written = [one for some in outputs.values() for one in some]
        emission = _Emission([one for some in inputs.values() for one in some], written, dtype)
        self.address, self.whole = assembled(emission.module), emission.whole

    def table(self, memory: Mapping[str, Sequence[tuple[Tensor, int]]]) -> np.ndarray:
        """The table of tensors whose rows are read and written, each from a column on, by name.

        The tensors must live as long as the table is used.

        Raises:
            ValueError: For a tensor of another precision, or whose channels are not contiguous.
        """
        places, known = [], dict[int, tuple[int, int, int]]()
        for name, count in self._rows.items():
            for t, column in memory[name][:count]:
                if id(t) not in known:
                    size = t.element_size()
                    known[id(t)] = t.data_ptr(), t.stride(0) * size, size
                    apart = t.stride(-1) != 1 and t.dim() > 1 and t.size(-1) > 1 and t.numel() > 0
                    if t.dtype != self._dtype or apart:
                        raise ValueError(
                            f"a tensor has dtype {t.dtype} and strides {t.stride()}: expected "
                            f"{self._dtype} and neighbouring channels"
                        )
                start, step, size = known[id(t)]
                places.append((start + column * size, step))
        return np.array(places, np.int64).reshape(-1, 2)


def assembled(module: ir.Module) -> int:
    """The address of the function ``program`` of a module, compiled for this processor."""
    with _LOCK:
        llvm.initialize_native_target()
        llvm.initialize_native_asmprinter()
        machine = llvm.Target.from_default_triple().create_target_machine(
            cpu=llvm.get_host_cpu_name(), features=llvm.get_host_cpu_features().flatten(), opt=2
        )
        parsed = llvm.parse_assembly(str(module))
        engine = llvm.create_mcjit_compiler(parsed, machine)
        engine.finalize_object()
        _ENGINES.append(engine)
        found: int = engine.get_function_address("program")
        return found


@intrinsic
def call(typing, program, table, index, first, last):
    """Calls a program inside a kernel, with the addresses of its table and of its row numbers.

    `first` and `last` are the first channel and the one after the last.
    """

    def generate(context, builder, signature, values):
        kind = ir.FunctionType(ir.VoidType(), [WORD] * 4).as_pointer()
        builder.call(builder.inttoptr(values[0], kind), values[1:])
        return context.get_dummy_value()

    return types.void(*[types.intp] * 5), generate


class _Emission:
    """A module with one program."""

    def __init__(self, inputs, outputs, dtype: torch.dtype) -> None:
        self._number = ir.FloatType() if dtype == torch.float32 else ir.DoubleType()
        self._size = dtype.itemsize
        self._lanes, self._mask = _LANES[self._size], None
        self._kind = ir.VectorType(self._number, self._lanes)
        self._inputs, self._outputs = inputs, outputs
        self.module = ir.Module()
        kind = ir.FunctionType(ir.VoidType(), [WORD] * 4)
        self._function = ir.Function(self.module, kind, "program")
        self._builder = ir.IRBuilder(self._function.append_basic_block())
        self._emit()

    def _emit(self) -> None:
        build, (table, index, self._first, self._last) = self._builder, self._function.args
        rows = [value.data for value in self._inputs] + [row for row, _ in self._outputs]
        places = []
        for k, row in enumerate(rows):
            address, step = (self._word(table, 2 * k + i) for i in range(2))
            places.append(build.add(address, build.mul(self._word(index, row.index), step)))
        self._place = {
            id(v): p for v, p in zip(self._inputs, places[: len(self._inputs)], strict=True)
        }
        self._known: dict[int, Any] = {}  # numbers for all channels
        for value in self._inputs:
            if not value.data.wide:
                place = self._place[id(value)]
                self._known[id(value)] = load(build, place, self._number, self._size)
        written = list(zip(self._outputs, places[len(self._inputs) :], strict=True))
        sums = [Value("sum", (value,)) for (row, value), _ in written if not row.wide]
        wide = [(value, place, row.adds) for (row, value), place in written if row.wide]
        level = self._levels([*(value for value, *_ in wide), *sums])
        self.whole = any(value.op in ("sum", "count") for value in self._all)
        self._count_channels()
        deepest = max(level.values(), default=0)
        waits = max((level[id(value)] for value, *_ in wide), default=0)
        for depth in range(1, deepest + 1):
            found = [v for v in self._all if v.op == "sum" and level[id(v)] == depth]
            totals = self._loops(wide if waits < depth == deepest else [], found)
            self._known.update(zip(map(id, found), totals, strict=True))
        if wide and waits == deepest:
            self._loops(wide)
        narrow = [(place, row.adds) for (row, _), place in written if not row.wide]
        for value, (place, adds) in zip(sums, narrow, strict=True):
            self._put(self._known[id(value)], place, adds)
        build.ret_void()

    def _levels(self, values) -> dict[int, int]:
        """The number of nested sums that each value waits for."""
        level: dict[int, int] = {}
        self._all = list(in_order(values))
        for value in self._all:
            deepest = max((level[id(arg)] for arg in value.args), default=0)
            level[id(value)] = deepest + (value.op == "sum")
        return level

    def _count_channels(self) -> None:
        for value in self._all:
            if value.op == "count":
                channels = self._builder.sub(self._last, self._first)
                self._known[id(value)] = self._builder.sitofp(channels, self._number)

    def _put(self, value, address, adds: bool) -> None:
        build = self._builder
        if adds:
            value = build.fadd(self._read(address, value.type), value, flags=FLAGS)
        if self._mask is None:
            store(build, value, address, self._size)
        else:
            self._masked("store", value.type, [value], address, [self._mask])

    def _read(self, address, kind):
        if self._mask is None:
            return load(self._builder, address, kind, self._size)
        return self._masked("load", kind, [], address, [self._mask, _constant(kind, 0.0)])

    def _masked(self, name: str, kind, before, address, after):
        """Reads or writes only the lanes of the mask."""
        pointer = self._builder.inttoptr(address, kind.as_pointer())
        args = [*before, pointer, ir.Constant(ir.IntType(32), self._size), *after]
        result = kind if name == "load" else ir.VoidType()
        return self._llvm(f"masked.{name}", kind, result, args, ".p0")

    def _loops(self, wide, sums=()) -> list[Any]:
        """Loops over the channels, in vectors and then the rest: writes rows, and adds up sums.

        Returns:
            The sums over the channels.
        """
        build, kind, before = self._builder, self._kind, self._builder.block
        at = build.alloca(WORD)  # a phi would double the time that LLVM takes for addresses
        build.store(self._first, at)
        names = ("check", "inside", "after", "rest", "end")
        check, inside, after, rest, end = map(self._function.append_basic_block, names)
        build.branch(check)
        build.position_at_end(check)
        parts, k = [build.phi(kind) for _ in sums], build.load(at)
        onward = build.add(k, ir.Constant(WORD, self._lanes))
        build.cbranch(build.icmp_signed("<=", onward, self._last), inside, after)
        build.position_at_end(inside)
        added = self._at_channels(k, wide, sums, parts)
        build.store(onward, at)
        build.branch(check)
        build.position_at_end(after)
        build.cbranch(build.icmp_signed("<", k, self._last), rest, end)
        build.position_at_end(rest)
        bits = ir.VectorType(ir.IntType(32), self._lanes)
        number = splat(build, build.trunc(build.sub(self._last, k), bits.element), bits)
        lanes = ir.Constant(bits, [ir.Constant(bits.element, n) for n in range(self._lanes)])
        self._mask = build.icmp_signed("<", lanes, number)
        with_rest = self._at_channels(k, wide, sums, parts)
        self._mask = None
        build.branch(end)
        build.position_at_end(end)
        totals = []
        for part, now, last in zip(parts, added, with_rest, strict=True):
            part.add_incoming(_constant(kind, 0.0), before)
            part.add_incoming(now, inside)
            total = build.phi(kind)
            total.add_incoming(part, after)
            total.add_incoming(last, rest)
            totals.append(total)
        return [self._over_lanes(total) for total in totals]

    def _at_channels(self, k, wide, sums, parts) -> list[Any]:
        """Writes the rows at the channels from k on; returns the sums with these channels."""
        build = self._builder
        values = [*(value.args[0] for value in sums), *(value for value, *_ in wide)]
        found = self._evaluate(values, k)
        for value, (_, place, adds) in zip(found[len(sums) :], wide, strict=True):
            self._put(value, self._at(place, k), adds)
        if self._mask is not None:
            zero = _constant(self._kind, 0.0)
            found = [build.select(self._mask, value, zero) for value in found[: len(sums)]]
        return [build.fadd(*pair, flags=_SUM) for pair in zip(parts, found, strict=False)]

    def _over_lanes(self, x):
        """The sum of a vector's numbers."""
        args = [ir.Constant(self._number, 0), x]
        return self._llvm("vector.reduce.fadd", x.type, self._number, args, fastmath=_SUM)

    def _evaluate(self, values, k) -> list[Any]:
        found: dict[int, Any] = {}
        for value in in_order(values, self._known):
            found[id(value)] = self._one(value, found, k)
        return [found[id(value)] for value in values]

    def _one(self, value: Value, found, k):
        build, kind = self._builder, self._kind
        if id(value) in self._known:
            return splat(build, self._known[id(value)], kind)
        if value.op == "leaf":
            return self._read(self._at(self._place[id(value)], k), kind)
        if value.op == "constant":
            return _constant(kind, value.data)
        args = [found[id(arg)] for arg in value.args]
        if value.op == "sub":
            return build.fsub(*args, flags=_DIFFERENCE)
        if value.op in ("add", "mul", "div"):
            return getattr(build, f"f{value.op}")(*args, flags=FLAGS)
        if value.op in ("lt", "le"):
            return build.fcmp_ordered("<" if value.op == "lt" else "<=", *args)
        if value.op == "isnan":
            return build.fcmp_unordered("uno", args[0], args[0])
        if value.op in ("and", "or"):
            return getattr(build, f"{value.op}_")(*args)
        if value.op == "select":
            return build.select(*args)
        if value.op == "sqrt":
            return self._llvm("sqrt", kind, kind, args)
        single = self._size == 4
        if value.op == "exp":
            return self._exp(args[0]) if single else self._by_lane("exp", args[0])
        if value.op == "tanh":
            return self._tanh(args[0]) if single else self._by_lane("tanh", args[0])
        assert value.op == "sigmoid", value.op
        one, x = _constant(kind, 1.0), build.fneg(args[0])
        power = self._exp(x) if single else self._by_lane("exp", x)
        return build.fdiv(one, build.fadd(one, power))

    def _tanh(self, x):
        build, x = self._builder, self._within(x, -9.0, 9.0)
        square = build.fmul(x, x)
        sides = [self._polynomial(coefficients, square) for coefficients in _TANH]
        found = build.fdiv(build.fmul(x, sides[0], flags=FLAGS), sides[1], flags=FLAGS)
        return self._within(found, -1.0, 1.0)

    def _within(self, x, least: float, most: float):
        """Numbers clamped to a range; NaN stays."""
        for number, beyond in ((least, "<"), (most, ">")):
            limit = _constant(self._kind, number)
            x = self._builder.select(self._builder.fcmp_ordered(beyond, x, limit), limit, x)
        return x

    def _exp(self, x):
        """The exponential in float32, as a power of 2 whose whole part becomes the exponent's bits.

        The relative error grows to 4e-6 at -87; from 88.4 on, the result is infinity.
        """
        build, kind = self._builder, self._kind
        bits, large = ir.VectorType(ir.IntType(32), self._lanes), _constant(kind, _WHOLE)
        x = self._within(build.fmul(x, _constant(kind, 1 / math.log(2))), -127.0, 128.0)
        moved = build.fadd(x, large)
        found = self._polynomial(_EXP2, build.fsub(x, build.fsub(moved, large)))
        power = build.add(build.bitcast(moved, bits), _constant(bits, 127))
        power = build.bitcast(build.shl(power, _constant(bits, 23)), kind)
        return build.fmul(found, power)

    def _polynomial(self, coefficients, x):
        found = _constant(self._kind, coefficients[0])
        for coefficient in coefficients[1:]:
            found = self._builder.fmul(found, x, flags=FLAGS)
            found = self._builder.fadd(found, _constant(self._kind, coefficient), flags=FLAGS)
        return found

    def _llvm(self, name: str, of, result, args, suffix: str = "", **how: Any):
        """Calls an intrinsic of LLVM."""
        name = f"llvm.{name}.v{of.count}f{8 * self._size}{suffix}"
        kind = ir.FunctionType(result, [arg.type for arg in args])
        function = self.module.globals.get(name) or ir.Function(self.module, kind, name)
        return self._builder.call(function, args, **how)

    def _by_lane(self, name: str, x):
        """Calls a function of the C library, lane by lane."""
        build = self._builder
        kind = ir.FunctionType(self._number, [self._number])
        function = self.module.globals.get(name) or ir.Function(self.module, kind, name)
        for lane in range(self._lanes):
            place = ir.Constant(ir.IntType(32), lane)
            found = build.call(function, [build.extract_element(x, place)])
            x = build.insert_element(x, found, place)
        return x

    def _at(self, place, k):
        """The address of a channel."""
        build = self._builder
        return build.add(place, build.mul(k, ir.Constant(WORD, self._size)))

    def _word(self, address, k: int):
        build = self._builder
        return load(build, build.add(address, ir.Constant(WORD, 8 * k)), WORD, 8)


def load(build, address, kind, size: int):
    """Loads what lies at an address, which is only known to be a multiple of a number's size."""
    found = build.load(build.inttoptr(address, kind.as_pointer()))
    found.align = size
    return found


def store(build, value, address, size: int) -> None:
    """Puts a value at an address."""
    build.store(value, build.inttoptr(address, value.type.as_pointer())).align = size


def splat(build, number, kind):
    """A vector of one number."""
    at = ir.Constant(ir.IntType(32), 0)
    first = build.insert_element(ir.Constant(kind, ir.Undefined), number, at)
    return build.shuffle_vector(first, first, ir.Constant(ir.VectorType(at.type, kind.count), None))


def _constant(kind, number: float):
    return ir.Constant(kind, [ir.Constant(kind.element, number)] * kind.count)


_LOCK = threading.Lock()
_ENGINES: list[Any] = []  # which own the programs
