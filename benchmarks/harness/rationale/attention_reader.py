"""Attention as a reader: it answers from all words, and the best of them are its rationale."""

import torch
from torch import Tensor

from benchmarks.harness.rationale.attention import AttentionClassifier
from benchmarks.harness.rationale.measures import top_share
from benchmarks.harness.rationale.readers import SELECTED, Inputs, Lesson, Loss, Reader, Reading
from pyg_kernels.rationale.structures import TextStructure


class AttentionReader(Reader):
    """Attention over the states of an encoder of texts.

    Args:
        attention: The network.
        share (float): Of the words of each text, those with the largest weights are its rationale.
    """

    def __init__(self, attention: AttentionClassifier, share: float) -> None:
        super().__init__()
        self.attention, self.share = attention, share

    def learn(self, inputs: Inputs, loss: Loss) -> Lesson:
        """The loss of a batch, with all its words."""
        costs = loss(self.attention(**inputs).output)
        return Lesson(costs.mean(), costs.detach())

    def read(self, inputs: Inputs) -> Reading:
        """The answer from all words, and their weights."""
        found = self.attention(**inputs)
        size = inputs["ptr"].diff().to(found.weights.dtype)
        chosen = top_share(found.weights, self.share, inputs["ptr"])
        # No weight of several words is 1: what is not selected stays below one half.
        scores = SELECTED * (found.weights + chosen)
        return Reading(found.output, scores, size, torch.zeros_like(size))

    def answer(self, inputs: Inputs, chosen: Tensor) -> Tensor:
        """What it makes of a text of the chosen words alone."""
        x, ptr = inputs["x"], inputs["ptr"]
        structure = TextStructure(ptr, len(x), x.device)
        output: Tensor = structure.encode(_Output(self.attention), x, chosen.unsqueeze(0))
        return output


class _Output(torch.nn.Module):
    """Attention without its weights."""

    def __init__(self, attention: AttentionClassifier) -> None:
        super().__init__()
        self.attention = attention

    def forward(self, x: Tensor, ptr: Tensor) -> Tensor:
        output: Tensor = self.attention(x, ptr=ptr).output
        return output
