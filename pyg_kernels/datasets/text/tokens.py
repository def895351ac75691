"""Running text to words."""

from __future__ import annotations

import re

TOKEN = re.compile(
    r"""
    n't\b | '(?:s|m|d|re|ve|ll)\b   # what GloVe writes as words of their own
    | (?:[^\W\d_]\.){2,}            # u.s.
    | \d+(?:[.,]\d+)+               # 1,000.5
    | \w+?(?=n't\b)                 # do before n't
    | \w+
    | [^\w\s]                       # any other character stands alone
    """,
    re.VERBOSE | re.IGNORECASE,
)


def tokenize(text: str, lower: bool = True) -> list[str]:
    """The words of a running text: runs of letters and digits, with punctuation split off.

    Numbers keep their commas and points (``1,000.5``), and letters with points between theirs
    (``u.s.``). Contractions are split as in the Penn Treebank and in GloVe's vectors: ``don't``
    gives ``do n't``, ``it's`` gives ``it 's``. Every other character that is not white space is a
    word of its own, so that ``long-term (see [2])`` has nine.

    Args:
        text: the text.
        lower: whether to write all words in lower case, as GloVe's vectors do.
    """
    text = text.replace("\u2019", "'")
    return TOKEN.findall(text.lower() if lower else text)
