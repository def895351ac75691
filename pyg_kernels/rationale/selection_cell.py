"""One step over the selections of a text."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn.functional import pad

from pyg_kernels.nn.linear import weight_of
from pyg_kernels.ops.ragged import Layout
from pyg_kernels.sequence.rcnn_cell import RCNNCell


class SelectionCell(RCNNCell):
    r"""The step :math:`s_t = f(s_{t-1}, [h_t, z_t])` of dependent selections: an additive,
    normalised RCNN of order 2 with recurrent decay.

    The products of its maps with :math:`h_t` do not depend on any selection and are computed for
    all tokens at once. Once :math:`z_t` is known, its product with a column of each map is added.

    Args:
        channels: The size of a token's state h.
        hidden_size: The size of s.
    """

    def __init__(self, channels: int, hidden_size: int) -> None:
        super().__init__(channels + 1, hidden_size, order=2, combine="add", decay="recurrent")

    def prepared(self, states: Tensor) -> Tensor:
        """The products of the states h, (N, channels), with all maps, for `read_chosen`."""
        return self.products(pad(states, (0, 1)))

    def read_chosen(
        self, products: Tensor, z: Tensor, layout: Layout, state: tuple[Tensor, ...]
    ) -> tuple[Tensor, tuple[Tensor, ...]]:
        """Does what `read` does on [h, z], given `prepared(h)` and z, one number per row."""
        chosen = torch.cat([weight_of(lin)[:, -1] for lin in self.maps()])
        both = torch.addcmul(products, z.unsqueeze(1).to(products.dtype), chosen)
        return self.walk(both, None, layout, state)
