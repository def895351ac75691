"""The walk scan on CUDA: all orders in one pass over time, forward and backward, in Triton.

Triton is imported, and kernels are compiled, at the first call.
"""

from __future__ import annotations

import importlib
from collections.abc import Sequence
from functools import cache, partial
from math import gcd
from typing import Any, NamedTuple

import torch
from torch import Tensor

from pyg_kernels.ops.linear_scan import reference
from pyg_kernels.ops.packing import Packing
from pyg_kernels.ops.transforms import by_definition, is_batched, transforms_active

DTYPES = (torch.float32, torch.float16, torch.bfloat16)

_ORDERS = 4  # of one pass, as the kernels have that many arguments

# These sizes are estimates, not tuned on a device. A program is one warp on one line of 128 bytes
# of every row: at 32 texts of 1024 channels in half precision that is 512 programs, four on most
# of an H100's or H200's 132 multiprocessors, all at work at once. To move 4 TB/s at a latency of
# 0.8 microseconds some 24 KB must be under way on each of these, 16 KB or less of them reads: 40
# lines a program make 20 KB. So loads are issued as many steps ahead as make 40 lines, into shared
# memory, in stages of a few steps each. With one warp a scheduler no other warp hides the cost of
# a step, which at order 1 may take 100 cycles: the steps of a stage share waits and barriers, and
# addresses have 32 bits where that is enough.
_LINE_BYTES = 128
_LINES_UNDER_WAY = 40
_STEPS_A_STAGE = 4


def obstacle(device: torch.device) -> str | None:
    """Why the kernels cannot run on a device; None where they can."""
    if device.type != "cuda":
        return f"Triton's kernels run on CUDA devices, not on {device.type!r}"
    return _import_obstacle()


def available(device: torch.device) -> bool:
    """Whether the device is a CUDA device and Triton can be imported."""
    return obstacle(device) is None


@cache
def _import_obstacle() -> str | None:
    try:
        importlib.import_module("triton")
    except Exception as error:  # a broken installation fails in ways of its own
        return f"Triton cannot be imported: {error}"
    return None


def bytes_moved(projections: Sequence[Tensor], decay: float | Tensor) -> int:
    """The bytes a forward pass must move: it reads the projections and decay and writes c."""
    moved = sum(2 * p.numel() * p.element_size() for p in projections)
    return moved + (decay.numel() * decay.element_size() if isinstance(decay, Tensor) else 0)


def walk_scan(
    projections: Sequence[Tensor],
    decay: float | Tensor,
    packing: Packing,
    initial: Tensor | None = None,
    combine: str = "mul",
    normalize: bool = False,
) -> tuple[Tensor, ...]:
    r"""The states of walks of all orders along texts, as ``reference.walk_scan`` defines them.

    States are float32 inside the kernels. The states that come out, which the backward reads
    again, have the dtype of the projections. More than four orders take a pass of the kernels for
    every four, and the first order of a further pass starts from rounded states.

    Args:
        projections: :math:`P_1, \ldots, P_n`, each :obj:`(N, D)`, of one dtype: float32, float16
            or bfloat16. Rows may lie apart, as in columns of a wider product.
        decay: :math:`\lambda`: a number, or a tensor :obj:`(1,)`, :obj:`(D,)`, :obj:`(N, 1)` or
            :obj:`(N, D)`.
        packing: The texts.
        initial: :math:`c_j[0]`, of shape :obj:`(n, num_texts, D)`; zeros if None.
        combine: ``'mul'`` or ``'add'``.
        normalize: Whether :math:`\nu` is 1 or 0.

    Returns:
        :math:`c_1, \ldots, c_n`, each :obj:`(N, D)`.

    Raises:
        TypeError: If the projections are of another dtype, or of several.
    """
    dtypes = {p.dtype for p in projections}
    if len(dtypes) != 1 or not dtypes <= set(DTYPES):
        names = ", ".join(sorted(map(str, dtypes)))
        raise TypeError(f"projections must be all float32, float16 or bfloat16, got {names}")
    states: list[Tensor] = []
    while len(states) < len(projections):
        done = slice(len(states), len(states) + _ORDERS)
        first, *others = projections[done]
        if states:
            start = None if initial is None else initial[done.start - 1]
            below = _one_token_back(states[-1], packing, start)
            first = below * first if combine == "mul" else below + first
        settings = _Settings(
            packing,
            combine,
            normalize,
            None if isinstance(decay, Tensor) else float(decay),
        )
        states += _WalkScan.apply(
            settings,
            decay if isinstance(decay, Tensor) else None,
            None if initial is None else initial[done],
            first,
            *others,
        )
    return tuple(states)


class _Settings(NamedTuple):
    packing: Packing
    combine: str
    normalize: bool
    constant: float | None  # the decay that is no tensor


class _WalkScan(torch.autograd.Function):
    """Inputs: settings, decay, initial and one projection an order, four at most."""

    @staticmethod
    def forward(
        settings: _Settings, decay: Tensor | None, initial: Tensor | None, *projections: Tensor
    ) -> tuple[Tensor, ...]:
        states = tuple(p.new_empty(p.shape) for p in projections)
        reads = len(projections) + _kind(decay)[0]
        _launch("forward", settings, decay, initial, projections, states, reads)
        return states

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, ...]) -> None:
        ctx.settings, *tensors = inputs
        ctx.set_materialize_grads(False)
        ctx.save_for_backward(*tensors, *output)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor | None) -> tuple[Tensor | None, ...]:
        saved, settings, needed = ctx.saved_tensors, ctx.settings, ctx.needs_input_grad[1:]
        inputs, states = saved[: -len(grads)], saved[-len(grads) :]
        if torch.is_grad_enabled() or transforms_active() or any(map(is_batched, grads)):
            return None, *by_definition(partial(_definition, settings), inputs, needed, grads)
        decay, initial, *projections = inputs
        # Orders above the last that has a gradient play no part.
        order = max((j for j, grad in enumerate(grads, start=1) if grad is not None), default=0)
        if not order:
            return (None,) * len(ctx.needs_input_grad)
        grad_decay = (
            _decay_gradient_parts(decay, projections[0], settings.packing) if needed[0] else None
        )
        grad_initial = torch.zeros(initial.shape, device=initial.device) if needed[1] else None
        grad_projections = [
            p.new_empty(p.shape) if wanted else None
            for p, wanted in zip(projections, needed[2:], strict=True)
        ]
        grad_projections[order:] = [None] * (len(projections) - order)
        _launch(
            "backward",
            settings,
            decay,
            initial,
            projections[:order],
            states[:order],
            _reads_backward(settings, decay, grads[:order], needed[0]),
            **_of_orders("grad_c", [None if g is None else _rows(g) for g in grads[:order]]),
            **_of_orders("grad_p", grad_projections[:order], strides=False),
            grad_decay=grad_decay,
            grad_initial=grad_initial,
        )
        if grad_decay is not None:
            grad_decay = _summed_like(grad_decay, decay)
        if grad_initial is not None:
            grad_initial = grad_initial.to(initial.dtype)
        return None, grad_decay, grad_initial, *grad_projections


def _definition(
    settings: _Settings, decay: Tensor | None, initial: Tensor | None, *projections: Tensor
) -> tuple[Tensor, ...]:
    """The same in PyTorch ops, in float32 throughout, as the kernels."""
    packing, combine, normalize, constant = settings
    single = [p.float() for p in projections]
    if decay is None:
        decay = single[0].new_tensor(constant)
    if initial is None:
        initial = single[0].new_zeros(len(single), packing.num_texts, single[0].size(1))
    states = reference.walk_scan(
        single, decay.float().expand_as(single[0]), packing, initial.float(), combine, normalize
    )
    return tuple(c.to(projections[0].dtype) for c in states)


def _one_token_back(rows: Tensor, packing: Packing, start: Tensor | None) -> Tensor:
    """The row of the token before each token; before a text's first, its row of start, or 0."""
    sizes = packing.batch_sizes
    if not sizes:
        return rows
    first = rows.new_zeros(sizes[0], rows.size(1)) if start is None else start[: sizes[0]]
    steps = packing.split(rows)
    before = [step[:size] for step, size in zip(steps, sizes[1:], strict=False)]
    return torch.cat([first.to(rows.dtype), *before])


def _launch(
    kernel: str,
    settings: _Settings,
    decay: Tensor | None,
    initial: Tensor | None,
    projections: Sequence[Tensor],
    states: Sequence[Tensor],
    reads: int,
    **gradients: Any,
) -> None:
    """Runs a kernel of triton_kernels.py, whose arguments have the names given here.

    Args:
        reads: How many rows of matrices the kernel reads at each step.
    """
    from pyg_kernels.ops.linear_scan import triton_kernels

    packing, combine, normalize, constant = settings
    like = projections[0]
    block = _LINE_BYTES // like.element_size()
    programs = packing.num_texts * -(-like.size(1) // block)
    if not programs:
        return
    by_token, by_channel = _kind(decay)
    if decay is not None:
        decay = _rows(decay) if by_token else decay.contiguous()
        if not by_channel:
            decay = decay.float()  # so that reads are of 4 bytes
    arguments = {
        **_of_orders("p", [_rows(p) for p in projections]),
        **_of_orders("c", states, strides=False),
        **gradients,
        "decay": decay,
        "decay_stride": decay.stride(0) if decay is not None and by_token else 0,
        "constant": constant or 0.0,
        "initial": None if initial is None else initial.contiguous(),
        "index": None if packing.uniform else _index(packing, like.device),
        "num_texts": packing.num_texts,
        "num_steps": packing.num_steps,
    }
    tensors = [a for a in arguments.values() if isinstance(a, Tensor)]
    with torch.cuda.device_of(like):
        getattr(triton_kernels, kernel)[(programs,)](
            **arguments,
            D=like.size(1),
            MUL=combine == "mul",
            NORMALIZE=normalize,
            BY_TOKEN=by_token,
            BY_CHANNEL=by_channel,
            ALIGNMENT=_alignment(tensors),
            BLOCK=block,
            WIDE=max(map(_span, tensors)) >= 2**31,
            STAGES=1 + max(2, -(-_LINES_UNDER_WAY // (_STEPS_A_STAGE * reads))),
            UNROLL=_STEPS_A_STAGE,
            num_warps=1,
            enable_fp_fusion=True,
        )


def _reads_backward(
    settings: _Settings,
    decay: Tensor | None,
    grads: Sequence[Tensor | None],
    decay_gradient: bool,
) -> int:
    """How many rows of matrices the backward reads at each step."""
    factors = len(grads) - 1 if settings.combine == "mul" else 0
    states = len(grads) if decay_gradient else factors
    projections = len(grads) if decay_gradient and settings.normalize else factors
    given = sum(grad is not None for grad in grads)
    return given + states + projections + _kind(decay)[0]


def _of_orders(
    name: str, tensors: Sequence[Tensor | None], strides: bool = True
) -> dict[str, Tensor | int | None]:
    """One argument an order, None beyond those there are, and their rows' strides."""
    padded = [*tensors, *[None] * (_ORDERS - len(tensors))]
    arguments: dict[str, Tensor | int | None] = {}
    for j, tensor in enumerate(padded, start=1):
        arguments[f"{name}{j}"] = tensor
        if strides:
            arguments[f"{name}{j}_stride"] = 0 if tensor is None else tensor.stride(0)
    return arguments


def _rows(tensor: Tensor) -> Tensor:
    """The tensor, copied only if the numbers of a row do not follow each other."""
    return tensor if tensor.stride(1) == 1 or tensor.size(1) == 1 else tensor.contiguous()


def _kind(decay: Tensor | None) -> tuple[bool, bool]:
    """Whether each token, and whether each channel, has a decay of its own."""
    if decay is None:
        return False, False
    return decay.dim() == 2, decay.size(-1) > 1


def _alignment(tensors: Sequence[Tensor]) -> int:
    """The bytes, 16 at most, that divide every row's start in all matrices."""
    matrices = [t for t in tensors if t.dim() == 2]
    starts = [m.data_ptr() for m in matrices]
    return gcd(16, *starts, *(m.stride(0) * m.element_size() for m in matrices))


def _span(tensor: Tensor) -> int:
    """The number of elements from a tensor's first to its last."""
    return sum((n - 1) * step for n, step in zip(tensor.shape, tensor.stride(), strict=True))


def _index(packing: Packing, device: torch.device) -> Tensor:
    """Where each step's rows begin, then each text's length, kept with the packing."""
    kept = packing.__dict__.setdefault("_triton_index", {})
    if device not in kept:
        kept[device] = torch.tensor(
            [*packing.offsets[:-1], *packing.lengths], dtype=torch.int32, device=device
        )
    return kept[device]


def _decay_gradient_parts(decay: Tensor, like: Tensor, packing: Packing) -> Tensor:
    """Room for what the kernel adds up itself: see triton_kernels.backward."""
    channels = like.size(1)
    match _kind(decay):
        case True, True:
            return torch.empty(decay.shape, dtype=decay.dtype, device=decay.device)
        case True, False:
            blocks = -(-channels // (_LINE_BYTES // like.element_size()))
            return torch.empty(decay.size(0), blocks, device=decay.device)
        case _:
            return torch.empty(packing.num_texts, channels, device=decay.device)


def _summed_like(parts: Tensor, decay: Tensor) -> Tensor:
    """The gradient of decay from its parts."""
    by_token, by_channel = _kind(decay)
    if not by_token:
        parts = parts.sum(0) if by_channel else parts.sum().view(1)
    elif not by_channel:
        parts = parts.sum(1, keepdim=True)
    return parts.to(decay.dtype)
