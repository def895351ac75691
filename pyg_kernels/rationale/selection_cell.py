"""One step over the selections of a text."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn.functional import pad

from pyg_kernels.nn.linear import weight_of
from pyg_kernels.ops.ragged import Layout
from pyg_kernels.sequence.rcnn_cell import RCNNCell


class SelectionCell(RCNNCell):
    r"""The step :math:`s_t = f(s_{t-1}, [h_t, z_t])` of dependent selections: the additive,
    normalised RCNN of bigrams and recurrent decay.

    What its maps make of :math:`h_t` does not depend on any selection. It is computed for all
    tokens at once, and :math:`z_t` times a column of each map is added when it is known.

    Args:
        channels: The size of a token's state h.
        hidden_size: The size of s.
    """

    def __init__(self, channels: int, hidden_size: int) -> None:
        super().__init__(channels + 1, hidden_size, order=2, combine="add", decay="recurrent")

    def prepared(self, states: Tensor) -> Tensor:
        """What `read_chosen` reads of the states h, (N, channels): their products with all maps."""
        return self.products(pad(states, (0, 1)))

    def read_chosen(
        self, products: Tensor, z: Tensor, layout: Layout, state: tuple[Tensor, ...]
    ) -> tuple[Tensor, tuple[Tensor, ...]]:
        """As `read` of [h, z], from what is `prepared` of h, and z, one number a row."""
        chosen = torch.cat([weight_of(lin)[:, -1] for lin in self.maps()])
        both = torch.addcmul(products, z.unsqueeze(1).to(products.dtype), chosen)
        return self.walk(both, None, layout, state)
