"""The linear SVM on words and pairs of words as an estimator of the harness."""

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from benchmarks.harness.errors import as_input_error
from benchmarks.harness.estimator import Estimator
from benchmarks.harness.rationale.linear_svm import BigramSVM
from benchmarks.harness.rationale.measures import measured
from benchmarks.harness.rationale.texts import TextItems
from benchmarks.harness.task import PARTS


class SVMEstimator(Estimator):
    """A linear SVM whose rationale is the words of its largest weights.

    Args:
        data: The texts.
        share (float): Of the words of each text, to select.
        curve (sequence of float): Further shares at which precision is measured.
    """

    uses_seed = False

    def __init__(self, data: TextItems, share: float, curve: Sequence[float]) -> None:
        self.data, self.share, self.curve = data, share, curve
        self.machine = BigramSVM(regression=not data.classes)

    def fit(self, seed: int, device: torch.device, progress: bool) -> None:
        """Learns from the training part; C is chosen by the error on the validation part."""
        train, valid = (self._part(part) for part in ("train", "valid"))
        with as_input_error():
            self.machine.fit(*train, *valid)

    def predictions(self, progress: bool) -> dict[str, Tensor]:
        """Answers and selections of each part, as a network's ``predict_step`` gives them."""
        return {part: self._predicted(part) for part in PARTS}

    def num_parameters(self) -> int:
        """Weights and biases."""
        return int(self.machine.num_parameters)

    def details(self) -> dict[str, Any]:
        """What it is, and its precision at several shares."""
        number = len(self.data.parts["train"])
        found = {"method": f"C = {self.machine.cost:g}", "fitted_on": number, "kind": "svm"}
        return {**found, "rate": self.share, **self._curve()}

    def checkpoint(self) -> dict[str, Any]:
        """Weights and biases, a column for each word and pair of words."""
        return {
            "weights": torch.from_numpy(self.machine.weights),
            "bias": torch.from_numpy(self.machine.bias),
            "ngrams": self.machine.ngrams,
            "classes": list(self.data.classes),
        }

    def _part(self, part: str) -> tuple[list[list[str]], Tensor]:
        return self.data.corpus.part(part), self.data.y[self.data.parts[part]]

    def _predicted(self, part: str) -> Tensor:
        texts, _ = self._part(part)
        chosen = self.machine.select(texts, self.share)
        selected = [_words(text, marks) for text, marks in zip(texts, chosen, strict=True)]
        rest = [_words(text, ~marks) for text, marks in zip(texts, chosen, strict=True)]
        answers = [self.machine.predict(some) for some in (selected, texts, rest)]
        scores = torch.zeros(len(texts), int(self.data.lengths.max()))
        for row, marks in zip(scores, chosen, strict=True):
            row[: len(marks)] = marks.float()
        return torch.cat([torch.stack(answers, dim=1).float(), scores], dim=1)

    def _curve(self) -> dict[str, float]:
        evidence = self.data.evidence_of("test")
        if evidence is None:
            return {}
        texts, _ = self._part("test")
        found = {}
        for share in self.curve:
            chosen = torch.cat(self.machine.select(texts, share))
            precision = measured(chosen, evidence, self.data.ptr("test")).precision
            found[curve_key(share)] = 100 * precision
        return found


def curve_key(share: float) -> str:
    """What the precision at a share is called in a run's record."""
    return f"precision@{share:g}"


def _words(text: Sequence[str], chosen: Tensor) -> list[str]:
    return [word for word, taken in zip(text, chosen.tolist(), strict=True) if taken]
