"""How scans are made known to PyTorch: their arguments are tensors, a form and a layout."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from importlib import import_module
from typing import Any, get_type_hints

from torch import Tensor

from pyg_kernels.ops.operator import Operator, Outputs, runs_compiled
from pyg_kernels.ops.ragged import Layout

_SCHEMA_TYPES = {int: "SymInt", bool: "bool", float: "float", float | None: "float?"}
_LAYOUT = "SymInt num_steps, str layout_form, bool steps_first, bool backwards"


class Scan(Operator):
    """A scan along texts.

    The module with its kernels on CPU, ``cpu``, stands beside the definition. It has
    ``forward(form, layout, tensors)``, which gives all outputs, and ``backward(form, layout,
    tensors, outputs, grads, needed)``, which gives the gradients of the tensors.

    Args:
        tensors: The names of its tensors, with ``?`` behind those that may be None; `start` and
            `length` of the layout follow.
        form: The named tuple of its settings; the layout's follow.
        definition: The function of this name that computes its outputs by PyTorch's ops, from a
            form, a layout and tensors.
        fake: Empty tensors like all outputs where kernels run, from a form, a layout and tensors.
        num_outputs: How many outputs there are with those that the backward reads again.
        num_defined: How many the definition has.
        first_kept: See `Operator`.
        path: The name of the module with kernels for a form and tensors, None for the definition.
    """

    def __init__(
        self,
        tensors: str,
        form: type,
        definition: Callable[..., Outputs],
        fake: Callable[[Any, Layout, Sequence[Any]], Outputs],
        num_outputs: int,
        num_defined: int,
        first_kept: int = 0,
        path: Callable[[Any, Sequence[Any]], str | None] | None = None,
    ) -> None:
        names = [*tensors.split(), "start", "length"]
        typed = [f"Tensor{'?' * name.endswith('?')} {name.rstrip('?')}" for name in names]
        fields = get_type_hints(form).items()
        typed += [f"{_SCHEMA_TYPES.get(kind, 'str')} {name}" for name, kind in fields]
        self._form, self._count = form, len(names) - 2
        self._package = definition.__module__.rpartition(".")[0]
        self._path = path or _compiled
        self._like, self._num_defined, self._defines = fake, num_defined, definition
        super().__init__(
            definition.__name__,
            ", ".join([*typed, _LAYOUT]),
            self._kernels_forward,
            self._kernels_backward,
            self._by_torch,
            self._fake,
            num_outputs,
            first_kept,
        )

    def scan(self, form: Any, layout: Layout, *tensors: Tensor | None) -> Outputs:
        """The outputs, those that the backward reads included unless the definition ran."""
        return self(*tensors, layout.start, layout.length, *form, *layout.settings)

    def _parts(self, args: Sequence[Any]) -> tuple[Any, Layout, Sequence[Any]]:
        """The form, the layout and the tensors among the op's arguments."""
        tensors, (start, length) = args[: self._count], args[self._count : self._count + 2]
        settings = args[self._count + 2 :]
        layout = Layout.of_settings(start, length, tensors[0].size(0), tuple(settings[-4:]))
        return self._form(*settings[:-4]), layout, tensors

    def _kernels(self, form: Any, tensors: Sequence[Any]) -> Any:
        """The module with kernels; None for the definition."""
        path = self._path(form, tensors)
        return None if path is None else import_module(f"{self._package}.{path}")

    def _by_torch(self, *args: Any) -> Outputs:
        form, layout, tensors = self._parts(args)
        return self._defines(form, layout, *tensors)

    def _kernels_forward(self, *args: Any) -> Outputs:
        form, layout, tensors = self._parts(args)
        kernels = self._kernels(form, tensors)
        if kernels is None:
            return self.padded(self.definition(*args))
        return self.padded(kernels.forward(form, layout, tensors))

    def _kernels_backward(
        self,
        grads: Sequence[Tensor | None],
        tensors: Sequence[Tensor | None],
        outputs: Sequence[Tensor],
        settings: Sequence[Any],
        needed: Sequence[bool],
    ) -> Sequence[Tensor | None]:
        form, layout, given = self._parts((*tensors, *settings))
        kernels = self._kernels(form, given)
        if kernels is None:
            return self.by_definition(tensors, settings, needed, grads)
        return *kernels.backward(form, layout, given, outputs, grads, needed), None, None

    def _fake(self, *args: Any) -> Outputs:
        form, layout, tensors = self._parts(args)
        found = self._like(form, layout, tensors)
        path = self._path(form, tensors)
        return found if path == "cpu" else self.padded(found[: self._num_defined])


def _compiled(form: Any, tensors: Sequence[Any]) -> str | None:
    return "cpu" if runs_compiled(tensors[0]) else None
