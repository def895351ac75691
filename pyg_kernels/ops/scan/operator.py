"""Registers scans with PyTorch: their arguments are tensors, a form and a layout."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, get_type_hints

from torch import Tensor

from pyg_kernels.ops.operator import Operator, Outputs
from pyg_kernels.ops.ragged import Layout

_SCHEMA_TYPES = {int: "SymInt", bool: "bool", float: "float", float | None: "float?"}
_LAYOUT = "SymInt num_steps, str layout_form, bool steps_first, bool backwards"


class Scan(Operator):
    """A scan along texts.

    Args:
        name: The name of the op.
        tensors: The names of the tensors, with ``?`` after those that may be None; `start` and
            `length` of the layout follow them.
        form: The named tuple of the settings; those of the layout follow them.
        define: Computes the outputs by PyTorch's ops, from a form, a layout and tensors.
        like: Gives empty tensors like all outputs of kernels, from a form, a layout and tensors.
        kernels: The modules of the kernels, by path: see `path_on`. They have
            ``forward(form, layout, tensors)``, which returns all outputs, and
            ``backward(form, layout, tensors, outputs, grads, needed)``, which returns the
            gradients of the tensors.
        num_outputs: The number of outputs, with those that only the backward pass reads.
        num_defined: The number of outputs of the definition.
        first_kept: See `Operator`.
    """

    def __init__(
        self,
        name: str,
        tensors: str,
        form: type,
        define: Callable[..., Outputs],
        like: Callable[[Any, Layout, Sequence[Any]], Outputs],
        kernels: Mapping[str, str],
        num_outputs: int,
        num_defined: int,
        first_kept: int = 0,
    ) -> None:
        names = [*tensors.split(), "start", "length"]
        typed = [f"Tensor{'?' * name.endswith('?')} {name.rstrip('?')}" for name in names]
        fields = get_type_hints(form).items()
        typed += [f"{_SCHEMA_TYPES.get(kind, 'str')} {name}" for name, kind in fields]
        self._form, self._count = form, len(names) - 2
        self._define, self._like = define, like
        self._num_defined = num_defined
        super().__init__(
            name,
            ", ".join([*typed, _LAYOUT]),
            self._run,
            self._run_back,
            kernels,
            self._by_torch,
            self._fake,
            num_outputs,
            first_kept,
        )

    def scan(self, form: Any, layout: Layout, *tensors: Tensor | None) -> Outputs:
        """The outputs, with those that only the backward pass reads unless the definition ran."""
        return self(*tensors, layout.start, layout.length, *form, *layout.settings)

    def _parts(self, args: Sequence[Any]) -> tuple[Any, Layout, Sequence[Any]]:
        """The form, the layout and the tensors among the op's arguments."""
        tensors, (start, length) = args[: self._count], args[self._count : self._count + 2]
        settings = args[self._count + 2 :]
        layout = Layout(start, length, tensors[0].size(0), *settings[-4:])
        return self._form(*settings[:-4]), layout, tensors

    def _by_torch(self, *args: Any) -> Outputs:
        form, layout, tensors = self._parts(args)
        return self._define(form, layout, *tensors)

    def _run(self, *args: Any) -> Outputs:
        form, layout, tensors = self._parts(args)
        kernels = self.kernels_for(tensors[0])
        found = kernels.forward(form, layout, tensors) if kernels else self.definition(*args)
        return self.padded(tuple(found))

    def _run_back(
        self,
        grads: Sequence[Tensor | None],
        tensors: Sequence[Tensor | None],
        outputs: Sequence[Tensor],
        settings: Sequence[Any],
        needed: Sequence[bool],
    ) -> Sequence[Tensor | None]:
        form, layout, given = self._parts((*tensors, *settings))
        kernels = self.kernels_for(given[0])
        if not kernels:
            return self.by_definition(tensors, settings, needed, grads)
        return *kernels.backward(form, layout, given, outputs, grads, needed), None, None

    def _fake(self, *args: Any) -> Outputs:
        form, layout, tensors = self._parts(args)
        found = self._like(form, layout, tensors)
        return self.padded(found if self.module_for(tensors[0]) else found[: self._num_defined])
