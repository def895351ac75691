"""Adding the products of a token and of its selection gives the same step as joining the two."""

import pytest
import torch
from torch.nn.utils.parametrizations import orthogonal, weight_norm

from pyg_kernels.ops.ragged import Layout
from pyg_kernels.rationale.selection_cell import SelectionCell
from tests.sequence.texts import gradients

LAYOUT = Layout.of_ptr(torch.tensor([0, 4, 5, 8]), 4, 8)


def doubled(cell: SelectionCell, name: str) -> None:
    """Registers a hook that doubles the output of a map."""
    cell.get_submodule(name).register_forward_hook(lambda lin, inputs, output: 2 * output)


CHANGES = {
    "plain": lambda cell: None,
    "parametrized token maps": lambda cell: [
        weight_norm(lin) for lin in (*cell.lins, cell.decay_lin)
    ],
    "parametrized recurrent map": lambda cell: orthogonal(cell.decay_recurrent),
    "hooked map": lambda cell: doubled(cell, "lins.1"),
    "hooked decay": lambda cell: doubled(cell, "decay_lin"),
    "hooked recurrent map": lambda cell: doubled(cell, "decay_recurrent"),
}


@pytest.mark.parametrize("name", CHANGES)
def test_equals_the_step_on_state_and_selection(name: str) -> None:
    torch.manual_seed(0)
    cell = SelectionCell(4, 3).double()
    CHANGES[name](cell)
    states, z = torch.randn(8, 4).double(), torch.rand(8).double()
    given = [states.requires_grad_(), z.requires_grad_(), *cell.parameters()]
    start, found = cell.start(LAYOUT.num_texts, states), []
    for out, end in (
        cell.read(torch.cat((states, z.unsqueeze(1)), dim=1), LAYOUT, start),
        cell.read_chosen(cell.prepared(states), z, LAYOUT, start),
    ):
        found.append([out, *end, *gradients([out, *end], given)])
    torch.testing.assert_close(*found, rtol=1e-12, atol=1e-12)
