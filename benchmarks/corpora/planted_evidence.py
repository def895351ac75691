"""Documents whose label comes from a known part of their words."""

from collections.abc import Sequence
from pathlib import Path
from random import Random

import torch
from torch import Tensor

from benchmarks.corpora.film_reviews import MR
from benchmarks.corpora.published_text import fingerprint
from benchmarks.corpora.trec import TREC
from pyg_kernels.datasets.text.corpus import PARTS, TextCorpus

VALID_SHARE = 0.1  # of the training questions, kept for the validation documents
FEWEST, MOST = 3, 6  # questions in a document


class PlantedEvidence(TextCorpus):
    """Documents of one polar sentence at a random place among questions without a polarity.

    Every sentence of :class:`MR` makes one document, which has the sentence's class, negative or
    positive. Around it are three to six questions of :class:`TREC`. Their number, the questions and
    the place of the polar sentence are drawn without regard to the class, so that only the polar
    sentence, the ``evidence``, tells the class. A document has 66 words on average. 32% of the
    words are in polar sentences (38% in the test part, since TREC's test questions are shorter). In
    92 of 100 documents, the polar sentence has room for 15% of the document's words.

    The parts are those of :class:`MR`. Test documents have TREC's test questions. A tenth of TREC's
    training questions is in validation documents only; the others are in training documents. Of
    equal sentences or questions in two parts, only those of the later part are kept, and of equal
    questions within a part, one.

    Args:
        mr_root: the folder of :class:`MR`.
        trec_root: the folder of :class:`TREC`; it may be the same.
        seed: the seed of the folds of MR, of the validation questions, and of the other draws.
    """

    def __init__(self, mr_root: str | Path, trec_root: str | Path, seed: int = 0) -> None:
        generator = Random(seed)
        reviews = MR(mr_root, seed=seed)
        pools = _question_pools(TREC(trec_root), generator)
        polar = _apart({part: reviews.parts[part].tolist() for part in PARTS}, reviews.texts)
        texts: list[list[str]] = []
        names: list[str] = []
        parts: dict[str, range] = {}
        self.evidence: list[Tensor] = []  # of each text (T,) bool, one a word
        for part in PARTS:
            pool, start = pools[part], len(texts)
            if len(pool) < MOST:
                raise ValueError(f"the {part} part has {len(pool)} questions, fewer than {MOST}")
            for place in polar[part]:
                around = generator.sample(pool, generator.randint(FEWEST, MOST))
                cut, sentence = generator.randint(0, len(around)), reviews.texts[place]
                pieces = [*around[:cut], sentence, *around[cut:]]
                texts.append([word for piece in pieces for word in piece])
                sizes = torch.tensor([len(piece) for piece in pieces])
                self.evidence.append((torch.arange(len(pieces)) == cut).repeat_interleave(sizes))
                names.append(reviews.classes[int(reviews.labels[place])])
            parts[part] = range(start, len(texts))
        split = f"{reviews.split}; each sentence among {FEWEST} to {MOST} questions"
        super().__init__(texts, names, parts, split)
        self.y = self.labels

    def digest(self) -> str:
        return fingerprint(super().digest(), *self.evidence)


def _question_pools(trec: TREC, generator: Random) -> dict[str, list[tuple[str, ...]]]:
    """The different questions of each part; no two parts have one in common."""
    train, test = (trec.parts[part].tolist() for part in ("train", "test"))
    valid = sorted(generator.sample(train, int(VALID_SHARE * len(train))))
    train = sorted(set(train).difference(valid))
    pools = _apart({"train": train, "valid": valid, "test": test}, trec.texts)
    texts = {part: [tuple(trec.texts[place]) for place in pools[part]] for part in PARTS}
    return {part: list(dict.fromkeys(texts[part])) for part in PARTS}


def _apart(parts: dict[str, list[int]], texts: Sequence[Sequence[str]]) -> dict[str, list[int]]:
    """The positions of each part, without those of texts that a later part has too."""
    apart: dict[str, list[int]] = {}
    later: set[tuple[str, ...]] = set()
    for part in reversed(PARTS):
        apart[part] = [place for place in parts[part] if tuple(texts[place]) not in later]
        later.update(tuple(texts[place]) for place in apart[part])
    return apart
