"""From node states to outputs: the sum over nodes, normalisations, the head."""

from __future__ import annotations

from torch import Tensor
from torch.nn import LayerNorm, Module, Sequential
from torch_geometric.nn import BatchNorm, Linear, global_add_pool
from torch_geometric.nn.inits import reset

from pyg_kernels.nn.arguments import Act, build_activation


def sum_over_nodes(x: Tensor, batch: Tensor | None, batch_size: int | None) -> Tensor:
    """The sum of each graph's rows, (num_graphs, D); without a batch vector, one graph."""
    if batch is None:
        if batch_size not in (None, 1):
            raise ValueError(f"batch_size={batch_size} without a batch vector: expected 1 or None")
        return x.sum(dim=0, keepdim=True)
    return global_add_pool(x, batch, batch_size)


def build_norm(norm: str | None, channels: int) -> Module | None:
    """A normalisation that needs no batch vector: of channels, over the batch or over a row.

    Batch normalisation of a single row falls back to the running statistics.

    Raises:
        ValueError: For another name than ``'batch'`` and ``'layer'``.
    """
    if norm is None:
        return None
    if norm == "batch":
        return BatchNorm(channels, allow_single_element=True)
    if norm == "layer":
        return LayerNorm(channels)
    raise ValueError(f"norm={norm!r}: expected 'batch', 'layer' or None")


class GraphHead(Sequential):
    r"""Maps graph vectors to outputs: :math:`y = A_2\, \sigma(A_1 \mathrm{norm}(h_G) + a_1) + a_2`.

    Args:
        in_channels: The size of the graph vectors.
        hidden_channels: The size of the hidden layer.
        out_channels: The number of outputs.
        norm: ``'batch'``, ``'layer'`` or None.
        act: The activation :math:`\sigma`; None for the identity.
    """

    def __init__(
        self,
        in_channels: int,
        hidden_channels: int,
        out_channels: int,
        norm: str | None,
        act: Act,
    ) -> None:
        modules = [
            build_norm(norm, in_channels),
            Linear(in_channels, hidden_channels),
            build_activation(act),
            Linear(hidden_channels, out_channels),
        ]
        super().__init__(*(module for module in modules if module is not None))

    def reset_parameters(self) -> None:
        for module in self:
            reset(module)
