"""The brute force of the tests against itself: two enumerations of the same sums."""

from __future__ import annotations

import pytest
import torch

from tests.ngram_maxima import read_maxima
from tests.string_kernels import (
    ngram_states,
    string_features,
    string_kernel,
    tabulated_additive_state,
)

F64 = torch.float64


def text(length: int, features: int, seed: int = 0) -> torch.Tensor:
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(length, features, generator=generator, dtype=F64)


@pytest.mark.parametrize("order", [1, 2, 3])
@pytest.mark.parametrize("decay", [0.0, 0.3, 1.0])
def test_kernel_is_the_inner_product_of_its_features(order: int, decay: float) -> None:
    x, y = text(5, 3), text(4, 3, seed=1)
    expected = torch.dot(string_features(x, order, decay), string_features(y, order, decay))
    torch.testing.assert_close(string_kernel(x, y, order, decay), expected, rtol=1e-12, atol=1e-13)


def test_kernel_by_hand() -> None:
    """Bigrams of one-hot 'aba' and 'ab': ab skips 1 before the end, aa skips the b, ba none."""
    a, b = torch.eye(2, dtype=F64)
    aba, ab = torch.stack([a, b, a]), torch.stack([a, b])
    assert string_kernel(aba, ab, 2, 0.5).item() == 0.5
    assert string_kernel(aba, torch.stack([a, a]), 2, 0.5).item() == 0.5
    assert string_kernel(aba, torch.stack([b, a]), 2, 0.5).item() == 1.0


@pytest.mark.parametrize("order", [1, 2, 3, 4])
@pytest.mark.parametrize("normalize", [False, True])
def test_constant_decay_gives_the_string_kernel(order: int, normalize: bool) -> None:
    """c_n[t] is (1 - decay)^(nu n) times the kernel against the reference string."""
    x = text(5, 3)
    weights = [text(2, 3, seed=j) for j in range(1, order + 1)]
    decay = 0.7
    decays = torch.full((5, 2), decay, dtype=F64)
    states = ngram_states([x @ w.t() for w in weights], decays, "mul", normalize)
    scale = (1 - decay) ** order if normalize else 1.0
    for t in range(5):
        for i in range(2):
            reference = torch.stack([w[i] for w in weights])
            expected = scale * string_kernel(x[: t + 1], reference, order, decay)
            torch.testing.assert_close(states.c[-1][t, i], expected, rtol=1e-12, atol=1e-13)


@pytest.mark.parametrize("combine", ["mul", "add"])
@pytest.mark.parametrize("normalize", [False, True])
def test_up_to_t_is_the_decayed_sum_of_exactly_at_s(combine: str, normalize: bool) -> None:
    projections = [text(6, 2, seed=j) for j in range(3)]
    decay = text(6, 2, seed=9).sigmoid()
    states = ngram_states(projections, decay, combine, normalize)
    for z, c in zip(states.z, states.c, strict=True):
        for t in range(6):
            expected = torch.zeros(2, dtype=F64)
            for s in range(t + 1):
                weight = 1 - decay[s] if normalize else 1.0
                expected = expected + weight * decay[s + 1 : t + 1].prod(dim=0) * z[s]
            torch.testing.assert_close(c[t], expected, rtol=1e-12, atol=1e-13)


@pytest.mark.parametrize("normalize", [False, True])
def test_additive_weights_are_the_multiplicative_ones(normalize: bool) -> None:
    """With W^(1) x = 1, the others 0, the additive states are the weights of whole n-grams."""
    ones, zeros = torch.ones(5, 1, dtype=F64), torch.zeros(5, 1, dtype=F64)
    decay = torch.full((5, 1), 0.5, dtype=F64)
    add = ngram_states([ones, zeros], decay, "add", normalize)
    mul = ngram_states([ones, ones], decay, "mul", normalize)
    torch.testing.assert_close(add.c[-1], mul.c[-1], rtol=1e-14, atol=0.0)


def test_table_counts_whole_ngrams_only() -> None:
    p = [text(3, 2, seed=j) for j in range(2)]
    value, total = tabulated_additive_state(p, 0.5, exactly=False)
    expected = 0.5 * (p[0][0] + p[1][1]) + 0.5 * (p[0][0] + p[1][2]) + (p[0][1] + p[1][2])
    torch.testing.assert_close(value, expected)
    assert total == 2.0
    value, total = tabulated_additive_state(p, 0.5, exactly=True)
    torch.testing.assert_close(value, 0.5 * (p[0][0] + p[1][2]) + (p[0][1] + p[1][2]))
    assert total == 1.5


def test_maxima_by_hand() -> None:
    p = [
        torch.tensor([[1.0], [-3.0], [2.0]], dtype=F64),
        torch.tensor([[0.0], [2.0], [-1.0]], dtype=F64),
    ]
    decay = torch.full((3, 1), 0.5, dtype=F64)
    z = read_maxima(p, decay, "mul", "z")
    assert z.flatten().tolist() == [0.0, 2.0, 3.0]  # 1 * 2; the best of 0.5 * 1 * -1, -3 * -1
    assert read_maxima(p, decay, "mul", "c").flatten().tolist() == [0.0, 2.0, 3.0]
    assert read_maxima(p, decay, "add", "z").flatten().tolist() == [0.0, 3.0, 0.0]
    assert read_maxima(p, decay, "add", "c").flatten().tolist() == [0.0, 3.0, 1.5]
