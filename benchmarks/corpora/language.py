"""Running text in parts, as streams of word numbers for language models, and batches of these."""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import torch
from torch import Tensor

from benchmarks.corpora.published_text import fingerprint
from pyg_kernels.datasets.public_file import find_file, read_lines
from pyg_kernels.datasets.text.corpus import PARTS
from pyg_kernels.datasets.text.vocabulary import UNKNOWN, Vocabulary, tokenize, words_of

END = "<eos>"
FEWEST_LINES = 10
# The name of a part's file in each family: Mikolov's, WikiText's, plain files.
FILES = {"ptb": "ptb.{}.txt", "wikitext": "wiki.{}.tokens", "text": "{}.txt"}
IGNORED = -100  # marks a missing target; cross-entropy ignores it
HALVED = 0.05  # how often the mean number of steps of a batch is halved, if steps are drawn
SPREAD = 5.0  # standard deviation of a drawn number of steps
FEWEST = 5


class LanguageVocabulary(Vocabulary):
    """The words of streams, which need no padding: the unknown word, the end of a line, others."""

    padding = -1  # no word has this number
    unknown = 0
    end = 1
    reserved = (UNKNOWN, END)


class TextStreams:
    """Texts in three parts, each part as one stream of word numbers.

    Each line, even an empty one, ends with the word ``<eos>``, as in the published perplexities of
    the Penn Treebank and WikiText. The vocabulary is that of the training part.

    Args:
        parts: the lines of ``'train'``, ``'valid'`` and ``'test'``, each a sequence of words.
        name: the name of the texts.
        min_count: how often a word must occur in the training part to be in the vocabulary. None
            means once if that part has ``<unk>`` for rare words, as published corpora have, and
            twice otherwise, so that the unknown word occurs in training.
        max_size: the largest vocabulary; the most frequent words are kept. None keeps all.
    """

    def __init__(
        self,
        parts: Mapping[str, Sequence[Sequence[str]]],
        name: str = "texts",
        min_count: int | None = None,
        max_size: int | None = None,
    ) -> None:
        self.name = name
        if min_count is None:
            min_count = 1 if any(UNKNOWN in line for line in parts["train"]) else 2
        self.vocabulary = LanguageVocabulary.build(parts["train"], min_count, max_size)
        self.streams: dict[str, Tensor] = {}  # of each part, the numbers of its words, int64
        self.unknown: dict[str, int] = {}  # of each part, its words that become ``<unk>``
        for part in PARTS:
            words = [word for line in parts[part] for word in (*words_of(line), END)]
            self.streams[part], _ = self.vocabulary.encode([words])
            unknown = int((self.streams[part] == self.vocabulary.unknown).sum())
            self.unknown[part] = unknown - words.count(UNKNOWN)

    def digest(self) -> str:
        """A fingerprint of vocabulary and streams: equal only if both are equal."""
        return fingerprint(self.vocabulary.words, *(self.streams[part] for part in PARTS))


class LanguageCorpus(TextStreams):
    """The texts of a folder, in the format of the Penn Treebank or of WikiText.

    Mikolov's Penn Treebank (2010) has 10,000 different words, including ``<eos>``, and 929,589 /
    73,760 / 82,430 words in its parts. WikiText-2 (Merity et al. 2017) has 33,278 different words,
    and 2,088,628 / 217,646 / 245,569 words in its parts.

    Args:
        root: a folder of one of the :data:`FILES`, also with ``.gz``: the first of these whose
            training file exists is read. White space separates words.
        encoding: the encoding of the files.
    """

    def __init__(self, root: str | Path, encoding: str = "utf-8") -> None:
        root = Path(root).expanduser()
        trained = {name: names.format("train") for name, names in FILES.items()}
        name = next((name for name, file in trained.items() if find_file(root, file)), None)
        if name is None:
            if not root.is_dir():
                raise FileNotFoundError(f"{root}: no such folder or file")
            wanted = ", ".join(trained.values())
            raise FileNotFoundError(f"{root} has no training file {wanted}, nor one with .gz")
        parts = {}
        for part in PARTS:
            wanted = FILES[name].format(part)
            file = find_file(root, wanted)
            if file is None:
                raise FileNotFoundError(f"{root} has no file {wanted} or {wanted}.gz")
            parts[part] = [line.split() for line in read_lines(file, encoding)]
            if not any(parts[part]):
                raise ValueError(f"{file} has no words")
        super().__init__(parts, name)


class OwnText(TextStreams):
    """The user's own text file: the first 80 % of its lines train, 10 % validate, the rest test.

    Lines without words are left out.

    Args:
        path: the file, a sentence or paragraph per line; decompressed if its name ends in ``.gz``.
        encoding: the encoding of the file.
        words: whether words are separated by white space, as in published corpora. Otherwise
            :func:`~pyg_kernels.datasets.text.tokenize` splits the lines.
    """

    def __init__(self, path: str | Path, encoding: str = "utf-8", words: bool = False) -> None:
        path = Path(path).expanduser()
        split = str.split if words else _words
        lines = [line for line in map(split, read_lines(path, encoding)) if line]
        number = len(lines)
        if number < FEWEST_LINES:
            raise ValueError(
                f"{path} has {number} lines with words; {FEWEST_LINES} or more are needed, a "
                "sentence or a paragraph each"
            )
        first, second = 8 * number // 10, 9 * number // 10
        parts = {"train": lines[:first], "valid": lines[first:second], "test": lines[second:]}
        super().__init__(parts, path.name.partition(".")[0])


def _words(line: str) -> list[str]:
    """The words of running text; the unknown word ``<unk>`` is not split."""
    first, *others = map(tokenize, line.split(UNKNOWN))
    return [*first, *(word for part in others for word in (UNKNOWN, *part))]


class LanguageBatch(NamedTuple):
    """The next T words of B streams."""

    ids: Tensor  # (T, B) int64, the words read
    targets: Tensor  # (T, B) int64, the word after each; -100 where a stream has ended


class LanguageLoader:
    """A stream of N words cut into B equally long streams that are read side by side.

    A batch continues where the previous one ended, so that a state can be carried from batch to
    batch. A new iteration starts from the beginning.

    Args:
        stream: (N,) int64, the numbers of the words.
        batch_size: B, reduced to the number of words to predict if these are fewer.
        steps: T; the last batch may have fewer.
        whole: whether every word is predicted exactly once, as in an evaluation: the first one from
            an end of line. Streams that end early are filled up with targets of -100. Otherwise the
            last words, fewer than B, are left out.
        vary: whether T is drawn for each batch and epoch: normal with standard deviation 5 and mean
            ``steps`` or, once in 20, half of that; at least 5 (Merity et al. 2018). The learning
            rate should be scaled by T / ``steps``.
        seed: the seed of these draws.
    """

    def __init__(
        self,
        stream: Tensor,
        batch_size: int,
        steps: int = 35,
        whole: bool = False,
        vary: bool = False,
        seed: int = 0,
    ) -> None:
        if whole:
            stream = torch.cat((stream.new_tensor([LanguageVocabulary.end]), stream))
        number = len(stream) - 1
        self.steps, self.vary, self.seed, self.epoch = steps, vary, seed, 0
        batch_size = min(batch_size, number)
        # (L, B) each: column b is the b-th segment of the stream.
        self._ids = _columns(stream[:-1], batch_size, whole, int(stream[0]))
        self._targets = _columns(stream[1:], batch_size, whole, IGNORED)

    def set_epoch(self, epoch: int) -> None:
        self.epoch = epoch

    def __len__(self) -> int:
        return len(self._sizes())

    def __iter__(self) -> Iterator[LanguageBatch]:
        sizes = self._sizes()
        parts = zip(self._ids.split(sizes), self._targets.split(sizes), strict=True)
        return (LanguageBatch(ids, targets) for ids, targets in parts)

    def _sizes(self) -> list[int]:
        left, sizes, steps = len(self._ids), [], self.steps
        generator = torch.Generator().manual_seed((1_000_003 * self.seed + self.epoch) % 2**63)
        while left:
            if self.vary:
                halved = float(torch.rand((), generator=generator)) < HALVED
                mean = self.steps / 2 if halved else float(self.steps)
                drawn = mean + SPREAD * float(torch.randn((), generator=generator))
                steps = max(FEWEST, int(drawn))
            sizes.append(min(steps, left))
            left -= sizes[-1]
        return sizes


def _columns(words: Tensor, batch_size: int, whole: bool, filling: int) -> Tensor:
    if whole:
        missing = -len(words) % batch_size
        words = torch.cat((words, words.new_full((missing,), filling)))
    length = len(words) // batch_size
    return words[: length * batch_size].view(batch_size, length).t().contiguous()
