"""The Weisfeiler-Lehman kernel network."""

from __future__ import annotations

import functools
from collections.abc import Iterable, Sequence
from itertools import product
from typing import Any, Literal, cast

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.nn import Module, ModuleList
from torch_geometric.nn.dense.linear import is_uninitialized_parameter

from pyg_kernels.checks import checked_choice, checked_count
from pyg_kernels.nn.arguments import Act, checked_combine, checked_dropout
from pyg_kernels.nn.conv import WLKernelConv
from pyg_kernels.nn.linear import UnitLinear
from pyg_kernels.nn.models.graph_net import GraphNet
from pyg_kernels.nn.models.graph_vector import GraphHead, build_norm
from pyg_kernels.ops.edges import Edges
from pyg_kernels.ops.operator import is_readable
from pyg_kernels.walk import Combine


class WLKernelNet(GraphNet):
    r"""The Weisfeiler-Lehman kernel network of Lei et al., `"Deriving Neural Architectures from
    Sequence and Graph Kernels" <https://arxiv.org/abs/1705.09037>`_ (2017), section 3.4.

    .. math::
        h^{(0)} &= E f, \qquad (h^{(l)}, c_n^{(l)}) = \mathrm{WLKernelConv}(h^{(l-1)}) \\
        h_G &= \sum_{l=1}^{L} \sum_v c_n^{(l)}[v] \\
        y &= A_2\, \sigma(A_1 \mathrm{norm}(h_G) + a_1) + a_2

    With :obj:`readout='sum'`, :obj:`gated=False` and neither normalisation nor dropout,
    channel k of :math:`h_G` is :math:`\sum_{i=0}^{L-1} K_W^n(r^i(G), \mathrm{chain}_k^{(i+1)})`,
    where r is the relabelling and the reference chain carries the k-th rows of layer i + 1's
    matrices (proposition 2 of the paper; eq. 11 has one term more).

    Args:
        in_channels: The number of node features F; -1 to read it off the first input.
        hidden_channels: The number of channels D.
        out_channels: The number of outputs per graph.
        num_iterations: The number of iterations L.
        order: The number of nodes n in a walk, at least 1.
        gated: Whether gates take the decay's place.
        decay: A number in [0, 1] or ``'learned'``; leave it at its default if :obj:`gated`.
        act: The activation of the relabelling and of the head.
        relabel: How the relabelling combines its two terms: ``'add'`` or ``'mul'``.
        edge_dim: The number of edge features, or None where edges have none.
        tie_weights: ``'all'``: the iterations share all matrices (as in the authors' code);
            ``'relabel'``: only :math:`U_1, U_2, V` (as in the paper); None: they share nothing.
        readout: ``'sum'``: over all iterations (as in the paper). ``'last'``: the states of the
            last iteration (as in the authors' code); without ``tie_weights='all'`` the walks of
            earlier iterations then get no gradients, and DDP needs ``find_unused_parameters``.
            ``'concat'``: the iterations' sums over nodes side by side,
            :math:`h_G = [\sum_v c_n^{(1)}[v], \ldots, \sum_v c_n^{(L)}[v]]`, so that the head sees
            each iteration (the jumping knowledge of Xu et al. 2018,
            https://arxiv.org/abs/1806.03536).
        norm: The normalisation of the labels before their activation, and of the graph vector:
            ``'batch'`` or ``'layer'``. ``'head'`` normalises the graph vector alone, over the
            batch; None, as in the paper, normalises nothing.
        dropout: The probability of dropping a channel of the labels.

    Shapes:
        - **input:** node features :math:`(N, F)`; edge indices :math:`(2, E)` or a transposed
          sparse adjacency; edge weights :math:`(E)`; edge features :math:`(E, F_e)`; graph of each
          node :math:`(N)`
        - **output:** :math:`(B, \mathrm{out\_channels})`

    Raises:
        ValueError: For sizes below 1, an unknown :obj:`tie_weights` or :obj:`readout`, and as
            :class:`~pyg_kernels.nn.WLKernelConv`.

    Example:
        >>> from torch_geometric.data import Batch
        >>> from pyg_kernels.chem import MolFeaturizer
        >>> from pyg_kernels.nn import WLKernelNet
        >>> mols = Batch.from_data_list([MolFeaturizer()(smiles) for smiles in ("CCO", "c1ccccc1")])
        >>> net = WLKernelNet(mols.num_features, 32, 1, edge_dim=mols.num_edge_features)
        >>> net(mols.x, mols.edge_index, edge_attr=mols.edge_attr, batch=mols.batch).shape
        torch.Size([2, 1])

    See Also:
        :class:`WLKernelConv`, the layer; :class:`~pyg_kernels.kernels.WLKernel`, the kernel;
        :class:`~pyg_kernels.rationale.WLStates`, the same states node by node;
        :func:`~pyg_kernels.explain.model_contributions`.
    """

    _shared: Sequence[tuple[int, str]] = ()  # layer and name of each part shared with the first

    def __init__(
        self,
        in_channels: int,
        hidden_channels: int,
        out_channels: int,
        num_iterations: int = 4,
        order: int = 2,
        gated: bool = True,
        decay: float | str = 0.5,
        act: Act = "relu",
        relabel: Combine = "add",
        edge_dim: int | None = None,
        tie_weights: Literal["all", "relabel"] | None = "all",
        readout: Literal["sum", "last", "concat"] = "sum",
        norm: str | None = "batch",
        dropout: float = 0.0,
    ) -> None:
        super().__init__(hidden_channels, out_channels, edge_dim)
        checked_count(num_iterations, "num_iterations")
        checked_combine(relabel, "relabel")
        checked_choice(tie_weights, "tie_weights", ("all", "relabel", None))
        self.readout = checked_choice(readout, "readout", ("sum", "last", "concat"))
        self.dropout = checked_dropout(dropout)
        self.embedding = UnitLinear(in_channels, hidden_channels)
        options = {"order": order, "decay": decay, "gated": gated, "act": act, "edge_dim": edge_dim}
        convs = build_iterations(hidden_channels, num_iterations, relabel, norm, **options)
        named: dict[str | None, tuple[str, ...]] = {"all": ("walk", "relabeling"), None: ()}
        every = product(range(1, num_iterations), named.get(tie_weights, ("relabeling",)))
        self._shared = [(k, name) for k, name in every if getattr(convs[k], name) is not None]
        for k, name in self._shared:
            # torch.func.functional_call would not restore a submodule that two layers have.
            delattr(convs[k], name)
        self.register_load_state_dict_pre_hook(_without_copies)
        self.convs = ModuleList(convs)
        self.share()
        width = hidden_channels * (num_iterations if readout == "concat" else 1)
        self.head = GraphHead(width, hidden_channels, out_channels, norm, act)

    def share(self) -> None:
        """Gives later layers the shared parts that the first layer has now."""
        for k, name in self._shared:
            own, now = self.convs[k].__dict__, getattr(self.convs[0], name)
            # A module that was put into a later layer belongs to that layer.
            if own.get(name) is not now and name not in dict(self.convs[k].named_children()):
                own[name] = now

    def _states(self, x: Tensor, edges: Edges) -> Tensor:
        self.share()
        passes = iterations(self.convs, self.embedding(x), edges, self.dropout, self.training)
        states = [state for _, state in passes]
        if self.readout == "sum":
            return functools.reduce(torch.add, states)
        return states[-1] if self.readout == "last" else torch.cat(states, dim=1)


def _without_copies(net: Module, state: dict[str, Any], prefix: str, *_: Any) -> None:
    """Removes copies of shared parts from a state: older states hold one per later layer."""
    net = cast(WLKernelNet, net)
    for k, name in net._shared:
        if name in dict(net.convs[k].named_children()):
            continue  # the layer has its own
        later, first = f"{prefix}convs.{k}.{name}.", f"{prefix}convs.0.{name}."
        for key in [key for key in state if key.startswith(later)]:
            original = state.get(first + key.removeprefix(later))
            if original is not None and _is_copy(state[key], original):
                del state[key]


def _is_copy(value: Tensor, original: Tensor) -> bool:
    """Whether two tensors are equal; also True where their numbers cannot be read."""
    empty = any(map(is_uninitialized_parameter, (value, original)))
    if value is original or empty or not is_readable(value, original):
        return True
    if value.shape != original.shape:
        return False
    return torch.allclose(value.to(original), original, rtol=0, atol=0, equal_nan=True)


def build_iterations(
    channels: int, num_iterations: int, relabel: Combine, norm: str | None, **options: Any
) -> list[WLKernelConv]:
    """One layer per iteration; the last one has no relabelling."""
    before = [
        WLKernelConv(channels, relabel=relabel, norm=build_norm(norm, channels), **options)
        for _ in range(num_iterations - 1)
    ]
    return [*before, WLKernelConv(channels, relabel=None, **options)]


def iterations(
    convs: Iterable[Module],
    label: Tensor,
    edges: Edges,
    dropout: float = 0.0,
    training: bool = False,
) -> list[tuple[Tensor, Tensor]]:
    """The labels that each iteration reads, and the states that it gives."""
    found = []
    *before, last = convs
    for conv in before:
        new_label, state = conv(label, edges, return_states=True)
        found.append((label, state))
        label = F.dropout(new_label, dropout, training)
    return [*found, (label, last(label, edges))]
