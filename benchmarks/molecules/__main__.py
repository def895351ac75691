"""``python -m benchmarks.molecules``: compares models of molecules, gathers what was compared.

Heavy imports happen after the options have been read: ``--help`` and a misspelt option answer at
once.
"""

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from benchmarks.harness.arguments import OneLineParser, exit_status, nonempty
from benchmarks.harness.errors import InputError, as_input_error, naming_extras, say, tell
from benchmarks.harness.flags import parsed
from benchmarks.molecules.options import Options

PROGRAM = "benchmarks.molecules"
DESCRIPTION = "Fits models of molecules on one or more splits and compares them in one table."
EPILOG = """\
To gather all results below a folder into one Markdown and one HTML page:
  python -m benchmarks.molecules report DIR
To predict or explain new molecules with a run:
  pyg-kernels predict OUT/runs/DATA-SPLIT-MODEL-seedN new.csv --out predicted.csv
Several processes train together: torchrun --nproc-per-node 2 -m benchmarks.molecules ...

OUT holds metrics.json, predictions.csv, table.md, report.html, pictures, configuration.json and a
folder for each run.
Exit status: 0 done, 1 damaged results were left out of a report, 2 bad input, 130 interrupted.
"""


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs the command line.

    Args:
        arguments: The words after the program's name; None: those of this process.

    Returns:
        The exit status.
    """
    words = list(sys.argv[1:] if arguments is None else arguments)
    if words[:1] == ["report"]:
        return exit_status(PROGRAM, lambda: _report(report_parser().parse_args(words[1:])))
    return exit_status(PROGRAM, lambda: _compare(words), several=True)


def _compare(words: Sequence[str]) -> int:
    options, said = parsed(Options, PROGRAM, DESCRIPTION, EPILOG, words)
    with naming_extras("mol,bench"):
        import pyg_kernels.chem  # noqa: F401
        from benchmarks.molecules.runs import compare
    compare(options, said)
    return 0


def report_parser() -> argparse.ArgumentParser:
    """The options that gather results."""
    parser = OneLineParser(
        PROGRAM,
        prog=f"python -m {PROGRAM} report",
        description="Gathers all runs below a folder into table.md, with pictures beside it, and "
        "report.html, which needs nothing besides itself.",
    )
    parser.add_argument("folder", type=nonempty, metavar="DIR", help="searched with all below it")
    parser.add_argument("--out", type=nonempty, metavar="DIR", help="(the folder searched)")
    return parser


def _report(options: argparse.Namespace) -> int:
    with naming_extras("mol,bench"):
        from benchmarks.molecules.report import read_cells, unfinished_runs, write_report
    folder, out = Path(options.folder), Path(options.out or options.folder)
    if not folder.is_dir():
        raise InputError(f"{folder}: no such folder")
    cells, damaged = read_cells([folder])
    if not cells:
        raise InputError(f"{folder}: no finished run of {PROGRAM} below it")
    unfinished = unfinished_runs(folder)
    notes = [f"left out: {line}" for line in damaged]
    notes += [f"unfinished: {line}" for line in unfinished]
    with as_input_error():
        sections = write_report([folder], out, notes)
    for section in sections:
        say(section.text() + "\n")
    for line in notes:
        tell(f"{PROGRAM}: {line}")
    say(f"table.md and report.html in {out}")
    return 1 if damaged else 0


if __name__ == "__main__":
    sys.exit(main())
