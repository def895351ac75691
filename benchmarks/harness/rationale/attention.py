"""Attention over the states of an encoder: a baseline of rationales."""

from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch_geometric.utils import softmax


class Attended(NamedTuple):
    """What attention makes of B texts of N words.

    Attributes:
        output: ``(B, out_channels)``.
        weights: ``(N,)``, positive, adding up to 1 in each text.
    """

    output: Tensor
    weights: Tensor


class AttentionClassifier(nn.Module):
    r"""The attention model that Lei's thesis (2017), section 3.4.1, sets beside rationales.

    A network that reads the text from both ends, as a generator does, says how much each word
    counts, and the states of an encoder are averaged accordingly:

    .. math::
        a_t = \mathrm{softmax}_t(w^\top s_t + b), \qquad
        y = W \sum_t a_t h_t + b'

    Unlike a rationale, it reads the whole text whatever it attends to. Of a text without words the
    average is zero.

    Args:
        network: From tokens ``(N, F)`` with ``ptr`` to :math:`s`, ``(N, channels)``, or to a pair
            of these and a state, as sequence layers give it.
        channels (int): Features of its states.
        encoder: The same for :math:`h`.
        encoder_channels (int): Features of the encoder's states.
        out_channels (int): Numbers to predict of a text.
        dropout (float): On the average.

    Shapes:
        - **input:** tokens ``(N, F)`` of B texts, one after the other, and ``ptr`` ``(B + 1,)``.
        - **output:** :class:`Attended`.
    """

    def __init__(
        self,
        network: nn.Module,
        channels: int,
        encoder: nn.Module,
        encoder_channels: int,
        out_channels: int,
        dropout: float = 0.0,
    ) -> None:
        super().__init__()
        self.network = network
        self.score = nn.Linear(channels, 1)
        self.encoder = encoder
        self.lin = nn.Linear(encoder_channels, out_channels)
        self.dropout = dropout

    def forward(self, x: Tensor, ptr: Tensor) -> Attended:
        """What is predicted of each text, and how much each of its words counts."""
        num_texts = len(ptr) - 1
        text = torch.repeat_interleave(ptr.diff(), output_size=len(x))
        scores = self.score(_states(self.network(x, ptr=ptr))).squeeze(1)
        weights = softmax(scores, text, num_nodes=num_texts)
        states = _states(self.encoder(x, ptr=ptr)) * weights.unsqueeze(1)
        average = states.new_zeros(num_texts, states.size(1)).index_add(0, text, states)
        average = F.dropout(average, self.dropout, self.training)
        return Attended(self.lin(average), weights)


def _states(output: Tensor | tuple[Tensor, object]) -> Tensor:
    """The states at the words, of what a sequence layer or another network gives."""
    return output[0] if isinstance(output, tuple) else output
