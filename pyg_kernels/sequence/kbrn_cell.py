"""One step of a kernel-based recurrent network, and one layer of it on a batch of texts."""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.nn import BatchNorm1d
from torch.nn.modules.batchnorm import _BatchNorm
from torch.nn.parameter import is_lazy
from torch_geometric.nn.dense.linear import Linear

from pyg_kernels.checks import check_flags, checked_count
from pyg_kernels.nn.activation import Init, KernelActivation, precision_of
from pyg_kernels.nn.arguments import checked_lazy_count, differing
from pyg_kernels.nn.linear import StateLinear, is_matrix, keep_own_names
from pyg_kernels.ops.expansion import Green
from pyg_kernels.ops.ragged import Layout
from pyg_kernels.ops.scan.activation import Form, activation_scan
from pyg_kernels.sequence.layer import SequenceCell
from pyg_kernels.sequence.precision import place


class KBRNState(NamedTuple):
    """The state of a kernel-based recurrent network; callers see only its tensor."""

    h: Tensor


class InputLinear(Linear):
    """The map of the input with its bias, initialised as in :class:`torch.nn.RNN`.

    Args:
        in_channels: The number of input features; -1 to read it off the first input.
        out_channels: The number of output features.
        bias: Whether there is a bias.
    """

    def __init__(self, in_channels: int, out_channels: int, bias: bool) -> None:
        super().__init__(in_channels, out_channels, bias)
        self.register_state_dict_post_hook(keep_own_names)

    def reset_parameters(self) -> None:
        if any(is_lazy(parameter) for parameter in self.parameters()):
            return
        bound = 1.0 / math.sqrt(self.out_channels)
        for parameter in self.parameters():
            torch.nn.init.uniform_(parameter, -bound, bound)


class KBRNCell(SequenceCell[KBRNState]):
    r"""One step of :class:`~pyg_kernels.sequence.KBRN`, like :class:`torch.nn.RNNCell` for RNNs.

    Formulas, arguments and errors are those of KBRN. :obj:`lin_input` is the map U with the bias b,
    and :obj:`lin_recurrent` the map W. :obj:`activation` is the
    :class:`~pyg_kernels.nn.KernelActivation` f, which contains the normalisation of the cell.

    Shapes:
        - **input:** one token of each text, :math:`(B, F)` or :math:`(F)`, and the previous
          output, :math:`(B, H)` or :math:`(H)`; zeros by default.
        - **output:** the output, :math:`(B, H)` or :math:`(H)`.

    Example:
        >>> import torch
        >>> from pyg_kernels.sequence import KBRNCell
        >>> cell, h = KBRNCell(5, 3, num_centers=20, normalize=False), None
        >>> for token in torch.rand(7, 2, 5):  # two texts of seven tokens
        ...     h = cell(token, h)
        >>> h.shape
        torch.Size([2, 3])

    See Also:
        :class:`~pyg_kernels.sequence.KBRN`, which reads whole texts.
    """

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        *,
        num_centers: int = 100,
        green: Green = "relu",
        normalize: bool = True,
        init: Init = "random",
        init_range: tuple[float, float] = (-2, 2),
        affine: bool = False,
        shared: bool = False,
        bandwidth: float | None = None,
        bias: bool = True,
        device: torch.device | str | int | None = None,
        dtype: torch.dtype | None = None,
    ) -> None:
        super().__init__()
        self._input_size = checked_lazy_count(input_size, "input_size")
        self.hidden_size = checked_count(hidden_size, "hidden_size")
        check_flags(bias=bias)
        self.lin_input = InputLinear(input_size, hidden_size, bias)
        self.lin_recurrent = StateLinear(hidden_size)
        self.activation = KernelActivation(
            hidden_size,
            num_centers=num_centers,
            green=green,
            init=init,
            init_range=init_range,
            affine=affine,
            shared=shared,
            normalize=normalize,
            bandwidth=bandwidth,
        )
        self.lin_input.reset_parameters()
        self.lin_recurrent.reset_parameters()
        place(self, device, dtype)

    def l1(self) -> Tensor:
        r"""The regulariser of the activations, :math:`\sum_{ik} |\chi_{ik}|`."""
        return self.activation.l1()

    @property
    def input_size(self) -> int:
        return int(getattr(self.lin_input, "in_channels", self._input_size))

    @property
    def state_type(self) -> type[KBRNState]:
        return KBRNState

    def start(self, num_texts: int, like: Tensor) -> tuple[Tensor, ...]:
        dtype = precision_of(self, like)
        return (like.new_zeros(num_texts, self.hidden_size, dtype=dtype),)

    def state_shapes(
        self, state: tuple[Tensor, ...], num_texts: int, num_features: int
    ) -> list[tuple[int, ...]]:
        return [(num_texts, self.hidden_size)]

    def forward(  # type: ignore[override]  # the state is a tensor, as nn.RNNCell's
        self, x: Tensor, h: Tensor | None = None
    ) -> Tensor:
        return super().forward(x, as_state(h)).h

    def read(
        self, x: Tensor, layout: Layout, state: tuple[Tensor, ...]
    ) -> tuple[Tensor, tuple[Tensor, ...]]:
        self.check_tokens(x)
        (h,) = state
        norm, logits = self._batch_norm(), self.lin_input(x)
        if norm is not None and _is_one_text(layout):
            raise ValueError(
                "normalize=True in training: the tokens of one text have no variance over texts, "
                "expected several texts that are not empty, or eval()"
            )
        if self._fuses():
            out, before = self._scanned(logits, layout, h)
        else:
            out, before = self._called(logits, layout, h)
        if norm is not None and layout.num_rows:
            # The running statistics take all tokens as one batch.
            rows = before.to(precision_of(norm, before))
            with torch.no_grad():
                if layout.form == "padded":
                    _track(norm, rows, layout.is_token())
                else:
                    norm.forward(rows)
        return out, (layout.last(out, h),)

    def _batch_norm(self) -> _BatchNorm | None:
        """The normalisation, if it uses the statistics of the batch that is read."""
        norm = getattr(self.activation, "norm", None)
        if not isinstance(norm, _BatchNorm) or not (norm.training or norm.running_mean is None):
            return None
        return norm

    def _fuses(self) -> bool:
        """Whether the modules are still as they were built, so that a scan can compute them."""
        act, lin = self.activation, self.lin_recurrent
        norm = getattr(act, "norm", None)
        return (
            type(act).forward is KernelActivation.forward
            and act.num_units == self.hidden_size
            and act.dim in (-1, 1)  # the last one of a step's (B, H)
            and is_matrix(lin)
            and not act.hooked
            and (norm is None or type(norm).forward is BatchNorm1d.forward)
            and not getattr(norm, "hooked", False)
        )

    def _scanned(self, logits: Tensor, layout: Layout, h: Tensor) -> tuple[Tensor, Tensor]:
        act, recurrent = self.activation, self.lin_recurrent.weight
        expansion = (act.centers, act.coefficients, act.slope, act.intercept)
        form = Form(act.green, act.bandwidth)
        norm: Any = act.norm
        weight = bias = None
        if norm is not None:
            weight, bias = norm.weight, norm.bias
            form = form._replace(normalize=self._batch_norm() is not None, eps=norm.eps)
        if norm is not None and not form.normalize:
            scale = torch.rsqrt(norm.running_var + norm.eps)
            scale = scale if weight is None else scale * weight
            shift = -norm.running_mean * scale
            shift = shift if bias is None else shift + bias
            logits, recurrent = logits * scale + shift, recurrent * scale.unsqueeze(1)
            weight = bias = None
        return activation_scan(form, layout, logits, h, recurrent, *expansion, weight, bias)

    def _called(self, logits: Tensor, layout: Layout, h: Tensor) -> tuple[Tensor, Tensor]:
        """The modules called at each step."""
        norm = self._batch_norm()
        outputs, inputs = [], []
        with _spare_buffers(norm):
            for t in range(layout.num_steps):
                texts = layout.has_token(t).squeeze(1).nonzero().squeeze(1)
                u, past = (rows.index_select(0, texts) for rows in (layout.rows_at(logits, t), h))
                a = u + self.lin_recurrent(past)
                if norm is not None and len(a) == 1:  # the row twice has the same statistics
                    found = self.activation(torch.cat((a, a)))[:1]
                else:
                    found = self.activation(a)
                h = h.to(found.dtype).index_copy(0, texts, found)
                outputs.append(h)
                inputs.append(torch.zeros_like(h, dtype=a.dtype).index_copy(0, texts, a))
        if not outputs:
            return logits, logits
        return layout.collect(outputs), layout.collect(inputs).detach()

    def described(self) -> list[str]:
        words = [f"{self.input_size}, {self.hidden_size}"]
        if isinstance(self.activation, KernelActivation):
            words += self.activation._words()
            words += differing(normalize=(self.activation.norm is not None, True))
        else:
            words.append(f"activation={self.activation!r}")
        return words + differing(bias=(self.lin_input.bias is not None, True))


def as_state(h: Tensor | None) -> KBRNState | None:
    """The state that the layers' base carries."""
    return None if h is None else KBRNState(h)


def _is_one_text(layout: Layout) -> bool:
    """Whether a single text has tokens; under compilers, where lengths are unknown, all count."""
    if layout.full or torch.compiler.is_compiling():
        return layout.num_texts == 1 and layout.num_steps > 0
    return int((layout.length > 0).sum()) == 1


def _track(norm: _BatchNorm, rows: Tensor, is_token: Tensor) -> None:
    """Updates the running statistics from the rows of tokens, in shapes that compilers know."""
    mean, variance, batches = norm.running_mean, norm.running_var, norm.num_batches_tracked
    if mean is None or variance is None or batches is None:
        return
    rows = rows.to(torch.promote_types(rows.dtype, torch.float32))  # sums exceed half precision
    count = is_token.sum()
    batches += count > 0
    rate = (count > 0).to(mean.dtype)
    rate = rate / batches.clamp(min=1) if norm.momentum is None else rate * norm.momentum
    center = torch.where(is_token, rows, 0).sum(0) / count.clamp(min=1)
    spread = torch.where(is_token, rows - center, 0).square().sum(0) / (count - 1).clamp(min=1)
    mean.lerp_(center.to(mean.dtype), rate)
    variance.lerp_(spread.to(variance.dtype), rate)


@contextmanager
def _spare_buffers(norm: _BatchNorm | None) -> Iterator[None]:
    """Lets steps update copies of the running statistics, which are then discarded."""
    if norm is None:
        yield
        return
    kept = dict(norm._buffers)
    norm._buffers.update({name: None if b is None else b.clone() for name, b in kept.items()})
    try:
        yield
    finally:
        norm._buffers.update(kept)
