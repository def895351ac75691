"""The TREC questions."""

import re
from pathlib import Path

from benchmarks.corpora.published_text import labelled
from pyg_kernels.datasets.public_file import PublicFile
from pyg_kernels.datasets.text.corpus import TextCorpus

LINE = re.compile(r"([A-Z]+):(\w+) +(\S.*)")
FOLDER = "https://cogcomp.seas.upenn.edu/Data/QA/QC/"


class TREC(TextCorpus):
    """5,452 questions to train on and 500 to test on, of 6 coarse or 50 fine classes.

    The class is the kind of answer that a question asks for (Li and Roth 2002). Ten of the test
    questions also stand among the training questions, as published (eleven in lower case).

    Args:
        root: the folder of ``train_5500.label`` and ``TREC_10.label`` (or ``train.txt`` and
            ``test.txt``).
        labels: ``'coarse'`` (such as ``NUM``) or ``'fine'`` (such as ``NUM:dist``).
    """

    train_file = PublicFile(
        "train_5500.label",
        FOLDER + "train_5500.label",
        "9e4c8bdcaffb96ed61041bd64b564183d52793a8e91d84fc3a8646885f466ec3",
        aliases=("train.txt",),
    )
    test_file = PublicFile(
        "TREC_10.label",
        FOLDER + "TREC_10.label",
        "033f22c028c2bbba9ca682f68ffe204dc1aa6e1cf35dd6207f2d4ca67f0d0e8e",
        aliases=("test.txt",),
    )

    def __init__(self, root: str | Path, labels: str = "coarse") -> None:
        if labels not in ("coarse", "fine"):
            raise ValueError(f"labels must be 'coarse' or 'fine', got {labels!r}")

        def parse(where: str, line: str) -> tuple[str, str]:
            match = LINE.fullmatch(line.rstrip())
            if match is None:
                raise ValueError(f"{where} is not 'COARSE:fine question'")
            coarse, fine, question = match.groups()
            return coarse if labels == "coarse" else f"{coarse}:{fine}", question

        paths = {"train": self.train_file.obtain(root), "test": self.test_file.obtain(root)}
        super().__init__(*labelled(paths, parse), "official test part")
