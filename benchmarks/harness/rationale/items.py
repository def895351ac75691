"""What rationales are picked from, as the harness sees it: texts or molecules in three parts."""

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import lightning.pytorch as lightning
import torch
from torch import Tensor

from benchmarks.harness.rationale.names import QUESTIONS_AROUND, TARGET_COLUMN, TEXT_COLUMN
from benchmarks.harness.task import PARTS


@dataclass(frozen=True)
class RationaleChoice:
    """The texts or molecules that the command line names.

    Args:
        dataset (str): One of ``names.TEXTS`` or ``names.MOLECULES``.
        root (str): Folder of its files; for molecules empty for those inside RDKit.
        glove (str, optional): File of word vectors; ``None``: look for one, ``'none'``: use none.
        questions (tuple of int): Of a planted document, the smallest and the largest number.
        aspect (int): Of reviews of beer.
        decorrelate (float, optional): The largest correlation between ratings that is left.
        smarts (str, optional): The group that is planted; ``None``: the data set's own.
        split_seed (int): Of the parts.
        files (list of str): Of texts of one's own: all of them, or those to train and to test on.
        text_column (str): Of these files, the column of texts.
        target_column (str): The column of targets.
        evidence_column (str, optional): The column of evidence, where it is known.
        task (str, optional): What their targets are; ``None``: as they look.
        encoding (str): Of these files.
    """

    dataset: str = "planted"
    root: str = "data"
    glove: str | None = None
    questions: tuple[int, ...] = QUESTIONS_AROUND
    aspect: int = 0
    decorrelate: float | None = None
    smarts: str | None = None
    split_seed: int = 0
    files: list[str] = field(default_factory=list)
    text_column: str = TEXT_COLUMN
    target_column: str = TARGET_COLUMN
    evidence_column: str | None = None
    task: str | None = None
    encoding: str = "utf-8"


class Items(ABC):
    """M texts or molecules with a class or a number each, in parts.

    Attributes:
        choice: Where they come from.
        split: How the parts came about, in a few words.
        parts: Of :data:`PARTS`, the positions of their items.
        y: ``(M,)``, the number of the class, or the number to predict in its own units (float64).
        classes: Names of the classes; none where a number is predicted.
        target: What is predicted, in a word.
        evidence: For each item ``(N,)`` bool, whether a word or atom says what is to be predicted;
            ``None`` where that is not known.
        lengths: ``(M,)`` int64, words or atoms.
    """

    kind: str  # a group of ``configuration.json``
    unit: str  # what is selected
    choice: RationaleChoice
    split: str
    parts: Mapping[str, Tensor]
    y: Tensor
    classes: tuple[str, ...]
    target: str
    evidence: Sequence[Tensor | None]
    lengths: Tensor

    @abstractmethod
    def identity(self) -> dict[str, Any]:
        """The number of items, and fingerprints of all that is learned from."""

    @abstractmethod
    def describe(self) -> str:
        """Lines on items and parts, and on evidence."""

    @abstractmethod
    def text(self, place: int) -> str:
        """One item as a line of text."""

    @abstractmethod
    def marked(self, place: int, chosen: Tensor, evidence: Tensor | None) -> str:
        """One item as HTML, with what is selected in colour."""

    def picture(self, place: int, chosen: Tensor) -> bytes | None:
        """One item as a PNG file, what is selected in colour; ``None`` for what is not drawn."""
        return None

    @abstractmethod
    def input_sizes(self, embedding_dim: int) -> dict[str, Any]:
        """The fields of a network's configuration on what it reads.

        Args:
            embedding_dim (int): Size of word vectors that are learned.
        """

    @abstractmethod
    def loader(self, part: str, batch_size: int, **options: Any) -> Any:
        """Batches of a part, in its own order unless `options` say otherwise."""

    def ptr(self, part: str) -> Tensor:
        """Where each item of a part begins, if they lie one after the other, ``(B + 1,)``."""
        lengths = self.lengths[self.parts[part]]
        return torch.cat([lengths.new_zeros(1), lengths.cumsum(0)])

    def annotated_part(self) -> str | None:
        """The part on which precision is followed in training: valid, or test where it alone can.

        It has no influence on which epoch is chosen.
        """
        for part in ("valid", "test"):
            if self.evidence_of(part) is not None:
                return part
        return None

    def evidence_of(self, part: str) -> Tensor | None:
        """The evidence of all items of a part, one after the other; ``None`` where some is unknown.

        Returns:
            ``(N,)`` bool.
        """
        found = [self.evidence[place] for place in self.parts[part].tolist()]
        known = [marks for marks in found if marks is not None]
        return torch.cat(known) if len(known) == len(found) else None

    def evidence_line(self) -> str:
        """How much of the annotated part is evidence."""
        part = self.annotated_part()
        if part is None:
            return f"Which {self.unit} say it is not known"
        marks = self.evidence_of(part)
        assert marks is not None
        return f"{100 * marks.double().mean():.1f}% of the {self.unit} of the {part} part say it"


class Batches(lightning.LightningDataModule):
    """Batches of the training part, and of those to validate and to measure precision on.

    The order of the training items depends on seed and epoch alone, so that a resumed run sees the
    batches that the uninterrupted one would have seen.

    Args:
        items: Texts or molecules.
        batch_size (int): Items a batch.
        seed (int): Of the order.
    """

    def __init__(self, items: Items, batch_size: int, seed: int) -> None:
        super().__init__()
        self.items, self.batch_size, self.seed = items, batch_size, seed

    def train_dataloader(self) -> Any:
        """Shuffled batches of this epoch."""
        loader = self.items.loader(
            "train", self.batch_size, shuffle=True, seed=10_000 * self.seed, bucket=True
        )
        loader.set_epoch(self.trainer.current_epoch if self.trainer else 0)
        return loader

    def val_dataloader(self) -> list[Any]:
        """The validation part and, where evidence is known of the test part alone, that."""
        parts = dict.fromkeys(["valid", self.items.annotated_part() or "valid"])
        return [self.items.loader(part, self.batch_size) for part in parts]

    def all_parts(self) -> list[Any]:
        """One loader for each of the parts, in their own order."""
        return [self.items.loader(part, self.batch_size) for part in PARTS]
