"""Machines with parts of one's own, in few bits, and states that are changed in place."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn.utils import parametrize

from pyg_kernels.sequence import RKM, DenseFilters, RKMCell, SyncNetFilters
from tests.sequence.rkm_equations import random_rkm, rkm_equations
from tests.sequence.texts import F64, random_text
from tests.sequence.variants import close


class Doubled(nn.Module):
    """A parametrization that counts how often it is read."""

    def __init__(self) -> None:
        super().__init__()
        self.calls = 0

    def forward(self, weight: Tensor) -> Tensor:
        self.calls += 1
        return 2 * weight


@pytest.mark.parametrize("part", ["recurrent.forget", "norm"])
def test_parametrized_parts_are_read_once_a_text(part: str) -> None:
    """Not once a step: a power iteration, or a dropout of weights, is one for the whole text."""
    rkm, plain = (random_rkm(3, 4, layer_norm=True) for _ in range(2))
    doubled = Doubled()
    parametrize.register_parametrization(rkm.get_submodule(f"cells.0.{part}"), "weight", doubled)
    with torch.no_grad():
        plain.get_parameter(f"cells.0.{part}.weight").mul_(2)
    x = random_text(7, 2, 3)
    doubled.calls = 0
    output, _ = rkm(x)
    assert doubled.calls <= 2  # a norm is asked whether it has a weight
    close(output, plain(x)[0])
    (found,) = torch.autograd.grad(output.sum(), doubled_weight(rkm, part))
    (expected,) = torch.autograd.grad(
        plain(x)[0].sum(), plain.get_parameter(f"cells.0.{part}.weight")
    )
    close(found, 2 * expected)


def doubled_weight(rkm: RKM, part: str) -> nn.Parameter:
    return rkm.get_parameter(f"cells.0.{part}.parametrizations.weight.original")


@pytest.mark.parametrize("feedback", [True, False])
def test_another_norm(feedback: bool) -> None:
    """One without an epsilon, too."""
    rkm = random_rkm(3, 4, layer_norm=True, feedback=feedback)
    rkm.cells[0].norm = nn.Identity()
    x = random_text(5, 2, 3)
    close(rkm(x)[0], rkm_equations(rkm.cells[0], x, feedback=feedback).output)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_wide_wavelets_in_half_precision(dtype: torch.dtype) -> None:
    """The rounding of parameters and of the filters, and no other: 300 squared is out of range."""
    torch.manual_seed(0)
    filters = SyncNetFilters(2, 5, [600]).to(dtype)
    (found,) = filters()
    assert found.dtype == dtype
    alpha, omega, phi, raw = (
        p.detach().double()[..., None]
        for p in (filters.alpha, filters.omega[:, None], filters.phi, filters.raw_beta[:, None])
    )
    t = torch.arange(600, dtype=F64) - 299.5
    expected = alpha * torch.cos(omega * t + phi) * torch.exp(-torch.log1p(raw.exp()) * t**2)
    rounding = torch.finfo(dtype).eps * expected.abs().max()
    assert (found.double() - expected).abs().max() < rounding + 1e-4 * expected.abs().max()


def test_initial_wavelets_keep_the_variance_of_white_inputs() -> None:
    """And their frequencies cover half a period in the window to half a period a sample."""
    torch.manual_seed(0)
    for n, features in [(40, 11), (9, 1)]:
        filters = SyncNetFilters(features, 3000, [n]).double()
        (weight,) = filters()
        assert weight.square().sum((1, 2)).mean().item() == pytest.approx(1.0, rel=0.05)
        turns = filters.omega * n / math.pi  # half periods in the window
        assert 1 <= turns.min() < 1.01 and 0.99 * n < turns.max() <= n
        quarters = turns.log().div(math.log(n)).histc(4, 0.0, 1.0) / 3000
        assert (quarters - 0.25).abs().max() < 0.001
        height = torch.exp(-filters.beta * ((n - 1) / 2) ** 2)
        close(height, torch.full_like(height, 0.1), rtol=1e-5)


@pytest.mark.parametrize(
    "options",
    [{"cell": "ran"}, {"cell": "general", "q": "identity"}, {"cell": "rkm-lstm"}],
    ids=str,
)
@pytest.mark.parametrize("feedback", [True, False])
def test_the_parts_of_a_state_are_changed_one_by_one(
    options: dict[str, Any], feedback: bool
) -> None:
    cell = RKMCell(3, 4, feedback=feedback, **options)
    with torch.no_grad():
        h, c = cell(torch.randn(2, 3))
        kept = c.clone()
        h.mul_(0.5)
    assert torch.equal(c, kept)


def test_a_module_described_is_one_line() -> None:
    q = nn.Sequential(nn.Tanh(), nn.Softplus())
    text = repr(RKM(3, 4, cell="general", q=q, num_layers=2))
    assert "\n" not in text and "Tanh()" in text and "num_layers=2" in text
    assert "q=sin," in repr(RKM(3, 4, cell="general", q=torch.sin, num_layers=2))
    assert "q='tanh'" in repr(RKM(3, 4, cell="general", q="tanh"))


def test_what_is_refused_by_name() -> None:
    with pytest.raises(TypeError, match=r"GRU: expected a torch\.nn\.LSTM"):
        RKM.from_lstm(nn.GRU(3, 4))  # type: ignore[arg-type]
    filters = DenseFilters(3, 4, [1, 2])
    assert not hasattr(filters, "weight")
    with pytest.raises(AttributeError, match=r"2 widths, expected weights\[b\]"):
        _ = filters.weight
