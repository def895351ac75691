"""Classification of texts: an RCNN beside an LSTM and a CNN, one split, one table.

``python -m benchmarks.text_classification --help``. Heavy imports happen after the arguments have
been read: ``--help`` and a misspelt option answer at once.
"""

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

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

PROGRAM = "benchmarks.text_classification"
# The keys of text.data.CORPORA and text.models.MODELS: repeated to answer without importing torch.
DATASETS = ("trec", "trec-fine", "sst-fine", "sst-binary", "mr")
MODELS = ("rcnn", "lstm", "cnn")
ROOTS = {"trec": "trec", "trec-fine": "trec", "sst-fine": "sst", "sst-binary": "sst", "mr": "mr"}
EPOCHS = dict.fromkeys(DATASETS, 20)
BATCH_SIZE = dict.fromkeys(DATASETS, 50)
LEARNING_RATE = dict.fromkeys(DATASETS, 0.003)
DROPOUT = 0.2
PARAMETERS = 300_000
EMBEDDING = 100

EPILOG = """\
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
    return exit_status(PROGRAM, lambda: _compare(parser().parse_args(arguments)))


def parser() -> argparse.ArgumentParser:
    """The options."""
    parser = OneLineParser(
        PROGRAM,
        prog=f"python -m {PROGRAM}",
        description="Trains text classifiers on one split and compares them in one table.",
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    texts = parser.add_argument_group("texts")
    texts.add_argument(
        "--dataset",
        choices=DATASETS,
        default="trec",
        help="trec: questions, 6 classes; trec-fine: the same, 50 classes; sst-fine, sst-binary: "
        "sentences of film reviews, 5 or 2 classes; mr: the same, 2 classes, random split (trec)",
    )
    texts.add_argument(
        "--root",
        type=nonempty,
        metavar="DIR",
        help="folder of its files, downloaded where they are not there (data/trec, data/sst, "
        "data/mr)",
    )
    texts.add_argument(
        "--glove",
        type=nonempty,
        metavar="FILE",
        help="word vectors in GloVe's text format, also compressed (.gz); none: learn them "
        "(glove*.txt or glove*.txt.gz in DIR, DIR/glove or DIR/../glove; learned where there is "
        "none)",
    )
    texts.add_argument(
        "--split-seed",
        type=integer(0),
        metavar="N",
        help="of the questions held out of training, or of the folds of mr (0)",
    )
    _add_model_options(parser.add_argument_group("models"))
    training = parser.add_argument_group("training")
    add_training_options(training, EPOCHS, BATCH_SIZE, LEARNING_RATE)
    add_result_options(parser.add_argument_group("results"), "runs/text-DATASET")
    return parser


def _add_model_options(group: argparse._ArgumentGroup) -> None:
    group.add_argument(
        "--models",
        "--model",
        nargs="+",
        choices=MODELS,
        default=list(MODELS),
        metavar="NAME",
        help=f"one or more of {', '.join(MODELS)} (all)",
    )
    group.add_argument(
        "--parameters",
        type=integer(1),
        metavar="N",
        help="each model gets the largest width within this number of parameters besides word "
        f"vectors ({PARAMETERS})",
    )
    group.add_argument(
        "--hidden", type=integer(1, LARGEST_WIDTH), metavar="N", help="this width instead"
    )
    group.add_argument(
        "--layers",
        type=integer(1, MOST_LAYERS),
        default=2,
        metavar="N",
        help="layers of rcnn and lstm (2); cnn has one",
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


def _compare(options: argparse.Namespace) -> int:
    check_training_options(options)
    if options.split_seed is not None and options.dataset.startswith("sst"):
        raise InputError(f"--split-seed goes with trec and mr, not {options.dataset}")
    with naming_extras("bench"):
        from benchmarks.harness.experiment import Experiment
        from benchmarks.harness.text.data import TextChoice, load_texts
        from benchmarks.harness.text.report import describe, text_table, write_text_report
        from benchmarks.harness.text.task import TextTask, text_model_configs
    choice = TextChoice(
        dataset=options.dataset,
        root=options.root or f"data/{ROOTS[options.dataset]}",
        glove=options.glove,
        split_seed=options.split_seed or 0,
    )
    data = load_texts(choice)
    if options.embedding and data.glove:
        raise InputError(f"--embedding goes with --glove none; {data.glove} has its own size")
    experiment = Experiment(
        task=TextTask(data),
        models=text_model_configs(
            dict.fromkeys(options.models),
            data,
            hidden=options.hidden,
            num_layers=options.layers,
            dropout=options.dropout,
            embedding_dim=options.embedding or EMBEDDING,
            budget=options.parameters or PARAMETERS,
        ),
        seeds=list(dict.fromkeys(options.seeds)),
        training=training_config(options, EPOCHS, BATCH_SIZE, LEARNING_RATE),
        out=Path(options.out or f"runs/text-{options.dataset}"),
    )
    experiment.check()
    experiment.open_folder(options.resume, options.overwrite)
    experiment.carry_out(
        describe(data),
        lambda runs: text_table(runs, data).text(),
        lambda runs: write_text_report(experiment.out, runs, data),
        options.quiet,
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
