"""The options of the comparison of encoders of questions; nothing here imports torch."""

import argparse

from benchmarks.harness.arguments import (
    LARGEST_WIDTH,
    OneLineParser,
    add_result_options,
    add_training_options,
    by_dataset,
    integer,
    nonempty,
    number,
)

PROGRAM = "benchmarks.question_retrieval"
OWN = "pairs"  # of one's own
NAMED = ("msrp", "askubuntu")
DATASETS = (*NAMED, OWN)
COLUMNS = ("first", "second", "label")
BEST = 10  # candidates of a query that are written
ENCODERS = ("rcnn", "lstm", "gru", "cnn", "rcnn-scalar")
POOLINGS = ("last", "mean", "max")
FIELDS = ("title", "title+body")
COMPARED = ENCODERS[:4]
EPOCHS = {"msrp": 5, "askubuntu": 50, OWN: 5}
BATCH_SIZE = {"msrp": 20, "askubuntu": 40, OWN: 20}
LEARNING_RATE = dict.fromkeys(DATASETS, 0.001)
SCHEDULE = {"msrp": "cosine", "askubuntu": "none", OWN: "cosine"}  # the thesis has Adam alone
PRETRAINING_EPOCHS = {"msrp": 3, "askubuntu": 40, OWN: 3}
PRETRAINING_BATCH_SIZE = {"msrp": 64, "askubuntu": 256, OWN: 64}
PARAMETERS = {"msrp": 100_000, "askubuntu": 401_000, OWN: 100_000}
EMBEDDING = 100
DROPOUT = 0.1
NEGATIVES = 20
MARGIN = 1.0
LEAVE_OUT = "--leave-out leaves such out and counts them"

EPILOG = """\
Lei's thesis (2017), section 2.5.3. A question's vector is the mean of those of title and body, each
pooled from the states of one encoder; candidates are ranked by the cosine. Training makes a similar
question score above the best of random ones by a margin. Pre-training teaches the encoder, with a
decoder of its type, to write the title of a question from the title, from the body and from similar
questions; fine-tuning goes on from there. The epoch with the best MRR on dev is tested.

askubuntu: https://github.com/taolei87/askubuntu. Published MAP, MRR, P@1 and P@5 on its test part:
BM25 56.0, 68.0, 53.8, 42.5; rcnn 60.7, 72.9, 59.1, 45.0, pre-trained 62.3, 75.6, 62.0, 47.1 (means
of five runs). --seeds 0 1 2 3 4 is that set-up, but for what docs/question_retrieval.rst names.
msrp: the paraphrases of the Microsoft Research Paraphrase Corpus, which have no bodies: a small
set. Your own: --data FILE, a table with a header (CSV, TSV, Parquet, also compressed) of pairs, the
columns first, second and label (0 or 1), or those of --columns; the first text of each similar pair
is a query, its candidates are the second texts that BM25 finds.

To rank the texts of a column for each query, with the cosine of each:
  rank --checkpoint OUT/runs/rcnn-last-seed0 --data queries.csv --among texts.csv --out ranked.csv

OUT holds metrics.json, predictions.csv, baselines.json, table.md, learning_curves.png,
pretraining.png (perplexity and MRR), gates_by_position.png and gates_by_word.png (what an RCNN
takes in of each word), configuration.json, a folder for each run, runs/MODEL-seedN, with its best
checkpoint, and the same of pre-training in OUT/pretraining.
Exit status: 0 done, 1 training diverged, 2 bad input, 130 interrupted.
"""


def parser() -> argparse.ArgumentParser:
    """The options."""
    parser = OneLineParser(
        PROGRAM,
        prog=f"python -m {PROGRAM}",
        description="Trains encoders of questions and compares how well they find similar ones.",
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    _add_question_options(parser.add_argument_group("questions"))
    _add_model_options(parser.add_argument_group("models"))
    _add_pretraining_options(parser.add_argument_group("pre-training"))
    training = parser.add_argument_group("training")
    add_training_options(training, EPOCHS, BATCH_SIZE, LEARNING_RATE, schedule=SCHEDULE)
    training.add_argument(
        "--negatives",
        type=integer(1, 1000),
        default=NEGATIVES,
        metavar="N",
        help=f"random questions for each similar one, drawn anew each epoch ({NEGATIVES})",
    )
    training.add_argument(
        "--margin",
        type=number(above=0),
        default=MARGIN,
        metavar="X",
        help=f"by which the similar one is to be closer than the best of these ({MARGIN:g})",
    )
    add_result_options(parser.add_argument_group("results"), "runs/questions-DATASET")
    return parser


def rank_parser() -> argparse.ArgumentParser:
    """The options that rank texts for queries."""
    parser = OneLineParser(
        PROGRAM,
        prog=f"python -m {PROGRAM} rank",
        description="Ranks the texts of one table for each text of another by the cosine of their "
        "vectors.",
    )
    parser.add_argument(
        "--checkpoint",
        required=True,
        type=nonempty,
        metavar="RUN",
        help="best.ckpt of a run, its folder, or a results folder with one run",
    )
    for name, what in (("--data", "queries"), ("--among", "texts to rank")):
        parser.add_argument(
            name,
            required=True,
            type=nonempty,
            metavar="FILE",
            help=f"a table with a header of {what}: CSV, TSV or Parquet",
        )
    parser.add_argument(
        "--text-column", default="text", metavar="NAME", help="of both tables (text)"
    )
    parser.add_argument(
        "--encoding", default="utf-8", metavar="NAME", help="of your CSV files (utf-8)"
    )
    parser.add_argument(
        "--out",
        required=True,
        type=nonempty,
        metavar="FILE",
        help="table of query, rank, text and cosine: CSV, also compressed, or Parquet, by name",
    )
    parser.add_argument(
        "--best", type=integer(1), default=BEST, metavar="N", help=f"texts a query ({BEST})"
    )
    parser.add_argument(
        "--batch-size", type=integer(1), default=256, metavar="N", help="texts (256)"
    )
    parser.add_argument("--overwrite", action="store_true", help="replace what lies there")
    return parser


def _add_question_options(group: argparse._ArgumentGroup) -> None:
    group.add_argument(
        "--data",
        nargs="+",
        type=nonempty,
        default=[NAMED[0]],
        metavar="NAME|FILE",
        help="msrp: paraphrases of sentences of news; askubuntu: questions about Ubuntu; or your "
        "own pairs, see below: a file, of which a fifth of the similar ones is drawn to test on, "
        "or a training and a test file (msrp)",
    )
    group.add_argument(
        "--columns",
        nargs=3,
        type=nonempty,
        metavar="NAME",
        help=f"of your pairs: two texts, and whether they are similar ({' '.join(COLUMNS)})",
    )
    group.add_argument(
        "--encoding", default="utf-8", metavar="NAME", help="of your CSV file (utf-8)"
    )
    group.add_argument(
        "--root",
        type=nonempty,
        metavar="DIR",
        help="folder of the files of NAME, also compressed (data/NAME)",
    )
    group.add_argument(
        "--vectors",
        type=nonempty,
        metavar="FILE",
        help="word vectors in GloVe's or word2vec's text format, also compressed (.gz); none: "
        "learn them (askubuntu's own, or glove*.txt or glove*.txt.gz in DIR, DIR/glove or "
        "DIR/../glove; learned where there is none)",
    )
    group.add_argument(
        "--tune-vectors", action="store_true", help="train these vectors too (they are kept)"
    )
    group.add_argument(
        "--leave-out",
        action="store_true",
        help="leave out, and count, lines of askubuntu's files that are errors otherwise, such as "
        "those of an id without a question",
    )
    group.add_argument(
        "--split-seed",
        type=integer(0),
        default=0,
        metavar="N",
        help="of msrp's dev part, and of the titles that pre-training leaves out (0)",
    )


def _add_model_options(group: argparse._ArgumentGroup) -> None:
    group.add_argument(
        "--encoders",
        "--encoder",
        nargs="+",
        choices=ENCODERS,
        default=list(COMPARED),
        metavar="NAME",
        help=f"one or more of {', '.join(COMPARED)} (all four) and {ENCODERS[-1]}, an rcnn with "
        "one decay for all units",
    )
    group.add_argument(
        "--pooling",
        nargs="+",
        choices=POOLINGS,
        metavar="NAME",
        help="one or more of last, mean, max: how a text's states become its vector (last for "
        "rcnn and gru, mean for lstm and cnn)",
    )
    group.add_argument(
        "--fields",
        nargs="+",
        choices=FIELDS,
        metavar="NAME",
        help="title, title+body or both: what is read of a question (title+body)",
    )
    group.add_argument(
        "--parameters",
        type=integer(1),
        metavar="N",
        help="each encoder gets the largest width within this number, besides word vectors "
        f"({by_dataset(PARAMETERS)}, the thesis's: a width of 400 for rcnn)",
    )
    group.add_argument(
        "--hidden", type=integer(1, LARGEST_WIDTH), metavar="N", help="this width instead"
    )
    group.add_argument(
        "--embedding",
        type=integer(2, LARGEST_WIDTH),
        metavar="N",
        help=f"size of learned word vectors ({EMBEDDING})",
    )
    group.add_argument(
        "--dropout",
        type=number(least=0, below=1),
        default=DROPOUT,
        metavar="X",
        help=f"of word vectors and of texts' vectors, in pre-training too ({DROPOUT})",
    )


def _add_pretraining_options(group: argparse._ArgumentGroup) -> None:
    group.add_argument(
        "--pretraining",
        choices=("no", "yes", "both"),
        default="both",
        help="which networks to compare: none pre-trained, all, each with and without (both)",
    )
    group.add_argument(
        "--pretraining-epochs",
        type=integer(1),
        metavar="N",
        help=f"at most ({by_dataset(PRETRAINING_EPOCHS)})",
    )
    group.add_argument(
        "--pretraining-batch-size",
        type=integer(1),
        metavar="N",
        help=f"titles a batch ({by_dataset(PRETRAINING_BATCH_SIZE)})",
    )
