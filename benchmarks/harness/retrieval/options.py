"""Which questions and which encoders; nothing here imports torch."""

from dataclasses import dataclass, fields
from pathlib import Path
from typing import ClassVar, Literal, get_args

from benchmarks.harness.errors import InputError
from benchmarks.harness.options import LARGEST_WIDTH, Options, flag, own_files, setting

EncoderName = Literal["rcnn", "lstm", "gru", "cnn"]
PoolingName = Literal["last", "mean", "max"]
FieldsName = Literal["title", "title+body"]
FIELDS: tuple[FieldsName, ...] = get_args(FieldsName)


@dataclass(frozen=True, kw_only=True)
class Source(Options):
    """Files of the data.

    Args:
        root: folder of the data set (data/NAME)
        vectors: file of word vectors in GloVe's or word2vec's text format, also .gz; none: learn
            them (askubuntu's own, or glove*.txt or glove*.txt.gz in DIR, DIR/glove or DIR/../glove
            with DIR the folder of the data set or of your file; learned if there is none)
        leave_out: leave out and count lines of askubuntu's files that are otherwise errors, such as
            an id without a question
        split_seed: random seed of the parts and of what else is drawn from the data
    """

    NAMED: ClassVar[tuple[str, ...]]  # data sets with a name
    OWN: ClassVar[str]  # the name of the user's own data
    OF_DATASETS: ClassVar[dict[str, tuple[str, ...]]]  # the data sets to which an option applies

    data: tuple[str, ...] = setting((), free=True, repeats=True)
    root: str | None = setting(None, free=True)
    vectors: str | None = setting(None, free=True)
    leave_out: bool = setting(False)
    split_seed: int = setting(0, least=0)

    def check(self) -> None:
        super().check()
        for one in fields(self):
            datasets = self.OF_DATASETS.get(one.name)
            if datasets and self.dataset not in datasets and getattr(self, one.name) != one.default:
                known = ", ".join("FILE" if name == self.OWN else name for name in datasets)
                raise InputError(f"{flag(one.name)} goes with --data {known}, not {self.dataset}")
        if self.dataset == self.OWN:
            own_files(self.data, self.root, self.NAMED)

    @property
    def dataset(self) -> str:
        """The name of a data set, or :attr:`OWN`."""
        return self.data[0] if len(self.data) == 1 and self.data[0] in self.NAMED else self.OWN

    @property
    def folder(self) -> str:
        """The folder of the data set or of the user's file, which may also hold word vectors."""
        own = self.dataset == self.OWN
        return str(Path(self.data[0]).parent) if own else self.root or f"data/{self.dataset}"


@dataclass(frozen=True, kw_only=True)
class Questions(Source):
    """Questions.

    Args:
        data: msrp (paraphrases of sentences of news), askubuntu (questions about Ubuntu), or your
            own pairs as a table with a header: a file, of which a fifth of the similar pairs is
            drawn to test on, or a training and a test file
        columns: columns of your pairs: first text, second text, whether they are similar (0 or 1)
        encoding: character encoding of your CSV or TSV file
        tune_vectors: also train the word vectors that were read from a file
    """

    NAMED, OWN = ("msrp", "askubuntu"), "pairs"
    OF_DATASETS: ClassVar = {"leave_out": ("askubuntu",), "columns": (OWN,), "encoding": (OWN,)}

    data: tuple[str, ...] = setting(("msrp",), free=True, repeats=True)
    columns: tuple[str, ...] = setting(("first", "second", "label"))
    encoding: str = setting("utf-8")
    tune_vectors: bool = setting(False)

    def check(self) -> None:
        super().check()
        if len(self.columns) != 3:
            raise InputError(f"--columns takes three names, not {len(self.columns)}")


@dataclass(frozen=True, kw_only=True)
class Networks(Options):
    """Encoders.

    Args:
        models: encoders to compare
        pooling: how the states at the words become the vector of a text (last for rcnn and gru,
            mean for lstm and cnn)
        fields: fields of a question that are read (title+body)
        parameters: give each encoder the largest width with at most this many parameters, besides
            word vectors (100000; askubuntu 401000, as in the thesis, where rcnn has a width of 400)
        hidden: width of all encoders, in place of --parameters
        embedding: size of learned word vectors (100)
        dropout: dropout probability of word vectors and of texts' vectors, also in pre-training
        negatives: number of random questions per similar question, drawn anew each epoch
        margin: margin by which a similar question's cosine should exceed that of all random ones
    """

    EXCLUSIVE: ClassVar[tuple[tuple[str, ...], ...]] = (("hidden", "parameters"),)

    models: tuple[EncoderName, ...] = setting(get_args(EncoderName), "model", free=True)
    pooling: tuple[PoolingName, ...] = setting((), free=True)
    fields: tuple[FieldsName, ...] = setting((), free=True)
    parameters: int | None = setting(None, least=1, free=True)
    hidden: int | None = setting(None, least=1, most=LARGEST_WIDTH, free=True)
    embedding: int | None = setting(None, least=2, most=LARGEST_WIDTH, free=True)
    dropout: float = setting(0.1, least=0, below=1)
    negatives: int = setting(20, least=1, most=1000)
    margin: float = setting(1.0, above=0)


@dataclass(frozen=True, kw_only=True)
class Pretraining(Options):
    """Pre-training.

    Args:
        pretraining: whether networks are pre-trained; both compares each network with and without
        pretraining_epochs: largest number of epochs of pre-training (3; askubuntu 40)
        pretraining_batch_size: titles per batch of pre-training (64; askubuntu 256)
    """

    pretraining: Literal["no", "yes", "both"] = setting("both", free=True)
    pretraining_epochs: int | None = setting(None, least=1, free=True)
    pretraining_batch_size: int | None = setting(None, least=1, free=True)

    def check(self) -> None:
        super().check()
        for name in ("pretraining_epochs", "pretraining_batch_size"):
            if self.pretraining == "no" and getattr(self, name):
                raise InputError(f"{flag(name)} goes with --pretraining yes or both, not no")

    def pretrained(self) -> list[bool]:
        """Whether networks are pre-trained; both values to compare each with and without."""
        return {"no": [False], "yes": [True], "both": [False, True]}[self.pretraining]
