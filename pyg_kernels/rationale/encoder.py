"""The encoder of texts, which maps the tokens that it is given to an output."""

from __future__ import annotations

from typing import Any, Literal

import torch
from torch import Tensor
from torch.nn import Dropout, Linear, Module, RNNBase
from torch.nn.utils.rnn import pack_sequence, unpack_sequence
from torch_geometric.nn import global_add_pool, global_max_pool

from pyg_kernels.checks import checked_choice, checked_count
from pyg_kernels.nn.arguments import checked_dropout
from pyg_kernels.nn.linear import Resettable
from pyg_kernels.sequence import RCNN
from pyg_kernels.sequence.texts import lengths_of


class SequenceEncoder(Resettable, Module):
    r"""Reads texts with a layer and maps one vector per text to outputs,

    .. math::
        y = A\, \mathrm{dropout}(r(h_1, \ldots, h_L)) + a,

    where r is the last output, the mean or the channelwise maximum. The vector of a text without
    tokens is zero, so the encoder predicts a for an empty text.

    If tokens count in part, with weights :math:`s_t` in [0, 1], the mean is
    :math:`\sum_t s_t h_t / \sum_t s_t`, and the maximum is over the tokens with a weight above 0.
    If all weights are 0 or 1, the mean, the maximum and the last output of an
    :class:`~pyg_kernels.sequence.RCNN` equal those of the selected tokens alone. The maximum jumps
    as a weight leaves 0, so the last output and the mean suit relaxed selections better.

    Args:
        layer: A layer of :mod:`pyg_kernels.sequence`, or an ``nn.LSTM``, ``nn.GRU`` or ``nn.RNN``.
        channels: The number of output features of the layer: twice the hidden size if it is
            bidirectional.
        out_channels: The number of outputs.
        readout: ``'last'`` (each direction's output after its last token), ``'mean'`` or ``'max'``.
        dropout: The probability of dropout on the vector of a text.

    Shapes:
        - **input:** tokens :math:`(N, F)`, ``ptr``, :math:`(B + 1)`, and perhaps ``selection``,
          :math:`(N)`
        - **output:** :math:`(B, \mathrm{out\_channels})`

    Raises:
        ValueError: For sizes below 1, an unknown readout, and layer outputs of another size.
        TypeError: For a selection with a layer that is not an RCNN: in no other layer's recurrence
            can a token count in part.

    Example:
        >>> import torch
        >>> from pyg_kernels.rationale import SequenceEncoder
        >>> from pyg_kernels.sequence import RCNN
        >>> encoder = SequenceEncoder(RCNN(5, 8), channels=8, out_channels=2, readout="mean")
        >>> x, ptr = torch.rand(11, 5), torch.tensor([0, 7, 11])  # texts of 7 and 4 tokens
        >>> encoder(x, ptr).shape
        torch.Size([2, 2])

    See Also:
        :class:`Rationalizer`; :class:`~pyg_kernels.sequence.RCNN`, in which tokens may count in
        part.
    """

    def __init__(
        self,
        layer: Module,
        channels: int,
        out_channels: int,
        readout: Literal["last", "mean", "max"] = "last",
        dropout: float = 0.0,
    ) -> None:
        super().__init__()
        checked_choice(readout, "readout", ("last", "mean", "max"))
        if not isinstance(layer, Module):
            raise ValueError(f"layer={layer!r}: expected a torch.nn.Module")
        self.layer, self.readout = layer, readout
        self.channels = checked_count(channels, "channels")
        self.dropout = Dropout(checked_dropout(dropout))
        self.head = Linear(channels, checked_count(out_channels, "out_channels"))

    def forward(self, x: Tensor, ptr: Tensor, selection: Tensor | None = None) -> Tensor:
        if selection is not None and not isinstance(self.layer, RCNN):
            raise TypeError(
                f"selection with layer {type(self.layer).__name__}: expected an RCNN, the layer "
                "in which a token may count in part"
            )
        lengths = torch.tensor(lengths_of(ptr, x.size(0)), device=x.device)
        return self.head(self.dropout(self._vectors(x, ptr, lengths, selection)))

    def _vectors(self, x: Tensor, ptr: Tensor, lengths: Tensor, selection: Tensor | None) -> Tensor:
        if not x.size(0):  # not every layer accepts an empty input
            weight = self.head.weight
            return weight.new_zeros(lengths.numel(), self.channels)
        states = self._states(x, ptr, selection)
        if states.size(1) != self.channels:
            raise ValueError(
                f"channels={self.channels}: the layer gives {states.size(1)} features, expected "
                "equal numbers"
            )
        if self.readout == "last":
            return self._last(states, lengths)
        text = torch.arange(lengths.numel(), device=x.device).repeat_interleave(lengths)
        if self.readout == "mean":
            return _mean(states, text, lengths, selection)
        if selection is not None:
            chosen = torch.nonzero(selection > 0).squeeze(1)
            states, text = states.index_select(0, chosen), text.index_select(0, chosen)
        return global_max_pool(states, text, lengths.numel())

    def _states(self, x: Tensor, ptr: Tensor, selection: Tensor | None) -> Tensor:
        if isinstance(self.layer, RNNBase):
            texts = [text for text in x.split(ptr.diff().tolist()) if len(text)]
            packed, _ = self.layer(pack_sequence(texts, enforce_sorted=False))
            return torch.cat(unpack_sequence(packed))
        given: dict[str, Any] = {} if selection is None else {"selection": selection}
        found = self.layer(x, ptr=ptr, **given)
        return found[0] if isinstance(found, tuple) else found

    def _last(self, states: Tensor, lengths: Tensor) -> Tensor:
        ends = lengths.cumsum(0)
        filled = torch.nonzero(lengths).squeeze(1)
        last = states.index_select(0, ends[filled] - 1)
        if getattr(self.layer, "bidirectional", False):
            first = states.index_select(0, (ends - lengths)[filled])
            half = states.size(1) // 2
            last = torch.cat((last[:, :half], first[:, half:]), dim=1)
        return last.new_zeros(lengths.numel(), last.size(1)).index_copy(0, filled, last)

    def extra_repr(self) -> str:
        return f"readout={self.readout!r}"


def _mean(states: Tensor, text: Tensor, lengths: Tensor, selection: Tensor | None) -> Tensor:
    total = states.to(torch.promote_types(states.dtype, torch.float32))  # float16 would overflow
    if selection is None:
        count = lengths.to(total.dtype)
    else:
        weight = selection.to(total.dtype)
        total, count = total * weight.unsqueeze(1), global_add_pool(weight, text, len(lengths))
    total = global_add_pool(total, text, len(lengths))
    return (total / torch.where(count > 0, count, 1.0).unsqueeze(1)).to(states.dtype)
