"""GatedSequenceKernel against the recursion of section 2.4.4 of the thesis, and its feature map."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor

from pyg_kernels.kernels import GatedSequenceKernel, arc_cosine, inverse_polynomial, polynomial
from tests.kernels import scalar_activations as scalar
from tests.kernels.ngrams import Activation, gated_prefix_kernel
from tests.kernels.texts import F64, characters, close, ids, one_hot, vectors

BUILDERS: dict[str, tuple[Callable[[], Any], Activation]] = {
    "default": (lambda: None, scalar.inverse_polynomial()),
    "inverse-polynomial": (inverse_polynomial, scalar.inverse_polynomial()),
    "polynomial": (lambda: polynomial((0.3, 0.2, 0.1)), scalar.polynomial(0.3, 0.2, 0.1)),
    "arc-cosine-0": (lambda: arc_cosine(0), scalar.arc_cosine(0)),
    "arc-cosine-1": (lambda: arc_cosine(1), scalar.arc_cosine(1)),
}
of_activations = pytest.mark.parametrize("name", BUILDERS)


def gram(xs: list[Any], ys: list[Any], activation: Activation) -> Tensor:
    return torch.tensor(
        [[gated_prefix_kernel(x, y, len(x), len(y), activation) for y in ys] for x in xs],
        dtype=F64,
    ).view(len(xs), len(ys))


def cosine(xs: list[Any], ys: list[Any], activation: Activation) -> Tensor:
    x_x, y_y = (
        torch.cat([gram([x], [x], activation)[0] for x in part]).unsqueeze(-1) for part in (xs, ys)
    )
    scale = (x_x * y_y.t()).sqrt()
    return torch.where(scale > 0, gram(xs, ys, activation) / scale, 0.0)


@of_activations
@pytest.mark.parametrize("normalize", [False, True])
def test_vectors(name: str, normalize: bool) -> None:
    build, activation = BUILDERS[name]
    xs = [vectors(length, seed=i) for i, length in enumerate([4, 0, 1, 9, 2])]
    ys = [vectors(length, seed=9 + i) for i, length in enumerate([3, 6, 1, 0])]
    xs.append(torch.zeros(3, 3, dtype=F64))
    kernel = GatedSequenceKernel(build(), normalize=normalize)
    expected = cosine if normalize else gram
    # arc-cosine of degree 0 is the root of 1 - t near t = 1, where equal tokens meet
    tolerance = {"rtol": 1e-6, "atol": 1e-6} if name == "arc-cosine-0" else {}
    close(kernel(xs, ys), expected(xs, ys, activation), **tolerance)
    close(kernel(xs), expected(xs, xs, activation), **tolerance)
    close(kernel.diagonal(xs), expected(xs, xs, activation).diagonal(), **tolerance)


@of_activations
def test_exact_matches(name: str) -> None:
    build, activation = BUILDERS[name]
    texts = ["abcab", "", "c", "bcab", "aaaa"]
    kernel = GatedSequenceKernel(build())
    expected = gram(texts, texts, activation)
    close(kernel(texts), expected)
    close(kernel([ids(text) for text in texts]), expected)
    close(kernel([torch.tensor(ids(text), dtype=torch.long) for text in texts]), expected)
    close(kernel([one_hot(text) for text in texts]), expected)


@pytest.mark.parametrize("name", ["default", "arc-cosine-1"])
def test_long_texts_beside_short_ones(name: str) -> None:
    """The sum that the recursion unrolls to: matches at the same distance from the two ends."""
    build, activation = BUILDERS[name]
    xs = [vectors(length, 2, seed=i) / 2 for i, length in enumerate([140, 1, 0, 33])]
    ys = [vectors(length, 2, seed=9 + i) / 2 for i, length in enumerate([105, 4])]
    expected = torch.zeros(len(xs), len(ys), dtype=F64)
    for i, x in enumerate(xs):
        for k, y in enumerate(ys):
            gates = 1.0
            for m in range(1, min(len(x), len(y)) + 1):
                match = torch.dot(x[-m], y[-m]).item()
                expected[i, k] += gates * match
                squares = (x[-m].square().sum().item(), y[-m].square().sum().item())
                gates *= activation(match, *squares)
    close(GatedSequenceKernel(build())(xs, ys), expected)


def test_by_hand() -> None:
    """Exact matches: the gate of equal tokens is 1 / (2 - 1) = 1, that of others 1 / 2.

    "ab" and "cb": 1 * 0 + 1 from the last tokens. "ab" and "aa": (1 / 2) * 1 + 0. "cab" and "cbb":
    the last tokens match, with gate 1; b before a does not, with gate 1 / 2; then c matches.
    """
    kernel = GatedSequenceKernel()
    expected = torch.tensor([[1.0, 0.5, 2.0]], dtype=F64)
    close(kernel(["ab"], ["cb", "aa", "ab"]), expected)
    close(kernel(["cab"], ["cbb"]), torch.tensor([[1.5]], dtype=F64))


def test_constant_gate_is_a_decayed_sum() -> None:
    """A gate of λ^2: the tokens at the same distance from the end, decayed by λ in either text."""
    decay = 0.7
    x, y = vectors(6), vectors(9, seed=1)
    expected = sum(decay ** (2 * (m - 1)) * torch.dot(x[-m], y[-m]) for m in range(1, 7))
    kernel = GatedSequenceKernel(polynomial((decay**2,)))
    close(kernel([x], [y])[0, 0], torch.as_tensor(expected))


def test_feature_map() -> None:
    """phi(x_{1:t}) = [x_t, phi(x_{1:t-1}) (x) phi_sigma(x_t)], exact for a polynomial gate."""
    coefficients = (0.5, 0.25, 0.125)
    b = [math.sqrt(value) for value in coefficients]

    def features(x: Tensor) -> Tensor:
        found = torch.zeros(0, dtype=F64)
        for token in x:
            pairs = torch.outer(token, token).flatten()
            gate = torch.cat([torch.tensor([b[0]], dtype=F64), b[1] * token, b[2] * pairs])
            found = torch.cat([token, torch.outer(found, gate).flatten()])
        return found

    texts = [vectors(length, 2, seed=length) for length in [1, 3, 2, 4, 0]]
    longest = max(features(x).numel() for x in texts)
    rows = torch.zeros(len(texts), longest, dtype=F64)
    for row, x in zip(rows, texts, strict=True):
        row[: features(x).numel()] = features(x)
    kernel = GatedSequenceKernel(polynomial(coefficients))
    close(kernel(texts), rows @ rows.t())


@pytest.mark.parametrize("normalize", [False, True])
def test_prefixes(normalize: bool) -> None:
    x, y = vectors(5), vectors(3, seed=1)
    kernel = GatedSequenceKernel(normalize=normalize)
    expected = cosine if normalize else gram
    activation = scalar.inverse_polynomial()
    for other in (y, x):
        starts = [[z[: t + 1] for t in range(len(z))] for z in (x, other)]
        found = kernel.prefixes(x, other) if other is y else kernel.prefixes(x)
        close(found, expected(*starts, activation))
    assert kernel.prefixes("abc", "").shape == (3, 0)


@pytest.mark.parametrize("name", ["default", "polynomial", "arc-cosine-1"])
@pytest.mark.parametrize("normalize", [False, True])
def test_gradients(name: str, normalize: bool) -> None:
    kernel = GatedSequenceKernel(BUILDERS[name][0](), normalize=normalize)
    xs = [vectors(length, 2, seed=length).requires_grad_() for length in [4, 1]]
    ys = [vectors(length, 2, seed=9 + length).requires_grad_() for length in [3, 6]]
    assert torch.autograd.gradcheck(lambda *t: kernel(list(t[:2]), list(t[2:])), (*xs, *ys))
    assert torch.autograd.gradcheck(lambda *t: kernel(list(t)), (*xs, ys[0]))
    assert torch.autograd.gradcheck(lambda *t: kernel.diagonal(list(t)), tuple(xs))


@of_activations
def test_gradients_are_finite(name: str) -> None:
    """Where a token is zero, where two tokens are equal, and where a text is empty."""
    kernel = GatedSequenceKernel(BUILDERS[name][0](), normalize=True)
    texts = [vectors(3), torch.zeros(2, 3, dtype=F64), vectors(0), vectors(3)]
    for text in texts:
        text.requires_grad_()
    gradients = torch.autograd.grad(kernel(texts).sum(), texts, allow_unused=True)
    for gradient in gradients:
        assert gradient is None or gradient.isfinite().all()


def test_any_function_of_three_tables() -> None:
    """An activation kernel of the user's own: the signature is all that is asked of it."""

    def quarter(k_xy: Tensor, k_xx: Tensor, k_yy: Tensor) -> Tensor:
        return k_xy / 4 + 0 * (k_xx + k_yy)

    texts = [characters(length, seed=length) for length in [4, 7, 0]]
    expected = gram(texts, texts, lambda k_xy, k_xx, k_yy: k_xy / 4)
    close(GatedSequenceKernel(quarter)(texts), expected)
