"""One step over the selections of a text."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn.functional import pad

from pyg_kernels.nn.linear import UnitLinear
from pyg_kernels.ops.packing import Packing
from pyg_kernels.sequence.rcnn_cell import RCNNCell, Tokens


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
        super().__init__(channels + 1, hidden_size, order=2, mapping="add", decay="recurrent")

    def prepared(self, states: Tensor) -> tuple[Tensor, Tensor | None]:
        r"""What `read_chosen` reads of the states h, (N, channels), one row each.

        Returns:
            Their products with all maps, side by side, and what a selection of 1 adds to such a
            row; or, where a hook sees what the maps are called with, the states and None.
        """
        lins = [*self.lins, self.decay_lin]
        if not all(isinstance(lin, UnitLinear) and lin.unheard for lin in lins):
            return states, None
        rows = pad(states, (0, 1))
        tokens = self._tokens(rows, rows, fused=False)
        assert tokens.decay is not None
        products = torch.cat((*tokens.projections, tokens.decay), dim=1)
        return products, torch.cat([lin.weight[:, -1] for lin in lins])

    def read_chosen(
        self,
        rows: Tensor,
        columns: Tensor | None,
        z: Tensor,
        packing: Packing,
        state: tuple[Tensor, ...],
    ) -> tuple[Tensor, tuple[Tensor, ...]]:
        """As `read` of [h, z], from what is `prepared` of h, and z, one number a row."""
        chosen = z.unsqueeze(1).to(rows.dtype)
        if columns is None:
            return self.read(torch.cat((rows, chosen), dim=1), packing, state)
        both = torch.addcmul(rows, chosen, columns)
        *projections, decay = both.split(self.hidden_size, dim=1)
        h, *carried = state
        tokens = Tokens(tuple(projections), decay, None, None, None)
        if self._steps_in_one_op():
            return self._read_recurrent(tokens, packing, h, tuple(carried), None)
        return self._read_token_by_token(tokens, packing, h, tuple(carried), None, None)
