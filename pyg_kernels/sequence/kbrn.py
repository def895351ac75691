"""Kernel-based recurrent networks: recurrent networks that learn their activations."""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

import torch
from torch import Tensor
from torch.nn.utils.rnn import PackedSequence
from torch_geometric.data import Data

from pyg_kernels.nn.activation import Init
from pyg_kernels.ops.expansion import Green
from pyg_kernels.sequence.kbrn_cell import KBRNCell, KBRNState, as_state
from pyg_kernels.sequence.layer import SequenceLayer, layer_sizes


class KBRN(SequenceLayer[KBRNState]):
    r"""Kernel-based recurrent networks: "Learning Neuron Non-Linearities with Kernel-Based Deep
    Neural Networks" (2018), sections 3 and 4.

    .. math::
        h_t = f(W h_{t-1} + U x_t + b), \qquad
        f_i(a) = \sum_{k=1}^{d} \chi_{ik} \, g(a - c_{ik})

    where f is a :class:`~pyg_kernels.nn.KernelActivation`: each unit learns its own function. With
    :obj:`normalize`, f reads :math:`\gamma \odot (a_t - \mu_t) / \sqrt{\sigma_t^2 + \epsilon} +
    \beta`. Training uses the mean and variance of step t over the texts that have a token t;
    evaluation uses running statistics, the same for all steps. A call in training updates them once
    with the mean and variance of the pre-activations of all tokens, as
    :class:`torch.nn.BatchNorm1d` does with its rows. In training, a step that only one text reaches
    has no variance and gives :math:`f(\beta)`. Where lengths differ, pool the outputs instead of
    reading the last state, or turn :obj:`normalize` off.

    Call it like :class:`torch.nn.RNN`: ``output, h = kbrn(x)``.

    Args:
        input_size: The number of features F of a token; -1 to read it off the first input.
        hidden_size: The number of units H.
        num_layers: The number of layers, each of which reads the outputs of the one before.
        num_centers: The number of centres d of each unit's function.
        green: The Green function g: ``'relu'``, ``'abs'`` or ``'gaussian'``.
        normalize: Whether pre-activations are normalised.
        init: How the functions start: ``'random'``, or near ``'identity'``, ``'tanh'`` or
            ``'relu'``.
        init_range: The interval of the initial centres.
        affine: Whether a line :math:`m_i a + q_i` is added to each function.
        shared: Whether the units of a layer share one function.
        bandwidth: The standard deviation of the Gaussian; by default the centres' spacing.
        bias: Whether there are biases b.
        batch_first: Whether texts are the first dimension of the input and the output.
        dropout: The probability of dropout on the outputs of all layers but the last.
        bidirectional: Whether each layer has a second cell, which reads the texts from their ends.
        device: The device of the parameters.
        dtype: The data type of the parameters.

    Shapes:
        - **input:** :math:`(L, B, F)`; :math:`(B, L, F)` with :obj:`batch_first`; :math:`(L, F)`
          for one text; a :class:`~torch.nn.utils.rnn.PackedSequence`; a PyG batch of
          :func:`~pyg_kernels.sequence.path_batch`; or :math:`(N, F)`, the texts one after the
          other, with :obj:`ptr`. Padded texts need :obj:`mask` or :obj:`lengths`. The state is
          :math:`(num\_layers * num\_directions, B, H)`, without B for one text; zeros by default.
        - **output:** the outputs in the form of the input, with H features, or 2 H if
          :obj:`bidirectional`, and zeros on padding; and the state after the last token of each
          text, one tensor as in :class:`torch.nn.RNN`. :meth:`initial_state` gives a state of
          zeros. Under autocast, outputs and state are in autocast's precision.

    Raises:
        ValueError: For arguments that :class:`~pyg_kernels.nn.KernelActivation` refuses; for
            inputs of other shapes, or in another precision than the weights; for a state other
            than zeros with :obj:`bidirectional`; for a batch of one text in training with
            :obj:`normalize`.

    Example:
        >>> import torch
        >>> from pyg_kernels.sequence import KBRN
        >>> texts = torch.nn.utils.rnn.pack_sequence([torch.rand(7, 5), torch.rand(4, 5)])
        >>> output, h = KBRN(5, 3, num_centers=20, init="tanh", affine=True, normalize=False)(texts)
        >>> output.data.shape, h.shape
        (torch.Size([11, 3]), torch.Size([1, 2, 3]))

    See Also:
        :class:`KBRNCell`, one step; :class:`~pyg_kernels.nn.KernelActivation`, the functions;
        :func:`~pyg_kernels.ops.scan.activation.activation_scan`, the recurrence.
    """

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        num_layers: int = 1,
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
        batch_first: bool = False,
        dropout: float = 0.0,
        bidirectional: bool = False,
        device: torch.device | str | int | None = None,
        dtype: torch.dtype | None = None,
    ) -> None:
        cells = [
            KBRNCell(
                size,
                hidden_size,
                num_centers=num_centers,
                green=green,
                normalize=normalize,
                init=init,
                init_range=init_range,
                affine=affine,
                shared=shared,
                bandwidth=bandwidth,
                bias=bias,
                device=device,
                dtype=dtype,
            )
            for size in layer_sizes(input_size, hidden_size, num_layers, bidirectional)
        ]
        super().__init__(cells, num_layers, batch_first, dropout, bidirectional)
        self.hidden_size = hidden_size

    def forward(  # type: ignore[override]  # the state is a tensor, as nn.RNN's
        self,
        x: Tensor | PackedSequence | Data,
        h_0: Tensor | None = None,
        *,
        ptr: Tensor | None = None,
        mask: Tensor | None = None,
        lengths: Tensor | Sequence[int] | None = None,
    ) -> tuple[Tensor | PackedSequence, Tensor]:
        output, state = super().forward(x, as_state(h_0), ptr=ptr, mask=mask, lengths=lengths)
        return output, state.h

    def initial_state(self, batch_size: int) -> Tensor:  # type: ignore[override]
        return super().initial_state(batch_size).h

    def l1(self) -> Tensor:
        r"""The regulariser of the activations, :math:`\sum |\chi|` over all units of all layers."""
        return torch.stack([cast(KBRNCell, cell).l1() for cell in self.cells]).sum()
