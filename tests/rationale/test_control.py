"""What changes from batch to batch: the running baseline, and the price that leads to a rate."""

from typing import Any

import pytest
import torch
from torch import Tensor
from torch.nn import Module

from pyg_kernels.rationale import Generator, Rationale, Rationalizer
from pyg_kernels.rationale.control import RateControl, RunningBaseline
from pyg_kernels.sequence import RCNN
from tests.rationale.cases import rationalizer
from tests.sequence.texts import F64, close, joined, pointers, texts


def test_running_baseline() -> None:
    """Each batch multiplies earlier weights by the momentum, and the weights sum to one."""
    baseline = RunningBaseline(momentum=0.9).double()
    assert baseline.value() == 0.0
    means: list[float] = []
    for i in range(5):
        costs = torch.arange(6.0, dtype=F64).view(2, 3) * (i + 1)
        baseline.update(costs)
        means.append(float(costs.mean()))
        weights = [0.9**age for age in range(len(means))]
        expected = sum(w * m for w, m in zip(weights, reversed(means), strict=True))
        close(baseline.value(), torch.tensor(expected / sum(weights), dtype=F64))
    before = baseline.value()
    baseline.update(torch.zeros(2, 0))
    assert baseline.value() == before


def whole(**options: Any) -> tuple[Rationalizer, Rationale, Tensor]:
    """A rationalizer, its rationale of two wholly selected texts, and their losses."""
    model, pieces = rationalizer(**options), texts(3, 4)
    found = model.given(torch.ones(7), joined(pieces), ptr=pointers(pieces))
    return model, found, torch.tensor([[1.0, 3.0]], dtype=F64)


def test_the_baseline_of_a_batch_is_of_those_before() -> None:
    model, found, losses = whole()
    costs = model.cost(found, losses)
    weight = model.generator.logit.of_token.weight
    for baseline in (0.0, costs.mean().item(), costs.mean().item()):
        (slope,) = torch.autograd.grad(model.objective(found, losses), weight, retain_graph=True)
        score = ((costs - baseline) * found.log_prob).mean()
        (expected,) = torch.autograd.grad(score, weight, retain_graph=True)
        close(slope, expected)


def test_price() -> None:
    """The stated recurrence, in units of the first batch's loss per token."""
    control = RateControl(0.2, step=0.1, damping=0.5).double()
    assert control.price() == 0.0
    logit = [torch.logit(torch.tensor(p, dtype=F64)) for p in (0.2, 0.5, 0.1)]
    # 2 samples, 2 texts, 10 tokens: half of them are selected, then a tenth
    losses = torch.tensor([[3.0, 1.0], [2.0, 2.0]], dtype=F64)
    control.update(losses, torch.tensor([[5.0, 1.0], [3.0, 1.0]], dtype=F64), 10)
    close(control.unit, torch.tensor(0.4, dtype=F64))
    first = logit[1] - logit[0]
    mu = 0.1 * first
    close(control.price(), 0.4 * (mu + 0.5 * (1 + mu) * first))
    control.update(9 * losses, torch.tensor([[1.0, 0.0], [1.0, 0.0]], dtype=F64), 10)
    second = logit[2] - logit[0]
    mu = mu + 0.1 * (1 + mu) * second
    close(control.price(), 0.4 * (mu + 0.5 * (1 + mu) * second))
    for selected, most in ((5.0, 2.0), (0.0, -2.0)):  # all, then none: the error is clipped
        for _ in range(2):
            mu = control.multiplier.clone()
            control.update(losses, torch.full((2, 2), selected, dtype=F64), 10)
        close(control.multiplier, mu + 0.1 * (1 + mu.abs()) * most)
    assert control.price() < 0.0
    before = control.price()
    control.update(torch.zeros(2, 0), torch.zeros(2, 0), 0)
    assert control.price() == before


def test_sparsity_is_what_the_next_batch_pays() -> None:
    model, found, losses = whole(rate=0.3)
    before = [buffer.clone() for buffer in model.buffers()]
    assert model.sparsity == 0.0
    for bad in (float("nan"), float("inf")):  # no finite loss: it is ignored
        model.objective(found, torch.tensor([[bad, 1.0]], dtype=F64))
        assert all(map(torch.equal, model.buffers(), before))
    model.objective(found, losses)
    assert model.sparsity > 0.0
    close(model.cost(found, losses), losses + model.sparsity * found.size, rtol=1e-6)
    model.reset_parameters()  # resets price and baseline
    close(list(model.buffers()), before, rtol=1e-6)
    assert rationalizer().sparsity == 0.05


class Total(Module):
    """Sums the first feature of all tokens, weighted by the selection if there is one."""

    def forward(self, x: Tensor, ptr: Tensor, selection: Tensor | None = None) -> Tensor:
        worth = x[:, :1] if selection is None else x[:, :1] * selection.unsqueeze(1)
        text = torch.arange(len(ptr) - 1).repeat_interleave(ptr.diff())
        return worth.new_zeros(len(ptr) - 1, 1).index_add(0, text, worth)


@pytest.mark.parametrize(
    ("estimator", "rate", "scale"),
    [("reinforce", 0.5, 0.01), ("gumbel", 0.1, 10.0), ("hardkuma", 0.5, 0.01)],
)
def test_leads_to_the_rate(estimator: Any, rate: float, scale: float) -> None:
    """The rate is reached when losses fall with every selected token, whatever their scale."""
    torch.manual_seed(0)
    generator = Generator(RCNN(3, 4, order=1, decay=0.0), 4)  # tanh(W x + b)
    model = Rationalizer(generator, Total(), rate=rate, estimator=estimator, num_samples=2)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.03)
    shares = []
    for _ in range(250):
        lengths = torch.randint(8, 20, (8,))
        x = torch.rand(int(lengths.sum()), 3)
        ptr = torch.cat((torch.zeros(1).long(), lengths.cumsum(0)))
        found = model(x, ptr=ptr)
        miss = found.output.view(2, 8) / Total()(x, ptr=ptr).view(1, 8) - 1
        optimizer.zero_grad()
        model.objective(found, scale * (1 + miss.square())).backward()
        optimizer.step()
        shares.append(float(found.size.detach().sum() / (2 * len(x))))
    assert abs(sum(shares[-100:]) / 100 - rate) < 0.05


def test_tokens_are_counted_in_single_precision() -> None:
    """There are more tokens than bfloat16 can count."""
    model = rationalizer(sparsity=0.1).float()
    x = torch.zeros(514, joined(texts(1)).size(1))
    with torch.autocast("cpu", torch.bfloat16):
        found = model.given(torch.ones(514), x, ptr=torch.tensor([0, 257, 514]))
    assert found.size.tolist() == [[257.0, 257.0]]
