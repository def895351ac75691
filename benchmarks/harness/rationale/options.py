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
    DATASETS,
    DEPENDENT,
    DROPOUT,
    EMBEDDING,
    EPOCHS,
    ESTIMATOR,
    ESTIMATORS,
    HIDDEN,
    LAYERS,
    LEARNING_RATE,
    MARGIN,
    MODELS,
    MODELS_OF,
    MOLECULES,
    NEGATIVES,
    NUM_SAMPLES,
    PROGRAM,
    QUESTIONS,
    QUESTIONS_AROUND,
    RATE,
    READOUT,
    READOUTS,
    ROOTS,
    SELECTING,
    SELECTION_SIZE,
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
found by what is selected of their bodies.

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
        "--dataset",
        choices=DATASETS,
        default=DATASETS[0],
        help=f"one of {', '.join(DATASETS)}, see below ({DATASETS[0]})",
    )
    roots = ", ".join(f"{root} for {name}" for name, root in ROOTS.items())
    group.add_argument(
        "--root",
        type=nonempty,
        metavar="DIR",
        help=f"folder of its files, also compressed ({roots}; none for molecules)",
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
    for option, datasets in OF_DATASETS.items():
        if getattr(options, option) is not None and name not in datasets:
            known = ", ".join(datasets)
            raise InputError(f"--{option} goes with --dataset {known}, not {name}")
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
