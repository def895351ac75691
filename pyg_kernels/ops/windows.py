"""Windows of the last tokens of each text: the n-grams that filters read."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor

from pyg_kernels.ops.packing import Packing

_WIDE = 8
_FEW_FEATURES = 32


class Windows:
    r"""The window :math:`[x_{t-(n-1)d}, \ldots, x_{t-d}, x_t]` of each token t.

    It reaches back beyond the first token of a text into its history: what was read before, or
    zeros.

    Args:
        packing: The texts.
        width: The number of tokens n.
        dilation: The spacing d.
        history: The number of steps H before the first token that are given,
            :math:`(n - 1) d` at least.
    """

    def __init__(self, packing: Packing, width: int, dilation: int, history: int) -> None:
        self.packing, self.width, self.history = packing, width, history
        self.dilation = dilation
        self._back = [(width - 1 - i) * dilation for i in range(width)]
        self._index: Tensor | None = None

    @property
    def trivial(self) -> bool:
        """Whether the windows are the tokens, and nothing lies before these."""
        return self.width == 1 and not self.history

    def read(self, padded: Tensor, rows: slice, out: Tensor | None = None) -> Tensor:
        """The windows of some tokens, :obj:`(rows, n * F)`, the oldest token first.

        Args:
            padded: The history, step by step, and below it the tokens,
                :obj:`(H * num_texts + N, F)`.
            rows: Which tokens.
            out: Where the windows go, unless they are a part of `padded` as it is.
        """
        if self.trivial:
            return padded[rows]
        count, features = rows.stop - rows.start, padded.size(1)
        if out is None:
            out = padded.new_empty(count, self.width * features)
        if not self.packing.uniform:
            index = self._places(padded.device)[rows].flatten()
            torch.index_select(padded, 0, index, out=out.view(-1, features))
            return out
        places = out.view(count, self.width, features)
        for i, start in enumerate(self._starts(rows)):
            places[:, i] = padded[start : start + count]
        return out

    def add(self, grad: Tensor, rows: slice, onto: Tensor) -> None:
        """Adds the gradients of some tokens' windows to those of `padded`."""
        if self.trivial:
            onto[rows].add_(grad)
            return
        count, features = rows.stop - rows.start, onto.size(1)
        if not self.packing.uniform:
            index = self._places(onto.device)[rows].flatten()
            onto.index_add_(0, index, grad.view(-1, features))
            return
        places = grad.view(count, self.width, features)
        for i, start in enumerate(self._starts(rows)):
            onto[start : start + count].add_(places[:, i])

    def gather(self, padded: Tensor) -> Tensor:
        """All windows, :obj:`(N, n * F)`, by one op that PyTorch differentiates."""
        if self.trivial:
            return padded
        index = self._places(padded.device)
        found = padded.index_select(0, index.flatten())
        return found.view(len(index), self.width * padded.size(1))

    def convolves(self, padded: Tensor) -> bool:
        """Whether :func:`torch.nn.functional.conv1d` is at hand, and the faster way to filter.

        On CPU it is for wide windows of few features, which it need not write out.
        """
        packing = self.packing
        if not packing.uniform or not packing.num_tokens or self.width == 1:
            return False
        wide = self.width >= _WIDE and padded.size(1) <= _FEW_FEATURES
        return wide or padded.device.type != "cpu"

    def convolve(self, padded: Tensor, weight: Tensor) -> Tensor:
        """The windows' products with filters :obj:`(D, F, n)`, :obj:`(N, D)`."""
        skipped = self.history - (self.width - 1) * self.dilation
        steps = padded.view(-1, self.packing.num_texts, padded.size(1))[skipped:]
        found = F.conv1d(steps.permute(1, 2, 0), weight, dilation=self.dilation)
        return found.permute(2, 0, 1).flatten(0, 1)

    def last(self, padded: Tensor) -> Tensor:
        """The history of the tokens to come: the last H of each text, :obj:`(H, num_texts, F)`."""
        packing = self.packing
        if packing.uniform:
            rows = padded[padded.size(0) - self.history * packing.num_texts :]
        else:
            lengths = torch.tensor(packing.lengths, dtype=torch.long)
            step = lengths + torch.arange(-self.history, 0).unsqueeze(1)
            text = torch.arange(packing.num_texts).expand_as(step)
            index = self._place(step, text).flatten()
            rows = padded.index_select(0, index.to(padded.device))
        return rows.view(self.history, packing.num_texts, padded.size(1))

    def _starts(self, rows: slice) -> list[int]:
        """Where the block of tokens begins, seen from each place of the window."""
        texts = self.packing.num_texts
        return [rows.start + (self.history - back) * texts for back in self._back]

    def _places(self, device: torch.device) -> Tensor:
        """The row of `padded` in each place of each token's window, :obj:`(N, n)`."""
        if self._index is None or self._index.device != device:
            sizes = torch.tensor(self.packing.batch_sizes, dtype=torch.long)
            step = torch.arange(len(sizes)).repeat_interleave(sizes)
            text = torch.arange(len(step)) - torch.tensor(self.packing.offsets)[step]
            steps = step.unsqueeze(1) - torch.tensor(self._back)
            self._index = self._place(steps, text.unsqueeze(1).expand_as(steps)).to(device)
        return self._index

    def _place(self, step: Tensor, text: Tensor) -> Tensor:
        """The row of `padded` of a text's token, by its step, negative in the history."""
        texts = self.packing.num_texts
        offsets = torch.tensor(self.packing.offsets, dtype=torch.long)
        row = offsets[step.clamp_min(0)] + self.history * texts
        return torch.where(step < 0, (step + self.history) * texts, row) + text
