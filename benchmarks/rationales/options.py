"""The options of the command, in plain values; nothing here imports torch."""

from dataclasses import asdict, dataclass
from typing import ClassVar, Literal, get_args

from benchmarks.harness.errors import InputError
from benchmarks.harness.options import (
    LARGEST_WIDTH,
    MOST_LAYERS,
    Application,
    TextColumns,
    Training,
    flag,
    setting,
)
from benchmarks.harness.retrieval.options import Source

PROGRAM = "benchmarks.rationales"
OWN = "texts"  # the user's own
TEXTS = ("planted", "beer", OWN)
MOLECULES = ("molecules", "chembl")
QUESTIONS = ("askubuntu", "msrp")
NAMED = ("planted", "beer", *MOLECULES, *QUESTIONS)

Kind = Literal["dependent", "independent", "attention", "svm", "full", "title"]
DEPENDENT, INDEPENDENT, ATTENTION, SVM, FULL, TITLE = get_args(Kind)
SELECTING = (DEPENDENT, INDEPENDENT)  # kinds that learn a rationale
READERS = (FULL, TITLE)  # kinds that read everything
MODELS_OF = {
    **dict.fromkeys(TEXTS, (DEPENDENT, INDEPENDENT, ATTENTION, SVM, FULL)),
    **dict.fromkeys(MOLECULES, (INDEPENDENT, FULL)),
    "askubuntu": (DEPENDENT, INDEPENDENT, FULL, TITLE),
    "msrp": (DEPENDENT, INDEPENDENT, FULL),
}
Aspect = Literal["appearance", "smell", "palate", "taste", "overall"]
ASPECTS = get_args(Aspect)
ANNEAL = 0.4  # fraction of all steps in which the share to select falls from one half
EXAMPLES = 20  # on a page


@dataclass(frozen=True)
class Defaults:
    """The defaults of the options of the same names on a data set."""

    epochs: int
    batch_size: int
    hidden: int
    rate: float
    coherence: float = 0.0
    lr: float = 0.001
    layers: int = 1
    dropout: float = 0.2
    samples: int = 4
    estimator: str = "reinforce"


# With drawn selections of questions nothing was learned: see docs/results/rationales.rst.
DEFAULTS = {
    "planted": Defaults(10, 64, 64, 0.12, 0.005),
    "beer": Defaults(50, 256, 200, 0.13, 0.01),
    OWN: Defaults(20, 64, 100, 0.15, 0.005),
    "molecules": Defaults(40, 32, 32, 0.04, lr=0.003, layers=2, dropout=0.0),
    "chembl": Defaults(100, 32, 32, 0.3, 0.01, lr=0.003, layers=2, dropout=0.0),
    "askubuntu": Defaults(30, 40, 200, 0.1, samples=1, estimator="gumbel"),
    "msrp": Defaults(6, 20, 100, 0.3, samples=1, estimator="gumbel"),
}


def defaults_text() -> str:
    """A line for each data set with its defaults."""
    named = {
        data: ", ".join(f"{name} {value}" for name, value in asdict(values).items())
        for data, values in DEFAULTS.items()
    }
    return "\n".join(f"  {'FILE' if data == OWN else data}: {text}" for data, text in named.items())


@dataclass(frozen=True, kw_only=True)
class Networks(Training):
    """Models; defaults depend on the data set.

    Args:
        models: models to compare (all that the data set has)
        rates: shares of words or atoms to select, a model for each; attention and svm use the first
        coherence: price of each pair of neighbouring words, or of bonded atoms, of which exactly
            one is selected
        warm_up: fraction of the training in which the encoder reads everything, before the
            generator starts to learn
        estimator: gradient of selections: they are drawn (reinforce) or relaxed in training
            (others)
        samples: number of selections drawn per text or molecule in training
        hidden: width of generator and encoder
        layers: number of layers of the encoder; on molecules, number of iterations
        dropout: dropout probability of word vectors and of the vector of what is read
        embedding: size of learned word vectors (100)
    """

    models: tuple[Kind, ...] = setting((), "model", free=True)
    rates: tuple[float, ...] = setting((), "rate", above=0, below=1, free=True)
    coherence: float | None = setting(None, least=0, free=True)
    warm_up: float = setting(0.0, least=0, most=1 - ANNEAL, free=True)
    estimator: Literal["reinforce", "gumbel", "hardkuma"] | None = setting(None, free=True)
    samples: int | None = setting(None, least=1, most=1000, free=True)
    hidden: int | None = setting(None, least=1, most=LARGEST_WIDTH, free=True)
    layers: int | None = setting(None, least=1, most=MOST_LAYERS, free=True)
    dropout: float | None = setting(None, least=0, below=1, free=True)
    embedding: int | None = setting(None, least=1, most=LARGEST_WIDTH, free=True)
    epochs: int | None = setting(None, least=1)
    batch_size: int | None = setting(None, least=1)
    lr: float | None = setting(None, above=0)


@dataclass(frozen=True, kw_only=True)
class Rationales(TextColumns, Source, Networks):
    """Texts and molecules.

    Args:
        data: planted, beer, molecules, chembl, askubuntu, msrp (see below), or your own texts: a
            file, of which a fifth is drawn to test on, or a training and a test file
        target_column: column of your file with the classes or numbers to predict
        evidence_column: column of your file with phrases that say a text's target, separated by |
        task: what your targets are (regression if all are numbers, and one has a fraction or more
            than 20 differ; otherwise classification)
        root: folder of the data set (data/NAME; planted: data); for molecules, the folder of CEP
        aspect: aspect of beer to predict (appearance)
        smarts: SMARTS of the group to count in molecules (fluorine on an aromatic ring; for CEP
            thiophene)
    """

    NAMED, OWN = NAMED, OWN
    OF_DATASETS: ClassVar = {
        **dict.fromkeys(("vectors", "embedding", "estimator"), (*TEXTS, *QUESTIONS)),
        **dict.fromkeys(("text_column", "target_column", "evidence_column"), (OWN,)),
        **dict.fromkeys(("encoding", "task"), (OWN,)),
        "aspect": ("beer",),
        "smarts": ("molecules",),
        "leave_out": ("askubuntu",),
    }

    data: tuple[str, ...] = setting(("planted",), free=True, repeats=True)
    target_column: str = setting("target")
    evidence_column: str | None = setting(None)
    task: Literal["classification", "regression"] | None = setting(None)
    aspect: Aspect | None = setting(None)
    smarts: str | None = setting(None)

    @property
    def folder(self) -> str:
        """The folder of its files and perhaps word vectors; empty for molecules inside RDKit."""
        known = {"planted": "data", **dict.fromkeys(MOLECULES, "")}
        return self.root or known.get(self.dataset, super().folder)

    def check(self) -> None:
        super().check()
        name = self.dataset
        if self.root and name == "chembl":
            raise InputError("--root goes with other data sets: chembl is inside RDKit")
        for model in self.models:
            if model not in MODELS_OF[name]:
                why = "; atoms have no order" if name in MOLECULES and model == DEPENDENT else ""
                raise InputError(f"--models {model}: {name} has {', '.join(MODELS_OF[name])}{why}")
        if not set(SELECTING) & set(self.kinds()):
            for option in ("coherence", "estimator", "warm_up"):
                if getattr(self, option):
                    raise InputError(f"{flag(option)} goes with --models {' or '.join(SELECTING)}")

    def kinds(self) -> tuple[str, ...]:
        return self.models or MODELS_OF[self.dataset]

    def chosen(self) -> Defaults:
        """The given options, with the data set's defaults for all others; of rates the first."""
        values = asdict(DEFAULTS[self.dataset])
        given = {name: getattr(self, name, None) for name in values}
        given["rate"] = self.rates[0] if self.rates else None
        return Defaults(**values | {k: v for k, v in given.items() if v is not None})

    def variants(self) -> list[tuple[str, str, float]]:
        """Name, kind and rate of each model: kinds that select once per rate, the others once."""
        rates = self.rates or (self.chosen().rate,)
        return [
            (f"{kind}-rate-{rate:g}" if kind in SELECTING and len(rates) > 1 else kind, kind, rate)
            for kind in self.kinds()
            for rate in (rates if kind in SELECTING else rates[:1])
        ]


@dataclass(frozen=True, kw_only=True)
class Explain(TextColumns, Application):
    """New texts, and a trained run on texts; --out is a folder."""
