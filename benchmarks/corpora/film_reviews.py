"""Sentences of film reviews: the polarity data, and the Stanford Sentiment Treebank."""

from pathlib import Path

from benchmarks.corpora.published_text import in_folds, labelled, numbered
from pyg_kernels.datasets.public_file import PublicFile, find_file
from pyg_kernels.datasets.text.corpus import PARTS, TextCorpus

ARCHIVE = (
    "https://raw.githubusercontent.com/nltk/nltk_data/gh-pages/packages/corpora/"
    "sentence_polarity.zip"
)
SST_FOLDER = "https://raw.githubusercontent.com/taolei87/text_convnet/master/data/"
SST_SHA256 = {
    "stsa.binary.train": "71c04bcc41291fa47454dd670df701b14ee9249156babeaac404cfe2c8d74338",
    "stsa.binary.dev": "02fedc82855dbdcabe82c65ed1af6c6570788eaac51073cdb35ee8c7784426d1",
    "stsa.binary.test": "6a80dc9b9a0db2d3b37f2f809304febad31c90ab67a5b4157b7d9f881c53ef5b",
    "stsa.fine.train": "9b52b5f686ed438d4d0274c385369251b3d579b578fddd340ba8a9bae2ca4bee",
    "stsa.fine.dev": "b2f76c62b960f9fda5c6d751edb125abab4f878eb94a8754239b7f4af647f4c3",
    "stsa.fine.test": "0e2ebb450c231f7b3d67fc932066e7bb26ae7bad8c88488f45ed44ef02eb3c73",
}
SST_CLASSES = {"fine": "01234", "binary": "01"}


class MR(TextCorpus):
    """5,331 positive and 5,331 negative sentences of film reviews (Pang and Lee 2005).

    There are no published parts: the first of ten random folds is the test part.

    Args:
        root: the folder of ``rt-polarity.pos`` and ``rt-polarity.neg``.
        seed: the seed of the folds, see :func:`~benchmarks.corpora.published_text.in_folds`.
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
        texts: list[list[str]] = []
        names: list[str] = []
        for name, file in (("negative", self.negative_file), ("positive", self.positive_file)):
            for where, line in numbered(file.obtain(root)):
                if not line.split():
                    raise ValueError(f"{where} is empty")
                texts.append(line.lower().split())
                names.append(name)
        super().__init__(texts, names, *in_folds(texts, 0, seed))


class SST(TextCorpus):
    """Sentences of film reviews with a sentiment, in the published parts.

    The Stanford Sentiment Treebank (Socher et al. 2013) has 8,544 / 1,101 / 2,210 sentences of five
    classes, from 0 (very negative) to 4, or 6,920 / 872 / 1,821 of two, without neutral ones. Its
    phrases have labels too; the phrases of the training part can be trained on.

    Args:
        root: the folder of ``stsa.fine.train``, ``stsa.fine.dev`` and ``stsa.fine.test`` (or
            ``stsa.binary...``).
        labels: ``'fine'`` or ``'binary'``.
        phrases: whether to train on ``stsa.fine.phrases.train`` (or ``stsa.binary...``) in place
            of the training file, as in Kim 2014. It has the sentences and their phrases, and is not
            downloaded. None uses it if it is there.
    """

    def __init__(
        self, root: str | Path, labels: str = "fine", phrases: bool | None = False
    ) -> None:
        if labels not in SST_CLASSES:
            raise ValueError(f"labels must be 'fine' or 'binary', got {labels!r}")
        name = f"stsa.{labels}.phrases.train"
        phrase_file = None if phrases is False else find_file(root, name)
        if phrases and phrase_file is None:
            raise FileNotFoundError(
                f"{Path(root).expanduser()} has no file {name}, of the sentences and their phrases"
            )
        paths = {} if phrase_file is None else {"train": phrase_file}
        for part in PARTS[len(paths) :]:
            name = f"stsa.{labels}.{'dev' if part == 'valid' else part}"
            paths[part] = PublicFile(name, SST_FOLDER + name, SST_SHA256[name]).obtain(root)

        def parse(where: str, line: str) -> tuple[str, str]:
            label, _, sentence = line.partition(" ")
            if label not in tuple(SST_CLASSES[labels]) or not sentence.split():
                said = f"a class from 0 to {SST_CLASSES[labels][-1]} and a sentence"
                raise ValueError(f"{where} is not {said}")
            return label, sentence

        split = "official parts, training on phrases too" if phrase_file else "official parts"
        super().__init__(*labelled(paths, parse), split)
