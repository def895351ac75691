"""Texts: which tokens are selected, what the encoder sees of them, and what they cost."""

import copy
import io
import itertools
import pickle
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.nn.functional import cross_entropy

from pyg_kernels.rationale import Rationale, Rationalizer
from tests.conftest import TORCH
from tests.rationale.cases import (
    SELECTIONS,
    assert_finite_gradients,
    changes,
    every_selection,
    probabilities,
    rationalizer,
)
from tests.sequence.texts import F64, SIZE, close, joined, pointers, texts

LENGTHS = (5, 0, 1, 7)
LAST_BITS = 0.0 if TORCH >= (2, 11) else 1e-15  # older products depend on operands' addresses
ESTIMATORS = ("reinforce", "gumbel", "hardkuma")
of_both = pytest.mark.parametrize("selection", SELECTIONS)
of_every = pytest.mark.parametrize("estimator", ESTIMATORS)
relaxed = pytest.mark.parametrize("estimator", ["gumbel", "hardkuma"])


def batch(*lengths: int) -> tuple[Tensor, Tensor]:
    pieces = texts(*lengths)
    return joined(pieces), pointers(pieces)


@of_both
@pytest.mark.parametrize("training", [True, False], ids=["training", "evaluation"])
def test_the_encoder_reads_what_is_selected(selection: str, training: bool) -> None:
    """Equals the encoder on each text's selected tokens by themselves; evaluation is not random."""
    model = rationalizer(selection, num_samples=3).train(training)
    x, ptr = batch(*LENGTHS)
    torch.manual_seed(0)
    found = model(x, ptr=ptr)
    samples = 3 if training else 1
    assert found.selection.dtype == torch.bool and found.selection.shape == (samples, 13)
    outputs = found.output.view(samples, 4, 2)
    for s in range(samples):
        for b, (start, end) in enumerate(itertools.pairwise(ptr.tolist())):
            z = found.selection[s, start:end]
            kept = x[start:end][z]
            close(outputs[s, b], model.encoder(kept, ptr=torch.tensor([0, len(kept)]))[0])
            assert found.size[s, b] == z.sum()
            assert found.transitions[s, b] == changes(z)
    expected = model.generator(x, ptr).log_prob(found.selection)
    for b, (start, end) in enumerate(itertools.pairwise(ptr.tolist())):
        close(found.log_prob[:, b], expected[:, start:end].sum(dim=1))
    assert training or torch.equal(model(x, ptr=ptr).selection, found.selection)
    close([*model.given(found.selection.double(), x, ptr=ptr)], [*found])
    close(model.encode(torch.ones(13), x, ptr=ptr), model.encoder(x, ptr=ptr))


@of_both
def test_unselected_tokens_leave_no_trace(selection: str) -> None:
    """Neither the values nor the places of unselected tokens change a single bit of the outputs."""
    model, (x, ptr) = rationalizer(selection), batch(*LENGTHS)
    z = torch.rand(4, 13, generator=torch.Generator().manual_seed(0)) < 0.4
    found = model.encode(z, x, ptr=ptr)
    for s, sample in enumerate(z):
        other = torch.where(sample.unsqueeze(1), x, torch.full_like(x, float("nan")))
        assert torch.equal(model.encode(z[s], other, ptr=ptr), found.view(4, 4, 2)[s])
    grown = torch.cat((x[:2], torch.full((3, SIZE), 9.0, dtype=F64), x[2:]))
    longer = torch.cat((z[:, :2], torch.zeros(4, 3, dtype=torch.bool), z[:, 2:]), dim=1)
    moved = torch.cat((ptr[:1], ptr[1:] + 3))
    assert torch.equal(model.encode(longer, grown, ptr=moved), found)


@of_both
@relaxed
def test_relaxed_training(selection: str, estimator: Any) -> None:
    """All parameters get gradients; tokens count in part as in the encoder's layer."""
    model = rationalizer(selection, estimator=estimator, num_samples=2)
    x, ptr = batch(*LENGTHS)
    torch.manual_seed(0)
    found = model(x, ptr=ptr)
    z = found.selection
    assert z.shape == (2, 13) and ((z >= 0) & (z <= 1)).all() and not ((z == 0) | (z == 1)).all()
    for s in range(2):
        close(found.output.view(2, 4, 2)[s], model.encoder(x, ptr=ptr, selection=z[s]))
    assert_finite_gradients(model, found)
    for name, parameter in model.named_parameters():
        assert parameter.grad is not None and (parameter.grad != 0).any(), name
    found = model.eval()(x, ptr=ptr)
    assert found.selection.dtype == torch.bool and found.selection.shape == (1, 13)
    close(found.output, model.encode(found.selection, x, ptr=ptr))
    assert found.log_prob is None
    assert torch.equal(model(x, ptr=ptr).selection, found.selection)


@relaxed
def test_relaxed_penalties(estimator: Any) -> None:
    """The size is the expected size; transitions are counted only within texts."""
    model = rationalizer(estimator=estimator, num_samples=2)
    x, ptr = batch(3, 2)
    found = model(x, ptr=ptr)
    draws = model.generator(x, ptr=ptr)
    p = model.choice.probability(draws.logit, draws.spread)[0]
    close(found.size, torch.stack((p[:3].sum(), p[3:].sum())).expand(2, 2))
    if estimator == "gumbel":
        apart = found.selection.diff(dim=1).abs()
    else:
        apart = (p[1:] * (1 - p[:-1]) + p[:-1] * (1 - p[1:])).expand(2, 4)
    close(found.transitions, torch.stack((apart[:, :2].sum(1), apart[:, 3]), dim=1))


def test_relaxed_gradient_of_the_generator() -> None:
    """With fixed noise, it is the slope of the objective along the generator's parameters."""
    model = rationalizer("dependent", estimator="gumbel", num_samples=2)
    x, ptr = batch(4, 2)

    def objective(*parameters: Tensor) -> Tensor:
        torch.manual_seed(3)
        found = model(x, ptr=ptr)
        return model.objective(found, found.output.square().sum(dim=1).view(2, 2))

    parameters = tuple(model.generator.parameters())
    tolerance = {"eps": 1e-5, "rtol": 1e-6, "atol": 1e-9}
    assert torch.autograd.gradcheck(objective, parameters, fast_mode=True, **tolerance)


@of_both
@of_every
def test_empty_batches_and_short_texts(selection: str, estimator: Any) -> None:
    for lengths, training in itertools.product([(), (0, 0), (1,), (1, 1)], (True, False)):
        x, ptr = batch(*lengths)
        model = rationalizer(selection, estimator=estimator, num_samples=2).train(training)
        found = model(x, ptr=ptr)
        samples = 2 if training else 1
        assert found.output.shape == (samples * len(lengths), 2)
        assert found.selection.shape == (samples, len(x))
        assert found.size.shape == found.transitions.shape == (samples, len(lengths))
        assert not found.transitions.any()
        assert_finite_gradients(model, found)


def test_cost_and_objective() -> None:
    """In evaluation the objective is the mean cost, and no state changes."""
    model, (x, ptr) = rationalizer().eval(), batch(*LENGTHS)
    found = model.given(torch.arange(26).view(2, 13) % 3 == 0, x, ptr=ptr)
    losses = torch.arange(8.0, dtype=F64).view(2, 4)
    expected = losses + 0.05 * found.size + 0.03 * found.transitions
    close(model.cost(found, losses), expected)
    before = copy.deepcopy(model.state_dict())
    close(model.objective(found, losses), expected.mean())
    for name, value in model.state_dict().items():
        assert torch.equal(value, before[name])
    with pytest.raises(ValueError, match="losses has shape"):
        model.objective(found, losses.mean())


@pytest.mark.parametrize("options", [{}, {"rate": 0.2}, {"estimator": "hardkuma"}], ids=str)
def test_survives_copies(options: dict[str, Any]) -> None:
    model, (x, ptr) = rationalizer(**options), batch(*LENGTHS)
    found = model(x, ptr=ptr)
    model.objective(found, torch.arange(4.0, dtype=F64).view(1, 4))
    model.eval()
    expected, sparsity = model(x, ptr=ptr).output, model.sparsity
    buffer = io.BytesIO()
    torch.save(model.state_dict(), buffer)
    buffer.seek(0)
    fresh = rationalizer(**options).eval()
    fresh.reset_parameters()
    fresh.load_state_dict(torch.load(buffer, weights_only=True))
    for other in (copy.deepcopy(model), pickle.loads(pickle.dumps(model)), fresh):
        torch.testing.assert_close(other(x, ptr=ptr).output, expected, rtol=0, atol=LAST_BITS)
        assert other.sparsity == sparsity
        assert torch.equal(other.baseline.value(), model.baseline.value())


# REINFORCE against the exact gradient: enumerates all selections, each with its probability

SPARSITY, COHERENCE = 0.05, 0.03


def expected_cost(model: Rationalizer, x: Tensor, y: Tensor) -> Tensor:
    """The expected cost of one text, summed over its selections."""
    every = every_selection(len(x))
    kept = [x[z] for z in every]
    output = model.encoder(joined(kept), ptr=pointers(kept))
    losses = cross_entropy(output, y.repeat(len(every)), reduction="none")
    prices = [SPARSITY * int(z.sum()) + COHERENCE * changes(z) for z in every]
    costs = losses + torch.tensor(prices, dtype=F64)
    return probabilities(model.generator, x) @ costs


def slopes(total: Tensor, model: Rationalizer) -> tuple[Tensor, ...]:
    """The gradient of every parameter, or zeros if it has none."""
    options = {"retain_graph": True, "materialize_grads": True}
    return torch.autograd.grad(total, list(model.parameters()), **options)


def joint(model: Rationalizer, pieces: list[Tensor], y: Tensor) -> tuple[Rationale, Tensor, Tensor]:
    """Every selection of the batch as a sample, with its losses and its probability."""
    x, ptr = joined(pieces), pointers(pieces)
    every = every_selection(len(x))
    found = model.given(every, x, ptr=ptr)
    labels = y.repeat(len(every))
    losses = cross_entropy(found.output, labels, reduction="none").view(len(every), len(y))
    return found, losses, found.log_prob.sum(dim=1).exp().detach()


def samples(found: Rationale, numbers: list[int], num_texts: int) -> Rationale:
    """The samples of a rationale with the given numbers."""
    chosen = torch.tensor(numbers)
    rows = (chosen.unsqueeze(1) * num_texts + torch.arange(num_texts)).reshape(-1)
    return Rationale(found.output[rows], *(part[chosen] for part in found[1:]))


@of_both
@pytest.mark.parametrize(
    ("lengths", "count"), [((5,), 1), ((1,), 1), ((2, 0, 3), 1), ((3,), 2), ((2,), 3)], ids=str
)
def test_expectation(selection: str, lengths: tuple[int, ...], count: int) -> None:
    """Averaged over all selections, the estimator gives the exact gradient for any baseline.

    Each of several samples has the others' mean cost as its baseline; the mean is over all tuples.
    """
    model, pieces = rationalizer(selection), texts(*lengths)
    y = torch.tensor([1, 0, 1])[: len(lengths)]
    costs = [expected_cost(model, x, label) for x, label in zip(pieces, y, strict=True)]
    cost = torch.stack(costs).mean()
    gradients = slopes(cost, model)
    found, losses, p = joint(model, pieces, y)
    for baseline in (0.0, 0.8, -2.5) if count == 1 else (0.0,):
        total, value = losses.new_zeros(()), losses.new_zeros(())
        for drawn in itertools.product(range(len(p)), repeat=count):
            numbers = list(drawn)
            model.baseline.total.fill_(baseline)
            model.baseline.weight.fill_(1.0)
            objective = model.objective(samples(found, numbers, len(y)), losses[numbers])
            weight = p[numbers].prod()
            total, value = total + weight * objective, value + weight * objective.detach()
        close(value, cost.detach())
        close(slopes(total, model), gradients, atol=1e-11)
