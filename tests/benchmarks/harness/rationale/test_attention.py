"""The attention baseline against its formula, one text at a time."""

import pytest
import torch
from torch import Tensor, nn

from benchmarks.harness.rationale.attention import AttentionClassifier
from pyg_kernels.sequence import RCNN

LENGTHS = [5, 0, 1, 9]


class Words(nn.Module):
    """A network that gives no state beside what it makes of each word."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.lin = nn.Linear(6, channels, dtype=torch.double)

    def forward(self, x: Tensor, ptr: Tensor) -> Tensor:
        return self.lin(x).tanh()


def model(out_channels: int = 3, dropout: float = 0.0) -> AttentionClassifier:
    torch.manual_seed(0)
    network = RCNN(6, 4, combine="add", decay="input", bidirectional=True)
    encoder = RCNN(6, 5, num_layers=2)
    return AttentionClassifier(network, 8, encoder, 5, out_channels, dropout).double()


@pytest.fixture
def x() -> Tensor:
    generator = torch.Generator().manual_seed(1)
    return torch.randn(sum(LENGTHS), 6, generator=generator, dtype=torch.double)


PTR = torch.tensor([0, *LENGTHS]).cumsum(0)


def test_averages_the_states_by_attention(x: Tensor) -> None:
    attention = model()
    output, weights = attention(x, PTR)
    assert output.shape == (4, 3) and weights.shape == (15,)
    for text, (start, end) in enumerate(zip(PTR[:-1].tolist(), PTR[1:].tolist(), strict=True)):
        if start == end:
            assert torch.equal(output[text], attention.lin.bias)
            continue
        words, alone = x[start:end], torch.tensor([0, end - start])
        states, _ = attention.network(words, ptr=alone)
        hidden, _ = attention.encoder(words, ptr=alone)
        expected = torch.softmax(states @ attention.score.weight[0], dim=0)
        torch.testing.assert_close(weights[start:end], expected, rtol=0, atol=1e-10)
        average = (expected.unsqueeze(1) * hidden).sum(dim=0)
        predicted = attention.lin.weight @ average + attention.lin.bias
        torch.testing.assert_close(output[text], predicted, rtol=0, atol=1e-10)


def test_networks_that_give_no_state(x: Tensor) -> None:
    torch.manual_seed(0)
    attention = AttentionClassifier(Words(2), 2, Words(4), 4, 1).double()
    output, weights = attention(x, PTR)
    hidden = attention.encoder(x, PTR)
    expected = attention.lin((weights[:5].unsqueeze(1) * hidden[:5]).sum(dim=0))
    torch.testing.assert_close(output[0], expected, rtol=0, atol=1e-10)


def test_learns_from_all_its_parts(x: Tensor) -> None:
    attention = model()
    attention(x, PTR).output.square().sum().backward()
    for name, parameter in attention.named_parameters():
        # A number added to every word's score makes no difference.
        assert parameter.grad is not None
        assert parameter.grad.abs().max() > 1e-9 or name == "score.bias"


def test_dropout_in_training_alone(x: Tensor) -> None:
    attention = model(dropout=0.5)
    torch.manual_seed(0)
    assert not torch.equal(attention(x, PTR).output, attention(x, PTR).output)
    attention.eval()
    torch.testing.assert_close(attention(x, PTR).output, model()(x, PTR).output)


def test_no_texts(x: Tensor) -> None:
    output, weights = model()(x[:0], torch.tensor([0]))
    assert output.shape == (0, 3) and weights.shape == (0,)


def test_finds_the_word_that_tells() -> None:
    torch.manual_seed(0)
    words = nn.functional.one_hot(torch.arange(6)).double()
    generator = torch.Generator().manual_seed(2)
    ids = torch.randint(2, 6, (40, 8), generator=generator)
    y, places = torch.arange(40) % 2, torch.randint(0, 8, (40,), generator=generator)
    ids[torch.arange(40), places] = y
    ptr = torch.arange(0, 321, 8)
    attention = AttentionClassifier(Words(8), 8, Words(8), 8, 2).double()
    optimizer = torch.optim.Adam(attention.parameters(), lr=0.05)
    for _ in range(60):
        optimizer.zero_grad()
        output, weights = attention(words[ids.flatten()], ptr)
        nn.functional.cross_entropy(output, y).backward()
        optimizer.step()
    assert torch.equal(output.argmax(dim=1), y)
    assert torch.equal(weights.view(40, 8).argmax(dim=1), places)
