"""A network over texts whose outputs have an exact attribution."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate

import torch
from torch import Tensor
from torch.nn import Module

from pyg_kernels.explain.arguments import checked_finite, checked_output
from pyg_kernels.explain.linearized import LinearizedChain, Shift, Stage, stages_of
from pyg_kernels.explain.ngram_sum import TextWalks
from pyg_kernels.explain.ngrams import NgramContributions, cell_of, ngram_sum
from pyg_kernels.explain.search import best_walks
from pyg_kernels.nn.arguments import checked_batch, checked_nodes
from pyg_kernels.nn.linear import Resettable
from pyg_kernels.segments import pointers
from pyg_kernels.sequence import RCNN, RCNNCell


class TextNet(Resettable, Module):
    r"""Reads texts, given as path graphs, with a recurrent convolution and maps the output at
    the last token of each, :math:`y = \mathrm{head}(h_T)`.

    It is called like a PyG model, so that PyG's explainers run on texts. A text without tokens
    has :math:`h_T = 0`.

    Args:
        rcnn: A :class:`~pyg_kernels.sequence.RCNN` of one layer and one direction with sum
            pooling. An exact attribution needs a piecewise-linear activation, no output gate and
            no highway.
        head: Maps H features to outputs: a linear map, or a sequence of piecewise-linear
            modules.

    Shapes:
        - **input:** the tokens of all texts, one text after the other, :math:`(N, F)`; edges,
          which are ignored; the text of each token, :math:`(N)`, in ascending order
        - **output:** :math:`(B, \mathrm{out})`

    Raises:
        ValueError: For an unsupported layer, and if tokens are not in the order of their texts.

    Example:
        >>> import torch
        >>> from pyg_kernels.explain import TextNet
        >>> from pyg_kernels.sequence import RCNN, path_batch
        >>> net = TextNet(RCNN(5, 8, act="relu"), torch.nn.Linear(8, 2))
        >>> texts = path_batch([torch.rand(7, 5), torch.rand(4, 5)])
        >>> net(texts.x, texts.edge_index, batch=texts.batch).shape
        torch.Size([2, 2])

    See Also:
        :class:`NgramExplainer`; :func:`ngram_contributions`;
        :func:`~pyg_kernels.sequence.path_batch`.
    """

    def __init__(self, rcnn: RCNN, head: Module) -> None:
        super().__init__()
        cell_of(rcnn)
        self.rcnn, self.head = rcnn, head

    def forward(
        self,
        x: Tensor,
        edge_index: Tensor | None = None,
        *,
        batch: Tensor | None = None,
        batch_size: int | None = None,
    ) -> Tensor:
        lengths = text_lengths(x, batch, batch_size)
        ptr = pointers(lengths)
        h, _ = self.rcnn(x, ptr=ptr)
        some = lengths > 0
        last = h.new_zeros(lengths.numel(), h.size(1))
        return self.head(last.index_copy(0, some.nonzero()[:, 0], h[ptr[1:][some] - 1]))


def text_lengths(x: Tensor, batch: Tensor | None, batch_size: int | None) -> Tensor:
    """The number of tokens of each text, (B,)."""
    num_tokens = checked_nodes(x).size(0)
    batch = checked_batch(batch, num_tokens, batch_size)
    if batch is None:
        return torch.tensor([num_tokens], device=x.device)
    if bool((batch[1:] < batch[:-1]).any()):
        raise ValueError("batch: expected numbers that never fall, the texts one after the other")
    lengths = torch.bincount(batch, minlength=batch_size or 0)
    if batch_size is not None and len(lengths) > batch_size:
        raise ValueError(f"batch_size={batch_size}: batch has {len(lengths)} texts")
    return lengths


@torch.no_grad()
def text_contributions(net: TextNet, x: Tensor, weights: Tensor, k: int) -> NgramContributions:
    """The attribution of a weighted sum of a network's outputs for one text, in evaluation mode.

    Args:
        net: The network.
        x: The tokens, :obj:`(T, F)`.
        weights: The weights of the outputs, :obj:`(out,)`.
        k: How many n-grams to find.
    """
    cell = cell_of(net.rcnn)
    weights = weights.unsqueeze(0)
    if not x.size(0):
        output = (net(x) * weights).sum()
        return NgramContributions(output.new_zeros(0), [], torch.zeros_like(output), output)
    stages = [*_layer_stages(cell), *stages_of("head", net.head)]
    ones = torch.ones(cell.hidden_size, dtype=x.dtype, device=x.device)
    state = ngram_sum(cell, x, ones).channels()
    chain = LinearizedChain(stages, state.unsqueeze(0))
    checked_output(chain.output, net(x))
    theta, constant = chain.pull_back(weights)
    ngrams = ngram_sum(cell, x, theta[0])
    total = checked_finite(ngrams.total())
    best = best_walks(TextWalks(ngrams), k)
    return NgramContributions(ngrams.tokens(), best, total, constant.sum())


def joined_texts(attributions: Sequence[NgramContributions], k: int) -> NgramContributions:
    """Joins the attributions of consecutive texts; positions are counted across all texts."""
    ends = accumulate((attribution.tokens.numel() for attribution in attributions), initial=0)
    ngrams = [
        (tuple(start + i for i in positions), value)
        for start, attribution in zip(ends, attributions, strict=False)
        for positions, value in attribution.ngrams
    ]
    return NgramContributions(
        torch.cat([attribution.tokens for attribution in attributions]),
        sorted(ngrams, key=lambda ngram: -abs(ngram[1]))[:k],
        torch.stack([attribution.total for attribution in attributions]).sum(),
        torch.stack([attribution.remainder for attribution in attributions]).sum(),
    )


def _layer_stages(cell: RCNNCell) -> list[Stage]:
    """The stages that turn a layer's state into its output."""
    for name in ("output_gate_lin", "highway_lin"):
        if getattr(cell, name) is not None:
            raise ValueError(
                f"model has {name} (rcnn.cells.0), so that its output is no function of its state "
                "alone: expected neither output gate nor highway"
            )
    shift = None if cell.bias is None else Shift(cell.bias)
    named = {"output_lin": cell.output_lin, "bias": shift, "act": cell.act}
    return [(f"rcnn.cells.0.{name}", stage) for name, stage in named.items()]
