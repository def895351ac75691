import math
from collections import Counter

import pytest
import torch

from pyg_kernels.datasets import UniformBins


def test_bins_are_half_open_ranges_of_the_width():
    values = torch.tensor([-0.05, -0.01, 0.0, 0.049, 0.05, 0.12, 7.0], dtype=torch.float64)
    bins = UniformBins(values, width=0.05)
    assert bins.bins.tolist() == [0, 0, 1, 1, 2, 3, 4]
    assert bins.counts.tolist() == [2, 2, 1, 1, 1]
    assert len(bins) == 7


def test_bins_are_equally_likely_within_sampling_error():
    generator = torch.Generator().manual_seed(0)
    values = torch.randn(5000, dtype=torch.float64, generator=generator).exp()
    bins = UniformBins(values, width=0.05)
    num = 100_000
    drawn = bins.draw(num, generator)
    counts = torch.bincount(bins.bins[drawn], minlength=len(bins.counts)).double()
    expected = num / len(bins.counts)
    # Chi-squared with K - 1 degrees of freedom has mean K - 1 and variance 2 (K - 1).
    chi_squared = ((counts - expected) ** 2 / expected).sum().item()
    freedom = len(bins.counts) - 1
    assert abs(chi_squared - freedom) < 4 * math.sqrt(2 * freedom)


def test_items_of_a_bin_are_equally_likely():
    bins = UniformBins(torch.tensor([1.0] * 7 + [5.0]), width=0.5)
    drawn, again, other = (bins.draw(70_000, torch.Generator().manual_seed(k)) for k in (1, 1, 2))
    assert torch.equal(drawn, again) and not torch.equal(drawn, other)
    counts = Counter(drawn.tolist())
    assert counts[7] / 70_000 == pytest.approx(0.5, abs=0.01)
    for item in range(7):
        assert counts[item] / 70_000 == pytest.approx(0.5 / 7, abs=0.005)


@pytest.mark.parametrize(
    ("values", "width", "message"),
    [
        ([], 0.1, "at least one number"),
        ([1.0, math.nan], 0.1, "must be finite"),
        ([1.0], 0.0, "width must be a positive number, not 0.0"),
        ([1.0], 1e-300, "too small"),
    ],
)
def test_refuses(values, width, message):
    with pytest.raises(ValueError, match=message):
        UniformBins(torch.tensor(values, dtype=torch.float64), width)
