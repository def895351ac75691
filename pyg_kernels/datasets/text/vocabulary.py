"""Splits running text into words, and maps words to numbers."""

from __future__ import annotations

import re
import unicodedata
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import ClassVar, Self

import torch
from torch import Tensor

PADDING = "<pad>"
UNKNOWN = "<unk>"
MARKS = "".join(filter(lambda c: unicodedata.category(c) in ("Mn", "Mc"), map(chr, range(2**17))))
TOKEN = re.compile(
    rf"""
    n't\b | '(?:s|m|d|re|ve|ll)\b   # what GloVe writes as words of their own
    | (?:[^\W\d_]\.){{2,}}          # u.s.
    | \d+(?:[.,]\d+)+               # 1,000.5
    | \w+?(?=n't\b)                 # do before n't
    | \w+(?:(?=[^\x00-\x7f])(?-i:[{MARKS}]+)\w*)*  # marks are those of vowels and such
    | [^\w\s]                       # any other character stands alone
    """,
    re.VERBOSE | re.IGNORECASE,
)


def tokenize(text: str, lower: bool = True) -> list[str]:
    """The words of a running text: runs of letters and digits, with punctuation split off.

    Numbers keep their commas and points (``1,000.5``), and several single letters in a row
    the points after them (``u.s.``). Contractions are split as in the Penn Treebank and in GloVe's
    vectors: ``don't`` gives ``do n't``, ``it's`` gives ``it 's``. Every other character but white
    space is a word: ``long-term (see [2])`` has nine. Combining marks stay with letters (NFC).

    Args:
        text: the text.
        lower: whether to write all words in lower case, as GloVe's vectors do.
    """
    text = (text.lower() if lower else text).replace("\u2019", "'")
    return TOKEN.findall(unicodedata.normalize("NFC", text))


class Vocabulary:
    """V words, numbered from 0.

    Number 0 is padding, number 1 the unknown word, which stands for every word that is not in the
    vocabulary. Further special words follow, then the words. A special word that occurs in a text
    is encoded by its number; the Penn Treebank, for example, contains ``<unk>``.

    Args:
        words: the words, without duplicates, in the order of their numbers.
        specials: further special words, such as an end of sentence.

    Attributes:
        words: all V words in the order of their numbers, special ones first.

    Raises:
        ValueError: if a word occurs twice.
        TypeError: if ``words`` or ``specials`` is a string.

    Example:
        >>> from pyg_kernels.datasets import Vocabulary
        >>> vocabulary = Vocabulary(["a", "fine", "film"])
        >>> ids, ptr = vocabulary.encode([["a", "film"], ["a", "dull", "film"]])
        >>> ids, ptr
        (tensor([2, 4, 2, 1, 4]), tensor([0, 2, 5]))
        >>> vocabulary.decode(ids[2:])
        ['a', '<unk>', 'film']

    See Also:
        :class:`TextCorpus`; :class:`TextLoader`;
        :func:`~pyg_kernels.datasets.text.read_word_vectors`.
    """

    padding = 0
    unknown = 1
    #: The words with which every vocabulary of the class begins.
    reserved: ClassVar[tuple[str, ...]] = (PADDING, UNKNOWN)

    def __init__(self, words: Iterable[str], specials: Sequence[str] = ()) -> None:
        self.words = [*self.reserved, *words_of(specials), *words_of(words)]
        self._numbers = {word: number for number, word in enumerate(self.words)}
        if len(self._numbers) != len(self.words):
            word, _ = Counter(self.words).most_common(1)[0]
            raise ValueError(f"the word {word!r} occurs twice")

    @classmethod
    def build(
        cls,
        texts: Iterable[Iterable[str]],
        min_count: int = 1,
        max_size: int | None = None,
        specials: Sequence[str] = (),
    ) -> Self:
        """Builds the vocabulary of some texts, which should be those of the training part.

        Args:
            texts: sequences of words, not strings.
            min_count: how often a word must occur at least.
            max_size: the largest V; the most frequent words are kept. None keeps all.
            specials: as in the constructor.

        Returns:
            The vocabulary: its words go from the most frequent to the rarest, equally frequent ones
            in the order in which they first occur.

        Raises:
            ValueError: if ``min_count`` is not positive, or ``max_size`` has no room for the
                special words.
            TypeError: if a text is a string.
        """
        reserved = {*cls.reserved, *specials}
        if min_count < 1:
            raise ValueError(f"min_count must be at least 1, got {min_count}")
        if max_size is not None and max_size < len(reserved):
            raise ValueError(f"max_size must be at least {len(reserved)}, got {max_size}")
        counts = Counter(word for text in texts for word in words_of(text))
        kept = [
            word
            for word, count in counts.most_common()
            if count >= min_count and word not in reserved
        ]
        if max_size is not None:
            kept = kept[: max_size - len(reserved)]
        return cls(kept, specials)

    def extended(self, words: Iterable[str]) -> Vocabulary:
        """A copy of the vocabulary with the given words that it lacks added at its end.

        It serves words that occur in no training text but have a vector, such as GloVe's.
        """
        new = dict.fromkeys(word for word in words if word not in self._numbers)
        return type(self)([*self.words[len(self.reserved) :], *new])

    def __len__(self) -> int:
        return len(self.words)

    def __contains__(self, word: object) -> bool:
        return word in self._numbers

    def __getitem__(self, word: str) -> int:
        """The number of a word, or of the unknown word if the vocabulary lacks the word."""
        return self._numbers.get(word, self.unknown)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({len(self)} words)"

    def encode(self, texts: Sequence[Sequence[str]]) -> tuple[Tensor, Tensor]:
        """The numbers of the words of B texts, one text after the other.

        Returns:
            ids: (N,) int64, the words of all texts.
            ptr: (B + 1,) int64; the words of text b are ``ids[ptr[b]:ptr[b + 1]]``.

        Raises:
            TypeError: if a text is a string.
        """
        number, unknown = self._numbers.get, self.unknown
        ids = [number(word, unknown) for text in texts for word in words_of(text)]
        lengths = torch.tensor([0, *map(len, texts)], dtype=torch.long)
        return torch.tensor(ids, dtype=torch.long), lengths.cumsum(0)

    def decode(self, ids: Tensor) -> list[str]:
        """The words of these numbers."""
        return [self.words[number] for number in ids.tolist()]


def words_of(text: Iterable[str]) -> Iterable[str]:
    """Returns the text, but refuses a string: its words would be its characters."""
    if isinstance(text, str):
        raise TypeError(f"expected a sequence of words, got the string {text[:40]!r}")
    return text
