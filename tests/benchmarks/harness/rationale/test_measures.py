"""Measures of selections against the definition, text by text."""

import math
from fractions import Fraction
from itertools import pairwise

import pytest
import torch
from torch import Tensor

pytest.importorskip("torchmetrics", reason="the benchmark needs the extra 'bench'")

from benchmarks.harness.rationale.measures import (
    Selected,
    SelectionMeasures,
    measured,
    num_selected,
    top_share,
)

LENGTHS = [3, 0, 1, 10, 7, 2, 25, 4]


def texts(seed: int, lengths: list[int]) -> tuple[Tensor, Tensor, Tensor]:
    generator = torch.Generator().manual_seed(seed)
    total = sum(lengths)
    selection = torch.rand(total, generator=generator) < 0.3
    evidence = torch.rand(total, generator=generator) < 0.4
    return selection, evidence, torch.tensor([0, *lengths]).cumsum(0)


def by_definition(selection: Tensor, evidence: Tensor, ptr: Tensor) -> list[float]:
    """The fields of :class:`Selected` with sets of places and exact fractions."""

    def ratio(part: int, whole: int) -> float:
        return float(Fraction(part, whole)) if whole else math.nan

    def mean(ratios: list[Fraction]) -> float:
        return float(sum(ratios) / len(ratios)) if ratios else math.nan

    found = []
    for start, end in zip(ptr[:-1].tolist(), ptr[1:].tolist(), strict=True):
        chosen = {t for t in range(start, end) if selection[t]}
        marks = {t for t in range(start, end) if evidence[t]}
        found.append((len(chosen & marks), len(chosen), len(marks), end - start))
    right, chosen, marks, words = (sum(column) for column in zip(*found, strict=True))
    return [
        ratio(right, chosen),
        ratio(right, marks),
        ratio(chosen, words),
        mean([Fraction(r, z) for r, z, _, _ in found if z]),
        mean([Fraction(r, e) for r, _, e, _ in found if e]),
        mean([Fraction(z, n) for _, z, _, n in found if n]),
        ratio(sum(z == 0 for _, z, _, _ in found), len(found)),
    ]


@pytest.mark.parametrize("seed", range(5))
def test_every_measure_is_its_definition(seed: int) -> None:
    selection, evidence, ptr = texts(seed, LENGTHS)
    expected = by_definition(selection, evidence, ptr)
    assert list(measured(selection, evidence, ptr)) == pytest.approx(expected, abs=1e-12)
    assert list(measured(selection.float(), evidence.int(), ptr)) == pytest.approx(expected)


def test_by_hand() -> None:
    selection = torch.tensor([1, 1, 0, 0, 1, 0, 0, 0])
    evidence = torch.tensor([1, 0, 1, 1, 1, 0, 1, 1])
    found = measured(selection, evidence, torch.tensor([0, 4, 6, 8, 8]))
    assert found == Selected(
        precision=2 / 3,
        recall=2 / 6,
        share=3 / 8,
        text_precision=(1 / 2 + 1) / 2,
        text_recall=pytest.approx((1 / 3 + 1 + 0) / 3),
        text_share=pytest.approx((1 / 2 + 1 / 2 + 0) / 3),
        empty=2 / 4,
    )


def test_batches_add_up() -> None:
    selection, evidence, ptr = texts(7, LENGTHS)
    measures = SelectionMeasures()
    cuts = [0, 3, 4, len(LENGTHS)]
    for first, last in pairwise(cuts):
        words = slice(int(ptr[first]), int(ptr[last]))
        batch = ptr[first : last + 1] - ptr[first]
        measures.update(selection[words], evidence[words], batch)
    assert list(measures.compute()) == pytest.approx(list(measured(selection, evidence, ptr)))
    measures.reset()
    measures.update(selection[:3], evidence[:3], ptr[:2])
    assert measures.compute().share == float(selection[:3].double().mean())


def test_nothing_selected_and_nothing_known() -> None:
    ptr = torch.tensor([0, 2, 5])
    none, everything = torch.zeros(5), torch.ones(5)
    found = measured(none, everything, ptr)
    assert math.isnan(found.precision) and math.isnan(found.text_precision)
    assert (found.recall, found.share, found.text_share, found.empty) == (0, 0, 0, 1)
    found = measured(everything, none, ptr)
    assert math.isnan(found.recall) and math.isnan(found.text_recall)
    assert (found.precision, found.share, found.empty) == (0, 1, 0)
    found = measured(torch.zeros(0), torch.zeros(0), torch.tensor([0]))
    assert all(math.isnan(value) for value in found)
    assert measured(torch.zeros(0), torch.zeros(0), torch.tensor([0, 0])).empty == 1


@pytest.mark.parametrize(
    ("selection", "evidence", "said"),
    [
        (torch.ones(4), torch.ones(5), r"selection must be of shape \(5,\), .* not \(4,\)"),
        (torch.ones(5), torch.ones(5, 1), r"evidence must be of shape \(5,\), .* not \(5, 1\)"),
        (torch.full((5,), 0.5), torch.ones(5), "selection must be 0 or 1"),
        (torch.ones(5), torch.full((5,), torch.nan), "evidence must be 0 or 1"),
    ],
    ids=["short", "matrix", "half", "nan"],
)
def test_what_does_not_fit(selection: Tensor, evidence: Tensor, said: str) -> None:
    with pytest.raises(ValueError, match=said):
        measured(selection, evidence, torch.tensor([0, 2, 5]))


def test_numbers_of_words_that_a_share_is() -> None:
    lengths = torch.arange(41)
    for percent in range(101):
        share = percent / 100
        # Halves up, in whole numbers.
        exact = [(2 * percent * length + 100) // 200 for length in lengths.tolist()]
        least = [0 if not percent else min(length, 1) for length in lengths.tolist()]
        expected = [max(number, one) for number, one in zip(exact, least, strict=True)]
        assert num_selected(lengths, share).tolist() == expected


@pytest.mark.parametrize("share", [0, 0.1, 0.34, 0.5, 1])
@pytest.mark.parametrize("ties", [False, True], ids=["different", "ties"])
def test_the_highest_scores_of_each_text(share: float, ties: bool) -> None:
    ptr = torch.tensor([0, *LENGTHS]).cumsum(0)
    scores = torch.randn(sum(LENGTHS), generator=torch.Generator().manual_seed(3))
    scores = scores.round() if ties else scores
    chosen = top_share(scores, share, ptr)
    numbers = num_selected(ptr.diff(), share).tolist()
    for start, end, number in zip(ptr[:-1].tolist(), ptr[1:].tolist(), numbers, strict=True):
        best = sorted(range(start, end), key=lambda t: (-scores[t].item(), t))[:number]
        assert chosen[start:end].nonzero().flatten().tolist() == sorted(t - start for t in best)


@pytest.mark.parametrize("share", [-0.1, 1.1, math.nan])
def test_shares_that_are_none(share: float) -> None:
    with pytest.raises(ValueError, match="share must be from 0 to 1, got"):
        top_share(torch.ones(2), share, torch.tensor([0, 2]))


def test_scores_of_another_length() -> None:
    with pytest.raises(ValueError, match=r"scores must be of shape \(2,\), .* not \(3,\)"):
        top_share(torch.ones(3), 0.5, torch.tensor([0, 2]))
