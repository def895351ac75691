"""How an op with a definition and a compiled path is registered with PyTorch."""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from importlib.util import find_spec
from typing import Any

import torch
from torch import Tensor
from torch.autograd import forward_ad
from torch.nn import Parameter

from pyg_kernels.ops.dtypes import without_autocast

# Triton 3.2, which comes with PyTorch 2.6, is not used.
_HAS_TRITON = find_spec("triton") is not None and not torch.__version__.startswith("2.6.")

Outputs = tuple[Tensor, ...]
Definition = Callable[..., Outputs]


class Operator:
    """An op with a definition in PyTorch, and a forward and backward of its own.

    It is registered through :mod:`torch.library`, so that ``torch.compile``, ``torch.export`` and
    autograd know it. The definition serves the transforms of ``torch.func``, forward-mode
    derivatives, second derivatives and ONNX. ``torch.func.grad`` may be taken of a function that
    ``torch.compile`` returns, but not within one.

    Args:
        name: Its name, after ``pyg_kernels::``.
        arguments: Its arguments, tensors first, in the schema language of ``torch.library``.
        forward: ``forward(*tensors, *settings)``. It returns the outputs of the definition,
            followed by what the backward reads again.
        backward: ``backward(grads, tensors, outputs, settings, needed)``, with sequences of tensors
            or None. It returns the gradients of the tensors, None where they are not needed.
        kernels: The modules of its kernels, by path: see `path_on`.
        definition: Computes the outputs with derivatives by PyTorch's ops, from the same arguments.
        fake: Makes empty tensors like the outputs of `forward`, from the same arguments.
        num_outputs: How many outputs `forward` has.
        first_kept: The index of the first output that is kept for the backward; callers may change
            the outputs before it in place.
    """

    def __init__(
        self,
        name: str,
        arguments: str,
        forward: Definition,
        backward: Callable[..., Sequence[Tensor | None]],
        kernels: Mapping[str, str],
        definition: Definition,
        fake: Definition,
        num_outputs: int,
        first_kept: int = 0,
    ) -> None:
        self.definition, self._modules = definition, kernels
        self._first_kept = first_kept
        self._run_backward = backward
        self._num_tensors, self._num_outputs = arguments.count("Tensor"), num_outputs
        self.forward = forward
        self.op = torch.library.custom_op(
            f"pyg_kernels::{name}",
            self._run_forward,
            mutates_args=(),
            schema=f"({arguments}) -> ({', '.join(['Tensor'] * num_outputs)})",
        )
        self.op.register_fake(fake)
        self.op.register_autograd(self._backward, setup_context=self._setup)
        self.op.register_vmap(self._vmap)
        lists = ["Tensor?[] grads", "Tensor?[] tensors", "Tensor[] outputs", "bool[] needed"]
        settings = arguments.split(", ")[self._num_tensors :]
        self._backward_op = torch.library.custom_op(
            f"pyg_kernels::{name}_backward",
            self._gradients,
            mutates_args=(),
            schema=f"({', '.join([*lists, *settings])}) -> Tensor[]",
        )
        self._backward_op.register_fake(self._fake_gradients)

    def module_for(self, like: Tensor) -> str | None:
        """The module of the kernels for tensors like this one; None for the definition."""
        return self._modules.get(path_of(like))

    def kernels_for(self, like: Tensor) -> Any:
        """The kernels for tensors like this one; None for the definition."""
        module = self.module_for(like)
        return module and import_module(module)

    def __call__(self, *args: Any) -> Outputs:
        """The outputs, including those that the backward reads unless the definition ran."""
        if torch.onnx.is_in_onnx_export() or torch.jit.is_tracing():
            return self._defined(*args)
        tensors = [t for t in args[: self._num_tensors] if t is not None]
        if torch.compiler.is_compiling():
            if _has_tangents(*tensors):
                return self._defined(*args)
        else:
            if not is_plain(*tensors):
                return self._defined(*args)
            own = all(type(t) in (Tensor, Parameter) and not t.is_meta for t in tensors)
            if own and not _is_traced():
                with without_autocast(tensors[0].device):
                    found: Outputs = _Eager.apply(self, *args)
                return found
        called: Outputs = self.op(*args)
        return called

    def _run_forward(self, *args: Any) -> Outputs:
        with self._in_own_precision(args):
            return self.forward(*args)

    def _defined(self, *args: Any) -> Outputs:
        with self._in_own_precision(args):
            return self.definition(*args)

    def _in_own_precision(self, args: Sequence[Any]) -> Any:
        """A context without autocast on the device of the first tensor that is not None."""
        like = next(t for t in args[: self._num_tensors] if t is not None)
        return without_autocast(like.device)

    def _setup(self, ctx: Any, inputs: tuple[Any, ...], output: Outputs) -> None:
        ctx.set_materialize_grads(False)
        ctx.operator = self
        ctx.settings = inputs[self._num_tensors :]
        ctx.save_for_backward(*inputs[: self._num_tensors], *output[self._first_kept :])

    def _backward(self, ctx: Any, *grads: Tensor | None) -> tuple[Tensor | None, ...]:
        saved = ctx.saved_tensors
        tensors, outputs = saved[: self._num_tensors], saved[self._num_tensors :]
        needed = ctx.needs_input_grad[-self._num_tensors - len(ctx.settings) :][: self._num_tensors]
        rest = (None,) * len(ctx.settings)
        compiling = torch.compiler.is_compiling()
        if torch.is_grad_enabled() or not (compiling or is_plain(*grads)):
            return *self.by_definition(tensors, ctx.settings, needed, grads), *rest
        own = all(grad is None or type(grad) is Tensor for grad in grads)
        if own and not (compiling or _is_traced()):
            with without_autocast(tensors[0].device):
                found = self._run_backward(grads, tensors, outputs, ctx.settings, needed)
        else:
            found = self._backward_op(
                list(grads), list(tensors), list(outputs), list(needed), *ctx.settings
            )
        return *(g if need else None for g, need in zip(found, needed, strict=True)), *rest

    def _gradients(
        self,
        grads: Sequence[Tensor | None],
        tensors: Sequence[Tensor | None],
        outputs: Sequence[Tensor],
        needed: Sequence[bool],
        *settings: Any,
    ) -> list[Tensor]:
        with self._in_own_precision(tensors):
            found = self._run_backward(grads, tensors, outputs, settings, needed)
        return [
            like.zero_() if grad is None or not like.numel() else grad.contiguous()
            for grad, like in zip(found, _likes(tensors, outputs, needed), strict=True)
        ]

    @staticmethod
    def _fake_gradients(
        grads: Sequence[Tensor | None],
        tensors: Sequence[Tensor | None],
        outputs: Sequence[Tensor],
        needed: Sequence[bool],
        *settings: Any,
    ) -> list[Tensor]:
        return _likes(tensors, outputs, needed)

    def by_definition(
        self,
        tensors: Sequence[Tensor | None],
        settings: Sequence[Any],
        needed: Sequence[bool],
        grads: Sequence[Tensor | None],
    ) -> list[Tensor | None]:
        """The gradients through the definition.

        It also serves paths that have no backward of their own. The definition runs on new views of
        the inputs, so that only its direct dependence on each input counts, not the dependence of
        one input on another.
        """
        keep = torch.is_grad_enabled()
        gradients: list[Tensor | None] = [None] * len(tensors)
        with torch.enable_grad(), self._in_own_precision(tensors):
            own = [
                None if t is None else t.view_as(t) if keep else t.detach().requires_grad_(need)
                for t, need in zip(tensors, needed, strict=True)
            ]
            wanted = {k: t for k, t in enumerate(own) if t is not None and needed[k]}
            outs = self._defined(*own, *settings)
            given = [
                (out, grad)
                for out, grad in zip(outs, grads, strict=False)
                if grad is not None and out.requires_grad
            ]
            if not wanted or not given:
                return gradients
            found = torch.autograd.grad(
                [out for out, _ in given],
                list(wanted.values()),
                [grad for _, grad in given],
                create_graph=keep,
                allow_unused=True,
            )
        for k, gradient in zip(wanted, found, strict=True):
            gradients[k] = gradient
        return gradients

    def _vmap(
        self, info: Any, in_dims: tuple[int | None, ...], *args: Any
    ) -> tuple[Outputs, tuple[int | None, ...]]:
        """Runs slice after slice: within a transform's rule, PyTorch allows no other transform."""
        slices = (
            [
                x if dim is None else x.select(dim, number)
                for x, dim in zip(args, in_dims, strict=True)
            ]
            for number in range(info.batch_size)
        )
        found = zip(*(self.op(*each) for each in slices), strict=True)
        return tuple(torch.stack(outs) for outs in found), (0,) * self._num_outputs

    def padded(self, outputs: Outputs) -> Outputs:
        """The definition's outputs, with empty tensors added for the other outputs of the op."""
        spare = self._num_outputs - len(outputs)
        return *outputs, *(outputs[0].new_empty(0) for _ in range(spare))


class _Eager(torch.autograd.Function):
    """The op without the dispatcher, which would take longer than the op itself on small inputs."""

    @staticmethod
    def forward(ctx: Any, operator: Operator, *args: Any) -> Outputs:
        outputs = operator.forward(*args)
        operator._setup(ctx, args, outputs)
        return outputs

    @staticmethod
    def backward(ctx: Any, *grads: Tensor | None) -> tuple[Tensor | None, ...]:
        return None, *ctx.operator._backward(ctx, *grads)


def _likes(
    tensors: Sequence[Tensor | None], outputs: Sequence[Tensor], needed: Sequence[bool]
) -> list[Tensor]:
    """Tensors like the gradients; empty ones for those that are not needed."""
    return [
        t.new_empty(t.shape) if t is not None and need else outputs[0].new_empty(0)
        for t, need in zip(tensors, needed, strict=True)
    ]


def is_plain(*tensors: Tensor | None) -> bool:
    """Whether tensors hold numbers of their own, without tangents.

    The tensors that ``torch.func`` passes, and batches of gradients, have no storage.
    """
    for tensor in tensors:
        if tensor is None:
            continue
        try:
            tensor.untyped_storage()
        except NotImplementedError:
            return False
    return not _has_tangents(*tensors)


def _has_tangents(*tensors: Tensor | None) -> bool:
    there = (tensor for tensor in tensors if tensor is not None)
    return any(forward_ad.unpack_dual(tensor).tangent is not None for tensor in there)


def is_readable(*tensors: Tensor | None) -> bool:
    """Whether Python may read the numbers of tensors: not in compilation, nor within a vmap.

    Tensors on ``meta`` and PyTorch's fake tensors, which have a type of their own, hold nothing.
    """
    if torch.compiler.is_compiling():
        return False
    there = [t for t in tensors if t is not None]
    usual = all(type(t) in (Tensor, Parameter) and not t.is_meta for t in there)
    if not usual or not is_plain(*there):
        try:
            any(bool(tensor.flatten()[:1].any()) for tensor in there)
        except RuntimeError:
            return False
    return True


def _is_traced() -> bool:
    """Whether ``make_fx`` records operators: it would miss kernels that are called directly."""
    module = sys.modules.get("torch.fx.experimental.proxy_tensor")
    return module is not None and module.get_proxy_mode() is not None


@functools.cache
def cpu_backend() -> str:
    """``'numba'`` where Numba is installed, else ``'definition'``."""
    return "numba" if find_spec("numba") is not None else "definition"


def path_on(device: torch.device) -> str:
    """``'numba'`` on CPU, ``'triton'`` on CUDA, or ``'definition'``: PyTorch's own ops."""
    if device.type == "cuda":
        return "triton" if _HAS_TRITON else "definition"
    return cpu_backend() if device.type == "cpu" else "definition"


def path_of(tensor: Tensor) -> str:
    """The path for tensors like this one: only single and double precision have kernels."""
    known = tensor.dtype in (torch.float32, torch.float64)
    return path_on(tensor.device) if known else "definition"


def runs_compiled(tensor: Tensor) -> bool:
    """Whether kernels on CPU take tensors like this one."""
    return path_of(tensor) == "numba"
