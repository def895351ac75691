"""The options of the text benchmark.

Nothing here imports torch: ``--help`` and a misspelt option answer at once.
"""

import argparse
from collections.abc import Callable, Iterable, Sequence
from typing import TypeVar

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
from benchmarks.harness.text.choices import dataset_of
from benchmarks.harness.text.model_config import CELLS, LAYERED, READOUT, READOUTS
from benchmarks.harness.text.names import (
    ACTIVATIONS,
    BATCH_SIZE,
    CELL_WIDTH,
    DECAY,
    DECAYS,
    DROPOUT,
    EMBEDDING,
    EPOCHS,
    EXPLAINED,
    LAYERS,
    LEARNING_RATE,
    MODELS,
    ORDER,
    PARAMETERS,
    PREDICTED,
    PRESETS,
    PROGRAM,
    RCNN_READOUTS,
)

Value = TypeVar("Value")

EPILOG = """\
Two families of models, one in each call. rcnn, lstm, bi-lstm, cnn and bag-of-vectors: a recurrent
convolution, torch's LSTM in one direction or two, windows and their maximum (Kim 2014), a ReLU
layer on the mean of the word vectors (Iyyer et al. 2015), of about equal size. The recurrent kernel
machines of Liang et al. 2019, with --ngram or where one of them alone is named: one layer of 300
units, layer normalisation, the mean over words, two fully connected layers; each cell with each
width is a model, such as rkm-lstm-3gram. There lstm and cnn are the paper's cells of these names.

--preset lei2017-sst: Lei 2017 (thesis), appendix B.2. Three layers of 200 units of an RCNN of order
2 with products, the sum over orders and ReLU, the means over words side by side, vectors of length
1, dropout of 0.35, Adam at 0.001 times 0.95 an epoch, weight decay of 1e-6, 50 epochs, 5 seeds;
with a decay of 0.5, gated on x, and gated on x and h. The others are as large as the second of
these. Thesis, with vectors of 300 numbers and phrases: 51.2, 51.4 and 53.2 % on sst-fine, 88.6,
89.2 and 89.9 % on sst-binary. Several --layers or --decays are a model each, such as
rcnn-3layers-decay-0.5, with two more pictures (figures 2-2 and 2-3 of the thesis):
  --preset lei2017-sst --models rcnn --layers 1 2 3 --decays 0 0.3 0.5 0.7 --no-phrases

Your own texts: --data FILE, a table with a header (CSV, TSV, Parquet, also compressed) with the
columns text and label, or those of --text-column and --label-column; labels are any words. Or the
form of AG News, DBpedia, Yahoo and Yelp without a header: a class, numbered from 1, and texts; a
folder of it has train.csv, test.csv and perhaps classes.txt.

New texts, with the probability of each class, and what a trained model makes of them, word by word:
  predict --checkpoint OUT --data new.csv --out predicted.csv --explain explained
  predict --checkpoint OUT/runs/rcnn-seed0 --text "not a bad film"

The weights of the epoch with the best validation accuracy are tested. Where a corpus has no part to
validate on, a tenth of each class is held out of training.

OUT holds metrics.json, predictions.csv, table.md, confusion.png, learning_curves.png,
configuration.json and a folder for each run, runs/MODEL-seedN, with its best checkpoint.
Exit status: 0 done, 1 training diverged, 2 bad input, 130 interrupted.
"""


def parser() -> argparse.ArgumentParser:
    """The options."""
    parser = OneLineParser(
        PROGRAM,
        prog=f"python -m {PROGRAM}",
        description="Trains text classifiers on one split and compares them in one table.",
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument(
        "--preset",
        choices=tuple(PRESETS),
        help="a paper's set-up, see below; any option that is given takes precedence",
    )
    parser.set_defaults(rcnn_hidden=None, filled_in=())
    _add_text_options(parser.add_argument_group("texts"))
    _add_model_options(parser.add_argument_group("models"))
    training = parser.add_argument_group("training")
    add_training_options(training, EPOCHS, BATCH_SIZE, LEARNING_RATE)
    add_result_options(parser.add_argument_group("results"), "runs/text-DATASET")
    return parser


def predict_parser() -> argparse.ArgumentParser:
    """The options that classify new texts."""
    parser = OneLineParser(
        PROGRAM,
        prog=f"python -m {PROGRAM} predict",
        description="Classifies new texts: their classes and the probability of each class.",
    )
    parser.add_argument(
        "--checkpoint",
        required=True,
        type=nonempty,
        metavar="RUN",
        help="best.ckpt of a run, its folder, or a results folder with one run",
    )
    texts = parser.add_mutually_exclusive_group(required=True)
    texts.add_argument(
        "--data", type=nonempty, metavar="FILE", help="a table with a header: CSV, TSV or Parquet"
    )
    texts.add_argument("--text", nargs="+", metavar="TEXT", help="one or more, each in quotes")
    add_column_options(parser)
    parser.add_argument(
        "--out",
        type=nonempty,
        metavar="FILE",
        help="the table with the columns predicted and probability of CLASS: CSV, also compressed, "
        "or Parquet, by name (with --text it is printed)",
    )
    parser.add_argument(
        "--explain",
        type=nonempty,
        metavar="DIR",
        help="also write explanation.md and explanation.png, the classifier's output layer on the "
        "features at each word, and the class of the text so far; where classes have an order, "
        "such as those of sst, they are one score",
    )
    parser.add_argument(
        "--limit",
        type=integer(1),
        default=EXPLAINED,
        metavar="N",
        help=f"texts to explain, from the first ({EXPLAINED})",
    )
    parser.add_argument(
        "--batch-size", type=integer(1), default=PREDICTED, metavar="N", help=f"({PREDICTED})"
    )
    parser.add_argument("--overwrite", action="store_true", help="replace what lies there")
    return parser


def add_column_options(group: argparse.ArgumentParser | argparse._ArgumentGroup) -> None:
    """Where texts stand in a table of one's own."""
    group.add_argument(
        "--text-column",
        nargs="+",
        type=nonempty,
        metavar="NAME",
        help="of the texts of your file; several are joined (text)",
    )
    group.add_argument(
        "--encoding", default="utf-8", metavar="NAME", help="of your CSV file (utf-8)"
    )


def compare_options(words: Sequence[str]) -> argparse.Namespace:
    """The options, those of a preset where they are not given: ``filled_in`` names these."""
    first = parser()
    given = first.parse_args(words)
    if given.preset is None:
        return given
    preset = PRESETS[given.preset]
    first.set_defaults(**preset)
    options = first.parse_args(words)
    if options.schedule != preset["schedule"]:
        options.lr_factor = given.lr_factor
    if not dataset_of(options).startswith("sst") and given.phrases is None:
        options.phrases = None
    options.filled_in = [name for name in preset if getattr(options, name) != getattr(given, name)]
    return options


def _add_text_options(group: argparse._ArgumentGroup) -> None:
    group.add_argument(
        "--data",
        nargs="+",
        type=nonempty,
        metavar="NAME|FILE",
        help="trec: questions, 6 classes; trec-fine: the same, 50 classes; sst-fine (or sst), "
        "sst-binary: sentences of film reviews, 5 or 2 classes; mr: the same, 2 classes, random "
        "split; ag_news: news, 4 classes; or your own, see below: a file, of which a fifth of each "
        "class is drawn to test on, or a training and a test file, or a folder of both (trec)",
    )
    group.add_argument(
        "--root",
        type=nonempty,
        metavar="DIR",
        help="folder of the files of NAME, downloaded where they are not there (data/trec, "
        "data/sst, data/mr, data/ag_news)",
    )
    add_column_options(group)
    group.add_argument(
        "--label-column", type=nonempty, metavar="NAME", help="of the classes of your file (label)"
    )
    group.add_argument(
        "--vectors",
        dest="glove",
        type=nonempty,
        metavar="FILE",
        help="word vectors in GloVe's or word2vec's text format, also compressed (.gz); none: "
        "learn them (glove*.txt or glove*.txt.gz in DIR, DIR/glove or DIR/../glove, where DIR is "
        "that of --root or of your file; learned where there is none)",
    )
    group.add_argument(
        "--tune-vectors", action="store_true", help="train these vectors too (they are kept)"
    )
    group.add_argument(
        "--unit-norm",
        action=argparse.BooleanOptionalAction,
        help="scale these vectors to length 1 (they are as in the file)",
    )
    group.add_argument(
        "--phrases",
        action=argparse.BooleanOptionalAction,
        help="train on the labelled phrases of sst too: stsa.fine.phrases.train or "
        "stsa.binary.phrases.train in DIR (no; with the preset where it is there)",
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
        help=f"one or more, with spaces or commas between, of {', '.join(MODELS)} (the first "
        f"three), or of lstm, cnn, {', '.join(own)} (all with --ngram)",
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
        "--depths",
        nargs="+",
        type=_listed(integer(1, MOST_LAYERS)),
        metavar="N",
        help=f"layers of {', '.join(LAYERED)} ({LAYERS}), several: a model for each; the others "
        "have one",
    )
    group.add_argument(
        "--decays",
        "--decay",
        nargs="+",
        type=_listed(_decay),
        metavar="X",
        help=f"of rcnn: a number from 0 to below 1, {', '.join(DECAYS)} ({DECAY}), several: a "
        "model for each",
    )
    group.add_argument(
        "--order",
        type=integer(1, MOST_LAYERS),
        metavar="N",
        help=f"words in an n-gram of rcnn ({ORDER})",
    )
    group.add_argument("--activation", choices=ACTIVATIONS, help=f"of rcnn ({ACTIVATIONS[0]})")
    group.add_argument(
        "--rcnn-readout",
        choices=RCNN_READOUTS,
        help="of rcnn, what it activates: n-grams up to a word, those that end at it, or the first "
        f"summed over all orders ({RCNN_READOUTS[0]})",
    )
    group.add_argument(
        "--readout",
        choices=READOUTS,
        help=f"of {', '.join(LAYERED)}: the last layer at the last word, or the means over words "
        f"of all layers, side by side ({by_dataset(READOUT)})",
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


def _decay(text: str) -> str:
    """The type of an argument that is a decay."""
    if text in DECAYS:
        return text
    try:
        return f"{number(least=0, below=1)(text):g}"
    except argparse.ArgumentTypeError:
        raise argparse.ArgumentTypeError(
            f"must be a number from 0 to below 1, {', '.join(DECAYS)}, got {text}"
        ) from None


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
