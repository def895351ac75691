"""Dropouts of steps, words and weights."""

from typing import Any, cast

import pytest
import torch
from torch import Tensor, nn
from torch.nn.utils import parametrize

from benchmarks.harness.language_model.encoders import (
    DroppedLSTM,
    WeightDrop,
    drop,
    drop_words,
    dropped_rkm,
)
from pyg_kernels.sequence import RKM, RKMCell


def test_a_locked_mask_holds_for_all_steps() -> None:
    torch.manual_seed(0)
    dropped = drop(torch.ones(7, 40, 50), 0.25, training=True, locked=True)
    assert torch.equal(dropped, dropped[:1].expand_as(dropped))
    free = drop(torch.ones(7, 40, 50), 0.25, training=True, locked=False)
    assert not torch.equal(free[0], free[1])
    values, counts = dropped[0].unique(return_counts=True)
    torch.testing.assert_close(values, torch.tensor([0.0, 1 / 0.75]))
    assert abs(counts[0].item() / 2000 - 0.25) < 0.03


def test_words_are_dropped_whole() -> None:
    torch.manual_seed(0)
    vectors = torch.rand(1000, 3) + 1
    dropped = drop_words(vectors, 0.1, training=True)
    gone = (dropped == 0).all(1)
    assert abs(gone.float().mean().item() - 0.1) < 0.03
    torch.testing.assert_close(dropped[~gone], vectors[~gone] / 0.9)


def torch_lstm(layer: DroppedLSTM, weight: Tensor) -> nn.LSTM:
    """PyTorch's layer with the same weights, but for this recurrent matrix."""
    lstm = nn.LSTM(4, 6).double()
    with torch.no_grad():
        for name in ("weight_ih", "bias_ih", "bias_hh"):
            getattr(lstm, f"{name}_l0").copy_(getattr(layer.cell, name))
        lstm.weight_hh_l0.copy_(weight)
    return lstm


def test_the_lstm_is_torch_s() -> None:
    torch.manual_seed(0)
    layer = DroppedLSTM(4, 6, 0.5).double().eval()
    lstm = torch_lstm(layer, layer.cell.weight_hh)
    x = torch.randn(5, 3, 4, dtype=torch.float64)
    output, state = layer(x)
    expected, expected_state = lstm(x)
    torch.testing.assert_close(output, expected)
    torch.testing.assert_close(layer(x, state)[0], lstm(x, expected_state)[0])


def test_one_mask_of_the_recurrent_weights_holds_for_all_steps() -> None:
    torch.manual_seed(0)
    layer = DroppedLSTM(4, 6, 0.5).double()
    x = torch.randn(5, 3, 4, dtype=torch.float64)
    torch.manual_seed(7)
    with parametrize.cached():
        weight = layer.cell.weight_hh.detach()
        output, _ = layer(x)
    original = cast(Any, layer.cell.parametrizations)["weight_hh"].original
    dropped = weight == 0
    assert 0.2 < dropped.double().mean() < 0.8
    torch.testing.assert_close(weight[~dropped], 2 * original[~dropped])
    torch.testing.assert_close(output, torch_lstm(layer, weight)(x)[0])
    output.sum().backward()
    assert not original.grad[dropped].any()
    assert not torch.equal(layer(x)[0], output)


@pytest.mark.parametrize("kind", ["rkm-lstm", "rkm-cifg", "linear-gated"])
def test_a_recurrent_kernel_machine_reads_its_dropped_weights_once(
    kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    torch.manual_seed(0)
    layer, plain = dropped_rkm(4, 6, kind, 0.5).double(), RKM(4, 6, cell=kind).double()
    masked: list[Tensor] = []

    def record(module: WeightDrop, weight: Tensor) -> Tensor:
        mask = torch.bernoulli(torch.full_like(weight, 0.5)) * 2
        masked.append((weight * mask).detach())
        return weight * mask

    cell, bare = (cast(RKMCell, rkm.cells[0]) for rkm in (layer, plain))
    renamed = {
        key.replace("parametrizations.weight.original", "weight"): value
        for key, value in layer.state_dict().items()
    }
    plain.load_state_dict(renamed)
    x = torch.randn(5, 3, 4, dtype=torch.float64)
    torch.testing.assert_close(layer.eval()(x)[0], plain(x)[0])
    layer.train()
    monkeypatch.setattr(WeightDrop, "forward", record)
    output, _ = layer(x)
    assert len(masked) == len(cell.recurrent) > 0
    read = [gate for gate in cell.filters if gate in cell.recurrent]  # the order of reading
    with torch.no_grad():
        for gate, weight in zip(read, masked, strict=True):
            cast(nn.Linear, bare.recurrent[gate]).weight.copy_(weight)
    torch.testing.assert_close(output, plain(x)[0])
