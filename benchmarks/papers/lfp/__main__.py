"""``python -m benchmarks.papers.lfp``: finds a subject's state from a second of many channels.

Heavy imports happen after the options have been read.
"""

import sys
from functools import partial
from pathlib import Path

from benchmarks.harness.errors import naming_extras
from benchmarks.harness.options import Command, run_commands
from benchmarks.papers.lfp.options import Lfp

PROGRAM = "benchmarks.papers.lfp"
DETAILS = """\
Recordings are made of known oscillations in 1/f noise by default, and this is quick: three cells,
two of six subjects left out. --preset full runs all cells, leaving out every subject. When one is
left out, the next one (after the last, the first) chooses the epoch and all others are trained on.
Every channel of every trial is standardised by its own mean and standard deviation over time.

FILE holds three arrays, numpy.savez(FILE, x=x, y=y, subject=subject): x (trials, channels, time),
y with the class and subject with the subject of each trial, both whole numbers or strings.

OUT holds metrics.json, predictions.csv, table.md, wavelets.png, spectra.png, configuration.json
and a folder for each run, runs/foldNN-MODEL-seedN, with its best checkpoint.
Exit status: 0 done, 1 training diverged, 2 bad input, 130 interrupted.
"""


def carry_out(options: Lfp) -> None:
    """Classifies multi-channel recordings, leaving out one subject at a time."""
    with naming_extras("bench"):
        from benchmarks.harness.experiment import Experiment
        from benchmarks.papers.lfp import task
    recordings = task.load_recordings(options)
    tasks = task.recording_tasks(recordings)
    folds = dict(list(tasks.items())[: options.number_of_folds(len(tasks))])
    name = "lfp" if options.data is None else f"lfp-{Path(options.data).stem}"
    experiment = Experiment(
        program=PROGRAM,
        options=options,
        out=Path(options.out or f"runs/{name}"),
        task=next(iter(folds.values())),
        models=task.model_configs(options, recordings),
        training=options.training(),
        folds=folds,
        files=task.FILES,
    )
    experiment.carry_out(
        lambda runs: task.report(experiment.study, runs, recordings), task.describe(recordings)
    )


main = partial(run_commands, PROGRAM, {"": Command(Lfp, carry_out, DETAILS)})

if __name__ == "__main__":
    sys.exit(main())
