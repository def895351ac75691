"""Exact attributions of predictions, beside other explainers: molecules and sentences.

``python -m benchmarks.explanations --help``. Heavy imports happen after the options have been read:
``--help`` and a misspelt option answer at once.
"""

import sys
from collections.abc import Sequence

from benchmarks.harness.arguments import exit_status
from benchmarks.harness.errors import naming_extras, say
from benchmarks.harness.explanations.options import Options
from benchmarks.harness.flags import parsed

PROGRAM = "benchmarks.explanations"
DESCRIPTION = """\
Trains a Weisfeiler-Lehman kernel network on the number of a functional group in molecules, explains
its predictions with several methods, and compares these by the atoms that they find; draws what
adds up to its predictions, to those of measured targets and, with --text-root, to what an RCNN
makes of sentences.
"""
EPILOG = """\
OUT holds metrics.json, table.md, explanations.html, planted.png, molecules.png, sentence-N.png,
configuration.json, runs/ with the trained networks and explained/ with what each method says.
Exit status: 0 done, 1 training diverged, 2 bad input, 130 interrupted.
"""


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs the command line.

    Args:
        arguments: The words after the program's name; ``None``: those of this process.

    Returns:
        The exit status: 0 done, 1 training diverged, 2 bad input, 130 interrupted.
    """
    words = list(sys.argv[1:] if arguments is None else arguments)
    return exit_status(PROGRAM, lambda: _command(words))


def _command(words: Sequence[str]) -> int:
    options, said = parsed(Options, PROGRAM, DESCRIPTION, EPILOG, words)
    with naming_extras("mol,bench"):
        import captum  # noqa: F401

        import pyg_kernels.chem  # noqa: F401
        from benchmarks.harness.explanations.report import table
        from benchmarks.harness.explanations.study import Study
    study = Study(options)
    study.open_folder(said)
    if not options.quiet:
        say(study.measured.describe())
    results = study.carry_out()
    say(table(results).text())
    if not options.quiet:
        say(f"\npage and pictures in {study.out}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
