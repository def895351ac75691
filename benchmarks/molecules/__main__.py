"""``python -m benchmarks.molecules``: compares models of molecules, and gathers finished runs.

Heavy imports happen after the options have been read.
"""

import sys
from functools import partial
from pathlib import Path

from benchmarks.harness.errors import InputError, as_input_error, naming_extras, say, tell
from benchmarks.harness.options import Command, run_commands
from benchmarks.molecules.options import Gather, Options

PROGRAM = "benchmarks.molecules"
PACKAGES = ("torch", "torch-geometric", "lightning", "rdkit", "numpy", "scikit-learn")
DETAILS = """\
To gather all results below a folder into one Markdown and one HTML page:
  python -m benchmarks.molecules report DIR
To predict or explain new molecules with a trained run:
  pyg-kernels predict OUT/runs/DATA-SPLIT-MODEL-seedN new.csv --out predicted.csv

OUT holds metrics.json, predictions.csv, table.md, report.html, pictures, configuration.json and a
folder for each run.
Exit status: 0 done, 1 damaged results were left out of a report, 2 bad input, 130 interrupted.
"""


def compare(options: Options) -> None:
    """Fits models of molecules on one or more splits and compares them in one table."""
    with naming_extras("mol,bench"):
        import torch

        import pyg_kernels.chem  # noqa: F401
        from benchmarks.harness.study import Study
        from benchmarks.molecules import report, runs
        from pyg_kernels.ops import backend
    cells = [] if options.report else runs.planned(options)
    splits = [cell.split for cell in cells]
    digests = {f"data {split.key}": split.digest for split in splits}
    facts = {"backend": backend(), "threads": torch.get_num_threads()}
    out = Path(options.out or "runs/molecules")
    study = Study(PROGRAM, options, out, digests, PACKAGES, report.FILES, facts=facts)
    study.open()
    runs.write_skipped(out, splits)
    progress = options.show() == "bar"
    study.run(cells, lambda cell, folder: cell.write(folder, progress), outcome=runs.outcome)
    found, damaged = report.read_cells(out)
    if damaged:
        raise InputError(f"{damaged[0]}; remove its folder to fit this run again")
    runs.write_predictions(out, [cell.folder for cell in found])
    study.finish(report.report(found), [cell.record for cell in found])


def gather(options: Gather) -> int:
    """Gathers all runs below a folder into table.md with pictures, and report.html, one file."""
    with naming_extras("mol,bench"):
        from benchmarks.harness.study import write_report
        from benchmarks.molecules import report
    folder = Path(options.folder)
    out = Path(options.out or folder)
    if not folder.is_dir():
        raise InputError(f"{folder}: no such folder")
    cells, damaged = report.read_cells(folder)
    if not cells:
        raise InputError(f"{folder}: no finished run of {PROGRAM} below it")
    notes = [f"left out: {line}" for line in damaged]
    notes += [f"unfinished: {line}" for line in report.unfinished_runs(folder)]
    shown = report.report(cells, notes)
    with as_input_error():
        out.mkdir(parents=True, exist_ok=True)
        write_report(out, shown.tables, shown.pictures, notes)
        shown.write(out)
    say("\n\n".join(table.text() for table in shown.tables))
    for line in notes:
        tell(f"{PROGRAM}: {line}")
    say(f"\ntable.md and report.html in {out}")
    return 1 if damaged else 0


COMMANDS = {
    "": Command(Options, compare, DETAILS),
    "report": Command(Gather, gather),
}
main = partial(run_commands, PROGRAM, COMMANDS)

if __name__ == "__main__":
    sys.exit(main())
