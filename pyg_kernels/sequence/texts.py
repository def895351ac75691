"""The forms in which a batch of texts is given, and the one in which the layers read them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import TypeAlias

import torch
from torch import Tensor
from torch.nn.utils.rnn import PackedSequence
from torch_geometric.data import Batch, Data

from pyg_kernels.ops.packing import Packing

Sequences: TypeAlias = Tensor | PackedSequence | Data
_WHOLE = (torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64)


@dataclass(frozen=True)
class Texts:
    """A batch of texts in packed order, and the way back to the form in which it was given.

    Attributes:
        rows: The tokens' features, :obj:`(N, F)`, in the order of the packing.
        packing: Which token of which text each row is.
        order: The given number of each text of the packing, where they were sorted by length.
        batched: Whether the states have a dimension for the texts.
    """

    rows: Tensor
    packing: Packing
    order: Tensor | None
    batched: bool
    _form: _Form

    def restore(self, rows: Tensor) -> Tensor | PackedSequence:
        """One row a token, in the form in which the texts were given."""
        return self._form.restore(rows, self.packing)

    def arrange(self, numbers: Tensor, name: str) -> Tensor:
        """One number a token, given as the texts are but for their features, row by row.

        Raises:
            ValueError: Where there is not one number a token; it says the name.
        """
        return self._form.arrange(numbers, name)

    def sorted(self, state: Tensor, dim: int) -> Tensor:
        """A state of the texts as given, in the order of the packing."""
        return state if self.order is None else state.index_select(dim, self.order)

    def unsorted(self, state: Tensor, dim: int) -> Tensor:
        """A state of the texts of the packing, in the order in which they were given."""
        if self.order is None:
            return state
        return state.index_select(dim, torch.argsort(self.order))


def read_texts(
    x: Sequences,
    batch_first: bool = False,
    ptr: Tensor | None = None,
    mask: Tensor | None = None,
    lengths: Tensor | Sequence[int] | None = None,
) -> Texts:
    """Reads texts in any of the forms that the layers take.

    Args:
        x: A :class:`~torch.nn.utils.rnn.PackedSequence`; a PyG batch of path graphs, with
            features ``x``; tokens of texts one after the other, :obj:`(N, F)`, with :obj:`ptr`;
            or a tensor of shape :obj:`(T, B, F)`, :obj:`(B, T, F)` or, one text, :obj:`(T, F)`.
        batch_first: Whether a tensor has its texts in the first dimension.
        ptr: Where each text begins, and last the number of tokens, :obj:`(B + 1,)`.
        mask: True for tokens, False for padding, wherever it is: of x's shape but for F.
        lengths: The number of tokens of each text of a tensor that is padded on the right.

    Raises:
        ValueError: Where they do not fit each other.
        TypeError: Where x is none of these.
    """
    if isinstance(x, PackedSequence):
        _refuse("a PackedSequence holds its own lengths", ptr=ptr, mask=mask, lengths=lengths)
        return _read_packed(x)
    if isinstance(x, Data):
        _refuse("a path graph holds its own lengths", ptr=ptr, mask=mask, lengths=lengths)
        return _read_graph(x)
    if not isinstance(x, Tensor):
        raise TypeError(
            f"x is a {type(x).__name__}: expected a tensor, a PackedSequence or a PyG Batch"
        )
    if ptr is not None:
        _refuse("a ragged batch (ptr) has no padding", mask=mask, lengths=lengths)
        return _read_ragged(x, ptr)
    if x.dim() not in (2, 3):
        raise ValueError(
            f"x has shape {tuple(x.shape)}: expected {_shape(batch_first)}, or (T, F) for one text"
        )
    if lengths is not None:
        _refuse("lengths were given", mask=mask)
        mask = _mask_of(lengths, x, batch_first)
    return _read_grid(x, batch_first, mask)


def lengths_of(ptr: Tensor, num_tokens: int) -> list[int]:
    """The lengths of the texts of a ragged batch."""
    if not isinstance(ptr, Tensor) or ptr.dim() != 1 or ptr.dtype not in _WHOLE or not len(ptr):
        raise ValueError("ptr: expected whole numbers of shape (num_texts + 1,)")
    bounds = ptr.tolist()
    lengths = [end - start for start, end in pairwise(bounds)]
    if bounds[0] != 0 or any(length < 0 for length in lengths):
        raise ValueError("ptr: expected numbers that start at 0 and never fall")
    if bounds[-1] != num_tokens:
        raise ValueError(f"ptr ends at {bounds[-1]}, but x has {num_tokens} tokens")
    return lengths


class _Form:
    """How the rows lie in what was given: the grid's shape, and the place of each row in it."""

    def __init__(self, shape: Sequence[int], index: Tensor | None, transposed: bool = False):
        self.shape, self.index, self.transposed = tuple(shape), index, transposed

    def restore(self, rows: Tensor, packing: Packing) -> Tensor | PackedSequence:
        if self.index is not None:
            size = 1
            for length in self.shape:
                size *= length
            rows = rows.new_zeros(size, rows.size(1)).index_copy(0, self.index, rows)
        out = rows.view(*self.shape, rows.size(1))
        return out.transpose(0, 1) if self.transposed else out

    def arrange(self, numbers: Tensor, name: str) -> Tensor:
        given = self.shape[::-1] if self.transposed else self.shape
        if not isinstance(numbers, Tensor) or numbers.shape != given:
            found = tuple(numbers.shape) if isinstance(numbers, Tensor) else numbers
            raise ValueError(f"{name}: {found}, expected one number a token, of shape {given}")
        flat = (numbers.t() if self.transposed else numbers).reshape(-1)
        return flat if self.index is None else flat.index_select(0, self.index)


class _PackedForm(_Form):
    def __init__(self, packed: PackedSequence) -> None:
        super().__init__((packed.data.size(0),), None)
        self.packed = packed

    def restore(self, rows: Tensor, packing: Packing) -> Tensor | PackedSequence:
        return self.packed._replace(data=rows)


def _read_packed(x: PackedSequence) -> Texts:
    if x.data.dim() != 2:
        raise ValueError(f"x.data has shape {tuple(x.data.shape)}: expected (num_tokens, F)")
    sizes = tuple(x.batch_sizes.tolist())
    packing = Packing(sizes, sizes[0] if sizes else 0)
    return Texts(x.data, packing, x.sorted_indices, True, _PackedForm(x))


def _read_graph(graph: Data) -> Texts:
    x = graph.x
    if x is None or x.dim() != 2:
        raise ValueError("the path graph has no features x of shape (num_tokens, F)")
    _check_path(graph)
    if isinstance(graph, Batch) and "ptr" not in graph:
        raise ValueError("the batch of path graphs has no ptr: expected one made by path_batch")
    if "ptr" in graph:
        return _read_ragged(x, graph.ptr)
    texts = _read_ragged(x, torch.tensor([0, x.size(0)]))
    return Texts(texts.rows, texts.packing, None, False, texts._form)


def _check_path(graph: Data) -> None:
    edges = graph.edge_index
    if edges is None or not edges.numel():
        return
    source, target = edges
    if bool(((source - target).abs() != 1).any()):
        raise ValueError("edge_index: expected path graphs, whose edges join consecutive tokens")


def _read_ragged(x: Tensor, ptr: Tensor) -> Texts:
    if x.dim() != 2:
        raise ValueError(f"x has shape {tuple(x.shape)}: expected (num_tokens, F) with ptr")
    lengths = lengths_of(ptr, x.size(0))
    packing, order, index = _pack(lengths, torch.arange(x.size(0)))
    if index is not None:
        index = index.to(x.device)
        x = x.index_select(0, index)
    order = None if order is None else order.to(x.device)
    return Texts(x, packing, order, True, _Form((x.size(0),), index))


def _read_grid(x: Tensor, batch_first: bool, mask: Tensor | None) -> Texts:
    batched = x.dim() == 3
    _check_mask(mask, x)
    if not batched:
        x, mask = x.unsqueeze(1), None if mask is None else mask.unsqueeze(1)
    elif batch_first:
        x, mask = x.transpose(0, 1), None if mask is None else mask.t()
    steps, count, features = x.shape
    rows = x.reshape(steps * count, features)
    packing, order, index = Packing.of_equal_lengths(steps, count), None, None
    if mask is not None and not bool(mask.all()):
        kept = mask.t().cpu()
        text, step = kept.nonzero().unbind(1)
        packing, order, index = _pack(kept.sum(1).tolist(), step * count + text, keep_all=False)
        assert index is not None
        index = index.to(x.device)
        rows = rows.index_select(0, index)
        order = None if order is None else order.to(x.device)
    shape = (steps, count) if batched else (steps,)
    return Texts(rows, packing, order, batched, _Form(shape, index, batched and batch_first))


def _pack(
    lengths: Sequence[int], places: Tensor, keep_all: bool = True
) -> tuple[Packing, Tensor | None, Tensor | None]:
    """The packing of texts given one after the other, their order, and the place of each row.

    The order is None where the texts are sorted already, the places where they do not change.
    """
    counts = torch.tensor(list(lengths), dtype=torch.long)
    order = torch.argsort(counts, descending=True, stable=True)
    packing = Packing.of_lengths(counts[order].tolist())
    sorted_already = bool((order == torch.arange(order.numel())).all())
    starts = (counts.cumsum(0) - counts)[order]
    rows = packing.rows(torch.device("cpu"))
    kept = counts[order]
    within = torch.arange(places.numel()) - (kept.cumsum(0) - kept).repeat_interleave(kept)
    by_text = starts.repeat_interleave(kept) + within
    index = places[by_text[rows.place]]
    unchanged = keep_all and bool((index == torch.arange(index.numel())).all())
    return packing, None if sorted_already else order, None if unchanged else index


def _check_mask(mask: Tensor | None, x: Tensor) -> None:
    if mask is None:
        return
    if not isinstance(mask, Tensor):
        raise ValueError(f"mask is a {type(mask).__name__}: expected a tensor of torch.bool")
    if mask.dtype != torch.bool or mask.shape != x.shape[:-1]:
        raise ValueError(
            f"mask has shape {tuple(mask.shape)} and dtype {mask.dtype}: expected "
            f"{tuple(x.shape[:-1])} and torch.bool, True for tokens"
        )


def _mask_of(lengths: Tensor | Sequence[int], x: Tensor, batch_first: bool) -> Tensor:
    """True for the first tokens of each text, as many as it has."""
    if x.dim() != 3:
        raise ValueError(f"lengths: expected None for a single text of shape {tuple(x.shape)}")
    counts = torch.as_tensor(lengths, device=x.device)
    texts, steps = (x.size(0), x.size(1)) if batch_first else (x.size(1), x.size(0))
    if counts.shape != (texts,) or (counts.numel() and counts.dtype not in _WHOLE):
        raise ValueError(
            f"lengths has shape {tuple(counts.shape)} and dtype {counts.dtype}: expected a whole "
            f"number for each of {texts} texts"
        )
    if bool((counts < 0).any()) or bool((counts > steps).any()):
        raise ValueError(f"lengths={counts.tolist()}: expected 0 to {steps}, the padded length")
    mask = torch.arange(steps, device=x.device) < counts.unsqueeze(1)
    return mask if batch_first else mask.t()


def _refuse(why: str, **arguments: object) -> None:
    for name, value in arguments.items():
        if value is not None:
            raise ValueError(f"{name}: {why}, expected None")


def _shape(batch_first: bool) -> str:
    return "(B, T, F)" if batch_first else "(T, B, F)"
