"""Classification of multi-channel recordings by every cell, each subject left out in turn.

``python -m benchmarks.lfp --help``. Heavy imports happen after the arguments have been read:
``--help`` and a misspelt option answer at once.
"""

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from benchmarks.harness.arguments import (
    LARGEST_WIDTH,
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

PROGRAM = "benchmarks.lfp"
# The names of lfp.models: repeated to answer without importing torch.
MODELS = (
    "lstm",
    "rkm-lstm",
    "rkm-cifg",
    "linear-gated",
    "linear",
    "gated-cnn",
    "cnn",
    "ran",
)
FILTERS = ("syncnet", "dense")
POOLINGS = ("power", "max")
DATASETS = ("planted", "npz")
EPOCHS = dict.fromkeys(DATASETS, 10)
BATCH_SIZE = dict.fromkeys(DATASETS, 32)
LEARNING_RATE = dict.fromkeys(DATASETS, 0.02)
HIDDEN = 30
NGRAM = 40
RATE = 1000.0
# Made recordings, also those of lfp.data.RecordingChoice.
SUBJECTS, TRIALS, AMPLITUDE = 6, 40, 0.08
QUICK_MODELS = ("rkm-lstm", "gated-cnn", "cnn")
QUICK_FOLDS = 2

EPILOG = """\
The default is made of known oscillations in 1/f noise, and quick: three cells, two of six subjects
left out. --full runs all cells and leaves out every subject. While one subject is left out, the
next one (after the last, the first) chooses the epoch and the others are trained on. Every channel
of every trial is standardised by its own mean and standard deviation over time.

FILE holds three arrays, numpy.savez(FILE, x=x, y=y, subject=subject): x (trials, channels, time),
y the class and subject the subject of each trial, whole numbers or strings.

OUT holds metrics.json, predictions.csv, table.md, accuracy_by_subject.png, wavelets.png,
spectra.png, configuration.json and a folder for each run, runs/foldNN-MODEL-seedN, with its best
checkpoint.
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
        description="Classifies multi-channel recordings, leaving out one subject at a time.",
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    _add_recording_options(parser.add_argument_group("recordings"))
    _add_model_options(parser.add_argument_group("models"))
    training = parser.add_argument_group("training")
    add_training_options(training, EPOCHS, BATCH_SIZE, LEARNING_RATE, smallest_batch=2)
    add_result_options(parser.add_argument_group("results"), "runs/lfp, runs/lfp-NAME for --data")
    return parser


def _add_recording_options(group: argparse._ArgumentGroup) -> None:
    group.add_argument(
        "--data", type=nonempty, metavar="FILE", help="your own recordings, .npz (made ones)"
    )
    group.add_argument(
        "--rate",
        type=number(above=0),
        metavar="HZ",
        help=f"samples a second of --data ({RATE:g})",
    )
    group.add_argument(
        "--subjects", type=integer(2, 1000), metavar="N", help=f"made subjects ({SUBJECTS})"
    )
    group.add_argument(
        "--trials",
        type=integer(1, 100_000),
        metavar="N",
        help=f"made trials of each state and subject ({TRIALS})",
    )
    group.add_argument(
        "--amplitude",
        type=number(least=0),
        metavar="X",
        help=f"of the planted oscillations, relative to the noise ({AMPLITUDE})",
    )
    group.add_argument(
        "--data-seed", type=integer(0), metavar="N", help="of the made recordings (0)"
    )
    group.add_argument(
        "--folds",
        type=integer(1),
        metavar="N",
        help=f"leave out the first N subjects in turn ({QUICK_FOLDS}; all with --data or --full)",
    )
    group.add_argument("--full", action="store_true", help="all cells and all subjects")


def _add_model_options(group: argparse._ArgumentGroup) -> None:
    group.add_argument(
        "--models",
        "--model",
        nargs="+",
        choices=MODELS,
        metavar="NAME",
        help=f"one or more of {', '.join(MODELS)} ({' '.join(QUICK_MODELS)})",
    )
    group.add_argument(
        "--filters",
        choices=FILTERS,
        default="syncnet",
        help="wavelets of a learned frequency, with an amplitude and a phase a channel; or a "
        "weight a channel and sample (syncnet)",
    )
    group.add_argument(
        "--ngram",
        type=integer(1, LARGEST_WIDTH),
        default=NGRAM,
        metavar="N",
        help=f"samples that a filter reads ({NGRAM})",
    )
    group.add_argument(
        "--hidden",
        type=integer(1, LARGEST_WIDTH),
        default=HIDDEN,
        metavar="N",
        help=f"filters ({HIDDEN})",
    )
    group.add_argument(
        "--pooling",
        choices=POOLINGS,
        default="power",
        help="of a filter's output over time: logarithm of the mean square, or maximum of the "
        "positive part (power)",
    )
    group.add_argument(
        "--layer-norm",
        action=argparse.BooleanOptionalAction,
        default=True,
        help="normalise the memory over filters where the output reads it (yes)",
    )


def _check_options(options: argparse.Namespace) -> None:
    """Refuses options that contradict each other or would have no effect."""
    made = ("subjects", "trials", "amplitude", "data_seed")
    if options.data is None and options.rate is not None:
        raise InputError("--rate goes with --data; made recordings have 1000 Hz")
    for option in made:
        if options.data is not None and getattr(options, option) is not None:
            raise InputError(f"--{option.replace('_', '-')} goes with made recordings, not --data")
    for option in ("models", "folds"):
        if options.full and getattr(options, option) is not None:
            raise InputError(f"--full and --{option} exclude each other")


def _compare(options: argparse.Namespace) -> int:
    check_training_options(options)
    _check_options(options)
    with naming_extras("bench"):
        from benchmarks.harness.collective import in_turn
        from benchmarks.harness.experiment import Experiment
        from benchmarks.harness.lfp.data import RecordingChoice, leave_one_out, load_recordings
        from benchmarks.harness.lfp.report import (
            describe,
            recording_tables,
            write_recording_report,
        )
        from benchmarks.harness.lfp.task import recording_model_configs, recording_tasks
    if options.data is not None:
        choice = RecordingChoice(options.data, options.rate or RATE)
    else:
        choice = RecordingChoice(
            subjects=options.subjects or SUBJECTS,
            trials=options.trials or TRIALS,
            amplitude=AMPLITUDE if options.amplitude is None else options.amplitude,
            seed=options.data_seed or 0,
        )
    recordings = in_turn(lambda: load_recordings(choice))
    tasks = recording_tasks(choice, recordings, leave_one_out(recordings))
    chosen = dict(list(tasks.items())[: _number_of_folds(options, len(tasks))])
    options.dataset = DATASETS[options.data is not None]
    name = "lfp" if options.data is None else f"lfp-{Path(options.data).stem}"
    experiment = Experiment(
        task=next(iter(tasks.values())),
        models=recording_model_configs(
            dict.fromkeys(MODELS if options.full else options.models or QUICK_MODELS),
            recordings,
            options.hidden,
            options.filters,
            options.ngram,
            options.pooling,
            options.layer_norm,
        ),
        seeds=list(dict.fromkeys(options.seeds)),
        training=training_config(options, EPOCHS, BATCH_SIZE, LEARNING_RATE),
        out=Path(options.out or f"runs/{name}"),
        folds=chosen,
        arguments=options.arguments,
    )
    experiment.check()
    experiment.open_folder(options.resume, options.overwrite)
    experiment.carry_out(
        describe(recordings),
        lambda runs: "\n\n".join(table.text() for table in recording_tables(runs, recordings)),
        lambda runs: write_recording_report(experiment.out, runs, tasks, recordings),
        options.quiet,
    )
    return 0


def _number_of_folds(options: argparse.Namespace, subjects: int) -> int:
    if options.folds is None:
        return subjects if options.full or options.data is not None else QUICK_FOLDS
    if options.folds > subjects:
        raise InputError(f"--folds {options.folds}: there are {subjects} subjects")
    return int(options.folds)


if __name__ == "__main__":
    sys.exit(main())
