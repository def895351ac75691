"""Random choices for single tokens: their distributions, closed forms and gradients."""

import pytest
import torch
from torch import Tensor

from pyg_kernels.rationale.choices import BernoulliChoice, Choice, ConcreteChoice, HardKumaChoice
from tests.sequence.texts import F64, close

LOGIT = torch.tensor([-6.0, -1.3, 0.0, 0.4, 3.0], dtype=F64)
SPREAD = torch.tensor([0.3, -2.0, 0.5, -0.4, 1.0], dtype=F64)
GRID = (torch.arange(200_000, dtype=F64) + 0.5) / 200_000
CHOICES: dict[str, Choice] = {
    "bernoulli": BernoulliChoice(),
    "concrete": ConcreteChoice(0.7),
    "hardkuma": HardKumaChoice(),
}
relaxed = pytest.mark.parametrize("choice", [*CHOICES.values()][1:], ids=[*CHOICES][1:])


def draws(choice: Choice) -> Tensor:
    """Selections for evenly spaced uniform numbers, (U, 5); shares equal probabilities to 1e-5."""
    return choice.draw(LOGIT, SPREAD, GRID.unsqueeze(1).expand(-1, 5))


def share(found: Tensor) -> Tensor:
    return found.double().mean(dim=0)


def test_bernoulli() -> None:
    z = draws(CHOICES["bernoulli"])
    assert ((z == 0) | (z == 1)).all()
    close(share(z), torch.sigmoid(LOGIT), atol=1e-5)
    logs = BernoulliChoice().log_prob(LOGIT, torch.stack((torch.zeros(5), torch.ones(5))))
    close(logs.exp(), torch.stack((1 - torch.sigmoid(LOGIT), torch.sigmoid(LOGIT))))
    certain = BernoulliChoice().log_prob(torch.tensor([-800.0]), torch.tensor([0.0]))
    assert certain.item() == 0.0


def test_concrete() -> None:
    """Maddison et al. 2017, appendix B: P(z < v) = sigmoid(τ logit(v) - ℓ)."""
    z = draws(CHOICES["concrete"])
    assert ((z > 0) & (z < 1)).all()
    for value in (0.1, 0.5, 0.8):
        expected = torch.sigmoid(0.7 * torch.logit(torch.tensor(value, dtype=F64)) - LOGIT)
        close(share(z < value), expected, atol=1e-5)
    close(CHOICES["concrete"].probability(LOGIT, SPREAD), torch.sigmoid(LOGIT))


def test_hardkuma() -> None:
    """Zeros, ones and the density between them have the probabilities of the closed form."""
    z, kuma = draws(CHOICES["hardkuma"]), HardKumaChoice()
    a = torch.nn.functional.softplus(SPREAD)
    b = torch.log(torch.sigmoid(LOGIT)) / torch.log(1 - 0.5**a)

    def below(k: float) -> Tensor:
        return 1 - (1 - k**a) ** b

    close(share(z == 0), below(0.1 / 1.2), atol=1e-5)
    close(share(z == 1), 1 - below(1.1 / 1.2), atol=1e-5)
    for value in (0.2, 0.5, 0.9):
        close(share(z <= value), below((value + 0.1) / 1.2), atol=1e-5)
        close(kuma.above(LOGIT, SPREAD, value), 1 - below((value + 0.1) / 1.2))
    close(kuma.probability(LOGIT, SPREAD), 1 - below(0.1 / 1.2))
    close(share(z > 0.5), torch.sigmoid(LOGIT), atol=1e-5)
    assert (share(z == 0) > 0.01).any() and (share(z == 1) > 0.01).any()


@relaxed
def test_gradients(choice: Choice) -> None:
    logit, spread = LOGIT.clone().requires_grad_(), SPREAD.clone().requires_grad_()
    uniform = torch.tensor([0.9, 0.6, 0.5, 0.4, 0.2], dtype=F64)
    assert torch.autograd.gradcheck(lambda a, b: choice.draw(a, b, uniform), (logit, spread))
    assert torch.autograd.gradcheck(choice.probability, (logit, spread))


@relaxed
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
def test_extremes_are_finite(choice: Choice, dtype: torch.dtype) -> None:
    logit = torch.tensor([-200.0, -20.0, 20.0, 200.0], dtype=dtype, requires_grad=True)
    spread = torch.tensor([-200.0, 200.0, -30.0, 0.0], dtype=dtype, requires_grad=True)
    for u in (0.0, 0.5, 1 - torch.finfo(dtype).eps / 2):
        z = choice.draw(logit, spread, torch.full((4,), u, dtype=dtype))
        total = z.sum() + choice.probability(logit, spread).sum()
        found = torch.autograd.grad(total, (logit, spread), allow_unused=True)
        assert z.isfinite().all() and ((z >= 0) & (z <= 1)).all()
        assert all(g is None or g.isfinite().all() for g in found)
