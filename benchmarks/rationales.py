"""Rationales: the few words or atoms that suffice for a prediction, learned and measured.

``python -m benchmarks.rationales --help``. Heavy imports happen after the arguments have been read:
``--help`` and a misspelt option answer at once.
"""

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from benchmarks.harness.arguments import check_training_options, exit_status, training_config
from benchmarks.harness.errors import naming_extras
from benchmarks.harness.rationale.choices import dataset_of, item_choice, models, ranking
from benchmarks.harness.rationale.names import (
    BATCH_SIZE,
    EPOCHS,
    LEARNING_RATE,
    MOLECULES,
    PROGRAM,
    QUESTIONS,
)
from benchmarks.harness.rationale.options import check_options, explain_parser, parser


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs the command line.

    Args:
        arguments: The words after the program's name; ``None``: those of this process.

    Returns:
        The exit status: 0 done, 1 training diverged, 2 bad input, 130 interrupted.
    """
    words = list(sys.argv[1:] if arguments is None else arguments)
    if words[:1] == ["explain"]:
        return exit_status(PROGRAM, lambda: _explain(explain_parser().parse_args(words[1:])))
    return exit_status(PROGRAM, lambda: _compare(parser().parse_args(words)))


def _explain(options: argparse.Namespace) -> int:
    with naming_extras("bench"):
        from benchmarks.harness.rationale.application import explain
    explain(options)
    return 0


def _compare(options: argparse.Namespace) -> int:
    options.dataset = dataset_of(options)
    check_training_options(options)
    check_options(options)
    return _rank(options) if options.dataset in QUESTIONS else _predict(options)


def _predict(options: argparse.Namespace) -> int:
    """Classes and numbers, from some words or atoms."""
    with naming_extras("bench,mol" if options.dataset in MOLECULES else "bench"):
        from benchmarks.harness.old_experiment import Experiment
        from benchmarks.harness.rationale.data import load_items
        from benchmarks.harness.rationale.items import RationaleChoice
        from benchmarks.harness.rationale.report import tables, write_report
        from benchmarks.harness.rationale.task import model_config, task_of
    data = load_items(RationaleChoice(**item_choice(options)))
    task = task_of(data)
    experiment = Experiment(
        task=task,
        models=[model_config(data, name, kind, **fields) for name, kind, fields in models(options)],
        seeds=list(dict.fromkeys(options.seeds)),
        training=training_config(options, EPOCHS, BATCH_SIZE, LEARNING_RATE),
        out=Path(options.out or f"runs/rationales-{options.dataset}"),
        arguments=options.arguments,
    )
    experiment.check()
    experiment.open_folder(options.resume, options.overwrite)
    experiment.carry_out(
        data.describe(),
        lambda runs: "\n\n".join(table.text() for table in tables(experiment.out, runs, task)),
        lambda runs: write_report(experiment.out, runs, task),
        options.quiet,
    )
    return 0


def _rank(options: argparse.Namespace) -> int:
    """Similar questions, by some words of each."""
    with naming_extras("bench"):
        from benchmarks.harness.old_experiment import Experiment
        from benchmarks.harness.rationale.ranking_report import table, write_ranking_report
        from benchmarks.harness.rationale.ranking_task import (
            RankingRationales,
            load_ranked,
            ranking_config,
        )
        from benchmarks.harness.retrieval.report import describe
    data = load_ranked(item_choice(options))
    task = RankingRationales(data)
    fixed = ranking(options)
    experiment = Experiment(
        task=task,
        models=[
            ranking_config(data, name, kind, **fields, **fixed)
            for name, kind, fields in models(options)
        ],
        seeds=list(dict.fromkeys(options.seeds)),
        training=training_config(options, EPOCHS, BATCH_SIZE, LEARNING_RATE),
        out=Path(options.out or f"runs/rationales-{options.dataset}"),
        arguments=options.arguments,
    )
    experiment.check()
    experiment.open_folder(options.resume, options.overwrite)
    experiment.carry_out(
        describe(data),
        lambda runs: table(runs, task).text(),
        lambda runs: write_ranking_report(experiment.out, runs, task),
        options.quiet,
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
