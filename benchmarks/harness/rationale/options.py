"""The options of the comparison of rationales; nothing here imports torch."""

import argparse
from typing import Any

from benchmarks.harness.arguments import (
    LARGEST_WIDTH,
    MOST_LAYERS,
    OneLineParser,
    add_result_options,
    add_training_options,
    by_dataset,
    check_own_files,
    integer,
    nonempty,
    number,
)
from benchmarks.harness.errors import InputError
from benchmarks.harness.rationale.choices import estimator_of, stages
from benchmarks.harness.rationale.names import (
    ANNEAL,
    ASPECTS,
    BATCH_SIZE,
    COHERENCE,
    DEPENDENT,
    DROPOUT,
    EMBEDDING,
    EPOCHS,
    ESTIMATOR,
    ESTIMATORS,
    EXAMPLES,
    HIDDEN,
    LAYERS,
    LEARNING_RATE,
    MARGIN,
    MODELS,
    MODELS_OF,
    MOLECULES,
    NAMED,
    NEGATIVES,
    NUM_SAMPLES,
    OWN,
    PROGRAM,
    QUESTIONS,
    QUESTIONS_AROUND,
    RATE,
    READOUT,
    READOUTS,
    ROOTS,
    SELECTING,
    SELECTION_SIZE,
    TARGET_COLUMN,
    TEXT_COLUMN,
    TEXTS,
)

EPILOG = """\
Lei's thesis (2017), chapter 3. A generator selects some words and an encoder predicts from them
alone; both learn from the cost loss + sparsity * words selected + coherence * transitions. With
--rate the price of a word is moved until that share is selected. dependent: each selection depends
on those before; independent: it does not; attention, svm: the words with the largest weights of a
model that reads all of them; full: a model that reads all words; title: titles of questions.

planted: a sentence of a film review among questions, so that it is known where its polarity is said
(ROOT/mr and ROOT/trec, downloaded where they are not there); beer: ratings of one aspect, measured
against annotations; molecules: how often a functional group occurs (RDKit's ChEMBL assay, or CEP
with --root); chembl: the potency of that assay; askubuntu, msrp: similar questions or sentences,
found by what is selected of their bodies. Your own: --data FILE, a table with a header (CSV, TSV,
Parquet, also compressed) of texts and targets, classes or numbers, and perhaps of the phrases that
say it, against which selections are then measured.

To predict new texts, with the words that the predictions are made from:
  explain --checkpoint OUT/runs/dependent-seed0 --data new.csv --out explained

OUT holds metrics.json, predictions.csv, table.md, rationales.html (selections in colour), of
molecules rationales.png,
learning_curves.png, error_by_share.png, precision_by_share.png, configuration.json and a folder for
each run, runs/MODEL-seedN, with its best checkpoint: that of the epoch with the lowest cost on the
validation part, which knows nothing of evidence.
Exit status: 0 done, 1 training diverged, 2 bad input, 130 interrupted.
"""
# Which data sets an option is of.
OF_DATASETS = {
    "glove": (*TEXTS, *QUESTIONS),
    "embedding": (*TEXTS, *QUESTIONS),
    "questions": ("planted",),
    "aspect": ("beer",),
    "decorrelate": ("beer",),
    "smarts": ("molecules",),
    "readout": (*TEXTS, *QUESTIONS),
    "estimator": (*TEXTS, *QUESTIONS),
    "negatives": QUESTIONS,
    "margin": QUESTIONS,
}


def parser() -> argparse.ArgumentParser:
    """The options."""
    parser = OneLineParser(
        PROGRAM,
        prog=f"python -m {PROGRAM}",
        description="Learns which few words or atoms suffice for a prediction, and measures them.",
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    _add_data_options(parser.add_argument_group("texts and molecules"))
    _add_model_options(parser.add_argument_group("models"))
    _add_rationale_options(parser.add_argument_group("rationales"))
    training = parser.add_argument_group("training")
    add_training_options(training, EPOCHS, BATCH_SIZE, LEARNING_RATE)
    _add_ranking_options(training)
    add_result_options(parser.add_argument_group("results"), "runs/rationales-DATASET")
    return parser


def _add_data_options(group: Any) -> None:
    group.add_argument(
        "--data",
        nargs="+",
        type=nonempty,
        default=[NAMED[0]],
        metavar="NAME|FILE",
        help=f"one of {', '.join(NAMED)}, or your own texts, see below: a file, of which a fifth "
        f"is drawn to test on, or a training and a test file ({NAMED[0]})",
    )
    add_text_options(group)
    group.add_argument(
        "--target-column",
        default=TARGET_COLUMN,
        metavar="NAME",
        help=f"of classes or numbers, in your file ({TARGET_COLUMN})",
    )
    group.add_argument(
        "--evidence-column",
        type=nonempty,
        metavar="NAME",
        help="of phrases of a text that say what its target is, | between several (none)",
    )
    group.add_argument(
        "--task",
        choices=("classification", "regression"),
        help="what the targets of your file are (regression where all are numbers, and one has a "
        "fraction or more than 20 differ)",
    )
    roots = ", ".join(f"{root} for {name}" for name, root in ROOTS.items())
    group.add_argument(
        "--root",
        type=nonempty,
        metavar="DIR",
        help=f"folder of the files of NAME, also compressed ({roots}; none for molecules)",
    )
    group.add_argument(
        "--vectors",
        dest="glove",
        type=nonempty,
        metavar="FILE",
        help="word vectors in GloVe's or word2vec's text format, also compressed (.gz); none: "
        "learn them (askubuntu's own, or glove*.txt or glove*.txt.gz in DIR, DIR/glove or "
        "DIR/../glove; learned where there is none)",
    )
    low, high = QUESTIONS_AROUND
    group.add_argument(
        "--questions",
        nargs=2,
        type=integer(1, 1000),
        metavar="N",
        help=f"the smallest and the largest number around a planted sentence ({low} {high})",
    )
    group.add_argument("--aspect", choices=ASPECTS, help=f"of beer ({ASPECTS[0]})")
    group.add_argument(
        "--decorrelate",
        type=number(above=0, below=1),
        metavar="X",
        help="train on those reviews of beer of which no rating of another aspect has a "
        "correlation above X with this one (the published files are such)",
    )
    group.add_argument(
        "--smarts",
        type=nonempty,
        metavar="PATTERN",
        help="the group that is counted in molecules (fluorine on an aromatic ring; thiophene in "
        "those of CEP)",
    )
    group.add_argument(
        "--split-seed", type=integer(0), default=0, metavar="N", help="of parts and draws (0)"
    )


def explain_parser() -> argparse.ArgumentParser:
    """The options that pick the rationales of new texts."""
    parser = OneLineParser(
        PROGRAM,
        prog=f"python -m {PROGRAM} explain",
        description="Predicts new texts and marks the words that the predictions are made from.",
    )
    parser.add_argument(
        "--checkpoint",
        required=True,
        type=nonempty,
        metavar="RUN",
        help="best.ckpt of a run on texts, its folder, or a results folder with one run",
    )
    parser.add_argument(
        "--data",
        required=True,
        type=nonempty,
        metavar="FILE",
        help="a table with a header: CSV, TSV or Parquet",
    )
    add_text_options(parser)
    parser.add_argument(
        "--out",
        required=True,
        type=nonempty,
        metavar="DIR",
        help="folder of rationales.csv (predictions and selected words) and rationales.html",
    )
    parser.add_argument(
        "--limit", type=integer(1), default=EXAMPLES, metavar="N", help=f"on the page ({EXAMPLES})"
    )
    parser.add_argument(
        "--batch-size", type=integer(1), default=256, metavar="N", help="texts (256)"
    )
    parser.add_argument("--overwrite", action="store_true", help="replace what lies there")
    return parser


def add_text_options(group: Any) -> None:
    """Where texts stand in a table of one's own."""
    group.add_argument(
        "--text-column",
        default=TEXT_COLUMN,
        metavar="NAME",
        help=f"of texts, in your file ({TEXT_COLUMN})",
    )
    group.add_argument(
        "--encoding", default="utf-8", metavar="NAME", help="of your CSV file (utf-8)"
    )


def _add_model_options(group: Any) -> None:
    group.add_argument(
        "--models",
        "--model",
        nargs="+",
        choices=MODELS,
        metavar="NAME",
        help=f"one or more of {', '.join(MODELS)} (all that the data set has)",
    )
    group.add_argument(
        "--hidden",
        type=integer(1, LARGEST_WIDTH),
        metavar="N",
        help=f"width of generator and encoder ({by_dataset(HIDDEN)})",
    )
    group.add_argument(
        "--layers",
        type=integer(1, MOST_LAYERS),
        metavar="N",
        help=f"of the encoder ({by_dataset(LAYERS)}); iterations on molecules",
    )
    group.add_argument(
        "--readout",
        choices=READOUTS,
        help=f"what the encoder makes of its states at the words ({READOUT})",
    )
    group.add_argument(
        "--selection-size",
        type=integer(1, LARGEST_WIDTH),
        default=SELECTION_SIZE,
        metavar="N",
        help=f"units that {DEPENDENT} selections are carried on with ({SELECTION_SIZE})",
    )
    group.add_argument(
        "--dropout",
        type=number(least=0, below=1),
        metavar="X",
        help=f"of word vectors and of the vector of what is read ({by_dataset(DROPOUT)})",
    )
    group.add_argument(
        "--embedding",
        type=integer(1, LARGEST_WIDTH),
        metavar="N",
        help=f"size of learned word vectors ({EMBEDDING})",
    )


def _add_rationale_options(group: Any) -> None:
    group.add_argument(
        "--rates",
        "--rate",
        nargs="+",
        type=number(above=0, below=1),
        metavar="X",
        help=f"share of words or atoms to select, several: a model for each ({by_dataset(RATE)})",
    )
    group.add_argument(
        "--anneal",
        type=number(least=0, below=1),
        metavar="X",
        help="fraction of the training over which the share to select falls from one half to "
        f"--rate ({ANNEAL:g})",
    )
    group.add_argument(
        "--warm-up",
        type=number(least=0, below=1),
        metavar="X",
        help="fraction of the training in which the encoder reads everything, before anything is "
        "selected (0)",
    )
    group.add_argument(
        "--sparsity",
        nargs="+",
        type=number(least=0),
        metavar="X",
        help="price of a word or atom in place of a share, several: a model for each",
    )
    group.add_argument(
        "--coherence",
        type=number(least=0),
        metavar="X",
        help="price of a transition between a word that is selected and one that is not; of a "
        f"bond between atoms ({by_dataset(COHERENCE)})",
    )
    group.add_argument(
        "--estimator",
        choices=ESTIMATORS,
        help="of the gradient: selections are drawn, or relaxed in training; molecules have "
        f"{ESTIMATORS[0]} alone ({by_dataset(ESTIMATOR)})",
    )
    group.add_argument(
        "--samples",
        type=integer(1, 1000),
        metavar="N",
        help=f"selections drawn of each text or molecule in training ({by_dataset(NUM_SAMPLES)})",
    )
    group.add_argument(
        "--temperature",
        type=number(above=0),
        metavar="X",
        help="of the estimator gumbel (1)",
    )


def _add_ranking_options(group: Any) -> None:
    group.add_argument(
        "--negatives",
        type=integer(1, 1000),
        metavar="N",
        help=f"random questions for each similar one, drawn anew each epoch ({NEGATIVES})",
    )
    group.add_argument(
        "--margin",
        type=number(above=0),
        metavar="X",
        help=f"by which the similar one is to be closer than the best of these ({MARGIN:g})",
    )


def check_options(options: argparse.Namespace) -> None:
    """Refuses options that contradict each other or would have no effect."""
    name = options.dataset
    if name == OWN:
        check_own_files(options, NAMED)
    elif _own_options(options):
        raise InputError(f"{_own_options(options)[0]} goes with your own file, not {name}")
    for option, datasets in OF_DATASETS.items():
        if getattr(options, option) is not None and name not in datasets:
            known = ", ".join("FILE" if other == OWN else other for other in datasets)
            raise InputError(f"--{option} goes with --data {known}, not {name}")
    if options.root and name == "chembl":
        raise InputError("--root goes with other data sets: chembl is inside RDKit")
    for model in options.models or ():
        if model not in MODELS_OF[name]:
            known = ", ".join(MODELS_OF[name])
            why = "; atoms have no order" if name in MOLECULES and model == DEPENDENT else ""
            raise InputError(f"--models {model}: {name} has {known}{why}")
    if options.questions and options.questions[0] > options.questions[1]:
        low, high = options.questions
        raise InputError(f"--questions {low} {high}: the first must not be larger than the second")
    _check_rationale_options(options)


def _own_options(options: argparse.Namespace) -> list[str]:
    """Those of texts of one's own that differ from what they are unless given."""
    unless_given = {
        "text_column": TEXT_COLUMN,
        "target_column": TARGET_COLUMN,
        "evidence_column": None,
        "task": None,
        "encoding": "utf-8",
    }
    return [
        f"--{option.replace('_', '-')}"
        for option, value in unless_given.items()
        if getattr(options, option) != value
    ]


def _check_rationale_options(options: argparse.Namespace) -> None:
    if options.rates and options.sparsity:
        raise InputError("--rate and --sparsity exclude each other")
    if options.anneal is not None and options.sparsity:
        raise InputError("--anneal goes with --rate, not --sparsity")
    warm_up, anneal = stages(options)
    if not options.sparsity and warm_up + anneal > 1:
        raise InputError(
            f"--warm-up {warm_up:g} and --anneal {anneal:g}: the share falls after the warm-up, so "
            "that their sum must be at most 1"
        )
    if options.temperature and estimator_of(options) != "gumbel":
        raise InputError("--temperature goes with --estimator gumbel")
    selecting = set(SELECTING) & set(options.models or MODELS_OF[options.dataset])
    for name in ("sparsity", "coherence", "estimator", "temperature", "anneal", "warm_up"):
        if getattr(options, name) is not None and not selecting:
            option = name.replace("_", "-")
            raise InputError(f"--{option} goes with --models {' or '.join(SELECTING)}")
