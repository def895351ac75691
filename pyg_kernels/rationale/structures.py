"""One interface for tokens of texts and atoms of graphs: groups, neighbours and selections.

A text is a path graph, so the two differ only in how neighbours are found and in how the
selected part is given to an encoder.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from functools import cached_property
from typing import Any

import torch
from torch import Tensor
from torch.nn import Module

from pyg_kernels.nn.arguments import checked_batch
from pyg_kernels.segments import pointers
from pyg_kernels.sequence.texts import lengths_of


class Structure(ABC):
    """A batch of B texts or graphs with N tokens or atoms.

    Attributes:
        group: The text or graph of each token or atom, :obj:`(N,)`.
        num_groups: B.
    """

    group: Tensor
    num_groups: int

    @property
    @abstractmethod
    def pairs(self) -> Tensor:
        """The neighbours, each pair once, :obj:`(2, P)`."""

    @abstractmethod
    def encode(self, encoder: Module, x: Tensor, z: Tensor) -> Tensor:
        """The encoder's outputs for the selected tokens alone, :obj:`(S * B, out)`.

        Args:
            encoder: The encoder.
            x: The tokens, N rows.
            z: The selections, :obj:`(S, N)`, bool.
        """

    @property
    def num_rows(self) -> int:
        """N."""
        return self.group.numel()

    def total(self, values: Tensor) -> Tensor:
        """Sums the values of tokens over each text or graph: (S, N) to (S, B)."""
        return self._summed(values, self.group)

    def total_of_pairs(self, values: Tensor) -> Tensor:
        """Sums the values of pairs over each text or graph: (S, P) to (S, B)."""
        return self._summed(values, self.group.index_select(0, self.pairs[0]))

    def _summed(self, values: Tensor, group: Tensor) -> Tensor:
        sums = values.new_zeros(values.size(0), self.num_groups)
        return sums.index_add(1, group, values)

    def _groups_of(self, chosen: Tensor) -> Tensor:
        """The group number s * B + b of each chosen index into the flattened :obj:`(S, N)`."""
        rows = self.num_rows
        group = self.group.index_select(0, chosen % rows)
        return torch.div(chosen, rows, rounding_mode="floor") * self.num_groups + group


class TextStructure(Structure):
    """Texts that lie one after the other.

    Args:
        ptr: The index of each text's first token, then the number of tokens, :obj:`(B + 1,)`.
        num_rows: The number of tokens.
        device: Where the tokens are.
    """

    def __init__(self, ptr: Tensor, num_rows: int, device: torch.device) -> None:
        lengths = torch.tensor(lengths_of(ptr, num_rows), dtype=torch.long)
        self.num_groups = lengths.numel()
        self.group = torch.arange(self.num_groups).repeat_interleave(lengths).to(device)
        self.lengths = lengths.to(device)

    @cached_property
    def pairs(self) -> Tensor:
        first = torch.nonzero(self.group[:-1] == self.group[1:]).squeeze(1)
        return torch.stack((first, first + 1))

    def encode(self, encoder: Module, x: Tensor, z: Tensor) -> Tensor:
        chosen = torch.nonzero(z.reshape(-1)).squeeze(1)
        sizes = torch.bincount(self._groups_of(chosen), minlength=z.size(0) * self.num_groups)
        return encoder(x.index_select(0, chosen % max(1, self.num_rows)), ptr=pointers(sizes))

    def encode_in_part(self, encoder: Module, x: Tensor, z: Tensor) -> Tensor:
        """The encoder's outputs if tokens count in part, with weights z, (S, N), in [0, 1]."""
        rows = x.repeat(z.size(0), *(1 for _ in x.shape[1:]))
        ptr = pointers(self.lengths.repeat(z.size(0)))
        return encoder(rows, ptr=ptr, selection=z.reshape(-1))


class GraphStructure(Structure):
    """Graphs in the format of a PyG batch.

    Args:
        num_rows: The number of nodes.
        edge_index: The edges, :obj:`(2, E)`.
        edge_attr: Their features, E rows, or None.
        batch: The graph of each node, :obj:`(N,)`; None for one graph.
        batch_size: The number of graphs.
        device: Where the nodes are.
    """

    def __init__(
        self,
        num_rows: int,
        edge_index: Tensor,
        edge_attr: Tensor | None,
        batch: Tensor | None,
        batch_size: int | None,
        device: torch.device,
    ) -> None:
        _check_edges(edge_index, edge_attr, num_rows)
        checked_batch(batch, num_rows, batch_size)
        if batch is None:
            batch, batch_size = torch.zeros(num_rows, dtype=torch.long, device=device), 1
        found = int(batch.max()) + 1 if batch.numel() else 0
        if batch.numel() and int(batch.min()) < 0:
            raise ValueError(f"batch has {int(batch.min())}: expected numbers from 0")
        if batch_size is not None and batch_size < found:
            raise ValueError(f"batch_size={batch_size}: expected at least {found}, as batch says")
        self.num_groups = found if batch_size is None else batch_size
        source, target = edge_index
        if bool((batch[source] != batch[target]).any()):
            raise ValueError("edge_index joins nodes of different graphs of batch")
        self.group, self.edge_index, self.edge_attr = batch, edge_index, edge_attr

    @cached_property
    def pairs(self) -> Tensor:
        """The bonds: each pair of distinct neighbours once, whichever edges join them."""
        low, high = self.edge_index.min(dim=0).values, self.edge_index.max(dim=0).values
        key = (low * self.num_rows + high)[low != high].unique()
        size = max(1, self.num_rows)
        return torch.stack((torch.div(key, size, rounding_mode="floor"), key % size))

    def encode(self, encoder: Module, x: Tensor, z: Tensor) -> Tensor:
        rows, flat = max(1, self.num_rows), z.reshape(-1)
        chosen = torch.nonzero(flat).squeeze(1)
        number = flat.long().cumsum(0) - 1  # the rank of each chosen place among the chosen ones
        starts = torch.arange(z.size(0), device=flat.device) * self.num_rows
        source, target = (
            (side.unsqueeze(0) + starts.unsqueeze(1)).reshape(-1) for side in self.edge_index
        )
        kept = torch.nonzero(flat[source] & flat[target]).squeeze(1)
        edges = torch.stack([number[end.index_select(0, kept)] for end in (source, target)])
        attr = self.edge_attr
        if attr is not None:
            attr = attr.index_select(0, kept % max(1, self.edge_index.size(1)))
        return encoder(
            x.index_select(0, chosen % rows),
            edges,
            edge_attr=attr,
            batch=self._groups_of(chosen),
            batch_size=z.size(0) * self.num_groups,
        )


def read_structure(
    x: Tensor,
    ptr: Tensor | None = None,
    edge_index: Tensor | None = None,
    edge_attr: Tensor | None = None,
    batch: Tensor | None = None,
    batch_size: int | None = None,
) -> Structure:
    """Texts if :obj:`ptr` is given, graphs if :obj:`edge_index` is given.

    Raises:
        ValueError: If neither or both are given, or if arguments do not fit each other.
    """
    if not isinstance(x, Tensor) or x.dim() == 0:
        found = tuple(x.shape) if isinstance(x, Tensor) else type(x).__name__
        raise ValueError(f"x: {found}, expected a tensor with one row a token or atom")
    check_form(ptr, edge_index, edge_attr=edge_attr, batch=batch, batch_size=batch_size)
    if ptr is not None:
        return TextStructure(ptr, x.size(0), x.device)
    assert edge_index is not None
    return GraphStructure(x.size(0), edge_index, edge_attr, batch, batch_size, x.device)


def check_form(ptr: Tensor | None, edge_index: Tensor | None, **of_graphs: Any) -> None:
    """Raises a ``ValueError`` unless either texts or graphs are given."""
    if (ptr is None) == (edge_index is None):
        raise ValueError(
            f"ptr and edge_index: {'neither' if ptr is None else 'both'} given, expected ptr for "
            "texts or edge_index for graphs"
        )
    for name, value in of_graphs.items():
        if ptr is not None and value is not None:
            raise ValueError(f"{name} beside ptr: texts have none, expected None")


def checked_selection(z: Tensor, num_rows: int) -> Tensor:
    """Selections of tokens or atoms as a bool tensor :obj:`(S, N)`.

    Raises:
        ValueError: If they have another shape, or numbers other than 0 and 1.
    """
    if isinstance(z, Tensor) and z.dim() == 1:
        z = z.unsqueeze(0)
    if not isinstance(z, Tensor) or z.dim() != 2 or z.size(1) != num_rows:
        found = tuple(z.shape) if isinstance(z, Tensor) else type(z).__name__
        raise ValueError(
            f"selection: {found}, expected a tensor of shape (S, {num_rows}), one column a token "
            "or atom"
        )
    if z.dtype != torch.bool and not bool(((z == 0) | (z == 1)).all()):
        raise ValueError("selection: expected nothing but 0 and 1")
    return z.bool()


def _check_edges(edge_index: Tensor, edge_attr: Tensor | None, num_rows: int) -> None:
    if not isinstance(edge_index, Tensor) or edge_index.layout != torch.strided:
        raise ValueError(
            f"edge_index is a {type(edge_index).__name__}: expected a dense tensor (2, E)"
        )
    if edge_index.dim() != 2 or edge_index.size(0) != 2 or edge_index.dtype != torch.long:
        raise ValueError(
            f"edge_index has shape {tuple(edge_index.shape)} and dtype {edge_index.dtype}: "
            "expected (2, E) and torch.int64"
        )
    if edge_index.numel() and not 0 <= int(edge_index.min()) <= int(edge_index.max()) < num_rows:
        raise ValueError(
            f"edge_index names nodes {int(edge_index.min())} to {int(edge_index.max())}: expected "
            f"0 to {num_rows - 1}"
        )
    if edge_attr is None:
        return
    known = isinstance(edge_attr, Tensor) and edge_attr.dim() > 0
    if not known or edge_attr.size(0) != edge_index.size(1):
        found = tuple(edge_attr.shape) if known else type(edge_attr).__name__
        raise ValueError(
            f"edge_attr: {found}, expected one row for each of {edge_index.size(1)} edges"
        )
