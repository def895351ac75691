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
        root: folder of a data set with a name (data/NAME)
        vectors: word vectors in GloVe's or word2vec's text format, also compressed (.gz); none,
            learn them (askubuntu's own, or glove*.txt or glove*.txt.gz in DIR, DIR/glove or
            DIR/../glove; learned where there is none)
        leave_out: leave out, and count, lines of askubuntu's files that are errors otherwise, such
            as those of an id without a question
        split_seed: of parts and draws
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
        data: msrp, paraphrases of sentences of news; askubuntu, questions about Ubuntu; or your own
            pairs, a table with a header: a file, of which a fifth of the similar ones is drawn to
            test on, or a training and a test file
        columns: of your pairs, two texts and whether they are similar, 0 or 1
        encoding: of your CSV file
        tune_vectors: train these vectors too
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
        models: encoders
        pooling: how a text's states become its vector (last for rcnn and gru, mean for lstm and
            cnn)
        fields: what is read of a question (title+body)
        parameters: each encoder gets the largest width within this number, besides word vectors
            (100000; askubuntu 401000, the thesis's, a width of 400 for rcnn)
        hidden: this width instead
        embedding: size of learned word vectors (100)
        dropout: of word vectors and of texts' vectors, in pre-training too
        negatives: random questions for each similar one, drawn anew each epoch
        margin: by which the similar one is to be closer than the best of these
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
        pretraining: which networks to compare, none pre-trained, all, or each with and without
        pretraining_epochs: at most (3; askubuntu 40)
        pretraining_batch_size: titles a batch (64; askubuntu 256)
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
