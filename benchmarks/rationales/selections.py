"""Selections: shares of scored words, precision, and selections as text and as HTML."""

from collections.abc import Sequence
from itertools import groupby

import torch
from markupsafe import Markup
from torch import Tensor

# Shares at which the precision of scored words is measured.
CURVE = {f"precision@{share:g}": share for share in (0.02, 0.05, 0.1, 0.15, 0.2, 0.3, 0.4)}


def top_share(scores: Tensor, share: float, ptr: Tensor) -> Tensor:
    """Selects a share of the words of each text: those with the highest scores.

    Scores and selection are ``(N,)``. Among equal scores the earlier word comes first.
    """
    lengths = ptr.diff()
    text = torch.repeat_interleave(lengths, output_size=len(scores))
    order = scores.argsort(descending=True, stable=True)
    order = order[text[order].argsort(stable=True)]
    rank = torch.arange(len(scores), device=scores.device) - ptr[:-1][text]
    chosen = torch.zeros_like(scores, dtype=torch.bool)
    chosen[order] = rank < num_selected(lengths, share)[text]
    return chosen


def num_selected(lengths: Tensor, share: float) -> Tensor:
    """The number of words in a share of each text, ``(B,)``: rounded half up, but at least one."""
    # Slightly more than 0.5, because in floating point 0.15 * 10 may be a little less than 1.5.
    numbers = (share * lengths.double() + 0.5 + 1e-9).floor().long()
    return torch.minimum(numbers.clamp(min=1), lengths)


def precision(chosen: Tensor, evidence: Tensor, known: Tensor) -> float | None:
    """The percentage of selected words that are evidence, in texts where it is `known`.

    All are ``(N,)`` bool. ``None`` if nothing is selected in these texts.
    """
    selected = int((chosen & known).sum())
    return 100 * (int((chosen & evidence & known).sum()) / selected) if selected else None


def spans_text(chosen: Tensor) -> str:
    """The runs of selected positions of ``(N,)`` bool as ``start:end``, with the end excluded."""
    edges = torch.cat([chosen.new_zeros(1), chosen, chosen.new_zeros(1)]).int().diff()
    starts, ends = (edges == 1).nonzero().flatten(), (edges == -1).nonzero().flatten()
    return " ".join(f"{a}:{b}" for a, b in zip(starts.tolist(), ends.tolist(), strict=True))


def read_spans(text: str, number: int) -> Tensor:
    """The selection ``(number,)`` bool that :func:`spans_text` wrote."""
    chosen = torch.zeros(number, dtype=torch.bool)
    for span in text.split():
        start, _, end = span.partition(":")
        chosen[int(start) : int(end)] = True
    return chosen


def marked_words(words: Sequence[str], chosen: Tensor, evidence: Tensor | None = None) -> Markup:
    """Words as HTML, with runs of selected words marked and runs of evidence underlined."""
    known = torch.zeros(len(words), dtype=torch.bool) if evidence is None else evidence
    each = zip(words, chosen.tolist(), known.tolist(), strict=True)
    runs = []
    for (is_chosen, is_known), run in groupby(each, key=lambda word: word[1:]):
        text = Markup("{}").format(" ".join(word for word, *_ in run))
        text = Markup("<u>{}</u>").format(text) if is_known else text
        runs.append(Markup("<mark>{}</mark>").format(text) if is_chosen else text)
    return Markup(" ").join(runs)
