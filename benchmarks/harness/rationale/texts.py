"""Texts with a class or a rating, and where in them it is said."""

import hashlib
from pathlib import Path
from typing import Any

from torch import Tensor

from benchmarks.corpora.annotated_texts import AnnotatedTexts
from benchmarks.corpora.beer_advocate import BeerAdvocate
from benchmarks.corpora.planted_evidence import PlantedEvidence
from benchmarks.harness.errors import as_input_error
from benchmarks.harness.rationale.items import Items, RationaleChoice
from benchmarks.harness.rationale.names import OWN
from benchmarks.harness.rationale.page import marked_words
from benchmarks.harness.task import PARTS
from benchmarks.harness.text.data import BUCKET, glove_file, known_words
from pyg_kernels.datasets.text import EncodedTexts, TextLoader, Vocabulary, WordVectors


class TextItems(Items):
    """Texts as numbers, in parts.

    Args:
        corpus: The texts.
        y: ``(M,)``, what is to be predicted.
        target (str): What that is, in a word.
        vocabulary: The training part's words and, with word vectors, further words that have one.
        vectors: Word vectors of the vocabulary; ``None``: learned from nothing.
        glove: The file that they are from.
        choice: Where the texts come from.
    """

    kind = "texts"
    unit = "words"

    def __init__(
        self,
        corpus: PlantedEvidence | BeerAdvocate | AnnotatedTexts,
        y: Tensor,
        target: str,
        vocabulary: Vocabulary,
        vectors: WordVectors | None,
        glove: Path | None,
        choice: RationaleChoice,
    ) -> None:
        self.corpus, self.y, self.target, self.choice = corpus, y, target, choice
        self.vocabulary, self.vectors, self.glove = vocabulary, vectors, glove
        self.classes = () if isinstance(corpus, BeerAdvocate) else corpus.classes
        self.split, self.parts, self.evidence = corpus.split, corpus.parts, corpus.evidence
        self.encoded = EncodedTexts(*vocabulary.encode(corpus.texts), y)
        self.lengths = self.encoded.lengths

    def identity(self) -> dict[str, Any]:
        """The number of texts, and fingerprints of texts and word vectors."""
        vectors = None
        if self.vectors is not None:
            vectors = hashlib.sha256(self.vectors.vectors.numpy().tobytes()).hexdigest()[:16]
        digest = self.corpus.digest()
        return {"number": len(self.corpus), "digest": digest, "vectors": vectors}

    def describe(self) -> str:
        """Lines on texts and parts, on evidence and on word vectors."""
        sizes = ", ".join(f"{len(self.parts[part]):,} {part}" for part in PARTS)
        lines = [
            f"{self.choice.dataset}: {len(self.corpus):,} texts, {self.split}: {sizes}",
            f"{self.lengths.double().mean():.1f} words a text; {self.evidence_line()}",
        ]
        if self.vectors is None or self.glove is None:
            why = "" if self.choice.glove else " (no GloVe file at hand; --vectors FILE names one)"
            return "\n".join([*lines, f"{len(self.vocabulary):,} words, learned vectors{why}"])
        found, size = self.vectors.found, self.vectors.vectors.size(1)
        lines.append(
            f"{len(found):,} words, {int(found.sum()):,} with fixed vectors of {size} numbers from "
            f"{self.glove.name}, not counted as parameters"
        )
        return "\n".join(lines)

    def text(self, place: int) -> str:
        """Its words with spaces between."""
        return " ".join(self.corpus.texts[place])

    def marked(self, place: int, chosen: Tensor, evidence: Tensor | None) -> str:
        """Its words, selected ones marked and evidence underlined."""
        return marked_words(self.corpus.texts[place], chosen, evidence)

    def input_sizes(self, embedding_dim: int) -> dict[str, Any]:
        """Of vocabulary and word vectors."""
        fixed = self.vectors is not None
        size = self.vectors.vectors.size(1) if self.vectors is not None else embedding_dim
        number = len(self.vocabulary)
        return {"input_size": size, "num_words": number, "fixed_embedding": fixed}

    def loader(self, part: str, batch_size: int, bucket: bool = False, **options: Any) -> Any:
        """Batches of a part; with `bucket` texts of similar length together."""
        places = self.parts[part]
        return TextLoader(
            self.encoded, places, batch_size, bucket=BUCKET if bucket else 1, **options
        )


def load_texts(choice: RationaleChoice) -> TextItems:
    """Reads texts and word vectors.

    Raises:
        InputError: If a file is neither at hand nor to be downloaded, or cannot be read.
    """
    with as_input_error():
        glove = glove_file(choice)
        corpus: PlantedEvidence | BeerAdvocate | AnnotatedTexts
        if choice.dataset == OWN:
            first, *second = choice.files
            target = choice.target_column
            corpus = AnnotatedTexts(
                first,
                second[0] if second else None,
                text_column=choice.text_column,
                target_column=target,
                evidence_column=choice.evidence_column,
                task=choice.task,
                seed=choice.split_seed,
                encoding=choice.encoding,
            )
            y = corpus.y
        elif choice.dataset == "beer":
            corpus = BeerAdvocate(choice.root, choice.aspect)
            if choice.decorrelate is not None:
                corpus.decorrelate(choice.decorrelate)
            y, target = corpus.ratings[:, choice.aspect].double(), corpus.aspects[choice.aspect]
        else:
            root, (low, high) = Path(choice.root), choice.questions
            corpus = PlantedEvidence(
                root / "mr", root / "trec", questions=(low, high), seed=choice.split_seed
            )
            y, target = corpus.labels, "polarity"
        vectors = None
        if glove:
            vocabulary, vectors = known_words(corpus, glove)
        else:
            # A word that occurs once teaches what to make of unknown words.
            vocabulary = Vocabulary.build(corpus.part("train"), min_count=2)
    return TextItems(corpus, y, target, vocabulary, vectors, glove, choice)
