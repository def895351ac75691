"""Recurrent networks with piecewise-linear expansions on CPU: stepped, with their own backward.

The pieces are made once for all steps. In the loop, all is done in place on one time step's rows;
what the backward can do for all tokens at once, the gradients of the matrix and of the functions,
is taken out of it.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

import torch
from torch import Tensor

from pyg_kernels.ops.activation_scan import reference
from pyg_kernels.ops.activation_scan.reference import Expansion, Form
from pyg_kernels.ops.dtypes import without_autocast
from pyg_kernels.ops.expansion.cells import Finder
from pyg_kernels.ops.expansion.piecewise import PieceSums, piece_table
from pyg_kernels.ops.packing import Packing
from pyg_kernels.ops.products import weight_gradient
from pyg_kernels.ops.transforms import by_definition, is_batched, transforms_active


class ActivationScan(torch.autograd.Function):
    """Inputs: form, packing, logits, h, the recurrent map, the expansion's four tensors, and the
    scale and shift after normalisation.

    Outputs: h and the pre-activations; then, for the backward, the functions' inputs, the pieces
    in which they are, and the means and inverse deviations of each step.
    """

    @staticmethod
    def forward(form: Form, packing: Packing, *tensors: Any) -> tuple[Tensor, ...]:
        logits, h, recurrent, *parts, weight, bias = tensors
        table = piece_table(form.green, *parts)
        texts, channels = packing.num_texts, len(recurrent)
        finder = Finder(table, texts * channels // table.units)
        out, before = torch.empty_like(logits), torch.empty_like(logits)
        inputs = torch.empty_like(logits) if form.normalize else before
        bins = torch.empty_like(logits, dtype=torch.int32)
        statistics = logits.new_empty(2, packing.num_steps if form.normalize else 0, channels)
        steps = map(packing.split, (logits, before, inputs, bins, out))
        across = recurrent.t().contiguous()
        for t, (u, a, normalised, found, now) in enumerate(zip(*steps, strict=True)):
            n = len(u)
            torch.addmm(u, h[:n], across, out=a)
            if form.normalize:
                _normalise(form, a, weight, bias, normalised, statistics[:, t])
            read, of, values = (rows.view(-1, table.units) for rows in (normalised, found, now))
            finder.find(read, of)
            finder.evaluate(read, of, values)
            h = now
        return out, before, inputs if form.normalize else inputs.new_empty(0), bins, statistics

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, ...]) -> None:
        ctx.form, ctx.packing, *tensors = inputs
        ctx.mark_non_differentiable(*output[1:])
        ctx.save_for_backward(*tensors, *output)
        ctx.set_materialize_grads(False)

    @staticmethod
    def backward(ctx: Any, grad: Tensor | None, *_: Any) -> tuple[Tensor | None, ...]:
        saved = ctx.saved_tensors
        needed = ctx.needs_input_grad
        if grad is None:
            return (None,) * len(needed)
        inputs, output = saved[:9], saved[9:]
        if torch.is_grad_enabled() or transforms_active() or is_batched(grad):
            run = partial(_definition, ctx.form, ctx.packing)
            with without_autocast(grad.device):
                return None, None, *by_definition(run, inputs, needed[2:], (grad,))
        found = _gradients(ctx.form, ctx.packing, inputs, output, grad, needed[2:])
        return None, None, *(g if need else None for g, need in zip(found, needed[2:], strict=True))


def _normalise(
    form: Form, a: Tensor, weight: Tensor, bias: Tensor, out: Tensor, statistics: Tensor
) -> None:
    """Normalises the rows of a step; writes them, their mean and their inverse deviation."""
    if len(a) == 1:  # without the rounding of a row less its own mean
        out.copy_(bias)
        statistics[0].copy_(a[0])
        statistics[1].fill_(form.eps**-0.5)
        return
    kept = (out, *statistics)
    torch.native_batch_norm(a, weight, bias, None, None, True, 0.0, form.eps, out=kept)


def _definition(form: Form, packing: Packing, *tensors: Any) -> Tensor:
    logits, h, recurrent, *parts, weight, bias = tensors
    of_units = Expansion(*parts)
    run = partial(reference.activation_scan, form, packing, logits, h, recurrent, of_units)
    return run(weight, bias)[0]


def _gradients(
    form: Form,
    packing: Packing,
    tensors: Sequence[Any],
    output: Sequence[Tensor],
    grad: Tensor,
    needed: Sequence[bool],
) -> tuple[Tensor | None, ...]:
    _, initial, recurrent, *parts, weight, _ = tensors
    out, before, inputs, bins, statistics = output
    inputs = inputs if form.normalize else before
    table = piece_table(form.green, *parts)
    reaching, of_logits = torch.empty_like(out), torch.empty_like(out)
    carried = torch.zeros_like(initial)
    of_weight, of_bias = torch.zeros_like(weight), torch.zeros_like(weight)
    steps = zip(*map(packing.split, (grad, reaching, of_logits, bins, before)), strict=True)
    for t, (g, total, passed, found, a) in reversed(list(enumerate(steps))):
        back = carried[: len(g)]
        torch.add(g, back, out=total)
        table.slopes_at(found.view(-1, table.units), passed.view(-1, table.units))
        passed.mul_(total)
        if form.normalize:
            of_a, gamma, beta = torch.ops.aten.native_batch_norm_backward(
                passed, a, weight, None, None, *statistics[:, t], True, form.eps, [True] * 3
            )
            passed.copy_(of_a)
            of_weight += gamma
            of_bias += beta
        torch.mm(passed, recurrent, out=back)
    of_parts: tuple[Tensor | None, ...] = (None,) * 4
    if any(needed[3:7]):
        sums = PieceSums(table)
        sums.add(*(rows.reshape(-1, table.units) for rows in (reaching, bins, inputs)))
        of_parts = sums.gradients(parts[1], form.green)
    of_recurrent = None
    if needed[2]:
        of_recurrent = _recurrent_gradient(packing, out, initial, of_logits)
    return of_logits, carried, of_recurrent, *of_parts, of_weight, of_bias


def _recurrent_gradient(packing: Packing, out: Tensor, h: Tensor, of_logits: Tensor) -> Tensor:
    """The product of each token's gradient with the output before it."""
    first = packing.batch_sizes[0]
    of_first, of_later = of_logits[:first], of_logits[first:]
    if packing.uniform:
        read = out[: len(of_later)]
    else:
        read = out.index_select(0, packing.rows(out.device).before)
    found = weight_gradient(h[:first], of_first)
    return weight_gradient(read, of_later, out=found, add=True)
