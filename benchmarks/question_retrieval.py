"""Finding similar questions: RCNN, LSTM, GRU and CNN as encoders, with and without pre-training.

``python -m benchmarks.question_retrieval --help``. Heavy imports happen after the options have
been read: ``--help`` and a misspelt option answer at once.
"""

import sys
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, ClassVar, Literal

from benchmarks.harness.errors import naming_extras, say
from benchmarks.harness.options import (
    Application,
    Command,
    TextColumns,
    Training,
    run_commands,
    setting,
)
from benchmarks.harness.retrieval.options import FIELDS, Networks, Pretraining, Questions

PROGRAM = "benchmarks.question_retrieval"
# By data set; your own data use the first. The thesis (askubuntu) has no schedule.
TRAINING: dict[str, dict[str, Any]] = {
    "msrp": {"epochs": 5, "batch_size": 20, "schedule": "cosine"},
    "askubuntu": {"epochs": 50, "batch_size": 40, "schedule": "none"},
}
PRETRAINING = {
    "msrp": {"epochs": 3, "batch_size": 64},
    "askubuntu": {"epochs": 40, "batch_size": 256},
}
DETAILS = """\
Lei's thesis (2017), section 2.5.3. An encoder's states are pooled into a vector of the title and
one of the body. Their mean represents the question; candidates are ranked by the cosine. Training
makes a similar question score above the best of random ones by a margin. In pre-training, the
encoder and a decoder of its type learn to write a question's title from the title, from the body
and from similar questions; training then continues from this encoder. The epoch with the best MRR
on the dev part is tested.

askubuntu: https://github.com/taolei87/askubuntu. Published MAP, MRR, P@1 and P@5 on its test part:
BM25 56.0, 68.0, 53.8, 42.5; rcnn 60.7, 72.9, 59.1, 45.0, pre-trained 62.3, 75.6, 62.0, 47.1 (means
of five runs). --seeds 0 1 2 3 4 is that set-up; docs/question_retrieval.rst names the differences.
msrp: the paraphrases of the Microsoft Research Paraphrase Corpus, a small set without bodies.
Your own pairs: --data FILE is a table with a header (CSV, TSV, Parquet, also compressed) and the
columns first, second and label (0 or 1), or those of --columns. The first text of each similar pair
is a query; its candidates are the second texts that BM25 finds.

To rank the texts of one table for each query of another, with their cosines:
  rank --checkpoint OUT/runs/rcnn-last-seed0 --data queries.csv --among texts.csv --out ranked.csv

OUT (runs/questions-DATASET) holds metrics.json, predictions.csv, baselines.json, table.md,
learning_curves.png, pretraining.png (perplexity and MRR), gates_by_position.png and
gates_by_word.png (how much an RCNN takes in of each word), configuration.json and a folder for each
run, runs/MODEL-seedN, with its best checkpoint. OUT/pretraining holds the same of pre-training.
Exit status: 0 done, 1 training diverged, 2 bad input, 130 interrupted.
"""


@dataclass(frozen=True, kw_only=True)
class QuestionRetrieval(Questions, Networks, Pretraining, Training):
    """The command.

    Args:
        epochs: largest number of epochs (5; askubuntu 50)
        batch_size: pairs of similar questions per batch (20; askubuntu 40)
        schedule: learning rate: warm-up and cosine, exponential, constant (cosine; askubuntu none)
    """

    epochs: int | None = setting(None, least=1)
    batch_size: int | None = setting(None, least=1)
    schedule: Literal["cosine", "exponential", "none"] | None = setting(None)


@dataclass(frozen=True, kw_only=True)
class Rank(Application, TextColumns):
    """New queries.

    Args:
        data: table of the queries with a header: CSV, TSV or Parquet
        among: table of the texts to rank, in the same form
        text_column: columns of both tables with the text; several are joined (text)
        out: table to write, with query, rank, text and cosine; .csv, .tsv (.gz) or .parquet
        best: number of texts to list for each query
    """

    REQUIRED: ClassVar[tuple[str, ...]] = ("checkpoint", "data", "among", "out")

    among: str | None = setting(None)
    best: int = setting(10, least=1)


def compare(options: QuestionRetrieval) -> None:
    """Trains encoders of questions and compares how well they find similar ones."""
    with naming_extras("bench"):
        from benchmarks.harness.experiment import Experiment
        from benchmarks.harness.retrieval import report, task
        from benchmarks.harness.retrieval.baselines import Baselines
        from benchmarks.harness.retrieval.data import load_questions
    out = Path(options.out or f"runs/questions-{options.dataset}")
    kind = options.dataset if options.dataset in TRAINING else "msrp"
    usual = TRAINING[kind]
    data = load_questions(options)
    ranking = task.RetrievalTask(data, out / "pretraining")
    models = task.question_model_configs(options, data, options.pretrained())
    files = (*report.FILES, "pretraining")  # even if this call does not pre-train
    given: dict[str, Any] = {"training": options.training(**usual), "files": files}
    experiment = Experiment(PROGRAM, options, out, ranking, models, **given)
    experiments = [experiment]
    shown = not options.report or (out / "pretraining").exists()
    if True in options.pretrained() and shown:
        writing, encoders = task.PretrainingTask(data), task.pretraining_configs(models)
        epochs, batch_size = options.pretraining_epochs, options.pretraining_batch_size
        first = replace(options, epochs=epochs, batch_size=batch_size)
        given = {"training": first.training(**usual | PRETRAINING[kind]), "files": (report.CURVES,)}
        folder = out / "pretraining"
        experiments.append(Experiment(PROGRAM, first, folder, writing, encoders, **given))
    for one in experiments:
        one.check()
    baselines = Baselines(data.corpus, FIELDS if data.has_bodies() else FIELDS[1:])
    for one in experiments:
        one.study.open()
    if not options.quiet:
        say(report.describe(data))
    for one in experiments[1:]:
        one.finish(one.run(), lambda runs: report.pretraining_report(runs, writing))
    runs = experiment.run()
    experiment.finish(runs, lambda runs: report.report(runs, ranking, baselines, out))


def rank(options: Rank) -> None:
    """Ranks the texts of one table for each text of another."""
    with naming_extras("bench"):
        from benchmarks.harness.retrieval import report
    report.rank(options)


COMMANDS = {
    "": Command(QuestionRetrieval, compare, DETAILS),
    "rank": Command(Rank, rank),
}
main = partial(run_commands, PROGRAM, COMMANDS)

if __name__ == "__main__":
    sys.exit(main())
