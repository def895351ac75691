"""``python -m benchmarks.papers.lfp``: which state is a subject in, by a second of many channels?

Heavy imports happen after the options have been read.
"""

import sys
from collections.abc import Sequence
from pathlib import Path

from benchmarks.harness.errors import naming_extras, say
from benchmarks.harness.options import Command, run_command
from benchmarks.papers.lfp.options import CELLS, Lfp

PROGRAM = "benchmarks.papers.lfp"
DETAILS = """\
The default is made of known oscillations in 1/f noise, and quick: three cells, two of six subjects
left out. --preset full runs all cells and leaves out every subject. While one subject is left out,
the next one (after the last, the first) chooses the epoch and the others are trained on. Every
channel of every trial is standardised by its own mean and standard deviation over time.

FILE holds three arrays, numpy.savez(FILE, x=x, y=y, subject=subject): x (trials, channels, time),
y the class and subject the subject of each trial, whole numbers or strings.

OUT holds metrics.json, predictions.csv, table.md, wavelets.png, spectra.png, configuration.json
and a folder for each run, runs/foldNN-MODEL-seedN, with its best checkpoint.
Exit status: 0 done, 1 training diverged, 2 bad input, 130 interrupted.
"""


def main(words: Sequence[str] | None = None) -> int:
    """Runs the command line and gives the exit status."""
    return run_command(PROGRAM, COMMAND, words)


def carry_out(options: Lfp) -> None:
    """Trains what has not been trained yet, prints the tables and writes the report."""
    with naming_extras("bench"):
        from benchmarks.harness.collective import in_all, in_turn
        from benchmarks.harness.study import Study
        from benchmarks.papers.lfp import report, task
        from benchmarks.papers.lfp.data import leave_one_out, load_recordings
    recordings = in_turn(lambda: load_recordings(options))
    folds = leave_one_out(recordings)
    tasks = task.recording_tasks(recordings, folds)
    chosen = list(tasks.items())[: options.number_of_folds(len(tasks))]
    cells = in_all(lambda: task.cells(options, chosen))
    name = "lfp" if options.data is None else f"lfp-{Path(options.data).stem}"
    identity = {"number": len(recordings), "digest": recordings.digest()}
    packages = ("torch", "torch-geometric", "lightning", "numpy")
    out = Path(options.out or f"runs/{name}")
    study = Study(PROGRAM, options, out, identity, packages, report.FILES)
    study.open()
    if not options.quiet:
        say(report.describe(recordings))
    study.run(cells, task.trained)
    places = {subject: place for place, subject in enumerate(recordings.subjects)}
    records = sorted(
        study.records(), key=lambda r: (CELLS.index(r["model"]), places[r["subject"]], r["seed"])
    )
    pictures = report.pictures(study, records, recordings)
    tables = report.tables(records, recordings)
    study.finish(tables, pictures, records, lambda: report.write_predictions(study))


COMMAND = Command(
    Lfp,
    carry_out,
    "Classifies multi-channel recordings, leaving out one subject at a time.",
    DETAILS,
    several=True,
)

if __name__ == "__main__":
    sys.exit(main())
