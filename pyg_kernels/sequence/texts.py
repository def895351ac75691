"""The forms in which a batch of texts is given, and the one in which the layers read them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import TypeAlias

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.nn.utils.rnn import PackedSequence
from torch_geometric.data import Batch, Data

from pyg_kernels.ops.operator import is_readable
from pyg_kernels.ops.ragged import Layout

Sequences: TypeAlias = Tensor | PackedSequence | Data
_WHOLE = (torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64)


@dataclass(frozen=True)
class Texts:
    """A batch of texts as rows, and the way back to the form in which it was given.

    Attributes:
        rows: The tokens' features, :obj:`(N, F)`.
        layout: Which token of which text each row is; the texts are in the order given.
        batched: Whether the states have a dimension for the texts.
        shape: The shape of the tokens as they were given, without the features.
        index: The place of each row among the tokens as given; None if the order is the same.
        packed: The packed sequence, if the texts were given as one.
    """

    rows: Tensor
    layout: Layout
    batched: bool
    shape: tuple[int, ...]
    index: Tensor | None = None
    packed: PackedSequence | None = None

    def restore(self, rows: Tensor) -> Tensor | PackedSequence:
        """Rows, one per token, in the form in which the texts were given."""
        if self.index is not None:
            grid = rows.new_zeros(math.prod(self.shape), rows.size(1))
            rows = grid.index_copy(0, self.index, rows)
        if self.packed is not None:
            _, *order = self.packed  # torch.compile empties the result of `_replace`
            return PackedSequence(rows, *order)
        return rows.view(*self.shape, rows.size(1))

    def arrange(self, numbers: Tensor, name: str) -> Tensor:
        """One number per token, shaped like the texts without features, in the order of the rows.

        Raises:
            ValueError: If there is not one number per token; the message contains the name.
        """
        if not isinstance(numbers, Tensor) or numbers.shape != self.shape:
            found = tuple(numbers.shape) if isinstance(numbers, Tensor) else numbers
            raise ValueError(
                f"{name}: {found}, expected one number a token, of shape {tuple(self.shape)}"
            )
        flat = numbers.reshape(-1)
        return flat if self.index is None else flat.index_select(0, self.index)


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
            or a tensor of shape :obj:`(T, B, F)`, :obj:`(B, T, F)` or, for one text, :obj:`(T, F)`.
        batch_first: Whether texts are the first dimension of a tensor.
        ptr: Where each text begins, followed by the number of tokens, :obj:`(B + 1,)`.
        mask: True for tokens, False for padding, which may be anywhere; x's shape without F.
        lengths: The number of tokens of each text of a tensor that is padded on the right.

    Raises:
        ValueError: If the arguments do not fit each other.
        TypeError: If x has none of these forms.
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
        expected = "(B, T, F)" if batch_first else "(T, B, F)"
        raise ValueError(
            f"x has shape {tuple(x.shape)}: expected {expected}, or (T, F) for one text"
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


def _read_packed(x: PackedSequence) -> Texts:
    data = x.data
    if data.dim() != 2:
        raise ValueError(f"x.data has shape {tuple(data.shape)}: expected (num_tokens, F)")
    sizes = x.batch_sizes.to(data.device)
    texts = torch.arange(int(x.batch_sizes[0]) if len(sizes) else 0, device=data.device)
    lengths = (sizes.unsqueeze(1) > texts).sum(0)
    place = texts if x.unsorted_indices is None else x.unsorted_indices
    ptr = F.pad(lengths.index_select(0, place).cumsum(0), (1, 0))
    layout = Layout.of_ptr(ptr, len(sizes), data.size(0))
    text, step = layout.places()
    index = (sizes.cumsum(0) - sizes).index_select(0, step) + place.index_select(0, text)
    return Texts(data.index_select(0, index), layout, True, data.shape[:1], index, x)


def _read_graph(graph: Data) -> Texts:
    x = graph.x
    if x is None or x.dim() != 2:
        raise ValueError("the path graph has no features x of shape (num_tokens, F)")
    if graph.edge_index is not None and graph.edge_index.numel():
        source, target = graph.edge_index
        if bool((source - target).abs().ne(1).any()):
            raise ValueError(
                "edge_index: expected path graphs, whose edges join consecutive tokens"
            )
    if isinstance(graph, Batch) and "ptr" not in graph:
        raise ValueError("the batch of path graphs has no ptr: expected one made by path_batch")
    if "ptr" in graph:
        return _read_ragged(x, graph.ptr)
    whole = torch.tensor([0, x.size(0)], device=x.device)
    return replace(_read_ragged(x, whole), batched=False)


def _read_ragged(x: Tensor, ptr: Tensor) -> Texts:
    if x.dim() != 2:
        raise ValueError(f"x has shape {tuple(x.shape)}: expected (num_tokens, F) with ptr")
    if torch.compiler.is_compiling():  # a compiler cannot read numbers
        longest = x.size(0)
    else:
        longest = max(lengths_of(ptr, x.size(0)), default=0)
    layout = Layout.of_ptr(ptr.to(x.device, torch.long), longest, x.size(0))
    return Texts(x, layout, True, x.shape[:1])


def _read_grid(x: Tensor, batch_first: bool, mask: Tensor | None) -> Texts:
    batched = x.dim() == 3
    _check_mask(mask, x)
    if not batched:
        x, mask = x.unsqueeze(1), None if mask is None else mask.unsqueeze(1)
    steps_first = not (batched and batch_first)
    count, steps = (x.size(1), x.size(0)) if steps_first else (x.size(0), x.size(1))
    rows, shape = x.reshape(steps * count, x.size(2)), x.shape[:2] if batched else x.shape[:1]
    readable = is_readable(mask)
    if mask is None or (readable and bool(mask.all())):
        layout = Layout.of_grid(steps, count, x.device, steps_first)
        return Texts(rows, layout, batched, shape)
    kept = mask.t() if steps_first else mask
    lengths = kept.sum(1)
    if not readable:  # no shape may depend on the mask: tokens to the left, padding behind them
        known, own = kept.cumsum(1), torch.arange(steps, device=x.device).expand_as(kept)
        place = torch.where(kept, known - 1, lengths.unsqueeze(1) + own - known)
        step = torch.zeros_like(place).scatter(1, place, own)
        text = torch.arange(count, device=x.device).unsqueeze(1).expand_as(step)
        layout = Layout.of_padded_grid(lengths, steps, steps_first=False)
    else:
        text, step = kept.nonzero().unbind(1)
        longest = int(lengths.max()) if count else 0
        layout = Layout.of_ptr(F.pad(lengths.cumsum(0), (1, 0)), longest, len(text))
    index = (step * count + text if steps_first else text * steps + step).flatten()
    rows = rows.index_select(0, index)
    if layout.form == "padded":
        is_token = kept.gather(1, step).reshape(-1, 1)
        rows = torch.where(is_token, rows, 0)  # padding may hold anything
    return Texts(rows, layout, batched, shape, index)


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
    """A mask that is True for the first tokens of each text, as many as its length."""
    if x.dim() != 3:
        raise ValueError(f"lengths: expected None for a single text of shape {tuple(x.shape)}")
    counts = torch.as_tensor(lengths, device=x.device)
    texts, steps = (x.size(0), x.size(1)) if batch_first else (x.size(1), x.size(0))
    if counts.shape != (texts,) or (counts.numel() and counts.dtype not in _WHOLE):
        raise ValueError(
            f"lengths has shape {tuple(counts.shape)} and dtype {counts.dtype}: expected a whole "
            f"number for each of {texts} texts"
        )
    counts = counts.long()  # small types cannot hold large lengths
    wrong = (counts < 0) | (counts > steps)
    if is_readable(wrong) and bool(wrong.any()):
        raise ValueError(f"lengths={counts.tolist()}: expected 0 to {steps}, the padded length")
    mask = torch.arange(steps, device=x.device) < counts.unsqueeze(1)
    return mask if batch_first else mask.t()


def _refuse(why: str, **arguments: object) -> None:
    for name, value in arguments.items():
        if value is not None:
            raise ValueError(f"{name}: {why}, expected None")
