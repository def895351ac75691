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


class PlantedEvidence(TextCorpus):
    r"""Documents of one polar sentence at a random place among questions without a polarity.

    Every sentence of :class:`MR` makes one document, which has the sentence's class, negative or
    positive. The questions around it come from :class:`TREC`. Their number, the questions and the
    place of the polar sentence among them are drawn without regard to the class, so that only the
    polar sentence tells the class. The words that a model gives as its reasons are right if they
    are in that sentence.

    The parts are those of :class:`MR`. Test documents have TREC's test questions. A tenth of TREC's
    training questions, drawn at random, is in validation documents only; the others are in training
    documents. A sentence or question that occurs in two parts is left out of the training part (or
    of the validation part, if the other one is the test part). Of equal questions within a part,
    one is kept. So no two parts share a sentence.

    Args:
        mr_root: the folder of :class:`MR`.
        trec_root: the folder of :class:`TREC`; it may be the same.
        questions: the smallest and the largest number of questions in a document; all numbers in
            this range are equally probable. With 3 to 6, a document has 66 words on average. 32% of
            the words are in polar sentences (38% in the test part, since TREC's test questions are
            shorter). In 92 of 100 documents, the polar sentence has room for 15% of the document's
            words.
        seed: the seed of the folds of MR, of the validation questions, and of the other draws.

    Attributes:
        evidence: for each text (T,) bool, whether each word is in the polar sentence.
    """

    def __init__(
        self,
        mr_root: str | Path,
        trec_root: str | Path,
        questions: tuple[int, int] = (3, 6),
        seed: int = 0,
    ) -> None:
        generator = Random(seed)
        reviews = MR(mr_root, seed=seed)
        pools = _question_pools(TREC(trec_root), generator)
        polar = _apart({part: reviews.parts[part].tolist() for part in PARTS}, reviews.texts)
        texts: list[list[str]] = []
        names: list[str] = []
        parts: dict[str, range] = {}
        self.evidence: list[Tensor] = []
        for part in PARTS:
            pool, start = pools[part], len(texts)
            if len(pool) < questions[1]:
                raise ValueError(
                    f"{questions=}, but there are {len(pool)} different questions for the {part} "
                    "part"
                )
            for place in polar[part]:
                chosen = generator.sample(range(len(pool)), generator.randint(*questions))
                cut, sentence = generator.randint(0, len(chosen)), reviews.texts[place]
                around = [pool[k] for k in chosen]
                pieces = [*around[:cut], sentence, *around[cut:]]
                texts.append([word for piece in pieces for word in piece])
                sizes = torch.tensor([len(piece) for piece in pieces])
                self.evidence.append((torch.arange(len(pieces)) == cut).repeat_interleave(sizes))
                names.append(reviews.classes[int(reviews.labels[place])])
            parts[part] = range(start, len(texts))
        low, high = questions
        split = f"{reviews.split}; each sentence among {low} to {high} questions"
        super().__init__(texts, names, parts, split)
        self.y = self.labels

    def digest(self) -> str:
        return fingerprint(super().digest(), *self.evidence)


def _question_pools(trec: TREC, generator: Random) -> dict[str, list[list[str]]]:
    """The different questions of each part; no two parts have one in common."""
    train, test = (trec.parts[part].tolist() for part in ("train", "test"))
    valid = sorted(generator.sample(train, int(VALID_SHARE * len(train))))
    train = sorted(set(train).difference(valid))
    pools = _apart({"train": train, "valid": valid, "test": test}, trec.texts)
    texts = {part: [tuple(trec.texts[place]) for place in pools[part]] for part in PARTS}
    return {part: list(map(list, dict.fromkeys(texts[part]))) for part in PARTS}


def _apart(parts: dict[str, list[int]], texts: Sequence[Sequence[str]]) -> dict[str, list[int]]:
    """The positions of each part, without those of texts that a later part has too."""
    apart: dict[str, list[int]] = {}
    later: set[tuple[str, ...]] = set()
    for part in reversed(PARTS):
        apart[part] = [place for place in parts[part] if tuple(texts[place]) not in later]
        later.update(tuple(texts[place]) for place in apart[part])
    return apart
