"""Classification of texts: an RCNN beside an LSTM and a CNN, or recurrent kernel machines.

``python -m benchmarks.text_classification --help``. Heavy imports happen after the arguments have
been read: ``--help`` and a misspelt option answer at once.
"""

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from benchmarks.harness.arguments import check_training_options, exit_status, training_config
from benchmarks.harness.errors import InputError, naming_extras
from benchmarks.harness.text.choices import (
    dataset_of,
    model_names,
    model_options,
    text_choice,
)
from benchmarks.harness.text.names import (
    BATCH_SIZE,
    EPOCHS,
    LEARNING_RATE,
    PROGRAM,
)
from benchmarks.harness.text.options import compare_options, predict_parser


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs the command line.

    Args:
        arguments: The words after the program's name; ``None``: those of this process.

    Returns:
        The exit status: 0 done, 1 training diverged, 2 bad input, 130 interrupted.
    """
    words = list(sys.argv[1:] if arguments is None else arguments)
    if words[:1] == ["predict"]:
        return exit_status(PROGRAM, lambda: _predict(predict_parser().parse_args(words[1:])))
    return exit_status(PROGRAM, lambda: _compare(compare_options(words)), several=True)


def _compare(options: argparse.Namespace) -> int:
    check_training_options(options)
    options.dataset = dataset_of(options)
    names, chosen = model_names(options), text_choice(options)
    cells = names[0].endswith("gram")
    with naming_extras("bench"):
        from benchmarks.harness.collective import in_turn
        from benchmarks.harness.experiment import Experiment
        from benchmarks.harness.text.data import TextChoice, load_texts
        from benchmarks.harness.text.report import describe, tables, write_text_report
        from benchmarks.harness.text.task import TextTask, text_model_configs
    data = in_turn(lambda: load_texts(TextChoice(**chosen)))
    if options.embedding and data.glove:
        raise InputError(f"--embedding goes with --vectors none; {data.glove} has its own size")
    if options.unit_norm and not data.glove and "unit_norm" not in options.filled_in:
        raise InputError("--unit-norm goes with a file of word vectors")
    if options.tune_vectors and not data.glove:
        raise InputError("--tune-vectors goes with a file of word vectors; others are trained")
    experiment = Experiment(
        task=TextTask(data),
        models=text_model_configs(names, data, **model_options(options, cells)),
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


def _predict(options: argparse.Namespace) -> int:
    with naming_extras("bench"):
        from benchmarks.harness.text.prediction import predict
    predict(options)
    return 0


if __name__ == "__main__":
    sys.exit(main())
