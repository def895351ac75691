"""How right and how short selections are, where it is known what says what is predicted."""

from typing import NamedTuple

import torch
from torch import Tensor
from torchmetrics import Metric


class Selected(NamedTuple):
    r"""What selections are worth; all are fractions.

    With :math:`z` the selected words (or atoms), :math:`e` the evidence and :math:`|x|` the words:

    Attributes:
        precision (float): :math:`\sum |z \cap e| / \sum |z|`, over the words of all texts; NaN
            where nothing is selected.
        recall (float): :math:`\sum |z \cap e| / \sum |e|`; NaN where there is no evidence.
        share (float): :math:`\sum |z| / \sum |x|`; NaN where there are no words.
        text_precision (float): The mean of :math:`|z \cap e| / |z|` over the texts of which
            something is selected.
        text_recall (float): The mean of :math:`|z \cap e| / |e|` over the texts that have evidence.
        text_share (float): The mean of :math:`|z| / |x|` over the texts that have words.
        empty (float): The share of the texts of which nothing is selected.
    """

    precision: float
    recall: float
    share: float
    text_precision: float
    text_recall: float
    text_share: float
    empty: float


class SelectionMeasures(Metric):
    """Precision, recall and share of selections, over all batches and processes."""

    full_state_update = False
    # Sums over all texts.
    right: Tensor
    selected: Tensor
    evidence: Tensor
    words: Tensor
    # Sums of a text's own ratios, and the numbers of texts that have one.
    precisions: Tensor
    recalls: Tensor
    shares: Tensor
    selecting: Tensor
    annotated: Tensor
    filled: Tensor
    texts: Tensor

    def __init__(self) -> None:
        super().__init__()
        for name in ("right", "selected", "evidence", "words"):
            self.add_state(name, torch.zeros((), dtype=torch.long), dist_reduce_fx="sum")
        for name in ("selecting", "annotated", "filled", "texts"):
            self.add_state(name, torch.zeros((), dtype=torch.long), dist_reduce_fx="sum")
        for name in ("precisions", "recalls", "shares"):
            self.add_state(name, torch.zeros((), dtype=torch.double), dist_reduce_fx="sum")

    def update(self, selection: Tensor, evidence: Tensor, ptr: Tensor) -> None:
        """Adds B texts of N words, one after the other.

        Args:
            selection: ``(N,)`` bool, or 0 and 1: whether a word is selected.
            evidence: ``(N,)`` bool, whether it is evidence.
            ptr: ``(B + 1,)``; the words of text b are ``ptr[b]`` to ``ptr[b + 1] - 1``.

        Raises:
            ValueError: If the lengths differ, or a selection is neither 0 nor 1.
        """
        chosen, marks = _checked(selection, evidence, ptr)
        right, selected, known = (_sums(values, ptr) for values in (chosen & marks, chosen, marks))
        lengths = ptr.diff()
        self.right += right.sum()
        self.selected += selected.sum()
        self.evidence += known.sum()
        self.words += lengths.sum()
        self.precisions += _ratios(right, selected)
        self.recalls += _ratios(right, known)
        self.shares += _ratios(selected, lengths)
        self.selecting += (selected > 0).sum()
        self.annotated += (known > 0).sum()
        self.filled += (lengths > 0).sum()
        self.texts += len(lengths)

    def compute(self) -> Selected:
        """The measures of all texts so far."""
        return Selected(
            precision=float(self.right.double() / self.selected),
            recall=float(self.right.double() / self.evidence),
            share=float(self.selected.double() / self.words),
            text_precision=float(self.precisions / self.selecting),
            text_recall=float(self.recalls / self.annotated),
            text_share=float(self.shares / self.filled),
            empty=float((self.texts - self.selecting).double() / self.texts),
        )


def measured(selection: Tensor, evidence: Tensor, ptr: Tensor) -> Selected:
    """The measures of some texts at once, as :class:`SelectionMeasures` gives them."""
    measures = SelectionMeasures()
    measures.update(selection.cpu(), evidence.cpu(), ptr.cpu())
    found: Selected = measures.compute()
    return found


def num_selected(lengths: Tensor, share: float) -> Tensor:
    """How many words a share of each text is: rounded, halves up, but at least one.

    Args:
        lengths: ``(B,)``, the words of each text.
        share (float): From 0 to 1; 0 is no word at all.

    Returns:
        Tensor: ``(B,)`` int64.

    Raises:
        ValueError: If `share` is not from 0 to 1.
    """
    if not 0 <= share <= 1:
        raise ValueError(f"share must be from 0 to 1, got {share}")
    if share == 0:
        return torch.zeros_like(lengths)
    # A hair more: 0.15 of 10 words is a little less than 1.5.
    numbers = (share * lengths.double() + 0.5 + 1e-9).floor().long()
    return torch.minimum(numbers.clamp(min=1), lengths)


def top_share(scores: Tensor, share: float, ptr: Tensor) -> Tensor:
    """Selects a share of the words of each text: those with the highest scores.

    Args:
        scores: ``(N,)``; of equal ones the earlier word comes first.
        share (float): As in :func:`num_selected`.
        ptr: ``(B + 1,)``, where each text begins.

    Returns:
        Tensor: ``(N,)`` bool.

    Raises:
        ValueError: If `share` is not from 0 to 1, or the lengths differ.
    """
    if scores.shape != (int(ptr[-1]),):
        raise ValueError(
            f"scores must be of shape ({int(ptr[-1])},), one a word, not {tuple(scores.shape)}"
        )
    lengths = ptr.diff()
    text = torch.repeat_interleave(lengths)
    order = scores.argsort(descending=True, stable=True)
    order = order[text[order].argsort(stable=True)]
    rank = torch.arange(len(scores), device=scores.device) - ptr[:-1][text]
    chosen = torch.zeros_like(scores, dtype=torch.bool)
    chosen[order] = rank < num_selected(lengths, share)[text]
    return chosen


def _checked(selection: Tensor, evidence: Tensor, ptr: Tensor) -> tuple[Tensor, Tensor]:
    expected = (int(ptr[-1]),)
    for name, values in (("selection", selection), ("evidence", evidence)):
        if values.shape != expected:
            raise ValueError(
                f"{name} must be of shape {expected}, one a word, not {tuple(values.shape)}"
            )
        if not bool(((values == 0) | (values == 1)).all()):
            raise ValueError(f"{name} must be 0 or 1")
    return selection.bool(), evidence.bool()


def _sums(values: Tensor, ptr: Tensor) -> Tensor:
    """The sum over each text, ``(B,)`` int64."""
    total = torch.cat([ptr.new_zeros(1), values.long().cumsum(0)])
    return total[ptr[1:]] - total[ptr[:-1]]


def _ratios(parts: Tensor, wholes: Tensor) -> Tensor:
    """The sum of the ratios whose denominator is not zero."""
    return (parts.double() / wholes.clamp(min=1)).masked_fill(wholes == 0, 0).sum()
