"""SyncNet's filters are eq. 21, and their four groups of parameters are learned."""

from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor
from torch.nn.functional import conv1d, pad

from pyg_kernels.sequence import SyncNetFilters
from tests.sequence.rkm_equations import random_rkm
from tests.sequence.texts import F64, close, random_text

CHANNELS, FILTERS = 3, 7
widths = pytest.mark.parametrize("widths", [[5], [40], [2, 5], [4, 3, 8]], ids=str)


def random_filters(widths: list[int]) -> tuple[SyncNetFilters, Tensor]:
    """Filters with every parameter away from its initial value, and their raw beta."""
    torch.manual_seed(0)
    filters = SyncNetFilters(CHANNELS, FILTERS, widths).double()
    for parameter in filters.parameters():
        torch.nn.init.normal_(parameter)
    named = dict(filters.named_parameters())
    (raw,) = (p for name, p in named.items() if name not in ("alpha", "omega", "phi"))
    return filters, raw


@widths
def test_eq_21(widths: list[int]) -> None:
    """One number at a time, with Python's own cosine and exponential."""
    filters, raw = random_filters(widths)
    found = filters()
    assert len(found) == len(widths)
    each, more = divmod(FILTERS, len(widths))
    k = 0
    for b, (n, weight) in enumerate(zip(widths, found, strict=True)):
        size = each + (b < more)
        assert weight.shape == (size, CHANNELS, n)
        for row in weight.tolist():
            beta = math.log1p(math.exp(raw[k].item()))
            omega = filters.omega[k].item()
            for c in range(CHANNELS):
                alpha, phi = filters.alpha[k, c].item(), filters.phi[k, c].item()
                times = [i - (n - 1) / 2 for i in range(n)]
                expected = [
                    alpha * math.cos(omega * t + phi) * math.exp(-beta * t * t) for t in times
                ]
                assert row[c] == pytest.approx(expected, rel=1e-12, abs=1e-14)
            k += 1
    assert k == FILTERS


def test_gradcheck() -> None:
    filters, _ = random_filters([2, 5])
    names = [name for name, _ in filters.named_parameters()]

    def made(*parameters: Tensor) -> tuple[Tensor, ...]:
        given = dict(zip(names, parameters, strict=True))
        return tuple(torch.func.functional_call(filters, given, ()))

    parameters = tuple(p.detach().requires_grad_() for p in filters.parameters())
    assert torch.autograd.gradcheck(made, parameters)
    assert torch.autograd.gradgradcheck(made, parameters, fast_mode=True)


@pytest.mark.parametrize("value", [-1000.0, -3.0, 0.0, 3.0, 1000.0])
def test_beta_is_never_negative(value: float) -> None:
    filters, raw = random_filters([5])
    with torch.no_grad():
        raw.fill_(value)
    assert (filters.beta >= 0).all()
    assert all(w.isfinite().all() for w in filters())
    softplus = max(value, 0.0) + math.log1p(math.exp(-abs(value)))
    close(filters.beta, torch.full((FILTERS,), softplus, dtype=F64))


@pytest.mark.parametrize("n", [4, 5])
def test_the_middle_of_even_and_odd_windows(n: int) -> None:
    """With φ = 0 a filter is symmetric; with φ = π/2 it is odd, 0 in the middle of odd windows."""
    filters, _ = random_filters([n])
    with torch.no_grad():
        filters.phi.zero_()
    (even,) = filters()
    close(even, even.flip(2))
    if n % 2:
        close(even[:, :, n // 2], filters.alpha)
    with torch.no_grad():
        filters.phi.fill_(math.pi / 2)
    (odd,) = filters()
    close(odd, -odd.flip(2))


@pytest.mark.parametrize("cell", ["cnn", "gated-cnn", "rkm-lstm"])
@pytest.mark.parametrize("n", [4, 5])
def test_convolution_with_them_is_conv1d(cell: str, n: int) -> None:
    """The newest sample meets the last tap."""
    rkm = random_rkm(CHANNELS, FILTERS, cell=cell, ngram=n, filters="syncnet", feedback=False)
    part, x = rkm.cells[0], random_text(12, 2, CHANNELS)
    padded = pad(x.permute(1, 2, 0), (n - 1, 0))

    def read(gate: str) -> Tensor:
        (weight,) = part.filters[gate]()
        bias = part.biases[gate] if gate != "candidate" else None
        return conv1d(padded, weight, bias).permute(2, 0, 1)

    memory = read("candidate")
    if cell == "cnn":
        expected = torch.tanh(memory)
    elif cell == "gated-cnn":
        expected = torch.sigmoid(read("output")) * memory
    else:
        c, expected = torch.zeros(2, FILTERS, dtype=F64), torch.empty(12, 2, FILTERS, dtype=F64)
        o, i, f = (torch.sigmoid(read(gate)) for gate in ("output", "input", "forget"))
        for t in range(12):
            c = i[t] * memory[t] + f[t] * c
            expected[t] = o[t] * c
    close(rkm(x)[0], expected)
