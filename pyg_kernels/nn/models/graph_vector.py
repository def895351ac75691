"""From sums of node states to outputs: normalisations and the head."""

from __future__ import annotations

from collections.abc import Callable

from torch import Tensor
from torch.nn import LayerNorm, Linear, Module, Sequential
from torch_geometric.nn import BatchNorm

from pyg_kernels.checks import checked_choice
from pyg_kernels.nn.arguments import Act, build_activation
from pyg_kernels.nn.linear import Resettable


def build_norm(norm: str | None, channels: int, of_graphs: bool = False) -> Module | None:
    """The normalisation of a layer's states: of each channel over the batch, or of each row.

    It needs no batch vector. Batch normalisation of a single row falls back to the running
    statistics. ``'head'`` normalises only graph vectors, over the batch; for states it gives None.

    Raises:
        ValueError: For a name other than ``'batch'``, ``'layer'`` and ``'head'``.
    """
    checked_choice(norm, "norm", ("batch", "layer", "head", None))
    if norm == "batch" or (norm == "head" and of_graphs):
        return BatchNorm(channels, allow_single_element=True)
    return LayerNorm(channels) if norm == "layer" else None


class Function(Module):
    """Wraps an activation that is not a module as one."""

    def __init__(self, function: Callable[[Tensor], Tensor]) -> None:
        super().__init__()
        self.function = function

    def forward(self, x: Tensor) -> Tensor:
        return self.function(x)


class GraphHead(Resettable, Sequential):
    r"""Maps graph vectors to outputs: :math:`y = A_2\, \sigma(A_1 \mathrm{norm}(h_G) + a_1) + a_2`.

    Args:
        in_channels: The size of the graph vectors.
        hidden_channels: The size of the hidden layer.
        out_channels: The number of outputs.
        norm: ``'batch'`` or ``'head'``, over the batch; ``'layer'``; or None.
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
        built = build_activation(act)
        modules = [
            build_norm(norm, in_channels, of_graphs=True),
            Linear(in_channels, hidden_channels),
            built if built is None or isinstance(built, Module) else Function(built),
            Linear(hidden_channels, out_channels),
        ]
        super().__init__(*(module for module in modules if module is not None))
