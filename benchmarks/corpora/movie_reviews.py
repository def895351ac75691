"""The sentence polarity data of film reviews."""

from __future__ import annotations

from pathlib import Path

import torch

from benchmarks.corpora.published_text import labelled
from pyg_kernels.datasets.public_file import PublicFile
from pyg_kernels.datasets.text.corpus import TextCorpus

ARCHIVE = (
    "https://raw.githubusercontent.com/nltk/nltk_data/gh-pages/packages/corpora/"
    "sentence_polarity.zip"
)


class MR(TextCorpus):
    """5,331 positive and 5,331 negative sentences of film reviews (Pang and Lee 2005).

    There are no published parts; the literature tests on ten random folds. Here one fold is the
    test part, the next one is for validation, and the other eight train.

    Args:
        root: the folder of ``rt-polarity.pos`` and ``rt-polarity.neg``.
        seed: of the folds.
    """

    positive_file = PublicFile(
        "rt-polarity.pos",
        ARCHIVE,
        "0e5f9352dff4998546a76404b6e831d8e665bcb74df9fd8889a213cd4771ad72",
        member="sentence_polarity/rt-polarity.pos",
    )
    negative_file = PublicFile(
        "rt-polarity.neg",
        ARCHIVE,
        "8939c904c1fc0cabd3f3d0334003a7a8bac892eea8332932e003c709d420700a",
        member="sentence_polarity/rt-polarity.neg",
    )

    def __init__(self, root: str | Path, seed: int = 0) -> None:
        files = {"negative": self.negative_file, "positive": self.positive_file}
        paths = {name: file.obtain(root) for name, file in files.items()}
        texts, _, places = labelled(paths, _sentence)
        names = [name for name, some in places.items() for _ in some]
        order = torch.randperm(len(texts), generator=torch.Generator().manual_seed(seed))
        # Fold k of the sentence at place i of the random order is i modulo 10.
        folds = torch.empty_like(order)
        folds[order] = torch.arange(len(order)) % 10
        masks = {"train": folds > 1, "valid": folds == 1, "test": folds == 0}
        parts = {part: mask.nonzero().flatten() for part, mask in masks.items()}
        super().__init__(texts, names, parts, f"fold 0 of 10 random folds (seed {seed})")


def _sentence(where: str, line: str) -> tuple[str, str]:
    if not line.split():
        raise ValueError(f"{where} is empty")
    return "", line
