"""Recurrent kernel machines: the LSTM family from convolutions to gated memories."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from typing import Literal, cast

import torch
from torch import Tensor
from torch.nn import LSTM, Linear, Module

from pyg_kernels.sequence.filters import DenseFilters
from pyg_kernels.sequence.layer import SequenceLayer, layer_sizes
from pyg_kernels.sequence.rkm_cell import RKMCell, State
from pyg_kernels.sequence.rkm_kinds import Pointwise, Static
from pyg_kernels.sequence.texts import Texts


class RKM(SequenceLayer[State]):
    r"""Recurrent kernel machines: Liang et al., `"Kernel-Based Approaches for Sequence Modeling:
    Connections to Neural Methods" <https://arxiv.org/abs/1910.04233>`_ (2019), table 1 and
    sections 2 to 4.

    Let :math:`\hat x_t = (x_{t-(n-1)d}, \ldots, x_{t-d}, x_t)` be the n-gram that ends at t, with
    zeros before the text, and :math:`z_t = (\hat x_t, h_{t-1})`. From the candidate
    :math:`\tilde c_t = W_c z_t` and the gates :math:`\eta, f, o = \mathrm{sigmoid}(W z_t + b)`, the
    memory c and the output h are

    =================  =================================================  ========================
    ``cell``           memory                                             output
    =================  =================================================  ========================
    ``lstm``           :math:`\eta \odot \tanh(\tilde c + b_c)            :math:`o \odot \tanh(c)`
                       + f \odot c_{t-1}`
    ``rkm-lstm``       :math:`\eta \odot \tilde c + f \odot c_{t-1}`      :math:`o \odot c`
    ``rkm-cifg``       :math:`(1 - f) \odot \tilde c + f \odot c_{t-1}`   :math:`o \odot c`
    ``linear-gated``   :math:`s_i \tilde c + s_f c_{t-1}`                 :math:`o \odot c`
    ``linear``         :math:`s_i \tilde c + s_f c_{t-1}`                 :math:`\tanh(c)`
    ``gated-cnn``      :math:`s_i \tilde c`, without feedback             :math:`o \odot c`
    ``cnn``            :math:`s_i \tilde c`, without feedback             :math:`\tanh(c)`
    ``ran``            :math:`\eta \odot W_c \hat x + f \odot c_{t-1}`    :math:`c`
    ``general``        :math:`\tilde c + q(c_{t-1})`                      :math:`q(c)`
    =================  =================================================  ========================

    ``linear-gated`` is ``rkm-lstm`` without the gates of the memory, ``gated-cnn`` is ``rkm-lstm``
    without the memory, and ``cnn`` has neither gates nor memory. ``ran`` is the recurrent additive
    network. ``general`` is eq. 8 with feedback and eq. 6 without.

    Call it like :class:`torch.nn.LSTM`: ``output, (h, c) = rkm(x)``. Without feedback, the layer is
    a linear recurrence, which is computed in parallel, unless q is not the identity.

    The layer reads the weights of its maps of :math:`h_{t-1}` and of its layer normalization, which
    may be parametrized (:mod:`torch.nn.utils.parametrize`), without calling these modules. A map
    with hooks is called once, to read its weight; a normalization with hooks is called, too.

    Args:
        input_size: The number of features F of a token; -1 to read it off the first input.
        hidden_size: The number of channels H of the memory.
        num_layers: The number of layers, each of which reads the outputs of the one before.
        cell: A row of the table.
        ngram: The number of tokens n of a window, or a list of such widths. The channels are
            divided among the widths as evenly as possible; the first ones get those left over.
        dilation: The spacing d of the tokens in a window.
        filters: ``'dense'``, one weight per token and feature
            (:class:`~pyg_kernels.sequence.DenseFilters`), or ``'syncnet'``, Morlet wavelets
            (:class:`~pyg_kernels.sequence.SyncNetFilters`).
        layer_norm: Whether the output reads :math:`\mathrm{LN}(c)` in place of c. The memory
            carried on is c itself.
        feedback: Whether gates and candidate read :math:`h_{t-1}`; True by default for cells that
            carry a memory.
        static: The factors :math:`(s_i, s_f)`, by default (0.5, 0.5); for ``gated-cnn`` and ``cnn``
            :math:`s_i` alone, by default 1.
        learn_static: Whether the factors are learned: :math:`s_i` as the exponential,
            :math:`s_f` as the sigmoid of a parameter.
        q: The function of ``general``: ``'identity'``, ``'tanh'``, ``'relu'``, ``'sigmoid'``, or
            any pointwise function; a module is copied for each cell.
        bias: Whether the gates, and the candidate of ``lstm``, have biases.
        batch_first: Whether texts are the first dimension of all tensors except states.
        dropout: The probability of dropout on the outputs of each layer but the last.
        bidirectional: Whether each layer has a second cell, which reads each text from its end.
        device: The device of the parameters.
        dtype: The data type of the parameters.

    Shapes:
        - **input:** :math:`(T, B, F)`, :math:`(B, T, F)` with :obj:`batch_first`, or
          :math:`(T, F)`, each with an optional ``mask`` (True for tokens, the shape without F) or,
          if padding is on the right, ``lengths`` :math:`(B)`; a
          :class:`~torch.nn.utils.rnn.PackedSequence`; :math:`(N, F)`, the tokens of texts one
          after the other, with ``ptr`` :math:`(B + 1)`; or a PyG batch of path graphs.
        - **output:** the outputs in the form of the input, with H features, or 2H if
          :obj:`bidirectional`, and zeros on padding; and the state, an
          :class:`~pyg_kernels.sequence.RKMState` of h and c, both :math:`(L, B, H)`, where L is the
          number of layers times directions. If a window is wider than one token, the state is an
          :class:`~pyg_kernels.sequence.RKMWindowState`, which also has the last tokens that windows
          reach back to. States have no B for a single text. Given to the next call, the state
          continues the texts. :meth:`initial_state` gives zeros. Under autocast, outputs and state
          are in autocast's precision.

    Raises:
        ValueError: For an unknown cell or kind of filters; an ngram or dilation below 1; more
            widths than channels; a dilation, or wavelets, on windows of one token; static factors
            or q where the cell has none, or ``general`` without q; feedback in a convolution;
            inputs, lengths or states that do not fit; a state other than zeros with
            :obj:`bidirectional`; an input in another precision than the weights.

    Example:
        >>> import torch
        >>> from pyg_kernels.sequence import RKM
        >>> x = torch.rand(7, 2, 5)  # two texts of seven tokens
        >>> output, state = RKM(5, 3, cell="rkm-cifg", ngram=2)(x, lengths=[7, 4])
        >>> output.shape, state.h.shape, state.x.shape
        (torch.Size([7, 2, 3]), torch.Size([1, 2, 3]), torch.Size([1, 2, 5]))
        >>> lstm = torch.nn.LSTM(5, 3)
        >>> torch.allclose(RKM.from_lstm(lstm)(x)[0], lstm(x)[0], atol=1e-6)
        True

    See Also:
        :class:`RKMCell`, one step; :class:`DenseFilters` and :class:`SyncNetFilters`;
        :func:`~pyg_kernels.ops.scan.memory.memory_scan` and
        :func:`~pyg_kernels.ops.scan.walk.linear_scan`, the recurrences.
    """

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        num_layers: int = 1,
        *,
        cell: str = "rkm-lstm",
        ngram: int | Sequence[int] = 1,
        dilation: int = 1,
        filters: Literal["dense", "syncnet"] = "dense",
        layer_norm: bool = False,
        feedback: bool | None = None,
        static: Static = None,
        learn_static: bool = False,
        q: str | Pointwise | None = None,
        bias: bool = True,
        batch_first: bool = False,
        dropout: float = 0.0,
        bidirectional: bool = False,
        device: torch.device | str | int | None = None,
        dtype: torch.dtype | None = None,
    ) -> None:
        cells = [
            RKMCell(
                size,
                hidden_size,
                cell=cell,
                ngram=ngram,
                dilation=dilation,
                filters=filters,
                layer_norm=layer_norm,
                feedback=feedback,
                static=static,
                learn_static=learn_static,
                q=copy.deepcopy(q) if isinstance(q, Module) else q,
                bias=bias,
                device=device,
                dtype=dtype,
            )
            for size in layer_sizes(input_size, hidden_size, num_layers, bidirectional)
        ]
        super().__init__(cells, num_layers, batch_first, dropout, bidirectional)
        self.hidden_size = hidden_size

    @classmethod
    def from_lstm(cls, lstm: LSTM) -> RKM:
        """The layer with ``cell='lstm'`` that computes what an :class:`torch.nn.LSTM` computes.

        The two biases of each gate of the LSTM become one, their sum.

        Args:
            lstm: The LSTM, whose weights are copied.

        Raises:
            TypeError: If ``lstm`` is something else.
            ValueError: If the LSTM projects its outputs (``proj_size``).
        """
        if not isinstance(lstm, LSTM):
            raise TypeError(f"lstm is a {type(lstm).__name__}: expected a torch.nn.LSTM")
        if lstm.proj_size:
            raise ValueError(f"proj_size={lstm.proj_size}: expected an LSTM without projections")
        like = next(lstm.parameters())
        rkm = cls(
            lstm.input_size,
            lstm.hidden_size,
            lstm.num_layers,
            cell="lstm",
            bias=lstm.bias,
            batch_first=lstm.batch_first,
            dropout=lstm.dropout,
            bidirectional=lstm.bidirectional,
            device=like.device,
            dtype=like.dtype,
        )
        with torch.no_grad():
            for cell, weights in zip(rkm.cells, lstm.all_weights, strict=True):
                _copy_lstm(cast(RKMCell, cell), weights)
        return rkm.train(lstm.training)

    def _joined(self, name: str, layers: Sequence[Tensor]) -> Tensor:
        return torch.cat(list(layers), dim=-1) if name == "x" else super()._joined(name, layers)

    def _parted(self, name: str, state: Tensor, num_features: int) -> Sequence[Tensor]:
        if name != "x":
            return super()._parted(name, state, num_features)
        return state.split(self._window_sizes(num_features), dim=-1)

    def _state_shapes(self, state: tuple[Tensor, ...], texts: Texts) -> list[tuple[int, ...]]:
        shapes = super()._state_shapes(state, texts)
        if len(shapes) == 3:
            _, steps, count, features = shapes[2]
            shapes[2] = (steps, count, sum(self._window_sizes(features)))
        return shapes

    def _window_sizes(self, num_features: int) -> list[int]:
        """The number of features that each cell reads; until it is known, that of the input."""
        sizes = [cast(RKMCell, cell).input_size for cell in self.cells]
        return [num_features if size == -1 else size for size in sizes]

    def initial_state(self, batch_size: int) -> State:
        if self.input_size == -1 and cast(RKMCell, self.cells[0]).history:
            raise ValueError(
                "input_size=-1: the state holds tokens of a size that the first input shows, "
                "expected None in place of a state until then"
            )
        return super().initial_state(batch_size)


def _copy_lstm(cell: RKMCell, weights: Sequence[Tensor]) -> None:
    """Copies the weights of one cell of an LSTM: for its input, for its state, and the biases."""
    by_gate = zip(*(weight.chunk(4) for weight in weights), strict=True)
    order = ("input", "forget", "candidate", "output")
    for gate, (of_input, of_state, *biases) in zip(order, by_gate, strict=True):
        cast(DenseFilters, cell.filters[gate]).weight.copy_(of_input.unsqueeze(2))
        cast(Linear, cell.recurrent[gate]).weight.copy_(of_state)
        if biases:
            cell.biases[gate].copy_(torch.stack(biases).sum(0))
