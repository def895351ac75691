"""DeepStringKernel against the recursion of theorem 2, and against explicit feature maps."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import pytest
import torch
from torch import Tensor

from pyg_kernels.kernels import (
    DeepStringKernel,
    StringKernel,
    arc_cosine,
    inverse_polynomial,
    polynomial,
)
from tests.kernels import scalar_activations as scalar
from tests.kernels.ngrams import Activation, deep_prefix_kernels, ngrams
from tests.kernels.texts import F64, close, ids, one_hot, vectors

BUILDERS: dict[str, tuple[Callable[[], Any], Activation]] = {
    "default": (lambda: None, scalar.inverse_polynomial()),
    "inverse-polynomial": (inverse_polynomial, scalar.inverse_polynomial()),
    "polynomial": (lambda: polynomial((0.3, 0.2, 0.1)), scalar.polynomial(0.3, 0.2, 0.1)),
    "arc-cosine-0": (lambda: arc_cosine(0), scalar.arc_cosine(0)),
    "arc-cosine-1": (lambda: arc_cosine(1), scalar.arc_cosine(1)),
}
of_activations = pytest.mark.parametrize("name", BUILDERS)
SHAPES = [(1, 1, 0.5), (1, 3, 0.5), (2, 1, 0.4), (2, 2, 0.6), (2, 3, 1.0), (3, 2, 0.0), (3, 2, 0.8)]
of_shapes = pytest.mark.parametrize(("num_layers", "order", "decay"), SHAPES)


def tolerance(name: str) -> dict[str, float]:
    """Near t = 1 arc-cosine of degree 0 is the root of 1 - t: of rounding, once in every layer."""
    return {"rtol": 1e-4, "atol": 1e-4} if name == "arc-cosine-0" else {}


def gram(
    xs: Sequence[Any],
    ys: Sequence[Any],
    shape: tuple[int, int, float],
    activation: Activation,
    post: bool,
    normalize: bool = False,
) -> Tensor:
    """All pairs by the recursion; 0 of a text of no tokens, whose last token there is not."""

    def value(x: Any, y: Any) -> float:
        if len(x) == 0 or len(y) == 0:
            return 0.0
        return deep_prefix_kernels(x, y, *shape, activation)[post][-1][-1]

    found = torch.tensor([[value(x, y) for y in ys] for x in xs], dtype=F64)
    if not normalize:
        return found
    x_x, y_y = (torch.tensor([value(x, x) for x in part], dtype=F64) for part in (xs, ys))
    scale = torch.outer(x_x, y_y).sqrt()
    return torch.where(scale > 0, found / scale, 0.0)


@of_activations
@of_shapes
@pytest.mark.parametrize("post", [False, True])
def test_vectors(name: str, num_layers: int, order: int, decay: float, post: bool) -> None:
    build, activation = BUILDERS[name]
    shape = (num_layers, order, decay)
    xs = [vectors(length, seed=i) for i, length in enumerate([4, 1, 5, 0])]
    ys = [vectors(length, seed=9 + i) for i, length in enumerate([3, 5, 2])]
    kernel = DeepStringKernel(*shape, activation=build(), post=post)
    close(kernel(xs, ys), gram(xs, ys, shape, activation, post), **tolerance(name))


@of_activations
@pytest.mark.parametrize("post", [False, True])
@pytest.mark.parametrize("normalize", [False, True])
def test_gram_of_one_collection(name: str, post: bool, normalize: bool) -> None:
    build, activation = BUILDERS[name]
    shape = (2, 2, 0.6)
    xs = [vectors(length, seed=i) for i, length in enumerate([4, 1, 0, 5])]
    xs.append(torch.zeros(2, 3, dtype=F64))
    expected = gram(xs, xs, shape, activation, post, normalize)
    kernel = DeepStringKernel(*shape, activation=build(), post=post, normalize=normalize)
    close(kernel(xs), expected, **tolerance(name))
    close(kernel.diagonal(xs), expected.diagonal(), **tolerance(name))


@pytest.mark.parametrize("name", ["default", "polynomial", "arc-cosine-1"])
@pytest.mark.parametrize("post", [False, True])
def test_exact_matches(name: str, post: bool) -> None:
    build, activation = BUILDERS[name]
    shape, texts = (2, 2, 0.6), ["abca", "c", "bca", ""]
    kernel = DeepStringKernel(*shape, activation=build(), post=post)
    expected = gram(texts, texts, shape, activation, post)
    close(kernel(texts), expected)
    close(kernel([ids(text) for text in texts]), expected)
    close(kernel([one_hot(text) for text in texts]), expected)


def test_one_layer_is_the_string_kernel() -> None:
    xs = [vectors(length, seed=length) for length in [5, 0, 2, 120]]
    close(DeepStringKernel(1, 3, 0.7)(xs), StringKernel(3, 0.7)(xs))
    unit = DeepStringKernel(1, 3, 0.7, normalize=True)(xs)
    close(unit, StringKernel(3, 0.7, normalize="cosine")(xs))


def test_an_activation_that_changes_nothing() -> None:
    """K_sigma = K: order 1 at decay 0 picks the last token, so every layer is the first."""
    xs = [vectors(length, seed=length) for length in [5, 1, 3]]
    last = torch.stack([x[-1] for x in xs])
    kernel = DeepStringKernel(4, 1, 0.0, activation=polynomial((0.0, 1.0)))
    close(kernel(xs), last @ last.t())


def test_by_hand() -> None:
    """Two layers, unigrams, no decay (λ = 1), sigma of the square: "ab" against "a".

    K^(1) counts equal pairs of tokens: prefixes a, ab against a: 1, 1; squared: 1, 1; K^(2) adds
    up all pairs of prefixes: 2. "ab" with itself: K^(1) is 1, 1 / 1, 2; squared 1, 1 / 1, 4; 7.
    """
    kernel = DeepStringKernel(2, 1, 1.0, activation=polynomial((0.0, 0.0, 1.0)))
    close(kernel(["ab"], ["a", "ab"]), torch.tensor([[2.0, 7.0]], dtype=F64))


# Explicit feature maps ---------------------------------------------------------------------------


def activated(features: Tensor, coefficients: Sequence[float]) -> Tensor:
    """phi_sigma(v): the powers of v with the roots of the coefficients, one after the other."""
    power = torch.ones(1, dtype=F64)
    parts = [math.sqrt(coefficients[0]) * power]
    for b in coefficients[1:]:
        power = torch.outer(power, features).flatten()
        parts.append(math.sqrt(b) * power)
    return torch.cat(parts)


def aggregated(tokens: Tensor, order: int, decay: float) -> Tensor:
    """phi^(l) of every prefix of a text, (L, F^n), from phi_sigma^(l-1) of the same, (L, F)."""
    rows = []
    for t in range(1, len(tokens) + 1):
        total = torch.zeros(tokens.size(1) ** order, dtype=F64)
        for picked in ngrams(t, order):
            product = torch.ones(1, dtype=F64)
            for i in picked:
                product = torch.outer(product, tokens[i]).flatten()
            total += decay ** (t - picked[0] - order) * product
        rows.append(total)
    return torch.stack(rows)


def deep_features(
    x: Tensor, num_layers: int, order: int, decay: float, coefficients: Sequence[float]
) -> tuple[Tensor, Tensor]:
    """phi^(L) and phi_sigma^(L) of the whole text: supplement C."""
    tokens = x
    for layer in range(num_layers):
        found = aggregated(tokens, order, decay)
        if layer < num_layers - 1:
            tokens = torch.stack([activated(row, coefficients) for row in found])
    return found[-1], activated(found[-1], coefficients)


@pytest.mark.parametrize(
    ("num_layers", "order", "decay", "coefficients"),
    [
        (2, 2, 0.6, (0.5, 0.3, 0.2)),
        (2, 2, 0.0, (0.0, 0.3, 0.2)),
        (2, 3, 0.7, (0.5, 1.0)),
        (3, 1, 0.8, (0.1, 0.2, 0.3)),
        (3, 2, 1.0, (0.25, 0.5)),
    ],
)
@pytest.mark.parametrize("post", [False, True])
def test_feature_maps(
    num_layers: int, order: int, decay: float, coefficients: tuple[float, ...], post: bool
) -> None:
    """The kernel is the inner product of finite maps, where the activation is a polynomial."""
    texts = [vectors(length, 2, seed=length) for length in [4, 2, 3]]
    shape = (num_layers, order, decay)
    rows = torch.stack([deep_features(x, *shape, coefficients)[post] for x in texts])
    kernel = DeepStringKernel(*shape, activation=polynomial(coefficients), post=post)
    close(kernel(texts), rows @ rows.t())
    unit = torch.nn.functional.normalize(rows, dim=1)
    kernel.set_params(normalize=True)
    close(kernel(texts), unit @ unit.t())


def test_polynomials_approach_the_inverse_polynomial() -> None:
    """1 / (2 - t) = sum_k 2^-(k+1) t^k, on unit features."""
    texts = [torch.nn.functional.normalize(vectors(3, 2, seed=s), dim=1) / 2 for s in range(3)]
    series = polynomial([2.0 ** -(k + 1) for k in range(60)])
    closed = DeepStringKernel(2, 1, 0.3, activation=inverse_polynomial(normalize=False))
    close(DeepStringKernel(2, 1, 0.3, activation=series)(texts), closed(texts))
    expected = gram(texts, texts, (2, 1, 0.3), scalar.inverse_polynomial(normalize=False), False)
    close(closed(texts), expected)


# Prefixes, long texts and derivatives ------------------------------------------------------------


@pytest.mark.parametrize("name", ["default", "polynomial"])
@pytest.mark.parametrize("post", [False, True])
@pytest.mark.parametrize("normalize", [False, True])
def test_prefixes(name: str, post: bool, normalize: bool) -> None:
    build, activation = BUILDERS[name]
    x, y, shape = vectors(4), vectors(3, seed=1), (2, 2, 0.6)
    kernel = DeepStringKernel(*shape, activation=build(), post=post, normalize=normalize)
    for other in (y, x):
        starts = [[z[: t + 1] for t in range(len(z))] for z in (x, other)]
        found = kernel.prefixes(x, other) if other is y else kernel.prefixes(x)
        close(found, gram(*starts, shape, activation, post, normalize))
    assert kernel.prefixes(x, y[:0]).shape == (4, 0)


def test_long_texts_beside_short_ones() -> None:
    """The recursion on tables of prefixes, in loops over all pairs of tokens, at order 1."""
    decay = 0.5
    texts = [vectors(length, 2, seed=length) for length in [104, 2, 17]]

    def table(x: Tensor, y: Tensor) -> Tensor:
        return unigrams(x @ y.t())

    def unigrams(matches: Tensor) -> Tensor:
        sums = torch.zeros(matches.size(0) + 1, matches.size(1) + 1, dtype=F64)
        for s, row in enumerate(matches):
            along = 0.0
            for t, match in enumerate(row.tolist()):
                along = decay * along + match
                sums[s + 1, t + 1] = decay * sums[s, t + 1] + along
        return sums[1:, 1:]

    expected = torch.zeros(3, 3, dtype=F64)
    for i, x in enumerate(texts):
        for k, y in enumerate(texts):
            roots = [table(z, z).diagonal().sqrt() for z in (x, y)]
            expected[i, k] = unigrams(1 / (2 - table(x, y) / torch.outer(*roots)))[-1, -1]
    close(DeepStringKernel(2, 1, decay)(texts), expected)


@pytest.mark.parametrize("name", ["default", "polynomial", "arc-cosine-1"])
@pytest.mark.parametrize(("post", "normalize"), [(False, False), (True, True)])
def test_gradients(name: str, post: bool, normalize: bool) -> None:
    """Also where prefixes are shorter than n: their kernels are 0, and so are their diagonals."""
    kernel = DeepStringKernel(2, 2, 0.6, BUILDERS[name][0](), post=post, normalize=normalize)
    xs = [vectors(length, 2, seed=length).requires_grad_() for length in [4, 2]]
    y = vectors(3, 2, seed=9).requires_grad_()
    assert torch.autograd.gradcheck(lambda *t: kernel(list(t[:2]), [t[2]]), (*xs, y))
    assert torch.autograd.gradcheck(lambda *t: kernel(list(t)), (xs[1], y))
    assert torch.autograd.gradcheck(lambda t: kernel.diagonal([t]), (y,))


@of_activations
@pytest.mark.parametrize("post", [False, True])
def test_gradients_are_finite(name: str, post: bool) -> None:
    """Texts that are equal, empty, of zeros, or shorter than n."""
    kernel = DeepStringKernel(2, 2, 0.6, BUILDERS[name][0](), post=post, normalize=True)
    texts = [vectors(3), vectors(3), vectors(0), torch.zeros(3, 3, dtype=F64), vectors(1)]
    for text in texts:
        text.requires_grad_()
    gradients = torch.autograd.grad(kernel(texts).sum(), texts, allow_unused=True)
    for gradient in gradients:
        assert gradient is None or gradient.isfinite().all()


def test_diverging_activation_is_an_error() -> None:
    """Without normalisation 1 / (2 - t) has no meaning from t = 2 on."""
    kernel = DeepStringKernel(2, 1, 0.5, activation=inverse_polynomial(normalize=False))
    with pytest.raises(ValueError, match="2"):
        kernel([2 * vectors(4)])
