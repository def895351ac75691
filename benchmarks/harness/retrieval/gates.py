"""How much of each word an RCNN takes in: the weights 1 - λ of its gate."""

from collections.abc import Iterable
from typing import NamedTuple

import torch
from torch import Tensor
from torch_geometric.utils import scatter

from benchmarks.harness.retrieval.encoders import RCNNEncoder
from benchmarks.harness.retrieval.models import QuestionNet
from pyg_kernels.datasets.text import TextBatch
from pyg_kernels.sequence import RCNNCell


class WeightsByPosition(NamedTuple):
    """What is taken in at each word of a text, as means over texts.

    Attributes:
        mean: ``(T,)``, of the mean over units.
        largest: ``(T,)``, of the largest unit.
        texts: ``(T,)`` int64, the number of texts that have such a word.
    """

    mean: Tensor
    largest: Tensor
    texts: Tensor


@torch.no_grad()
def gate_weights(net: QuestionNet, words: TextBatch) -> Tensor:
    r"""The weight of each word, :math:`1 - \lambda_t` with
    :math:`\lambda_t = \mathrm{sigmoid}(U x_t + V h_{t-1} + b)`.

    Args:
        net: A network whose encoder is an RCNN.
        words: B texts of N words, none empty.

    Returns:
        ``(N, H)``, or ``(N, 1)`` of a scalar decay.

    Raises:
        TypeError: If its encoder is another.
    """
    encoder = net.encoder
    if not isinstance(encoder, RCNNEncoder):
        raise TypeError(f"expected an RCNN, got the encoder {net.config.encoder}")
    (cell,) = encoder.rcnn.cells
    assert isinstance(cell, RCNNCell)
    assert cell.decay_lin is not None and cell.decay_recurrent is not None
    x = net.embedding(words.ids)
    output, _ = encoder.rcnn(x, ptr=words.ptr)
    before = output.roll(1, dims=0)
    before[words.ptr[:-1]] = 0
    return 1 - torch.sigmoid(cell.decay_lin(x) + cell.decay_recurrent(before) + cell.decay_bias)


def weights_by_position(net: QuestionNet, batches: Iterable[TextBatch]) -> WeightsByPosition:
    """The means of :func:`gate_weights` at the first, second, ... word of all texts."""
    means, largest, positions = [], [], []
    for words in batches:
        weights = gate_weights(net, words)
        means.append(weights.mean(dim=1))
        largest.append(weights.amax(dim=1))
        positions.append(torch.arange(len(words.ids)) - words.ptr[words.text])
    position = torch.cat(positions)
    return WeightsByPosition(
        scatter(torch.cat(means), position, reduce="mean"),
        scatter(torch.cat(largest), position, reduce="mean"),
        position.bincount(),
    )
