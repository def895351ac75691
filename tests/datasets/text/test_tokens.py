"""Running text to words."""

import pytest

from pyg_kernels.datasets.text import tokenize


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("Long-term (see [2])", "long - term ( see [ 2 ] )"),
        ("Don't say it's ours; they\u2019ve won't", "do n't say it 's ours ; they 've wo n't"),
        ("The U.S. lost $1,000.50, 3rd time.", "the u.s. lost $ 1,000.50 , 3rd time ."),
        ("'quoted' o'clock, ain't", "' quoted ' o ' clock , ai n't"),
        ("Zürich\n\t雨 _x_ \u00a0", "zürich 雨 _x_"),
        (" \n", ""),
    ],
)
def test_words_and_punctuation(text: str, words: str) -> None:
    assert tokenize(text) == words.split()


def test_case_may_stay() -> None:
    assert tokenize("DON'T", lower=False) == ["DO", "N'T"]
