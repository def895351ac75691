"""Models written for torch's recurrent layers run with these in their place, line by line."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from pyg_kernels.sequence import KBRN, RCNN, RKM

WORDS, SIZE, HIDDEN, LAYERS = 11, 6, 8, 2
Layer = Callable[..., Any]


def rcnn(*args: Any, **kwargs: Any) -> RCNN:
    return RCNN(*args, order=1, decay="recurrent", **kwargs)


def kbrn(*args: Any, **kwargs: Any) -> KBRN:
    return KBRN(*args, num_centers=9, normalize=False, init="tanh", affine=True, **kwargs)


#: Each with whether its state is a pair, as nn.LSTM's, or one tensor, as nn.RNN's.
ALL: dict[str, tuple[Layer, bool]] = {
    "RCNN": (rcnn, True),
    "RKM": (RKM, True),
    "KBRN": (kbrn, False),
}
every_layer = pytest.mark.parametrize(("layer", "pair"), ALL.values(), ids=ALL)


def zeros(pair: bool, *shape: int) -> Any:
    return (torch.zeros(shape), torch.zeros(shape)) if pair else torch.zeros(shape)


def repackage_hidden(h: Any) -> Any:
    """As in PyTorch's example word_language_model."""
    return h.detach() if isinstance(h, Tensor) else tuple(repackage_hidden(v) for v in h)


class RNNModel(nn.Module):
    """PyTorch's example word_language_model."""

    def __init__(self, layer: Layer, pair: bool) -> None:
        super().__init__()
        self.encoder = nn.Embedding(WORDS, SIZE)
        self.rnn = layer(SIZE, HIDDEN, LAYERS, dropout=0.0)
        self.decoder = nn.Linear(HIDDEN, WORDS)
        self.pair = pair

    def forward(self, ids: Tensor, hidden: Any) -> tuple[Tensor, Any]:
        output, hidden = self.rnn(self.encoder(ids), hidden)
        return F.log_softmax(self.decoder(output).view(-1, WORDS), dim=1), hidden

    def init_hidden(self, batch_size: int) -> Any:
        return zeros(self.pair, LAYERS, batch_size, HIDDEN)


@every_layer
def test_language_model(layer: Layer, pair: bool) -> None:
    torch.manual_seed(0)
    model, bptt = RNNModel(layer, pair), 5
    text = torch.arange(25).unsqueeze(1).add(torch.arange(3)) % WORDS  # one word after the other
    source, target = text[:-1], text[1:]
    optimizer = torch.optim.Adam(model.parameters(), lr=0.02)
    losses: list[float] = []
    for _ in range(15):
        hidden = model.init_hidden(3)
        for start in range(0, len(source), bptt):
            hidden = repackage_hidden(hidden)
            model.zero_grad()
            scores, hidden = model(source[start : start + bptt], hidden)
            loss = F.nll_loss(scores, target[start : start + bptt].reshape(-1))
            loss.backward()
            nn.utils.clip_grad_norm_(model.parameters(), 0.25)
            optimizer.step()
            losses.append(loss.item())
    assert losses[-1] < 0.5 * losses[0]
    model.eval()
    whole, last = model(source, model.init_hidden(3))
    hidden, parts = model.init_hidden(3), []
    for piece in source.split(bptt):
        scores, hidden = model(piece, repackage_hidden(hidden))
        parts.append(scores)
    torch.testing.assert_close(torch.cat(parts), whole)
    torch.testing.assert_close(hidden, last)
