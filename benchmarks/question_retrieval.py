"""Finding similar questions: RCNN, LSTM, GRU and CNN as encoders, with and without pre-training.

``python -m benchmarks.question_retrieval --help``. Heavy imports happen after the arguments have
been read: ``--help`` and a misspelt option answer at once.
"""

import argparse
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from benchmarks.harness.arguments import (
    check_own_files,
    check_training_options,
    exit_status,
    training_config,
)
from benchmarks.harness.errors import InputError, naming_extras
from benchmarks.harness.retrieval.options import (
    BATCH_SIZE,
    COLUMNS,
    EMBEDDING,
    EPOCHS,
    FIELDS,
    LEARNING_RATE,
    LEAVE_OUT,
    NAMED,
    OWN,
    PARAMETERS,
    PRETRAINING_BATCH_SIZE,
    PRETRAINING_EPOCHS,
    PROGRAM,
    SCHEDULE,
    parser,
    rank_parser,
)


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs the command line.

    Args:
        arguments: The words after the program's name; ``None``: those of this process.

    Returns:
        The exit status: 0 done, 1 training diverged, 2 bad input, 130 interrupted.
    """
    words = list(sys.argv[1:] if arguments is None else arguments)
    if words[:1] == ["rank"]:
        return exit_status(PROGRAM, lambda: _rank(rank_parser().parse_args(words[1:])))
    return exit_status(PROGRAM, lambda: _compare(parser().parse_args(words)))


def _rank(options: argparse.Namespace) -> int:
    with naming_extras("bench"):
        from benchmarks.harness.retrieval.ranking import rank
    rank(options)
    return 0


def _compare(options: argparse.Namespace) -> int:
    named = len(options.data) == 1 and options.data[0] in NAMED
    options.dataset = options.data[0] if named else OWN
    options.schedule = options.schedule or SCHEDULE[options.dataset]
    check_training_options(options)
    _check_options(options)
    out = Path(options.out or f"runs/questions-{options.dataset}")
    with naming_extras("bench"):
        from benchmarks.harness.old_experiment import Experiment
        from benchmarks.harness.retrieval.data import load_questions
        from benchmarks.harness.retrieval.report import describe, tables, write_question_report
        from benchmarks.harness.retrieval.standing import baselines_of
        from benchmarks.harness.retrieval.task import RetrievalTask
    data = load_questions(_question_choice(options), LEAVE_OUT)
    _check_against(options, data)
    task = RetrievalTask(data, out / "pretraining")
    models = _models(options, data)
    experiment = Experiment(
        task=task,
        models=models,
        seeds=list(dict.fromkeys(options.seeds)),
        training=training_config(options, EPOCHS, BATCH_SIZE, LEARNING_RATE),
        out=out,
        arguments=options.arguments,
    )
    pretraining = _pretraining(options, experiment)
    for one in (experiment, pretraining):
        if one is not None:
            one.check_folder(options.resume, options.overwrite)
            one.check()
    baselines = baselines_of(data.corpus, FIELDS if data.has_bodies() else FIELDS[1:])
    experiment.open_folder(options.resume, options.overwrite)
    if pretraining is not None:
        _pretrain(options, pretraining, describe(data))
    experiment.carry_out(
        "" if pretraining else describe(data),
        lambda runs: "\n\n".join(t.text() for t in tables(runs, task, baselines)),
        lambda runs: write_question_report(out, runs, task, baselines),
        options.quiet,
    )
    return 0


def _question_choice(options: argparse.Namespace) -> Any:
    """The :class:`QuestionChoice` of the options."""
    from benchmarks.harness.retrieval.data import QuestionChoice

    return QuestionChoice(
        dataset=options.dataset,
        root=options.root or _own_folder(options) or f"data/{options.dataset}",
        vectors=options.vectors,
        tune_vectors=options.tune_vectors,
        leave_out=options.leave_out,
        split_seed=options.split_seed,
        files=options.data if options.dataset == OWN else [],
        columns=options.columns or list(COLUMNS),
        encoding=options.encoding,
    )


def _own_folder(options: argparse.Namespace) -> str:
    """The folder of one's own pairs, where word vectors may lie too."""
    return str(Path(options.data[0]).parent) if options.dataset == OWN else ""


def _check_options(options: argparse.Namespace) -> None:
    """Refuses options that would have no effect, before anything is read."""
    if options.leave_out and options.dataset != "askubuntu":
        raise InputError(f"--leave-out goes with --data askubuntu, not {options.dataset}")
    if options.dataset != OWN and (options.columns or options.encoding != "utf-8"):
        raise InputError(f"--columns and --encoding go with your own file, not {options.dataset}")
    if options.dataset == OWN:
        check_own_files(options, NAMED)
    if options.pretraining == "no":
        for name in ("epochs", "batch_size"):
            if getattr(options, f"pretraining_{name}"):
                words = f"--pretraining-{name.replace('_', '-')}"
                raise InputError(f"{words} goes with --pretraining yes or both, not no")


def _check_against(options: argparse.Namespace, data: Any) -> None:
    """Refuses options that do not go with the questions."""
    if options.embedding and data.source:
        raise InputError(f"--embedding goes with --vectors none; {data.source} has its own size")
    if options.tune_vectors and not data.source:
        raise InputError("--tune-vectors goes with a file of word vectors; others are trained")
    if options.fields and not data.has_bodies():
        raise InputError(f"--fields goes with questions that have bodies, not {options.dataset}")


def _models(options: argparse.Namespace, data: Any) -> list[Any]:
    """The configurations of the networks to compare."""
    from benchmarks.harness.retrieval.task import question_model_configs

    return question_model_configs(
        dict.fromkeys(options.encoders),
        data,
        pretrained={"no": [False], "yes": [True], "both": [False, True]}[options.pretraining],
        poolings=dict.fromkeys(options.pooling or ()),
        fields=dict.fromkeys(options.fields or FIELDS[1:]),
        hidden=options.hidden,
        budget=options.parameters or PARAMETERS[options.dataset],
        embedding_dim=options.embedding or EMBEDDING,
        dropout=options.dropout,
        num_negatives=options.negatives,
        margin=options.margin,
    )


def _pretraining(options: argparse.Namespace, experiment: Any) -> Any:
    """The experiment that comes before another, ``None`` where no network needs it."""
    from benchmarks.harness.retrieval.pretraining import PretrainingTask
    from benchmarks.harness.retrieval.task import pretraining_configs

    models = pretraining_configs(experiment.models)
    if not models:
        return None
    epochs = options.pretraining_epochs or PRETRAINING_EPOCHS[options.dataset]
    batch_size = options.pretraining_batch_size or PRETRAINING_BATCH_SIZE[options.dataset]
    return replace(
        experiment,
        task=PretrainingTask(experiment.task.data),
        models=models,
        training=replace(
            experiment.training,
            epochs=epochs,
            batch_size=batch_size,
            patience=options.patience or max(10, epochs // 3),
        ),
        out=experiment.task.pretraining,
    )


def _pretrain(options: argparse.Namespace, pretraining: Any, heading: str) -> None:
    from benchmarks.harness.retrieval.report import pretraining_table, write_pretraining_report

    pretraining.open_folder(options.resume, options.overwrite)
    pretraining.carry_out(
        heading,
        lambda runs: f"{pretraining_table(runs).text()}\n",
        lambda runs: write_pretraining_report(pretraining.out, runs, pretraining.task),
        options.quiet,
    )


if __name__ == "__main__":
    sys.exit(main())
