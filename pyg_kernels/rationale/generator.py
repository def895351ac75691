"""The generator: a distribution over the selections of tokens or atoms."""

from __future__ import annotations

import math
from typing import Literal

from torch import Tensor
from torch.nn import Module

from pyg_kernels.checks import checked_choice, checked_count
from pyg_kernels.nn.linear import Resettable
from pyg_kernels.rationale.control import checked_rate
from pyg_kernels.rationale.selection_cell import SelectionCell
from pyg_kernels.rationale.selections import (
    DependentSelections,
    IndependentSelections,
    Selections,
    TokenNumber,
)
from pyg_kernels.rationale.structures import check_form


class Generator(Resettable, Module):
    r"""A distribution over which tokens of a text, or atoms of a molecule, are selected: the
    generator of Lei's `thesis <https://people.csail.mit.edu/taolei/papers/thesis.pdf>`_ (2017),
    section 3.3.

    With the states :math:`h_t` that a network gives to tokens, selections are independent,

    .. math::
        p(z \mid x) = \prod_t p(z_t \mid x), \qquad
        p(z_t = 1 \mid x) = \mathrm{sigmoid}(w^\top h_t + b),

    or each depends on those before it in its text,

    .. math::
        p(z_t = 1 \mid x, z_{1:t-1}) = \mathrm{sigmoid}(w^\top h_t + v^\top s_{t-1} + b), \qquad
        s_t = f(s_{t-1}, [h_t, z_t]),

    where f is a step of an additive, normalised :class:`~pyg_kernels.sequence.RCNN` of order 2
    with recurrent decay. Calling the generator returns the distribution of selections,
    :class:`~pyg_kernels.rationale.selections.Selections`.

    Args:
        network: Computes the state of each token. On texts it is called as
            ``network(x, ptr=ptr)``, for example a layer of :mod:`pyg_kernels.sequence`, whose
            outputs are the states; on graphs as ``network(x, edge_index, edge_attr)``.
        channels: The size of a state: twice the hidden size for a bidirectional layer.
        selection: ``'independent'`` or ``'dependent'``. Atoms have no order, so graphs need
            ``'independent'``.
        hidden_size: The size of s; unused if selections are independent.
        initial_rate: The rate of selection, in (0, 1), to which b is initialised: the probability
            of z > 1/2, with every estimator.

    Shapes:
        - **input:** tokens, N rows, with ``ptr``, :math:`(B + 1)`; or nodes, N rows, with
          ``edge_index``, :math:`(2, E)`, and perhaps ``edge_attr``
        - **selections:** :math:`(S, N)`, S samples

    Raises:
        ValueError: For sizes below 1, an unknown selection, a rate outside (0, 1), states of the
            wrong shape, and dependent selections of atoms.

    Example:
        >>> import torch
        >>> from pyg_kernels.rationale import Generator
        >>> from pyg_kernels.sequence import RCNN
        >>> generator = Generator(RCNN(5, 8, bidirectional=True), channels=16, initial_rate=0.2)
        >>> x, ptr = torch.rand(11, 5), torch.tensor([0, 7, 11])  # texts of 7 and 4 tokens
        >>> selections = generator(x, ptr)
        >>> z = selections.sample(num_samples=3)
        >>> z.shape, selections.log_prob(z).shape
        (torch.Size([3, 11]), torch.Size([3, 11]))

    See Also:
        :class:`Rationalizer`, which trains it; :class:`WLStates`, its network on graphs.
    """

    def __init__(
        self,
        network: Module,
        channels: int,
        selection: Literal["independent", "dependent"] = "independent",
        hidden_size: int = 30,
        initial_rate: float = 0.5,
    ) -> None:
        super().__init__()
        if not isinstance(network, Module):
            raise ValueError(f"network={network!r}: expected a torch.nn.Module")
        checked_choice(selection, "selection", ("independent", "dependent"))
        checked_rate(initial_rate, "initial_rate")
        self.network, self.selection = network, selection
        self.channels = checked_count(channels, "channels")
        self.hidden_size = checked_count(hidden_size, "hidden_size")
        self.cell: SelectionCell | None = None
        if selection == "dependent":
            self.cell = SelectionCell(channels, hidden_size)
        start = math.log(initial_rate) - math.log1p(-initial_rate)
        self.logit = self._number(start)
        self.spread: TokenNumber | None = None

    def build_spread(self) -> None:
        """Adds a token's second number, which ``'hardkuma'`` needs, if there is none yet."""
        if self.spread is None:
            weight = self.logit.of_token.weight
            self.spread = self._number()
            self.spread.to(weight.device, weight.dtype)

    def _number(self, start: float = 0.0) -> TokenNumber:
        return TokenNumber(self.channels, None if self.cell is None else self.hidden_size, start)

    def forward(
        self,
        x: Tensor,
        ptr: Tensor | None = None,
        edge_index: Tensor | None = None,
        edge_attr: Tensor | None = None,
    ) -> Selections:
        """The distribution of the selections of all tokens."""
        check_form(ptr, edge_index, edge_attr=edge_attr)
        if ptr is None and self.cell is not None:
            raise ValueError(
                "selection='dependent' with edge_index: the atoms of a graph have no order in "
                "which selections could depend on those before; expected selection='independent'"
            )
        if ptr is not None:
            states = self.network(x, ptr=ptr)
        else:
            states = self.network(x, edge_index, edge_attr)
        states = states[0] if isinstance(states, tuple) else states
        expected = (x.size(0), self.channels)
        if not isinstance(states, Tensor) or states.shape != expected:
            found = tuple(states.shape) if isinstance(states, Tensor) else type(states).__name__
            raise ValueError(f"network gives {found}: expected states of shape {expected}")
        if self.cell is None:
            return IndependentSelections(states, self.logit, self.spread)
        assert ptr is not None
        return DependentSelections(states, ptr, self.cell, self.logit, self.spread)

    def extra_repr(self) -> str:
        return f"selection={self.selection!r}"
