"""The string-kernel recurrent convolution."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from typing import Literal, cast

import torch
from torch import Tensor
from torch.nn import Module
from torch.nn.utils.rnn import PackedSequence
from torch_geometric.data import Data

from pyg_kernels.nn.arguments import Act, checked_dropout
from pyg_kernels.ops.ragged import Layout
from pyg_kernels.sequence.layer import SequenceCell, SequenceLayer, layer_sizes
from pyg_kernels.sequence.rcnn_cell import Masks, RCNNCell, State
from pyg_kernels.sequence.texts import read_texts


class RCNN(SequenceLayer[State]):
    r"""The string-kernel recurrent convolution of Lei's `thesis
    <https://people.csail.mit.edu/taolei/papers/thesis.pdf>`_ (2017), tables 2.1 and 2.2, sections
    2.3.4 and 2.3.5, and of Lei et al., `"Deriving Neural Architectures from Sequence and Graph
    Kernels" <https://arxiv.org/abs/1705.09037>`_ (2017), eq. 4 and sections 4 and 6.1.

    .. math::
        z_1[t] &= W^{(1)} x_t, \qquad z_j[t] = c_{j-1}[t-1] \circ W^{(j)} x_t,
        \quad j = 2, \ldots, n \\
        c_j[t] &= \lambda_t \odot c_j[t-1] + (1 - \lambda_t)^\nu \odot z_j[t] \\
        h_t &= \sigma(s_t + b)

    where :math:`\circ` is the product or the sum, :math:`\nu` is 1 with :obj:`normalize` and 0
    without, and s is one of :math:`c_n, z_n, \sum_j c_j`. The layer sums features of all n-grams up
    to a token, consecutive or not, each weighted by the decay of the tokens that it skips. With the
    product and without normalisation, :math:`c_n[t]_i` is the string kernel of order n between
    the first t tokens and the i-th rows of :math:`W^{(1)}, \ldots, W^{(n)}` (theorem 1). With
    decay 0 it is a convolution over n words.

    Call it like :class:`torch.nn.LSTM`: ``output, (h, c) = rcnn(x)``.

    A :obj:`selection` gives each token a weight in [0, 1], here :math:`s_t`. In every layer, tokens
    count by their weights:

    .. math::
        c_j[t] &= (1 - s_t) c_j[t-1] + s_t (\lambda_t \odot c_j[t-1] +
        (1 - \lambda_t)^\nu \odot z_j[t]) \\
        h_t &= (1 - s_t) h_{t-1} + s_t \tilde h_t,

    where :math:`\tilde h_t` is the output above. A token of weight 0 has no effect, neither by its
    position nor by its value, if that value is finite. With weights of 0 and 1 only, the outputs at
    selected tokens and the state are those of the text without the other tokens.

    Args:
        input_size: The number of features F of a token; -1 to read it off the first input.
        hidden_size: The number of reference n-grams H.
        num_layers: The number of layers, each of which reads the outputs of the one before.
        order: The number of tokens n in an n-gram, at least 1.
        combine: ``'mul'`` or ``'add'``: how the tokens of an n-gram combine.
        normalize: Whether :math:`\nu` is 1; by default True with sum pooling, else False.
        decay: :math:`\lambda`: a number in [0, 1]; ``'learned'``, :math:`\mathrm{sigmoid}(l)`;
            ``'input'``, the gate :math:`\lambda_t = \mathrm{sigmoid}(U x_t + b_\lambda)`; or
            ``'recurrent'``, :math:`\mathrm{sigmoid}(U x_t + V h_{t-1} + b_\lambda)`, which cannot
            be read in parallel and is slower.
        scalar_decay: Whether a learned or gated decay is one number instead of one per channel.
        readout: ``'c'``, the n-grams up to t; ``'z'``, the n-grams that end at t; ``'sum'``, the
            n-grams of all orders 1 to n up to t.
        output_map: Whether :math:`s_t` is multiplied by a matrix before the bias is added: table
            2.1's :math:`O^\top`, which is ``output_lin.weight``.
        output_gate: Whether :math:`h_t` is scaled by a gate that reads :math:`x_t` and, if the
            decay is recurrent, :math:`h_{t-1}`.
        highway: Whether :math:`h_t` becomes :math:`f_t \odot h_t + (1 - f_t) \odot x_t` with the
            gate :math:`f_t = \mathrm{sigmoid}(U' x_t + b')`; needs input and output of equal size.
        pooling: ``'sum'``, or ``'max'``: the largest decayed feature of all n-grams, exact even
            where factors are negative. With ``combine='add'``, ``'max'`` takes time quadratic in
            the length.
        act: The activation :math:`\sigma`, by name or as a callable; None for the identity.
        bias: Whether there is a bias b. Gates always have biases.
        state_dropout: The probability of variational dropout. In training, each text has one mask
            for the :math:`x_t` that maps and gates read, and one for the :math:`h_{t-1}` that gates
            read. The states c and the input that the highway carries are not dropped.
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
          after the other, with ``ptr`` :math:`(B + 1)`; or a PyG batch of path graphs. All take an
          optional ``selection``, of the shape of the tokens without F.
        - **output:** the outputs in the form of the input, with H features, or 2H if
          :obj:`bidirectional`, and zeros on padding; and the state, an
          :class:`~pyg_kernels.sequence.RCNNState` of h, :math:`(L, B, H)`, and c,
          :math:`(L, B, n, H)`, where L is the number of layers times directions; without B for a
          single text. Given to the next call, it continues the texts. At order 1, c may be given
          as :math:`(L, B, H)`, as in :class:`torch.nn.LSTM`. :meth:`initial_state` gives zeros.
          Under autocast, outputs and state are in autocast's precision. With ``pooling='max'``,
          the state is an :class:`~pyg_kernels.sequence.RCNNProductState` or
          :class:`~pyg_kernels.sequence.RCNNTableState`.

    Raises:
        ValueError: For an order below 1, an unknown combine, decay, readout or pooling; a decay of
            1 with normalisation; a highway with unequal sizes, or in several bidirectional layers;
            max-pooling with normalisation, with an output map, or with ``combine='add'`` and a
            gated decay; inputs, lengths, selections or states that do not fit; a selection outside
            [0, 1], or with max-pooling; a state other than zeros with :obj:`bidirectional`; an
            input in another precision than the weights.

    Example:
        >>> import torch
        >>> from pyg_kernels.kernels import StringKernel
        >>> from pyg_kernels.sequence import RCNN
        >>> rcnn = RCNN(5, 3, order=2, decay=0.5, normalize=False)
        >>> x = torch.rand(7, 2, 5)  # two texts of seven tokens
        >>> output, (h, c) = rcnn(x)
        >>> output.shape, h.shape, c.shape
        (torch.Size([7, 2, 3]), torch.Size([1, 2, 3]), torch.Size([1, 2, 2, 3]))
        >>> ngram = torch.stack([lin.weight[0] for lin in rcnn.cells[0].lins])  # reference n-gram 0
        >>> kernel = StringKernel(order=2, decay=0.5)
        >>> torch.allclose(kernel([x[:, 0]], [ngram]), c[0, 0, 1, 0])  # theorem 1
        True

    See Also:
        :class:`RCNNCell`, one step; its kernels :class:`~pyg_kernels.kernels.StringKernel` and, for
        gated decays, :class:`~pyg_kernels.kernels.GatedSequenceKernel`;
        :func:`~pyg_kernels.ops.scan.walk.walk_scan`, the recurrence;
        :func:`~pyg_kernels.explain.ngram_contributions`.
    """

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        num_layers: int = 1,
        *,
        order: int = 2,
        combine: Literal["mul", "add"] = "mul",
        normalize: bool | None = None,
        decay: float | str = 0.5,
        scalar_decay: bool = False,
        readout: Literal["c", "z", "sum"] = "c",
        output_map: bool = False,
        output_gate: bool = False,
        highway: bool = False,
        pooling: Literal["sum", "max"] = "sum",
        act: Act = "tanh",
        bias: bool = True,
        state_dropout: float = 0.0,
        batch_first: bool = False,
        dropout: float = 0.0,
        bidirectional: bool = False,
        device: torch.device | str | int | None = None,
        dtype: torch.dtype | None = None,
    ) -> None:
        if highway and bidirectional and num_layers > 1:
            raise ValueError(
                "highway=True with bidirectional=True and several layers: a layer's input would "
                f"have 2 x hidden_size = {2 * hidden_size} features and its output {hidden_size}"
            )
        cells = [
            RCNNCell(
                size,
                hidden_size,
                order=order,
                combine=combine,
                normalize=normalize,
                decay=decay,
                scalar_decay=scalar_decay,
                readout=readout,
                output_map=output_map,
                output_gate=output_gate,
                highway=highway,
                pooling=pooling,
                act=copy.deepcopy(act) if isinstance(act, Module) else act,
                bias=bias,
                device=device,
                dtype=dtype,
            )
            for size in layer_sizes(input_size, hidden_size, num_layers, bidirectional)
        ]
        super().__init__(cells, num_layers, batch_first, dropout, bidirectional)
        self.hidden_size = hidden_size
        self.state_dropout = checked_dropout(state_dropout, "state_dropout")

    def forward(
        self,
        x: Tensor | PackedSequence | Data,
        state: State | tuple[Tensor, ...] | None = None,
        *,
        ptr: Tensor | None = None,
        mask: Tensor | None = None,
        lengths: Tensor | Sequence[int] | None = None,
        selection: Tensor | None = None,
    ) -> tuple[Tensor | PackedSequence, State]:
        texts = read_texts(x, self.batch_first, ptr, mask, lengths)
        return self._read_texts(texts, state, selection)

    def _read_cell(
        self,
        cell: SequenceCell[State],
        x: Tensor,
        layout: Layout,
        before: tuple[Tensor, ...],
        selection: Tensor | None,
    ) -> tuple[Tensor, tuple[Tensor, ...]]:
        masks = self._masks(x, layout.num_texts)
        return cast(RCNNCell, cell).read(x, layout, before, masks, selection)

    def _masks(self, x: Tensor, num_texts: int) -> Masks | None:
        if not self.training or not self.state_dropout:
            return None
        keep = 1.0 - self.state_dropout
        on_x, on_h = (
            x.new_empty(num_texts, size).bernoulli_(keep).div_(keep)
            for size in (x.size(1), self.hidden_size)
        )
        return Masks(on_x, on_h)
