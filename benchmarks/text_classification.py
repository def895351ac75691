"""Classification of texts: an RCNN beside an LSTM and a CNN, or recurrent kernel machines.

``python -m benchmarks.text_classification --help``. Heavy imports happen after the arguments have
been read: ``--help`` and a misspelt option answer at once.
"""

import argparse
import sys
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any, TypeVar

from benchmarks.harness.arguments import (
    LARGEST_WIDTH,
    MOST_LAYERS,
    OneLineParser,
    add_result_options,
    add_training_options,
    check_training_options,
    exit_status,
    integer,
    nonempty,
    number,
    training_config,
)
from benchmarks.harness.errors import InputError, naming_extras

Value = TypeVar("Value")

PROGRAM = "benchmarks.text_classification"
# The keys of text.data.CORPORA and text.models.MODELS, and text.models.CELLS: repeated to answer
# without importing torch.
DATASETS = ("trec", "trec-fine", "sst-fine", "sst-binary", "mr", "ag_news", "csv")
MODELS = ("rcnn", "lstm", "cnn")
CELLS = ("lstm", "rkm-lstm", "rkm-cifg", "linear-gated", "linear", "gated-cnn", "cnn", "ran")
ROOTS = {
    "trec": "data/trec",
    "trec-fine": "data/trec",
    "sst-fine": "data/sst",
    "sst-binary": "data/sst",
    "mr": "data/mr",
    "ag_news": "data/ag_news",
}
ALIASES = {"sst": "sst-fine"}
EPOCHS = dict.fromkeys(DATASETS, 20)
BATCH_SIZE = dict.fromkeys(DATASETS, 50)
LEARNING_RATE = dict.fromkeys(DATASETS, 0.003)
DROPOUT = 0.2
PARAMETERS = 300_000
LAYERS = 2
CELL_WIDTH = 300  # Liang et al. 2019
EMBEDDING = 100

EPILOG = """\
Two families of models, one in each call. rcnn, lstm and cnn: a recurrent convolution, two layers of
torch's LSTM, windows and their maximum (Kim 2014), of about equal size. The recurrent kernel
machines of Liang et al. 2019, with --ngram or where one of them alone is named: one layer of 300
units, layer normalisation, the mean over words, two fully connected layers; each cell with each
width is a model, such as rkm-lstm-3gram. There lstm and cnn are the paper's cells of these names.

The weights of the epoch with the best validation accuracy are tested. Where a corpus has no part to
validate on, a tenth of each class is held out of training.

OUT holds metrics.json, predictions.csv, table.md, confusion.png, learning_curves.png,
configuration.json and a folder for each run, runs/MODEL-seedN, with its best checkpoint.
Exit status: 0 done, 1 training diverged, 2 bad input, 130 interrupted.
"""


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs the command line.

    Args:
        arguments: The words after the program's name; ``None``: those of this process.

    Returns:
        The exit status: 0 done, 1 training diverged, 2 bad input, 130 interrupted.
    """
    return exit_status(PROGRAM, lambda: _compare(parser().parse_args(arguments)), several=True)


def parser() -> argparse.ArgumentParser:
    """The options."""
    parser = OneLineParser(
        PROGRAM,
        prog=f"python -m {PROGRAM}",
        description="Trains text classifiers on one split and compares them in one table.",
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    _add_text_options(parser.add_argument_group("texts"))
    _add_model_options(parser.add_argument_group("models"))
    training = parser.add_argument_group("training")
    add_training_options(training, EPOCHS, BATCH_SIZE, LEARNING_RATE)
    add_result_options(parser.add_argument_group("results"), "runs/text-DATASET")
    return parser


def _add_text_options(group: argparse._ArgumentGroup) -> None:
    group.add_argument(
        "--dataset",
        type=lambda name: ALIASES.get(name, name),
        choices=DATASETS,
        help="trec: questions, 6 classes; trec-fine: the same, 50 classes; sst-fine (or sst), "
        "sst-binary: sentences of film reviews, 5 or 2 classes; mr: the same, 2 classes, random "
        "split; ag_news: news, 4 classes; csv: your own (trec; csv where --csv is given)",
    )
    group.add_argument(
        "--root",
        type=nonempty,
        metavar="DIR",
        help="folder of its files, downloaded where they are not there (data/trec, data/sst, "
        "data/mr, data/ag_news); for csv, of train.csv, test.csv and perhaps classes.txt",
    )
    group.add_argument(
        "--csv",
        nargs="+",
        type=nonempty,
        metavar="FILE",
        help="for csv in place of --root: rows of a class, from 1, and texts, without a header; a "
        "file, of which a fifth is drawn to test on, or a training and a test file",
    )
    group.add_argument(
        "--glove",
        type=nonempty,
        metavar="FILE",
        help="word vectors in GloVe's text format, also compressed (.gz); none: learn them "
        "(glove*.txt or glove*.txt.gz in DIR, DIR/glove or DIR/../glove; learned where there is "
        "none)",
    )
    group.add_argument(
        "--tune-vectors", action="store_true", help="train these vectors too (they are kept)"
    )
    group.add_argument(
        "--split-seed",
        type=integer(0),
        metavar="N",
        help="of the texts held out of training, of the folds of mr, or of the texts drawn (0)",
    )


def _add_model_options(group: argparse._ArgumentGroup) -> None:
    own = [name for name in CELLS if name not in MODELS]
    group.add_argument(
        "--models",
        "--model",
        nargs="+",
        type=_listed(_one_of(dict.fromkeys((*MODELS, *CELLS)))),
        metavar="NAME",
        help=f"one or more, with spaces or commas between, of {', '.join(MODELS)} (all), or of "
        f"lstm, cnn, {', '.join(own)} (all with --ngram)",
    )
    group.add_argument(
        "--ngram",
        nargs="+",
        type=_listed(integer(1, LARGEST_WIDTH)),
        metavar="N",
        help="one or more widths of the filters of recurrent kernel machines, in words (1)",
    )
    group.add_argument(
        "--parameters",
        type=integer(1),
        metavar="N",
        help="each model gets the largest width within this number of parameters besides word "
        f"vectors ({PARAMETERS} for {', '.join(MODELS)})",
    )
    group.add_argument(
        "--hidden",
        type=integer(1, LARGEST_WIDTH),
        metavar="N",
        help=f"this width instead ({CELL_WIDTH} for recurrent kernel machines)",
    )
    group.add_argument(
        "--layers",
        type=integer(1, MOST_LAYERS),
        metavar="N",
        help=f"layers of rcnn and torch's lstm ({LAYERS}); the others have one",
    )
    group.add_argument(
        "--dropout",
        type=number(least=0, below=1),
        default=DROPOUT,
        metavar="X",
        help=f"of word vectors, between layers, and of the text's vector ({DROPOUT})",
    )
    group.add_argument(
        "--embedding",
        type=integer(1, LARGEST_WIDTH),
        metavar="N",
        help=f"size of learned word vectors ({EMBEDDING})",
    )


def _listed(convert: Callable[[str], Value]) -> Callable[[str], list[Value]]:
    """The type of an argument that is a list with commas between."""
    return lambda text: [convert(word) for word in text.split(",")]


def _one_of(names: Iterable[str]) -> Callable[[str], str]:
    """The type of an argument that is one of some names."""
    known = list(names)

    def convert(text: str) -> str:
        if text not in known:
            raise argparse.ArgumentTypeError(
                f"invalid choice: {text!r} (choose from {', '.join(known)})"
            )
        return text

    return convert


def _model_names(options: argparse.Namespace) -> list[str]:
    """The models to compare: those of :data:`MODELS`, or each cell with each width."""
    named = list(dict.fromkeys(name for names in options.models or [] for name in names))
    widths = list(dict.fromkeys(width for some in options.ngram or [] for width in some))
    if not widths and all(name in MODELS for name in named):
        return named or list(MODELS)
    if "rcnn" in named:
        why = "--ngram" if widths else ", ".join(name for name in named if name not in MODELS)
        raise InputError(
            f"rcnn does not go with {why}: it is no recurrent kernel machine, and its n-grams are "
            "not of consecutive words; compare it in a call of its own"
        )
    if options.layers is not None:
        raise InputError("--layers goes with rcnn and torch's lstm; the cells have one layer")
    return [f"{cell}-{width}gram" for cell in named or CELLS for width in widths or [1]]


def _text_choice(options: argparse.Namespace) -> dict[str, Any]:
    """The arguments of the :class:`TextChoice` of the options."""
    if options.csv and options.dataset != "csv":
        raise InputError(f"--csv goes with --dataset csv, not {options.dataset}")
    if options.dataset == "csv" and bool(options.csv) == bool(options.root):
        raise InputError("--dataset csv needs --csv FILE or --root DIR, and not both")
    if options.csv and len(options.csv) > 2:
        raise InputError(
            f"--csv takes a file, or a training and a test file, not {len(options.csv)}"
        )
    if options.split_seed is not None and options.dataset.startswith("sst"):
        raise InputError(f"--split-seed goes with data without three parts, not {options.dataset}")
    root = options.root or ROOTS.get(options.dataset)
    return {
        "dataset": options.dataset,
        "root": root or str(Path(options.csv[0]).parent),
        "glove": options.glove,
        "tune_vectors": options.tune_vectors,
        "split_seed": options.split_seed or 0,
        "csv": options.csv or [],
    }


def _compare(options: argparse.Namespace) -> int:
    check_training_options(options)
    options.dataset = options.dataset or ("csv" if options.csv else DATASETS[0])
    names, chosen = _model_names(options), _text_choice(options)
    cells = names[0].endswith("gram")
    with naming_extras("bench"):
        from benchmarks.harness.collective import in_turn
        from benchmarks.harness.experiment import Experiment
        from benchmarks.harness.text.data import TextChoice, load_texts
        from benchmarks.harness.text.report import describe, tables, write_text_report
        from benchmarks.harness.text.task import TextTask, text_model_configs
    data = in_turn(lambda: load_texts(TextChoice(**chosen)))
    if options.embedding and data.glove:
        raise InputError(f"--embedding goes with --glove none; {data.glove} has its own size")
    if options.tune_vectors and not data.glove:
        raise InputError("--tune-vectors goes with a file of word vectors; others are trained")
    experiment = Experiment(
        task=TextTask(data),
        models=text_model_configs(
            names,
            data,
            hidden=options.hidden or (CELL_WIDTH if cells and not options.parameters else None),
            num_layers=1 if cells else options.layers or LAYERS,
            dropout=options.dropout,
            embedding_dim=options.embedding or EMBEDDING,
            budget=options.parameters or PARAMETERS,
        ),
        seeds=list(dict.fromkeys(options.seeds)),
        training=training_config(options, EPOCHS, BATCH_SIZE, LEARNING_RATE),
        out=Path(options.out or f"runs/text-{options.dataset}"),
        arguments=options.arguments,
    )
    experiment.check()
    experiment.open_folder(options.resume, options.overwrite)
    experiment.carry_out(
        describe(data),
        lambda runs: "\n\n".join(table.text() for table in tables(runs, data)),
        lambda runs: write_text_report(experiment.out, runs, data),
        options.quiet,
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
