"""Classification of texts: an RCNN beside an LSTM and a CNN, or recurrent kernel machines.

``python -m benchmarks.text_classification --help``. Heavy imports happen after the options have
been read: ``--help`` and a misspelt option answer at once.
"""

import sys
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import ClassVar

from benchmarks.harness.errors import InputError, naming_extras
from benchmarks.harness.options import (
    Application,
    Command,
    TextColumns,
    Training,
    run_commands,
    setting,
)
from benchmarks.harness.text.options import TextModels, Texts

PROGRAM = "benchmarks.text_classification"
DETAILS = """\
Each call compares models of one family. The first family, at about equal size, is rcnn, lstm,
bi-lstm, cnn and bag-of-vectors. The second is the recurrent kernel machines of Liang et al. 2019,
chosen by --ngram or by a name in --models that only they have. Every cell with every filter width
is then a model, such as rkm-lstm-3gram; lstm and cnn are the paper's cells of these names.

--preset lei2017-sst: Lei's thesis (2017), appendix B.2. Several --layers or --decays give a model
each, such as rcnn-3layers-decay-0.5, and two more pictures (figures 2-2 and 2-3 of the thesis):
  --preset lei2017-sst --models rcnn --layers 1 2 3 --decays 0 0.3 0.5 0.7 --phrases no

Your own texts: --data FILE is a table with a header (CSV, TSV, Parquet, also compressed) and the
columns text and label, or those of --text-column and --label-column. Labels are any words. A CSV
without a header has the form of AG News, DBpedia, Yahoo and Yelp: a class number from 1, and texts.
A folder has train.csv and test.csv; without headers, classes.txt may name the classes.

To classify new texts, with the probability of each class and an explanation word by word:
  predict --checkpoint OUT --data new.csv --out predicted.csv --explain explained
  predict --checkpoint OUT/runs/rcnn-seed0 --text "not a bad film"

The weights of the epoch with the best validation accuracy are tested. If a corpus has no validation
part, a tenth of each class is held out of the training part for it.

OUT (runs/text-DATASET) holds metrics.json, predictions.csv, table.md, confusion.png,
learning_curves.png, configuration.json and a folder for each run, runs/MODEL-seedN, with its best
checkpoint.
Exit status: 0 done, 1 training diverged, 2 bad input, 130 interrupted.
"""


@dataclass(frozen=True, kw_only=True)
class TextClassification(Texts, TextModels, Training):
    """The command."""

    lr: float = setting(0.003, above=0)


@dataclass(frozen=True, kw_only=True)
class Predict(Application, TextColumns):
    """New texts.

    Args:
        text: texts to classify in place of --data, each in quotes
        out: table to write, with the columns predicted and probability of CLASS; its name decides
            between CSV (also .gz) and Parquet (with --text alone, it is printed)
        explain: folder for explanation.md and explanation.png, which show, word by word, the output
            layer applied to the features at the word, and the class of the text up to it; classes
            with an order, such as those of sst, are shown as one score
        limit: explain at most the first N texts
    """

    ONE_OF: ClassVar[tuple[str, ...]] = ("data", "text")
    REQUIRED: ClassVar[tuple[str, ...]] = ("checkpoint",)

    text: tuple[str, ...] = setting((), repeats=True)
    explain: str | None = setting(None)
    limit: int = setting(20, least=1)

    def check(self) -> None:
        super().check()
        if self.data and not (self.out or self.explain):
            raise InputError("--data needs --out FILE, --explain DIR, or both")
        if self.text and self.text_column:
            raise InputError("--text-column goes with --data, not --text")


def compare(options: TextClassification) -> None:
    """Trains text classifiers on one split and compares them in one table."""
    with naming_extras("bench"):
        from benchmarks.harness.experiment import Experiment
        from benchmarks.harness.text import report
        from benchmarks.harness.text.data import load_texts
        from benchmarks.harness.text.task import TextTask, text_model_configs
    names = [f"fold{k}" for k in range(options.folds)] if options.folds > 1 else [""]
    tasks = {name: TextTask(load_texts(options, k), name) for k, name in enumerate(names)}
    task = tasks[names[0]]
    data = task.data
    experiment = Experiment(
        program=PROGRAM,
        options=options,
        out=Path(options.out or f"runs/text-{options.dataset}"),
        task=task,
        models=text_model_configs(options, data),
        training=options.training(),
        folds=tasks if options.folds > 1 else {},
        files=report.FILES,
    )
    experiment.carry_out(lambda runs: report.report(runs, data), report.describe(data))


def predict(options: Predict) -> None:
    """Classifies new texts and gives the probability of each class."""
    with naming_extras("bench"):
        from benchmarks.harness.text import prediction
    prediction.predict(options)


COMMANDS = {
    "": Command(TextClassification, compare, DETAILS),
    "predict": Command(Predict, predict),
}
main = partial(run_commands, PROGRAM, COMMANDS)

if __name__ == "__main__":
    sys.exit(main())
