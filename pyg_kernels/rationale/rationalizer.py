"""Generator and encoder together, and the objective of both."""

from __future__ import annotations

import math
from typing import Literal, NamedTuple

import torch
from torch import Tensor
from torch.nn import Module

from pyg_kernels.checks import checked_choice, checked_count, is_number
from pyg_kernels.nn.linear import Resettable
from pyg_kernels.rationale.choices import (
    BernoulliChoice,
    Choice,
    ConcreteChoice,
    HardKumaChoice,
    sampled_transition,
)
from pyg_kernels.rationale.control import RateControl, RunningBaseline, checked_rate
from pyg_kernels.rationale.generator import Generator
from pyg_kernels.rationale.selections import Selections
from pyg_kernels.rationale.structures import (
    Structure,
    TextStructure,
    checked_selection,
    read_structure,
)

Estimator = Literal["reinforce", "gumbel", "hardkuma"]


class Rationale(NamedTuple):
    r"""Selections in a batch of B texts or graphs with N tokens or atoms, and their outputs.

    Attributes:
        output: The encoder's outputs for the selected tokens, :obj:`(S * B, out)`, sample by
            sample.
        selection: The selections, :obj:`(S, N)`: bool, or numbers in [0, 1] if relaxed.
        log_prob: The log-probability of each selection, :obj:`(S, B)`; None with a relaxed
            estimator.
        size: The number of selected tokens :math:`\|z\|`, :obj:`(S, B)`. For relaxed selections,
            the sum of the probabilities that the estimator penalises. If selections are dependent,
            each probability is conditional on the draws before it.
        transitions: :math:`\sum |z_u - z_v|` over neighbours, each pair once, :obj:`(S, B)`; for
            relaxed ``'hardkuma'`` selections its expectation as if the two were independent.
    """

    output: Tensor
    selection: Tensor
    log_prob: Tensor | None
    size: Tensor
    transitions: Tensor


class Rationalizer(Resettable, Module):
    r"""Learns a prediction together with a rationale, the few tokens or atoms that suffice for it:
    Lei's `thesis <https://people.csail.mit.edu/taolei/papers/thesis.pdf>`_ (2017), section 3.3.

    A generator draws a selection :math:`z \sim p(z \mid x)`, and an encoder reads only the
    selected tokens. Both minimise the expectation of

    .. math::
        \mathrm{cost}(z, x, y) = \mathcal{L}(\mathrm{enc}(z, x), y) + \lambda_1 \|z\| +
        \lambda_2 \sum_{t \ge 2} |z_t - z_{t-1}|.

    On graphs the second sum runs over bonds. The gradient is estimated in one of these ways:

    - ``'reinforce'`` (the thesis): selections are drawn,
      :math:`\nabla = \nabla \mathrm{cost} + (\mathrm{cost} - \beta) \nabla \log p(z \mid x)`. The
      baseline :math:`\beta` is the mean cost of the other samples of the text or, with one
      sample, a running mean. This estimator is unbiased.
    - ``'gumbel'`` and ``'hardkuma'`` (texts only): in training tokens count in part, as described
      in ``RCNN(..., selection=)``, so that the cost is differentiable in the selection
      (:class:`~pyg_kernels.rationale.choices.ConcreteChoice` and
      :class:`~pyg_kernels.rationale.choices.HardKumaChoice`).

    In evaluation the most probable selection is taken, without randomness. It is a hard selection
    with every estimator.

    Args:
        generator: The generator.
        encoder: Returns one row per text or graph. On texts it is called with the selected tokens
            as ``encoder(x, ptr=ptr)`` and must accept empty texts. In training with a relaxed
            estimator it is called with all tokens and their weights as
            ``encoder(x, ptr=ptr, selection=z)`` (:class:`SequenceEncoder`). On graphs it is called
            with the subgraphs that the selected atoms induce, like models of :mod:`pyg_kernels.nn`:
            ``encoder(x, edge_index, edge_attr=..., batch=..., batch_size=...)``.
        sparsity: :math:`\lambda_1`, at least 0. Either it or :obj:`rate` is given.
        coherence: :math:`\lambda_2`, at least 0.
        estimator: ``'reinforce'``, ``'gumbel'`` or ``'hardkuma'``.
        rate: The share of tokens to select, in (0, 1). In training `objective` then adjusts
            :math:`\lambda_1` until :obj:`size` is this share of all tokens
            (:class:`~pyg_kernels.rationale.control.RateControl`); with ``'hardkuma'`` this counts
            partly selected tokens, too. Objectives of different epochs then differ in their price.
        num_samples: The number of selections S drawn in training.
        temperature: The temperature of the relaxation ``'gumbel'``.

    Shapes:
        - **input:** tokens, N rows, with ``ptr``, :math:`(B + 1)`; or nodes, N rows, with
          ``edge_index``, :math:`(2, E)`, ``edge_attr`` with E rows, ``batch``, :math:`(N)`, and
          ``batch_size``
        - **output:** :class:`Rationale`, with S = 1 in evaluation

    Raises:
        ValueError: For arguments out of range, both or neither of :obj:`sparsity` and
            :obj:`rate`; for inputs that are neither texts nor graphs; and for graphs with a
            relaxed estimator or a dependent generator.
        TypeError: If the generator is not a :class:`Generator`, if the encoder is not a module,
            or if, in training with a relaxed estimator, tokens cannot count in part in the encoder.

    Example:
        >>> import torch
        >>> from pyg_kernels.rationale import Generator, Rationalizer, SequenceEncoder
        >>> from pyg_kernels.sequence import RCNN
        >>> encoder = SequenceEncoder(RCNN(5, 8), channels=8, out_channels=1)
        >>> generator = Generator(RCNN(5, 8), channels=8)
        >>> model = Rationalizer(generator, encoder, rate=0.2, num_samples=2)
        >>> x, ptr, y = torch.rand(11, 5), torch.tensor([0, 7, 11]), torch.ones(2, 1)
        >>> rationale = model(x, ptr)
        >>> rationale.output.shape, rationale.selection.shape
        (torch.Size([4, 1]), torch.Size([2, 11]))
        >>> losses = (rationale.output - y.repeat(2, 1)).square().view(2, 2)  # (S, B)
        >>> model.objective(rationale, losses).backward()

    See Also:
        :class:`Generator` and :class:`SequenceEncoder`, its parts;
        :func:`~pyg_kernels.explain.ngram_contributions`, the contribution of every token.
    """

    def __init__(
        self,
        generator: Generator,
        encoder: Module,
        sparsity: float | None = None,
        coherence: float = 0.0,
        estimator: Estimator = "reinforce",
        rate: float | None = None,
        num_samples: int = 1,
        temperature: float = 1.0,
    ) -> None:
        super().__init__()
        if not isinstance(generator, Generator):
            raise TypeError(f"generator is a {type(generator).__name__}: expected a Generator")
        if not isinstance(encoder, Module):
            raise TypeError(f"encoder is a {type(encoder).__name__}: expected a torch.nn.Module")
        if (sparsity is None) == (rate is None):
            raise ValueError(
                f"sparsity={sparsity!r} and rate={rate!r}: expected one of them, the price of a "
                "token or the share to select"
            )
        self.choice = _choice(estimator, temperature)
        self.generator, self.encoder, self.estimator = generator, encoder, estimator
        if isinstance(self.choice, HardKumaChoice):
            generator.build_spread()
        self.coherence = _checked_price(coherence, "coherence")
        self.num_samples = checked_count(num_samples, "num_samples")
        self._sparsity = None if sparsity is None else _checked_price(sparsity, "sparsity")
        self.control = None if rate is None else RateControl(checked_rate(rate, "rate"))
        self.baseline = RunningBaseline()

    @property
    def sparsity(self) -> float:
        r"""The :math:`\lambda_1` that the next batch will use."""
        return float(self._price(self.baseline.total))

    def forward(
        self,
        x: Tensor,
        ptr: Tensor | None = None,
        edge_index: Tensor | None = None,
        edge_attr: Tensor | None = None,
        batch: Tensor | None = None,
        batch_size: int | None = None,
    ) -> Rationale:
        structure = self._checked(read_structure(x, ptr, edge_index, edge_attr, batch, batch_size))
        found = self.generator(x, ptr, edge_index, edge_attr)
        if not self.training:
            z = found.most_probable().unsqueeze(0)
        elif self.choice.relaxed:
            assert isinstance(structure, TextStructure)
            return self._relaxed(x, structure, found)
        else:
            z = found.sample(self.num_samples)
        return self._hard(x, structure, found, z)

    def given(
        self,
        selection: Tensor,
        x: Tensor,
        ptr: Tensor | None = None,
        edge_index: Tensor | None = None,
        edge_attr: Tensor | None = None,
        batch: Tensor | None = None,
        batch_size: int | None = None,
    ) -> Rationale:
        """Like a call of the model, but with given hard selections :obj:`(S, N)` or :obj:`(N,)`.

        With a relaxed estimator the generator gets no gradient from them.
        """
        structure = self._checked(read_structure(x, ptr, edge_index, edge_attr, batch, batch_size))
        z = checked_selection(selection, structure.num_rows)
        return self._hard(x, structure, self.generator(x, ptr, edge_index, edge_attr), z)

    def encode(
        self,
        selection: Tensor,
        x: Tensor,
        ptr: Tensor | None = None,
        edge_index: Tensor | None = None,
        edge_attr: Tensor | None = None,
        batch: Tensor | None = None,
        batch_size: int | None = None,
    ) -> Tensor:
        """The encoder's outputs for given hard selections, :obj:`(S * B, out)`.

        Pass ``~rationale.selection`` for all but the rationale, or ones for the whole text.
        """
        structure = read_structure(x, ptr, edge_index, edge_attr, batch, batch_size)
        return structure.encode(self.encoder, x, checked_selection(selection, structure.num_rows))

    def cost(self, rationale: Rationale, losses: Tensor) -> Tensor:
        """The cost of each selection, :obj:`(S, B)`, from the losses of its outputs.

        Raises:
            ValueError: If the losses have another shape.
        """
        if losses.shape != rationale.size.shape:
            raise ValueError(
                f"losses has shape {tuple(losses.shape)}: expected one loss a sample and text, "
                f"{tuple(rationale.size.shape)}, not their mean"
            )
        size, transitions = rationale.size, rationale.transitions
        return losses + self._price(losses) * size + self.coherence * transitions

    def objective(self, rationale: Rationale, losses: Tensor) -> Tensor:
        r"""The mean cost, with the gradient that the estimator gives.

        In training it also updates the running baseline and, with a rate, the price of a token.

        Args:
            rationale: The result of a call.
            losses: The loss of each output, :obj:`(S, B)`: ``loss.view(S, B)`` of the unreduced
                losses of ``rationale.output``. If a loss belongs to several texts, such as a query
                and its candidates, each text gets the sum of the losses in which it takes part:
                the other losses say nothing about its selection.

        Raises:
            ValueError: If the losses have another shape.
        """
        costs = self.cost(rationale, losses)
        total = _mean(costs)
        if not self.training:
            return total
        if rationale.log_prob is not None:
            weight = (costs - self._baseline(costs)).detach()
            surrogate = _mean(weight * rationale.log_prob)
            total = total + (surrogate - surrogate.detach())  # a gradient and no value
            self.baseline.update(costs)
        if self.control is not None:
            self.control.update(losses, rationale.size, rationale.selection.size(1))
        return total

    def _price(self, like: Tensor) -> Tensor | float:
        if self.control is not None:
            return self.control.price().to(like)
        assert self._sparsity is not None
        return self._sparsity

    def _baseline(self, costs: Tensor) -> Tensor:
        """What the cost of a sample is compared with, which must not depend on that sample."""
        samples = costs.size(0)
        if samples == 1:
            return self.baseline.value().to(costs)
        return (costs.sum(dim=0, keepdim=True) - costs) / (samples - 1)

    def _checked(self, structure: Structure) -> Structure:
        if self.choice.relaxed and not isinstance(structure, TextStructure):
            raise ValueError(_NO_PART.format(self.estimator))
        return structure

    def _hard(self, x: Tensor, structure: Structure, found: Selections, z: Tensor) -> Rationale:
        log_prob = None if self.choice.relaxed else structure.total(found.log_prob(z))
        output = structure.encode(self.encoder, x, z)
        numbers = z.to(torch.promote_types(output.dtype, torch.float32))  # they count tokens
        changes = sampled_transition(numbers, structure.pairs)
        size, transitions = structure.total(numbers), structure.total_of_pairs(changes)
        return Rationale(output, z, log_prob, size, transitions)

    def _relaxed(self, x: Tensor, structure: TextStructure, found: Selections) -> Rationale:
        z, logit, spread = found.draw(self.choice, self.num_samples)
        output = structure.encode_in_part(self.encoder, x, z)
        size = self.choice.probability(logit, spread).expand_as(z)
        changes = self.choice.transition(logit, spread, z, structure.pairs)
        return Rationale(output, z, None, structure.total(size), structure.total_of_pairs(changes))

    def extra_repr(self) -> str:
        control = self.control
        price = f"sparsity={self._sparsity}" if control is None else f"rate={control.rate}"
        return f"estimator={self.estimator!r}, coherence={self.coherence}, {price}"


_NO_PART = (
    "estimator={!r} with graphs: it selects atoms in part, and no walk through such an atom is "
    "defined for any graph model (norms and sums over nodes see it whole); expected "
    "estimator='reinforce'"
)


def _choice(estimator: str, temperature: float) -> Choice:
    if not is_number(temperature) or not temperature > 0 or not math.isfinite(temperature):
        raise ValueError(f"temperature={temperature!r}: expected a number above 0")
    choices: dict[str, Choice] = {
        "reinforce": BernoulliChoice(),
        "gumbel": ConcreteChoice(temperature),
        "hardkuma": HardKumaChoice(),
    }
    return choices[checked_choice(estimator, "estimator", choices)]


def _checked_price(price: float, name: str) -> float:
    if not is_number(price) or not math.isfinite(price) or price < 0:
        raise ValueError(f"{name}={price!r}: expected a number of at least 0")
    return float(price)


def _mean(values: Tensor) -> Tensor:
    """The mean, or 0 if there are no values."""
    return values.sum() / max(1, values.numel())
