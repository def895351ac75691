"""StringKernel against n-grams enumerated one by one, its feature maps, and sums by hand."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from pyg_kernels.kernels import StringKernel
from tests.kernels.ngrams import enumerated, looped, ngrams, string_gram, total_weight, weight
from tests.kernels.texts import F64, characters, close, ids, one_hot, vectors
from tests.string_kernels import string_features, tabulated_additive_state

ORDERS = [1, 2, 3, 4]
DECAYS = [0.0, 0.4, 1.0]
VARIANTS = [
    {"combine": combine, "weighting": weighting, "normalize": normalize}
    for combine in ["mul", "add"]
    for weighting in ["end", "span"]
    for normalize in [False, "weights", "cosine"]
]
of_variants = pytest.mark.parametrize(
    "variant", VARIANTS, ids=["-".join(str(v) for v in variant.values()) for variant in VARIANTS]
)


@of_variants
@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("decay", DECAYS)
def test_vectors(variant: dict[str, Any], order: int, decay: float) -> None:
    """No text, one token, texts shorter than n, and longer ones, side by side."""
    xs = [vectors(length, seed=i) for i, length in enumerate([3, 0, 1, 6])]
    ys = [vectors(length, seed=9 + i) for i, length in enumerate([5, 2, 4, 0])]
    options = {"order": order, "decay": decay, **variant}
    kernel = StringKernel(**options)
    close(kernel(xs, ys), string_gram(xs, ys, **options))
    gram = string_gram(xs, xs, **options)
    close(kernel(xs), gram)
    close(kernel.diagonal(xs), gram.diagonal())


@of_variants
@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("decay", DECAYS)
def test_exact_matches(variant: dict[str, Any], order: int, decay: float) -> None:
    """Equal tokens are equal one-hot vectors, whatever the tokens are."""
    texts = ["abcab", "", "c", "aaaa", "bca", "ab"]
    options = {"order": order, "decay": decay, **variant}
    kernel = StringKernel(**options)
    close(kernel(texts[:3], texts), string_gram(texts[:3], texts, **options))


FORMS = {
    "vectors": one_hot,
    "arrays of vectors": lambda text: one_hot(text).numpy(),
    "characters": str,
    "words": lambda text: [f"word {token}" for token in text],
    "ids": ids,
    "tensors of ids": lambda text: torch.tensor(ids(text), dtype=torch.long),
    "arrays of ids": lambda text: np.array(ids(text), dtype=np.int32),
}


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("decay", DECAYS)
def test_forms_of_tokens(form: str, decay: float) -> None:
    texts = ["abcab", "", "c", "aaaa", "bca", "ab"]
    xs, ys = [FORMS[form](x) for x in texts[:3]], [FORMS[form](y) for y in texts]
    close(StringKernel(2, decay)(xs, ys), string_gram(texts[:3], texts, 2, decay))


def test_a_collection_may_mix_forms_of_the_same_tokens() -> None:
    options = {"order": 2, "decay": 0.4}
    texts = ["abc", "cab", "aab"]
    expected = string_gram(texts, texts, **options)
    mixed = [ids("abc"), torch.tensor(ids("cab")), np.array(ids("aab"))]
    close(StringKernel(**options)(mixed), expected)
    close(StringKernel(**options)([ids(text) for text in texts], mixed), expected)
    close(StringKernel(**options)(["abc", list("cab"), tuple("aab")]), expected)


def test_ids_may_be_any_integers() -> None:
    far = [10**12, -5, 0]
    texts = [[far[i] for i in ids(text)] for text in ["abcab", "cab"]]
    expected = string_gram(["abcab", "cab"], ["abcab", "cab"], order=2, decay=0.4)
    close(StringKernel(2, 0.4)(texts), expected)
    close(StringKernel(2, 0.4)([torch.tensor(text) for text in texts]), expected)


def test_a_tensor_of_texts() -> None:
    """(N, L, F), as a batch of texts of one length lies in memory."""
    x = torch.stack([vectors(4, seed=seed) for seed in range(3)])
    close(StringKernel()(x, x[:2]), string_gram(x, x[:2]))
    close(StringKernel()(x.numpy()), string_gram(x, x))


def test_non_contiguous_and_wide_tokens() -> None:
    x = vectors(10, 40, seed=1)[::2, ::2]
    y = vectors(20, 4, seed=2).t()
    close(StringKernel(3, 0.3)([x], [y]), string_gram([x], [y], 3, 0.3))


LONG = [(1, 0.9), (2, 1.0), (2, 0.5), (3, 0.95), (4, 0.7)]


@pytest.mark.parametrize(("order", "decay"), LONG)
@pytest.mark.parametrize("combine", ["mul", "add"])
@pytest.mark.parametrize("weighting", ["end", "span"])
def test_long_texts_beside_short_ones(
    order: int, decay: float, combine: str, weighting: str
) -> None:
    xs = [vectors(length, 2, seed=i) for i, length in enumerate([113, 2, 0, 1])]
    ys = [vectors(length, 2, seed=9 + i) for i, length in enumerate([3, 17, 101])]
    options = {"order": order, "decay": decay, "combine": combine, "weighting": weighting}
    kernel = StringKernel(**options)
    expected = string_gram(xs, ys, **options, kernel=looped)
    diagonals = [
        torch.cat([string_gram([x], [x], **options, kernel=looped)[0] for x in part])
        for part in (xs, ys)
    ]
    scale = torch.outer(*diagonals).sqrt().clamp(min=1)  # what rounding is relative to
    close(kernel(xs, ys) / scale, expected / scale)
    close(kernel.diagonal(xs), diagonals[0])


@pytest.mark.parametrize("weighting", ["end", "span"])
@pytest.mark.parametrize("decay", [0.0, 0.6, 1.0])
def test_long_texts_of_tokens(weighting: str, decay: float) -> None:
    texts = [characters(length, seed=length) for length in [120, 7, 0, 33]]
    options = {"order": 3, "decay": decay, "weighting": weighting}
    expected = string_gram(texts, texts, **options, kernel=looped)
    close(StringKernel(**options)(texts), expected)
    diagonal = expected.diagonal()
    scale = torch.outer(diagonal, diagonal).sqrt()
    cosine = torch.where(scale > 0, expected / scale, 0.0)
    close(StringKernel(**options, normalize="cosine")(texts), cosine)


@of_variants
def test_long_texts_normalised_by_their_weights(variant: dict[str, Any]) -> None:
    """Z' of a long text, whose n-grams no sum over n-grams reaches: by hand for n = 2.

    'span': L - 1 - g pairs skip g tokens. 'end': i tokens follow i_1, one of them picked.
    """
    if variant["normalize"] != "weights":
        return
    decay, lengths = 0.9, [200, 120]
    x, y = (vectors(length, 2, seed=length) for length in lengths)
    z = [
        sum((length - 1 - g) * decay**g for g in range(length - 1))
        if variant["weighting"] == "span"
        else sum(i * decay ** (i - 1) for i in range(1, length))
        for length in lengths
    ]
    plain = string_gram([x], [y], 2, decay, variant["combine"], variant["weighting"], kernel=looped)
    close(StringKernel(2, decay, **variant)([x], [y]), plain / (z[0] * z[1]), atol=1e-14)


def test_the_two_independent_sides_agree() -> None:
    for order in ORDERS:
        for decay in DECAYS:
            for combine in ["mul", "add"]:
                for weighting in ["end", "span"]:
                    options = {"decay": decay, "combine": combine, "weighting": weighting}
                    xs = [vectors(length, seed=length) for length in [6, 2, 0]]
                    expected = string_gram(xs, xs, order, **options)
                    close(string_gram(xs, xs, order, **options, kernel=looped), expected)


@settings(max_examples=60, deadline=None)
@given(
    texts=st.lists(st.text("ab", max_size=6), min_size=1, max_size=4),
    order=st.integers(1, 4),
    decay=st.floats(0, 1),
    variant=st.sampled_from(VARIANTS),
)
def test_any_texts(texts: list[str], order: int, decay: float, variant: dict[str, Any]) -> None:
    options = {"order": order, "decay": decay, **variant}
    close(StringKernel(**options)(texts), string_gram(texts, texts, **options))


# Sums by hand ------------------------------------------------------------------------------------


def test_lodhi_by_hand() -> None:
    """Lodhi et al. 2002, section 3: K_2(car, cat) = λ^4, K_2(car, car) = 2 λ^4 + λ^6.

    Their exponents count every token from the first to the last of a bigram, picked or not: in
    "car", ca and ar span two tokens and cr three, and "cat" shares ca alone. A pair of bigrams
    has its two spans, so without the picked tokens 2 + λ^2 remain, and 1 / (2 + λ^2) as a cosine.
    """
    decay = 0.3
    span = StringKernel(order=2, decay=decay, weighting="span")
    lodhi = decay**4 * span(["car"], ["cat", "car"])
    expected = torch.tensor([[decay**4, 2 * decay**4 + decay**6]], dtype=F64)
    close(lodhi, expected)
    unit = StringKernel(order=2, decay=decay, weighting="span", normalize="cosine")
    close(unit(["car"], ["cat"]), torch.tensor([[1 / (2 + decay**2)]], dtype=F64))


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("decay", [0.3, 1.0])
def test_lodhi(order: int, decay: float) -> None:
    """Lodhi et al. 2002, definition 1: λ to the length of either occurrence, over all u."""
    texts = ["science", "is organized", "nice", "", "sc"]

    def occurrences(text: str) -> dict[str, float]:
        found: dict[str, float] = {}
        for picked in ngrams(len(text), order):
            u = "".join(text[i] for i in picked)
            found[u] = found.get(u, 0.0) + decay ** (picked[-1] - picked[0] + 1)
        return found

    features = [occurrences(text) for text in texts]
    expected = [[sum(f[u] * g.get(u, 0.0) for u in f) for g in features] for f in features]
    found = decay ** (2 * order) * StringKernel(order, decay, weighting="span")(texts)
    close(found, torch.tensor(expected, dtype=F64))


def test_thesis_by_hand() -> None:
    """Lei 2017 (thesis), eq. 2.5: bigrams of "abcb" are ab (0 and 2 skipped), ac (1), bc, bb (1),
    cb; those of "acb" are ac, ab (1), cb. Shared: ac λ, ab (1 + λ^2) λ, cb 1.
    """
    decay = 0.5
    expected = decay + (1 + decay**2) * decay + 1
    close(
        StringKernel(2, decay, weighting="span")(["abcb"], ["acb"]),
        torch.tensor([[expected]], dtype=F64),
    )


def test_end_weighting_by_hand() -> None:
    """Lei et al. 2017, eq. 3: an i before the end weighs λ^(|x| - i - 1), whatever j is.

    "aba": ab and aa (i = 1) weigh λ, ba (i = 2) weighs 1. "ab": ab weighs 1. "bba": bb, ba
    (i = 1) weigh λ, ba (i = 2) weighs 1.
    """
    decay = 0.25
    expected = [[2 * decay**2 + 1, decay, decay + 1], [decay, 1, 0]]
    found = StringKernel(2, decay)(["aba", "ab"], ["aba", "ab", "bba"])
    close(found, torch.tensor(expected, dtype=F64))


def test_additive_by_hand() -> None:
    """Partial matches: "ab" and "cb" share their second token, "ab" and "ba" none in its place."""
    found = StringKernel(2, 0.5, combine="add")(["ab"], ["ab", "cb", "ba", "b", "cab"])
    # "cab": ca and cb weigh λ and share 0 and 1 with "ab"; ab weighs 1 and shares 2.
    close(found, torch.tensor([[2, 1, 0, 0, 0.5 * 1 + 2]], dtype=F64))


# Normalisation -----------------------------------------------------------------------------------


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("decay", DECAYS)
@pytest.mark.parametrize("weighting", ["end", "span"])
def test_weights_sum_to_one(order: int, decay: float, weighting: str) -> None:
    """Of texts of the token 1 alone, a normalised kernel is the mean match: 1, or n added up."""
    lengths = [1, 2, 3, 7, 0]
    texts = [torch.ones(length, 1, dtype=F64) for length in lengths]
    weights = [total_weight(length, order, decay, weighting) for length in lengths]
    some = torch.tensor([float(w > 0) for w in weights], dtype=F64)
    options = {"order": order, "decay": decay, "weighting": weighting, "normalize": "weights"}
    close(StringKernel(**options)(texts), torch.outer(some, some))
    added = StringKernel(combine="add", **options)(texts)
    close(added, order * torch.outer(some, some))


def test_without_decay() -> None:
    """At decay 0 only the last n-gram ('end') or the consecutive ones ('span') weigh: 0^0 = 1."""
    x, y = "abc", "bbc"
    end = StringKernel(2, 0.0)([x], [y])
    span = StringKernel(2, 0.0, weighting="span")(["abab"], ["abcab"])
    close(end, torch.tensor([[1.0]], dtype=F64))  # bc and bc
    close(span, torch.tensor([[4.0]], dtype=F64))  # ab twice in either


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("decay", DECAYS)
def test_table_5(order: int, decay: float) -> None:
    """Lei et al. 2017, table 5: the kernels are the inner products of its maps."""
    xs = [vectors(length, 2, seed=length) for length in [5, order, 3, 0]]
    plain = [string_features(x, order, decay) for x in xs]
    weights = [total_weight(len(x), order, decay, "end") for x in xs]
    scales = [1 / w if w else 0.0 for w in weights]

    def gram(features: list[Tensor]) -> Tensor:
        rows = torch.stack(features)
        return rows @ rows.t()

    close(StringKernel(order, decay)(xs), gram(plain))  # (a)
    scaled = [s * f for s, f in zip(scales, plain, strict=True)]
    close(StringKernel(order, decay, normalize="weights")(xs), gram(scaled))  # (b)
    joined = []
    for x, scale in zip(xs, scales, strict=True):
        total = torch.zeros(order * 2, dtype=F64)
        for picked in ngrams(len(x), order):
            total += weight(picked, len(x), decay, "end") * torch.cat([x[i] for i in picked])
        joined.append(scale * total)
    added = StringKernel(order, decay, combine="add", normalize="weights")
    close(added(xs), gram(joined))  # (c)


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("length", [4, 6])
def test_table_2_1(order: int, length: int) -> None:
    """Thesis, table 2.1: c_n[t] / C_n[t] is the kernel against a reference string of n tokens."""
    x, decay = vectors(length, seed=3), 0.6
    references = [vectors(order, seed=4 + i) for i in range(3)]
    projections = [x @ torch.stack([w[j] for w in references]).t() for j in range(order)]
    value, total = tabulated_additive_state(projections, decay, exactly=False)
    kernel = StringKernel(order, decay, combine="add", normalize="weights")
    close(kernel([x], references)[0], value / total)
    assert math.isclose(total, total_weight(length, order, decay, "end"))


@pytest.mark.parametrize("normalize", ["weights", "cosine"])
@pytest.mark.parametrize("weighting", ["end", "span"])
def test_nothing_to_normalise_is_zero(normalize: str, weighting: str) -> None:
    zeros = torch.zeros(4, 3, dtype=F64)
    texts = [zeros[:0], zeros[:1], zeros, vectors(4)]
    gram = StringKernel(2, 0.5, weighting=weighting, normalize=normalize)(texts)
    expected = torch.zeros(4, 4, dtype=F64)
    expected[3, 3] = gram[3, 3]
    assert gram[3, 3] > 0
    close(gram, expected)


# Prefixes ----------------------------------------------------------------------------------------


@of_variants
@pytest.mark.parametrize(("order", "decay"), [(1, 0.4), (2, 0.0), (3, 0.7), (2, 1.0)])
def test_prefixes(variant: dict[str, Any], order: int, decay: float) -> None:
    x, y = vectors(5), vectors(4, seed=1)
    options = {"order": order, "decay": decay, **variant}
    kernel = StringKernel(**options)
    for other in (y, None):
        z = x if other is None else other
        expected = string_gram(
            [x[: s + 1] for s in range(len(x))], [z[: t + 1] for t in range(len(z))], **options
        )
        found = kernel.prefixes(x) if other is None else kernel.prefixes(x, other)
        close(found, expected)


def test_prefixes_of_tokens_and_of_no_tokens() -> None:
    kernel = StringKernel(2, 0.5)
    found = kernel.prefixes("abca", "cab")
    expected = string_gram(["a", "ab", "abc", "abca"], ["c", "ca", "cab"], 2, 0.5)
    close(found, expected)
    assert kernel.prefixes("ab", "").shape == (2, 0)
    assert kernel.prefixes(vectors(0), vectors(3)).shape == (0, 3)


def test_prefixes_of_long_texts() -> None:
    x, y = vectors(120, 2), vectors(90, 2, seed=1)
    found = StringKernel(3, 0.8).prefixes(x, y)
    assert found.shape == (120, 90)
    for s, t in [(120, 90), (120, 3), (57, 64), (2, 90)]:
        expected = string_gram([x[:s]], [y[:t]], 3, 0.8, kernel=looped)
        scale = max(1.0, expected.abs().item())
        close(found[s - 1, t - 1] / scale, expected[0, 0] / scale)


# Derivatives -------------------------------------------------------------------------------------


@of_variants
@pytest.mark.parametrize(("order", "decay"), [(2, 0.0), (3, 0.6)])
def test_gradients(variant: dict[str, Any], order: int, decay: float) -> None:
    kernel = StringKernel(order, decay, **variant)
    xs = [vectors(length, 2, seed=length).requires_grad_() for length in [4, 1]]
    y = vectors(3, 2, seed=9).requires_grad_()

    def gram(*texts: Tensor) -> Tensor:
        return kernel(list(texts[:2]), [texts[2], vectors(0, 2)])

    assert torch.autograd.gradcheck(gram, (*xs, y))


@pytest.mark.parametrize(("order", "decay"), [(1, 0.5), (2, 1.0)])
@pytest.mark.parametrize("normalize", [False, "weights", "cosine"])
def test_gradients_of_every_call(order: int, decay: float, normalize: bool | str) -> None:
    kernel = StringKernel(order, decay, normalize=normalize)
    texts = tuple(vectors(length, 2, seed=length).requires_grad_() for length in [3, 1, 2])
    assert torch.autograd.gradcheck(lambda *texts: kernel(list(texts)), texts)
    assert torch.autograd.gradcheck(lambda *texts: kernel.diagonal(list(texts)), texts)
    assert torch.autograd.gradcheck(kernel.prefixes, (texts[0], texts[2]))


@pytest.mark.parametrize("normalize", ["weights", "cosine"])
def test_gradients_where_nothing_is_to_normalise(normalize: str) -> None:
    """A text without n-grams, and one of zeros, leave every gradient finite."""
    kernel = StringKernel(2, 0.5, normalize=normalize)
    texts = [torch.zeros(3, 2, dtype=F64), vectors(1, 2), vectors(4, 2), vectors(0, 2)]
    for text in texts:
        text.requires_grad_()
    gradients = torch.autograd.grad(kernel(texts).sum(), texts, allow_unused=True)
    for gradient in gradients:
        assert gradient is None or gradient.isfinite().all()


def test_gradients_of_one_text_leave_the_others() -> None:
    x, y = vectors(4).requires_grad_(), vectors(3, seed=1)
    gram = StringKernel(2, 0.5)([x, y], [y])
    gram[1, 0].backward(retain_graph=True)
    assert x.grad is None or not x.grad.any()
    gram[0, 0].backward()
    assert x.grad is not None and x.grad.any()


def test_brute_force_by_hand() -> None:
    """ "ab" and "aab", span: ab (0) with ab (1) and ab (0)."""
    table = [[1.0, 1.0, 0.0], [0.0, 0.0, 1.0]]
    assert enumerated(table, 3, 2, 0.5, weighting="span") == 1.5
    assert enumerated(table, 3, 2, 0.5) == 1.5  # the first ab weighs λ, the second 1
    assert enumerated(table, 3, 2, 0.5, combine="add") == 0.5 * 1 + 0.5 * 2 + 2
