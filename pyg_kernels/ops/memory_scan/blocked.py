"""Memory cells with their own backward, and their products with windows under them."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from pyg_kernels.ops.memory_scan import reference
from pyg_kernels.ops.memory_scan.backward import Backward
from pyg_kernels.ops.memory_scan.cell import parted, same_output
from pyg_kernels.ops.memory_scan.forward import Forward
from pyg_kernels.ops.memory_scan.reference import Form, Parts
from pyg_kernels.ops.packing import Packing
from pyg_kernels.ops.transforms import by_definition, is_batched, transforms_active
from pyg_kernels.ops.windows import Windows

ACTIVATIONS = (None, "tanh", "relu", "sigmoid")


class MemoryScan(torch.autograd.Function):
    """Inputs: form, packing, the windows of each width, x, h, c, the bias, layer normalisation's
    scale and shift, the static factors; then the filters, and last the maps of the output before,
    one a gate that reads it.

    Where there are no filters, x is what they would have made of the tokens.

    Outputs: the memories and, unless they are the same, the outputs; then, for the backward, with
    layer normalisation means and inverse standard deviations, and the values of all gates, one
    tensor a block: smaller tensors are memory that the allocator still has.
    """

    @staticmethod
    def forward(
        form: Form, packing: Packing, windows: Sequence[Windows], *tensors: Any
    ) -> tuple[Tensor, ...]:
        run = Forward(form, packing, windows, tensors, keeps_values=True)
        outputs = run.run()
        stats = (t for t in (run.means, run.scales) if t is not None)
        return (*outputs, *stats, *run.values)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, ...]) -> None:
        ctx.form, ctx.packing, ctx.windows, *tensors = inputs
        ctx.num_outputs = 1 if same_output(ctx.form, tensors[4]) else 2
        ctx.mark_non_differentiable(*output[ctx.num_outputs :])
        ctx.num_inputs = len(tensors)
        ctx.save_for_backward(*tensors, *output)
        ctx.set_materialize_grads(False)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor | None) -> tuple[Tensor | None, ...]:
        saved = ctx.saved_tensors
        inputs, output = saved[: ctx.num_inputs], saved[ctx.num_inputs :]
        grads = grads[: ctx.num_outputs]
        form, packing, windows = ctx.form, ctx.packing, ctx.windows
        if torch.is_grad_enabled() or transforms_active() or any(map(is_batched, grads)):
            run = partial(_definition, form, packing, windows)
            return by_definition(run, (None, None, None, *inputs), ctx.needs_input_grad, grads)
        backward = Backward(form, packing, windows, inputs, output, ctx.needs_input_grad[3:])
        return (None, None, None, *backward.run(grads))


def scanned(
    form: Form, packing: Packing, windows: Sequence[Windows], *tensors: Tensor | None
) -> tuple[Tensor, ...]:
    """The outputs of `MemoryScan` that have gradients; the rest is kept for a backward alone."""
    wanted = any(tensor is not None and tensor.requires_grad for tensor in tensors)
    if not wanted or not torch.is_grad_enabled():
        return Forward(form, packing, windows, tensors, keeps_values=False).run()
    count = 1 if same_output(form, tensors[4]) else 2
    return MemoryScan.apply(form, packing, windows, *tensors)[:count]


def filtered(windows: Sequence[Windows], x: Tensor, filters: Sequence[Tensor]) -> Tensor:
    """What all filters make of the tokens, side by side, in ops that PyTorch differentiates."""
    if not filters:
        return x
    widths, gates = len(windows), len(filters) // len(windows)
    parts: list[Tensor] = []
    for b, window in enumerate(windows):
        weights = filters[b::widths]
        weight = torch.cat(list(weights)) if gates > 1 else weights[0]
        if window.convolves(x):
            found = window.convolve(x, weight)
        else:
            found = F.linear(window.gather(x), weight.transpose(1, 2).flatten(1))
        parts.append(found)
    if widths == 1:
        return parts[0]
    by_gate = zip(*(part.chunk(gates, dim=1) for part in parts), strict=True)
    return torch.cat([part for gate in by_gate for part in gate], dim=1)


def _definition(
    form: Form, packing: Packing, windows: Sequence[Windows], *inputs: Any
) -> tuple[Tensor, ...]:
    x, h, c, bias, norm_weight, norm_bias, static, *weights = inputs[3:]
    filters, recurrent = parted(form, weights)
    logits = filtered(windows, x, filters)
    if bias is not None:
        logits = logits + F.pad(bias, (0, logits.size(1) - len(bias)))
    stacked = torch.cat(list(recurrent)) if recurrent else None
    parts = Parts(stacked, norm_weight, norm_bias, static)
    h, c = reference.memory_scan(form, packing, logits, parts, h, c)
    return (c,) if same_output(form, norm_weight) else (c, h)
