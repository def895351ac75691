"""The AG News topics."""

import html
import re
from pathlib import Path

from pyg_kernels.datasets.public_file import PublicFile
from pyg_kernels.datasets.text.text_table import TextCSV

FOLDER = "https://raw.githubusercontent.com/mhjabreel/CharCnn_Keras/master/data/ag_news_csv/"
CLASSES = ("World", "Sports", "Business", "Sci/Tech")
ENTITY = re.compile(r"&?#(\d+);")


class AGNews(TextCSV):
    r"""Titles and descriptions of 120,000 training and 7,600 test articles on four topics.

    AG's corpus of news as sampled by Zhang et al. 2015. In its files a backslash stands for a line
    break, whatever follows it. Characters that are written as ``#39;`` or ``&lt;`` are decoded.

    Args:
        root: the folder of ``train.csv`` and ``test.csv`` (or ``ag_news.train.csv`` and
            ``ag_news.test.csv``). If only the test file is there, nothing is downloaded: a
            fifth of each of its classes is drawn to test on; the rest trains. ``split`` says so.
        seed: the seed of that draw.
    """

    train_file = PublicFile(
        "train.csv",
        FOLDER + "train.csv",
        "76a0a2d2f92b286371fe4d4044640910a04a803fdd2538e0f3f29a5c6f6b672e",
        aliases=("ag_news.train.csv",),
    )
    test_file = PublicFile(
        "test.csv",
        FOLDER + "test.csv",
        "521465c2428ed7f02f8d6db6ffdd4b5447c1c701962353eb2c40d548c3c85699",
        aliases=("ag_news.test.csv",),
    )

    def __init__(self, root: str | Path, seed: int = 0) -> None:
        train, test = self.train_file.find(root), self.test_file.find(root)
        if train is None and test is not None:
            super().__init__(test, None, CLASSES, seed=seed, clean=clean)
            return
        # The training part comes first: if it alone is there, the next call gets the test part.
        train = train or self.train_file.obtain(root)
        test = test or self.test_file.obtain(root)
        super().__init__(train, test, CLASSES, seed=seed, clean=clean)


def clean(text: str) -> str:
    """Replaces backslashes by spaces and decodes escaped characters."""
    return html.unescape(ENTITY.sub(r"&#\1;", text.replace("\\", " ")))
