"""What reads a text: the encoders that the question benchmark compares, by name.

Each goes from the words of texts to a state at each word, of which a vector of the text is pooled,
and carries its state on, so that a decoder of the same type can start from it.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any

from torch import Tensor, nn
from torch.nn.utils.rnn import PackedSequence, pack_padded_sequence, pad_packed_sequence
from torch_geometric.utils import scatter

from pyg_kernels.datasets.text import TextBatch
from pyg_kernels.sequence import RCNN

POOLINGS = ("last", "mean", "max")
CNN_WIDTH = 3  # thesis Table 2.8, as is the next
RCNN_ORDER = 2


class Encoder(nn.Module, ABC):
    """States at the words of texts.

    Shapes:
        - **input:** words ``(N, D)`` of B texts of at least one word each, their batch, and what
          another encoder of this type and size gave as its state for B texts, or ``None``.
        - **output:** ``(N, H)`` and the state after the last word of each text.
    """

    @abstractmethod
    def forward(self, x: Tensor, words: TextBatch, state: Any = None) -> tuple[Tensor, Any]:
        """The state at each word, and what is carried on."""


class RCNNEncoder(Encoder):
    r"""The thesis's RCNN: additive, normalised, with a decay gated on the word and the output.

    .. math::
        \lambda_t = \mathrm{sigmoid}(U x_t + V h_{t-1} + b), \quad
        c_1[t] = \lambda_t c_1[t-1] + (1 - \lambda_t) W_1 x_t, \quad
        c_2[t] = \lambda_t c_2[t-1] + (1 - \lambda_t) (c_1[t-1] + W_2 x_t), \quad
        h_t = \tanh(c_2[t] + b')

    Args:
        input_size (int): D.
        hidden (int): H.
        scalar_decay (bool): One decay for all H units.
    """

    def __init__(self, input_size: int, hidden: int, scalar_decay: bool = False) -> None:
        super().__init__()
        self.rcnn = RCNN(
            input_size,
            hidden,
            order=RCNN_ORDER,
            combine="add",
            decay="recurrent",
            scalar_decay=scalar_decay,
        )

    def forward(self, x: Tensor, words: TextBatch, state: Any = None) -> tuple[Tensor, Any]:
        """The outputs, and the last of them with the sums :math:`c_j`."""
        return self.rcnn(x, state, ptr=words.ptr)


class CNNEncoder(Encoder):
    """Windows of three words that end at each word, as an RCNN of decay 0 has them.

    Its state is the mean over a text; one that is given is added to every output.

    Args:
        input_size (int): D.
        hidden (int): H.
    """

    def __init__(self, input_size: int, hidden: int) -> None:
        super().__init__()
        self.windows = RCNN(input_size, hidden, order=CNN_WIDTH, combine="add", decay=0.0)

    def forward(self, x: Tensor, words: TextBatch, state: Any = None) -> tuple[Tensor, Any]:
        """The activated windows, and their mean."""
        output, _ = self.windows(x, ptr=words.ptr)
        if state is not None:
            output = output + state.index_select(0, words.text)
        return output, scatter(output, words.text, dim_size=words.num_texts, reduce="mean")


class TorchEncoder(Encoder):
    """``nn.LSTM`` or ``nn.GRU`` on packed texts.

    Args:
        layer: One of them.
    """

    def __init__(self, layer: nn.LSTM | nn.GRU) -> None:
        super().__init__()
        self.layer = layer

    def forward(self, x: Tensor, words: TextBatch, state: Any = None) -> tuple[Tensor, Any]:
        """The outputs, and the layer's state."""
        _, mask = words.padded()
        texts = x.new_zeros(*mask.shape, x.size(1))
        texts[mask] = x
        packed = pack_padded_sequence(
            texts, words.lengths.cpu(), batch_first=True, enforce_sorted=False
        )
        outputs, state = self.layer(packed, state)
        assert isinstance(outputs, PackedSequence)
        padded, _ = pad_packed_sequence(outputs, batch_first=True, total_length=mask.size(1))
        return padded[mask], state


ENCODERS: dict[str, Callable[[int, int], Encoder]] = {
    "rcnn": RCNNEncoder,
    "rcnn-scalar": lambda input_size, hidden: RCNNEncoder(input_size, hidden, scalar_decay=True),
    "lstm": lambda input_size, hidden: TorchEncoder(nn.LSTM(input_size, hidden)),
    "gru": lambda input_size, hidden: TorchEncoder(nn.GRU(input_size, hidden)),
    "cnn": CNNEncoder,
}


def pooled(states: Tensor, words: TextBatch, pooling: str) -> Tensor:
    """One vector a text.

    Args:
        states: ``(N, H)``, at the words of B texts of at least one word each.
        words: The texts.
        pooling (str): ``'last'``, ``'mean'`` or ``'max'``.

    Returns:
        ``(B, H)``.
    """
    if pooling == "last":
        return states.index_select(0, words.ptr[1:] - 1)
    return scatter(states, words.text, dim_size=words.num_texts, reduce=pooling)
