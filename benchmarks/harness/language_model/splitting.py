"""Running text to words as a vocabulary writes them."""

import re
from bisect import bisect_right
from collections.abc import Iterator

from benchmarks.corpora.language import LanguageVocabulary
from pyg_kernels.datasets.text.vocabulary import TOKEN

NUMBER = "N"  # what the Penn Treebank writes for numbers, and for the sign of percent
DIGITS = re.compile(r"[\d.,]*\d")
PERCENT = "%"
HYPHEN = re.compile(r"(?<=[^\W_])-(?=[^\W_])")  # between letters or digits
COMPOUND = re.compile(r"\w+(?:-\w+)+")
MARKS = "-,."  # what WikiText writes @-@, @,@ and @.@ within a word or a number


class WordSplitter:
    """Splits running text like the corpus of a vocabulary, as far as its words reveal the rules.

    A chunk between white space is one word if the vocabulary has it. Otherwise it is split, from
    the left, into the longest words of the vocabulary and, where there are none, into the words of
    :func:`~pyg_kernels.datasets.text.tokenize`. So ``Corp.`` and ``long-term,`` are ``corp.`` and
    ``long-term ,`` to the Penn Treebank. The vocabulary determines these conventions:

    - letters become lower case unless it has words with capitals;
    - unknown numbers and ``%`` become ``N`` if it has that word and no word of digits (Penn
      Treebank: ``up N N``);
    - an unknown compound such as ``ill-timed`` stays one word if it has compounds;
    - marks within words and numbers are written ``@-@``, ``@,@`` and ``@.@`` if it has these
      (WikiText);
    - punctuation is left out if it has neither comma nor full stop (Penn Treebank).
    """

    def __init__(self, vocabulary: LanguageVocabulary) -> None:
        words = [word for word in vocabulary.words if word not in vocabulary.reserved]
        self.vocabulary = vocabulary
        self.longest = max(map(len, words), default=0)
        self.lowered = not any(len(word) > 1 and word != word.lower() for word in words)
        self.numbers = NUMBER in vocabulary and not any(map(str.isdigit, words))
        self.marks = {mark: f"@{mark}@" for mark in MARKS if f"@{mark}@" in vocabulary}
        self.compounds = "-" not in self.marks and any(map(COMPOUND.fullmatch, words))
        self.punctuation = "," in vocabulary or "." in vocabulary

    def __call__(self, text: str) -> list[str]:
        return [word for chunk in text.split() for word in self._words(chunk)]

    def _words(self, chunk: str) -> Iterator[str]:
        """The words of a chunk without white space."""
        if chunk in self.vocabulary:
            yield chunk
            return
        chunk = chunk.replace("\u2019", "'")
        if self.lowered:
            chunk = chunk.lower()
        spans = [token.span() for token in TOKEN.finditer(chunk)]
        ends = [end for _, end in spans]
        k = 0
        while k < len(spans):
            start, end = spans[k]
            if "-" in self.marks and HYPHEN.match(chunk, start):
                yield self.marks["-"]
            elif word := max(
                self._longest_known(chunk, start, ends), self._compound(chunk, start, ends), key=len
            ):
                end = start + len(word)
                yield word
            else:
                yield from self._unknown(chunk[start:end])
            k = bisect_right(ends, end)

    def _longest_known(self, chunk: str, start: int, ends: list[int]) -> str:
        """The longest word from `start` on that ends where a token ends; empty if there is none."""
        first, last = (bisect_right(ends, place) for place in (start, start + self.longest))
        words = (chunk[start:end] for end in reversed(ends[first:last]))
        return next((word for word in words if word in self.vocabulary), "")

    def _compound(self, chunk: str, start: int, ends: list[int]) -> str:
        """The compound that begins at `start`; empty: none does, or compounds are not one word."""
        found = COMPOUND.match(chunk, start) if self.compounds else None
        if found is None:
            return ""
        # Up to the last part that ends where a token ends: ill-timed-do in ill-timed-don't.
        word = chunk[start : ends[bisect_right(ends, found.end()) - 1]].rstrip("-")
        return word if "-" in word else ""

    def _unknown(self, word: str) -> Iterator[str]:
        """The words that replace a token that is not in the vocabulary."""
        if self.numbers and (word == PERCENT or DIGITS.fullmatch(word)):
            yield NUMBER
        elif DIGITS.fullmatch(word):
            for mark, written in self.marks.items():
                word = word.replace(mark, f" {written} ")
            yield from word.split()
        elif self.punctuation or any(map(str.isalnum, word)):
            yield word
