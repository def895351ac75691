"""Windows of tokens against their definition: token by token, text by text."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
import torch
from torch import Tensor

from pyg_kernels.ops.packing import Packing
from pyg_kernels.ops.windows import Windows

LENGTHS = {
    "even": (5, 5, 5),
    "ragged": (7, 3, 3, 1, 0),
    "one": (6,),
    "short": (1, 1),
    "none": (0, 0),
}
every_lengths = pytest.mark.parametrize("lengths", LENGTHS.values(), ids=LENGTHS)
every_shape = pytest.mark.parametrize(
    ("width", "dilation", "further"), [(1, 1, 0), (1, 1, 2), (3, 1, 0), (4, 2, 0), (2, 3, 1)]
)
FEATURES = 2


class Texts:
    """Texts below a history, and the padded rows of both."""

    def __init__(self, lengths: Sequence[int], history: int) -> None:
        generator = torch.Generator().manual_seed(0)

        def draw(*shape: int) -> Tensor:
            return torch.randn(*shape, generator=generator, dtype=torch.float64)

        self.packing = Packing.of_lengths(lengths)
        self.history = draw(history, len(lengths), FEATURES)
        self.texts = [draw(length, FEATURES) for length in lengths]
        rows = [
            self.texts[b][t].unsqueeze(0)
            for t, count in enumerate(self.packing.batch_sizes)
            for b in range(count)
        ]
        self.padded = torch.cat([self.history.flatten(0, 1), *rows]).requires_grad_()

    def token(self, text: int, step: int) -> Tensor:
        """A token of a text, negative in the history."""
        return self.texts[text][step] if step >= 0 else self.history[step, text]

    def windows(self, width: int, dilation: int) -> Tensor:
        rows = [
            torch.cat([self.token(b, t - (width - 1 - i) * dilation) for i in range(width)])
            for t, count in enumerate(self.packing.batch_sizes)
            for b in range(count)
        ]
        return torch.stack(rows) if rows else torch.zeros(0, width * FEATURES, dtype=torch.float64)


def build(lengths: Sequence[int], width: int, dilation: int, further: int) -> tuple[Texts, Windows]:
    history = (width - 1) * dilation + further
    texts = Texts(lengths, history)
    return texts, Windows(texts.packing, width, dilation, history)


@every_lengths
@every_shape
def test_gather_and_read(lengths: Sequence[int], width: int, dilation: int, further: int) -> None:
    texts, windows = build(lengths, width, dilation, further)
    expected = texts.windows(width, dilation)
    assert windows.trivial == (width == 1 and not further)
    torch.testing.assert_close(windows.gather(texts.padded), expected, rtol=0, atol=0)
    padded = texts.padded.detach()
    for start in range(len(expected)):
        rows = slice(start, min(start + 4, len(expected)))
        torch.testing.assert_close(windows.read(padded, rows), expected[rows], rtol=0, atol=0)


@every_lengths
@every_shape
def test_gradients_go_back_to_every_token(
    lengths: Sequence[int], width: int, dilation: int, further: int
) -> None:
    texts, windows = build(lengths, width, dilation, further)
    gathered = windows.gather(texts.padded)
    grad = torch.randn_like(gathered)
    (expected,) = torch.autograd.grad(gathered, texts.padded, grad)
    found = torch.zeros_like(texts.padded)
    for start in range(0, len(grad), 4):
        rows = slice(start, min(start + 4, len(grad)))
        windows.add(grad[rows].contiguous(), rows, found)
    torch.testing.assert_close(found, expected, rtol=1e-12, atol=1e-12)


@every_lengths
@every_shape
def test_last(lengths: Sequence[int], width: int, dilation: int, further: int) -> None:
    texts, windows = build(lengths, width, dilation, further)
    last = windows.last(texts.padded)
    assert last.shape == texts.history.shape
    for b, length in enumerate(lengths):
        for k in range(windows.history):
            step = length - windows.history + k
            expected = texts.token(b, step)
            torch.testing.assert_close(last[k, b], expected, rtol=0, atol=0)


@pytest.mark.parametrize("name", ["even", "one", "short"])
@every_shape
def test_convolution_is_the_product(name: str, width: int, dilation: int, further: int) -> None:
    texts, windows = build(LENGTHS[name], width, dilation, further)
    weight = torch.randn(3, FEATURES, width, dtype=torch.float64, requires_grad=True)
    found = windows.convolve(texts.padded, weight)
    expected = windows.gather(texts.padded) @ weight.transpose(1, 2).flatten(1).t()
    torch.testing.assert_close(found, expected, rtol=1e-12, atol=1e-12)
    grad = torch.randn_like(expected)
    inputs = [texts.padded, weight]
    pairs = zip(
        torch.autograd.grad(found, inputs, grad, allow_unused=True, materialize_grads=True),
        torch.autograd.grad(expected, inputs, grad, allow_unused=True, materialize_grads=True),
        strict=True,
    )
    for one, other in pairs:
        torch.testing.assert_close(one, other, rtol=1e-12, atol=1e-12)


def test_convolutions_serve_wide_windows_of_few_features() -> None:
    texts, wide = build((9, 9), 8, 1, 0)
    assert wide.convolves(texts.padded)
    texts, narrow = build((9, 9), 7, 1, 0)
    assert not narrow.convolves(texts.padded)
    for lengths in ((9, 8), (0, 0)):
        texts, other = build(lengths, 8, 1, 0)
        assert not other.convolves(texts.padded)
