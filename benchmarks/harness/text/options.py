"""Which texts and which networks; nothing here imports torch."""

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import Any, ClassVar, Literal, get_args

from benchmarks.harness.errors import InputError
from benchmarks.harness.options import (
    LARGEST_WIDTH,
    MOST_LAYERS,
    Options,
    TextColumns,
    own_files,
    setting,
)

Kind = Literal["rcnn", "lstm", "cnn", "bi-lstm", "bag-of-vectors"]
MachineName = Literal["rkm-lstm", "rkm-cifg", "linear-gated", "linear", "gated-cnn", "ran"]
ModelName = Literal[Kind, MachineName]
MODELS: tuple[Kind, ...] = get_args(Kind)
CellName = Literal[
    "lstm", "rkm-lstm", "rkm-cifg", "linear-gated", "linear", "gated-cnn", "cnn", "ran"
]
CELLS: tuple[CellName, ...] = get_args(CellName)
LAYERED = ("rcnn", "lstm", "bi-lstm")  # models with an option for the number of layers
READOUT = {"rcnn": "mean", "lstm": "last", "bi-lstm": "last"}  # defaults
COUNTS = {"rcnn": 2}  # defaults
MOST_COUNTED = 3  # words in an n-gram: its number has to fit in 64 bits
COMPARED = MODELS[:3]  # where none is named
OWN = "csv"  # texts of one's own
CORPORA = ("trec", "trec-fine", "sst-fine", "sst-binary", "mr", "ag_news")
ROOTS = {name: f"data/{name.partition('-')[0]}" for name in CORPORA}
ALIASES = {"sst": "sst-fine"}
DECAYS = ("learned", "input", "recurrent")  # besides numbers
CELL_WIDTH = 300  # Liang et al. 2019


@dataclass(frozen=True)
class TextModelConfig:
    """Everything that ``TextNet`` needs; plain values, so a checkpoint can carry it.

    Fields without a comment are described under the option of the same name in
    :class:`TextModels`.
    """

    # of the model: its kind, followed by the number of layers and the decay if several of them are
    # compared (``rcnn-3layers-decay-0.5``), or by the width of its filters (``ran-3gram``)
    name: str
    num_words: int  # size of the vocabulary
    embedding_dim: int  # size of a word vector
    fixed_embedding: bool  # whether word vectors are kept as they are
    num_classes: int
    hidden: int
    num_layers: int = 2  # layers of :data:`LAYERED`; the others have one
    dropout: float = 0.2
    readout: str = "last"
    order: int = 2
    decay: float | str = "input"  # a number, ``'learned'``, ``'input'`` or ``'recurrent'``
    activation: str = "tanh"
    rcnn_readout: str = "c"
    kind: str = "rcnn"  # one of :data:`MODELS`
    # words that the filters of a recurrent kernel machine read, for a kind of :data:`CELLS`;
    # 0 for other kinds
    ngram: int = 0
    counts: int = 0
    num_ngrams: int = 0  # different n-grams of up to `counts` words in the training part


@dataclass(frozen=True, kw_only=True)
class Texts(TextColumns):
    """Texts.

    Args:
        data: corpus: trec, trec-fine (questions, 6 and 50 classes), sst-fine or sst, sst-binary
            (sentences of film reviews, 5 and 2 classes), mr (the same, 2 classes, random split) or
            ag_news (news, 4 classes); or your own, see below: a file, of which a fifth of each
            class is drawn to test on, a training and a test file, or a folder with both
        root: folder of the corpus; missing files are downloaded (data/trec, data/sst, data/mr,
            data/ag_news)
        label_column: column of your file with the class (label)
        vectors: file of word vectors in GloVe's or word2vec's text format, also .gz; none: learn
            them (glove*.txt or glove*.txt.gz in DIR, DIR/glove or DIR/../glove with DIR the folder
            of the corpus or of your file; learned if there is none)
        tune_vectors: also train the word vectors that were read from a file
        unit_norm: scale word vectors that were read from a file to length 1
        phrases: train on the labelled phrases of sst too, from stsa.fine.phrases.train or
            stsa.binary.phrases.train in the folder of the corpus; auto: if this file exists
        split_seed: random seed of folds and of texts drawn to validate or to test on (0)
        folds: test in turn on the first N of ten random folds of all texts; 1: on the parts above,
            of mr on the first fold
    """

    data: tuple[str, ...] = setting(("trec",), free=True, repeats=True)
    root: str | None = setting(None, free=True)
    label_column: str | None = setting(None)
    vectors: str | None = setting(None, free=True)
    tune_vectors: bool = setting(False)
    unit_norm: bool = setting(False)
    phrases: Literal["no", "yes", "auto"] = setting("no")
    split_seed: int | None = setting(None, least=0)
    folds: int = setting(1, least=1, most=10)

    def check(self) -> None:
        super().check()
        if self.dataset == OWN:
            own_files(self.data, self.root, ROOTS, folders=True)
        elif self.text_column or self.label_column or self.encoding != "utf-8":
            these = "--text-column, --label-column and --encoding"
            raise InputError(f"{these} go with your own file, not {self.dataset}")
        sst = self.dataset.startswith("sst")
        if self.split_seed is not None and sst and self.folds == 1:
            raise InputError(f"--split-seed goes with data without three parts, not {self.dataset}")
        if self.folds > 1 and self.phrases != "no":
            raise InputError("--phrases are those of the official training part: no --folds")
        if self.phrases == "yes" and not sst:
            raise InputError(f"--phrases goes with sst-fine and sst-binary, not {self.dataset}")

    @property
    def dataset(self) -> str:
        """The name of a corpus, or :data:`OWN`."""
        name = ALIASES.get(self.data[0], self.data[0])
        return name if len(self.data) == 1 and name in ROOTS else OWN

    @property
    def files(self) -> list[str]:
        """The user's training and test file; empty for a corpus or a folder that has both."""
        return [] if self.dataset != OWN or Path(self.data[0]).is_dir() else list(self.data)

    @property
    def folder(self) -> str:
        """The folder of the corpus or of the user's files, which may also hold word vectors."""
        if self.dataset != OWN:
            return self.root or ROOTS[self.dataset]
        return str(Path(self.data[0]).parent) if self.files else self.data[0]


@dataclass(frozen=True, kw_only=True)
class TextModels(Options):
    """Models.

    Args:
        models: models to compare (the first three; with --ngram all recurrent kernel machines)
        ngram: filter widths of recurrent kernel machines in words, each for every machine (1)
        parameters: give each model the largest width with at most this many parameters, besides
            word vectors (300000, except for recurrent kernel machines)
        hidden: width of all models, in place of --parameters (300 for recurrent kernel machines)
        rcnn_hidden: width of rcnn without --hidden and --parameters; other models get the largest
            width with at most as many parameters as such an rcnn with --decays input
        layers: numbers of layers of rcnn, lstm and bi-lstm, a model for each; others have one layer
        decays: decays of rcnn, a model for each: numbers from 0 to below 1, learned, input or
            recurrent
        order: number of words in the n-grams of rcnn
        activation: activation function of rcnn
        rcnn_readout: n-grams that rcnn activates at a word: those up to the word (c), those that
            end at it (z), or those up to it, summed over all orders (sum)
        readout: vector of a text in rcnn, lstm and bi-lstm; last: last layer at the last word;
            mean: means over words of all layers, concatenated (mean for rcnn, last for others)
        counts: average each network's log-probabilities with those of a linear classifier of the
            n-grams of up to N words in a text; 0: network alone (2 for rcnn, 0 for others)
        dropout: dropout probability of word vectors, between layers, and of the text's vector
        embedding: size of learned word vectors (100)
    """

    EXCLUSIVE: ClassVar[tuple[tuple[str, ...], ...]] = (("hidden", "parameters"),)

    models: tuple[ModelName, ...] = setting((), "model", free=True)
    ngram: tuple[int, ...] = setting((), least=1, most=LARGEST_WIDTH, free=True)
    parameters: int | None = setting(None, least=1, free=True)
    hidden: int | None = setting(None, least=1, most=LARGEST_WIDTH, free=True)
    rcnn_hidden: int | None = setting(None, least=1, most=LARGEST_WIDTH, free=True)
    layers: tuple[int, ...] = setting((2,), "depths", least=1, most=MOST_LAYERS, free=True)
    decays: tuple[str, ...] = setting(("input",), "decay", free=True)
    order: int = setting(2, least=1, most=MOST_LAYERS, free=True)
    activation: Literal["relu", "tanh", "none"] = setting("relu", free=True)
    rcnn_readout: Literal["sum", "c", "z"] = setting("sum", free=True)
    readout: Literal["last", "mean"] | None = setting(None, free=True)
    counts: int | None = setting(None, least=0, most=MOST_COUNTED, free=True)
    dropout: float = setting(0.2, least=0, below=1, free=True)
    embedding: int | None = setting(None, least=1, most=LARGEST_WIDTH, free=True)

    def check(self) -> None:
        super().check()
        self.variants()

    def variants(self) -> list[dict[str, Any]]:
        """The arguments of each model to compare, without words, classes and width: one for each
        kind of :data:`MODELS`, or for each cell with each width of filters.
        """
        if not self.ngram and all(name in MODELS for name in self.models):
            return [each for kind in self.models or COMPARED for each in self._of_kind(kind)]
        for name in self.models:
            if name not in CELLS:
                others = ", ".join(name for name in self.models if name not in MODELS)
                raise InputError(
                    f"{name} does not go with {'--ngram' if self.ngram else others}: it is no "
                    "recurrent kernel machine; compare it in a call of its own"
                )
        same = {"num_layers": 1, "dropout": self.dropout, "counts": self.counts or 0}
        return [
            {"name": f"{cell}-{n}gram", "kind": cell, "ngram": n, **same}
            for cell, n in product(self.models or CELLS, self.ngram or (1,))
        ]

    def _of_kind(self, kind: str) -> list[dict[str, Any]]:
        """The arguments of a kind for each number of layers and each decay that it takes."""
        layers = self.layers if kind in LAYERED else self.layers[:1]
        decays = [*map(_decay, self.decays if kind == "rcnn" else self.decays[:1])]
        same = {x: getattr(self, x) for x in ("dropout", "order", "activation", "rcnn_readout")}
        same |= {"kind": kind, "readout": self.readout or READOUT.get(kind, "last")}
        same["counts"] = COUNTS.get(kind, 0) if self.counts is None else self.counts
        found = []
        for number, decay in product(layers, decays):
            name = kind + f"-{number}layers" * (len(layers) > 1)
            said = decay if isinstance(decay, str) else f"{decay:g}"
            name += f"-decay-{said}" * (len(decays) > 1)
            found.append({"name": name, "num_layers": number, "decay": decay, **same})
        return found


def unused(model: Mapping[str, Any]) -> set[str]:
    """The settings of :class:`TextModelConfig` that this model does not use."""
    kind = model["kind"] if not model["ngram"] else ""
    of_rcnn = {"decay", "order", "activation", "rcnn_readout"} if kind != "rcnn" else set()
    return of_rcnn | ({"num_layers", "readout"} if kind not in LAYERED else set())


def _decay(word: str) -> float | str:
    """A decay: a number if the word is a number, else the word."""
    with suppress(ValueError):
        if 0 <= float(word) < 1:
            return float(word)
    if word in DECAYS:
        return word
    known = ", ".join(DECAYS)
    raise InputError(f"--decays must be a number from 0 to below 1, {known}, got {word}")
